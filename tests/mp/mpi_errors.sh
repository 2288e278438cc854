#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Erroneous programs as a user sees them: text and exit status.
set -u
top=${MPI_TEST_BUILD:-.}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

# expect STATUS TEXT COMMAND...: the command ends with STATUS, and standard error has TEXT.
expect()
{
	want=$1 text=$2
	shift 2
	: >"$tmp/err"
	timeout -k 5 60 "$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
	if [ $status -ne "$want" ]; then
		echo "FAILED: $*: status $status instead of $want"
	elif [ -n "$text" ] && ! grep -qF -- "$text" "$tmp/err"; then
		echo "FAILED: $*: not said: $text"
	else
		return 0
	fi
	cat "$tmp/out" "$tmp/err"
	failed=$((failed + 1))
}

prog=$top/tests/mp/mpi_errors
for n in 2 3; do
	expect 0 "" "$top/heddlerun" -n $n "$prog" returned
	expect 6 "MPI_Send: invalid dest 99: communicator MPI_COMM_WORLD has $n ranks (0..$((n - 1)))" \
		"$top/heddlerun" -n $n "$prog" fatal
	expect 0 "" "$top/heddlerun" -initial-errhandler mpi_errors_return -n $n "$prog" initial
	expect 0 "" "$top/heddlerun" -initial-errhandler mpi_errors_return -n $n "$prog" outside
	expect 6 "its error handler is MPI_ERRORS_ABORT" "$top/heddlerun" --initial-errhandler=mpi_errors_abort -n $n "$prog" initial
	expect 6 "no other error handler was set" "$top/heddlerun" --initial-errhandler mpi_errors_are_fatal -n $n "$prog" initial
	expect 15 "message truncated: 64 bytes from rank 0 with tag 5 in MPI_COMM_WORLD, the receive buffer has 16" \
		"$top/heddlerun" -n $n "$prog" truncated
	expect 16 "the mill has stopped on MPI_COMM_WORLD, which is fatal: its error handler is MPI_ERRORS_ABORT" \
		"$top/heddlerun" -n $n "$prog" own-code
	expect 13 "MPI_Finalize: the delete function of the attribute with keyval" "$top/heddlerun" -n $n "$prog" callback
	expect 17 "MPI_Abort(MPI_COMM_WORLD, 17) was called" "$top/heddlerun" -n $n "$prog" abort
	expect 13 "MPI_Error_class: invalid errorcode 99999: it is none (0..16383); the program ends" \
		"$top/heddlerun" -n $n "$prog" early
	expect 16 "MPI_Comm_rank was called before MPI_Init" "$top/heddlerun" -n $n "$prog" before
	expect 16 "MPI_Send was called after MPI_Finalize" "$top/heddlerun" -n $n "$prog" after
	expect 0 "waits to receive from rank 1, tag 77" \
		env HEDDLE_REPORT_HANG=1 "$top/heddlerun" -n $n "$prog" report "$tmp/err"
	expect 0 "waits to receive from rank 1, tag 77" \
		env HEDDLE_REPORT_HANG=1 "$top/heddlerun" -n $n "$prog" report-threads "$tmp/err"
	expect 0 " bytes, synchronous; 2 like it, with tags from 5 to 7, 297 bytes in all" \
		env HEDDLE_FINALIZE_WARN=100ms "$top/heddlerun" -n $n "$prog" unreceived "$tmp/err"
	expect 0 "MPI_Finalize: a collective was begun and not completed" "$top/heddlerun" -n $n "$prog" uncompleted
done
expect 2 "--initial-errhandler fatal: mpi_errors_are_fatal, mpi_errors_abort or" "$top/heddlerun" --initial-errhandler fatal "$prog" returned
expect 1 "HEDDLE_INITIAL_ERRHANDLER=mpi_error_return: not understood; allowed is one of mpi_errors_are_fatal|mpi_errors_abort" \
	env HEDDLE_INITIAL_ERRHANDLER=mpi_error_return "$prog" returned
