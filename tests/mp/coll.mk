# Collectives, several processes.
check_PROGRAMS += tests/mp/coll_correct tests/mp/coll_stopped
tests_mp_coll_correct_SOURCES = tests/mp/coll_correct.c
tests_mp_coll_correct_LDADD = libheddle.la
tests_mp_coll_correct_LDFLAGS = $(NOWRAP)
tests_mp_coll_stopped_SOURCES = tests/mp/coll_stopped.c
tests_mp_coll_stopped_LDADD = libheddle.la
tests_mp_coll_stopped_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_random
tests_mp_coll_random_SOURCES = tests/mp/coll_random.c tests/mp/mpi_test.h
tests_mp_coll_random_LDADD = libheddle.la
tests_mp_coll_random_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_parcels
tests_mp_coll_parcels_SOURCES = tests/mp/coll_parcels.c tests/mp/mpi_test.h
tests_mp_coll_parcels_LDADD = libheddle.la
tests_mp_coll_parcels_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_port
tests_mp_coll_port_SOURCES = tests/mp/coll_port.c
tests_mp_coll_port_LDADD = libheddle.la
tests_mp_coll_port_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_check
tests_mp_coll_check_SOURCES = tests/mp/coll_check.c tests/mp/standard.h tests/mp/mpi_test.h
tests_mp_coll_check_LDADD = libheddle.la
tests_mp_coll_check_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_stream
tests_mp_coll_stream_SOURCES = tests/mp/coll_stream.c tests/mp/mpi_test.h
tests_mp_coll_stream_LDADD = libheddle.la
tests_mp_coll_stream_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_led
tests_mp_coll_led_SOURCES = tests/mp/coll_led.c tests/mp/mpi_test.h
tests_mp_coll_led_LDADD = libheddle.la
tests_mp_coll_led_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_plans
tests_mp_coll_plans_SOURCES = tests/mp/coll_plans.c tests/mp/mpi_test.h
tests_mp_coll_plans_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_coll_plans_LDFLAGS = $(NOWRAP) -Wl,--wrap=hdl_choose
# The same with a rank whose part of the wire-up fails.
check_PROGRAMS += tests/mp/coll_lacking
tests_mp_coll_lacking_SOURCES = tests/mp/coll_correct.c tests/mp/coll_lacking.c
tests_mp_coll_lacking_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_coll_lacking_LDFLAGS = $(NOWRAP) -Wl,--wrap=hdl_irecv -Wl,--wrap=hdl_tp_rc_connect -Wl,--wrap=hdl_tp_alloc \
	-Wl,--wrap=ibv_reg_mr -Wl,--wrap=ibv_reg_mr_iova2 -Wl,--wrap=hdl_off_site
check_PROGRAMS += tests/mp/coll_starts_lacking
tests_mp_coll_starts_lacking_SOURCES = tests/mp/coll_starts.c tests/mp/coll_lacking.c tests/mp/mpi_test.h
tests_mp_coll_starts_lacking_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_starts_lacking_LDFLAGS = $(tests_mp_coll_lacking_LDFLAGS) -pthread
check_PROGRAMS += tests/mp/coll_depth
tests_mp_coll_depth_SOURCES = tests/mp/coll_depth.c tests/mp/mpi_test.h
tests_mp_coll_depth_LDADD = libheddle.la
tests_mp_coll_depth_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_parcels_lacking
tests_mp_coll_parcels_lacking_SOURCES = tests/mp/coll_parcels.c tests/mp/coll_lacking.c tests/mp/mpi_test.h
tests_mp_coll_parcels_lacking_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_parcels_lacking_LDFLAGS = $(tests_mp_coll_lacking_LDFLAGS)
check_PROGRAMS += tests/mp/coll_sets
tests_mp_coll_sets_SOURCES = tests/mp/coll_sets.c tests/mp/shortage.c tests/mp/mpi_test.h
tests_mp_coll_sets_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_sets_LDFLAGS = $(NOWRAP) -Wl,--wrap=ibv_create_qp -Wl,--wrap=ibv_exp_create_qp -Wl,--wrap=ibv_create_srq \
	-Wl,--wrap=ibv_create_cq -Wl,--wrap=ibv_exp_create_cq -Wl,--wrap=hdl_tp_alloc -Wl,--wrap=hdl_irecv \
	-Wl,--wrap=ibv_destroy_qp -Wl,--wrap=ibv_destroy_srq -Wl,--wrap=ibv_destroy_cq -Wl,--wrap=ibv_dereg_mr
