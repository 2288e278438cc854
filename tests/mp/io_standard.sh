#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Chapter 14 of the MPI standard by its text (io_standard_*.c), and chapter 11 (dpm_standard.c). IO=all: more ranks and rounds.
# IO_STANDARD_SEED: of the random cases. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"
all=${IO:-}
IO_STANDARD_SEED=${IO_STANDARD_SEED:-$(date +%s)} IO_STANDARD_ROUNDS=${all:+300}
IO_STANDARD_ROUNDS=${IO_STANDARD_ROUNDS:-15}
export IO_STANDARD_SEED IO_STANDARD_ROUNDS

for n in 1 3 ${all:+2 4 5 7}; do
	for p in manage views access datarep; do
		try "$p, seed $IO_STANDARD_SEED" "$n" tests/mp/io_standard_$p "$tmp"
	done
done
for n in 3 ${all:+1 2 4}; do
	try "beside" "$n" tests/mp/io_standard_beside "$tmp"
done
for n in 2 ${all:+1 3 4}; do
	try "dynamic processes" "$n" tests/mp/dpm_standard "$tmp"
done
# Two jobs on one file.
: >"$tmp/jobs"
timeout -k 5 240 $run -n 2 -x IO_STANDARD_JOB=0 tests/mp/io_standard_beside "$tmp" >"$tmp/other" 2>&1 &
other=$!
try "jobs" 2 -x IO_STANDARD_JOB=1 tests/mp/io_standard_beside "$tmp"
wait $other || { echo "FAILED: the other job"; tail -n 8 "$tmp/other"; fails=$((fails + 1)); }
# Another user: accesses that root may make, and other users may not.
if [ "$(id -u)" = 0 ]; then
	mkdir "$tmp/nobody" && chmod 711 "$tmp" && chown nobody "$tmp/nobody"
	if setpriv --reuid=nobody --clear-groups true 2>/dev/null; then
		run="setpriv --reuid=nobody --clear-groups $run"
		try "permissions of another user" 2 tests/mp/io_standard_beside "$tmp/nobody" permissions
	fi
fi
[ $fails = 0 ]