# A rank is killed: the calls of the survivors return that error, with every executor.
for n in 2 3; do
	for off in 1k 0; do
		expect 137 "after the kill: class 58, MPI_Allreduce: " \
			env HEDDLE_COLL_MAILBOX_MAX=$off "$top/heddlerun" -n $n "$prog" killed
		[ "$(grep -c "after the kill: class 58, .*rank [0-9]* .*has failed or cannot be reached" "$tmp/err")" = $((n - 1)) ] || {
			echo "FAILED: not every rank says who failed: $(cat "$tmp/err")"
			failed=$((failed + 1))
		}
		[ $off = 1k ] || grep -q "sending: class 58, .*rank [0-9]* .*has failed or cannot be reached" "$tmp/err" || {
			echo "FAILED: who sends to the lost rank is not told: $(cat "$tmp/err")"
			failed=$((failed + 1))
		}
	done
done
# The same while communicators are created: all survivors get the error, whichever rank has died.
for what in MPI_Comm_dup MPI_Comm_idup MPI_Comm_split MPI_Comm_split_type MPI_Comm_create MPI_Comm_create_group \
	MPI_Comm_create_from_group MPI_Intercomm_create MPI_Cart_create; do
	for victim in 0 3; do
		expect 137 "after the kill: class 58, MPI_" "$top/heddlerun" -n 4 "$prog" constructing $what $victim
		[ "$(grep -c "after the kill: class 58, .*has failed or cannot be reached" "$tmp/err")" = 3 ] || {
			echo "FAILED: $what without rank $victim: not every rank says that one failed: $(cat "$tmp/err")"
			failed=$((failed + 1))
		}
	done
done
# Too little memory: the text has the needed and the available amount, and the remedy.
for n in 1 2; do
	expect 0 "KiB needed" "$top/heddlerun" -x SHCA_RESERVE=1t -n $n "$prog" memory
	grep -q "the machine has [0-9]* KiB available, .*memory cgroup.*raise the limit" "$tmp/err" || {
		echo "FAILED: the figures are missing: $(cat "$tmp/err")"
		failed=$((failed + 1))
	}
done
expect 1 "the limit on the size of files is" \
	sh -c 'ulimit -f 2048; exec "$@"' sh "$top/heddlerun" -n 2 "$prog" returned
# Leaked objects are listed, with names, and by each rank; freed ones are not.
leaks=$top/tests/mp/mpi_leaks
for n in 1 3; do
	expect 0 "" env HEDDLE_REPORT_LEAKS=1 "$top/heddlerun" -n $n "$leaks"
	while read -r text; do
		[ "$(grep -cF -- "HEDDLE_REPORT_LEAKS: $text" "$tmp/err")" = $n ] || {
			echo "FAILED: not said by $n ranks: $text"
			cat "$tmp/err"
			failed=$((failed + 1))
		}
	done <<-END
		1 communicators not freed: the halo of $n rank
		1 handles of groups not freed: of 1 rank
		3 datatypes not freed: a column (MPI_Type_contiguous, size 20); 2 times MPI_Type_vector, size 8, extent 16, not committed
		1 operations not freed: commutative
		1 info objects not freed: 1 key, the first colour
		1 handles of error handlers not freed: for communicators
		1 keyvals not freed: for datatypes
		1 persistent requests, inactive, not freed: receive from rank 0, tag 11, MPI_COMM_WORLD
		1 receives that no message matched: receive from rank any, tag 12, the halo
		1 buffers for MPI_Bsend not detached: 1000 bytes of the halo
		1 messages matched by MPI_Mprobe or MPI_Improbe and not received: from rank
		3 messages that were never received: 3 times from rank
	END
	grep -q "requests not completed: MPI_Grequest_start" "$tmp/err" || { cat "$tmp/err"; failed=$((failed + 1)); }
	expect 0 "" env HEDDLE_REPORT_LEAKS=1 "$top/heddlerun" -n $n "$leaks" clean
	[ ! -s "$tmp/err" ] || { echo "FAILED: no leak, but said:"; cat "$tmp/err"; failed=$((failed + 1)); }
	expect 0 "" "$top/heddlerun" -n $n "$leaks"
	[ ! -s "$tmp/err" ] || { echo "FAILED: not asked for, but said:"; cat "$tmp/err"; failed=$((failed + 1)); }
done
# A program without a launcher is a job of one rank.
expect 0 "" "$prog" returned
expect 6 "communicator MPI_COMM_WORLD has 1 rank (0..0)" "$prog" fatal
[ $failed -eq 0 ]
