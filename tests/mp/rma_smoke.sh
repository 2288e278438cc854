#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One-sided communication over every lane: mapped, device, handler; and with devices that lack the ability that each lane needs.
set -u
top=${MPI_TEST_BUILD:-.}
fails=0
smoke() {
	ranks=$1 label=$2; shift 2
	if timeout -k 5 120 env "$@" "$top/heddlerun" -n "$ranks" "$top/tests/mp/$program" >"$out" 2>&1; then
		echo "ok: $ranks ranks, $label"
	else
		echo "FAILED: $ranks ranks, $label"
		head -n 20 "$out"
		fails=$((fails + 1))
	fi
}
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
program=rma_smoke
for n in 1 2 3 4 7; do
	smoke $n "as it comes" A=
done
smoke 3 "requests run by the helper thread" SHCA_BEHAVE=async
smoke 3 "no paging on demand, no order" SHCA_BEHAVE=noodp,noorder
smoke 2 "no wake on write" SHCA_BEHAVE=nowake
smoke 3 "UD only" HEDDLE_TRANSPORT=ud
for n in 1 2 4; do
	smoke $n "no memory that ranks share" SHCA_BEHAVE=noarena
done
smoke 3 "no memory that ranks share, UD only" SHCA_BEHAVE=noarena HEDDLE_TRANSPORT=ud
# a host with ranks that may not open each other's descriptors
program=rma_smoke_named
smoke 3 "no memory that ranks share, by a file with a name" SHCA_BEHAVE=noarena
exit $fails
