# Examples: plain MPI programs.
noinst_PROGRAMS += examples/heat2d
examples_heat2d_SOURCES = examples/heat2d.c
examples_heat2d_LDADD = libheddle.la -lm
examples_heat2d_LDFLAGS = $(NOWRAP)
