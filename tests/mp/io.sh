#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files (chapter 14 of the MPI standard). IO=all: more ranks and rounds. IO_SEED: of the random test. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"
all=${IO:-}
seed=${IO_SEED:-$(date +%s)}
rounds=${all:+400}
rounds=${rounds:-60}

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
for n in 1 2 3 5 ${all:+4 6 7}; do
	for s in "$seed" $((seed + n)) ${all:+$((seed + 1)) $((seed + 2)) $((seed + 3))}; do
		try "random, seed $s" "$n" tests/mp/io_random "$tmp/random" $rounds "$s"
	done
done
for n in 1 2 ${all:+4}; do
	try "threads" "$n" tests/mp/io_threads "$tmp/threads"
done
[ $fails = 0 ]
