#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The hang report: asked for out of band, aggregated, the odd rank first, bounded. And backtraces.
. "$(dirname "$0")/launcher_lib.sh"
waits=$PWD/tests/mp/show_waits
ulimit -c 0

cleanup() { kill -9 ${bg:-} 2>/dev/null; rm -rf "$tmp"; }
trap cleanup EXIT
start() {
	: >"$out"; : >"$err"
	"$run" --timeout 60 "$@" >"$out" 2>"$err" </dev/null &
	bg=$!
}
# asked RANKS PATTERN OPTIONS...: starts them and, once they are ready, asks until the answer holds the pattern: a rank
# that is ready may not yet be in the call.
asked() {
	ranks=$1 pattern=$2; shift 2
	start "$@"
	wait_for has_lines "$out" "^ready" "$ranks"
	for i in 1 2 3 4 5 6 7 8; do
		kill -USR1 $bg
		wait_for has_lines "$err" "what the .* ranks wait for" $i
		sleep 0.1
		grep -q -- "$pattern" "$err" && break
	done
	gone $bg && fail "it has ended"
	sed -n '/wait for:/h;/wait for:/!H;${x;p}' "$err" >"$tmp/last"
	says "$tmp/last" "$pattern"
}
end() { kill -TERM $bg; wait $bg; code=$?; [ $code = 143 ] || fail "exit code $code"; nothing_left; }

# No option was given at the start, and no handler is installed in the ranks: SIGUSR1 to heddlerun ends no rank.
asked 7 "  rank 6 waits in MPI_Recv for a message with tag 7 from rank 0 on MPI_COMM_WORLD" -n 7 "$waits" odd
sed -n 2p "$tmp/last" | grep -q "rank 6 waits" || fail "the odd one out is not the first"
says "$tmp/last" "  ranks 0-5 wait in MPI_Allreduce on MPI_COMM_WORLD"
for p in $(cat "/proc/$bg/task/$bg/children"); do
	[ "$(cat "/proc/$p/comm")" = show_waits ] || continue
	caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$p/status")
	case $caught in *[0-7]?[0-7]??) ;; *) fail "a rank handles SIGUSR1 or SIGSEGV: $caught" ;; esac
done
# The report has the duration of the wait.
sleep 1.2
kill -USR1 $bg
wait_for grep -q "rank 6 waits .*, since [1-9][0-9.]* s" "$err"
end
# Very many requests are one line.
asked 4 "rank 0 waits in MPI_Waitall; 600000 receives and 0 sends are not complete" -n 4 "$waits" requests 600000
says "$tmp/last" "rank 0: waits to receive from rank 1, tag .*; 599999 like it, with tags from 1000 to 600999"
says "$tmp/last" "rank 0: MPI_Waitall's array_of_requests\[2\] waits to receive from rank 1, tag 1002,"
says "$tmp/last" "rank 0: and 599997 more of MPI_Waitall's 600000 requests"
says "$tmp/last" "rank 1 waits in MPI_Send to send 4194304 bytes with tag 5 to rank 0"
says "$tmp/last" "ranks 2, 3 do not wait in MPI"
[ "$(wc -l <"$tmp/last")" -le 16 ] || fail "too long"
end
# So they are for SIGUSR1 to a rank.
start -x HEDDLE_REPORT_HANG=1 -n 2 "$waits" requests 100000
wait_for has_lines "$out" "^ready" 2
for _ in $(seq 50); do
	kill -USR1 $bg; sleep 0.3
	grep -q "waits to receive from rank 1, tag .*; 99999 like it" "$err" && break
done
says "$err" "rank 0 (.*): waits to receive from rank 1, tag .*; 99999 like it"
[ "$(grep -c "waits to receive" "$err")" -le 100 ] || fail "a line for each"
end
# MPI_Finalize and MPI_Init are named; so are ranks that have not come, and those that are stopped.
asked 3 "ranks 0, 1 wait in MPI_Finalize for the other ranks" -n 3 "$waits" finalize
says "$tmp/last" "rank 2 does not wait in MPI"
end
asked 1 "  rank 0 has not called MPI_Init" -n 3 "$waits" init
wait_for grep -q "ranks 1, 2 are in MPI_Init" "$err" || { kill -USR1 $bg; wait_for grep -q "ranks 1, 2 are in MPI_Init" "$err"; }
end
start -n 3 "$waits" barrier
wait_for has_lines "$out" "^ready" 3
victim=
for p in $(cat "/proc/$bg/task/$bg/children"); do [ "$(cat "/proc/$p/comm")" = show_waits ] && victim=$p && break; done
kill -STOP "$victim"
kill -USR1 $bg
wait_for grep -q "rank 0 is stopped (by a signal" "$err"
says "$err" "ranks 1, 2 wait in MPI_Barrier on MPI_COMM_WORLD"
end
# Programs that know nothing of MPI; those that handle the signal get it, anywhere in a rank's process group.
start -n 2 sh -c 'sh -c "trap \"echo usr1\" USR1; echo ready; while :; do sleep 0.05; done"; :'
wait_for has_lines "$out" "^ready" 2
kill -USR1 $bg
wait_for has_lines "$out" "^usr1" 2
wait_for grep -q "ranks 0, 1 have not called MPI_Init" "$err"
end
expect 124 "$run" --timeout 2 --report-hang=0.7 -n 2 sleep 1000
says "$err" "the job has run for 0.7 s (--report-hang)"
says "$err" "ranks 0, 1 have not called MPI_Init"

# A rank that is asked while in MPI_Finalize.
expect 0 "$run" -n 1 tests/mp/p2p_hang_report_finalize
says "$out" "the transport is there"

# Backtraces: functions and lines where there is libbacktrace, and the signal's own end.
expect 139 "$run" --backtrace -n 2 "$waits" crash
says "$err" "^heddle: rank 1 (.*): signal 11 (Segmentation fault) at address 0x10:"
if grep -q "define HAVE_LIBBACKTRACE 1" config.h; then
	says "$err" "rank 1 (.*):   #0 crash_here at .*show_waits.c:[0-9]*"
	says "$err" "rank 1 (.*):   #[0-9]* main at "
fi
says "$err" "rank 1 .* was ended by signal 11"
expect 134 "$run" --backtrace -n 1 "$waits" abort
says "$err" "signal 6 (Aborted)"
expect 139 env HEDDLE_BACKTRACE=1 "$run" -n 1 "$waits" overflow
says "$err" "^heddle: rank 0 (.*): signal 11"
expect 139 "$run" -n 2 "$waits" crash
says_not "$err" "show_waits.c"
exit 0
