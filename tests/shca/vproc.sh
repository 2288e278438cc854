#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The engine as virtual processes of one address space: plain, and under ThreadSanitizer and AddressSanitizer where those
# builds exist. HEDDLE_TEST_SEED varies the random traffic; a failure names its seed.
set -u
seed=${HEDDLE_TEST_SEED:-1}
ran=0
for program in vproc vproc_tsan vproc_asan; do
	[ -x tests/shca/$program ] || continue
	for n in 2 4; do
		# ThreadSanitizer needs its shadow's addresses: no randomized layout
		setarch -R timeout 300 tests/shca/$program -n $n -s "$seed" -t 4 || {
			echo "FAIL: $program -n $n -s $seed: exit status $?"
			exit 1
		}
		ran=$((ran + 1))
	done
done
[ $ran -gt 0 ] || { echo "tests/shca/vproc was not built"; exit 1; }
echo "ok: $ran runs"
