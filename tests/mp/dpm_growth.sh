#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Spawned jobs leave nothing: no memory in their parents (dpm_growth.c), no descriptor, no process, no fabric.
# HEDDLE_TEST_SPAWNS: so many spawns in a row; by hand 1000.
. "$(dirname "$0")/launcher_lib.sh"
n=${HEDDLE_TEST_SPAWNS:-60}
prog=$PWD/tests/mp/dpm_growth
fabric=growth-$$

# the fabric is a memfd, which processes find by an abstract socket
of_fabric() { grep -- "$fabric" /proc/net/unix; }
limit="timeout -k 5 $((300 + n))"
for ranks in 2 ${HEDDLE_TEST_SPAWNS:+1 3}; do
	# short queues: a request without a completion names its peer until a later one completes
	expect 0 "$run" -n $ranks -x SHCA_FABRIC=$fabric -x HEDDLE_SQ_DEPTH=16 "$prog" $((n / 2))
	cat "$out"
	lines "$err" 0
	[ -z "$(of_fabric)" ] || fail "left behind: $(of_fabric)"
	! pgrep -f "^$prog( |\$)" >/dev/null || fail "processes are left: $(pgrep -af "^$prog( |\$)")"
done
nothing_left
