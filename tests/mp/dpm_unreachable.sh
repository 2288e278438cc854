#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A parent that cannot reach the spawned processes (dpm_unreachable.c).
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/dpm_unreachable

for n in 2 3; do
	for case in lives dies; do
		expect 0 "$run" -n $n "$prog" $case
	done
done
nothing_left
