# Collectives, several processes.
check_PROGRAMS += tests/mp/coll_correct tests/mp/coll_ranks_stopped
tests_mp_coll_correct_SOURCES = tests/mp/coll_correct.c
tests_mp_coll_correct_LDADD = libheddle.la
tests_mp_coll_correct_LDFLAGS = $(NOWRAP)
tests_mp_coll_ranks_stopped_SOURCES = tests/mp/coll_ranks_stopped.c tests/mp/stopped.h
tests_mp_coll_ranks_stopped_LDADD = libheddle.la
tests_mp_coll_ranks_stopped_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_random
tests_mp_coll_random_SOURCES = tests/mp/coll_random.c tests/mp/mpi_test.h
tests_mp_coll_random_LDADD = libheddle.la
tests_mp_coll_random_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_vector
tests_mp_coll_vector_SOURCES = tests/mp/coll_vector.c tests/mp/finalize.h tests/mp/mpi_test.h
tests_mp_coll_vector_LDADD = libheddle.la
tests_mp_coll_vector_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_port_down
tests_mp_coll_port_down_SOURCES = tests/mp/coll_port_down.c
tests_mp_coll_port_down_LDADD = libheddle.la
tests_mp_coll_port_down_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_check
tests_mp_coll_check_SOURCES = tests/mp/coll_check.c tests/mp/standard.h tests/mp/mpi_test.h
tests_mp_coll_check_LDADD = libheddle.la
tests_mp_coll_check_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_pipelined
tests_mp_coll_pipelined_SOURCES = tests/mp/coll_pipelined.c tests/mp/mpi_test.h
tests_mp_coll_pipelined_LDADD = libheddle.la
tests_mp_coll_pipelined_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_barrier_leader
tests_mp_coll_barrier_leader_SOURCES = tests/mp/coll_barrier_leader.c tests/mp/mpi_test.h
tests_mp_coll_barrier_leader_LDADD = libheddle.la
tests_mp_coll_barrier_leader_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_plans
tests_mp_coll_plans_SOURCES = tests/mp/coll_plans.c tests/mp/mpi_test.h
tests_mp_coll_plans_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_coll_plans_LDFLAGS = $(NOWRAP) -Wl,--wrap=hdl_choose
# The same with a rank whose part of the wire-up fails.
check_PROGRAMS += tests/mp/coll_lacking
tests_mp_coll_lacking_SOURCES = tests/mp/coll_correct.c tests/mp/coll_lacking.c
tests_mp_coll_lacking_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_coll_lacking_LDFLAGS = $(NOWRAP) -Wl,--wrap=hdl_irecv -Wl,--wrap=hdl_tp_rc_connect -Wl,--wrap=hdl_tp_alloc \
	-Wl,--wrap=ibv_reg_mr -Wl,--wrap=ibv_reg_mr_iova2 -Wl,--wrap=hdl_comm_props_of
check_PROGRAMS += tests/mp/coll_persistent_starts_lacking
tests_mp_coll_persistent_starts_lacking_SOURCES = tests/mp/coll_persistent_starts.c tests/mp/coll_lacking.c tests/mp/mpi_test.h
tests_mp_coll_persistent_starts_lacking_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_persistent_starts_lacking_LDFLAGS = $(tests_mp_coll_lacking_LDFLAGS) -pthread
check_PROGRAMS += tests/mp/coll_depth
tests_mp_coll_depth_SOURCES = tests/mp/coll_depth.c tests/mp/mpi_test.h
tests_mp_coll_depth_LDADD = libheddle.la
tests_mp_coll_depth_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_vector_lacking
tests_mp_coll_vector_lacking_SOURCES = tests/mp/coll_vector.c tests/mp/coll_lacking.c tests/mp/mpi_test.h
tests_mp_coll_vector_lacking_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_vector_lacking_LDFLAGS = $(tests_mp_coll_lacking_LDFLAGS)
check_PROGRAMS += tests/mp/coll_queue_cache
tests_mp_coll_queue_cache_SOURCES = tests/mp/coll_queue_cache.c tests/mp/verbs_no_memory.c tests/mp/mpi_test.h
tests_mp_coll_queue_cache_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_queue_cache_LDFLAGS = $(NOWRAP) -Wl,--wrap=ibv_create_qp -Wl,--wrap=ibv_exp_create_qp -Wl,--wrap=ibv_create_srq \
	-Wl,--wrap=ibv_create_cq -Wl,--wrap=ibv_exp_create_cq -Wl,--wrap=hdl_tp_alloc -Wl,--wrap=hdl_irecv \
	-Wl,--wrap=ibv_destroy_qp -Wl,--wrap=ibv_destroy_srq -Wl,--wrap=ibv_destroy_cq -Wl,--wrap=ibv_dereg_mr
