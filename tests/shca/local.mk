# Tests of the engine. They are built of its sources, without the interposer; some once more with sanitizers or failpoints.
shca_rig = tests/shca/rig.h tests/shca/rig.c
graph_sources = tests/shca/graph.h tests/shca/graph_make.c tests/shca/graph_check.c tests/shca/graph_run.c \
	tests/verbs/calc_model.h tests/verbs/atomic_model.h
vproc_sources = tests/shca/vproc.h tests/shca/vproc.c tests/shca/vproc_traffic.c tests/shca/vproc_graphs.c \
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

check_PROGRAMS += tests/shca/commons
TESTS += tests/shca/commons
tests_shca_commons_SOURCES = tests/shca/commons.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_commons_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_commons_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_commons_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/departure
tests_shca_departure_SOURCES = tests/shca/departure.c $(shca_rig)
tests_shca_departure_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_departure_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/datagrams
tests_shca_datagrams_SOURCES = tests/shca/datagrams.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_datagrams_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_datagrams_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_datagrams_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/responder_dies tests/shca/stalled_link
tests_shca_responder_dies_SOURCES = tests/shca/responder_dies.c $(shca_rig)
tests_shca_responder_dies_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_responder_dies_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_responder_dies_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/shca/atomic_region
TESTS += tests/shca/atomic_region
tests_shca_atomic_region_SOURCES = tests/shca/atomic_region.c $(shca_rig)
tests_shca_atomic_region_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_atomic_region_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_atomic_region_LDFLAGS = $(NOWRAP)
tests_shca_stalled_link_SOURCES = tests/shca/stalled_link.c $(shca_rig)
tests_shca_stalled_link_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_stalled_link_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_stalled_link_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/third_parties
TESTS += tests/shca/third_parties
tests_shca_third_parties_SOURCES = tests/shca/third_parties.c $(shca_rig)
tests_shca_third_parties_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_third_parties_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_third_parties_LDFLAGS = $(NOWRAP)

TESTS += tests/shca/vproc.sh tests/shca/failpoints.sh tests/shca/kills.sh tests/shca/departure tests/shca/datagrams \
	tests/shca/responder_dies tests/shca/stalled_link
EXTRA_DIST += tests/shca/vproc.sh tests/shca/failpoints.sh tests/shca/kills.sh
noinst_PROGRAMS += tests/shca/kills
tests_shca_kills_SOURCES = tests/shca/kills.c $(shca_rig)
tests_shca_kills_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_kills_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_kills_LDFLAGS = $(NOWRAP)

# Completion queues: what task lists and overruns do to them.
completion_tests = tests/shca/task_lists tests/shca/wakeups tests/shca/completions tests/shca/costs
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
tests_shca_costs_SOURCES = tests/shca/costs.c $(shca_rig)
tests_shca_costs_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_costs_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_costs_LDFLAGS = $(NOWRAP)

# Two that come together at one instruction, and what is left of who has gone.
check_PROGRAMS += tests/shca/told
TESTS += tests/shca/told
tests_shca_told_SOURCES = tests/shca/told.c tests/shca/hold.h $(shca_rig)
tests_shca_told_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_told_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_told_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/unfinished
TESTS += tests/shca/unfinished
tests_shca_unfinished_SOURCES = tests/shca/unfinished.c tests/shca/hold.h $(shca_rig)
tests_shca_unfinished_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_unfinished_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_unfinished_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/overtaking
TESTS += tests/shca/overtaking
tests_shca_overtaking_SOURCES = tests/shca/overtaking.c tests/shca/hold.h $(shca_rig)
tests_shca_overtaking_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_overtaking_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_overtaking_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/successors
TESTS += tests/shca/successors
tests_shca_successors_SOURCES = tests/shca/successors.c tests/shca/hold.h $(shca_rig)
tests_shca_successors_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_successors_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_successors_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/last_holder
TESTS += tests/shca/last_holder
tests_shca_last_holder_SOURCES = tests/shca/last_holder.c tests/shca/hold.h $(shca_rig)
tests_shca_last_holder_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_last_holder_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_last_holder_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/companions
TESTS += tests/shca/companions
tests_shca_companions_SOURCES = tests/shca/companions.c $(shca_rig)
tests_shca_companions_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_companions_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_companions_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/failed_device
TESTS += tests/shca/failed_device
tests_shca_failed_device_SOURCES = tests/shca/failed_device.c tests/shca/hold.h $(shca_rig)
tests_shca_failed_device_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_failed_device_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_failed_device_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/timers
TESTS += tests/shca/timers
tests_shca_timers_SOURCES = tests/shca/timers.c $(shca_rig)
tests_shca_timers_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_timers_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_timers_LDFLAGS = $(NOWRAP)