check_PROGRAMS += tests/mp/coll_bits
tests_mp_coll_bits_SOURCES = tests/mp/coll_bits.c
tests_mp_coll_bits_LDADD = libheddle.la
tests_mp_coll_bits_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_death
tests_mp_coll_death_SOURCES = tests/mp/coll_death.c tests/mp/survivors.h
tests_mp_coll_death_LDADD = libheddle.la
tests_mp_coll_death_LDFLAGS = $(NOWRAP)
# What a rank leaves behind is read later, or never.
check_PROGRAMS += tests/mp/coll_left
tests_mp_coll_left_SOURCES = tests/mp/coll_left.c tests/mp/survivors.h
tests_mp_coll_left_LDADD = libheddle.la
tests_mp_coll_left_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/coll_parts
tests_mp_coll_parts_SOURCES = tests/mp/coll_parts.c
tests_mp_coll_parts_LDADD = libheddle.la
tests_mp_coll_parts_LDFLAGS = $(NOWRAP)
# What is explained is what the device counts.
check_PROGRAMS += tests/mp/coll_counted
tests_mp_coll_counted_SOURCES = tests/mp/coll_counted.c
tests_mp_coll_counted_LDADD = libheddle.la
tests_mp_coll_counted_LDFLAGS = $(NOWRAP)
TESTS += tests/mp/coll_explain.sh
EXTRA_DIST += tests/mp/coll_explain.sh tests/mp/counted_rank.sh
check_PROGRAMS += tests/mp/coll_order
tests_mp_coll_order_SOURCES = tests/mp/coll_order.c
tests_mp_coll_order_LDADD = libheddle.la
tests_mp_coll_order_LDFLAGS = $(NOWRAP)
# Over two devices, by ranks that believe to be on several hosts.
check_PROGRAMS += tests/mp/coll_hosts_lost tests/mp/coll_hosts_random
tests_mp_coll_hosts_lost_SOURCES = tests/mp/coll_lost.c tests/mp/transport_hosts.c tests/mp/survivors.h
tests_mp_coll_hosts_lost_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_coll_hosts_lost_LDFLAGS = $(NOWRAP) $(hosts_wraps)
tests_mp_coll_hosts_random_SOURCES = tests/mp/coll_random.c tests/mp/transport_hosts.c tests/mp/mpi_test.h
tests_mp_coll_hosts_random_LDADD = $(tests_mp_transport_traffic_LDADD)
tests_mp_coll_hosts_random_LDFLAGS = $(NOWRAP) $(hosts_wraps)
check_PROGRAMS += tests/mp/coll_lost
tests_mp_coll_lost_SOURCES = tests/mp/coll_lost.c tests/mp/survivors.h
tests_mp_coll_lost_LDADD = libheddle.la
tests_mp_coll_lost_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/comm_lost tests/mp/comm_away tests/mp/comm_bridge
tests_mp_comm_away_SOURCES = tests/mp/comm_away.c tests/mp/survivors.h
tests_mp_comm_away_LDADD = libheddle.la
tests_mp_comm_away_LDFLAGS = $(NOWRAP)
tests_mp_comm_bridge_SOURCES = tests/mp/comm_bridge.c tests/mp/survivors.h
tests_mp_comm_bridge_LDADD = libheddle.la
tests_mp_comm_bridge_LDFLAGS = $(NOWRAP)
tests_mp_comm_lost_SOURCES = tests/mp/comm_lost.c tests/mp/survivors.h
tests_mp_comm_lost_LDADD = libheddle.la
tests_mp_comm_lost_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/mp/ptp_lost
tests_mp_ptp_lost_SOURCES = tests/mp/ptp_lost.c tests/mp/survivors.h
tests_mp_ptp_lost_LDADD = libheddle.la
tests_mp_ptp_lost_LDFLAGS = $(NOWRAP) -pthread
check_PROGRAMS += tests/mp/coll_asleep
tests_mp_coll_asleep_SOURCES = tests/mp/coll_asleep.c tests/mp/survivors.h
tests_mp_coll_asleep_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_asleep_LDFLAGS = $(NOWRAP) -Wl,--wrap=hdl_lost_timers -Wl,--wrap=hdl_peers_look
check_PROGRAMS += tests/mp/coll_late
tests_mp_coll_late_SOURCES = tests/mp/coll_late.c
tests_mp_coll_late_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_late_LDFLAGS = $(NOWRAP)
TESTS += tests/mp/coll.sh tests/mp/coll_death.sh tests/mp/coll_lost.sh tests/mp/coll_order.sh
EXTRA_DIST += tests/mp/coll.sh tests/mp/coll_death.sh tests/mp/death_lib.sh tests/mp/coll_lost.sh tests/mp/coll_order.sh
# Buffers at the edges of what is mapped, types with holes.
check_PROGRAMS += tests/mp/mpi_holes tests/mp/mpi_holes_hosts
tests_mp_mpi_holes_SOURCES = tests/mp/mpi_holes.c tests/mp/mpi_test.h
tests_mp_mpi_holes_LDADD = libheddle.la
tests_mp_mpi_holes_LDFLAGS = $(NOWRAP)
tests_mp_mpi_holes_hosts_SOURCES = tests/mp/mpi_holes.c tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_mpi_holes_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_mpi_holes_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
TESTS += tests/mp/mpi_holes.sh
EXTRA_DIST += tests/mp/mpi_holes.sh
# Persistent ones, started in any order.
check_PROGRAMS += tests/mp/coll_starts
tests_mp_coll_starts_SOURCES = tests/mp/coll_starts.c tests/mp/mpi_test.h
tests_mp_coll_starts_LDADD = libheddle.la
tests_mp_coll_starts_LDFLAGS = $(NOWRAP) -pthread
# A rank without memory.
check_PROGRAMS += tests/mp/coll_memory
tests_mp_coll_memory_SOURCES = tests/mp/coll_memory.c tests/mp/mpi_test.h
tests_mp_coll_memory_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_memory_LDFLAGS = $(NOWRAP) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=aligned_alloc \
	-Wl,--wrap=hdl_collective_init -Wl,--wrap=ibv_exp_post_task -Wl,--wrap=hdl_buf_get
