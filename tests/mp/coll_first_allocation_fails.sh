#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The first collective of a job, with one piece of memory refused to one rank, each in turn (coll_first_allocation_fails.c): every rank has the result or an
# error, and a later Barrier works on all ranks or on none; or the job ends, and prints the reason. Run in the build directory.
# COLL_UNMET=all: every form, length, executor
# and place, for some hours (COLL_UNMET_HOW,
# COLL_UNMET_FORMS: of these); else a few.
set -u
run=./heddlerun
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
fails=0
jobs=0
ended=0

wrong() {
	echo "FAILED: $1: $2"
	cat "$tmp/out"
	grep -v '^$' "$tmp/err" | tail -n 12
	fails=$((fails + 1))
}

# one RANKS VARIABLE FORM COLLECTIVE BYTES RANK N: false once there is no N-th piece
one() {
	jobs=$((jobs + 1))
	timeout 100 "$run" -n "$1" -x "$2" tests/mp/coll_first_allocation_fails "$3" "$4" "$5" "$6" "$7" >"$tmp/out" 2>"$tmp/err"
	status=$?
	# an error that cannot be returned to the program ends the job, with a message
	[ $status = 0 ] || ! grep -q "rank $6 .*: out of memory" "$tmp/err" || ! grep -q "rank $6 .* aborted the job" "$tmp/err" ||
		{ ended=$((ended + 1)); return 0; }
	[ $status = 0 ] || { wrong "$*" "exit status $status"; return 0; }
	said=$(awk -v ranks="$1" -v lacks="$6" '
		{ seen++; failed += $3 != 0; first += $2 != 0; if ($4) refused = 1 }
		END {
			if (seen != ranks) print seen " ranks of " ranks " have ended"
			else if (failed && failed != ranks) print failed " ranks of " ranks " have an error of the Barrier"
			else if (!refused && (first || failed)) print "an error, but nothing was refused"
			else if (!refused) print "end"
		}' "$tmp/out")
	[ "$said" != end ] || return 1
	[ -z "$said" ] || wrong "$*" "$said"
}

every() {	# every RANKS VARIABLE FORM COLLECTIVE BYTES RANK MOST [+]: one piece of memory, or with + all that follow, too
	ranks=$1 var=$2 form=$3 coll=$4 bytes=$5 rank=$6 most=$7 plus=${8:-}
	place=1
	beyond=0	# how many are asked for differs from run to run
	while [ $place -le "$most" ] && [ $fails -lt 20 ] && [ $beyond -lt 3 ]; do
		if one "$ranks" "$var" "$form" "$coll" "$bytes" "$rank" "$plus$place"; then beyond=0; else beyond=$((beyond + 1)); fi
		place=$((place + 1))
	done
	[ "${COLL_UNMET:-}" = "" ] || echo "$form $coll of $bytes bytes, $ranks ranks, $var, rank $rank${plus:+, and all that follow}: $((place - 1 - beyond)) places"
}

if [ "${COLL_UNMET:-}" = all ]; then
	for var in ${COLL_UNMET_HOW:-HEDDLE_COLL_EXECUTOR=auto HEDDLE_COLL_EXECUTOR=mailbox HEDDLE_COLL_EXECUTOR=tasks HEDDLE_TRANSPORT=ud}; do
		for form in ${COLL_UNMET_FORMS:-blocking nonblocking persistent}; do
			for coll in barrier bcast reduce allreduce gather scatter allgather alltoall reduce_scatter_block scan exscan \
				gatherv scatterv allgatherv alltoallv alltoallw reduce_scatter neighbor_allgather neighbor_alltoallv allreduce_own; do
				for bytes in 8 65536; do
					[ $coll != barrier ] || [ $bytes = 8 ] || continue
					every 3 $var $form $coll $bytes 1 1000
				done
			done
		done
	done
	every 2 HEDDLE_COLL_EXECUTOR=auto blocking allreduce 8 0 1000
	every 4 HEDDLE_COLL_EXECUTOR=auto nonblocking alltoall 8 3 1000
else
	every 3 HEDDLE_COLL_EXECUTOR=auto nonblocking barrier 8 1 12
	every 3 HEDDLE_COLL_EXECUTOR=auto blocking allreduce 8 1 12
	every 2 HEDDLE_COLL_EXECUTOR=auto blocking alltoallv 8 1 12
	every 3 HEDDLE_COLL_EXECUTOR=auto blocking barrier 8 1 2 +
	before=$ended
	# a rank without its first send buffers waits for memory, not for ever
	one 3 HEDDLE_TRANSPORT=ud blocking allreduce 8000 1 buffers
	[ $ended -gt $before ] && grep -q 'out of memory: .* first send buffers' "$tmp/err" || wrong "no send buffers" "the job has not ended for want of memory"
	# a query of the device that failed is not kept as the device's answer: the ranks choose alike
	for coll in barrier allreduce; do
		one 3 HEDDLE_COLL_EXECUTOR=tasks blocking $coll 8 1 query
		one 3 HEDDLE_COLL_EXECUTOR=auto nonblocking $coll 8 1 query
		# the text names the cause: not memory
		one 3 HEDDLE_COLL_EXECUTOR=tasks nonblocking $coll 8 1 query
		grep -q 'too many open files in this process' "$tmp/err" && ! grep -q 'no memory\|out of memory' "$tmp/err" ||
			wrong "$coll, query" "the lack of a descriptor is not named"
	done
	for place in 55 56 57 58 61 62 63; do one 3 HEDDLE_COLL_EXECUTOR=auto nonblocking barrier 8 1 $place; done
fi
echo "$jobs jobs, $ended of them ended for want of memory; $fails failed"
[ $fails = 0 ]
