# Tests of the engine. They are built of its sources, without the interposer; some once more with sanitizers or failpoints.
shca_rig = tests/shca/rig.h tests/shca/rig.c tests/shca/frames.h
graph_sources = tests/shca/graph.h tests/shca/graph_make.c tests/shca/graph_check.c tests/shca/graph_run.c \
	tests/verbs/calc_model.h tests/verbs/atomic_model.h
vproc_sources = tests/shca/vproc.h tests/shca/vproc.c tests/shca/vproc_traffic.c tests/shca/vproc_frames.c tests/shca/vproc_graphs.c \
	tests/shca/vproc_memory.c $(graph_sources) $(shca_rig) $(shca_sources)

noinst_PROGRAMS += tests/shca/vproc
tests_shca_vproc_SOURCES = $(vproc_sources)
tests_shca_vproc_CFLAGS = $(AM_CFLAGS)
tests_shca_vproc_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_vproc_LDADD = $(VERBS_LIBS)
tests_shca_vproc_LDFLAGS = $(NOWRAP)

if !SANITIZE
check_PROGRAMS += tests/shca/vproc_tsan tests/shca/vproc_asan
tests_shca_vproc_tsan_SOURCES = $(vproc_sources)
tests_shca_vproc_tsan_CFLAGS = $(AM_CFLAGS) -fsanitize=thread -fno-omit-frame-pointer
tests_shca_vproc_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_vproc_tsan_LDADD = $(VERBS_LIBS)
tests_shca_vproc_tsan_LDFLAGS = $(NOWRAP)
tests_shca_vproc_asan_SOURCES = $(vproc_sources)
tests_shca_vproc_asan_CFLAGS = $(AM_CFLAGS) -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
tests_shca_vproc_asan_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_vproc_asan_LDADD = $(VERBS_LIBS)
tests_shca_vproc_asan_LDFLAGS = $(NOWRAP)
endif
# Parts of this folder.

# The fabric: among processes, and among virtual processes of one address space.
fabric_tests = tests/shca/fabric_procs tests/shca/fabric_stress
check_PROGRAMS += $(fabric_tests)
check_PROGRAMS += tests/shca/fabric_nocma
tests_shca_fabric_nocma_SOURCES = tests/shca/fabric_nocma.c
fabric_scripts = tests/shca/fabric_shcactl.sh tests/shca/fabric_proxy.sh
TESTS += $(fabric_tests) $(fabric_scripts)
EXTRA_DIST += $(fabric_scripts) tests/shca/pair.sh
tests_shca_fabric_procs_SOURCES = tests/shca/fabric_procs.h tests/shca/fabric_procs.c tests/shca/fabric_procs_limits.c \
	tests/shca/fabric_procs_wake.c
tests_shca_fabric_procs_LDADD = libshca_core.la
tests_shca_fabric_stress_SOURCES = tests/shca/fabric_stress.c
tests_shca_fabric_stress_LDADD = libshca_core.la

# The engine with points where a process can be made to die.
noinst_LTLIBRARIES += libshca_failpoints.la
libshca_failpoints_la_SOURCES = $(shca_sources)
libshca_failpoints_la_CFLAGS = $(AM_CFLAGS)
libshca_failpoints_la_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS

noinst_PROGRAMS += tests/shca/failpoints
tests_shca_failpoints_SOURCES = tests/shca/failpoints.h tests/shca/failpoints.c tests/shca/failpoints_stage.c \
	tests/shca/failpoints_roles.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_failpoints_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_failpoints_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_failpoints_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/failpoints_kinds