# ... in its first communication.
check_PROGRAMS += tests/mp/coll_unmet
tests_mp_coll_unmet_SOURCES = tests/mp/coll_unmet.c tests/mp/mpi_test.h
tests_mp_coll_unmet_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_mp_coll_unmet_LDFLAGS = $(NOWRAP) -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc \
	-Wl,--wrap=posix_memalign -Wl,--wrap=mmap -Wl,--wrap=hdl_bufpool_grow -Wl,--wrap=hdl_bufpool_need
TESTS += tests/mp/coll_unmet.sh
EXTRA_DIST += tests/mp/coll_unmet.sh
# Several communicators at a time.
check_PROGRAMS += tests/mp/coll_mixed tests/mp/coll_mixed_hosts tests/mp/coll_mixed_lacking
tests_mp_coll_mixed_SOURCES = tests/mp/coll_mixed.c tests/mp/mpi_test.h
tests_mp_coll_mixed_LDADD = libheddle.la
tests_mp_coll_mixed_LDFLAGS = $(NOWRAP)
played_wraps = -Wl,--wrap=PMIx_Get -Wl,--wrap=PMIx_Register_event_handler
tests_mp_coll_mixed_hosts_SOURCES = tests/mp/coll_mixed.c tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_coll_mixed_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_mixed_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_coll_mixed_lacking_SOURCES = tests/mp/coll_mixed.c tests/mp/coll_lacking.c tests/mp/mpi_test.h
tests_mp_coll_mixed_lacking_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_mixed_lacking_LDFLAGS = $(tests_mp_coll_lacking_LDFLAGS)
# On several hosts, played on one machine.
check_PROGRAMS += tests/mp/coll_random_hosts tests/mp/coll_correct_hosts tests/mp/coll_starts_hosts tests/mp/coll_lost_hosts
tests_mp_coll_random_hosts_SOURCES = tests/mp/coll_random.c tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_coll_random_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_random_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_coll_correct_hosts_SOURCES = tests/mp/coll_correct.c tests/mp/hosts_played.c
tests_mp_coll_correct_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_correct_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_coll_starts_hosts_SOURCES = tests/mp/coll_starts.c tests/mp/hosts_played.c tests/mp/mpi_test.h
tests_mp_coll_starts_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_starts_hosts_LDFLAGS = $(NOWRAP) -pthread $(played_wraps)
tests_mp_coll_lost_hosts_SOURCES = tests/mp/coll_lost.c tests/mp/hosts_played.c tests/mp/survivors.h
tests_mp_coll_lost_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_lost_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
check_PROGRAMS += tests/mp/coll_stages
tests_mp_coll_stages_SOURCES = tests/mp/coll_stages.c tests/mp/hosts_played.c tests/mp/mpi_test.h tests/mp/standard.h
tests_mp_coll_stages_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_coll_stages_LDFLAGS = $(NOWRAP) $(played_wraps)
check_PROGRAMS += tests/mp/ptp_lost_hosts
tests_mp_ptp_lost_hosts_SOURCES = tests/mp/ptp_lost.c tests/mp/hosts_played.c tests/mp/survivors.h
tests_mp_ptp_lost_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_ptp_lost_hosts_LDFLAGS = $(NOWRAP) -pthread $(played_wraps)
check_PROGRAMS += tests/mp/comm_away_hosts tests/mp/comm_spared
tests_mp_comm_away_hosts_SOURCES = tests/mp/comm_away.c tests/mp/hosts_played.c tests/mp/survivors.h
tests_mp_comm_away_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_comm_away_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
tests_mp_comm_spared_SOURCES = tests/mp/comm_spared.c tests/mp/hosts_played.c tests/mp/survivors.h
tests_mp_comm_spared_LDADD = $(tests_mp_coll_lacking_LDADD)
tests_mp_comm_spared_LDFLAGS = $(NOWRAP) $(played_wraps) -Wl,--wrap=hdl_irecv
TESTS += tests/mp/coll_hosts.sh
EXTRA_DIST += tests/mp/coll_hosts.sh
