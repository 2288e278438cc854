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

# In Fortran: compiled by tests/fortran/programs.sh with heddlefc.
EXTRA_DIST += examples/heat2d_f08.f90

# The experimental verbs: no MPI. docs/verbs_exp.md explains them.
exp_examples = examples/exp_barrier examples/exp_allreduce
check_PROGRAMS += $(exp_examples)
TESTS += examples/exp.sh
EXTRA_DIST += examples/exp.sh
examples_exp_barrier_SOURCES = examples/exp_barrier.c examples/exp_ranks.h
examples_exp_barrier_LDADD = libshca.la $(VERBS_LIBS)
examples_exp_barrier_LDFLAGS = $(NOWRAP)
examples_exp_allreduce_SOURCES = examples/exp_allreduce.c examples/exp_ranks.h
examples_exp_allreduce_LDADD = libshca.la $(VERBS_LIBS)
examples_exp_allreduce_LDFLAGS = $(NOWRAP)
