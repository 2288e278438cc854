# Benchmarks. They are plain MPI programs; here they are linked with libheddle, bench/compare builds them for its peers.
hdb_sources = bench/bench.h bench/bench.c bench/options.c bench/collective.c bench/colls.c bench/window.c bench/device.c
hdb_programs = bench/hd_latency bench/hd_bw bench/hd_bibw bench/hd_mbw_mr bench/hd_incast bench/hd_init \
	bench/hd_offload bench/hd_datatype bench/hd_rma bench/hd_partitioned bench/hd_io $(hdb_collectives)
# One program, which looks at its name.
hdb_collectives = bench/hd_barrier bench/hd_bcast bench/hd_gather bench/hd_scatter bench/hd_allgather bench/hd_alltoall \
	bench/hd_reduce bench/hd_allreduce bench/hd_reduce_scatter bench/hd_scan \
	bench/hd_gatherv bench/hd_scatterv bench/hd_allgatherv bench/hd_alltoallv \
	bench/hd_igatherv bench/hd_iscatterv bench/hd_iallgatherv bench/hd_ialltoallv \
	bench/hd_ibarrier bench/hd_ibcast bench/hd_igather bench/hd_iscatter bench/hd_iallgather bench/hd_ialltoall \
	bench/hd_ireduce bench/hd_iallreduce bench/hd_ireduce_scatter bench/hd_iscan

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
bench_hd_barrier_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_barrier_LDADD = libheddle.la
bench_hd_barrier_LDFLAGS = $(NOWRAP)
bench_hd_bcast_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_bcast_LDADD = libheddle.la
bench_hd_bcast_LDFLAGS = $(NOWRAP)
bench_hd_gather_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_gather_LDADD = libheddle.la
bench_hd_gather_LDFLAGS = $(NOWRAP)
bench_hd_scatter_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_scatter_LDADD = libheddle.la
bench_hd_scatter_LDFLAGS = $(NOWRAP)
bench_hd_allgather_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_allgather_LDADD = libheddle.la
bench_hd_allgather_LDFLAGS = $(NOWRAP)
bench_hd_alltoall_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_alltoall_LDADD = libheddle.la
bench_hd_alltoall_LDFLAGS = $(NOWRAP)
bench_hd_reduce_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_reduce_LDADD = libheddle.la
bench_hd_reduce_LDFLAGS = $(NOWRAP)
bench_hd_allreduce_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_allreduce_LDADD = libheddle.la
bench_hd_allreduce_LDFLAGS = $(NOWRAP)
bench_hd_reduce_scatter_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_reduce_scatter_LDADD = libheddle.la
bench_hd_reduce_scatter_LDFLAGS = $(NOWRAP)
bench_hd_scan_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_scan_LDADD = libheddle.la
bench_hd_scan_LDFLAGS = $(NOWRAP)
bench_hd_ibarrier_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_ibarrier_LDADD = libheddle.la
bench_hd_ibarrier_LDFLAGS = $(NOWRAP)
bench_hd_ibcast_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_ibcast_LDADD = libheddle.la
bench_hd_ibcast_LDFLAGS = $(NOWRAP)
bench_hd_igather_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_igather_LDADD = libheddle.la
bench_hd_igather_LDFLAGS = $(NOWRAP)
bench_hd_iscatter_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_iscatter_LDADD = libheddle.la
bench_hd_iscatter_LDFLAGS = $(NOWRAP)
bench_hd_iallgather_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_iallgather_LDADD = libheddle.la
bench_hd_iallgather_LDFLAGS = $(NOWRAP)
bench_hd_ialltoall_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_ialltoall_LDADD = libheddle.la
bench_hd_ialltoall_LDFLAGS = $(NOWRAP)
bench_hd_ireduce_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_ireduce_LDADD = libheddle.la
bench_hd_ireduce_LDFLAGS = $(NOWRAP)
bench_hd_iallreduce_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_iallreduce_LDADD = libheddle.la
bench_hd_iallreduce_LDFLAGS = $(NOWRAP)
bench_hd_ireduce_scatter_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_ireduce_scatter_LDADD = libheddle.la
bench_hd_ireduce_scatter_LDFLAGS = $(NOWRAP)
bench_hd_iscan_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_iscan_LDADD = libheddle.la
bench_hd_iscan_LDFLAGS = $(NOWRAP)
bench_hd_gatherv_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_gatherv_LDADD = libheddle.la
bench_hd_gatherv_LDFLAGS = $(NOWRAP)
bench_hd_scatterv_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_scatterv_LDADD = libheddle.la
bench_hd_scatterv_LDFLAGS = $(NOWRAP)
bench_hd_allgatherv_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_allgatherv_LDADD = libheddle.la
bench_hd_allgatherv_LDFLAGS = $(NOWRAP)
bench_hd_alltoallv_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_alltoallv_LDADD = libheddle.la
bench_hd_alltoallv_LDFLAGS = $(NOWRAP)
bench_hd_igatherv_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_igatherv_LDADD = libheddle.la
bench_hd_igatherv_LDFLAGS = $(NOWRAP)
bench_hd_iscatterv_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_iscatterv_LDADD = libheddle.la
bench_hd_iscatterv_LDFLAGS = $(NOWRAP)
bench_hd_iallgatherv_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_iallgatherv_LDADD = libheddle.la
bench_hd_iallgatherv_LDFLAGS = $(NOWRAP)
bench_hd_ialltoallv_SOURCES = bench/hd_collective.c $(hdb_sources)
bench_hd_ialltoallv_LDADD = libheddle.la
bench_hd_ialltoallv_LDFLAGS = $(NOWRAP)
bench_hd_init_SOURCES = bench/hd_init.c $(hdb_sources)
bench_hd_init_LDADD = libheddle.la
bench_hd_init_LDFLAGS = $(NOWRAP)
bench_hd_offload_SOURCES = bench/hd_offload.c $(hdb_sources)
bench_hd_offload_LDADD = libheddle.la
bench_hd_offload_LDFLAGS = $(NOWRAP)
bench_hd_datatype_SOURCES = bench/hd_datatype.c $(hdb_sources)
bench_hd_datatype_LDADD = libheddle.la
bench_hd_datatype_LDFLAGS = $(NOWRAP)
bench_hd_rma_SOURCES = bench/hd_rma.c $(hdb_sources)
bench_hd_rma_LDADD = libheddle.la
bench_hd_rma_LDFLAGS = $(NOWRAP)
# The same by ranks that are played on several hosts: accumulates by the second of two devices.
check_PROGRAMS += bench/hd_rma_hosts
bench_hd_rma_hosts_SOURCES = $(bench_hd_rma_SOURCES) tests/mp/hosts_played.c
bench_hd_rma_hosts_LDADD = $(tests_mp_coll_lacking_LDADD)
bench_hd_rma_hosts_LDFLAGS = $(NOWRAP) $(played_wraps)
bench_hd_partitioned_SOURCES = bench/hd_partitioned.c $(hdb_sources)
bench_hd_partitioned_LDADD = libheddle.la
bench_hd_partitioned_LDFLAGS = $(NOWRAP) -pthread
bench_hd_io_SOURCES = bench/hd_io.c $(hdb_sources)
bench_hd_io_LDADD = libheddle.la
bench_hd_io_LDFLAGS = $(NOWRAP)
bench_hd_incast_SOURCES = bench/hd_incast.c $(hdb_sources)
bench_hd_incast_LDADD = libheddle.la
bench_hd_incast_LDFLAGS = $(NOWRAP)

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

EXTRA_DIST += bench/README.md bench/results/collectives.md bench/rendezvous bench/tune bench/compare bench/comparelib/__init__.py bench/comparelib/impls.py \
	bench/comparelib/plan.py bench/comparelib/report.py bench/comparelib/targets.py
# Figures of single machines, with their dates.
EXTRA_DIST += bench/results/transport.md bench/results/files.md