check_PROGRAMS += tests/mp/coll_reduce_repeatable
tests_mp_coll_reduce_repeatable_SOURCES = tests/mp/coll_reduce_repeatable.c
tests_mp_coll_reduce_repeatable_LDADD = libheddle.la
tests_mp_coll_reduce_repeatable_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_death
tests_mp_coll_death_SOURCES = tests/mp/coll_death.c tests/mp/survivors.h
tests_mp_coll_death_LDADD = libheddle.la
tests_mp_coll_death_LDFLAGS = $(NOWRAP)
# What a rank leaves behind is read later, or never.
check_PROGRAMS += tests/mp/coll_sc_staging
tests_mp_coll_sc_staging_SOURCES = tests/mp/coll_sc_staging.c tests/mp/finalize.h tests/mp/stopped.h tests/mp/survivors.h
tests_mp_coll_sc_staging_LDADD = libheddle.la
tests_mp_coll_sc_staging_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_sc_reduce
tests_mp_coll_sc_reduce_SOURCES = tests/mp/coll_sc_reduce.c
tests_mp_coll_sc_reduce_LDADD = libheddle.la
tests_mp_coll_sc_reduce_LDFLAGS = $(NOWRAP)
# What is explained is what the device counts.
check_PROGRAMS += tests/mp/coll_device_counts
tests_mp_coll_device_counts_SOURCES = tests/mp/coll_device_counts.c
tests_mp_coll_device_counts_LDADD = libheddle.la
tests_mp_coll_device_counts_LDFLAGS = $(NOWRAP)
TESTS += tests/mp/coll_explain.sh
EXTRA_DIST += tests/mp/coll_explain.sh tests/mp/device_counts_rank.sh
check_PROGRAMS += tests/mp/coll_reduce_order
tests_mp_coll_reduce_order_SOURCES = tests/mp/coll_reduce_order.c
tests_mp_coll_reduce_order_LDADD = libheddle.la
tests_mp_coll_reduce_order_LDFLAGS = $(NOWRAP)
# Over two devices, by ranks that believe to be on several hosts.
check_PROGRAMS += tests/mp/coll_hosts_lost tests/mp/coll_hosts_random
tests_mp_coll_hosts_lost_SOURCES = tests/mp/coll_death_random.c tests/mp/transport_hosts.c tests/mp/survivors.h
tests_mp_coll_hosts_lost_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_coll_hosts_lost_LDFLAGS = $(NOWRAP) $(hosts_wraps)
tests_mp_coll_hosts_random_SOURCES = tests/mp/coll_random.c tests/mp/transport_hosts.c tests/mp/mpi_test.h
tests_mp_coll_hosts_random_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_coll_hosts_random_LDFLAGS = $(NOWRAP) $(hosts_wraps)
check_PROGRAMS += tests/mp/coll_death_random
tests_mp_coll_death_random_SOURCES = tests/mp/coll_death_random.c tests/mp/survivors.h
tests_mp_coll_death_random_LDADD = libheddle.la
tests_mp_coll_death_random_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/comm_death_random tests/mp/comm_create_death tests/mp/comm_leader_link_death
tests_mp_comm_create_death_SOURCES = tests/mp/comm_create_death.c tests/mp/survivors.h
tests_mp_comm_create_death_LDADD = libheddle.la
tests_mp_comm_create_death_LDFLAGS = $(NOWRAP)
tests_mp_comm_leader_link_death_SOURCES = tests/mp/comm_leader_link_death.c tests/mp/survivors.h
tests_mp_comm_leader_link_death_LDADD = libheddle.la
tests_mp_comm_leader_link_death_LDFLAGS = $(NOWRAP)
tests_mp_comm_death_random_SOURCES = tests/mp/comm_death_random.c tests/mp/survivors.h
tests_mp_comm_death_random_LDADD = libheddle.la
tests_mp_comm_death_random_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/p2p_death_random
tests_mp_p2p_death_random_SOURCES = tests/mp/p2p_death_random.c tests/mp/survivors.h
tests_mp_p2p_death_random_LDADD = libheddle.la
tests_mp_p2p_death_random_LDFLAGS = $(NOWRAP) -pthread
check_PROGRAMS += tests/mp/coll_root_sleeps
tests_mp_coll_root_sleeps_SOURCES = tests/mp/coll_root_sleeps.c tests/mp/survivors.h
tests_mp_coll_root_sleeps_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_root_sleeps_LDFLAGS = $(NOWRAP) -Wl,--wrap=hdl_ft_timers -Wl,--wrap=hdl_peers_look
check_PROGRAMS += tests/mp/coll_message_stale
tests_mp_coll_message_stale_SOURCES = tests/mp/coll_message_stale.c
tests_mp_coll_message_stale_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_message_stale_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_memory_in_use
tests_mp_coll_memory_in_use_SOURCES = tests/mp/coll_memory_in_use.c tests/mp/mpi_test.h tests/mp/stopped.h tests/mp/survivors.h
tests_mp_coll_memory_in_use_LDADD = libheddle.la
tests_mp_coll_memory_in_use_LDFLAGS = $(NOWRAP)
# Each by its theme; the longest first.
coll_scripts = tests/mp/coll_correct.sh tests/mp/coll_queue_cache.sh tests/mp/coll_random.sh tests/mp/coll_vector.sh \
	tests/mp/coll_reduce_order.sh tests/mp/coll_port_down.sh tests/mp/coll_single_copy.sh tests/mp/coll_sc_staging.sh \
	tests/mp/coll_pipelined.sh tests/mp/coll_ranks_stopped.sh tests/mp/coll_bringup.sh tests/mp/coll_memory.sh \
	tests/mp/coll_persistent_starts.sh tests/mp/coll_depth.sh tests/mp/coll_comms_overlap.sh \
	tests/mp/coll_barrier_leader.sh tests/mp/coll_memory_in_use.sh tests/mp/coll_report.sh \
	tests/mp/coll_root_sleeps.sh tests/mp/coll_cells_wide.sh tests/mp/coll_check.sh tests/mp/coll_plans.sh tests/mp/coll_death.sh tests/mp/coll_death_random.sh
