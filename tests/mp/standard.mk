# What the chapters of the MPI standard say and show, a program each.
standard_programs = tests/mp/standard_ptp tests/mp/standard_types tests/mp/standard_coll tests/mp/standard_comms \
	tests/mp/standard_topo tests/mp/standard_env tests/mp/standard_forms
standard_sources = tests/mp/standard.h tests/mp/mpi_test.h
check_PROGRAMS += $(standard_programs)
tests_mp_standard_ptp_SOURCES = tests/mp/standard_ptp.c tests/mp/standard_ptp.h tests/mp/standard_ptp_requests.c \
	$(standard_sources)
tests_mp_standard_ptp_LDADD = libheddle.la
tests_mp_standard_ptp_LDFLAGS = $(NOWRAP)
tests_mp_standard_types_SOURCES = tests/mp/standard_types.c $(standard_sources)
tests_mp_standard_types_LDADD = libheddle.la
tests_mp_standard_types_LDFLAGS = $(NOWRAP)
tests_mp_standard_coll_SOURCES = tests/mp/standard_coll.c $(standard_sources)
tests_mp_standard_coll_LDADD = libheddle.la
tests_mp_standard_coll_LDFLAGS = $(NOWRAP)
tests_mp_standard_comms_SOURCES = tests/mp/standard_comms.c $(standard_sources)
tests_mp_standard_comms_LDADD = libheddle.la
tests_mp_standard_comms_LDFLAGS = $(NOWRAP)
tests_mp_standard_forms_SOURCES = tests/mp/standard_forms.c $(standard_sources)
tests_mp_standard_forms_LDADD = libheddle.la
tests_mp_standard_forms_LDFLAGS = $(NOWRAP)
tests_mp_standard_topo_SOURCES = tests/mp/standard_topo.c $(standard_sources)
tests_mp_standard_topo_LDADD = libheddle.la
tests_mp_standard_topo_LDFLAGS = $(NOWRAP)
tests_mp_standard_env_SOURCES = tests/mp/standard_env.c $(standard_sources)
tests_mp_standard_env_LDADD = libheddle.la
tests_mp_standard_env_LDFLAGS = $(NOWRAP) -pthread
TESTS += tests/mp/standard.sh
EXTRA_DIST += tests/mp/standard.sh
