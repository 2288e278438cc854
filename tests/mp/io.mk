# Files.
check_PROGRAMS += tests/mp/io_smoke tests/mp/io_smoke_hosts tests/mp/io_random
tests_mp_io_smoke_SOURCES = tests/mp/io_smoke.c tests/mp/mpi_test.h
tests_mp_io_smoke_LDADD = libheddle.la
tests_mp_io_smoke_LDFLAGS = $(NOWRAP)
tests_mp_io_smoke_hosts_SOURCES = $(tests_mp_io_smoke_SOURCES) tests/mp/hosts_played.c
tests_mp_io_smoke_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_io_smoke_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_io_random_SOURCES = tests/mp/io_random.c tests/mp/mpi_test.h
tests_mp_io_random_LDADD = libheddle.la
tests_mp_io_random_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/io_threads
tests_mp_io_threads_SOURCES = tests/mp/io_threads.c tests/mp/mpi_test.h
tests_mp_io_threads_LDADD = libheddle.la
tests_mp_io_threads_LDFLAGS = $(NOWRAP) -pthread
TESTS += tests/mp/io.sh
EXTRA_DIST += tests/mp/io.sh