TESTS += $(coll_scripts)
EXTRA_DIST += $(coll_scripts) tests/mp/coll_lib.sh tests/mp/death_lib.sh
# Buffers at the edges of what is mapped, types with holes.
check_PROGRAMS += tests/mp/mpi_type_holes tests/mp/mpi_type_holes_hosts
tests_mp_mpi_type_holes_SOURCES = tests/mp/mpi_type_holes.c tests/mp/mpi_test.h
tests_mp_mpi_type_holes_LDADD = libheddle.la
tests_mp_mpi_type_holes_LDFLAGS = $(NOWRAP)
tests_mp_mpi_type_holes_hosts_SOURCES = tests/mp/mpi_type_holes.c tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_mpi_type_holes_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_mpi_type_holes_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
TESTS += tests/mp/mpi_type_holes.sh
EXTRA_DIST += tests/mp/mpi_type_holes.sh
# Persistent ones, started in any order.
check_PROGRAMS += tests/mp/coll_persistent_starts
tests_mp_coll_persistent_starts_SOURCES = tests/mp/coll_persistent_starts.c tests/mp/mpi_test.h
tests_mp_coll_persistent_starts_LDADD = libheddle.la
tests_mp_coll_persistent_starts_LDFLAGS = $(NOWRAP) -pthread
# A rank without memory.
check_PROGRAMS += tests/mp/coll_memory
tests_mp_coll_memory_SOURCES = tests/mp/coll_memory.c tests/mp/mpi_test.h
tests_mp_coll_memory_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_memory_LDFLAGS = $(NOWRAP) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=aligned_alloc \
	-Wl,--wrap=hdl_collective_init -Wl,--wrap=ibv_exp_post_task -Wl,--wrap=hdl_buf_get
