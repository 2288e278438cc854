#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collectives of ranks on several hosts, which are played on this machine (hosts_played.c): hierarchical and as Heddle selects, over every
# queue kind, ranks placed by blocks, in turns and in no order; a rank that dies. Run in the build directory. COLL_RANDOM: batches, for a long run.
. "$(dirname "$0")/coll_lib.sh"
batches=${COLL_RANDOM:-10}
options="-x HEDDLE_REPORT_COLLECTIVES=1"

for hosts in 0,0,1,1 0,1,0,1 0,0,0,0,1,1,1,1 0,1,0,1,0,1,0,1 0,0,0,1 3,1,0,3,1; do
	try_hosts "hierarchical, random, seed $seed" "$hosts" -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_random_hosts "$batches" "$seed"
	reported ' two-level ' 'that a collective was hierarchical'
done
try_hosts "not hierarchical, random, seed $seed" 0,0,1,1 -x HEDDLE_COLL_HIERARCHY=1 tests/mp/coll_random_hosts "$batches" "$seed"
not_reported two-level 'that a collective was hierarchical with HEDDLE_COLL_HIERARCHY=1'
for hosts in 0,0,0,0,1,1,1,1 1,0,0; do
	try_hosts "hierarchical" "$hosts" -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_correct_hosts
	try_hosts "hosts as HEDDLE_COLL_HIERARCHY=0 selects" "$hosts" tests/mp/coll_correct_hosts movement reduce
done
for kind in rc ud xrc dc dc,ud; do
	try_hosts "hierarchical, random, seed $seed, queue kind $kind" 0,0,1,0 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_COLL_HIERARCHY=2 \
		tests/mp/coll_random_hosts "$batches" "$seed"
done
# Node phases, in which the ranks of each host run a collective of their own: on mailbox, on tasks, and by messages.
for hosts in 0,0,1,1 2,0,1,0,2 0,0,0,1,1; do
	try_hosts "node phases" "$hosts" -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_hier
	reported 'allreduce .*two-level' 'that an Allreduce was hierarchical'
	reported 'reduce .* within host mailbox ' 'that node phases ran on mailbox'
done
for how in COLL_EXECUTOR=tasks COLL_DEPTH=2 TRANSPORT=dc,ud COLL_SINGLE_COPY_MIN=1; do
	try_hosts "node phases, $how" 0,0,0,1,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_$how tests/mp/coll_hier
done
try_hosts "node phases, no more context ids" 0,0,1 -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_hier ids
for coll in 0 1 2 3 4; do
	for dead in 1 2; do
		one_dies 5 $dead "rank $dead dies in node phases of collective $coll" -x HEDDLE_DEVICE=shca0 -x HOSTS=0,0,1,1,2 -x HEDDLE_COLL_HIERARCHY=2 \
			tests/mp/coll_hier dies $dead $coll
	done
done
# With HEDDLE_REDUCE_ORDER=fixed every reduction keeps to the order of the ranks.
try_hosts "fixed order, random, seed $seed" 0,1,0,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_REDUCE_ORDER=fixed tests/mp/coll_random_hosts "$batches" "$seed"
try_hosts "HEDDLE_CHECK=1, random, seed $seed" 0,0,1,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_CHECK=1 tests/mp/coll_random_hosts "$batches" "$seed"
try_hosts "announced sends, seed $seed" 0,0,1,1,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_UNEXPECTED_MAX=2 tests/mp/coll_random_hosts "$batches" "$seed" \
	reduce_scatter,allreduce,gather,scatter
for hosts in 0,0,1,1 0,1,0; do
	try_hosts "starts in any order, seed $seed" "$hosts" -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_persistent_starts_hosts 80 "$seed"
done
for how in COLL_DEPTH=2 COLL_SINGLE_COPY_MIN=1; do
	try_hosts "overlap, seed $seed, $how" 0,1,0,1,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_$how tests/mp/coll_comms_overlap_hosts "${COLL_MIXED:-200}" "$seed"
done
# Allgatherv's blocks travel around a ring.
for hosts in 0,0,0 0,0,1,1,1; do
	try_hosts "ring, random, seed $seed" "$hosts" -x HEDDLE_COLL_VECTOR=ring tests/mp/coll_random_hosts "$batches" "$seed" allgatherv
