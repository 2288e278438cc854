#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Exit codes, messages, and the end of the other ranks.
. "$(dirname "$0")/launcher_lib.sh"

# All ranks that printed their pid have ended.
all_gone() {
	for pid in $(sed -n 's/.*pid //p' "$out"); do wait_for gone "$pid"; done
	nothing_left
}

expect 0 "$run" -n 3 true
expect 1 "$run" -n 3 false
says "$err" "^heddlerun: rank [012] (false, pid [0-9]*) ended with exit code 1"
lines "$err" 1
expect 42 "$run" -n 1 sh -c 'exit 42'
expect 3 "$run" -n 4 "$job" exit 2 3
says "$err" "rank 2 .* ended with exit code 3; ending the other 3 ranks"
all_gone
expect 137 "$run" -n 4 "$job" kill 1 9
says "$err" "rank 1 ($job, pid [0-9]*) was ended by signal 9 (Killed); ending the other 3 ranks"
all_gone
expect 142 "$run" -n 2 "$job" kill 0 14
says "$err" "rank 0 .* signal 14 (Alarm clock); ending the other rank$"
expect 5 "$run" -n 3 "$job" abort 0 5
says "$err" "^heddle: rank 0 (.*): it was asked to"
says "$err" "rank 0 .* aborted the job with code 5; ending the other 2 ranks"
lines "$err" 2
all_gone
expect 1 "$run" -n 2 "$job" abort 1 256
# A rank that exits without MPI_Finalize would leave the other ranks waiting.
expect 1 "$run" -n 2 "$job" exit 1 0
says "$err" "rank 1 .* without MPI_Finalize; ending the other rank"
all_gone
# The same for a single rank, for which no other rank waits: that rank may have stopped in the middle of its work.
expect 1 "$run" -n 1 "$job" exit 0 0
says "$err" "^heddlerun: rank 0 ($job, pid [0-9]*) ended with exit code 0, but without MPI_Finalize$"
lines "$err" 1
expect 1 "$run" -n 2 sh -c 'exec "$0" exit $PMIX_RANK 0' "$job"
says "$err" "without MPI_Finalize"
[ "$(grep -c "^heddlerun:" "$err")" = 1 ] || fail "more than the first failure is told"
# A program that is not one of MPI's owes nothing.
expect 0 "$run" -n 2 sh -c 'exit 0'
# One that ends well without having joined would, too: whichever of the two comes first.
expect 1 "$run" -n 2 sh -c 'if [ $PMIX_RANK = 1 ]; then exit 0; fi; sleep 0.3; exec "$0" wait' "$job"
says "$err" "rank 1 (sh, pid [0-9]*) ended with exit code 0, but without MPI_Init, which rank 0 has called; ending the other rank"
expect 1 "$run" -n 2 sh -c 'if [ $PMIX_RANK = 0 ]; then exec "$0" wait; fi; sleep 0.5' "$job"
says "$err" "rank 1 (sh, pid [0-9]*) ended with exit code 0, but without MPI_Init"
all_gone
# The first failure is the job's; the ends of the other ranks are not reported.
expect 3 "$run" -n 2 sh -c 'if [ $PMIX_RANK = 0 ]; then exit 3; fi; trap "exit 9" TERM; while :; do sleep 0.1; done'
[ "$(grep -c "^heddlerun:" "$err")" = 1 ] || fail "more than the first failure is told"

# The killed rank is named, not a rank that ended because of the death, even if both ends are seen at a time.
: >"$out"; : >"$err"	# the waits below must not see an earlier job's lines
"$run" -n 2 sh -c 'echo rank $PMIX_RANK pid $$
	if [ $PMIX_RANK = 1 ]; then kill -STOP $PPID; kill -9 $$; fi
	while [ -d /proc/$(sed -n "s/^rank 1 pid //p" "$0") ] && ! grep -q "State:.Z" /proc/$(sed -n "s/^rank 1 pid //p" "$0")/status 2>/dev/null
	do sleep 0.05; done; exit 3' "$out" >"$out" 2>"$err" </dev/null &
