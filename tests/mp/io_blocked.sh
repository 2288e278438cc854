#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The hang report of ranks that block in file I/O, and collective accesses while a rank is stopped (io_blocked.c). IO=all: more.
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/io_blocked
file=$tmp/file
bg= holder=
cleanup() { kill -CONT ${victim:-} 2>/dev/null; kill -9 $bg $holder 2>/dev/null; rm -rf "$tmp"; }
trap cleanup EXIT

holds() {	# holds hold|lease: starts a process that keeps ranks from the file
	"$prog" "$1" "$file" >"$tmp/holder" 2>&1 &
	holder=$!
	wait_for grep -q . "$tmp/holder"
	grep -q ready "$tmp/holder"
}
starts() {	# starts RANKS CASE [TIMES]
	: >"$out"; : >"$err"
	"$run" --timeout 60 -n "$1" "$prog" "$2" "$file" ${3:+"$3"} >"$out" 2>"$err" </dev/null &
	bg=$!
	wait_for has_lines "$out" '^ready' "$1"
}
asked() { kill -USR1 $bg; sleep 0.3; grep -q -- "$1" "$err"; }
lets_go() {	# the process ends, and the job with exit code 0
	kill $holder
	wait $holder 2>/dev/null
	wait $bg || fail "exit code $?"
}

holds hold
starts 2 lock
wait_for asked "rank 0 waits in MPI_File_write_at: in fcntl(F_OFD_SETLKW), which waits for a lock of bytes 5 to 14 of $file, since "
says "$err" "rank 0: process $holder (io_blocked) holds a lock of bytes 3 to 12 of that file"
lets_go
holds hold
starts 2 ilock
wait_for asked "rank 0: an I/O thread is in fcntl(F_OFD_SETLKW), which waits for a lock of bytes 5 to 14 of $file"
says "$err" "rank 0 waits in MPI_Wait"
lets_go
starts 1 computes
wait_for asked "rank 0 does not wait in MPI: it computes"
kill $bg
wait $bg
if holds lease; then
	starts 1 open
	wait_for asked "rank 0 waits in MPI_File_open: in open of $file, since "
	lets_go
else
	echo "no leases here: $(cat "$tmp/holder")"
fi

# A rank is stopped anywhere in a collective: the others wait, the report names the rank, and all goes on behind SIGCONT. Two ranks
# that wait in different ways have a line each ("waits").
stops() {	# stops CASE TIMES PATTERN AFTER
	rm -f "$file.end"
	starts 3 "$1" "$2"
	sleep "$4"	# to another point of the loop, which goes on until FILE.end is there
	victim=$(pgrep -P $bg -f "^$prog $1" | sed -n 2p)
	kill -STOP "$victim"
	wait_for asked "is stopped (by a signal"
	says "$err" "$3"
	kill -CONT "$victim"
	: >"$file.end"
	wait $bg || fail "$1: exit code $?"
}
for after in 0.07 ${IO:+0.03 0.11 0.2}; do
	stops write 1000 'waits* in MPI_File_write_at_all' $after
	stops ordered 1000 'waits* in MPI_File_[a-z]*_\(ordered\|shared\)' $after
	stops open_close 300 'waits* in MPI_File_\(open\|close\)' $after
done
nothing_left
