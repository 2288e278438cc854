#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collectives that a rank does not complete before MPI_Finalize (coll_uncompleted.c): ranks that complete them have their data, and
# every rank leaves MPI_Finalize. Run in the build directory.
set -u
tmp=$(mktemp) || exit 1
trap 'rm -f "$tmp"' EXIT
fails=0 jobs=0

# left RANKS VARIABLE ARGS...: the job ends, says that a collective was not completed, and no rank counts as failed
left() {
	ranks=$1 var=$2
	shift 2
	jobs=$((jobs + 1))
	timeout -k 5 60 ./heddlerun -n "$ranks" -x "$var" tests/mp/coll_uncompleted "$@" >"$tmp" 2>&1
	status=$?
	[ $status = 0 ] && grep -q '^left' "$tmp" && ! grep -q 'FAILED\|has failed\|connection to' "$tmp" && return
	echo "FAILED: $ranks ranks, $var, $*: status $status"
	tail -n 100 "$tmp"
	fails=$((fails + 1))
}

for var in HEDDLE_TRANSPORT= HEDDLE_TRANSPORT=ud HEDDLE_COLL_EXECUTOR=host HEDDLE_COLL_EXECUTOR=tasks; do
	for coll in gather alltoall allreduce; do
		for bytes in 8 300000; do
			left 3 $var $coll $bytes nonblocking 1 all
			left 3 $var $coll $bytes nonblocking 1 one
		done
		left 3 $var $coll 300000 nonblocking all all
		left 2 $var $coll 20000 persistent 1 all
	done
	left 3 $var idup 8 nonblocking 1 all
done
# the ledger waits for no rank that may need this one
left 3 HEDDLE_REPORT_MEMORY=1 gather 300000 nonblocking 1 all
left 5 HEDDLE_TRANSPORT= gather 300000 nonblocking 0 all
left 3 HEDDLE_TRANSPORT= gather 8 nonblocking 1 one
grep -q 'was not completed is given up\|begun and not completed' "$tmp" || { echo "FAILED: nothing was said"; fails=$((fails + 1)); }
echo "$jobs jobs; $fails failed"
[ $fails = 0 ]
