# The runtime alone, without the library above it: ranks for the tests of runtime and launcher.
check_PROGRAMS += tests/mp/runtime_job tests/mp/runtime_other_version
tests_mp_runtime_job_SOURCES = tests/mp/runtime_job.c $(runtime_sources)
tests_mp_runtime_job_CFLAGS = $(AM_CFLAGS)
tests_mp_runtime_job_LDADD = $(PMIX_LIBS) $(BACKTRACE_LIBS)
tests_mp_runtime_job_LDFLAGS = $(NOWRAP)
tests_mp_runtime_other_version_SOURCES = $(tests_mp_runtime_job_SOURCES)
tests_mp_runtime_other_version_CFLAGS = $(AM_CFLAGS)
tests_mp_runtime_other_version_CPPFLAGS = $(AM_CPPFLAGS) -DHDL_LIBRARY_VERSION='"9.9.9-test"'
tests_mp_runtime_other_version_LDADD = $(PMIX_LIBS) $(BACKTRACE_LIBS)
tests_mp_runtime_other_version_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/runtime_pmix_client
tests_mp_runtime_pmix_client_SOURCES = tests/mp/runtime_pmix_client.c
tests_mp_runtime_pmix_client_LDADD = $(PMIX_LIBS)
tests_mp_runtime_pmix_client_LDFLAGS = $(NOWRAP)
# Another user of the host.
check_PROGRAMS += tests/mp/launcher_other_user
tests_mp_launcher_other_user_SOURCES = tests/mp/launcher_other_user.c
tests_mp_launcher_other_user_LDFLAGS = $(NOWRAP)
launcher_tests = tests/mp/runtime_pmix.sh tests/mp/launcher_tools.sh tests/mp/runtime_join.sh tests/mp/runtime_vars.sh \
	tests/mp/launcher_options.sh tests/mp/launcher_exit.sh tests/mp/launcher_signals.sh tests/mp/launcher_io.sh \
	tests/mp/launcher_leftovers.sh tests/mp/launcher_many.sh tests/mp/launcher_bind.sh tests/mp/launcher_fabric.sh \
	tests/mp/launcher_timeout.sh tests/mp/launcher_hang.sh tests/mp/launcher_users.sh tests/mp/launcher_limits.sh \
	tests/mp/launcher_hosts.sh tests/mp/build_systems.sh
TESTS += $(launcher_tests)
EXTRA_DIST += $(launcher_tests) tests/mp/launcher_lib.sh

# The benchmarks: options, output, validation; and two whose messages are spoiled, which must notice.
check_PROGRAMS += tests/mp/bench_broken_latency tests/mp/bench_broken_allreduce
tests_mp_bench_broken_latency_SOURCES = tests/mp/bench_broken.c bench/hd_latency.c $(hdb_sources)
tests_mp_bench_broken_latency_LDADD = libheddle.la
tests_mp_bench_broken_latency_LDFLAGS = $(NOWRAP)
tests_mp_bench_broken_allreduce_SOURCES = tests/mp/bench_broken.c bench/hd_collective.c $(hdb_sources)
tests_mp_bench_broken_allreduce_LDADD = libheddle.la
tests_mp_bench_broken_allreduce_LDFLAGS = $(NOWRAP)
TESTS += tests/mp/bench_options.sh
EXTRA_DIST += tests/mp/bench_options.sh
# The transport's door, without MPI above it.
check_PROGRAMS += tests/mp/transport_traffic
tests_mp_transport_traffic_SOURCES = tests/mp/transport_traffic.c
tests_mp_transport_traffic_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_traffic_LDFLAGS = $(NOWRAP) -Wl,--wrap=ibv_get_async_event -Wl,--wrap=ibv_ack_async_event
check_PROGRAMS += tests/mp/transport_sleep
tests_mp_transport_sleep_SOURCES = tests/mp/transport_sleep.c
tests_mp_transport_sleep_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_sleep_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_cores_shared
tests_mp_transport_cores_shared_SOURCES = tests/mp/transport_cores_shared.c tests/mp/mpi_test.h
tests_mp_transport_cores_shared_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_cores_shared_LDFLAGS = $(NOWRAP) -Wl,--wrap=sched_yield
check_PROGRAMS += tests/mp/transport_wakeups
tests_mp_transport_wakeups_SOURCES = tests/mp/transport_wakeups.c tests/mp/mpi_test.h
tests_mp_transport_wakeups_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_wakeups_LDFLAGS = $(NOWRAP) -pthread -Wl,--wrap=poll -Wl,--wrap=write
check_PROGRAMS += tests/mp/transport_rings
tests_mp_transport_rings_SOURCES = tests/mp/transport_rings.c
tests_mp_transport_rings_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_rings_LDFLAGS = $(NOWRAP)
# A program that is seldom in the library.
check_PROGRAMS += tests/mp/transport_progress_rare
tests_mp_transport_progress_rare_SOURCES = tests/mp/transport_progress_rare.c tests/mp/mpi_test.h
tests_mp_transport_progress_rare_LDADD = libheddle.la
tests_mp_transport_progress_rare_LDFLAGS = $(NOWRAP) -pthread
TESTS += tests/mp/transport_progress_rare.sh
EXTRA_DIST += tests/mp/transport_progress_rare.sh
# The same over two devices, by ranks that believe to be on several hosts.
check_PROGRAMS += tests/mp/transport_hosts_traffic tests/mp/transport_hosts_sleep
hosts_wraps = -Wl,--wrap=hdl_tp_init -Wl,--wrap=hdl_tp_fini
tests_mp_transport_hosts_traffic_SOURCES = tests/mp/transport_traffic.c tests/mp/transport_hosts.c
tests_mp_transport_hosts_traffic_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_transport_hosts_traffic_LDFLAGS = $(tests_mp_transport_traffic_LDFLAGS) $(hosts_wraps)
tests_mp_transport_hosts_sleep_SOURCES = tests/mp/transport_sleep.c tests/mp/transport_hosts.c
tests_mp_transport_hosts_sleep_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_transport_hosts_sleep_LDFLAGS = $(NOWRAP) $(hosts_wraps)
check_PROGRAMS += tests/mp/transport_hosts_woken
tests_mp_transport_hosts_woken_SOURCES = tests/mp/transport_wakeups.c tests/mp/mpi_test.h tests/mp/transport_hosts.c
tests_mp_transport_hosts_woken_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_transport_hosts_woken_LDFLAGS = $(tests_mp_transport_wakeups_LDFLAGS) $(hosts_wraps)
# The same on a device that lacks something.
check_PROGRAMS += tests/mp/transport_lacking
tests_mp_transport_lacking_SOURCES = tests/mp/transport_traffic.c tests/mp/transport_lacking.c
tests_mp_transport_lacking_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_transport_lacking_LDFLAGS = $(NOWRAP) -Wl,--wrap=ibv_reg_mr -Wl,--wrap=ibv_reg_mr_iova2 \
	-Wl,--wrap=mlx5dv_is_supported -Wl,--wrap=calloc -Wl,--wrap=ibv_get_async_event -Wl,--wrap=ibv_ack_async_event