# ... in its first communication.
check_PROGRAMS += tests/mp/coll_uncompleted
tests_mp_coll_uncompleted_SOURCES = tests/mp/coll_uncompleted.c
tests_mp_coll_uncompleted_LDADD = libheddle.la
tests_mp_coll_uncompleted_LDFLAGS = $(NOWRAP)
TESTS += tests/mp/coll_uncompleted.sh
EXTRA_DIST += tests/mp/coll_uncompleted.sh
check_PROGRAMS += tests/mp/coll_first_allocation_fails
tests_mp_coll_first_allocation_fails_SOURCES = tests/mp/coll_first_allocation_fails.c tests/mp/mpi_test.h
tests_mp_coll_first_allocation_fails_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_coll_first_allocation_fails_LDFLAGS = $(NOWRAP) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc \
	-Wl,--wrap=aligned_alloc -Wl,--wrap=posix_memalign -Wl,--wrap=mmap -Wl,--wrap=hdl_bufpool_grow \
	-Wl,--wrap=hdl_bufpool_need -Wl,--wrap=ibv_exp_query_device
TESTS += tests/mp/coll_first_allocation_fails.sh
EXTRA_DIST += tests/mp/coll_first_allocation_fails.sh
# Several communicators at a time.
check_PROGRAMS += tests/mp/coll_comms_overlap tests/mp/coll_comms_overlap_hosts tests/mp/coll_comms_overlap_lacking
tests_mp_coll_comms_overlap_SOURCES = tests/mp/coll_comms_overlap.c tests/mp/mpi_test.h
tests_mp_coll_comms_overlap_LDADD = libheddle.la
tests_mp_coll_comms_overlap_LDFLAGS = $(NOWRAP)
played_wraps = -Wl,--wrap=PMIx_Get -Wl,--wrap=PMIx_Register_event_handler
tests_mp_coll_comms_overlap_hosts_SOURCES = tests/mp/coll_comms_overlap.c tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_coll_comms_overlap_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_comms_overlap_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_coll_comms_overlap_lacking_SOURCES = tests/mp/coll_comms_overlap.c tests/mp/coll_lacking.c tests/mp/mpi_test.h
tests_mp_coll_comms_overlap_lacking_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_comms_overlap_lacking_LDFLAGS = $(tests_mp_coll_lacking_LDFLAGS)
# On several hosts, played on one machine.
check_PROGRAMS += tests/mp/coll_random_hosts tests/mp/coll_correct_hosts tests/mp/coll_persistent_starts_hosts \
	tests/mp/coll_death_random_hosts
tests_mp_coll_random_hosts_SOURCES = tests/mp/coll_random.c tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_coll_random_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_random_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_coll_correct_hosts_SOURCES = tests/mp/coll_correct.c tests/mp/hosts_played.c
tests_mp_coll_correct_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_correct_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_coll_persistent_starts_hosts_SOURCES = tests/mp/coll_persistent_starts.c tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_coll_persistent_starts_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_persistent_starts_hosts_LDFLAGS = $(NOWRAP) -pthread $(played_wraps)
tests_mp_coll_death_random_hosts_SOURCES = tests/mp/coll_death_random.c tests/mp/hosts_played.c tests/mp/survivors.h
tests_mp_coll_death_random_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_death_random_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
check_PROGRAMS += tests/mp/coll_hier
tests_mp_coll_hier_SOURCES = tests/mp/coll_hier.c tests/mp/hosts_played.c tests/mp/mpi_test.h tests/mp/standard.h
tests_mp_coll_hier_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_hier_LDFLAGS = $(NOWRAP) $(played_wraps)
check_PROGRAMS += tests/mp/p2p_death_random_hosts
tests_mp_p2p_death_random_hosts_SOURCES = tests/mp/p2p_death_random.c tests/mp/hosts_played.c tests/mp/survivors.h
tests_mp_p2p_death_random_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_p2p_death_random_hosts_LDFLAGS = $(NOWRAP) -pthread $(played_wraps)
check_PROGRAMS += tests/mp/comm_create_death_hosts tests/mp/comm_no_memory
tests_mp_comm_create_death_hosts_SOURCES = tests/mp/comm_create_death.c tests/mp/hosts_played.c tests/mp/survivors.h
tests_mp_comm_create_death_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_comm_create_death_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_comm_no_memory_SOURCES = tests/mp/comm_no_memory.c tests/mp/hosts_played.c tests/mp/survivors.h
tests_mp_comm_no_memory_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_comm_no_memory_LDFLAGS = $(NOWRAP) $(played_wraps) -Wl,--wrap=hdl_irecv
TESTS += tests/mp/coll_hosts.sh
EXTRA_DIST += tests/mp/coll_hosts.sh
