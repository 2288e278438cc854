# The MPI functions between processes: every program over every kind of queue.
mpi_test_programs = tests/mp/mpi_sizes tests/mp/mpi_order tests/mp/mpi_semantics tests/mp/mpi_types tests/mp/mpi_comms \
	tests/mp/mpi_stress tests/mp/mpi_errors
check_PROGRAMS += $(mpi_test_programs)
tests_mp_mpi_sizes_SOURCES = tests/mp/mpi_sizes.c tests/mp/mpi_test.h
tests_mp_mpi_sizes_LDADD = libheddle.la
tests_mp_mpi_sizes_LDFLAGS = $(NOWRAP)
tests_mp_mpi_order_SOURCES = tests/mp/mpi_order.c tests/mp/mpi_test.h
tests_mp_mpi_order_LDADD = libheddle.la
tests_mp_mpi_order_LDFLAGS = $(NOWRAP)
tests_mp_mpi_semantics_SOURCES = tests/mp/mpi_semantics.c tests/mp/mpi_test.h
tests_mp_mpi_semantics_LDADD = libheddle.la
tests_mp_mpi_semantics_LDFLAGS = $(NOWRAP)
tests_mp_mpi_types_SOURCES = tests/mp/mpi_types.c tests/mp/mpi_test.h
tests_mp_mpi_types_LDADD = libheddle.la
tests_mp_mpi_types_LDFLAGS = $(NOWRAP)
tests_mp_mpi_comms_SOURCES = tests/mp/mpi_comms.c tests/mp/mpi_test.h
tests_mp_mpi_comms_LDADD = libheddle.la
tests_mp_mpi_comms_LDFLAGS = $(NOWRAP)
tests_mp_mpi_stress_SOURCES = tests/mp/mpi_stress.c tests/mp/mpi_test.h
tests_mp_mpi_stress_LDADD = libheddle.la
tests_mp_mpi_stress_LDFLAGS = $(NOWRAP)
tests_mp_mpi_errors_SOURCES = tests/mp/mpi_errors.c tests/mp/mpi_test.h
tests_mp_mpi_errors_LDADD = libheddle.la
tests_mp_mpi_errors_LDFLAGS = $(NOWRAP)
mpi_test_scripts = tests/mp/mpi_run.sh tests/mp/mpi_errors.sh
TESTS += $(mpi_test_scripts)
EXTRA_DIST += $(mpi_test_scripts)
