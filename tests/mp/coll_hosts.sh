#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collectives of ranks on several hosts, which are played on this machine (hosts_played.c): in two levels and by the table, over every queue
# kind, ranks placed by blocks, by turns and anyhow; a rank that dies. Run in the build directory. COLL_RANDOM: batches, for a long run.
. "$(dirname "$0")/death_lib.sh"
seed=${COLL_SEED:-$(date +%s)}
batches=${COLL_RANDOM:-10}

try() {	# try NAME HOSTS ARGS...: a rank for each of HOSTS
	name=$1 hosts=$2 n=$(echo "$2" | tr , '\n' | wc -l)
	shift 2
	if timeout 240 $run -n "$n" -x HEDDLE_DEVICE=shca0 -x HOSTS="$hosts" -x HEDDLE_REPORT_COLLECTIVES=1 "$@" >"$tmp/out" 2>"$tmp/err"; then
		echo "ok: $name, ranks on hosts $hosts"
	else
		echo "FAILED ($?): $name, ranks on hosts $hosts"
		grep -v '^heddle:  ' "$tmp/err" | cat "$tmp/out" - | tail -n 8
		fails=$((fails + 1))
	fi
}

reported() {	# reported TEXT WHAT
	grep -q -- "$1" "$tmp/err" && return
	echo "FAILED: the report does not say $2"
	fails=$((fails + 1))
}

for hosts in 0,0,1,1 0,1,0,1 0,0,0,0,1,1,1,1 0,1,0,1,0,1,0,1 0,0,0,1 3,1,0,3,1; do
	try "two levels, random, seed $seed" "$hosts" -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_random_hosts "$batches" "$seed"
	reported ' two-level ' 'that anything went by hosts'
done
try "one level, random, seed $seed" 0,0,1,1 -x HEDDLE_COLL_HIERARCHY=1 tests/mp/coll_random_hosts "$batches" "$seed"
if grep -q two-level "$tmp/err"; then
	echo "FAILED: HEDDLE_COLL_HIERARCHY=1, and something went by hosts"
	fails=$((fails + 1))
fi
for hosts in 0,0,0,0,1,1,1,1 1,0,0; do
	try "two levels" "$hosts" -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_correct_hosts
	try "by the table" "$hosts" tests/mp/coll_correct_hosts movement reduce
done
for kind in rc ud xrc dc dc,ud; do
	try "two levels, random, seed $seed, queue kind $kind" 0,0,1,0 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_COLL_HIERARCHY=2 \
		tests/mp/coll_random_hosts "$batches" "$seed"
done
# In stages, each host's ranks by themselves: on mailbox, on tasks, and by messages.
for hosts in 0,0,1,1 2,0,1,0,2 0,0,0,1,1; do
	try "stages" "$hosts" -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_hier
	reported 'allreduce .*two-level' 'that an Allreduce went by hosts'
	reported 'reduce .* within host mailbox ' 'that stages of one host were mailbox'
done
for how in COLL_EXECUTOR=tasks COLL_DEPTH=2 TRANSPORT=dc,ud COLL_SINGLE_COPY_MIN=1; do
	try "stages, $how" 0,0,0,1,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_$how tests/mp/coll_hier
done
try "stages, no more context ids" 0,0,1 -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_hier ids
for coll in 0 1 2 3 4; do
	for dead in 1 2; do
		one_dies 5 $dead "rank $dead dies in stages of collective $coll" -x HEDDLE_DEVICE=shca0 -x HOSTS=0,0,1,1,2 -x HEDDLE_COLL_HIERARCHY=2 \
			tests/mp/coll_hier dies $dead $coll
	done
done
# Where the order is the ranks', all that reduces keeps to it.
try "fixed order, random, seed $seed" 0,1,0,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_REDUCE_ORDER=fixed tests/mp/coll_random_hosts "$batches" "$seed"
try "calls compared, random, seed $seed" 0,0,1,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_CHECK=1 tests/mp/coll_random_hosts "$batches" "$seed"
try "sends that are held, seed $seed" 0,0,1,1,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_UNEXPECTED_MAX=2 tests/mp/coll_random_hosts "$batches" "$seed" \
	reduce_scatter,allreduce,gather,scatter
for hosts in 0,0,1,1 0,1,0; do
	try "starts in any order, seed $seed" "$hosts" -x HEDDLE_COLL_HIERARCHY=2 tests/mp/coll_persistent_starts_hosts 80 "$seed"
