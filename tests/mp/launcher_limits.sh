#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Hosts and limits at the edge: long host names, small stacks, little memory.
. "$(dirname "$0")/launcher_lib.sh"

# Host names of all lengths that Linux has, of letters, digits, both (libpmix makes something of each).
a=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
if unshare -u true 2>/dev/null; then
	for name in "$a" "$(echo $a | cut -c1-60)" "$(echo $a | cut -c1-50)12" "$(echo $a | tr a 7)" node-12.cluster.example; do
		expect 0 unshare -u sh -c 'hostname "$0" && exec "$@"' "$name" "$run" -n 2 "$job"
		lines "$err" 0
	done
fi

# A small stack, as for threads of OpenMP: the ranks inherit the limit.
for kib in 64 128 256; do
	expect 0 sh -c 'ulimit -s "$0"; exec "$@"' $kib "$run" -n 2 sh -c '[ "$(ulimit -s)" = "$1" ] && exec "$0"' "$job" $kib
	lines "$err" 0
done

# Too small for heddlerun and for a rank: a line names the limit. (A rank of heddlerun sets the limit by itself. The C library's
# start takes up to 12 KiB, the kernel puts up to 8 in front at random, and the environment lies on the stack as well: so the test uses
# a small environment.)
expect 1 env -i PATH="$PATH" sh -c 'ulimit -s 31; exec "$@"' - "$run" -n 2 "$job"
says "$err" "^heddlerun: the limit on the stack (ulimit -s) is below 32 KiB"
expect 1 env -i PATH="$PATH" "$run" -n 1 sh -c 'ulimit -s 31; exec "$0" 0' tests/mp/mpi_fds_closed
says "$err" "^heddle: MPI_Init[_a-z]*: the limit on the stack (ulimit -s) is below 32 KiB"

# Few processes and threads, of a user to which the limit applies: the limit is named, in heddlerun and in the ranks.
other=$(id -u nobody 2>/dev/null)
if [ "$(id -u)" = 0 ] && [ -n "$other" ] && ! ps -u "$other" -o pid= 2>/dev/null | grep -q . &&
   setpriv --reuid "$other" --clear-groups test -x "$PWD/heddlerun" 2>/dev/null; then
	for n in 2 3 4 7 8 9 12; do
		setpriv --reuid "$other" --clear-groups env TMPDIR=/tmp HOME=/tmp prlimit --nproc=$n timeout -k 5 60 "$run" -n 3 \
			"$PWD/tests/mp/mpi_fds_closed" 0 >"$out" 2>"$err" </dev/null
		code=$?
		[ $code -lt 124 ] || fail "exit code $code with ulimit -u $n"
		[ $code = 0 ] || says "$err" "ulimit -u"
	done
fi

# Little memory: the limit is named, and nothing ends by a signal. In heddlerun, and in a rank that sets the limit by itself.
for kib in 500 700 1000 10000 20000; do
	sh -c 'ulimit -d "$0"; exec "$@"' $kib $limit "$run" -n 2 tests/mp/mpi_fds_closed 0 >"$out" 2>"$err" </dev/null
	code=$?
	[ $code = 0 ] && continue
	[ $code -lt 128 ] || fail "exit code $code with ulimit -d $kib"
	says "$err" "limited to $kib KiB of data and private memory (ulimit -d)"
	if [ $kib -gt 500 ]; then	# of this the loader needs a part for the rank's libraries
		$limit "$run" -n 1 sh -c 'ulimit -d "$1"; exec "$0"' "$job" $kib >"$out" 2>"$err" </dev/null
		code=$?
		[ $code -lt 128 ] || fail "exit code $code of a rank with ulimit -d $kib"
		[ $code = 0 ] || says "$err" "limited to $kib KiB of data and private memory (ulimit -d)"
	fi
done

# A user without passwd entry and without HOME.
if unshare -U --map-user=54321 true 2>/dev/null && ! getent passwd 54321 >/dev/null; then
	expect 0 unshare -U --map-user=54321 env -u HOME "$run" -n 2 "$job"
	lines "$err" 0
fi
nothing_left
