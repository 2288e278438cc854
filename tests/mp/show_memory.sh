#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The memory that each of 64 ranks touches (mpi_memory_touched.c), and its explanation by the ledger (--report-memory): the sum is the PSS
# that the program reads itself within 5 %, and rows without a cause (the heap's rest) have at most an eighth. Run in the build
# directory.
. "$(dirname "$0")/launcher_lib.sh"
program=$PWD/tests/mp/mpi_memory_touched
[ -x "$run" ] && [ -x "$program" ] || { echo "skipped: heddlerun or mpi_memory_touched is not built"; exit 77; }
if grep -q '__[at]san_init\|__ubsan_handle' .libs/libheddle.so.0; then
	echo "skipped: a sanitizer's own memory counts as the rank's"
	exit 77
fi
expect 0 "$run" -n 64 --report-memory "$program"
cat "$out"
all=$(sed -n 's/^all: \([0-9]*\) KiB per rank$/\1/p' "$out")
awk -v all="$all" '
/heddle: memory: rank [0-9]+: sum / { sum += $NF; ranks++ }
/heddle: memory: rank [0-9]+: heap: all else/ { rest += $NF }
/heddle: memory: rank [0-9]+: (fabric|receive pools|send buffers|eager rings|collectives)/ { fabric += $NF }
/heddle: memory: rank 0:/ { print }
END {
	if (ranks != 64) { print "FAIL: " ranks " ledgers of 64 ranks"; exit 1 }
	printf "ledger: %.0f KiB per rank, of which %.0f without a row; the program counts %d\n", sum / ranks, rest / ranks, all
	if (sum / ranks < 0.95 * all || sum / ranks > 1.05 * all) { print "FAIL: the ledger does not explain the PSS"; exit 1 }
	if (rest > 0.125 * sum) { print "FAIL: more than an eighth of the ledger has no row"; exit 1 }
}' "$err" || exit 1
