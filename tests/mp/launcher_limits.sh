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

# A small stack, as for threads of OpenMP: the ranks have it, too.
for kib in 64 128 256; do
	expect 0 sh -c 'ulimit -s "$0"; exec "$@"' $kib "$run" -n 2 sh -c '[ "$(ulimit -s)" = "$1" ] && exec "$0"' "$job" $kib
	lines "$err" 0
done

# Little memory: the limit is named.
for kib in 1000 10000 20000; do
	sh -c 'ulimit -d "$0"; exec "$@"' $kib $limit "$run" -n 2 tests/mp/mpi_fds_closed 0 >"$out" 2>"$err" </dev/null && continue
	says "$err" "limited to $kib KiB of data and private memory (ulimit -d)"
done

# A user without passwd entry and without HOME.
if unshare -U --map-user=54321 true 2>/dev/null && ! getent passwd 54321 >/dev/null; then
	expect 0 unshare -U --map-user=54321 env -u HOME "$run" -n 2 "$job"
	lines "$err" 0
fi
nothing_left
