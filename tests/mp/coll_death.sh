#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank dies in offloaded collectives: every survivor is told, and the rank that is named is the dead one. Run in the build directory.
# COLL_DEATH=all: every collective with more ranks.
. "$(dirname "$0")/death_lib.sh"

dies() {	# dies RANKS DEAD COLLECTIVE EXECUTOR EXTENSIONS [ELEMENTS]
	one_dies "$1" "$2" "$3${6:+ of $6 elements} on $4, extensions $5, rank $2 of $1 dies" -x HEDDLE_COLL_EXECUTOR="$4" \
		-x HEDDLE_COLL_EXTENSIONS="$5" tests/mp/coll_death "$2" "$3" "$count" ${6:-}
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
dies 4 2 allreduce mailbox 1
dies 4 3 bcast mailbox 1
# by copies between the ranks' buffers
dies 4 0 bcast mailbox 1 100000
dies 4 3 scan mailbox 1 100000
if [ "${COLL_DEATH:-}" = all ]; then
	for coll in allgather scan bcast reduce; do
		dies 2 1 $coll mailbox 1 300000
		dies 5 2 $coll mailbox 1 100000
		dies 7 0 $coll mailbox 1 10000
	done
	for n in 2 3 8 13 17; do
		for dead in 0 1 $((n / 2)) $((n - 1)); do
			[ $dead -lt $n ] || continue
			for coll in allreduce barrier bcast reduce allgather alltoall reduce_scatter gather scatter; do
				dies $n $dead $coll tasks 1
				dies $n $dead $coll tasks 0
				[ $n -gt 16 ] || dies $n $dead $coll mailbox 1
			done
		done
	done
fi
exit $((fails != 0))
