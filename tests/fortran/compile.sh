#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The compiler checks arguments: each marked statement of a file *_wrong.f90 is an error there, by the interface that the modules give, and no other
# statement; the statements of *_right.f90 are none.
. "$(dirname "$0")/../mp/launcher_lib.sh"
[ -x ./heddlefc ] || { echo "skipped: built without Fortran"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
fc=$PWD/heddlefc
cd "$tmp" || exit 1
check() { LC_ALL=C $limit "$fc" -fsyntax-only -fmax-errors=0 "$@" >"$out" 2>"$err"; }
for module in f08 mpi; do
	check "$here/${module}_right.f90" || fail "${module}_right.f90 is refused"
	[ ! -s "$err" ] || fail "the compiler says something of ${module}_right.f90"
	! check "$here/${module}_wrong.f90" || fail "${module}_wrong.f90 is accepted"
	# "file:line:column:", and behind it the error
	sed -n "s/^.*${module}_wrong\.f90:\([0-9]*\):[0-9]*:\$/\1/p" "$err" | sort -u >refused
	grep -n '! wrong:' "$here/${module}_wrong.f90" | cut -d: -f1 | sort -u >marked
	[ -s marked ] || fail "no statement is marked in ${module}_wrong.f90"
	for line in $(comm -23 marked refused); do
		fail "${module}_wrong.f90:$line is accepted: $(sed -n "${line}p" "$here/${module}_wrong.f90")"
	done
	for line in $(comm -13 marked refused); do
		fail "${module}_wrong.f90:$line is refused, and not marked: $(sed -n "${line}p" "$here/${module}_wrong.f90")"
	done
	echo "$module: $(wc -l <marked) statements are refused"
done
# An INTEGER of 8 bytes fits no binding: each interface refuses a program of one call, and the wrapper names the reason.
printf '%s\n' '      program p' '      @use@' '      @include@' '      integer me, ierr' '      call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)' \
	'      end program' >wide
sed 's/@use@/use mpi_f08/; /@include@/d' wide >wide_f08.f90
sed 's/@use@/use mpi/; /@include@/d' wide >wide_mpi.f90
sed "/@use@/d; s/@include@/include 'mpif.h'/" wide >wide_mpif.f90
cp wide_mpif.f90 wide_mpif.f
for file in wide_f08.f90 wide_mpi.f90 wide_mpif.f90 wide_mpif.f; do
	check $file || fail "$file is refused"
	check -fdefault-real-8 $file || fail "$file is refused with -fdefault-real-8"
	! check -fdefault-integer-8 $file || fail "$file is accepted with -fdefault-integer-8"
	grep -q '^heddlefc: -fdefault-integer-8: INTEGER has 8 bytes' "$err" || fail "$file: the wrapper does not name the reason"
done
LC_ALL=C $limit $("$fc" -showme:command) $("$fc" -showme:compile) -fdefault-integer-8 -fsyntax-only wide_mpif.f >"$out" 2>"$err" && fail "without the wrapper mpif.h is accepted with -fdefault-integer-8"
grep -q '^mpif\.h:' "$err" || fail "without the wrapper the error is not one of mpif.h"
