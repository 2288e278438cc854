#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Random collectives against a serial reference (coll_random), by numbers of ranks, executors, queue kinds and algorithms of v-collectives.
# Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 1 2 3 4 5 7 8; do
	try "random, seed $seed" "$n" tests/mp/coll_random "${COLL_RANDOM:-40}" "$seed"
done
for executor in auto tasks; do
	try "random, seed $seed, executor $executor" 33 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_random "${COLL_RANDOM:-6}" "$seed"
done
for kind in rc ud xrc dc dc,ud; do
	try "random, seed $seed, queue kind $kind" 3 -x HEDDLE_TRANSPORT=$kind tests/mp/coll_random "${COLL_RANDOM:-15}" "$seed"
done
for executor in host mailbox tasks; do
	try "random, seed $seed, executor $executor" 4 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_random "${COLL_RANDOM:-25}" "$seed"
done
for how in tree linear; do
	for n in 5 8; do
		try "random, seed $seed, v-collectives $how" "$n" -x HEDDLE_COLL_VECTOR=$how tests/mp/coll_random "${COLL_RANDOM:-40}" "$seed" \
			gather,scatter,allgatherv
	done
done
# Sends that wait for their receives, while the rank goes on to write into the buffer that they read.
for n in 4 5; do
	try "random, seed $seed, announced sends" "$n" -x HEDDLE_UNEXPECTED_MAX=2 tests/mp/coll_random "${COLL_RANDOM:-40}" "$seed" \
		reduce_scatter,allreduce,scan
done
for n in 1 4; do
	try "random, seed $seed, HEDDLE_CHECK=1" "$n" -x HEDDLE_CHECK=1 tests/mp/coll_random "${COLL_RANDOM:-20}" "$seed"
done

[ $fails = 0 ]
