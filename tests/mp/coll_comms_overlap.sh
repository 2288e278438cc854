#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collectives on several communicators at a time, each rank at its own speed; a rank that lacks memory, connections or the region of all
# memory. Run in the build directory. COLL_MIXED: operations, for a long run.
. "$(dirname "$0")/coll_lib.sh"

for n in 2 4 7; do
	try "overlap, seed $seed" "$n" tests/mp/coll_comms_overlap "${COLL_MIXED:-200}" "$seed"
done
for how in COLL_EXECUTOR=tasks COLL_DEPTH=2 COLL_SINGLE_COPY_MIN=1; do
	try "overlap, seed $seed, $how" 4 -x HEDDLE_$how tests/mp/coll_comms_overlap "${COLL_MIXED:-200}" "$seed"
done
for lack in ALLOC=3 CONNECT=1 PAGES=1; do
	try "overlap, seed $seed, LACK_$lack" 3 -x LACK_RANK=1 -x LACK_$lack tests/mp/coll_comms_overlap_lacking "${COLL_MIXED:-200}" "$seed"
done

[ $fails = 0 ]
