#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Ranks get time to end after SIGTERM: by timeout(1), which sends the signal twice, with wrapper scripts that end first, with ranks that
# end first; ranks that do not end are killed.
. "$(dirname "$0")/launcher_lib.sh"

# A program that writes its checkpoint on SIGTERM, for longer than the grace of a failed job, also when further signals come meanwhile.
cat >"$tmp/checkpoint" <<'END'
#!/bin/sh
dir=$1 time=$2
trap 'trap "" TERM INT; sleep $time; echo saved >"$dir/saved.$PMIX_RANK"; exit 3' TERM
echo ready
while :; do sleep 0.05; done
END
chmod +x "$tmp/checkpoint"
saved() { [ "$(ls "$tmp" | grep -c '^saved')" = "$1" ] || fail "$(ls "$tmp" | grep -c '^saved') checkpoints instead of $1"; rm -f "$tmp"/saved.*; }
start() {
	: >"$out"; : >"$err"
	"$@" >"$out" 2>"$err" </dev/null &
	bg=$!
}
ready() { wait_for has_lines "$out" "^ready" "$1"; }

# timeout(1): the child, then the whole process group. Several times, for the two signals may be seen as one.
for i in 1 2; do
	start timeout -k 30 1 "$run" -n 3 "$tmp/checkpoint" "$tmp" 0.5
	wait $bg; code=$?
	[ $code = 124 ] || fail "exit code $code instead of 124 under timeout"
	has_lines "$out" "^ready" 3 || continue		# the machine was too slow for them to begin
	saved 3
	says_not "$err" heddle
done

# The first rank has ended long before the other ranks have written their checkpoints: they are not hurried.
start "$run" -n 3 sh -c '[ $PMIX_RANK = 1 ] && set -- "$1" 0; [ $PMIX_RANK = 2 ] && { echo ready; exec sleep 1000; }; exec "$0" "$@"' \
	"$tmp/checkpoint" "$tmp" 2.5
ready 3
kill -TERM $bg; wait $bg; code=$?
[ $code = 143 ] || [ $code = 3 ] || fail "exit code $code"
saved 2

# A script in between ends at once: the program started by the script does not.
start "$run" -n 2 sh -c '"$0" "$@"; echo not reached' "$tmp/checkpoint" "$tmp" 1
ready 2
kill -TERM $bg; wait $bg; code=$?
[ $code = 143 ] || fail "exit code $code instead of 143"
saved 2

# The same for --timeout and MPIEXEC_TIMEOUT.
expect 124 "$run" --timeout 1 -n 2 "$tmp/checkpoint" "$tmp" 2.5
[ "$(grep -c ready "$out")" = 2 ] && saved 2
expect 124 env MPIEXEC_TIMEOUT=0.5 "$run" -n 1 sleep 1000
says "$err" "not ended within 0.5 s (MPIEXEC_TIMEOUT)"
expect 2 env MPIEXEC_TIMEOUT=soon "$run" true
says "$err" "MPIEXEC_TIMEOUT=soon"

# A rank that ignores SIGTERM is killed, with all processes that the rank has started; the user sets the time.
ignore='trap "" TERM; sleep 1000 & echo pid $!; echo pid $$; echo ready; while :; do sleep 0.05; done'
for how in "--kill-after 1" "--kill-after=1s" ; do
	start "$run" $how -n 2 sh -c "$ignore"
	ready 2
	pids=$(sed -n 's/^pid //p' "$out")
	kill -TERM $bg; wait $bg; code=$?
	[ $code = 143 ] || fail "exit code $code instead of 143"
	says "$err" "rank 0, 1 did not end within 1 s after SIGTERM (--kill-after): killed"
	for p in $pids; do wait_for gone "$p"; done
done
start env HEDDLERUN_KILL_AFTER=0.5 "$run" -n 1 sh -c "$ignore"
ready 1
kill -TERM $bg; wait $bg; code=$?
[ $code = 143 ] || fail "exit code $code instead of 143"
says "$err" "within 0.5 s after SIGTERM"
# ... and so are the processes of a rank whose script has ended.
start "$run" --kill-after 1 -n 1 sh -c "sh -c '$ignore'; :"
ready 1
pids=$(sed -n 's/^pid //p' "$out")
kill -TERM $bg; wait $bg; code=$?
[ $code = 143 ] || fail "exit code $code instead of 143"
for p in $pids; do wait_for gone "$p"; done
# A real second SIGTERM ends the wait; --kill-after 0 never kills by itself.
start "$run" --kill-after 0 -n 2 sh -c "$ignore"
ready 2
kill -TERM $bg
sleep 1.2
gone $bg && fail "killed though --kill-after 0"
kill -TERM $bg; wait $bg; code=$?
[ $code = 143 ] || fail "exit code $code instead of 143"
says "$err" "second signal"
expect 2 "$run" --kill-after later true
says "$err" "kill-after later: a number of seconds"

# ... and heddlerun prints a line about the wait.
start "$run" -n 2 sh -c "$ignore"
ready 2
kill -TERM $bg
wait_for grep -q "still waiting for rank 0, 1, which is killed in 5[0-9] s (--kill-after)" "$err"
kill -TERM $bg; wait $bg

# A stopped rank sees SIGTERM.
start "$run" -n 1 sh -c 'trap "echo seen; exit 5" TERM; echo ready; kill -STOP $$; while :; do sleep 0.05; done'
ready 1
kill -TERM $bg; wait $bg; code=$?
[ $code = 5 ] || fail "exit code $code instead of 5"
says "$out" "^seen"

# SIGTERM while ranks are being started ends all of them, at any moment.
for i in 1 2 3 4 5 6; do
	start "$run" --kill-after 5 -n 40 sleep 1000
	sleep 0.0$((i * 2))
	kill -TERM $bg; wait $bg; code=$?
	[ $code = 143 ] || fail "exit code $code instead of 143"
	says_not "$err" heddle
done

# Signals that were ignored when heddlerun was started are not for this job.
start env --ignore-signal=HUP,INT "$run" -n 1 sh -c 'echo ready; sleep 1; echo done'
ready 1
kill -HUP $bg; kill -INT $bg
wait $bg || fail "ended by an ignored signal"
says "$out" "^done"
# The ranks inherit the disposition of SIGPIPE.
expect 0 env --default-signal=PIPE "$run" sh -c 'grep SigIgn /proc/self/status'
awk '{ exit substr($2, 13, 1) ~ /[13579bdf]/ }' "$out" || fail "SIGPIPE is ignored"
expect 0 env --ignore-signal=PIPE "$run" sh -c 'grep SigIgn /proc/self/status'
awk '{ exit substr($2, 13, 1) !~ /[13579bdf]/ }' "$out" || fail "SIGPIPE is not ignored"
nothing_left
exit 0