TESTS += tests/shca/failpoints_kinds tests/shca/failpoints_named.sh
EXTRA_DIST += tests/shca/failpoints_named.sh
tests_shca_failpoints_kinds_SOURCES = tests/shca/failpoints_kinds.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_failpoints_kinds_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_failpoints_kinds_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_failpoints_kinds_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/common_qp_death
TESTS += tests/shca/common_qp_death
tests_shca_common_qp_death_SOURCES = tests/shca/common_qp_death.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_common_qp_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_common_qp_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_common_qp_death_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/executor_leaves
tests_shca_executor_leaves_SOURCES = tests/shca/executor_leaves.c $(shca_rig)
tests_shca_executor_leaves_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_executor_leaves_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/datagram_death
tests_shca_datagram_death_SOURCES = tests/shca/datagram_death.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_datagram_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_datagram_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_datagram_death_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/path_death
TESTS += tests/shca/path_death
tests_shca_path_death_SOURCES = tests/shca/path_death.c tests/shca/third_death.h tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_path_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_path_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_path_death_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/shca/window_death tests/shca/window_in_use
TESTS += tests/shca/window_death tests/shca/window_in_use
tests_shca_window_death_SOURCES = tests/shca/window_death.c tests/shca/third_death.h tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_window_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_window_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_window_death_LDFLAGS = $(NOWRAP)
tests_shca_window_in_use_SOURCES = tests/shca/window_in_use.c tests/shca/hold.h $(shca_rig)
tests_shca_window_in_use_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_window_in_use_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_window_in_use_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/responder_death tests/shca/rnr_list_death
tests_shca_responder_death_SOURCES = tests/shca/responder_death.c $(shca_rig)
tests_shca_responder_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_responder_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_responder_death_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/shca/atomic_region
TESTS += tests/shca/atomic_region
tests_shca_atomic_region_SOURCES = tests/shca/atomic_region.c $(shca_rig)
tests_shca_atomic_region_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_atomic_region_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_atomic_region_LDFLAGS = $(NOWRAP)
tests_shca_rnr_list_death_SOURCES = tests/shca/rnr_list_death.c $(shca_rig)
tests_shca_rnr_list_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_rnr_list_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_rnr_list_death_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/third_party_death
TESTS += tests/shca/third_party_death
tests_shca_third_party_death_SOURCES = tests/shca/third_party_death.c $(shca_rig)
tests_shca_third_party_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_third_party_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_third_party_death_LDFLAGS = $(NOWRAP)

TESTS += tests/shca/vproc.sh tests/shca/failpoints.sh tests/shca/random_kills.sh tests/shca/executor_leaves \
	tests/shca/datagram_death tests/shca/responder_death tests/shca/rnr_list_death
EXTRA_DIST += tests/shca/vproc.sh tests/shca/failpoints.sh tests/shca/random_kills.sh
noinst_PROGRAMS += tests/shca/random_kills
tests_shca_random_kills_SOURCES = tests/shca/random_kills.c tests/shca/random_kills.h tests/shca/random_kills_queues.c \
	$(shca_rig)
tests_shca_random_kills_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_random_kills_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_random_kills_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/frame_kills
TESTS += tests/shca/frame_kills
tests_shca_frame_kills_SOURCES = tests/shca/frame_kills.c $(shca_rig)
tests_shca_frame_kills_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_frame_kills_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_frame_kills_LDFLAGS = $(NOWRAP)

# Completion queues: what task lists and overruns do to them.
completion_tests = tests/shca/task_lists tests/shca/wakeups tests/shca/completions tests/shca/step_counts
check_PROGRAMS += $(completion_tests)
TESTS += $(completion_tests)
tests_shca_task_lists_SOURCES = tests/shca/task_lists.c $(shca_rig)
tests_shca_task_lists_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_task_lists_LDFLAGS = $(NOWRAP)
tests_shca_wakeups_SOURCES = tests/shca/wakeups.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_wakeups_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_wakeups_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_wakeups_LDFLAGS = $(NOWRAP)
tests_shca_completions_SOURCES = tests/shca/completions.c $(shca_rig)
tests_shca_completions_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_completions_LDFLAGS = $(NOWRAP)
tests_shca_step_counts_SOURCES = tests/shca/step_counts.c $(shca_rig)
tests_shca_step_counts_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_step_counts_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_step_counts_LDFLAGS = $(NOWRAP)

