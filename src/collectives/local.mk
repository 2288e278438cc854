collectives_sources = src/collectives/algorithms/algorithms.h src/collectives/algorithms/allgather_alltoall.c \
	src/collectives/algorithms/hierarchical.c src/collectives/algorithms/on_mailbox.c \
	src/collectives/algorithms/on_tasks.c src/collectives/algorithms/reduce.c src/collectives/algorithms/rooted.c \
	src/collectives/algorithms/vcoll.c src/collectives/coll.c src/collectives/collectives.h src/collectives/exec.h \
	src/collectives/fault/fault.c src/collectives/fault/fault.h src/collectives/graph/graph.c \
	src/collectives/graph/graph.h src/collectives/graph/ops.c src/collectives/graph/userop.c \
	src/collectives/host/by_events.c src/collectives/host/hierarchical.c src/collectives/host/host.h \
	src/collectives/host/immediate.c src/collectives/host/vcoll.c src/collectives/internal.h \
	src/collectives/mailbox/cell.c src/collectives/mailbox/fixed.c src/collectives/mailbox/mailbox.h \
	src/collectives/mailbox/persistent.c src/collectives/mailbox/vector.c src/collectives/mailbox/vector_calls.c \
	src/collectives/mailbox/vector_copy.c src/collectives/mailbox/vector_reduce.c src/collectives/plan.c \
	src/collectives/queues/bringup.c src/collectives/queues/cache.c src/collectives/queues/comm_props.c \
	src/collectives/queues/completions.c src/collectives/queues/exchange.c src/collectives/queues/queues.c \
	src/collectives/queues/queues.h src/collectives/queues/regions.c src/collectives/queues/state.h \
	src/collectives/queues/teardown.c src/collectives/run.c src/collectives/scratch.c src/collectives/select/check.c \
	src/collectives/select/choose.c src/collectives/select/counters.c src/collectives/select/explain.c \
	src/collectives/select/report.c src/collectives/select/select.h src/collectives/select/tuner.c \
	src/collectives/single_copy/control.c src/collectives/single_copy/copy_rate.c src/collectives/single_copy/reduce.c \
	src/collectives/single_copy/single_copy.c src/collectives/single_copy/single_copy.h \
	src/collectives/single_copy/staging.c src/collectives/start.c src/collectives/state.c src/collectives/tasks/compile.c \
	src/collectives/tasks/encode.c src/collectives/tasks/post.c src/collectives/tasks/tasks.h src/collectives/vcoll.c
