#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files (chapter 14 of the MPI standard). IO=all: more ranks and rounds. IO_SEED: of the random test. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"
all=${IO:-}
seed=${IO_SEED:-$(date +%s)}
rounds=${all:+400}
rounds=${rounds:-60}

try_room() {	# try_room RANKS: io_large with its data; skipped without that room
	timeout -k 5 600 "$run" -n "$1" tests/mp/io_large "$tmp" room >"$tmp/out" 2>"$tmp/err"
	case $? in
	0) echo "ok: more than 2^31 elements in a file, $1 ranks" ;;
	77) cat "$tmp/out" ;;
	*) failed "more than 2^31 elements in a file, $1 ranks"; cat "$tmp/out" "$tmp/err" ;;
	esac
}

for n in 1 2 3 ${all:+4 7}; do
	try "smoke" "$n" tests/mp/io_smoke "$tmp"
done
try "smoke, no memory that ranks share" 2 -x SHCA_BEHAVE=noarena tests/mp/io_smoke "$tmp"
try_hosts "smoke" 0,1 tests/mp/io_smoke_hosts "$tmp"
for n in 1 3 ${all:+2 4 7}; do
	try "corners" "$n" tests/mp/io_corners "$tmp"
	try "errno" "$n" tests/mp/io_errno "$tmp"
done
chmod 755 "$tmp"	# for the second user
for n in 1 2; do
	try "permissions" "$n" tests/mp/io_perm "$tmp"
	cat "$tmp/out"
done
# a hole of a file in memory costs no page cache
hole=$(mktemp -d -p /dev/shm 2>/dev/null) || hole=$tmp
trap 'rm -rf "$tmp" "$hole"' EXIT
for n in 1 ${all:+2 3}; do
	try "more than 2^31 elements" "$n" tests/mp/io_large "$hole"
done
for n in ${all:+1 2}; do	# 2 GiB for each rank
	try_room "$n"
done
for n in 1 2 3 5 ${all:+4 6 7}; do
	for s in "$seed" $((seed + n)) ${all:+$((seed + 1)) $((seed + 2)) $((seed + 3))}; do
		try "random, seed $s" "$n" tests/mp/io_random "$tmp/random" $rounds "$s"
	done
done
for n in 1 2 ${all:+4}; do
	try "threads" "$n" tests/mp/io_threads "$tmp/threads"
done
[ $fails = 0 ]