# Registrations of the users' memory are counted.
check_PROGRAMS += tests/mp/transport_pages_remapped
tests_mp_transport_pages_remapped_SOURCES = tests/mp/transport_pages_remapped.c
tests_mp_transport_pages_remapped_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_transport_pages_remapped_LDFLAGS = $(NOWRAP) -Wl,--wrap=ibv_reg_mr -Wl,--wrap=ibv_reg_mr_iova2 \
	-Wl,--wrap=syscall -Wl,--wrap=read -Wl,--wrap=ibv_create_qp -Wl,--wrap=ibv_create_cq -Wl,--wrap=ibv_create_ah
TESTS += tests/mp/transport.sh tests/mp/transport_refuse.sh tests/mp/transport_kinds.sh tests/mp/transport_behave.sh \
	tests/mp/transport_api.sh
EXTRA_DIST += tests/mp/transport.sh tests/mp/transport_refuse.sh tests/mp/transport_kinds.sh \
	tests/mp/transport_behave.sh tests/mp/transport_api.sh tests/mp/transport_lib.sh tests/mp/transport_test.h
include tests/mp/coll.mk
include tests/mp/mpi.mk
include tests/mp/rma.mk
include tests/mp/io.mk
include tests/mp/standard.mk
include tests/mp/rma_standard.mk
check_PROGRAMS += tests/mp/transport_death
tests_mp_transport_death_SOURCES = tests/mp/transport_death.c
tests_mp_transport_death_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_death_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/p2p_hang_report_finalize
tests_mp_p2p_hang_report_finalize_SOURCES = tests/mp/p2p_hang_report_finalize.c
tests_mp_p2p_hang_report_finalize_LDADD = $(tests_mp_transport_death_LDADD)
tests_mp_p2p_hang_report_finalize_LDFLAGS = $(NOWRAP) -pthread -Wl,--wrap=PMIx_Register_event_handler \
	-Wl,--wrap=hdl_tp_wake -Wl,--wrap=hdl_tp_fini