done
for how in COLL_DEPTH=2 COLL_SINGLE_COPY_MIN=1; do
	try "mixed, seed $seed, $how" 0,1,0,1,1 -x HEDDLE_COLL_HIERARCHY=2 -x HEDDLE_$how tests/mp/coll_comms_overlap_hosts "${COLL_MIXED:-200}" "$seed"
done
# Allgatherv's pieces, from rank to rank.
for hosts in 0,0,0 0,0,1,1,1; do
	try "ring, random, seed $seed" "$hosts" -x HEDDLE_COLL_VECTOR=ring tests/mp/coll_random_hosts "$batches" "$seed" allgatherv
done
# What is explained is what runs.
explained() {	# explained ALGORITHM ARGUMENT...
	algorithm=$1
	shift
	./heddle_info --explain "$@" >"$tmp/out" 2>"$tmp/err" && grep -q "^algorithm *$algorithm\$" "$tmp/out" && return
	echo "FAILED: heddle_info --explain $*: not $algorithm: $(grep -h '^algorithm\|^heddle' "$tmp/out" "$tmp/err")"
	fails=$((fails + 1))
}
explained two-level barrier --hosts 2x4
explained two-level bcast --hosts 3+1 --root 2 --size 1k --nonblocking
explained dissemination barrier --hosts 4x1
explained recursive-doubling allreduce --hosts 2x2
for hosts in 2x 3+ 0x4 x3 2x4x 5000; do
	if ./heddle_info --explain barrier --hosts $hosts >"$tmp/out" 2>"$tmp/err" || ! grep -q -- "--hosts $hosts: " "$tmp/err"; then
		echo "FAILED: heddle_info --explain barrier --hosts $hosts is not refused"
		fails=$((fails + 1))
	fi
done
try "the table" 0,0,1,1 tests/mp/coll_correct_hosts movement
reported 'barrier .*two-level' 'that a Barrier went by hosts'
# A rank dies, on a host of its own or not, a leader or not: those on other hosts have to be told, too. By a launcher that says who has ended
# they are at once, also where the only one that could see it is not there, and MPI_Finalize waits for nobody; else within the transport's time.
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
# ... also where they wait for nobody but one that lives, and is not there
lost 0,1,0,1,1 nonblocking 64 0 2 9000 $untold
lost 0,1,0,1,1 nonblocking 64 0 2 9000
# ... and of their own host: in stages, of which that one would see nothing
lost 0,1,1,1 blocking 64 0 3 1700 -x HEDDLE_COLL_HIERARCHY=2
lost 0,1,1,1 blocking 64 0 3 500 $untold
lost 0,0,1,1 blocking 64 1 0 500 -x HEDDLE_COLL_HIERARCHY=2
lost 0,1,2,3 persistent 1024 3 1 4000 -x HEDDLE_COLL_HIERARCHY=1
for kind in ud rc xrc dc dc,ud; do
	lost 0,0,1,1 blocking 64 1 -1 1700 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_KEEPALIVE=0
done
# Where the launcher says nothing, a rank of the host that has seen it does: nobody waits for the transport's time.
for kind in ud dc,ud; do
	for moment in 500 1700 2900; do
		lost 0,0,1,1 blocking 64 1 -1 $moment -x UNTOLD=1 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_KEEPALIVE=0
	done
done
# ... also in constructors without a communicator; and nobody is dead for them who has only given up.
for eager in 8192 2; do
	one_dies 4 3 "one is away, on several hosts, HEDDLE_EAGER_MAX=$eager" -x HEDDLE_DEVICE=shca0 -x HOSTS=0,1,0,1 -x UNTOLD=1 \
		-x HEDDLE_TRANSPORT=ud -x HEDDLE_KEEPALIVE=0 -x HEDDLE_EAGER_MAX=$eager tests/mp/comm_create_death_hosts 3 "$count"
done
for rank in 1 2; do
	try "rank $rank gives up" 0,1,0,1 -x HEDDLE_COLL_EXECUTOR=host tests/mp/comm_no_memory $rank
done
# So do messages, also where nothing is under way that could fail.
for kind in ud rc dc,ud; do
	one_dies 4 2 "messages on several hosts: $kind" -x HEDDLE_DEVICE=shca0 -x HOSTS=0,0,1,1 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_KEEPALIVE=0 \
		tests/mp/ptp_death_random_hosts 2 20000 5 200 1 "$count"
done
[ $fails = 0 ]
