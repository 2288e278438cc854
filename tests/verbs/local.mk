# Verbs on the software HCA: programs of our own, and unmodified ones.
verbs_programs = tests/verbs/state tests/verbs/errors tests/verbs/events tests/verbs/traffic tests/verbs/fast_write \
	tests/verbs/fast_inline tests/verbs/unpolled tests/verbs/fork tests/verbs/object_churn tests/verbs/unreliable tests/verbs/access \
	tests/verbs/edges tests/verbs/exp tests/verbs/atomics tests/verbs/calc tests/verbs/objects tests/verbs/device \
	tests/verbs/exp_dc tests/verbs/exp_calls tests/verbs/exp_xrc tests/verbs/open_qp tests/verbs/raw \
	tests/verbs/port_events tests/verbs/two_ports tests/verbs/two_ports_exp tests/verbs/path_migration tests/verbs/statuses tests/verbs/mlx5 tests/verbs/exp_comp_mask \
	tests/verbs/device_behave tests/verbs/protection tests/verbs/multicast tests/verbs/memory_windows tests/verbs/memory_keys \
	tests/verbs/memory_keys_layouts tests/verbs/memory_keys_remote \
	tests/verbs/import tests/verbs/atomic_write tests/verbs/link_ethernet tests/verbs/null_region tests/verbs/timestamps tests/verbs/queue_faults \
	tests/verbs/raw_packets tests/verbs/raw_steering tests/verbs/large_tls
check_PROGRAMS += $(verbs_programs) tests/verbs/embedded tests/verbs/device_visible_plain tests/verbs/device_visible_linked \
	tests/verbs/device_visible_behind
TESTS += $(verbs_programs) tests/verbs/exp_mlx5.sh tests/verbs/exports.sh tests/verbs/exp_header.sh \
	tests/verbs/device_list.sh tests/verbs/pingpong.sh tests/verbs/perftest.sh tests/verbs/pyverbs.sh
EXTRA_DIST += tests/verbs/common.sh tests/verbs/exports.sh tests/verbs/exp_header.sh tests/verbs/device_list.sh \
	tests/verbs/pingpong.sh tests/verbs/perftest.sh tests/verbs/pyverbs.sh tests/verbs/exp_mlx5.sh

# libshca before libibverbs: an application that uses the software HCA by choice.
verbs_ldadd = libshca.la $(VERBS_LIBS)
tests_verbs_state_SOURCES = tests/verbs/state.c tests/verbs/vt.h
tests_verbs_state_LDADD = $(verbs_ldadd)
tests_verbs_state_LDFLAGS = $(NOWRAP)
tests_verbs_errors_SOURCES = tests/verbs/errors.c tests/verbs/vt.h
tests_verbs_errors_LDADD = $(verbs_ldadd)
tests_verbs_errors_LDFLAGS = $(NOWRAP)
tests_verbs_events_SOURCES = tests/verbs/events.c tests/verbs/vt.h
tests_verbs_events_LDADD = $(verbs_ldadd)
tests_verbs_events_LDFLAGS = $(NOWRAP)
# It injects by itself, as shcactl does: with the library's inside.
tests_verbs_port_events_SOURCES = tests/verbs/port_events.c tests/verbs/vt.h $(verbs_exp_sources)
tests_verbs_port_events_CFLAGS = $(AM_CFLAGS)
tests_verbs_port_events_LDADD = libshca_core.la $(VERBS_LIBS)
tests_verbs_port_events_LDFLAGS = $(NOWRAP)
tests_verbs_two_ports_SOURCES = tests/verbs/two_ports.c tests/verbs/frame.h tests/verbs/ports.h tests/verbs/vt.h $(verbs_exp_sources)
tests_verbs_two_ports_CFLAGS = $(AM_CFLAGS)
tests_verbs_two_ports_LDADD = libshca_core.la $(VERBS_LIBS)
tests_verbs_two_ports_LDFLAGS = $(NOWRAP)
tests_verbs_two_ports_exp_SOURCES = tests/verbs/two_ports_exp.c tests/verbs/ports.h tests/verbs/vt.h $(verbs_exp_sources)
tests_verbs_two_ports_exp_CPPFLAGS = $(AM_CPPFLAGS) $(exp_include)
tests_verbs_two_ports_exp_CFLAGS = $(AM_CFLAGS)
tests_verbs_two_ports_exp_LDADD = libshca_core.la $(VERBS_LIBS)
tests_verbs_two_ports_exp_LDFLAGS = $(NOWRAP)
tests_verbs_path_migration_SOURCES = tests/verbs/path_migration.c tests/verbs/ports.h tests/verbs/vt.h $(verbs_exp_sources)
tests_verbs_path_migration_CFLAGS = $(AM_CFLAGS)
tests_verbs_path_migration_LDADD = libshca_core.la $(VERBS_LIBS)
tests_verbs_path_migration_LDFLAGS = $(NOWRAP)
tests_verbs_device_behave_SOURCES = tests/verbs/device_behave.c tests/verbs/vt.h
tests_verbs_device_behave_LDADD = $(verbs_ldadd)
tests_verbs_device_behave_LDFLAGS = $(NOWRAP)
tests_verbs_queue_faults_SOURCES = tests/verbs/queue_faults.c tests/verbs/vt.h
tests_verbs_queue_faults_LDADD = $(verbs_ldadd)
tests_verbs_queue_faults_LDFLAGS = $(NOWRAP)
# shcactl trace, and what Wireshark reads of it.
check_PROGRAMS += tests/verbs/trace_traffic
TESTS += tests/verbs/trace.sh tests/verbs/python.sh tests/verbs/pyverbs_snippets.sh
EXTRA_DIST += tests/verbs/trace.sh tests/verbs/python.sh tests/verbs/python_verbs.py tests/verbs/pyverbs_snippets.sh \
	tests/verbs/pyverbs_snippets.py
