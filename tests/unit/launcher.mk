# heddlerun's pure parts.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/launcher_place
TESTS += tests/unit/launcher_place
tests_unit_launcher_place_SOURCES = tests/unit/launcher_place.c src/launcher/place.c
tests_unit_launcher_place_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_launcher_place_LDADD = $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/launcher_accept
TESTS += tests/unit/launcher_accept
tests_unit_launcher_accept_SOURCES = tests/unit/launcher_accept.c src/launcher/accept.c
tests_unit_launcher_accept_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
tests_unit_launcher_accept_LDADD = $(CRITERION_LIBS)
endif

check_PROGRAMS += tests/unit/launcher_notes
TESTS += tests/unit/launcher_notes
tests_unit_launcher_notes_SOURCES = tests/unit/launcher_notes.c src/launcher/notes.c
tests_unit_launcher_notes_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS) -pthread
tests_unit_launcher_notes_LDADD = $(CRITERION_LIBS)
