#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Calls and lengths that differ between the ranks: by HEDDLE_CHECK=1, and as each executor sees them. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 2 3 5; do
	try "calls that one rank corrects" "$n" tests/mp/coll_check corrected
	try "calls that differ" "$n" -x HEDDLE_CHECK=1 tests/mp/coll_check
done
for n in 2 4; do
	try "lengths that differ on mailbox" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_check lengths
done
for n in 2 3 5; do
	try "lengths that differ on tasks" "$n" -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_check moved
done
for n in 2 4; do
	try "lengths that differ, single copy" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_check lengths
done

[ $fails = 0 ]
