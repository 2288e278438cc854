#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Slot barriers that a leader releases: where ranks share cores (the job gets two of them). Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

may=$(taskset -pc $$)
run="taskset -c $(echo "$may" | sed 's/.*: *\([0-9]*\).*/\1/'),${may##*[-, ]} ./heddlerun"
for depth in 2 8; do
	try "barriers, depth $depth, seed $seed" 4 -x HEDDLE_REPORT_COLLECTIVES=1 -x HEDDLE_COLL_DEPTH=$depth tests/mp/coll_barrier_leader 1000 "$seed"
	reported 'barrier .* mailbox  *leader ' 'that a leader released a barrier'
	try "barriers, depth $depth, HEDDLE_ODP=0, seed $seed" 7 -x HEDDLE_REPORT_COLLECTIVES=1 -x HEDDLE_COLL_DEPTH=$depth -x HEDDLE_ODP=0 \
		tests/mp/coll_barrier_leader 500 "$seed"
	reported 'barrier .* mailbox  *leader ' 'that a leader released a barrier'
done

[ $fails = 0 ]
