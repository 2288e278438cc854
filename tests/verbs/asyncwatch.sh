#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An unmodified program that waits for asynchronous events, ibv_asyncwatch, gets the events that shcactl injects, also while stopped.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
need ibv_asyncwatch

watch() {
	timeout 60 "$shcarun" ibv_asyncwatch -d shca0 >"$tmp/watch$1.out" 2>&1 &
	eval "watch$1=$!"
	pids="$pids $!"
	n=0
	until grep -q 'async event FD' "$tmp/watch$1.out" 2>/dev/null; do
		n=$((n + 1))
		[ $n -lt 600 ] || fail "ibv_asyncwatch does not begin"
		sleep 0.05
	done
}
inject() {
	timeout 30 "$builddir/shcactl" --fabric "$SHCA_FABRIC" inject "$@" || fail "inject $*: $?"
}
# The program writes the events at its end: after the device's failure.
wants='PORT_ERR PORT_ACTIVE LID_CHANGE PKEY_CHANGE SM_CHANGE GID_CHANGE CLIENT_REREGISTER DEVICE_FATAL'
saw() {
	for w in $wants; do
		[ "$(grep -c "event_type IBV_EVENT_$w " "$tmp/watch$1.out")" = 1 ] || return 1
	done
}
wait_for() {
	n=0
	until saw "$1"; do
		n=$((n + 1))
		[ $n -lt 600 ] || fail "ibv_asyncwatch $1 has not seen all of: $wants"
		sleep 0.05
	done
}

# line by line, although the output is no terminal
command -v stdbuf >/dev/null || skip "no stdbuf"
export _STDBUF_O=L
LD_PRELOAD=$(stdbuf -oL env | sed -n 's/^LD_PRELOAD=//p')
export LD_PRELOAD
watch 1
watch 2
# the child of timeout and of shcarun, which becomes the program
stopped=$(pgrep -P "$watch2" | head -1)
[ -n "$stopped" ] || stopped=$watch2
kill -STOP "$stopped"
for e in port-down port-up 'lid-change 9' pkey-change 'sm-change 3' gid-change client-reregister device-fatal; do
	# shellcheck disable=SC2086
	inject $e
done
wait_for 1
saw 2 && fail "a stopped process has seen events"
kill -CONT "$stopped"
wait_for 2
timeout 30 "$shcarun" ibv_devinfo >"$tmp/devinfo.out" 2>&1 && fail "a device that has failed can be opened"
timeout 30 "$builddir/shcactl" --fabric "$SHCA_FABRIC" inject no-such-event >"$tmp/inject.out" 2>&1
[ $? = 2 ] || fail "an event that there is not"
exit 0