tests_verbs_trace_traffic_SOURCES = tests/verbs/trace_traffic.c tests/verbs/ports.h tests/verbs/vt.h
tests_verbs_trace_traffic_LDADD = $(verbs_ldadd)
tests_verbs_trace_traffic_LDFLAGS = $(NOWRAP)
tests_verbs_multicast_SOURCES = tests/verbs/multicast.c tests/verbs/vt.h
tests_verbs_multicast_LDADD = $(verbs_ldadd)
tests_verbs_multicast_LDFLAGS = $(NOWRAP)
memory_keys_sources = tests/verbs/memory_keys.h tests/verbs/owner.h tests/verbs/vt.h
tests_verbs_memory_keys_SOURCES = tests/verbs/memory_keys.c $(memory_keys_sources)
tests_verbs_memory_keys_LDADD = $(verbs_ldadd)
tests_verbs_memory_keys_LDFLAGS = $(NOWRAP)
tests_verbs_memory_keys_layouts_SOURCES = tests/verbs/memory_keys_layouts.c $(memory_keys_sources)
tests_verbs_memory_keys_layouts_LDADD = $(verbs_ldadd)
tests_verbs_memory_keys_layouts_LDFLAGS = $(NOWRAP)
tests_verbs_memory_keys_remote_SOURCES = tests/verbs/memory_keys_remote.c $(memory_keys_sources)
tests_verbs_memory_keys_remote_LDADD = $(verbs_ldadd)
tests_verbs_memory_keys_remote_LDFLAGS = $(NOWRAP)
tests_verbs_memory_windows_SOURCES = tests/verbs/memory_windows.c tests/verbs/owner.h tests/verbs/vt.h
tests_verbs_memory_windows_LDADD = $(verbs_ldadd)
tests_verbs_memory_windows_LDFLAGS = $(NOWRAP)
tests_verbs_import_SOURCES = tests/verbs/import.c tests/verbs/vt.h
tests_verbs_import_LDADD = $(verbs_ldadd)
tests_verbs_import_LDFLAGS = $(NOWRAP)
tests_verbs_atomic_write_SOURCES = tests/verbs/atomic_write.c tests/verbs/vt.h
tests_verbs_atomic_write_LDADD = $(verbs_ldadd) -lpthread
tests_verbs_atomic_write_LDFLAGS = $(NOWRAP)
tests_verbs_link_ethernet_SOURCES = tests/verbs/link_ethernet.c tests/verbs/vt.h
tests_verbs_link_ethernet_LDADD = $(verbs_ldadd)
tests_verbs_link_ethernet_LDFLAGS = $(NOWRAP)
tests_verbs_large_tls_SOURCES = tests/verbs/large_tls.c tests/verbs/vt.h
tests_verbs_large_tls_LDADD = $(verbs_ldadd)
tests_verbs_large_tls_LDFLAGS = $(NOWRAP)
tests_verbs_timestamps_SOURCES = tests/verbs/timestamps.c tests/verbs/vt.h
tests_verbs_timestamps_LDADD = $(verbs_ldadd)
tests_verbs_timestamps_LDFLAGS = $(NOWRAP)
tests_verbs_raw_packets_SOURCES = tests/verbs/raw_packets.c tests/verbs/frame.h tests/verbs/vt.h
tests_verbs_raw_packets_LDADD = $(verbs_ldadd)
tests_verbs_raw_packets_LDFLAGS = $(NOWRAP)
tests_verbs_raw_steering_SOURCES = tests/verbs/raw_steering.c tests/verbs/frame.h tests/verbs/vt.h
tests_verbs_raw_steering_LDADD = $(verbs_ldadd)
tests_verbs_raw_steering_LDFLAGS = $(NOWRAP)
tests_verbs_null_region_SOURCES = tests/verbs/null_region.c tests/verbs/vt.h
tests_verbs_null_region_LDADD = $(verbs_ldadd)
tests_verbs_null_region_LDFLAGS = $(NOWRAP)
tests_verbs_protection_SOURCES = tests/verbs/protection.c tests/verbs/vt.h
tests_verbs_protection_LDADD = $(verbs_ldadd)
tests_verbs_protection_LDFLAGS = $(NOWRAP)
tests_verbs_statuses_SOURCES = tests/verbs/statuses.c tests/verbs/vt.h
tests_verbs_statuses_LDADD = $(verbs_ldadd)
tests_verbs_statuses_LDFLAGS = $(NOWRAP)
tests_verbs_traffic_SOURCES = tests/verbs/traffic.c tests/verbs/vt.h
tests_verbs_traffic_LDADD = $(verbs_ldadd)
tests_verbs_traffic_LDFLAGS = $(NOWRAP)
tests_verbs_fast_write_SOURCES = tests/verbs/fast_write.c tests/verbs/vt.h
tests_verbs_fast_write_LDADD = $(verbs_ldadd)
tests_verbs_fast_write_LDFLAGS = $(NOWRAP)
tests_verbs_unpolled_SOURCES = tests/verbs/unpolled.c tests/verbs/vt.h
tests_verbs_unpolled_LDADD = $(verbs_ldadd)
tests_verbs_fast_inline_SOURCES = tests/verbs/fast_inline.c tests/verbs/vt.h
tests_verbs_fast_inline_LDADD = $(verbs_ldadd)
tests_verbs_fast_inline_LDFLAGS = $(NOWRAP)
tests_verbs_fork_SOURCES = tests/verbs/fork.c tests/verbs/vt.h
tests_verbs_fork_LDADD = $(verbs_ldadd)
tests_verbs_fork_LDFLAGS = $(NOWRAP)
tests_verbs_unreliable_SOURCES = tests/verbs/unreliable.c tests/verbs/vt.h
tests_verbs_unreliable_LDADD = $(verbs_ldadd)
tests_verbs_unreliable_LDFLAGS = $(NOWRAP)
tests_verbs_edges_SOURCES = tests/verbs/edges.c tests/verbs/vt.h
tests_verbs_edges_LDADD = $(verbs_ldadd) -lpthread
tests_verbs_edges_LDFLAGS = $(NOWRAP)
tests_verbs_exp_SOURCES = tests/verbs/exp.c tests/verbs/vt.h
tests_verbs_exp_LDADD = $(verbs_ldadd)
tests_verbs_exp_LDFLAGS = $(NOWRAP)
tests_verbs_exp_comp_mask_SOURCES = tests/verbs/exp_comp_mask.c tests/verbs/vt.h
tests_verbs_exp_comp_mask_LDADD = $(verbs_ldadd) -lpthread
tests_verbs_exp_comp_mask_LDFLAGS = $(NOWRAP)
# As for the vendor's header, whose names a program may have from <infiniband/verbs.h>.
exp_include = -include infiniband/verbs_exp.h
tests_verbs_exp_dc_SOURCES = tests/verbs/exp_dc.c tests/verbs/vt.h
tests_verbs_exp_dc_CPPFLAGS = $(AM_CPPFLAGS) $(exp_include)
tests_verbs_exp_dc_LDADD = $(verbs_ldadd)
tests_verbs_exp_dc_LDFLAGS = $(NOWRAP)
tests_verbs_exp_xrc_SOURCES = tests/verbs/exp_xrc.c tests/verbs/vt.h
tests_verbs_exp_xrc_CPPFLAGS = $(AM_CPPFLAGS) $(exp_include)
tests_verbs_exp_xrc_LDADD = $(verbs_ldadd)
tests_verbs_exp_xrc_LDFLAGS = $(NOWRAP)
tests_verbs_open_qp_SOURCES = tests/verbs/open_qp.c tests/verbs/vt.h
tests_verbs_open_qp_LDADD = $(verbs_ldadd)
tests_verbs_open_qp_LDFLAGS = $(NOWRAP)
tests_verbs_exp_calls_SOURCES = tests/verbs/exp_calls.c tests/verbs/exp_numbers.c tests/verbs/vt.h
tests_verbs_exp_calls_CPPFLAGS = $(AM_CPPFLAGS) $(exp_include)
tests_verbs_exp_calls_LDADD = $(verbs_ldadd)
tests_verbs_exp_calls_LDFLAGS = $(NOWRAP)
tests_verbs_atomics_SOURCES = tests/verbs/atomics.c tests/verbs/atomic_model.h tests/verbs/vt.h
tests_verbs_atomics_LDADD = $(verbs_ldadd)
tests_verbs_atomics_LDFLAGS = $(NOWRAP)
tests_verbs_calc_SOURCES = tests/verbs/calc.c tests/verbs/calc_model.h tests/verbs/vt.h
tests_verbs_calc_LDADD = $(verbs_ldadd)
tests_verbs_calc_LDFLAGS = $(NOWRAP)
tests_verbs_objects_SOURCES = tests/verbs/objects.c tests/verbs/vt.h
tests_verbs_objects_LDADD = $(verbs_ldadd) -lpthread
tests_verbs_objects_LDFLAGS = $(NOWRAP)
tests_verbs_device_SOURCES = tests/verbs/device.c tests/verbs/vt.h
tests_verbs_device_LDADD = $(verbs_ldadd)
tests_verbs_device_LDFLAGS = $(NOWRAP)
tests_verbs_raw_SOURCES = tests/verbs/raw.c tests/verbs/vt.h $(verbs_exp_mlx5_sources)
tests_verbs_raw_LDADD = $(verbs_ldadd)
tests_verbs_raw_LDFLAGS = $(NOWRAP)
tests_verbs_mlx5_SOURCES = tests/verbs/mlx5.c tests/verbs/vt.h
tests_verbs_mlx5_LDADD = $(verbs_ldadd)
tests_verbs_mlx5_LDFLAGS = $(NOWRAP)
tests_verbs_access_SOURCES = tests/verbs/access.h tests/verbs/access.c tests/verbs/access_ways.c tests/verbs/access_peer.c \
	tests/verbs/vt.h
