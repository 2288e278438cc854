#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# v-collectives, with lengths that no rank knows completely: blocks in cells, by messages, and both in one operation. Run in the build
# directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 2 5; do
	try "blocks of all lengths" "$n" tests/mp/coll_vector 12 "$seed"
done
try "blocks of all lengths, depth 2, short cells" 3 -x HEDDLE_COLL_DEPTH=2 -x HEDDLE_COLL_MAILBOX_MAX=48 tests/mp/coll_vector 12 "$seed"
try "blocks of all lengths, nearly all by messages" 4 -x HEDDLE_COLL_MAILBOX_MAX=2 -x HEDDLE_COLL_SINGLE_COPY_MIN=1000g \
	tests/mp/coll_vector 12 "$seed"
for n in 2 3 5; do
	try "blocks of all lengths, single copy" "$n" -x HEDDLE_COLL_MAILBOX_MAX=2 -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_vector 12 "$seed"
done
try "long blocks" 3 tests/mp/coll_vector 4 "$seed" long
for lack in LACK_CONNECT=1 LACK_AREA=2; do
	# one seed: the sizes and the order of allocations follow from the lengths
	try "blocks, $lack" 2 -x LACK_RANK=1 -x $lack -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_vector_lacking 12 1 fit
	reported 'alltoallv .* host .*offload queues: rank 1 could not' 'why the host executor moved the blocks'
done

[ $fails = 0 ]
