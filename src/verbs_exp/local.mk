verbs_exp_sources = src/verbs_exp/verbs_exp.c src/verbs_exp/provider.c src/verbs_exp/plain.c src/verbs_exp/absent.c \
	src/verbs_exp/keys.c src/verbs_exp/xrc.c src/verbs_exp/validate.c src/verbs_exp/validate.h src/verbs_exp/provider.h \
	src/verbs_exp/exported.h src/verbs_exp/convert.h src/verbs_exp/mlx5.c src/verbs_exp/mlx5_record.c \
	src/verbs_exp/mlx5_post.c src/verbs_exp/mlx5.h src/verbs_exp/mlx5_cmd.c src/verbs_exp/mlx5_cmd.h $(verbs_exp_mlx5_sources)
# An mlx5 as the device: what it takes, in bytes.
verbs_exp_mlx5_sources = src/verbs_exp/mlx5_wqe.c src/verbs_exp/mlx5_wqe.h
infinibandincludedir = $(includedir)/infiniband
infinibandinclude_HEADERS = include/infiniband/verbs_exp.h include/infiniband/verbs_exp_ethernet.h \
	include/infiniband/verbs_exp_xrc.h include/infiniband/verbs_exp_memory.h
