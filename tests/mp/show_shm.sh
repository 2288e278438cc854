#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The size of /dev/shm does not matter: 16 ranks with 1 MiB, in a separate mount namespace. Run in the build
# directory.
. "$(dirname "$0")/launcher_lib.sh"
bench=$PWD/bench
[ -x "$run" ] && [ -x "$bench/hd_allreduce" ] || { echo "skipped: heddlerun or hd_allreduce is not built"; exit 77; }

# As root, or as the root of a user namespace; a container may forbid both.
small='mount -t tmpfs -o size=1m tmpfs /dev/shm && [ $(($(stat -f -c "%b * %S" /dev/shm))) -eq 1048576 ]'
space=
for s in "unshare -m" "unshare -r -m"; do
	$s sh -c "$small" 2>"$err" && { space=$s; break; }
done
[ -n "$space" ] || { echo "skipped: no mount namespace can be had here: $(tail -n 1 "$err")"; exit 77; }

# The same before each run: a program that needs more than 1 MiB there fails.
try() {
	$space sh -c "$small || exit 99
		head -c 2000000 /dev/zero >/dev/shm/probe 2>/dev/null && { echo '/dev/shm holds 2 MB'; exit 98; }
		rm -f /dev/shm/probe
		"'"$@"
		status=$?
		[ -z "$(ls -A /dev/shm)" ] || { echo "left in /dev/shm: $(ls -A /dev/shm)"; exit 97; }
		exit $status' sh "$@" >"$out" 2>"$err" </dev/null
	status=$?
	[ $status -eq 0 ] || fail "exit status $status: $*"
}
try $limit "$run" -n 16 "$bench/hd_allreduce" -c -i 5:3 -x 1 -m 4:65536
says "$out" '^# Validation: Pass'
# far more memory in the fabric than /dev/shm has
try $limit "$run" -n 16 "$bench/hd_allreduce" -c -i 2 -x 0 -m 1M:1M
says "$out" '^# Validation: Pass'
