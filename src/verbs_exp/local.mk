verbs_exp_sources = src/verbs_exp/verbs_exp.c src/verbs_exp/validate.c src/verbs_exp/validate.h src/verbs_exp/provider.h
infinibandincludedir = $(includedir)/infiniband
infinibandinclude_HEADERS = include/infiniband/verbs_exp.h
