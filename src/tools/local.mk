# heddle_info sees the devices as the library does: it is linked with the library's inside.
bin_PROGRAMS += heddle_info
heddle_info_SOURCES = src/tools/info.h src/tools/heddle_info.c src/tools/info_devices.c src/tools/info_doctor.c
heddle_info_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
heddle_info_LDFLAGS = $(NOWRAP) $(OPENMP_CFLAGS)

# Compiler wrappers: heddlecc and heddlec++ of the build tree use its headers and library, those below src/tools are
# installed and use the installed ones.
bin_SCRIPTS += src/tools/heddlecc src/tools/heddlec++
pkgconfig_DATA += src/tools/heddle.pc
noinst_SCRIPTS = heddlecc heddlec++
EXTRA_DIST += src/tools/heddlecc.in src/tools/heddle.pc.in
CLEANFILES += $(bin_SCRIPTS) $(noinst_SCRIPTS) src/tools/heddle.pc

wrapper_in = $(srcdir)/src/tools/heddlecc.in
wrapper_edit = $(SED) -e 's|@version[@]|$(PACKAGE_VERSION)|g'
wrapper_cc = -e 's|@name[@]|heddlecc|g' -e 's|@variable[@]|HEDDLE_CC|g' -e 's|@compiler[@]|$(CC)|g'
wrapper_cxx = -e 's|@name[@]|heddlec++|g' -e 's|@variable[@]|HEDDLE_CXX|g' -e 's|@compiler[@]|$(CXX)|g'
wrapper_built = -e 's|@where[@]|in the build tree|' \
	-e 's|@compile[@]|-I$(HEDDLE_ABS_BUILDDIR)/include -I$(abs_top_srcdir)/include|' \
	-e 's|@link[@]|-L$(HEDDLE_ABS_BUILDDIR)/.libs -Wl,-rpath,$(HEDDLE_ABS_BUILDDIR)/.libs -lheddle|'
wrapper_installed = -e 's|@where[@]|installed|' -e 's|@compile[@]|-I$(includedir)|' \
	-e 's|@link[@]|-L$(libdir) -Wl,-rpath,$(libdir) -lheddle|'
wrapper_done = >$@.tmp && chmod +x $@.tmp && mv -f $@.tmp $@

heddlecc: $(wrapper_in) Makefile
	$(AM_V_GEN)$(wrapper_edit) $(wrapper_cc) $(wrapper_built) $(wrapper_in) $(wrapper_done)
heddlec++: $(wrapper_in) Makefile
	$(AM_V_GEN)$(wrapper_edit) $(wrapper_cxx) $(wrapper_built) $(wrapper_in) $(wrapper_done)
src/tools/heddlecc: $(wrapper_in) Makefile
	$(AM_V_GEN)$(MKDIR_P) src/tools && $(wrapper_edit) $(wrapper_cc) $(wrapper_installed) $(wrapper_in) $(wrapper_done)
src/tools/heddlec++: $(wrapper_in) Makefile
	$(AM_V_GEN)$(MKDIR_P) src/tools && $(wrapper_edit) $(wrapper_cxx) $(wrapper_installed) $(wrapper_in) $(wrapper_done)
src/tools/heddle.pc: $(srcdir)/src/tools/heddle.pc.in Makefile
	$(AM_V_GEN)$(MKDIR_P) src/tools && $(wrapper_edit) -e 's|@prefix[@]|$(prefix)|' -e 's|@exec_prefix[@]|$(exec_prefix)|' \
		-e 's|@libdir[@]|$(libdir)|' -e 's|@includedir[@]|$(includedir)|' $(srcdir)/src/tools/heddle.pc.in >$@.tmp && \
		mv -f $@.tmp $@
# Parts of this folder.

# Looks into the fabrics of the software HCA.
bin_PROGRAMS += shcactl
shcactl_SOURCES = src/tools/shcactl.c
shcactl_LDADD = libshca_core.la
shcactl_LDFLAGS = $(NOWRAP)