# Two that come together at one instruction, and what is left of who has gone.
check_PROGRAMS += tests/shca/async_event_death
TESTS += tests/shca/async_event_death
tests_shca_async_event_death_SOURCES = tests/shca/async_event_death.c tests/shca/hold.h $(shca_rig)
tests_shca_async_event_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_async_event_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_async_event_death_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/unfinished_word
TESTS += tests/shca/unfinished_word
tests_shca_unfinished_word_SOURCES = tests/shca/unfinished_word.c tests/shca/hold.h $(shca_rig)
tests_shca_unfinished_word_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_unfinished_word_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_unfinished_word_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/write_reordered
TESTS += tests/shca/write_reordered
tests_shca_write_reordered_SOURCES = tests/shca/write_reordered.c tests/shca/hold.h $(shca_rig)
tests_shca_write_reordered_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_write_reordered_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_write_reordered_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/slot_reuse_death
TESTS += tests/shca/slot_reuse_death
tests_shca_slot_reuse_death_SOURCES = tests/shca/slot_reuse_death.c tests/shca/hold.h $(shca_rig)
tests_shca_slot_reuse_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_slot_reuse_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_slot_reuse_death_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/common_qp_last_handle
TESTS += tests/shca/common_qp_last_handle
tests_shca_common_qp_last_handle_SOURCES = tests/shca/common_qp_last_handle.c tests/shca/hold.h $(shca_rig)
tests_shca_common_qp_last_handle_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_common_qp_last_handle_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_common_qp_last_handle_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/copy_share_death
TESTS += tests/shca/copy_share_death
tests_shca_copy_share_death_SOURCES = tests/shca/copy_share_death.c $(shca_rig)
tests_shca_copy_share_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_copy_share_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_copy_share_death_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/device_fatal_modify
TESTS += tests/shca/device_fatal_modify
tests_shca_device_fatal_modify_SOURCES = tests/shca/device_fatal_modify.c tests/shca/hold.h $(shca_rig)
tests_shca_device_fatal_modify_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_device_fatal_modify_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_device_fatal_modify_LDFLAGS = $(NOWRAP)

# Built by itself, with clang.
TESTS += tests/shca/fuzz.sh
EXTRA_DIST += tests/shca/fuzz.sh tests/shca/fuzz_verbs.c

check_PROGRAMS += tests/shca/timers
TESTS += tests/shca/timers
tests_shca_timers_SOURCES = tests/shca/timers.c $(shca_rig)
tests_shca_timers_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_timers_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_timers_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/interleavings
TESTS += tests/shca/interleavings
tests_shca_interleavings_SOURCES = tests/shca/interleavings.c $(shca_rig)
tests_shca_interleavings_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_interleavings_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_interleavings_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/srq_resize
TESTS += tests/shca/srq_resize
tests_shca_srq_resize_SOURCES = tests/shca/srq_resize.c tests/shca/hold.h tests/shca/resize.h $(shca_rig)
tests_shca_srq_resize_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_srq_resize_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_srq_resize_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/shca/cq_resize
TESTS += tests/shca/cq_resize
tests_shca_cq_resize_SOURCES = tests/shca/cq_resize.c tests/shca/hold.h tests/shca/resize.h $(shca_rig)
tests_shca_cq_resize_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_cq_resize_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_cq_resize_LDFLAGS = $(NOWRAP)

# Queues that are destroyed, or whose process ends, while they wait for a receive.
check_PROGRAMS += tests/shca/rnr_list_destroy
TESTS += tests/shca/rnr_list_destroy
tests_shca_rnr_list_destroy_SOURCES = tests/shca/rnr_list_destroy.c $(shca_rig)
tests_shca_rnr_list_destroy_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_rnr_list_destroy_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_rnr_list_destroy_LDFLAGS = $(NOWRAP)

# Who sees an error finds the queue in error.
check_PROGRAMS += tests/shca/wc_error_qp_state
TESTS += tests/shca/wc_error_qp_state
tests_shca_wc_error_qp_state_SOURCES = tests/shca/wc_error_qp_state.c $(shca_rig)
tests_shca_wc_error_qp_state_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_wc_error_qp_state_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_wc_error_qp_state_LDFLAGS = $(NOWRAP)

# What a requester that died has left in a proxy's mailbox.
check_PROGRAMS += tests/shca/proxy_on_demand
TESTS += tests/shca/proxy_on_demand
tests_shca_proxy_on_demand_SOURCES = tests/shca/proxy_on_demand.c $(shca_rig)
tests_shca_proxy_on_demand_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_proxy_on_demand_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_proxy_on_demand_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/shca/proxy_mailbox_death
TESTS += tests/shca/proxy_mailbox_death
tests_shca_proxy_mailbox_death_SOURCES = tests/shca/proxy_mailbox_death.c $(shca_rig)
tests_shca_proxy_mailbox_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_proxy_mailbox_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_proxy_mailbox_death_LDFLAGS = $(NOWRAP)

