#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many ranks, and many jobs at once.
. "$(dirname "$0")/launcher_lib.sh"

expect 0 "$run" -n 64 "$job" where
lines "$out" 64
says "$out" "^rank 63 of 64 local 63 of 64 "
expect 0 "$run" -n 100 "$job" where : -n 28 "$job" where
lines "$out" 128
for i in 1 2 3 4; do
	$limit "$run" -n 4 "$job" exchange >"$tmp/job$i" 2>&1 </dev/null &
	eval "p$i=$!"
done
for i in 1 2 3 4; do
	eval "wait \$p$i" || fail "job $i: $(cat "$tmp/job$i")"
	lines "$tmp/job$i" 4
done
# Jobs that end and fail in quick succession: none is taken for a failure that is none, or for a success.
for i in $(seq 15); do
	expect 0 "$run" -n 8 "$job" nothing
	expect 6 "$run" -n 8 "$job" abort 3 6
done
nothing_left
exit 0
