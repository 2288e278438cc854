#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rows of collectives in which the ranks drift apart, so that slots are reused as early as may be. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 2 4 7; do
	for depth in 2 8; do
		try "pipelined, depth $depth, seed $seed" "$n" -x HEDDLE_COLL_DEPTH=$depth -x HEDDLE_COLL_EXECUTOR=mailbox \
			tests/mp/coll_pipelined 2000 "$seed"
	done
done
try "pipelined, cells of one size" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_MAILBOX_MAX=48 -x HEDDLE_COLL_BCAST_MAILBOX_MAX=48 \
	tests/mp/coll_pipelined 2000 "$seed"

[ $fails = 0 ]
