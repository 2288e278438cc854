#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Spawned processes (dpm_spawn.c). HEDDLE_TEST_SPAWNS: so many spawns in a row, 30 without it.
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/dpm_spawn
spawns=${HEDDLE_TEST_SPAWNS:-30}
cd "$tmp" || exit 1
children_of() { cat "/proc/$1"/task/*/children 2>/dev/null; }
has_spawned() { [ "$(children_of $pid | wc -w)" = 4 ]; }	# the guard, a parent, two children

for ranks in 1 2 3; do
	expect 0 "$run" -n $ranks "$prog" meet
done
# Cores that no rank has are for spawned ones: the first child has one of two.
expect 0 "$run" -n 1 -v "$prog" meet
[ "$(nproc)" -lt 2 ] || says "$err" 'rank 0 of spawned job 1: .*, on CPU'
# Collectives of parents and children run on the executors that one fabric allows.
expect 0 "$run" -n 2 --report-collectives "$prog" meet
says "$err" ' allgather  .* blocking  *mailbox  *cells '
says "$err" ' allreduce  *262144-524287 .* mailbox  *single-copy '
says "$err" ' alltoallv  .* mailbox  *vector '
expect 0 "$run" -n 2 -x HEDDLE_COLL_EXECUTOR=tasks --report-collectives "$prog" meet
says "$err" ' allreduce  .* tasks '
expect 0 "$run" -n 2 -x HEDDLE_COLL_EXECUTOR=host "$prog" meet
expect 0 "$run" -n 2 "$prog" arguments
expect 0 "$run" -n 1 "$prog" path
expect 0 "$run" -n 2 "$prog" soft
expect 0 "$run" -n 2 --universe 4 "$prog" soft 4
expect 0 "$run" -n 2 "$prog" multiple
expect 0 "$run" -n 2 "$prog" refused
says "$err" 'without MPI_Init; so the spawn fails'
says "$err" 'rank 0, which has spawned job .* (sh), waits for it no longer'
expect 0 "$run" -n 2 "$prog" by_spawned
expect 0 "$run" -n 2 "$prog" concurrent
expect 0 "$run" -n 2 "$prog" lingers
expect 0 "$run" -n 2 -x HEDDLE_TRANSPORT=ud "$prog" lingers
limit="timeout -k 5 600" expect 0 "$run" -n 2 "$prog" loop "$spawns"
cat "$out"

# Failures end the parents and the children that are connected, and their exit code is the job's.
expect 137 "$run" -n 2 "$prog" ends child
says "$err" 'rank 1 of spawned job 1 .* was ended by signal 9 (Killed); ending the other 3 ranks'
expect 137 "$run" -n 2 "$prog" ends again
says "$err" 'rank 1 of spawned job 1 .* was ended by signal 9 (Killed); ending the other 3 ranks'
expect 137 "$run" -n 2 "$prog" ends parent
says "$err" 'rank 0 (.*was ended by signal 9 (Killed); ending the other 3 ranks'
expect 9 "$run" -n 2 "$prog" ends aborted
says "$err" 'of spawned job 1 .*aborted the job with code 9'
expect 7 "$run" -n 2 "$prog" ends alone
says "$err" 'rank 0 of spawned job 1 .*ended with exit code 7; ending the other rank$'
[ "$(grep -c 'the parents go on' "$out")" = 2 ] || fail "the parents have not gone on"
expect 137 "$run" -n 2 --on-death=continue "$prog" ends survives
for executor in auto tasks host; do
	expect 137 "$run" -n 2 --on-death=continue -x HEDDLE_COLL_EXECUTOR=$executor "$prog" ends merged
	[ "$(grep -c 'goes on' "$out")" = 2 ] || fail "$executor: the parents have not gone on"
done
expect 0 "$run" -n 2 --tag-output "$prog" ends late
says "$out" '^\[1:0\]<stdout> late child 0'
says "$out" '^\[1:1\]<stdout> late child 1'
expect 0 "$run" -n 1 --output-filename "$tmp/o" "$prog" ends late
says "$tmp/o.1.1.out" 'late child 1'

# Time, the hang report and signals cover spawned ranks.
expect 124 "$run" -n 1 --timeout 3 "$prog" ends hang
says "$err" 'ending rank 0, 1:0, 1:1'
"$run" -n 1 "$prog" ends hang >"$out" 2>"$err" </dev/null &
pid=$!
is_reported() {
	kill -USR1 $pid
	sleep 0.5
	grep -q 'ranks 0, 1 of spawned job 1 wait in MPI_Recv for a message with tag 0 from rank 0 on MPI_COMM_PARENT' "$err"
}
wait_for has_spawned
wait_for is_reported
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "after SIGTERM: exit code $?"

# Any process of the two jobs killed, at any time: the rest ends.
for i in 1 2 3 4 5 6 7 8; do
	$limit "$run" -n 2 "$prog" loop 20 >"$out" 2>"$err" </dev/null &
	pid=$!
	sleep 0.$((i * 37 % 60 + 10))
	launcher=$(children_of $pid)		# of timeout(1)
	# shellcheck disable=SC2046
	set -- $(children_of "${launcher%% *}")
	[ $# -gt 1 ] && shift $((1 + i % ($# - 1))) && kill -9 "$1" 2>/dev/null	# the first is the guard
	wait $pid
	code=$?
	[ $code != 124 ] || fail "process ${1:-} was killed: the job does not end"
done
# The launcher killed: spawned ranks are ended, too.
"$run" -n 1 "$prog" ends hang >"$out" 2>"$err" </dev/null &
pid=$!
wait_for has_spawned
left=$(children_of $pid)
kill -9 $pid
wait $pid 2>/dev/null
for p in $left; do
	wait_for gone "$p"
done

# Without a launcher a heddlerun is started behind the program.
export HEDDLE_LAUNCHER="$run"
expect 0 "$prog" singleton
expect 0 "$prog" arguments
expect 0 "$prog" refused
expect 137 "$prog" ends parent
wait_for grep -q 'which has spawned ranks, has ended without MPI_Finalize; ending the other 2 ranks' "$err"
expect 53 env HEDDLE_LAUNCHER=/no/such/heddlerun "$prog" meet
says "$err" '/no/such/heddlerun cannot be started behind it: No such file'
ends_behind() { ! pgrep -f -- "--behind .*dpm_spawn" >/dev/null; }
wait_for ends_behind
nothing_left
