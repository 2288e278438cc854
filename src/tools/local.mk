# heddle_info sees the devices as the library does: linked with the inside of libheddle.
bin_PROGRAMS += heddle_info
heddle_info_SOURCES = src/tools/info.h src/tools/heddle_info.c src/tools/info_devices.c src/tools/info_doctor.c \
	src/tools/info_explain.c src/tools/info_functions.c
heddle_info_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
heddle_info_CPPFLAGS = $(AM_CPPFLAGS) -DHDL_PKGDATADIR='"$(pkgdatadir)"'
heddle_info_LDFLAGS = $(NOWRAP) $(OPENMP_CFLAGS)

# Compiler wrappers: those of the build tree use the headers and library of that tree, those below src/tools are installed
# and use the installed ones. heddlecc, heddlec++ and heddlefc link libheddle; mpicc_abi, mpicxx_abi and mpifort_abi link
# libmpi_abi, so that their programs run with any implementation of the MPI standard ABI.
wrappers = heddlecc heddlec++ mpicc_abi mpicxx_abi
installed_wrappers = src/tools/heddlecc src/tools/heddlec++ src/tools/mpicc_abi src/tools/mpicxx_abi
if FORTRAN
wrappers += heddlefc mpifort_abi
installed_wrappers += src/tools/heddlefc src/tools/mpifort_abi
fortran_names = mpifort:heddlefc mpif90:heddlefc mpif77:heddlefc
fortran_links = mpi/bin/mpifort mpi/bin/mpif90 mpi/bin/mpif77
endif
bin_SCRIPTS += $(installed_wrappers)
pkgconfig_DATA += src/tools/heddle.pc
noinst_SCRIPTS = $(wrappers)
EXTRA_DIST += src/tools/heddlecc.in src/tools/heddle.pc.in
CLEANFILES += $(bin_SCRIPTS) $(noinst_SCRIPTS) src/tools/heddle.pc

wrapper_in = $(srcdir)/src/tools/heddlecc.in
wrapper_built = -e 's|@where[@]|in the build tree|' \
	-e "s|@compile[@]|-I$(HEDDLE_ABS_BUILDDIR)/include -I$(abs_top_srcdir)/include$${fortran:+ $(FORTRAN_MISMATCH) -I$(HEDDLE_ABS_BUILDDIR)/src/fortran}|" \
	-e 's|@modules[@]|$(HEDDLE_ABS_BUILDDIR)/src/fortran|' -e 's|@texts[@]|$(HEDDLE_ABS_BUILDDIR)/src/fortran|' \
	-e "s|@link[@]|-L$(HEDDLE_ABS_BUILDDIR)/.libs -Wl,-rpath,$(HEDDLE_ABS_BUILDDIR)/.libs -l$$lib|"
wrapper_installed = -e 's|@where[@]|installed|' -e "s|@compile[@]|-I$(includedir)$${fortran:+ $(FORTRAN_MISMATCH) -I$(libdir)/heddle/fortran}|" \
	-e 's|@modules[@]|$(libdir)/heddle/fortran|' -e 's|@texts[@]|$(pkgdatadir)/fortran|' \
	-e "s|@link[@]|-L$(libdir) -Wl,-rpath,$(libdir) -l$$lib|"
wrapper_make = $(AM_V_GEN)$(MKDIR_P) $(@D) && \
	fortran= && \
	case $(@F) in *cc*) compiler='$(CC)' var=CC ;; *fc | *fort_abi) compiler='$(FC)' var=FC fortran=yes ;; *) compiler='$(CXX)' var=CXX ;; esac && \
	case $(@F) in heddle*) lib=heddle var=HEDDLE_$$var ;; *) lib=mpi_abi var=MPI_ABI_$$var ;; esac && \
	lib="$${fortran:+mpifort_abi -l}$$lib" && \
	$(SED) -e 's|@version[@]|$(PACKAGE_VERSION)|g' -e 's|@name[@]|$(@F)|g' -e "s|@variable[@]|$$var|g" \
		-e "s|@compiler[@]|$$compiler|g"
wrapper_done = $(wrapper_in) >$@.tmp && chmod +x $@.tmp && mv -f $@.tmp $@

$(wrappers): $(wrapper_in) Makefile
	$(wrapper_make) $(wrapper_built) $(wrapper_done)
$(installed_wrappers): $(wrapper_in) Makefile
	$(wrapper_make) $(wrapper_installed) $(wrapper_done)
src/tools/heddle.pc: $(srcdir)/src/tools/heddle.pc.in Makefile
	$(AM_V_GEN)$(MKDIR_P) src/tools && $(SED) -e 's|@version[@]|$(PACKAGE_VERSION)|g' -e 's|@prefix[@]|$(prefix)|' -e 's|@exec_prefix[@]|$(exec_prefix)|' \
		-e 's|@libdir[@]|$(libdir)|' -e 's|@includedir[@]|$(includedir)|' $(srcdir)/src/tools/heddle.pc.in >$@.tmp && \
		mv -f $@.tmp $@

# The names that build systems and scripts expect, in a directory of their own (MPI_HOME), so that they hide no other MPI's
# unless asked to; the installed ones are made by install-exec-hook.
mpi_names = mpicc:heddlecc mpicxx:heddlec++ mpic++:heddlec++ mpiCC:heddlec++ mpiexec:heddlerun mpirun:heddlerun \
	$(fortran_names)
mpi_links = mpi/bin/mpicc mpi/bin/mpicxx mpi/bin/mpic++ mpi/bin/mpiCC mpi/bin/mpiexec mpi/bin/mpirun \
	$(fortran_links)
noinst_DATA += $(mpi_links)
CLEANFILES += $(mpi_links)
$(mpi_links): $(wrappers) heddlerun$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) mpi/bin && for n in $(mpi_names); do \
		case $@ in mpi/bin/$${n%:*}) rm -f $@ && $(LN_S) ../../$${n#*:} $@ ;; esac || exit 1; done

# Parts of this folder.

# Looks into the fabrics of the software HCA.
bin_PROGRAMS += shcactl
shcactl_SOURCES = src/tools/shcactl.h src/tools/shcactl.c src/tools/shcactl_trace.c src/tools/packets.c \
	src/tools/pcapng.c
shcactl_LDADD = libshca_core.la
shcactl_LDFLAGS = $(NOWRAP)

# Verbs for Python: no build step; used from here or from where it is installed, by PYTHONPATH.
heddle_verbsdir = $(pkgdatadir)/python/heddle_verbs
dist_heddle_verbs_DATA = python/heddle_verbs/__init__.py python/heddle_verbs/ah.py python/heddle_verbs/errors.py python/heddle_verbs/path.py \
	python/heddle_verbs/poller.py python/heddle_verbs/pool.py python/heddle_verbs/ports.py python/heddle_verbs/queue.py python/heddle_verbs/sa.py \
	python/heddle_verbs/umad.py
