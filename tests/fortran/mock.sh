#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every procedure that fortran.awk makes is called once from mpi_f08, mpi and mpif.h, as MPI_ and as PMPI_, with a mock MPI whose
# functions check their arguments: see mock.awk.
. "$(dirname "$0")/../mp/launcher_lib.sh"
[ -x ./mpifort_abi ] || { echo "skipped: built without Fortran"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
src=$here/../../src
fc=$PWD/mpifort_abi cc=$PWD/mpicc_abi
cd "$tmp" || exit 1
make_text() {
	LC_ALL=C awk -f "$src/mpi/functions.awk" -f "$src/fortran/fortran.awk" -f "$here/mock.awk" -v make="$1" "$src/mpi/functions.def" \
		"$src/fortran/fortran.def" >"$2" || fail "mock.awk"
}
make_text mock_c mock_c.c
expect 0 "$cc" -w -I"$here" -c mock_c.c
for how in f08 mpi mpif; do
	make_text mock_$how mock_$how.f90
	expect 0 "$fc" -w -O0 mock_$how.f90 mock_c.o -o mock_$how
	expect 0 ./mock_$how
	says "$out" ' calls, 0 wrong'
	cat "$out"
done
exit 0
