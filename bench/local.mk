# Benchmarks. They are plain MPI programs; here they are linked with libheddle, bench/compare builds them for its peers.
hdb_sources = bench/bench.h bench/bench.c bench/options.c bench/collective.c bench/window.c
hdb_programs = bench/hd_latency bench/hd_bw bench/hd_bibw bench/hd_mbw_mr bench/hd_barrier bench/hd_bcast \
	bench/hd_allreduce bench/hd_alltoall bench/hd_ibarrier bench/hd_iallreduce bench/hd_init bench/hd_offload bench/hd_datatype

noinst_PROGRAMS += $(hdb_programs) bench/limits bench/hop bench/tasks bench/scale

bench_hd_latency_SOURCES = bench/hd_latency.c $(hdb_sources)
bench_hd_latency_LDADD = libheddle.la
bench_hd_latency_LDFLAGS = $(NOWRAP)
bench_hd_bw_SOURCES = bench/hd_bw.c $(hdb_sources)
bench_hd_bw_LDADD = libheddle.la
bench_hd_bw_LDFLAGS = $(NOWRAP)
bench_hd_bibw_SOURCES = bench/hd_bibw.c $(hdb_sources)
bench_hd_bibw_LDADD = libheddle.la
bench_hd_bibw_LDFLAGS = $(NOWRAP)
bench_hd_mbw_mr_SOURCES = bench/hd_mbw_mr.c $(hdb_sources)
bench_hd_mbw_mr_LDADD = libheddle.la
bench_hd_mbw_mr_LDFLAGS = $(NOWRAP)
bench_hd_barrier_SOURCES = bench/hd_barrier.c $(hdb_sources)
bench_hd_barrier_LDADD = libheddle.la
bench_hd_barrier_LDFLAGS = $(NOWRAP)
bench_hd_bcast_SOURCES = bench/hd_bcast.c $(hdb_sources)
bench_hd_bcast_LDADD = libheddle.la
bench_hd_bcast_LDFLAGS = $(NOWRAP)
bench_hd_allreduce_SOURCES = bench/hd_allreduce.c $(hdb_sources)
bench_hd_allreduce_LDADD = libheddle.la
bench_hd_allreduce_LDFLAGS = $(NOWRAP)
bench_hd_alltoall_SOURCES = bench/hd_alltoall.c $(hdb_sources)
bench_hd_alltoall_LDADD = libheddle.la
bench_hd_alltoall_LDFLAGS = $(NOWRAP)
bench_hd_ibarrier_SOURCES = bench/hd_ibarrier.c $(hdb_sources)
bench_hd_ibarrier_LDADD = libheddle.la
bench_hd_ibarrier_LDFLAGS = $(NOWRAP)
bench_hd_iallreduce_SOURCES = bench/hd_iallreduce.c $(hdb_sources)
bench_hd_iallreduce_LDADD = libheddle.la
bench_hd_iallreduce_LDFLAGS = $(NOWRAP)
bench_hd_init_SOURCES = bench/hd_init.c $(hdb_sources)
bench_hd_init_LDADD = libheddle.la
bench_hd_init_LDFLAGS = $(NOWRAP)
bench_hd_offload_SOURCES = bench/hd_offload.c $(hdb_sources)
bench_hd_offload_LDADD = libheddle.la
bench_hd_offload_LDFLAGS = $(NOWRAP)
bench_hd_datatype_SOURCES = bench/hd_datatype.c $(hdb_sources)
bench_hd_datatype_LDADD = libheddle.la
bench_hd_datatype_LDFLAGS = $(NOWRAP)

# No MPI in them: what the machine itself can do, and the device.
bench_limits_SOURCES = bench/limits.c
bench_hop_SOURCES = bench/hop.c
bench_hop_LDADD = libshca.la $(VERBS_LIBS)
bench_hop_LDFLAGS = $(NOWRAP)
bench_tasks_SOURCES = bench/tasks.c
bench_tasks_LDADD = libshca.la $(VERBS_LIBS)
bench_tasks_LDFLAGS = $(NOWRAP)
bench_scale_SOURCES = bench/scale.c
bench_scale_LDADD = libshca.la $(VERBS_LIBS)
bench_scale_LDFLAGS = $(NOWRAP)

EXTRA_DIST += bench/README.md bench/compare bench/comparelib/__init__.py bench/comparelib/impls.py \
	bench/comparelib/plan.py bench/comparelib/report.py bench/comparelib/targets.py