tests_verbs_access_LDADD = $(verbs_ldadd)
tests_verbs_access_LDFLAGS = $(NOWRAP)
tests_verbs_object_churn_SOURCES = tests/verbs/object_churn.c tests/verbs/vt.h
tests_verbs_object_churn_LDADD = $(verbs_ldadd) -lpthread
tests_verbs_object_churn_LDFLAGS = $(NOWRAP)

# As libheddle has it: hidden.
tests_verbs_embedded_SOURCES = tests/verbs/embedded.c tests/verbs/vt.h $(verbs_exp_sources)
tests_verbs_embedded_CFLAGS = $(AM_CFLAGS)
tests_verbs_embedded_LDADD = libshca_core.la $(VERBS_LIBS)
tests_verbs_embedded_LDFLAGS = $(NOWRAP)

# The same program linked without, before and behind libibverbs.
tests_verbs_device_visible_plain_SOURCES = tests/verbs/device_visible.c
tests_verbs_device_visible_plain_LDADD = $(VERBS_LIBS)
tests_verbs_device_visible_plain_LDFLAGS = $(NOWRAP)
tests_verbs_device_visible_linked_SOURCES = tests/verbs/device_visible.c
tests_verbs_device_visible_linked_LDADD = libshca.la $(VERBS_LIBS)
tests_verbs_device_visible_linked_LDFLAGS = $(NOWRAP)
tests_verbs_device_visible_behind_SOURCES = tests/verbs/device_visible.c
tests_verbs_device_visible_behind_LDADD = $(VERBS_LIBS) libshca.la
tests_verbs_device_visible_behind_LDFLAGS = $(NOWRAP) -Wl,--no-as-needed

