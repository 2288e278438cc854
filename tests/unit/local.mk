# Parts of this folder.

# Kinds of queues are tables of operations: nobody else asks which one it is.
TESTS += tests/unit/transport_kinds.sh tests/unit/layers.sh tests/unit/transport_instance_state.sh
EXTRA_DIST += tests/unit/transport_kinds.sh tests/unit/layers.sh tests/unit/transport_instance_state.sh

# docs/wire-format.md has all messages.
TESTS += tests/unit/transport_wire_format.sh
EXTRA_DIST += tests/unit/transport_wire_format.sh

# The transport's pure parts.
if HAVE_CRITERION
transport_unit_tests = tests/unit/transport_select tests/unit/transport_conn tests/unit/transport_order \
	tests/unit/transport_ring tests/unit/transport_rel tests/unit/transport_tune tests/unit/transport_active \
	tests/unit/transport_peers tests/unit/transport_ids tests/unit/transport_srq_credit \
	tests/unit/transport_fd_waker tests/unit/transport_sq_state
check_PROGRAMS += tests/unit/p2p_part_box
TESTS += tests/unit/p2p_part_box
tests_unit_p2p_part_box_SOURCES = tests/unit/p2p_part_box.c src/p2p/part_box.h
tests_unit_p2p_part_box_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_p2p_part_box_LDADD = $(CRITERION_LIBS)
tests_unit_p2p_part_box_LDFLAGS = -pthread
check_PROGRAMS += tests/unit/syscalls
TESTS += tests/unit/syscalls
tests_unit_syscalls_SOURCES = tests/unit/syscalls.c src/runtime/syscalls.c src/runtime/syscalls.h
tests_unit_syscalls_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_syscalls_LDADD = $(CRITERION_LIBS)
check_PROGRAMS += tests/unit/transport_served
TESTS += tests/unit/transport_served
tests_unit_transport_served_SOURCES = tests/unit/transport_served.c
tests_unit_transport_served_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_served_LDADD = libheddle_internal.la $(CRITERION_LIBS) $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_unit_transport_served_LDFLAGS = $(NOWRAP)
check_PROGRAMS += tests/unit/transport_segment
TESTS += tests/unit/transport_segment
tests_unit_transport_segment_SOURCES = tests/unit/transport_segment.c src/transport/mem/segment.c
tests_unit_transport_segment_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_segment_LDADD = $(CRITERION_LIBS)
check_PROGRAMS += tests/unit/rma_lock
TESTS += tests/unit/rma_lock
tests_unit_rma_lock_SOURCES = tests/unit/rma_lock.c src/rma/epoch.h src/rma/hashed.h src/rma/lock.h src/rma/reach.h
tests_unit_rma_lock_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_rma_lock_LDADD = $(CRITERION_LIBS)
tests_unit_rma_lock_LDFLAGS = -pthread
check_PROGRAMS += $(transport_unit_tests)
TESTS += $(transport_unit_tests)
tests_unit_transport_select_SOURCES = tests/unit/transport_select.c src/transport/connect/select.c
tests_unit_transport_select_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_select_LDADD = $(CRITERION_LIBS)
tests_unit_transport_conn_SOURCES = tests/unit/transport_conn.c src/transport/connect/conn.c src/transport/connect/select.c
tests_unit_transport_conn_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_conn_LDADD = $(CRITERION_LIBS)
tests_unit_transport_order_SOURCES = tests/unit/transport_order.c src/transport/peer/order.c
tests_unit_transport_order_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_order_LDADD = $(CRITERION_LIBS)
tests_unit_transport_ids_SOURCES = tests/unit/transport_ids.c src/transport/core/ids.c
tests_unit_transport_ids_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_ids_LDADD = $(CRITERION_LIBS)
tests_unit_transport_ring_SOURCES = tests/unit/transport_ring.c src/transport/lanes/ring.c
tests_unit_transport_ring_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_ring_LDADD = $(CRITERION_LIBS)
tests_unit_transport_rel_SOURCES = tests/unit/transport_rel.c src/transport/lanes/rel.c
tests_unit_transport_rel_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_rel_LDADD = $(CRITERION_LIBS)
tests_unit_transport_tune_SOURCES = tests/unit/transport_tune.c src/transport/rndv/tune.c src/runtime/autotune.c
tests_unit_transport_tune_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_tune_LDADD = $(CRITERION_LIBS)
tests_unit_transport_active_SOURCES = tests/unit/transport_active.c src/transport/core/active.c
tests_unit_transport_active_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_active_LDADD = $(CRITERION_LIBS)
tests_unit_transport_fd_waker_SOURCES = tests/unit/transport_fd_waker.c src/transport/core/fd_waker.c src/transport/core/fd_waker.h
tests_unit_transport_fd_waker_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_fd_waker_LDADD = $(CRITERION_LIBS)
tests_unit_transport_sq_state_SOURCES = tests/unit/transport_sq_state.c src/transport/queue/sq_state.h
tests_unit_transport_sq_state_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_sq_state_LDADD = $(CRITERION_LIBS)
tests_unit_transport_srq_credit_SOURCES = tests/unit/transport_srq_credit.c src/transport/queue/srq_credit.h
tests_unit_transport_srq_credit_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_srq_credit_LDADD = $(CRITERION_LIBS)
tests_unit_transport_peers_SOURCES = tests/unit/transport_peers.c src/transport/peer/peers.c
tests_unit_transport_peers_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_transport_peers_LDADD = $(CRITERION_LIBS)
endif
# A process of a job of 10^6 ranks: PMIx is played.
check_PROGRAMS += tests/unit/runtime_job_memory
TESTS += tests/unit/runtime_job_memory
tests_unit_runtime_job_memory_SOURCES = tests/unit/runtime_job_memory.c
tests_unit_runtime_job_memory_CFLAGS = $(AM_CFLAGS)
tests_unit_runtime_job_memory_LDADD = libheddle_internal.la $(VERBS_LIBS) $(PMIX_LIBS) $(HWLOC_LIBS)
tests_unit_runtime_job_memory_LDFLAGS = $(NOWRAP)
include tests/unit/launcher.mk
include tests/unit/coll.mk
include tests/unit/exp.mk

