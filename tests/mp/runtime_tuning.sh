#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Choices by the clock: --report-tuning prints them, HEDDLE_TUNE=fixed takes the defaults (docs/tuning.md). Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
for p in hd_latency hd_bw hd_allgather; do
	[ -x "bench/$p" ] || { echo "skipped: bench/$p is not built"; exit 77; }
done

# taken SUBJECT CANDIDATE: how often all ranks have taken it
taken() { sed -n "s/^heddle: tuning: rank [0-9]*: $1.*[:;] $2 [^;]*taken \([0-9]*\) times;.*/\1/p" "$err" | awk '{ n += $1 } END { print n + 0 }'; }
job() { expect 0 "$run" -n 2 --report-tuning "$@"; says "$out" '^# Validation: Pass'; }
ring() { job "$@" bench/hd_latency -c -m 96K:96K -i 300 -x 5; }
rendezvous() { job "$@" bench/hd_bw -c -m 512K:512K -i 60 -x 5; }
staging() { job "$@" bench/hd_allgather -c -m 64K:64K -i 60 -x 5; }

ring
says "$err" '^heddle: tuning: rank 0: eager ring to rank 1: ring [0-9]* ns per KiB ([0-9]* tries), taken [0-9]* times; rendezvous 75 ns per KiB (stated), taken [0-9]* times; choice '
[ "$(taken 'eager ring' ring)" -gt 0 ] || fail "the ring was never tried"
rendezvous
says "$err" '^heddle: tuning: rank 1: rendezvous up to 512 KiB: read .*; split .* choice '
[ "$(taken rendezvous read)" -gt 0 ] && [ "$(taken rendezvous split)" -gt 0 ] || fail "read $(taken rendezvous read) times, split $(taken rendezvous split) times"
staging
says "$err" '^heddle: tuning: rank 0: staging of .* (#[0-9]*, 2 ranks): staged .* in place [0-9]* ns per KiB (stated), taken [0-9]* times; choice '

# fixed: every choice is the default, in every run, and nothing else is tried
for what in ring rendezvous staging; do
	$what -x HEDDLE_TUNE=fixed
	says "$err" '(HEDDLE_TUNE=fixed)$'
	says_not "$err" '([1-9][0-9]* tries)'
	says_not "$err" '; choice \(rendezvous\|split\|in place\|sleep\)'
	[ "$(taken 'eager ring' rendezvous) $(taken rendezvous split) $(taken staging 'in place') $(taken waiting sleep)" = '0 0 0 0' ] ||
		fail "HEDDLE_TUNE=fixed: something else than the defaults was taken"
done

expect 0 "$run" -n 2 bench/hd_latency -c -m 8:8 -i 10 -x 1
says_not "$err" '^heddle: tuning:'
expect 2 "$run" -n 2 -x HEDDLE_TUNE=never bench/hd_latency -m 8:8
says "$err" 'HEDDLE_TUNE=never: not understood; allowed is one of auto|fixed'
echo ok
