# Collectives, several processes.
check_PROGRAMS += tests/mp/coll_correct tests/mp/coll_stopped
tests_mp_coll_correct_SOURCES = tests/mp/coll_correct.c
tests_mp_coll_correct_LDADD = libheddle.la
tests_mp_coll_correct_LDFLAGS = $(NOWRAP)
tests_mp_coll_stopped_SOURCES = tests/mp/coll_stopped.c
tests_mp_coll_stopped_LDADD = libheddle.la
tests_mp_coll_stopped_LDFLAGS = $(NOWRAP)
TESTS += tests/mp/coll.sh
EXTRA_DIST += tests/mp/coll.sh
