#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The engine as virtual processes of one address space: plain, and under ThreadSanitizer and AddressSanitizer where those
# builds exist. HEDDLE_TEST_SEED varies the random traffic; a failure names its seed. Run in the build directory.
set -u
seed=${HEDDLE_TEST_SEED:-1}
ran=0
log=$(mktemp) || exit 99
trap 'rm -f "$log"' EXIT

# ThreadSanitizer's shadow has fixed addresses, which a layout with much randomness may hit. A container may forbid
# personality(2), and setarch with it.
fixed=
setarch "$(uname -m)" -R true 2>/dev/null && fixed="setarch $(uname -m) -R"

for program in vproc vproc_tsan vproc_asan; do
	if [ ! -x tests/shca/$program ]; then
		echo "note: tests/shca/$program is not built"
		continue
	fi
	for run in '2 -t 4' '4 -t 4' '4 -t 1 -o frames'; do
		# $fixed is a command with an option, $run the arguments from the number of members on: split on purpose
		# shellcheck disable=SC2086
		$fixed timeout 300 tests/shca/$program -s "$seed" -n $run >"$log" 2>&1
		status=$?
		if [ $status -ne 0 ] && [ -z "$fixed" ] && grep -q 'ThreadSanitizer: unexpected memory mapping' "$log"; then
			echo "note: $program left out: it needs a fixed memory layout, and setarch -R is forbidden here"
			break
		fi
		if [ $status -ne 0 ]; then
			tail -n 60 "$log"
			echo "FAIL: $program -s $seed -n $run: exit status $status"
			exit 1
		fi
		ran=$((ran + 1))
	done
done
[ $ran -gt 0 ] || { echo "FAIL: tests/shca/vproc was not built"; exit 1; }
echo "ok: $ran runs"