# RDMA CM: the real librdmacm over the software device, by linking; and unmodified programs.
cm_programs = tests/verbs/cm_events tests/verbs/cm_lives tests/verbs/cm_channels tests/verbs/cm_ports tests/verbs/cm_ib \
	tests/verbs/fork_locks tests/verbs/manual_mckey tests/verbs/manual_apm tests/verbs/manual_mc tests/verbs/manual_srq \
	tests/verbs/manual_calls tests/verbs/mixed
if HAVE_RDMACM
check_PROGRAMS += $(cm_programs)
TESTS += $(cm_programs)
endif
TESTS += tests/verbs/cm_programs.sh tests/verbs/cm_real.sh
EXTRA_DIST += tests/verbs/cm_programs.sh tests/verbs/cm_real.sh
cm_ldadd = libshca-files.la libshca.la $(RDMACM_LIBS) $(VERBS_LIBS) -lpthread
tests_verbs_cm_events_SOURCES = tests/verbs/cm_events.c tests/verbs/cm.h tests/verbs/vt.h
tests_verbs_cm_events_LDADD = $(cm_ldadd)
tests_verbs_cm_events_LDFLAGS = $(NOWRAP)
tests_verbs_cm_lives_SOURCES = tests/verbs/cm_lives.c tests/verbs/cm.h tests/verbs/vt.h
tests_verbs_cm_lives_LDADD = $(cm_ldadd)
tests_verbs_cm_lives_LDFLAGS = $(NOWRAP)
tests_verbs_cm_ports_SOURCES = tests/verbs/cm_ports.c tests/verbs/cm.h tests/verbs/vt.h
tests_verbs_cm_ports_LDADD = $(cm_ldadd)
tests_verbs_cm_ports_LDFLAGS = $(NOWRAP)
tests_verbs_cm_ib_SOURCES = tests/verbs/cm_ib.c tests/verbs/cm.h tests/verbs/vt.h
tests_verbs_cm_ib_LDADD = $(cm_ldadd)
tests_verbs_cm_ib_LDFLAGS = $(NOWRAP)
tests_verbs_fork_locks_SOURCES = tests/verbs/fork_locks.c tests/verbs/cm.h tests/verbs/vt.h
tests_verbs_fork_locks_LDADD = $(cm_ldadd)
tests_verbs_fork_locks_LDFLAGS = $(NOWRAP) -Wl,--no-as-needed
tests_verbs_mixed_SOURCES = tests/verbs/mixed.h tests/verbs/mixed.c tests/verbs/mixed_disturb.c tests/verbs/mixed_cm.c \
	tests/verbs/mixed_victim.c tests/verbs/mixed_groups.c tests/verbs/mixed_keys.c tests/verbs/mixed_xrc.c \
	tests/verbs/mixed_requests.c tests/verbs/mixed_objects.c tests/verbs/mixed_processes.c tests/verbs/cm.h tests/verbs/vt.h
