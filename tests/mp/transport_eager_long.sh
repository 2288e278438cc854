#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Messages between HEDDLE_EAGER_MAX and HEDDLE_RING_MAX. While copies are slow, or are not timed: the peer reads messages that answer
# it, streams take the ring, and so do all messages where processes share a CPU. While copies are quick, as within one CPU, all messages
# take the ring.
# Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
counts_ranks "$run" "$PWD/bench/hd_latency" "$PWD/bench/hd_bw"

# carried LANE: messages of rank 0 that went that way
carried() { sed -n "s/^heddle: transports: rank 0 -> 1:.*[; ]$1 \([0-9]*\) msgs.*/\1/p" "$err"; }
job() { expect 0 "$@"; says "$out" '^# Validation: Pass'; }

[ "$(nproc)" -lt 2 ] || {
	job "$run" -n 2 --bind-to core --report-transports -x HEDDLE_RING_MAX=16k bench/hd_latency -c -m 12K:12K -i 500 -x 5
	[ "$(carried rendezvous)" -gt 400 ] || fail "a ping-pong of 12 KiB: rendezvous carried $(carried rendezvous) of 505 messages"
	job "$run" -n 2 --bind-to core --report-transports -x HEDDLE_RING_MAX=16k bench/hd_bw -c -m 12K:12K -i 50 -x 5
	[ "$(carried ring)" -gt $((10 * $(carried rendezvous))) ] ||
		fail "windows of 64 messages of 12 KiB: the ring carried $(carried ring), rendezvous $(carried rendezvous)"
}
job taskset -c 0 "$run" -n 2 --report-transports -x HEDDLE_RING_MAX=16k bench/hd_latency -c -m 12K:12K -i 500 -x 5
[ "$(carried ring)" -gt 400 ] || fail "a ping-pong of 12 KiB on one CPU: the ring carried $(carried ring) of 505 messages"
job taskset -c 0 "$run" -n 2 --report-transports bench/hd_latency -c -m 96K:96K -i 500 -x 5
[ "$(carried ring)" -gt 400 ] || fail "a ping-pong of 96 KiB on one CPU: the ring carried $(carried ring) of 505 messages"
job taskset -c 0 "$run" -n 2 --report-transports -x SHCA_BEHAVE=async bench/hd_latency -c -m 96K:96K -i 500 -x 5
[ "$(carried rendezvous)" -gt 400 ] || fail "copies that the device makes later: rendezvous carried $(carried rendezvous) of 505 messages"
echo ok
