#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Ranks that start without some of descriptors 0 to 2 (mpi_fds_closed.c), with heddlerun and alone, over every kind of queue; heddlerun
# itself started so; and the error of a rank that closes the library's descriptors.
set -u
top=${MPI_TEST_BUILD:-.}
log=$(mktemp) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$log" "$dir"' EXIT

# RANKS MASK KIND
closed()
{
	HEDDLE_TRANSPORT=$3
	export HEDDLE_TRANSPORT
	timeout -k 5 60 "$top/heddlerun" -n "$1" "$top/tests/mp/mpi_fds_closed" "$2" >"$log" 2>&1
	status=$?
	if [ $status -ne 0 ] || ! grep -q "^closed: ok, $1 ranks" "$log"; then
		echo "FAILED: $1 ranks, closed $2, $3: status $status"
		cat "$log"
		exit 1
	fi
}
for mask in 1 2 3 4 5 6 7; do
	closed 2 $mask ""
	timeout -k 5 60 "$top/tests/mp/mpi_fds_closed" $mask 2>"$log" && grep -q "^closed: ok" "$log" ||
		{ echo "FAILED: alone, closed $mask"; cat "$log"; exit 1; }
done
for kind in rc ud xrc dc; do
	closed 3 7 $kind
done
unset HEDDLE_TRANSPORT
# heddlerun without them: heddlerun's descriptors are not the ranks' output
timeout -k 5 60 "$top/heddlerun" -n 2 sh -c 'echo text; exec "$0" 6' "$top/tests/mp/mpi_fds_closed" <&- >&- 2>&- ||
	{ echo "FAILED: heddlerun without descriptors 0 to 2: status $?"; exit 1; }
# a loop over all descriptors after MPI_Init: a single process is not harmed, a job reports that, and no file of the program's is written to
timeout -k 5 60 "$top/tests/mp/mpi_fds_closed" daemon "$dir" >"$log" 2>&1 && grep -q '^closed: ok' "$log" ||
	{ echo "FAILED: alone, all closed"; head -n 20 "$log"; exit 1; }
timeout -k 5 60 "$top/heddlerun" -n 2 "$top/tests/mp/mpi_fds_closed" daemon "$dir" 2>&1 | head -n 100 >"$log"
grep -q 'the program has closed descriptor [0-9]*, by which the PMIx library' "$log" ||
	{ echo "FAILED: all closed: not told"; cat "$log"; exit 1; }
[ -z "$(find "$dir" -type f -size +0)" ] || { echo "FAILED: all closed: written to the program's files"; ls -l "$dir"; exit 1; }
exit 0
