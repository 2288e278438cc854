#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A root sleeps until a late rank has read the data that the root sent: the read wakes the root. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for executor in mailbox tasks; do
	for n in 2 3; do
		rm -f "$tmp/left"
		try "asleep, $executor" "$n" -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_root_sleeps "$tmp/left"
	done
done

[ $fails = 0 ]
