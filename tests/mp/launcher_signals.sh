#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Signals to heddlerun reach all ranks.
. "$(dirname "$0")/launcher_lib.sh"

# background COMMAND...: started in $bg, output as for expect. In a shell script background commands ignore SIGINT: env restores the
# default.
background() {
	: >"$out"; : >"$err"
	$limit env --default-signal=INT,QUIT,TSTP "$@" >"$out" 2>"$err" </dev/null &
	outer=$!
}
# heddlerun itself is the child of timeout
inner() { bg=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null); bg=${bg% }; [ -n "$bg" ]; }

for s in INT:2 TERM:15 HUP:1 USR1:10 USR2:12; do
	background "$run" -n 3 "$job" signal
	wait_for has_lines "$out" "^ready" 3
	wait_for inner
	kill -s ${s%:*} "$bg"
	wait $outer || fail "exit code $? after SIG${s%:*}"
	has_lines "$out" "got signal ${s#*:}" 3 || fail "SIG${s%:*} did not reach all"
	[ ! -s "$err" ] || [ $s = USR1:10 ] || fail "noise"
done

# Ranks without a handler: the job's exit code is the signal's.
background "$run" -n 2 "$job" wait
wait_for has_lines "$out" "^waiting" 2
wait_for inner
kill -s INT "$bg"
wait $outer; code=$?
[ $code = 130 ] || fail "exit code $code instead of 130"
[ ! -s "$err" ] || fail "noise about what the user did"

# Ranks that ignore SIGINT: the second one ends the job.
background "$run" -n 2 sh -c 'trap "" INT; echo ready; while :; do sleep 0.1; done'
wait_for has_lines "$out" "^ready" 2
wait_for inner
kill -s INT "$bg"
sleep 1.2
gone "$bg" && fail "ended at the first SIGINT"
kill -s INT "$bg"
wait $outer; code=$?
[ $code = 130 ] || fail "exit code $code instead of 130"

# Stop and go on.
background "$run" -n 2 "$job" wait
wait_for has_lines "$out" "^waiting" 2
wait_for inner
pids=$(sed -n 's/.*pid //p' "$out")
kill -s TSTP "$bg"
for p in $pids "$bg"; do wait_for stopped "$p"; done
kill -s CONT "$bg"
for p in $pids; do for _ in $(seq 200); do stopped "$p" || break; sleep 0.05; done; stopped "$p" && fail "rank $p still stopped"; done
kill -s TERM "$bg"
wait $outer; code=$?
[ $code = 143 ] || fail "exit code $code instead of 143"
nothing_left
exit 0
