# The experimental verbs' provider for the mlx5.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/exp_mlx5_wqe
TESTS += tests/unit/exp_mlx5_wqe
tests_unit_exp_mlx5_wqe_SOURCES = tests/unit/exp_mlx5_wqe.c $(verbs_exp_mlx5_sources)
tests_unit_exp_mlx5_wqe_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_exp_mlx5_wqe_LDADD = $(CRITERION_LIBS)
check_PROGRAMS += tests/unit/exp_mlx5_cmd
TESTS += tests/unit/exp_mlx5_cmd
tests_unit_exp_mlx5_cmd_SOURCES = tests/unit/exp_mlx5_cmd.c src/verbs_exp/mlx5_cmd.c src/verbs_exp/mlx5_cmd.h
tests_unit_exp_mlx5_cmd_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_exp_mlx5_cmd_LDADD = $(CRITERION_LIBS)
endif