tests_verbs_mixed_LDADD = $(cm_ldadd)
tests_verbs_mixed_LDFLAGS = $(NOWRAP)
tests_verbs_cm_channels_SOURCES = tests/verbs/cm_channels.c tests/verbs/cm.h tests/verbs/vt.h
tests_verbs_cm_channels_LDADD = $(cm_ldadd)
tests_verbs_cm_channels_LDFLAGS = $(NOWRAP)

# The manual's programs (chapters 7 and 8).
check_PROGRAMS += tests/verbs/manual_rc
TESTS += tests/verbs/manual_rc
manual_sources = tests/verbs/manual.h tests/verbs/vt.h
tests_verbs_manual_rc_SOURCES = tests/verbs/manual_rc.c $(manual_sources)
tests_verbs_manual_rc_LDADD = $(verbs_ldadd)
tests_verbs_manual_rc_LDFLAGS = $(NOWRAP)
tests_verbs_manual_mckey_SOURCES = tests/verbs/manual_mckey.c tests/verbs/cm.h $(manual_sources)
tests_verbs_manual_mckey_LDADD = $(cm_ldadd)
tests_verbs_manual_mckey_LDFLAGS = $(NOWRAP)
tests_verbs_manual_apm_SOURCES = tests/verbs/manual_apm.c tests/verbs/cm.h $(manual_sources)
tests_verbs_manual_apm_LDADD = $(cm_ldadd)
tests_verbs_manual_apm_LDFLAGS = $(NOWRAP)
tests_verbs_manual_mc_SOURCES = tests/verbs/manual_mc.c tests/verbs/cm.h $(manual_sources)
tests_verbs_manual_mc_LDADD = $(cm_ldadd)
tests_verbs_manual_mc_LDFLAGS = $(NOWRAP)
tests_verbs_manual_srq_SOURCES = tests/verbs/manual_srq.c tests/verbs/cm.h $(manual_sources)
tests_verbs_manual_srq_LDADD = $(cm_ldadd)
tests_verbs_manual_srq_LDFLAGS = $(NOWRAP)
tests_verbs_manual_calls_SOURCES = tests/verbs/manual_calls.c tests/verbs/cm.h tests/verbs/vt.h
tests_verbs_manual_calls_LDADD = $(cm_ldadd)
# the program itself calls nothing of libshca-files
tests_verbs_manual_calls_LDFLAGS = $(NOWRAP) -Wl,--no-as-needed

