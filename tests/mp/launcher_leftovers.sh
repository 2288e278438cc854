#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Nothing stays behind, however the job ends: neither processes nor files.
. "$(dirname "$0")/launcher_lib.sh"

start() {
	: >"$out"; : >"$err"
	"$run" "$@" >"$out" 2>"$err" </dev/null &
	bg=$!
	started="$started $bg"
}
started=
cleanup() {
	for p in $started $(sed -n 's/.*pid //p' "$out"); do kill -9 "$p" 2>/dev/null; done
	rm -rf "$tmp"
}
trap cleanup EXIT
emptied() { [ -z "$(ls -A "$TMPDIR")" ]; }
ended() { for p in $pids; do wait_for gone "$p"; done; }

# heddlerun is killed: the ranks and their children end; the job's directory goes.
start -n 3 sh -c '"$0" wait & sleep 1000 & echo pid $$; echo pid $!; wait' "$job"
wait_for has_lines "$out" "^waiting" 3
wait_for has_lines "$out" "^pid" 6
pids=$(sed -n 's/.*pid //p' "$out")
[ "$(echo $pids | wc -w)" = 9 ] || fail "started: $pids"
kill -9 $bg; wait $bg 2>/dev/null
ended
wait_for rmdir "$TMPDIR"; mkdir "$TMPDIR"

# heddlerun and its guard are killed together: the ranks still end.
start -n 2 "$job" wait
wait_for has_lines "$out" "^waiting" 2
pids=$(sed -n 's/.*pid //p' "$out")
guard=
for c in $(cat /proc/$bg/task/$bg/children); do [ "$(cat /proc/$c/comm)" = hdlguard ] && guard=$c; done
[ -n "$guard" ] || fail "no guard"
kill -9 "$guard" $bg; wait $bg 2>/dev/null
ended
nothing_left

# Processes that have left their rank's process group, by setsid or a shell with job control, and orphans end with the job, after every
# kind of end.
away='setsid sh -c "echo pid \$\$; sleep 1000 & echo pid \$!; wait" & set -m; sleep 1000 & echo pid $!; (setsid setsid sh -c "echo pid \$\$; exec sleep 1000" &); '
start -n 2 sh -c "$away"'while [ ! -e "$0" ]; do sleep 0.02; done' "$tmp/go"
wait_for has_lines "$out" "^pid" 8
pids=$(sed -n 's/.*pid //p' "$out")
touch "$tmp/go"
wait $bg || fail "detached processes: status $?"
for p in $pids; do gone "$p" || fail "process $p is left over after the end of the job"; done
nothing_left
start -n 2 sh -c "$away wait"
wait_for has_lines "$out" "^pid" 8
pids=$(sed -n 's/.*pid //p' "$out")
kill -9 $bg; wait $bg 2>/dev/null
ended
wait_for emptied
# Such a process has the same time after SIGTERM as the ranks.
start -n 1 sh -c 'setsid sh -c "trap \"echo told\; exit\" TERM; echo ready; while :; do sleep 0.02; done" & wait'
wait_for has_lines "$out" "^ready" 1
kill -TERM $bg; wait $bg
says "$out" "^told"
nothing_left

# The guard process alone is killed: the job goes on, and heddlerun reports the loss.
start -n 2 sh -c 'echo ready; sleep 0.5; echo done'
wait_for has_lines "$out" "^ready" 2
for c in $(cat /proc/$bg/task/$bg/children); do [ "$(cat /proc/$c/comm)" = hdlguard ] && kill -9 "$c"; done
wait $bg || fail "without guard"
has_lines "$out" "^done" 2 || fail "without guard"
says "$err" "guard process was ended"
nothing_left

# The guard process holds no descriptor of the user open: a pipe behind heddlerun ends with heddlerun.
start -n 1 "$job" wait
wait_for has_lines "$out" "^waiting" 1
for c in $(cat /proc/$bg/task/$bg/children); do
	[ "$(cat /proc/$c/comm)" = hdlguard ] || continue
	guard=$c
	ls -l "/proc/$c/fd" | grep -q "$out" && fail "the guard holds the output"
done
kill -TERM $bg; wait $bg
wait_for gone "$guard"
nothing_left

# Files of the PMIx library, if the user's settings make the library write some, are in the job's directory, and go with that directory.
start -n 1 -x PMIX_MCA_gds=hash "$job" wait
wait_for has_lines "$out" "^waiting" 1
nothing_left
kill -9 $bg; wait $bg 2>/dev/null
PMIX_MCA_gds=ds21,hash; export PMIX_MCA_gds
start -n 2 "$job" wait
wait_for has_lines "$out" "^waiting" 2
find "$TMPDIR" -type f | grep -q . || echo "note: this PMIx library writes no files"
kill -9 $bg; wait $bg 2>/dev/null
wait_for emptied
exit 0