# Copies between processors.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/lines
TESTS += tests/unit/lines
tests_unit_lines_SOURCES = tests/unit/lines.c src/lines/lines.h
tests_unit_lines_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_lines_LDADD = $(CRITERION_LIBS)

endif

# The runtime's diagnostics and variables.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/runtime_base tests/unit/runtime_threads tests/unit/runtime_wait tests/unit/runtime_autotune
TESTS += tests/unit/runtime_base tests/unit/runtime_threads tests/unit/runtime_wait tests/unit/runtime_autotune
tests_unit_runtime_autotune_SOURCES = tests/unit/runtime_autotune.c src/runtime/autotune.c src/runtime/autotune.h
tests_unit_runtime_autotune_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_runtime_autotune_LDADD = $(CRITERION_LIBS)
tests_unit_runtime_wait_SOURCES = tests/unit/runtime_wait.c src/runtime/wait.h
tests_unit_runtime_wait_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_runtime_wait_LDADD = $(CRITERION_LIBS)
tests_unit_runtime_threads_SOURCES = tests/unit/runtime_threads.c src/runtime/threads.c
tests_unit_runtime_threads_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_runtime_threads_LDADD = $(CRITERION_LIBS)
tests_unit_runtime_base_SOURCES = tests/unit/runtime_base.c $(runtime_base_sources) src/runtime/alive.c src/runtime/watchdog.c
tests_unit_runtime_base_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_runtime_base_LDADD = $(CRITERION_LIBS)
endif
include tests/unit/p2p.mk

# The software HCA's fabric in one virtual process.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/shca_fabric
TESTS += tests/unit/shca_fabric
tests_unit_shca_fabric_SOURCES = tests/unit/shca_fabric.c
tests_unit_shca_fabric_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_shca_fabric_LDADD = libshca_core.la $(CRITERION_LIBS)
endif
TESTS += tests/unit/mutants_apply.sh tests/unit/docs_life.sh tests/unit/docs_names.sh tests/unit/glossary.sh tests/unit/columns.sh \
	tests/unit/bool_parameters.sh
EXTRA_DIST += tests/unit/mutants_apply.sh tests/unit/docs_life.sh tests/unit/docs_names.sh tests/unit/glossary.sh tests/unit/columns.sh \
	tests/unit/bool_parameters.sh