# The device's files, and unmodified programs case by case (docs/interop.md).
check_PROGRAMS += tests/verbs/files
TESTS += tests/verbs/files.sh tests/verbs/interop.sh tests/verbs/raw_ethernet.sh
EXTRA_DIST += tests/verbs/files.sh tests/verbs/interop.sh tests/verbs/raw_ethernet.sh
tests_verbs_files_SOURCES = tests/verbs/files.c
tests_verbs_files_LDFLAGS = $(NOWRAP)
# 256 processes in a fabric.
check_PROGRAMS += tests/verbs/fabric_256
TESTS += tests/verbs/fabric_256
tests_verbs_fabric_256_SOURCES = tests/verbs/fabric_256.c tests/verbs/vt.h
tests_verbs_fabric_256_LDADD = $(verbs_ldadd)
tests_verbs_fabric_256_LDFLAGS = $(NOWRAP)
# Limits of the process.
check_PROGRAMS += tests/verbs/limits
TESTS += tests/verbs/limits
tests_verbs_limits_SOURCES = tests/verbs/limits.c tests/verbs/vt.h
tests_verbs_limits_LDADD = libshca-files.la libshca.la $(VERBS_LIBS)
tests_verbs_limits_LDFLAGS = $(NOWRAP)
# Management datagrams.
check_PROGRAMS += tests/verbs/umad tests/verbs/umad_traffic
TESTS += tests/verbs/umad tests/verbs/umad.sh
EXTRA_DIST += tests/verbs/umad.sh
tests_verbs_umad_SOURCES = tests/verbs/umad.c
tests_verbs_umad_LDADD = libshca-files.la libshca.la
tests_verbs_umad_LDFLAGS = $(NOWRAP)
tests_verbs_umad_traffic_SOURCES = tests/verbs/umad_traffic.c tests/verbs/vt.h
tests_verbs_umad_traffic_LDADD = $(verbs_ldadd)
tests_verbs_umad_traffic_LDFLAGS = $(NOWRAP)

# What --debug says.
check_PROGRAMS += tests/verbs/refusal_log
TESTS += tests/verbs/refusal_log tests/verbs/refusal_log.sh tests/verbs/asyncwatch.sh
EXTRA_DIST += tests/verbs/refusal_log.sh tests/verbs/asyncwatch.sh
tests_verbs_refusal_log_SOURCES = tests/verbs/refusal_log.c tests/verbs/vt.h
tests_verbs_refusal_log_LDADD = $(verbs_ldadd)
tests_verbs_refusal_log_LDFLAGS = $(NOWRAP)