launcher=$!
wait_for has_lines "$out" "^rank . pid" 2
for r in 0 1; do wait_for gone "$(sed -n "s/^rank $r pid //p" "$out")"; done
kill -CONT $launcher
wait $launcher
code=$?
[ $code = 137 ] || fail "exit code $code instead of 137: one rank was killed, one ended with 3"
says "$err" "rank 1 .* was ended by signal 9 (Killed)"
lines "$err" 1

# The same if the end of the killed rank takes longer than the other ranks take to detect the death.
for how in exit abort; do
	expect 137 "$run" -n 3 "$job" mourn 1 $how
	says "$err" "^heddlerun: rank 1 .* was ended by signal 9 (Killed)"
	[ "$(grep -c "^heddlerun:" "$err")" = 1 ] || fail "more than the first failure is told"
	all_gone
done

# With --on-death=continue the killed rank is named first, too, when another rank aborts because of the death.
expect 137 "$run" --on-death=continue -n 3 "$job" mourn 1 abort
says "$err" "^heddlerun: rank 1 .* was ended by signal 9 (Killed); the others go on (--on-death)$"
says "$err" "^heddlerun: rank [02] .* aborted the job with code 5"
[ "$(grep "^heddlerun:" "$err" | sed -n '1s/.*\(rank 1\) .*/\1/p')" = "rank 1" ] || fail "who aborts is named ahead of the cause"
all_gone
# Whatever ends the other ranks later, the exit code is that of the first failure; but a timeout must be visible.
expect 137 "$run" --on-death=continue -n 2 sh -c '[ $PMIX_RANK = 1 ] || exec "$0" kill 0 9
	while ! grep -q "the others go on" "$1"; do sleep 0.05; done; exec "$0" abort 1 5' "$job" "$err"
says "$err" "rank 0 .* was ended by signal 9 (Killed); the others go on (--on-death)"
says "$err" "rank 1 .* aborted the job with code 5$"
expect 124 "$run" --on-death=continue --timeout 1 -n 3 "$job" kill 1 9
says "$err" "rank 1 .* was ended by signal 9 (Killed); the others go on (--on-death)"
all_gone
expect 124 "$run" --on-death continue --timeout 1 -n 2 "$job" exit 1 0
says "$err" "rank 1 .* ended with exit code 0, but without MPI_Finalize; the others go on (--on-death)"
: >"$out"; : >"$err"
"$run" --on-death=continue -n 2 "$job" kill 1 9 >"$out" 2>"$err" </dev/null &
launcher=$!
wait_for has_lines "$err" "the others go on" 1
wait_for has_lines "$out" "^waiting 0" 1
kill -TERM $launcher
wait $launcher
code=$?
[ $code = 137 ] || fail "exit code $code instead of 137: of the rank that failed before the job was told to end"
# A rank that dies in MPI_Init ends the job: no rank has its address.
expect 137 "$run" --on-death=continue -n 3 -x HEDDLE_INIT_TIMEOUT=50s "$job" early 1
says "$err" "rank 1 .* was ended by signal 9 (Killed); ending the other 2 ranks$"
all_gone
expect 2 "$run" --on-death=shrug -n 2 true
says "$err" "--on-death shrug: end or continue"

# A rank that ignores SIGTERM is killed.
expect 4 "$run" -n 2 sh -c 'trap "" TERM; if [ $PMIX_RANK = 0 ]; then sleep 0.2; exit 4; fi; echo pid $$; while :; do sleep 0.1; done'
all_gone
# One that is stopped as well.
expect 4 "$run" -n 2 sh -c 'echo pid $$; if [ $PMIX_RANK = 0 ]; then sleep 0.2; exit 4; fi; kill -STOP $$'
all_gone
# Processes that a rank leaves running end with the rank.
expect 0 "$run" -n 2 sh -c 'sleep 1000 & echo pid $!'
lines "$out" 2
all_gone

expect 124 "$run" --timeout 0.5 -n 2 "$job" wait
says "$err" "not ended within 0.5 s (--timeout): ending rank 0, 1"
all_gone
expect 0 "$run" --timeout 50 -n 2 true

exit 0
