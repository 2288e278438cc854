# One-sided communication.
check_PROGRAMS += tests/mp/rma_smoke
tests_mp_rma_smoke_SOURCES = tests/mp/rma_smoke.c tests/mp/mpi_test.h
tests_mp_rma_smoke_LDADD = libheddle.la
tests_mp_rma_smoke_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/rma_smoke_named
tests_mp_rma_smoke_named_SOURCES = tests/mp/rma_smoke.c tests/mp/rma_segment_refused.c tests/mp/mpi_test.h
tests_mp_rma_smoke_named_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_rma_smoke_named_LDFLAGS = $(NOWRAP) -Wl,--wrap=hdl_segment_open
check_PROGRAMS += tests/mp/rma_death
tests_mp_rma_death_SOURCES = tests/mp/rma_death.c tests/mp/survivors.h
tests_mp_rma_death_LDADD = libheddle.la
tests_mp_rma_death_LDFLAGS = $(NOWRAP)
rma_tests = tests/mp/rma_smoke.sh tests/mp/rma_death.sh
TESTS += $(rma_tests)
EXTRA_DIST += $(rma_tests)
