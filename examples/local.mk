# Examples: plain MPI programs.
noinst_PROGRAMS += examples/heat2d
examples_heat2d_SOURCES = examples/heat2d.c
examples_heat2d_LDADD = libheddle.la -lm
examples_heat2d_LDFLAGS = $(NOWRAP)
noinst_PROGRAMS += examples/hybrid
examples_hybrid_SOURCES = examples/hybrid.c
examples_hybrid_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
examples_hybrid_LDADD = libheddle.la
examples_hybrid_LDFLAGS = $(NOWRAP) $(OPENMP_CFLAGS)
