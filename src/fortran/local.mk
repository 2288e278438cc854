# The Fortran bindings: libmpifort_abi, C above the ABI library only; the modules, which have no code; mpif.h. All of it is made of
# src/mpi/functions.def when it is built.
EXTRA_DIST += src/fortran/fortran.awk src/fortran/fortran.def src/fortran/mpi_f08_types.f90.in src/fortran/mpi_f08.f90.in \
	src/fortran/mpi.f90.in src/fortran/mpif.h.in
fortran_c_sources = src/fortran/mpifort.h src/fortran/special.h src/fortran/calls.c src/fortran/pcalls.c src/fortran/convert.c \
	src/fortran/descriptor.c src/fortran/requests.c src/fortran/callbacks.c src/fortran/attribute.c src/fortran/abi.c
fortran_texts = src/fortran/mpi_f08_types.f90 src/fortran/mpi_f08.f90 src/fortran/mpi.f90
fortran_modules = src/fortran/mpi_f08_types.mod src/fortran/mpi_f08.mod src/fortran/mpi.mod
fortran_made = src/fortran/made_calls.h src/fortran/names.list src/fortran/mpif.h $(fortran_texts)
CLEANFILES += $(fortran_made) src/fortran/fortran.stamp $(fortran_modules) src/fortran/mpi_f08_types.o src/fortran/mpi_f08.o \
	src/fortran/mpi.o src/fortran/names.checked

fortran_table = $(srcdir)/src/fortran/fortran.def
fortran_awk = $(srcdir)/src/fortran/fortran.awk
fortran_make = LC_ALL=C $(AWK) -f $(mpi_list_awk) -f $(fortran_awk) -v make
fortran_input = $(mpi_list) $(fortran_table) $(srcdir)/include/mpi.h.in

if FORTRAN
lib_LTLIBRARIES += libmpifort_abi.la
libmpifort_abi_la_SOURCES = $(fortran_c_sources)
libmpifort_abi_la_LIBADD = libmpi_abi.la
libmpifort_abi_la_LDFLAGS = -version-info 1:0:0 -no-undefined -Wl,-rpath,'$$ORIGIN'
BUILT_SOURCES += src/fortran/made_calls.h
nodist_include_HEADERS += src/fortran/mpif.h
fortranmoddir = $(libdir)/heddle/fortran
nodist_fortranmod_DATA = $(fortran_modules)
fortrantextdir = $(pkgdatadir)/fortran
nodist_fortrantext_DATA = $(fortran_texts)
noinst_DATA += src/fortran/names.checked
else
EXTRA_DIST += $(fortran_c_sources)
endif

src/fortran/fortran.stamp: $(fortran_input) $(mpi_list_awk) $(fortran_awk) $(srcdir)/src/fortran/mpi_f08_types.f90.in \
		$(srcdir)/src/fortran/mpi_f08.f90.in $(srcdir)/src/fortran/mpi.f90.in $(srcdir)/src/fortran/mpif.h.in
	$(AM_V_GEN)$(MKDIR_P) src/fortran && \
	$(fortran_make)=calls $(fortran_input) >src/fortran/made_calls.h.tmp && \
	$(fortran_make)=names $(fortran_input) >src/fortran/names.list.tmp && \
	$(fortran_make)=f08 $(fortran_input) $(srcdir)/src/fortran/mpi_f08_types.f90.in >src/fortran/mpi_f08_types.f90.tmp && \
	$(fortran_make)=f08 $(fortran_input) $(srcdir)/src/fortran/mpi_f08.f90.in >src/fortran/mpi_f08.f90.tmp && \
	$(fortran_make)=mpi $(fortran_input) $(srcdir)/src/fortran/mpi.f90.in >src/fortran/mpi.f90.tmp && \
	$(fortran_make)=mpif $(fortran_input) $(srcdir)/src/fortran/mpif.h.in >src/fortran/mpif.h.tmp && \
	for f in $(fortran_made); do if cmp -s $$f.tmp $$f; then rm -f $$f.tmp; else mv -f $$f.tmp $$f; fi || exit; done && \
	touch $@
$(fortran_made): src/fortran/fortran.stamp
	@test -f $@ || { rm -f $< && $(MAKE) $<; }

# In this order: each uses those before it.
src/fortran/mpi_f08_types.mod: src/fortran/mpi_f08_types.f90
	$(AM_V_GEN)cd src/fortran && $(FC) -c mpi_f08_types.f90 && touch mpi_f08_types.mod
src/fortran/mpi_f08.mod: src/fortran/mpi_f08.f90 src/fortran/mpi_f08_types.mod
	$(AM_V_GEN)cd src/fortran && $(FC) -c mpi_f08.f90 && touch mpi_f08.mod
src/fortran/mpi.mod: src/fortran/mpi.f90 src/fortran/mpi_f08_types.mod
	$(AM_V_GEN)cd src/fortran && $(FC) -c mpi.f90 && touch mpi.mod

# The library has every linker name that the modules and the standard name (section 19.1.5).
src/fortran/names.checked: libmpifort_abi.la src/fortran/names.list
	$(AM_V_GEN)$(NM) -D --defined-only .libs/libmpifort_abi.so | $(AWK) 'FNR == NR { has[$$3] = 1; next } \
		!($$1 in has) { print "libmpifort_abi lacks " $$1; bad = 1 } END { exit bad }' - src/fortran/names.list && touch $@
