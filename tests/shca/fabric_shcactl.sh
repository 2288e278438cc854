#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shcactl: its output for a fabric, and its errors. Run in the build directory.
set -eu
name=ctl-$$
dir=$(mktemp -d)
unset SHCA_FABRIC SHCA_FABRIC_FD
mkfifo "$dir/in" "$dir/out"
PMIX_NAMESPACE=job-7 PMIX_RANK=3 timeout 120 tests/shca/fabric_procs --hold "$name" <"$dir/in" >"$dir/out" &
holder=$!
exec 9>"$dir/in" 8<"$dir/out"
trap 'exec 9>&- 8<&-; wait $holder || :; rm -rf "$dir"' EXIT
read -r ready <&8
[ "$ready" = ready ]

fail()
{
	echo "fabric_shcactl: $1" >&2
	exit 1
}
ctl()
{
	timeout 60 ./shcactl --fabric "$name" "$@"
}
refused()	# STATUS TEXT COMMAND...
{
	want=$1 text=$2
	shift 2
	status=0
	"$@" >"$dir/refused" 2>&1 || status=$?
	[ $status -eq "$want" ] || fail "$*: exit status $status, not $want"
	grep -q -- "$text" "$dir/refused" || fail "$*: does not say \"$text\" but: $(cat "$dir/refused")"
}

./shcactl -o csv fabrics | grep -q "^$name,$(id -u),1," || fail "fabrics does not list $name with 1 process"
ctl -o csv processes | grep -q ",fabric_procs,live," || fail "processes does not list its member"
ctl processes | head -1 | grep -q "^slot  *pid  *program" || fail "no line of names"
ctl -o csv processes | grep -q ",job-7,3$" || fail "processes does not tell job and rank"
ctl -o json processes >"$dir/json"
grep -q '^\[{"slot": 0, "pid": [0-9]*, "program": "fabric_procs", "state": "live", .*"job": "job-7", "rank": 3}\]$' "$dir/json" ||
	fail "processes in JSON: $(cat "$dir/json")"
[ "$(ctl -o json queues)" = "[]" ] || fail "queues in JSON of an empty fabric: $(ctl -o json queues)"
[ "$(ctl queues | wc -l)" -eq 1 ] || fail "queues lists something in an empty fabric"
[ "$(ctl regions | wc -l)" -eq 1 ] || fail "regions lists something in an empty fabric"
refused 2 'did you mean "queues"' ctl quues
refused 2 'did you mean "regions"' ctl reg
refused 2 'did you mean "--fabric"' ./shcactl --fabrc x queues
refused 2 'takes no argument' ctl queues now
refused 2 'not understood' ctl set ud_drop=2
refused 2 'not understood' ctl set ud_dropp=0.1
refused 1 'no fabric "nobody-has-this"' ./shcactl --fabric nobody-has-this queues
[ "$(ctl set)" = "ud_drop=0 ud_dup=0 ud_reorder=0 seed=0" ] || fail "faults are not zero at first"
ctl set ud_drop=0.25 ud_dup=0.5,seed=7 >/dev/null
[ "$(ctl set)" = "ud_drop=0.25 ud_dup=0.5 ud_reorder=0 seed=7" ] || fail "set did not set"
ctl set ud_drop=0 ud_dup=0 >/dev/null

# faults of queues
refused 2 '--queue NUMBER' ctl set --queue
refused 2 '--queue NUMBER' ctl set --queue 0x1000000 drop=1
refused 2 'of a queue is not understood' ctl set --queue 0x41 drop=1.5
refused 2 'of a queue is not understood' ctl set --queue=0x41 lose=1
ctl set --queue 0x41 drop=0.5,delay=0.25,delay_us=7 seed=9 >/dev/null
ctl set --queue all dup=1 >/dev/null
ctl set | tail -n +2 >"$dir/faults"
printf '%s\n' "queue=0x000041 drop=0.5 delay=0.25 rnr=0 dup=0 delay_us=7 seed=9; of 0 requests: drop 0 delay 0 rnr 0 dup 0" \
	"queue=all drop=0 delay=0 rnr=0 dup=1 delay_us=1000 seed=0; of 0 requests: drop 0 delay 0 rnr 0 dup 0" | cmp -s - "$dir/faults" ||
	fail "faults of queues: $(cat "$dir/faults")"
ctl set --queue 0x41 drop=0,delay=0 >/dev/null
ctl set --queue all dup=0 >/dev/null
[ "$(ctl set | wc -l)" -eq 1 ] || fail "faults of queues stay: $(ctl set)"

