#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collectives against their serial answers (coll_correct): every executor, queue kind and host algorithm; more ranks than the mailbox has.
# Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for executor in auto host mailbox tasks; do
	for n in 1 2 3 4 8; do
		try "executor $executor" "$n" -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_correct
	done
done
for n in 2 5; do
	try "executor tasks, no extensions" "$n" -x HEDDLE_COLL_EXECUTOR=tasks -x HEDDLE_COLL_EXTENSIONS=0 tests/mp/coll_correct
done
for kind in rc ud xrc dc; do
	try "queue kind $kind" 3 -x HEDDLE_TRANSPORT=$kind tests/mp/coll_correct movement reduce interleave
done
for algorithm in ALLREDUCE=rabenseifner ALLREDUCE=ring BCAST=chain BCAST=scatter-allgather REDUCE=scatter-gather \
	ALLGATHER=bruck ALLGATHER=ring ALLTOALL=bruck REDUCE_SCATTER=recursive-halving; do
	try "$algorithm" 5 -x HEDDLE_COLL_EXECUTOR=host -x HEDDLE_COLL_$algorithm tests/mp/coll_correct movement reduce
done
try "more ranks than HDL_MAILBOX_RANKS" 17 tests/mp/coll_correct interleave

[ $fails = 0 ]
