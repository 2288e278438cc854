#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No system call per message: 100,000 ping-pongs make no more of them than 1,000 do. Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
latency=$PWD/bench/hd_latency
[ -x "$run" ] && [ -x "$latency" ] || { echo "skipped: heddlerun or hd_latency is not built"; exit 77; }
command -v strace >/dev/null || { echo "skipped: strace is not installed"; exit 77; }
strace -f -c -o /dev/null true 2>"$err" || { echo "skipped: strace may not trace here: $(tail -n 1 "$err")"; exit 77; }
[ "$(nproc)" -ge 2 ] || { echo "skipped: with one CPU for two ranks each message needs the scheduler"; exit 77; }
# A rank whose peer is not running, because other processes use the machine, spins instead of giving the CPU away: so the counts depend
# on messages, not on the machine's load. sched_yield is not counted: the device's pollers call it after a
# thousand looks in vain, so that count depends on waiting, too.
HEDDLE_SPIN=2000000000
export HEDDLE_SPIN

# calls ITERATIONS: counts the system calls of both ranks, from start to end, in $n.
calls() {
	rm -f "$tmp"/trace.*
	# shellcheck disable=SC2016
	expect 0 "$run" -n 2 --bind-to core sh -c 'exec strace -f -c -o "$0.$$" "$@"' "$tmp/trace" "$latency" -m 8:8 -x 100 -i "$1"
	says "$out" '^8 '
	[ "$(ls "$tmp"/trace.* | wc -l)" = 2 ] || fail "not two traces"
	n=$(awk '$NF == "total" { n += $(NF == 5 ? 3 : 4) } $NF == "sched_yield" { n -= $4 } END { print n + 0 }' "$tmp"/trace.*)
	sort -k 4,4n "$tmp"/trace.* >"$err"
	[ "$n" -gt 100 ] || fail "strace counted $n calls only"
}
# Life checks, the PMIx thread and timers call the kernel by time, not by message: a run on a busy machine lasts longer and
# counts some thousand calls more. A call for each message, or for each batch of sixteen, counts 12,500 and more.
for attempt in 1 2 3; do
	calls 1000
	few=$n
	calls 100000
	echo "1000 ping-pongs: $few calls, 100000: $n"
	[ $((n - few)) -lt 10000 ] && exit 0
done
fail "the number of system calls grows with the number of messages"
