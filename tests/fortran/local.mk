# The Fortran bindings: programs that are compiled with heddlefc when the test runs, and the generated ones of mock.awk.
fortran_tests = tests/fortran/programs.sh tests/fortran/mock.sh tests/fortran/compile.sh
fortran_test_files = tests/fortran/testing.f90 tests/fortran/standard.f90 tests/fortran/sections.f90 tests/fortran/callbacks.f90 tests/fortran/legacy.f tests/fortran/modules.f90 \
	tests/fortran/files.f90 tests/fortran/corners.f90 \
	tests/fortran/f08_right.f90 tests/fortran/f08_wrong.f90 tests/fortran/mpi_right.f90 tests/fortran/mpi_wrong.f90 \
	tests/fortran/interop.c tests/fortran/processes.f90 tests/fortran/processes.c tests/fortran/mock.awk tests/fortran/mock.h
TESTS += $(fortran_tests)
EXTRA_DIST += $(fortran_tests) $(fortran_test_files)
# The library's own code in it, and not the library: a mutant changes one file of it.
EXTRA_DIST += tests/unit/fortran_descriptors.c
if FORTRAN
check_PROGRAMS += tests/unit/fortran_descriptors
tests_unit_fortran_descriptors_SOURCES = tests/unit/fortran_descriptors.c $(fortran_c_sources)
tests_unit_fortran_descriptors_CFLAGS = $(AM_CFLAGS)
tests_unit_fortran_descriptors_LDADD = libheddle.la
tests_unit_fortran_descriptors_LDFLAGS = $(NOWRAP)
TESTS += tests/unit/fortran_descriptors
endif
