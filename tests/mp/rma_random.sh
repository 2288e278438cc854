#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Random one-sided traffic against a shadow copy of every window (rma_random.c): by numbers of ranks, queue kinds, missing abilities of
# a device, threads, and simulated hosts. RMA_RANDOM: batches, for a long run; COLL_SEED: the seed. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 1 2 3 4 5 7; do
	try "random, seed $seed" "$n" tests/mp/rma_random "${RMA_RANDOM:-25}" "$seed"
done
for kind in rc ud xrc dc dc,ud; do
	try "random, seed $seed, queue kind $kind" 3 -x HEDDLE_TRANSPORT=$kind tests/mp/rma_random "${RMA_RANDOM:-12}" "$seed"
done
for words in async noarena noodp noorder nosequence nowake async,noodp,noorder,nosequence,nowake; do
	try "random, seed $seed, SHCA_BEHAVE=$words" 3 -x SHCA_BEHAVE=$words tests/mp/rma_random "${RMA_RANDOM:-8}" "$seed"
done
# Answers of several pieces, of which the long ones are announced: a seed that shows it.
try "random, answers out of order" 3 -x SHCA_BEHAVE=noarena,noorder tests/mp/rma_random 10 5 1 create
for hosts in 0,1 0,0,1,1 1,0,2; do
	try_hosts "random, seed $seed" "$hosts" tests/mp/rma_random_hosts "${RMA_RANDOM:-10}" "$seed"
done
try_hosts "random, seed $seed, two devices" 0,1,0,0 -x HEDDLE_DEVICE=shca0,shca0 tests/mp/rma_random_hosts "${RMA_RANDOM:-10}" "$seed"
try "random, seed $seed, 3 threads" 3 tests/mp/rma_random "${RMA_RANDOM:-8}" "$seed" 3

[ $fails = 0 ]
