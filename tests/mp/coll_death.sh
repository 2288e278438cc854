#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank dies in offloaded collectives: every survivor is told, and the rank that is named is the dead one. Run in the build directory.
# COLL_DEATH=all: every collective with more ranks.
set -u
run=./heddlerun
fails=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

dies() {	# dies RANKS DEAD COLLECTIVE EXECUTOR EXTENSIONS [ELEMENTS]
	rm -f "$tmp/count"
	timeout -k 5 120 "$run" -n "$1" -x HEDDLE_COLL_EXECUTOR="$4" -x HEDDLE_COLL_EXTENSIONS="$5" tests/mp/coll_death "$2" "$3" "$tmp/count" ${6:-} \
		>"$tmp/out" 2>"$tmp/err"
	told=$(grep -c '^survivor [0-9]*: .*: told$' "$tmp/out")
	grep -o 'rank [0-9]*\( of it\)\{0,1\} (rank [0-9]* of MPI_COMM_WORLD' "$tmp/err" >"$tmp/named"
	blamed=$(grep -vc "^rank $2 " "$tmp/named")
	named=$(grep -c "^rank $2 " "$tmp/named")
	if [ "$told" = $(($1 - 1)) ] && [ "$blamed" = 0 ] && [ "$named" != 0 ]; then
		echo "ok: $3${6:+ of $6 elements} on $4, extensions $5, rank $2 of $1 dies"
	else
		echo "FAILED: $3 on $4, extensions $5, rank $2 of $1 dies: $told are told, $named lines name it, $blamed blame others"
		head -n 20 "$tmp/out"
		head -n 10 "$tmp/err" | cut -c1-300
		fails=$((fails + 1))
	fi
}

dies 5 0 allreduce tasks 1
dies 5 2 allreduce tasks 0
dies 8 4 allreduce tasks 1
dies 5 4 barrier tasks 1
dies 5 1 bcast tasks 1
dies 5 4 reduce tasks 1
dies 5 1 alltoall tasks 1
dies 5 3 reduce_scatter tasks 1
dies 5 4 allgather tasks 1
dies 4 1 gather tasks 1
dies 4 0 scatter tasks 1
dies 4 2 allreduce direct 1
dies 4 3 bcast direct 1
# by copies between the ranks' buffers
dies 4 0 bcast direct 1 100000
dies 4 3 scan direct 1 100000
if [ "${COLL_DEATH:-}" = all ]; then
	for coll in allgather scan bcast reduce; do
		dies 2 1 $coll direct 1 300000
		dies 5 2 $coll direct 1 100000
		dies 7 0 $coll direct 1 10000
	done
	for n in 2 3 8 13 17; do
		for dead in 0 1 $((n / 2)) $((n - 1)); do
			[ $dead -lt $n ] || continue
			for coll in allreduce barrier bcast reduce allgather alltoall reduce_scatter gather scatter; do
				dies $n $dead $coll tasks 1
				dies $n $dead $coll tasks 0
				[ $n -gt 16 ] || dies $n $dead $coll direct 1
			done
		done
	done
fi
exit $((fails != 0))
