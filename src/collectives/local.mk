collectives_sources = src/collectives/userop.h src/collectives/userop.c src/collectives/pieces.h src/collectives/pieces.c \
	src/collectives/algo_pieces.c src/collectives/check.h src/collectives/check.c \
	src/collectives/algo.h src/collectives/algo_direct.c src/collectives/algo_gather.c src/collectives/algo_levels.c src/collectives/algo_reduce.c \
	src/collectives/algo_rooted.c src/collectives/algo_tasks.c src/collectives/choose.c src/collectives/explain.c src/collectives/coll.c src/collectives/collectives.h \
	src/collectives/direct.c src/collectives/graph.c src/collectives/graph.h src/collectives/host.c \
	src/collectives/internal.h src/collectives/offload.c src/collectives/offload.h src/collectives/levels.c src/collectives/lost.c src/collectives/offload_wire.c src/collectives/offload_areas.c src/collectives/offload_sets.c src/collectives/offload_site.c \
	src/collectives/ops.c src/collectives/ops.h src/collectives/parcels.c src/collectives/parcels.h src/collectives/parcels_fold.c src/collectives/parcels_long.c src/collectives/persistent.c src/collectives/reads.c src/collectives/reads.h src/collectives/reads_fold.c src/collectives/reads_pace.c src/collectives/report.c src/collectives/straight.c src/collectives/scratch.c src/collectives/tasks.c src/collectives/tasks_post.c \
	src/collectives/tasks_encode.c src/collectives/tasks_encode.h src/collectives/tuner.c src/collectives/tuner.h
