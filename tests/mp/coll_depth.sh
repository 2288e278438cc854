#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Slots: the smallest number of them; and more outstanding operations than slots, of which the report counts exactly those that waited.
# Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

try "depth 2" 3 -x HEDDLE_COLL_DEPTH=2 tests/mp/coll_correct interleave reuse
try "depth 2" 7 -x HEDDLE_COLL_DEPTH=2 tests/mp/coll_correct interleave reuse
try "depth 2, tasks" 5 -x HEDDLE_COLL_DEPTH=2 -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_correct interleave reuse
for executor in mailbox tasks; do
	for case in "17 8 9" "9 8 1" "8 8 0" "5 2 3" "40 128 0"; do
		# shellcheck disable=SC2086
		set -- $case
		try "$1 outstanding of $2, $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor -x HEDDLE_COLL_DEPTH="$2" -x HEDDLE_REPORT_COLLECTIVES=1 \
			tests/mp/coll_depth "$1"
		late=$(sed -n 's/.*of these \([0-9]*\) waited in the library.*/\1/p' "$tmp/err")
		[ "${late:-0}" = "$3" ] || failed "$1 outstanding of $2, $executor: ${late:-0} waited, not $3"
	done
done

[ $fails = 0 ]
