# The Fortran bindings: programs that are compiled with heddlefc when the test runs, and the generated ones of mock.awk.
fortran_tests = tests/fortran/programs.sh tests/fortran/mock.sh
fortran_test_files = tests/fortran/sections.f90 tests/fortran/callbacks.f90 tests/fortran/legacy.f tests/fortran/modules.f90 \
	tests/fortran/interop.c tests/fortran/mock.awk tests/fortran/mock.h
TESTS += $(fortran_tests)
EXTRA_DIST += $(fortran_tests) $(fortran_test_files)
