# heddlerun's pure parts.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/launcher_place
TESTS += tests/unit/launcher_place
tests_unit_launcher_place_SOURCES = tests/unit/launcher_place.c src/launcher/place.c
tests_unit_launcher_place_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_launcher_place_LDADD = $(CRITERION_LIBS)
endif
