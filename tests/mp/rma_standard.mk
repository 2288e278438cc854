# One-sided communication, by chapter 12 of the standard.
rma_standard_programs = tests/mp/rma_windows tests/mp/rma_comm tests/mp/rma_sync tests/mp/rma_errors tests/mp/rma_atomic tests/mp/rma_progress \
	tests/mp/rma_large
rma_standard_sources = tests/mp/rma_test.h tests/mp/standard.h tests/mp/mpi_test.h
check_PROGRAMS += $(rma_standard_programs)
tests_mp_rma_windows_SOURCES = tests/mp/rma_windows.c $(rma_standard_sources)
tests_mp_rma_windows_LDADD = libheddle.la
tests_mp_rma_windows_LDFLAGS = $(NOWRAP)
tests_mp_rma_comm_SOURCES = tests/mp/rma_comm.c $(rma_standard_sources)
tests_mp_rma_comm_LDADD = libheddle.la
tests_mp_rma_comm_LDFLAGS = $(NOWRAP)
tests_mp_rma_sync_SOURCES = tests/mp/rma_sync.c $(rma_standard_sources)
tests_mp_rma_sync_LDADD = libheddle.la
tests_mp_rma_sync_LDFLAGS = $(NOWRAP)
tests_mp_rma_errors_SOURCES = tests/mp/rma_errors.c $(rma_standard_sources)
tests_mp_rma_errors_LDADD = libheddle.la
tests_mp_rma_errors_LDFLAGS = $(NOWRAP)
tests_mp_rma_atomic_SOURCES = tests/mp/rma_atomic.c $(rma_standard_sources)
tests_mp_rma_atomic_LDADD = libheddle.la
tests_mp_rma_atomic_LDFLAGS = $(NOWRAP)
tests_mp_rma_progress_SOURCES = tests/mp/rma_progress.c tests/mp/stopped.h $(rma_standard_sources)
tests_mp_rma_progress_LDADD = libheddle.la
tests_mp_rma_progress_LDFLAGS = $(NOWRAP)
tests_mp_rma_large_SOURCES = tests/mp/rma_large.c $(rma_standard_sources)
tests_mp_rma_large_LDADD = libheddle.la
tests_mp_rma_large_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/rma_threads
tests_mp_rma_threads_SOURCES = tests/mp/rma_threads.c $(rma_standard_sources)
tests_mp_rma_threads_LDADD = libheddle.la
tests_mp_rma_threads_LDFLAGS = $(NOWRAP) -pthread
check_PROGRAMS += tests/mp/rma_holder_stopped
tests_mp_rma_holder_stopped_SOURCES = tests/mp/rma_holder_stopped.c tests/mp/stopped.h $(rma_standard_sources)
tests_mp_rma_holder_stopped_LDADD = libheddle.la
tests_mp_rma_holder_stopped_LDFLAGS = $(NOWRAP) -pthread
check_PROGRAMS += tests/mp/rma_random
tests_mp_rma_random_SOURCES = tests/mp/rma_random.c $(rma_standard_sources)
tests_mp_rma_random_LDADD = libheddle.la
tests_mp_rma_random_LDFLAGS = $(NOWRAP) -pthread
check_PROGRAMS += tests/mp/rma_member_dies
tests_mp_rma_member_dies_SOURCES = tests/mp/rma_member_dies.c tests/mp/survivors.h $(rma_standard_sources)
tests_mp_rma_member_dies_LDADD = libheddle.la
tests_mp_rma_member_dies_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/rma_member_dies_at
tests_mp_rma_member_dies_at_SOURCES = tests/mp/rma_member_dies.c tests/mp/survivors.h $(rma_standard_sources) $(rma_sources)
tests_mp_rma_member_dies_at_CPPFLAGS = $(AM_CPPFLAGS) -DHDL_RMA_FAILPOINTS
tests_mp_rma_member_dies_at_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_rma_member_dies_at_LDFLAGS = $(NOWRAP)
# The same programs, by ranks that believe to be on several hosts.
check_PROGRAMS += tests/mp/rma_comm_hosts tests/mp/rma_random_hosts tests/mp/rma_atomic_hosts tests/mp/rma_progress_hosts
tests_mp_rma_atomic_hosts_SOURCES = tests/mp/rma_atomic.c tests/mp/hosts_played.c $(rma_standard_sources)
tests_mp_rma_atomic_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_rma_atomic_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_rma_progress_hosts_SOURCES = tests/mp/rma_progress.c tests/mp/hosts_played.c $(rma_standard_sources)
tests_mp_rma_progress_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_rma_progress_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_rma_comm_hosts_SOURCES = tests/mp/rma_comm.c tests/mp/hosts_played.c $(rma_standard_sources)
tests_mp_rma_comm_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_rma_comm_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_rma_random_hosts_SOURCES = tests/mp/rma_random.c tests/mp/hosts_played.c $(rma_standard_sources)
tests_mp_rma_random_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_rma_random_hosts_LDFLAGS = $(NOWRAP) $(played_wraps) -pthread
# One rank has no device or no queue for accumulates by the second of two devices.
check_PROGRAMS += tests/mp/rma_agent_lacking
tests_mp_rma_agent_lacking_SOURCES = tests/mp/rma_agent_lacking.c tests/mp/rma_agent_refused.c tests/mp/rma_agent_refused.h \
	tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_rma_agent_lacking_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_rma_agent_lacking_LDFLAGS = $(NOWRAP) $(played_wraps) -Wl,--wrap=hdl_tp_init -Wl,--wrap=ibv_create_qp -Wl,--wrap=hdl_qp_connect \
	-Wl,--wrap=hdl_target_make -Wl,--wrap=hdl_comm_exchange
rma_standard_scripts = tests/mp/rma.sh tests/mp/rma_random.sh tests/mp/rma_progress.sh tests/mp/rma_member_dies.sh
TESTS += $(rma_standard_scripts)
EXTRA_DIST += $(rma_standard_scripts)
