# Point-to-point, datatypes and the MPI functions over a mock of the transport and of the runtime.
if HAVE_CRITERION
p2p_unit_tests = tests/unit/datatype_types tests/unit/datatype_layouts tests/unit/p2p_match tests/unit/p2p_ops \
	tests/unit/p2p_jobs tests/unit/p2p_handshake tests/unit/mpi_calls
check_PROGRAMS += $(p2p_unit_tests)
TESTS += $(p2p_unit_tests)
p2p_mock_sources = tests/unit/p2p_mock.c tests/unit/p2p_mock.h $(p2p_sources) $(datatype_sources) src/runtime/leaks.c \
	src/runtime/threads.h src/runtime/threads.c src/runtime/syscalls.h src/runtime/syscalls.c src/runtime/jobs.h \
	src/runtime/jobs.c src/runtime/soft.c
tests_unit_datatype_types_SOURCES = tests/unit/datatype_types.c tests/unit/datatype_map.h $(datatype_sources)
tests_unit_datatype_types_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_datatype_types_LDADD = $(CRITERION_LIBS)
tests_unit_datatype_layouts_SOURCES = tests/unit/datatype_layouts.c tests/unit/datatype_map.h $(datatype_sources)
tests_unit_datatype_layouts_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_datatype_layouts_LDADD = $(CRITERION_LIBS)
tests_unit_p2p_match_SOURCES = tests/unit/p2p_match.c $(p2p_mock_sources)
tests_unit_p2p_match_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_p2p_match_LDADD = $(CRITERION_LIBS)
tests_unit_p2p_ops_SOURCES = tests/unit/p2p_ops.c tests/unit/p2p_ops.h tests/unit/p2p_failures.c tests/unit/p2p_unexpected.c \
	tests/unit/p2p_comms.c $(p2p_mock_sources)
tests_unit_p2p_ops_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_p2p_ops_LDADD = $(CRITERION_LIBS)
tests_unit_p2p_jobs_SOURCES = tests/unit/p2p_jobs.c $(p2p_mock_sources)
tests_unit_p2p_jobs_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_p2p_jobs_LDADD = $(CRITERION_LIBS)
tests_unit_p2p_handshake_SOURCES = tests/unit/p2p_handshake.c $(p2p_mock_sources)
tests_unit_p2p_handshake_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_p2p_handshake_LDADD = $(CRITERION_LIBS)
tests_unit_mpi_calls_SOURCES = tests/unit/mpi_calls.c $(io_sources) $(mpi_sources) $(p2p_mock_sources)
nodist_tests_unit_mpi_calls_SOURCES = $(nodist_mpi_sources)
tests_unit_mpi_calls_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_mpi_calls_LDADD = $(CRITERION_LIBS) $(HWLOC_LIBS)
endif
TESTS += tests/unit/mpi_locked.sh
EXTRA_DIST += tests/unit/mpi_locked.sh
# mpi.h and the libraries against the ABI.
check_PROGRAMS += tests/unit/mpi_abi
tests_unit_mpi_abi_SOURCES = tests/unit/mpi_abi.c tests/unit/mpi_abi_values.def tests/unit/mpi_abi_functions.def
tests_unit_mpi_abi_LDADD = libmpi_abi.la
tests_unit_mpi_abi_LDFLAGS = $(NOWRAP)
TESTS += tests/unit/mpi_abi tests/unit/mpi_abi.sh
EXTRA_DIST += tests/unit/mpi_abi.sh
check_PROGRAMS += tests/unit/mpi_env
tests_unit_mpi_env_SOURCES = tests/unit/mpi_env.c
tests_unit_mpi_env_LDADD = libheddle.la
tests_unit_mpi_env_LDFLAGS = $(NOWRAP)
TESTS += tests/unit/mpi_env