# What programs do that nobody thought of.
check_PROGRAMS += tests/shca/process_limits
TESTS += tests/shca/process_limits
tests_shca_process_limits_SOURCES = tests/shca/process_limits.c $(shca_rig)
tests_shca_process_limits_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_process_limits_LDFLAGS = $(NOWRAP)

# Death in everything but requests.
check_PROGRAMS += tests/shca/control_path_death
TESTS += tests/shca/control_path_death
tests_shca_control_path_death_SOURCES = tests/shca/control_path_death.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_control_path_death_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_control_path_death_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_control_path_death_LDFLAGS = $(NOWRAP)

# What a process finds in others\' objects that were scribbled over.
check_PROGRAMS += tests/shca/corrupt_objects
TESTS += tests/shca/corrupt_objects
tests_shca_corrupt_objects_SOURCES = tests/shca/corrupt_objects.c $(shca_rig)
tests_shca_corrupt_objects_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_corrupt_objects_LDFLAGS = $(NOWRAP)

# What a reaper, and others beside it, find in a dead process's objects that were scribbled over.
check_PROGRAMS += tests/shca/reaper_corrupt_objects
TESTS += tests/shca/reaper_corrupt_objects
tests_shca_reaper_corrupt_objects_SOURCES = tests/shca/reaper_corrupt_objects.c $(shca_rig)
tests_shca_reaper_corrupt_objects_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_reaper_corrupt_objects_LDFLAGS = $(NOWRAP)

# What is left of members and of their threads.
check_PROGRAMS += tests/shca/stale_threads
TESTS += tests/shca/stale_threads
tests_shca_stale_threads_SOURCES = tests/shca/stale_threads.c $(shca_rig)
tests_shca_stale_threads_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_stale_threads_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_stale_threads_LDFLAGS = $(NOWRAP)

# Members that end without closing anything, and reads of another member's memory, under valgrind.
check_PROGRAMS += tests/shca/exit_without_close tests/shca/memcheck_peer_arena
TESTS += tests/shca/valgrind.sh
EXTRA_DIST += tests/shca/valgrind.sh
tests_shca_exit_without_close_SOURCES = tests/shca/exit_without_close.c $(shca_rig)
tests_shca_exit_without_close_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_exit_without_close_LDFLAGS = $(NOWRAP)
tests_shca_memcheck_peer_arena_SOURCES = tests/shca/memcheck_peer_arena.c $(shca_rig)
tests_shca_memcheck_peer_arena_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_memcheck_peer_arena_LDFLAGS = $(NOWRAP)

# A dead process's pid becomes a stranger's.
check_PROGRAMS += tests/shca/pid_reuse
TESTS += tests/shca/pid_reuse
tests_shca_pid_reuse_SOURCES = tests/shca/pid_reuse.c $(shca_rig)
tests_shca_pid_reuse_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_pid_reuse_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_pid_reuse_LDFLAGS = $(NOWRAP)

# Death after single instructions.
check_PROGRAMS += tests/shca/single_step
TESTS += tests/shca/single_step
tests_shca_single_step_SOURCES = tests/shca/single_step.h tests/shca/single_step.c tests/shca/single_step_calls.c $(shca_rig)
tests_shca_single_step_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_single_step_LDFLAGS = $(NOWRAP)

# The application closes descriptors and uses their numbers.
check_PROGRAMS += tests/shca/descriptors
TESTS += tests/shca/descriptors
tests_shca_descriptors_SOURCES = tests/shca/descriptors.c $(shca_rig)
tests_shca_descriptors_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_descriptors_LDFLAGS = $(NOWRAP)

# The sub-layers of src/shca use those below only.

# Graphs of requests whose outcome is determined, among processes that are stopped and killed.
check_PROGRAMS += tests/shca/graphs
TESTS += tests/shca/graphs
tests_shca_graphs_SOURCES = tests/shca/graphs.c tests/shca/graph_death.c $(graph_sources) $(shca_rig)
tests_shca_graphs_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_graphs_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_graphs_LDFLAGS = $(NOWRAP)
