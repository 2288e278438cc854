# For owners of an adapter (docs/hardware.md); here it is only seen to work, on the software HCA.
check_PROGRAMS += tests/hardware/hw_mlx5
TESTS += tests/hardware/smoke.sh
EXTRA_DIST += tests/hardware/smoke.sh
tests_hardware_hw_mlx5_SOURCES = tests/hardware/hw.c tests/hardware/checks.c tests/hardware/hw.h src/verbs_exp/mlx5_cmd.c \
	src/verbs_exp/mlx5_cmd.h $(verbs_exp_mlx5_sources)
tests_hardware_hw_mlx5_LDADD = libshca.la $(VERBS_LIBS)
tests_hardware_hw_mlx5_LDFLAGS = $(NOWRAP)
