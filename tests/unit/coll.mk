# Collectives: task graphs in a simulator; the experimental verbs over a mock of the device.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/coll_graph tests/unit/coll_cost tests/unit/coll_ops tests/unit/coll_queues_state tests/unit/coll_verbs_exp \
	tests/unit/coll_scratch
TESTS += tests/unit/coll_graph tests/unit/coll_cost tests/unit/coll_ops tests/unit/coll_queues_state tests/unit/coll_verbs_exp \
	tests/unit/coll_scratch
coll_graph_sources = tests/unit/coll_sim.c tests/unit/coll_sim.h src/collectives/algorithms/allgather_alltoall.c \
	src/collectives/algorithms/hierarchical.c src/p2p/comm/hosts.c src/collectives/algorithms/on_mailbox.c \
	src/collectives/algorithms/on_tasks.c src/collectives/algorithms/reduce.c src/collectives/algorithms/rooted.c \
	src/collectives/algorithms/vcoll.c src/collectives/graph/graph.c src/collectives/tasks/encode.c \
	src/collectives/graph/ops.c src/collectives/select/tuner.c src/runtime/nearest.c $(datatype_sources)
tests_unit_coll_graph_SOURCES = tests/unit/coll_graph.c tests/unit/coll_graph.h tests/unit/coll_graph_job.c \
	tests/unit/coll_graph_device.c tests/unit/coll_graph_hosts.c $(coll_graph_sources)
tests_unit_coll_graph_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_coll_graph_LDADD = $(CRITERION_LIBS) -lm
tests_unit_coll_cost_SOURCES = tests/unit/coll_cost.c $(coll_graph_sources)
tests_unit_coll_cost_CFLAGS = $(tests_unit_coll_graph_CFLAGS)
tests_unit_coll_cost_LDADD = $(tests_unit_coll_graph_LDADD)
tests_unit_coll_ops_SOURCES = tests/unit/coll_ops.c src/collectives/graph/ops.c $(datatype_sources)
tests_unit_coll_ops_CFLAGS = $(tests_unit_coll_graph_CFLAGS)
tests_unit_coll_ops_LDADD = $(tests_unit_coll_graph_LDADD)
tests_unit_coll_queues_state_SOURCES = tests/unit/coll_queues_state.c src/collectives/queues/state.h
tests_unit_coll_queues_state_CFLAGS = $(tests_unit_coll_graph_CFLAGS)
tests_unit_coll_queues_state_LDADD = $(CRITERION_LIBS)
tests_unit_coll_scratch_SOURCES = tests/unit/coll_scratch.c src/collectives/scratch.c
tests_unit_coll_scratch_CFLAGS = $(tests_unit_coll_graph_CFLAGS)
tests_unit_coll_scratch_LDADD = $(CRITERION_LIBS)
tests_unit_coll_verbs_exp_SOURCES = tests/unit/coll_verbs_exp.c $(verbs_exp_sources)
tests_unit_coll_verbs_exp_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_coll_verbs_exp_LDADD = $(CRITERION_LIBS) $(VERBS_LIBS)
endif
