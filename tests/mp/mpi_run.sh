#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs the MPI test programs on 2, 3 and 4 ranks over every kind of queue, and over the kind that Heddle selects by itself.
# MPI_TEST_KINDS, MPI_TEST_RANKS, MPI_TEST_PROGRAMS select a part; MPI_TEST_PREFIX is how the programs' names begin. Several
# threads do the same on every kind of queue, and many on two cores are slow: they run over the selected kind and over RC, on 2 and 3 ranks.
set -u
top=${MPI_TEST_BUILD:-.}
kinds=${MPI_TEST_KINDS:-default rc ud xrc dc}
ranks=${MPI_TEST_RANKS:-2 3 4}
programs=${MPI_TEST_PROGRAMS:-sizes order semantics types comms ptp streams stress signatures threads}
prefix=${MPI_TEST_PREFIX:-mpi}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
failed=0 runs=0

[ -x "$top/heddlerun" ] || { echo "no $top/heddlerun"; exit 1; }
for kind in $kinds; do
	for n in $ranks; do
		for p in $programs; do
			case $p-$kind-$n in
			threads-default-[23] | threads-rc-[23]) ;;
			threads-*) continue ;;
			esac
			if [ "$kind" = default ]; then
				unset HEDDLE_TRANSPORT
			else
				HEDDLE_TRANSPORT=$kind
				export HEDDLE_TRANSPORT
			fi
			runs=$((runs + 1))
			timeout -k 5 120 "$top/heddlerun" -n "$n" "$top/tests/mp/${prefix}_$p" >"$log" 2>&1
			status=$?
			if [ $status -ne 0 ] || ! grep -q "^$p: ok, $n ranks" "$log" || grep -q "warning:" "$log"; then
				echo "FAILED: ${prefix}_$p, $n ranks, $kind: status $status"
				tail -n 20 "$log"
				failed=$((failed + 1))
			fi
		done
	done
done
echo "$runs runs, $failed failed"
[ $failed -eq 0 ]
