#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that are in the library for one MPI_Test every 10 ms: the number of calls until a death is detected, and until lost packets
# have arrived (transport_progress_rare.c). Run in the build directory.
set -u
run=./heddlerun
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fails=0

wrong() {
	echo "FAILED: $1"
	tail -n 100 "$tmp/out" "$tmp/err"
	fails=$((fails + 1))
}

for kind in rc ud dc,ud; do
	timeout 60 "$run" --on-death=continue -n 2 -x HEDDLE_TRANSPORT=$kind tests/mp/transport_progress_rare killed >"$tmp/out" 2>"$tmp/err"
	if grep '^told after' "$tmp/out"; then echo "ok: killed, $kind"; else wrong "killed, $kind"; fi
done
timeout 60 "$run" -n 2 -x HEDDLE_TRANSPORT=ud -x SHCA_FAULT=ud_drop=0.2,seed=1 tests/mp/transport_progress_rare lossy >"$tmp/out" 2>"$tmp/err" ||
	wrong "lossy, exit status $?"
cat "$tmp/out"
timeout 90 "$run" -n 2 -x HEDDLE_TRANSPORT=ud -x SHCA_FAULT=ud_drop=0.05,seed=1 tests/mp/transport_progress_rare served "$tmp/received" >"$tmp/out" 2>"$tmp/err" ||
	wrong "served, exit status $?"
cat "$tmp/out"
[ $fails = 0 ]
