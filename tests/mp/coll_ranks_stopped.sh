#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Offload: the last rank completes while all other ranks are stopped. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 2 4 6; do
	try "stopped ranks" "$n" tests/mp/coll_ranks_stopped
	try "stopped ranks, persistent" "$n" tests/mp/coll_ranks_stopped persistent
	try "stopped ranks, v-collectives" "$n" tests/mp/coll_ranks_stopped pieces
done
# The device reduces up a tree, with its extensions and without.
for n in 2 3 4 5 8 13 17; do
	for extensions in 1 0; do
		try "stopped ranks, tasks, extensions $extensions" "$n" -x HEDDLE_COLL_EXECUTOR=tasks \
			-x HEDDLE_COLL_EXTENSIONS=$extensions tests/mp/coll_ranks_stopped moved
	done
done
for extensions in 1 0; do
	try "stopped ranks, all operations, extensions $extensions" 5 -x HEDDLE_COLL_EXECUTOR=tasks -x HEDDLE_COLL_RADIX=2 \
		-x HEDDLE_COLL_EXTENSIONS=$extensions tests/mp/coll_ranks_stopped all
done

[ $fails = 0 ]