check_PROGRAMS += tests/shca/corners
TESTS += tests/shca/corners
tests_shca_corners_SOURCES = tests/shca/corners.c $(shca_rig)
tests_shca_corners_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_corners_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_corners_LDFLAGS = $(NOWRAP)

# Queues that are destroyed, or whose process ends, while they wait for a receive.
check_PROGRAMS += tests/shca/stalled
TESTS += tests/shca/stalled
tests_shca_stalled_SOURCES = tests/shca/stalled.c $(shca_rig)
tests_shca_stalled_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_stalled_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_stalled_LDFLAGS = $(NOWRAP)

# Who sees an error finds the queue in error.
check_PROGRAMS += tests/shca/error_state
TESTS += tests/shca/error_state
tests_shca_error_state_SOURCES = tests/shca/error_state.c $(shca_rig)
tests_shca_error_state_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_error_state_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_error_state_LDFLAGS = $(NOWRAP)

# What a requester that died has left in a proxy's mailbox.
check_PROGRAMS += tests/shca/proxy_asked
TESTS += tests/shca/proxy_asked
tests_shca_proxy_asked_SOURCES = tests/shca/proxy_asked.c $(shca_rig)
tests_shca_proxy_asked_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_proxy_asked_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_proxy_asked_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/shca/dead_letters
TESTS += tests/shca/dead_letters
tests_shca_dead_letters_SOURCES = tests/shca/dead_letters.c $(shca_rig)
tests_shca_dead_letters_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_dead_letters_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_dead_letters_LDFLAGS = $(NOWRAP)

# What programs do that nobody thought of.
check_PROGRAMS += tests/shca/breakers
TESTS += tests/shca/breakers
tests_shca_breakers_SOURCES = tests/shca/breakers.c $(shca_rig)
tests_shca_breakers_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_breakers_LDFLAGS = $(NOWRAP)

# Death in everything but requests.
check_PROGRAMS += tests/shca/lives
TESTS += tests/shca/lives
tests_shca_lives_SOURCES = tests/shca/lives.c tests/shca/failpoint.h tests/shca/failpoint.c $(shca_rig)
tests_shca_lives_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_lives_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_lives_LDFLAGS = $(NOWRAP)

# What a process finds in others\' objects that were scribbled over.
check_PROGRAMS += tests/shca/scribbled
TESTS += tests/shca/scribbled
tests_shca_scribbled_SOURCES = tests/shca/scribbled.c $(shca_rig)
tests_shca_scribbled_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_scribbled_LDFLAGS = $(NOWRAP)

# What a reaper, and others beside it, find in a dead process's objects that were scribbled over.
check_PROGRAMS += tests/shca/reaper_scribbled
TESTS += tests/shca/reaper_scribbled
tests_shca_reaper_scribbled_SOURCES = tests/shca/reaper_scribbled.c $(shca_rig)
tests_shca_reaper_scribbled_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_reaper_scribbled_LDFLAGS = $(NOWRAP)

# What is left of members and of their threads.
check_PROGRAMS += tests/shca/remains
TESTS += tests/shca/remains
tests_shca_remains_SOURCES = tests/shca/remains.c $(shca_rig)
tests_shca_remains_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_remains_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_remains_LDFLAGS = $(NOWRAP)

# Members that end without closing anything, under valgrind.
check_PROGRAMS += tests/shca/ends_early
TESTS += tests/shca/valgrind.sh
EXTRA_DIST += tests/shca/valgrind.sh
tests_shca_ends_early_SOURCES = tests/shca/ends_early.c $(shca_rig)
tests_shca_ends_early_LDADD = libshca_core.la $(VERBS_LIBS)
tests_shca_ends_early_LDFLAGS = $(NOWRAP)

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

# The rooms of src/shca use those below them only.
TESTS += tests/shca/rooms.sh
EXTRA_DIST += tests/shca/rooms.sh

# Graphs of requests whose outcome is determined, among processes that are stopped and killed.
check_PROGRAMS += tests/shca/graphs
TESTS += tests/shca/graphs
tests_shca_graphs_SOURCES = tests/shca/graphs.c tests/shca/graph_death.c $(graph_sources) $(shca_rig)
tests_shca_graphs_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_FAILPOINTS
tests_shca_graphs_LDADD = libshca_failpoints.la $(VERBS_LIBS)
tests_shca_graphs_LDFLAGS = $(NOWRAP)
