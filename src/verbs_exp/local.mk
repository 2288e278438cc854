verbs_exp_sources = src/verbs_exp/verbs_exp.c src/verbs_exp/validate.c src/verbs_exp/validate.h src/shca/exp_ops.h
infinibandincludedir = $(includedir)/infiniband
infinibandinclude_HEADERS = include/infiniband/verbs_exp.h
