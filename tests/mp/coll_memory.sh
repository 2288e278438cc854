#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank that has no memory for its part of a collective. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 2 5; do
	try "no memory" "$n" tests/mp/coll_memory
	try "no memory, HEDDLE_CHECK=1" "$n" -x HEDDLE_CHECK=1 tests/mp/coll_memory
	for executor in mailbox tasks; do
		try "no memory, executor $executor" "$n" -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_memory
	done
done

[ $fails = 0 ]
