#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Floating-point reductions give the same bits at each call; with HEDDLE_REDUCE_ORDER=fixed on each executor and placement, too, and
# while ranks are stopped now and then. Run in the build directory. COLL_ORDER="2 3 4 7": these numbers of ranks.
. "$(dirname "$0")/coll_lib.sh"

bad() {
	failed "$*"
	tail -n 100 "$tmp/out" "$tmp/err" | cut -c1-300
}

for n in 2 3 6; do
	try "the same bits each time" "$n" tests/mp/coll_reduce_repeatable
done
for n in 2 3 5; do
	for executor in auto host mailbox tasks; do
		timeout 60 "$run" -n $n -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_reduce_order sides >"$tmp/out" 2>"$tmp/err" ||
			bad "$n ranks, $executor: NaN or -0.0 give other bits"
	done
done
for n in ${COLL_ORDER:-3 5}; do
	for executor in auto host mailbox tasks; do
		timeout 120 "$run" -n $n -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_reduce_order >"$tmp/out" 2>"$tmp/err" ||
			bad "$n ranks, $executor: calls differ"
	done
	bits=
	for how in auto host mailbox tasks none l3 tree stopped; do
		executor=$how; place=core; pieces=
		case $how in none|l3) executor=auto; place=$how;; tree) executor=auto; pieces="-x HEDDLE_COLL_VECTOR=tree";; stopped) executor=mailbox;; esac
		timeout 120 "$run" -n $n --bind-to $place -x HEDDLE_COLL_EXECUTOR=$executor -x HEDDLE_REDUCE_ORDER=fixed $pieces \
			sh -c 'echo $$ >>"$1"; exec tests/mp/coll_reduce_order fixed' sh "$tmp/pids.$n.$how" >"$tmp/out" 2>"$tmp/err" &
		job=$!
		if [ $how = stopped ]; then
			while kill -0 $job 2>/dev/null; do
				for pid in $(cat "$tmp/pids.$n.$how" 2>/dev/null); do
					[ "$(cat /proc/$pid/comm 2>/dev/null)" = coll_reduce_order ] && kill -STOP "$pid" 2>/dev/null && sleep 0.005 && kill -CONT "$pid"
				done
				sleep 0.01
			done
		fi
		wait $job || bad "$n ranks, fixed order, $how: calls or forms differ"
		here=$(grep '^bits:' "$tmp/out")
		[ "${bits:=$here}" = "$here" ] && [ -n "$here" ] || bad "$n ranks, fixed order: $how gives $here, others $bits"
	done
	echo "$n ranks: $bits"
done
[ $fails = 0 ]
