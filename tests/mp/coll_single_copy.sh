#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Single copy: the ranks of a host copy from and to each other's buffers. Here collectives of all sizes do; elsewhere long ones.
# Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 2 3 5 8; do
	try "single copy, random, seed $seed" "$n" -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_random "${COLL_RANDOM:-30}" "$seed"
done
for n in 2 4; do
	try "single copy" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_correct
done
try "single copy, depth 2" 3 -x HEDDLE_COLL_DEPTH=2 -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_random "${COLL_RANDOM:-20}" "$seed"

[ $fails = 0 ]