check_PROGRAMS += tests/mp/transport_ep_fails
tests_mp_transport_ep_fails_SOURCES = tests/mp/transport_ep_fails.c
tests_mp_transport_ep_fails_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_ep_fails_LDFLAGS = $(NOWRAP) -Wl,--wrap=clock_gettime
check_PROGRAMS += tests/mp/transport_xrc
tests_mp_transport_xrc_SOURCES = tests/mp/transport_xrc.c
tests_mp_transport_xrc_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_xrc_LDFLAGS = $(NOWRAP)
TESTS += tests/mp/transport_xrc.sh
EXTRA_DIST += tests/mp/transport_xrc.sh tests/mp/xrc_hosts.sh
check_PROGRAMS += tests/mp/transport_fence_left
tests_mp_transport_fence_left_SOURCES = tests/mp/transport_fence_left.c
tests_mp_transport_fence_left_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_transport_fence_left_LDFLAGS = $(NOWRAP) -Wl,--wrap=hdl_rt_fence_begin -Wl,--wrap=hdl_rt_fence_wait
TESTS += tests/mp/transport_fence_left.sh
EXTRA_DIST += tests/mp/transport_fence_left.sh
check_PROGRAMS += tests/mp/transport_leave
tests_mp_transport_leave_SOURCES = tests/mp/transport_leave.c
tests_mp_transport_leave_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_leave_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_rndv_split
tests_mp_transport_rndv_split_SOURCES = tests/mp/transport_rndv_split.c tests/mp/mpi_test.h
tests_mp_transport_rndv_split_LDADD = libheddle.la
tests_mp_transport_rndv_split_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/mp/transport_first_contact
tests_mp_transport_first_contact_SOURCES = tests/mp/transport_first_contact.c
tests_mp_transport_first_contact_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_first_contact_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_peers_many
tests_mp_transport_peers_many_SOURCES = tests/mp/transport_peers_many.c
tests_mp_transport_peers_many_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_peers_many_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_srq_shares
tests_mp_transport_srq_shares_SOURCES = tests/mp/transport_srq_shares.c
tests_mp_transport_srq_shares_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_srq_shares_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_instances
tests_mp_transport_instances_SOURCES = tests/mp/transport_instances.c
tests_mp_transport_instances_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_instances_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/p2p_instances
tests_mp_p2p_instances_SOURCES = tests/mp/p2p_instances.c
tests_mp_p2p_instances_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_p2p_instances_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_peer_invalid
tests_mp_transport_peer_invalid_SOURCES = tests/mp/transport_peer_invalid.c
tests_mp_transport_peer_invalid_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_peer_invalid_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_eager_off
tests_mp_transport_eager_off_SOURCES = tests/mp/transport_eager_off.c
tests_mp_transport_eager_off_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_eager_off_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_fragments
tests_mp_transport_fragments_SOURCES = tests/mp/transport_fragments.c
tests_mp_transport_fragments_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_fragments_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_datagrams_packed
tests_mp_transport_datagrams_packed_SOURCES = tests/mp/transport_datagrams_packed.c
tests_mp_transport_datagrams_packed_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_datagrams_packed_LDFLAGS = $(NOWRAP)

# The doors for what stands beside matching.
check_PROGRAMS += tests/mp/transport_am
tests_mp_transport_am_SOURCES = tests/mp/transport_am.c
tests_mp_transport_am_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_am_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/transport_rma
tests_mp_transport_rma_SOURCES = tests/mp/transport_rma.c tests/mp/transport_rma.h tests/mp/transport_rma_modes.c
tests_mp_transport_rma_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_transport_rma_LDFLAGS = $(NOWRAP)
# The same program, by ranks that believe to be on several hosts.
check_PROGRAMS += tests/mp/transport_replace_asked
tests_mp_transport_replace_asked_SOURCES = tests/mp/transport_replace_asked.c tests/mp/hosts_played.c tests/mp/transport_test.h
tests_mp_transport_replace_asked_LDADD = $(tests_mp_transport_rma_LDADD)
tests_mp_transport_replace_asked_LDFLAGS = $(NOWRAP) $(played_wraps) -Wl,--wrap=ibv_modify_qp
check_PROGRAMS += tests/mp/transport_rma_hosts
tests_mp_transport_rma_hosts_SOURCES = $(tests_mp_transport_rma_SOURCES) tests/mp/hosts_played.c
tests_mp_transport_rma_hosts_LDADD = $(tests_mp_transport_rma_LDADD)
tests_mp_transport_rma_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)

# What the whole machine promises, seen from outside.
check_PROGRAMS += tests/mp/show_blocked
tests_mp_show_blocked_SOURCES = tests/mp/show_blocked.c
tests_mp_show_blocked_LDADD = libheddle.la
tests_mp_show_blocked_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/mpi_memcheck_received
tests_mp_mpi_memcheck_received_SOURCES = tests/mp/mpi_memcheck_received.c tests/mp/mpi_test.h
tests_mp_mpi_memcheck_received_LDADD = libheddle.la
tests_mp_mpi_memcheck_received_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/mpi_memory_touched
tests_mp_mpi_memory_touched_SOURCES = tests/mp/mpi_memory_touched.c tests/mp/mpi_test.h
tests_mp_mpi_memory_touched_LDADD = libheddle.la
tests_mp_mpi_memory_touched_LDFLAGS = $(NOWRAP)
show_scripts = tests/mp/show_memory.sh tests/mp/show_shm.sh tests/mp/show_sleep.sh tests/mp/show_killed.sh \
	tests/mp/show_syscalls.sh tests/mp/show_kinds.sh tests/mp/transport_eager_long.sh tests/mp/transport_derived_report.sh tests/mp/runtime_tuning.sh \
	tests/mp/transport_cma_denied.sh tests/mp/transport_faults.sh
TESTS += $(show_scripts)
EXTRA_DIST += $(show_scripts)
check_PROGRAMS += tests/mp/show_waits
tests_mp_show_waits_SOURCES = tests/mp/show_waits.c
tests_mp_show_waits_LDADD = libheddle.la
tests_mp_show_waits_LDFLAGS = $(NOWRAP)