done
# heddle_info --explain names the algorithm that runs.
explained() {	# explained ALGORITHM ARGUMENT...
	algorithm=$1
	shift
	./heddle_info --explain "$@" >"$tmp/out" 2>"$tmp/err" && grep -q "^algorithm *$algorithm\$" "$tmp/out" && return
	failed "heddle_info --explain $*: not $algorithm: $(grep -h '^algorithm\|^heddle' "$tmp/out" "$tmp/err")"
}
explained two-level barrier --hosts 2x4
explained two-level bcast --hosts 3+1 --root 2 --size 1k --nonblocking
explained dissemination barrier --hosts 4x1
explained recursive-doubling allreduce --hosts 2x2
for hosts in 2x 3+ 0x4 x3 2x4x 5000; do
	if ./heddle_info --explain barrier --hosts $hosts >"$tmp/out" 2>"$tmp/err" || ! grep -q -- "--hosts $hosts: " "$tmp/err"; then
		failed "heddle_info --explain barrier --hosts $hosts is not refused"
	fi
done
try_hosts "the table of algorithms" 0,0,1,1 tests/mp/coll_correct_hosts movement
reported 'barrier .*two-level' 'that a Barrier was hierarchical'
# A rank dies: alone on its host or not, a leader or not. The ranks of other hosts must learn of the death. heddlerun's PMIx event tells them at
# once, also where the only rank that could notice is outside the library, and MPI_Finalize waits for no dead rank. Without that event
# (UNTOLD) the transport's time limits count.
lost() {	# lost HOSTS FORM BYTES DEAD LATE MOMENT OPTION...
	hosts=$1 form=$2 bytes=$3 dead=$4 late=$5 moment=$6; shift 6
	one_dies "$(echo "$hosts" | tr , '\n' | wc -l)" "$dead" "lost on several hosts: $hosts $form $bytes $dead $late $moment $*" \
		-x HEDDLE_DEVICE=shca0 -x HOSTS="$hosts" "$@" tests/mp/coll_death_random_hosts "$form" "$bytes" "$dead" "$late" "$moment" "$count"
}
untold="-x UNTOLD=1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_UD_TIMEOUT=4s -x HEDDLE_KEEPALIVE=1s"
lost 0,0,1,1 blocking 64 1 -1 500 $untold
lost 0,0,1,1 blocking 65536 2 -1 1300 $untold
lost 0,1,0,1,1 nonblocking 64 0 -1 9000 $untold
lost 0,0,1,1 persistent 1024 3 -1 4000 $untold
# ... also where the survivors wait only for a live rank that is outside the library
lost 0,1,0,1,1 nonblocking 64 0 2 9000 $untold
lost 0,1,0,1,1 nonblocking 64 0 2 9000
# ... and a rank of their own host, in a node phase, in which a rank of another host takes no part
lost 0,1,1,1 blocking 64 0 3 1700 -x HEDDLE_COLL_HIERARCHY=2
lost 0,1,1,1 blocking 64 0 3 500 $untold
lost 0,0,1,1 blocking 64 1 0 500 -x HEDDLE_COLL_HIERARCHY=2
lost 0,1,2,3 persistent 1024 3 1 4000 -x HEDDLE_COLL_HIERARCHY=1
for kind in ud rc xrc dc dc,ud; do
	lost 0,0,1,1 blocking 64 1 -1 1700 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_KEEPALIVE=0
done
# Without the PMIx event a rank of the dead one's host, which sees the death, reports it: no rank waits for the transport's limit.
for kind in ud dc,ud; do
	for moment in 500 1700 2900; do
		lost 0,0,1,1 blocking 64 1 -1 $moment -x UNTOLD=1 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_KEEPALIVE=0
	done
done
# ... also in constructors without a communicator; and a rank that has only given up does not count as dead.
for eager in 8192 2; do
	one_dies 4 3 "one is away, on several hosts, HEDDLE_EAGER_MAX=$eager" -x HEDDLE_DEVICE=shca0 -x HOSTS=0,1,0,1 -x UNTOLD=1 \
		-x HEDDLE_TRANSPORT=ud -x HEDDLE_KEEPALIVE=0 -x HEDDLE_EAGER_MAX=$eager tests/mp/comm_create_death_hosts 3 "$count"
done
for rank in 1 2; do
	try_hosts "rank $rank gives up" 0,1,0,1 -x HEDDLE_COLL_EXECUTOR=host tests/mp/comm_no_memory $rank
done
# Messages report a death, too, also where no operation is under way that could fail.
for kind in ud rc dc,ud; do
	one_dies 4 2 "messages on several hosts: $kind" -x HEDDLE_DEVICE=shca0 -x HOSTS=0,0,1,1 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_KEEPALIVE=0 \
		tests/mp/p2p_death_random_hosts 2 20000 5 200 1 "$count"
done
[ $fails = 0 ]
