#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Persistent collectives, started in any order. Run in the build directory. COLL_STARTS: starts, for a long run.
. "$(dirname "$0")/coll_lib.sh"

for n in 1 2 3 5 8 17; do
	try "starts, seed $seed" "$n" -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_persistent_starts "${COLL_STARTS:-150}" "$seed"
	case $n in 2|3|5|8) reported 'persistent  *mailbox  *cells' 'that persistent collectives ran on mailbox' ;; esac
done
for how in COLL_EXECUTOR=host COLL_EXECUTOR=tasks COLL_DEPTH=2 ODP=0 CHECK=1 TRANSPORT=rc TRANSPORT=ud TRANSPORT=dc,ud; do
	try "starts, seed $seed, $how" 4 -x HEDDLE_$how tests/mp/coll_persistent_starts "${COLL_STARTS:-100}" "$seed"
done
try "starts, seed $seed, threads" 3 tests/mp/coll_persistent_starts "${COLL_STARTS:-100}" "$seed" 3
# A rank has no memory for some of them, no queues, or no receive buffer for the peers' records.
for lack in ALLOC=3 ALLOC=1 CONNECT=1; do
	try "starts, seed $seed, LACK_$lack" 3 -x LACK_RANK=1 -x LACK_$lack -x HEDDLE_COLL_EXECUTOR=mailbox \
		tests/mp/coll_persistent_starts_lacking 150 "$seed"
done

[ $fails = 0 ]
