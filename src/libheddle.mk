# libheddle_internal holds everything below the MPI ABI, for unit tests; libheddle exports the ABI only, and each of its
# functions as hdl_abi_*, too.
noinst_LTLIBRARIES += libheddle_internal.la
libheddle_internal_la_SOURCES = $(verbs_exp_sources) $(runtime_sources) $(transport_sources) $(datatype_sources) \
	$(p2p_sources) $(collectives_sources) $(rma_sources) $(io_sources) $(mpi_sources) src/lines/lines.h src/libheddle.c
nodist_libheddle_internal_la_SOURCES = $(nodist_mpi_sources)
libheddle_internal_la_LIBADD = libshca_core.la $(BACKTRACE_LIBS)
libheddle_internal_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)

lib_LTLIBRARIES += libheddle.la
libheddle_la_SOURCES =
libheddle_la_LIBADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
libheddle_la_LDFLAGS = -version-info 0:0:0 -no-undefined -Wl,-z,nodelete -Wl,--exclude-libs,libbacktrace.a \
	$(HEDDLE_SEGMENT_LDFLAGS) $(OPENMP_CFLAGS)

# The library under the name that the MPI standard ABI gives it, for programs built for any implementation: a shared library
# of jumps into libheddle. With the code itself in it, a process that loads both, one for a program's sake and one for a
# library's, would have two of everything that is to be there once. It finds libheddle beside itself, wherever the two are moved.
lib_LTLIBRARIES += libmpi_abi.la
libmpi_abi_la_SOURCES =
nodist_libmpi_abi_la_SOURCES = src/mpi/forward.c
libmpi_abi_la_CFLAGS = $(AM_CFLAGS) -fno-plt
libmpi_abi_la_LIBADD = libheddle.la
libmpi_abi_la_LDFLAGS = -version-info 1:0:0 -no-undefined -Wl,-rpath,'$$ORIGIN'
