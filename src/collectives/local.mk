collectives_sources = src/collectives/userop.h src/collectives/userop.c src/collectives/pieces.c \
	src/collectives/algo.h src/collectives/algo_gather.c src/collectives/algo_hca.c src/collectives/algo_reduce.c \
	src/collectives/algo_rooted.c src/collectives/coll.c src/collectives/collectives.h src/collectives/graph.c \
	src/collectives/graph.h src/collectives/hca.c src/collectives/hca.h src/collectives/hca_encode.c \
	src/collectives/hca_encode.h src/collectives/hca_line.c src/collectives/hca_prog.c src/collectives/hca_wire.c src/collectives/host.c \
	src/collectives/internal.h src/collectives/ops.c src/collectives/ops.h src/collectives/report.c \
	src/collectives/tuner.c src/collectives/tuner.h