# queues --watch: again and again, until SIGTERM
timeout 60 ./shcactl --fabric "$name" queues --watch=0.02 >"$dir/watch" &
watch=$!
n=0
until [ "$(wc -l <"$dir/watch")" -ge 3 ]; do
	n=$((n + 1))
	[ $n -lt 300 ] || fail "queues --watch does not look again"
	sleep 0.05
done
kill -TERM $watch
wait $watch || fail "queues --watch ended with $?"

# the fabric of another user: the user is named
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && setpriv --reuid=65534 --regid=65534 --clear-groups test -x ./shcactl; then
	mkfifo -m 666 "$dir/in2" "$dir/out2"
	chmod 755 "$dir"
	timeout 120 setpriv --reuid=65534 --regid=65534 --clear-groups tests/shca/fabric_procs --hold "$name-2" <"$dir/in2" >"$dir/out2" &
	other=$!
	exec 7>"$dir/in2" 6<"$dir/out2"
	read -r ready <&6
	refused 1 "of user 65534 (process $(pgrep -P $other || echo $other))" ./shcactl --fabric "$name-2" queues
	exec 7>&- 6<&-
	wait $other || fail "the other user's process ended with $?"
fi

# trace: one at a time; ended by a signal; one that was killed is over
refused 2 'unknown option' ctl trace -o "$dir/x.pcapng" --queu 3
refused 2 'no file is named' ctl trace --roce
ctl trace | grep -q 'usage: shcactl' || fail "trace alone tells nothing"
# begin_trace FILE: in the background
begin_trace()
{
	rm -f "$dir/trace"	# of the last one
	./shcactl --fabric "$name" trace -o "$1" 2>"$dir/trace" &
	trace=$!
	n=0
	until grep -q tracing "$dir/trace" 2>/dev/null; do
		n=$((n + 1))
		[ $n -lt 600 ] || fail "trace does not begin"
		kill -0 $trace 2>/dev/null || return 1
		sleep 0.05
	done
}
begin_trace "$dir/a.pcapng" || fail "trace: $(cat "$dir/trace")"
refused 1 'another trace' ctl trace -o "$dir/b.pcapng"
kill -TERM $trace
wait $trace || fail "trace ended with $?"
[ "$(head -c 4 "$dir/a.pcapng" | od -An -tx1 | tr -d ' ')" = 0a0d0d0a ] || fail "no pcapng file"
begin_trace "$dir/c.pcapng" || fail "trace: $(cat "$dir/trace")"
kill -KILL $trace
wait $trace || :
begun=$(date +%s)
until begin_trace "$dir/d.pcapng"; do
	[ $(($(date +%s) - begun)) -lt 30 ] || fail "the trace of a dead tracer goes on"
	sleep 0.2
done
kill -INT $trace
wait $trace || fail "trace ended with $?"

# a trace that reaches the limit on the size of files. What it says goes through a pipe, which has no limit
text=$( (ulimit -f 0; ctl trace -o "$dir/e.pcapng" --seconds 0.1 || echo "status $?") 2>&1)
case $text in
*"cannot write $dir/e.pcapng"*"ulimit -f"*"status 1") ;;
*) fail "trace under ulimit -f 0: $text" ;;
esac

# counters of an unmodified program's traffic: 1000 exchanges of 4096 bytes, both ways, read after the queues are gone
if [ -x ./shcarun ] && command -v ibv_rc_pingpong >/dev/null; then
	SHCA_FABRIC=$name
	export SHCA_FABRIC
	. "$(dirname "$0")/pair.sh"
	pair "" "" ibv_rc_pingpong -n 1000 -s 4096 || fail "ibv_rc_pingpong does not run: $(cat "$dir/client" "$dir/server")"
	ctl -o csv totals >"$dir/totals"
	for c in port_xmit_data:2048000 port_rcv_data:2048000 port_xmit_packets:[0-9]* symbol_error:0; do
		echo "${c%%:*} $(./shcarun cat /sys/class/infiniband/shca0/ports/1/counters/"${c%%:*}")" | grep -q "^${c%%:*} ${c#*:}$" ||
			fail "counter $c: $(./shcarun cat /sys/class/infiniband/shca0/ports/1/counters/"${c%%:*}")"
	done
	[ "$(./shcarun cat /sys/class/infiniband/shca0/ports/1/hw_counters/rnr_nak_retry_err)" = 0 ] || fail "hw_counters"
	! ./shcarun cat /sys/class/infiniband/shca0/ports/1/counters/no_such 2>/dev/null || fail "a counter of any name"
	grep -q "^RC,0,[0-9]*,2000,8192000,[0-9]*,0,0,0,0$" "$dir/totals" || fail "totals: $(cat "$dir/totals")"
fi
