#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Projects that look for MPI with CMake, meson and autoconf find Heddle in the folder made for them, and their programs run.
. "$(dirname "$0")/launcher_lib.sh"
home=$PWD/mpi
tried=0

cat >"$tmp/hello.c" <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int rank, size, len;
	char version[MPI_MAX_LIBRARY_VERSION_STRING];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Get_library_version(version, &len);
	printf("rank %d of %d by %.6s\n", rank, size, version);
	return MPI_Finalize();
}
END
cp "$tmp/hello.c" "$tmp/hello.cc"
cat >"$tmp/hello.f90" <<'END'
program hello
use mpi_f08
implicit none
integer :: rank, size, length
character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, rank)
call MPI_Comm_size(MPI_COMM_WORLD, size)
call MPI_Get_library_version(version, length)
print '(a,i0,a,i0,a,a)', 'rank ', rank, ' of ', size, ' by ', version(1:6)
call MPI_Finalize()
end program
END
fortran=no
[ -x heddlefc ] && fortran=yes
project() { mkdir "$tmp/$1" && cp "$tmp/hello.c" "$tmp/hello.cc" "$tmp/hello.f90" "$tmp/$1" && cd "$tmp/$1" || exit 1; tried=$((tried + 1)); }
# runs LAUNCHER... : LAUNCHER starts two ranks of Heddle.
runs() { expect 0 "$@"; says "$out" "^rank 1 of 2 by [Hh]eddle"; lines "$out" 2; }
lost() { cat "$tmp/log" >>"$err"; fail "$1"; }

for n in mpicc mpicxx mpic++ mpiCC mpiexec mpirun; do [ -x "$home/bin/$n" ] || fail "no $n in $home/bin"; done
expect 0 "$home/bin/mpicc" "$tmp/hello.c" -o "$tmp/hello"; runs "$home/bin/mpirun" -np 2 "$tmp/hello"
expect 0 "$home/bin/mpic++" "$tmp/hello.cc" -o "$tmp/hello++"; runs "$home/bin/mpiexec" -n 2 "$tmp/hello++"
if [ $fortran = yes ]; then
	for n in mpifort mpif90 mpif77; do
		expect 0 "$home/bin/$n" "$tmp/hello.f90" -o "$tmp/hello_f"; runs "$home/bin/mpiexec" -n 2 "$tmp/hello_f"
	done
	# modules of another compiler, in a directory of their own
	expect 0 "$PWD/mpifort_abi" -make-modules="$tmp/modules"
	for m in mpi_f08_types mpi_f08 mpi; do [ -f "$tmp/modules/$m.mod" ] || fail "no $m.mod"; done
	expect 0 "$PWD/mpifort_abi" -modules="$tmp/modules" -show x.f90; says "$out" "-I$tmp/modules"; says_not "$out" "-I$PWD/src/fortran"
	expect 0 "$PWD/mpifort_abi" -modules="$tmp/modules" "$tmp/hello.f90" -o "$tmp/hello_f"; runs "$home/bin/mpiexec" -n 2 "$tmp/hello_f"
	expect 0 "$PWD/heddlefc" -fc=flang -show x.f90; says "$out" '^flang '; says_not "$out" argument-mismatch
fi

if command -v cmake >/dev/null; then
	project cmake
	cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.10)
project(hello C CXX)
find_package(MPI REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello MPI::MPI_C)
add_executable(hello++ hello.cc)
target_link_libraries(hello++ MPI::MPI_CXX)
file(WRITE ${CMAKE_BINARY_DIR}/run "exec ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 \"$@\"\n")
END
	[ $fortran = no ] || cat >>CMakeLists.txt <<'END'
enable_language(Fortran)
find_package(MPI REQUIRED COMPONENTS Fortran)
if(NOT MPI_Fortran_HAVE_F77_HEADER OR NOT MPI_Fortran_HAVE_F90_MODULE OR NOT MPI_Fortran_HAVE_F08_MODULE)
  message(FATAL_ERROR "an interface of Fortran is missing")
endif()
add_executable(hello_f hello.f90)
target_link_libraries(hello_f MPI::MPI_Fortran)
END
	$limit cmake -DMPI_HOME="$home" . >"$tmp/log" 2>&1 && $limit make >>"$tmp/log" 2>&1 || lost "CMake"
	grep -qF "exec $home/bin/mpi" run || lost "CMake has found another MPI: $(cat run)"
	runs sh ./run ./hello; runs sh ./run ./hello++
	[ $fortran = no ] || runs sh ./run ./hello_f
fi
if command -v meson >/dev/null && command -v ninja >/dev/null; then
	project meson
	cat >meson.build <<'END'
project('hello', 'c', 'cpp')
executable('hello', 'hello.c', dependencies: dependency('mpi', language: 'c', method: 'config-tool'))
executable('hello++', 'hello.cc', dependencies: dependency('mpi', language: 'cpp', method: 'config-tool'))
END
	[ $fortran = no ] || cat >>meson.build <<'END'
add_languages('fortran')
executable('hello_f', 'hello.f90', dependencies: dependency('mpi', language: 'fortran', method: 'config-tool'))
END
	PATH=$home/bin:$PATH $limit meson setup build >"$tmp/log" 2>&1 && $limit ninja -C build >>"$tmp/log" 2>&1 || lost "meson"
	runs "$home/bin/mpiexec" -n 2 build/hello; runs "$home/bin/mpiexec" -n 2 build/hello++
	[ $fortran = no ] || runs "$home/bin/mpiexec" -n 2 build/hello_f
fi
if command -v autoconf >/dev/null; then
	project autoconf
	# As macros for MPI work: a compiler by name in PATH, then features of the header and of the library.
	cat >configure.ac <<'END'
AC_INIT([hello], [1])
AC_CHECK_PROGS([MPICC], [mpicc hcc mpcc], [none])
AC_CHECK_PROGS([MPIEXEC], [mpiexec mpirun], [none])
CC=$MPICC
AC_PROG_CC
AC_CHECK_HEADER([mpi.h], [], [AC_MSG_ERROR([no mpi.h])])
AC_CHECK_FUNC([MPI_Init], [], [AC_SEARCH_LIBS([MPI_Init], [mpi mpich], [], [AC_MSG_ERROR([no MPI_Init])])])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
END
	printf 'all:\n\t@CC@ @CFLAGS@ hello.c -o hello @LIBS@\nrun:\n\t@MPIEXEC@ -n 2 ./hello\n' >Makefile.in
	PATH=$home/bin:$PATH
	autoconf >"$tmp/log" 2>&1 && $limit ./configure >>"$tmp/log" 2>&1 && $limit make >>"$tmp/log" 2>&1 || lost "autoconf"
	runs make -s run
fi
echo "$tried of 3 build systems"
[ $tried -gt 0 ] || exit 77
exit 0
