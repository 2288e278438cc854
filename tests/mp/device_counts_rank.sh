#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# device_counts_rank.sh DIRECTORY BUILD PROGRAM ARGUMENT...: a rank. Rank 0 first starts another program in the job's fabric, which
# stays until all ranks have left the fabric; then the device's counters, which go to DIRECTORY/totals, are those of all queues of the
# job, which are gone by now.
dir=$1 build=$2
shift 2
[ "$PMIX_RANK" = 0 ] || exec "$@"
wait_for() {
	for _ in $(seq 600); do
		"$@" && return 0
		sleep 0.05
	done
	echo "device_counts_rank.sh: did not come true: $*" >&2
	exit 90
}
processes() { "$build/shcactl" --fabric "$1" -o csv processes 2>/dev/null; }
joined() {
	for fabric in $("$build/shcactl" -o csv fabrics | sed 1d | cut -d, -f1); do
		processes "$fabric" | cut -d, -f2 | grep -qx $keeper && return 0
	done
	return 1
}
alone() { [ "$(processes "$fabric" | sed 1d | grep -cv ',dead,\|,reaped,')" = 1 ]; }
"$build/shcarun" ibv_asyncwatch -d shca0 >"$dir/keeper" 2>&1 &
keeper=$!
trap 'kill $keeper' EXIT
wait_for joined
"$@" || exit
wait_for alone
"$build/shcactl" --fabric "$fabric" -o csv totals >"$dir/totals"
