#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collectives under heddlerun: every executor, every queue kind, lines and task lists; stopped ranks; the report. Run in the
# build directory.
set -u
run=./heddlerun
fails=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

try() {	# try NAME RANKS ARGS...
	name=$1 n=$2
	shift 2
	# shellcheck disable=SC2086
	if timeout 240 $run -n "$n" "$@" >"$tmp/out" 2>"$tmp/err"; then
		echo "ok: $name, $n ranks"
	else
		echo "FAILED ($?): $name, $n ranks"
		tail -n 5 "$tmp/out" "$tmp/err"
		fails=$((fails + 1))
	fi
}

reported() {	# reported TEXT WHAT: the report of the last try has it
	grep -q -- "$1" "$tmp/err" && return
	echo "FAILED: the report does not say $2"
	fails=$((fails + 1))
}

for executor in auto host mailbox tasks; do
	for n in 1 2 3 4 8; do
		try "executor $executor" "$n" -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_correct
	done
done
for n in 2 5; do
	try "executor tasks, no extensions" "$n" -x HEDDLE_COLL_EXECUTOR=tasks -x HEDDLE_COLL_EXTENSIONS=0 tests/mp/coll_correct
done
for kind in rc ud xrc dc; do
	try "queue kind $kind" 3 -x HEDDLE_TRANSPORT=$kind tests/mp/coll_correct movement reduce interleave
done
for algorithm in ALLREDUCE=rabenseifner ALLREDUCE=ring BCAST=chain BCAST=scatter-allgather REDUCE=scatter-gather \
	ALLGATHER=bruck ALLGATHER=ring ALLTOALL=bruck REDUCE_SCATTER=recursive-halving; do
	try "$algorithm" 5 -x HEDDLE_COLL_EXECUTOR=host -x HEDDLE_COLL_$algorithm tests/mp/coll_correct movement reduce
done
# Everything at random; COLL_RANDOM: batches, for a long run; COLL_SEED.
seed=${COLL_SEED:-$(date +%s)}
for n in 1 2 3 4 5 7 8; do
	try "random, seed $seed" "$n" tests/mp/coll_random "${COLL_RANDOM:-40}" "$seed"
done
for executor in auto tasks; do
	try "random, seed $seed, executor $executor" 33 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_random "${COLL_RANDOM:-6}" "$seed"
done
for kind in rc ud xrc dc dc,ud; do
	try "random, seed $seed, queue kind $kind" 3 -x HEDDLE_TRANSPORT=$kind tests/mp/coll_random "${COLL_RANDOM:-15}" "$seed"
done
for executor in host mailbox tasks; do
	try "random, seed $seed, executor $executor" 4 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_random "${COLL_RANDOM:-25}" "$seed"
done
for how in tree linear; do
	for n in 5 8; do
		try "random, seed $seed, pieces $how" "$n" -x HEDDLE_COLL_VECTOR=$how tests/mp/coll_random "${COLL_RANDOM:-40}" "$seed" \
			gather,scatter,allgatherv
	done
done
# Sends that wait for their receives, while the rank goes on to write where they read.
for n in 4 5; do
	try "random, seed $seed, sends that are held" "$n" -x HEDDLE_UNEXPECTED_MAX=2 tests/mp/coll_random "${COLL_RANDOM:-40}" "$seed" \
		reduce_scatter,allreduce,scan
done
# On several communicators at a time, each rank at its own speed.
for n in 2 4 7; do
	try "mixed, seed $seed" "$n" tests/mp/coll_comms_overlap "${COLL_MIXED:-200}" "$seed"
done
for how in COLL_EXECUTOR=tasks COLL_DEPTH=2 COLL_SINGLE_COPY_MIN=1; do
	try "mixed, seed $seed, $how" 4 -x HEDDLE_$how tests/mp/coll_comms_overlap "${COLL_MIXED:-200}" "$seed"
done
for lack in ALLOC=3 CONNECT=1 PAGES=1; do
	try "mixed, seed $seed, $lack lacks" 3 -x LACK_RANK=1 -x LACK_$lack tests/mp/coll_comms_overlap_lacking "${COLL_MIXED:-200}" "$seed"
done
# Persistent ones, started in any order.
for n in 1 2 3 5 8 17; do
	try "starts, seed $seed" "$n" -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_persistent_starts "${COLL_STARTS:-150}" "$seed"
	case $n in 2|3|5|8) reported 'persistent  *mailbox  *cells' 'that persistent ones were on mailbox' ;; esac
done
for how in COLL_EXECUTOR=host COLL_EXECUTOR=tasks COLL_DEPTH=2 ODP=0 CHECK=1 TRANSPORT=rc TRANSPORT=ud TRANSPORT=dc,ud; do
	try "starts, seed $seed, $how" 4 -x HEDDLE_$how tests/mp/coll_persistent_starts "${COLL_STARTS:-100}" "$seed"
done
try "starts, seed $seed, threads" 3 tests/mp/coll_persistent_starts "${COLL_STARTS:-100}" "$seed" 3
# ... with a rank that has no room for some of them, no queues, or not all of the others' word.
for lack in ALLOC=3 ALLOC=1 CONNECT=1; do
	try "starts, seed $seed, $lack lacks" 3 -x LACK_RANK=1 -x LACK_$lack -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_persistent_starts_lacking 150 "$seed"
done
# A rank that has no memory for its part.
for n in 2 5; do
	try "no memory" "$n" tests/mp/coll_memory
	try "no memory, calls compared" "$n" -x HEDDLE_CHECK=1 tests/mp/coll_memory
	for executor in mailbox tasks; do
		try "no memory, executor $executor" "$n" -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_memory
	done
done
# What the ranks call is compared.
for n in 2 3 5; do
	try "calls that one rank corrects" "$n" tests/mp/coll_check corrected
	try "calls that differ" "$n" -x HEDDLE_CHECK=1 tests/mp/coll_check
done
for n in 2 4; do
	try "lengths that differ on mailbox" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_check lengths
done
for n in 2 3 5; do
	try "lengths that differ on tasks" "$n" -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_check moved
done
for n in 1 4; do
	try "random, seed $seed, calls compared" "$n" -x HEDDLE_CHECK=1 tests/mp/coll_random "${COLL_RANDOM:-20}" "$seed"
done
# The smallest ring of slots.
try "depth 2" 3 -x HEDDLE_COLL_DEPTH=2 tests/mp/coll_correct interleave reuse
try "depth 2" 7 -x HEDDLE_COLL_DEPTH=2 tests/mp/coll_correct interleave reuse
try "depth 2, tasks" 5 -x HEDDLE_COLL_DEPTH=2 -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_correct interleave reuse
# Lines that are longer than what a request carries inline.
for odp in 0 1; do
	try "wide lines, HEDDLE_ODP=$odp" 3 -x HEDDLE_ODP=$odp -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_correct reduce interleave
	try "wide lines, HEDDLE_ODP=$odp" 5 -x HEDDLE_ODP=$odp -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_random 20 "$seed"
done
# Lines that wait, because the port is down, are read later.
for odp in 0 1; do
	try "port down, HEDDLE_ODP=$odp" 3 -x HEDDLE_ODP=$odp -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_port_down "$PWD/shcactl"
done
try "port down for good" 3 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_port_down "$PWD/shcactl" left
# A root that sleeps until what it has sent is taken is woken by that.
for executor in mailbox tasks; do
	for n in 2 3; do
		rm -f "$tmp/left"
		try "asleep, $executor" "$n" -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_root_sleeps "$tmp/left"
	done
done
# Communicators that come and go take over what those before them had; freeing one destroys nothing.
for executor in mailbox tasks; do
	for n in 2 5; do
		try "sets, executor $executor" "$n" -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_queue_cache count
		try "sets at random, executor $executor, seed $seed" "$n" -x HEDDLE_COLL_EXECUTOR=$executor \
			tests/mp/coll_queue_cache random "${COLL_RANDOM:-150}" "$seed"
	done
done
try "sets that an error has spoiled" 3 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache spoiled
for executor in mailbox tasks; do
	try "sets are given up" 4 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_queue_cache given
	try "sets that are not the same one" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_queue_cache other
	try "memory for longer operations, tried again" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_queue_cache again
done
timeout 100 "$run" -n 3 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache other refused >"$tmp/out" 2>"$tmp/err"
code=$?
[ $code != 0 ] && [ $code -lt 124 ] && grep -q 'the test refuses a receive' "$tmp/err" ||
	{ echo "FAILED ($code): sets that are not the same one, of which a rank does not hear"; tail -n 5 "$tmp/err"; fails=$((fails + 1)); }
try "scratch that is kept" 3 -x SHCA_RESERVE=64m tests/mp/coll_queue_cache spares
! grep 'run on the host' "$tmp/err" || { echo "FAILED: scratch that is kept leaves communicators without memory"; fails=$((fails + 1)); }
try "more sets than are kept" 2 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache many
try "sets, longer operations beside persistent ones" 2 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache mixed
try "persistent ones that nobody frees" 2 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache unfreed
! grep ibv_dealloc_pd "$tmp/err" || { echo "FAILED: persistent collectives that nobody has freed stay registered"; fails=$((fails + 1)); }
# 64 KiB is what is wanted. With more ranks, and on tasks, it is more: there the bound only tells when it grows.
for n in 2 4 8; do
	try "memory of a communicator on mailbox" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache memory ./shcactl 64
done
try "memory of a communicator on tasks" 2 -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_queue_cache memory ./shcactl 64
try "memory of a communicator on mailbox, more than wanted" 16 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache memory ./shcactl 96
try "memory of a communicator on tasks, more than wanted" 4 -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_queue_cache memory ./shcactl 112
try "memory of a communicator on tasks, more than wanted" 8 -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_queue_cache memory ./shcactl 148
for kind in ud dc,ud; do
	try "sets at random, depth 2, queue kind $kind, seed $seed" 4 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_COLL_DEPTH=2 \
		tests/mp/coll_queue_cache random "${COLL_RANDOM:-150}" "$seed"
done
# Those that nobody waits for, in a row.
for n in 2 4 7; do
	for depth in 2 8; do
		try "stream, depth $depth, seed $seed" "$n" -x HEDDLE_COLL_DEPTH=$depth -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_pipelined 2000 "$seed"
	done
done
try "stream, lines of one size" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_MAILBOX_MAX=48 -x HEDDLE_COLL_BCAST_MAILBOX_MAX=48 tests/mp/coll_pipelined 2000 "$seed"
# Barriers behind them, which a rank leads where they share cores: they have two of them.
may=$(taskset -pc $$)
run="taskset -c $(echo "$may" | sed 's/.*: *\([0-9]*\).*/\1/'),${may##*[-, ]} ./heddlerun"
for depth in 2 8; do
	try "barriers, depth $depth, seed $seed" 4 -x HEDDLE_REPORT_COLLECTIVES=1 -x HEDDLE_COLL_DEPTH=$depth tests/mp/coll_barrier_leader 1000 "$seed"
	reported 'barrier .* mailbox  *leader ' 'that a barrier was led'
	try "barriers, depth $depth, HEDDLE_ODP=0, seed $seed" 7 -x HEDDLE_REPORT_COLLECTIVES=1 -x HEDDLE_COLL_DEPTH=$depth -x HEDDLE_ODP=0 \
		tests/mp/coll_barrier_leader 500 "$seed"
	reported 'barrier .* mailbox  *leader ' 'that a barrier was led'
done
run=./heddlerun
# What two in a loop need is made once.
try "plans" 4 tests/mp/coll_plans
# What long collectives do, with all sizes: the ranks copy from and to each other's buffers.
for n in 2 3 5 8; do
	try "all by reads, random, seed $seed" "$n" -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_random "${COLL_RANDOM:-30}" "$seed"
done
for n in 2 4; do
	try "all by reads" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_correct
	try "all by reads, lengths that differ" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_check lengths
done
try "all by reads, depth 2" 3 -x HEDDLE_COLL_DEPTH=2 -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_random "${COLL_RANDOM:-20}" "$seed"
# Who only gives its input to a Reduce, or its result to the next rank of a Scan, leaves it behind.
for executor in auto mailbox; do
	try "left behind, freed, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_sc_staging freed 60
	try "left behind, one after another, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_sc_staging stream 200
	try "left behind by ranks in MPI_Finalize, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_sc_staging stopped
done
for n in 2 3 5; do
	for behave in "" async,noarena; do
		try "reductions in parts, some left behind, SHCA_BEHAVE=$behave" "$n" -x SHCA_BEHAVE=$behave -x HEDDLE_COLL_EXECUTOR=mailbox \
			-x HEDDLE_COLL_MAILBOX_MAX=2 -x HEDDLE_COLL_DEPTH=16 -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_sc_reduce 40 "$seed"
	done
done
try "left behind on many communicators" 3 tests/mp/coll_sc_staging many 90
for n in 2 3 6; do
	try "the same bits each time" "$n" tests/mp/coll_reduce_repeatable
done
# More ranks than write to each other.
try "many ranks" 17 tests/mp/coll_correct interleave

for n in 2 4 6; do
	try "stopped ranks" "$n" tests/mp/coll_ranks_stopped
	try "stopped ranks, persistent" "$n" tests/mp/coll_ranks_stopped persistent
	try "stopped ranks, vectors" "$n" tests/mp/coll_ranks_stopped pieces
done
# Lengths that no rank knows all of: lines, messages, and both in one operation.
for n in 2 5; do
	try "pieces of all lengths" "$n" tests/mp/coll_vector 12 "$seed"
done
try "pieces of all lengths, depth 2, short lines" 3 -x HEDDLE_COLL_DEPTH=2 -x HEDDLE_COLL_MAILBOX_MAX=48 tests/mp/coll_vector 12 "$seed"
try "pieces of all lengths, nearly all by messages" 4 -x HEDDLE_COLL_MAILBOX_MAX=2 -x HEDDLE_COLL_SINGLE_COPY_MIN=1000g tests/mp/coll_vector 12 "$seed"
for n in 2 3 5; do
	try "pieces of all lengths, by reads" "$n" -x HEDDLE_COLL_MAILBOX_MAX=2 -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_vector 12 "$seed"
done
try "long pieces" 3 tests/mp/coll_vector 4 "$seed" long
for lack in LACK_CONNECT=1 LACK_AREA=2; do
	# by one seed: what memory is asked for, and in what order, follows from the lengths
	try "pieces, $lack" 2 -x LACK_RANK=1 -x $lack -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_vector_lacking 12 1 fit
	grep -q 'alltoallv .* host .*offload queues: rank 1 could not' "$tmp/err" ||
		{ echo "FAILED: the report does not say why the host had the pieces"; fails=$((fails + 1)); }
done
# More are outstanding than there are slots for: those that have none are counted, and no others.
for executor in mailbox tasks; do
	for case in "17 8 9" "9 8 1" "8 8 0" "5 2 3" "40 128 0"; do
		set -- $case
		try "$1 outstanding of $2, $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor -x HEDDLE_COLL_DEPTH=$2 -x HEDDLE_REPORT_COLLECTIVES=1 \
			tests/mp/coll_depth $1
		late=$(sed -n 's/.*of these \([0-9]*\) waited in the library.*/\1/p' "$tmp/err")
		[ "${late:-0}" = $3 ] && continue
		echo "FAILED: $1 outstanding of $2, $executor: ${late:-0} were late, not $3"
		fails=$((fails + 1))
	done
done
# The device reduces while all ranks but one are stopped: up a tree, with its extensions and without.
for n in 2 3 4 5 8 13 17; do
	for extensions in 1 0; do
		try "stopped ranks, tasks, extensions $extensions" "$n" -x HEDDLE_COLL_EXECUTOR=tasks \
			-x HEDDLE_COLL_EXTENSIONS=$extensions tests/mp/coll_ranks_stopped moved
	done
done
for extensions in 1 0; do
	try "stopped ranks, all operations, extensions $extensions" 5 -x HEDDLE_COLL_EXECUTOR=tasks -x HEDDLE_COLL_RADIX=2 \
		-x HEDDLE_COLL_EXTENSIONS=$extensions tests/mp/coll_ranks_stopped all
done

# One rank's part of the wire-up fails: all of them go on together, on the host ...
for n in 3 5; do
	for lack in LACK_CONNECT=1 LACK_RECV=1 LACK_RECV=2 LACK_AREA=1; do
		try "$lack" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x $lack -x HEDDLE_REPORT_COLLECTIVES=1 \
			tests/mp/coll_lacking interleave
		grep -q 'offload queues: rank [0-9]* could not' "$tmp/err" ||
			{ echo "FAILED: the report does not say that the wire-up failed"; fails=$((fails + 1)); }
	done
done
# What the ranks choose by is not the same everywhere: nothing is offloaded.
try "LACK_CORES=1" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x LACK_CORES=1 -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_lacking interleave
grep -q 'offload queues: rank [0-9]* could not agree' "$tmp/err" && ! grep -q ' mailbox  ' "$tmp/err" ||
	{ echo "FAILED: ranks that choose by something else offload all the same"; fails=$((fails + 1)); }
# Ranks of a host that count its CPUs differently go by what the first of them counts.
for rank in 0 1; do
	try "rank $rank counts other CPUs" 4 sh -c "[ \$PMIX_RANK != $rank ] || export HEDDLERUN_CPUS=\$((HEDDLERUN_CPUS < 4 ? 4 : 1))
		exec tests/mp/coll_correct reduce interleave"
done
# The same when longer operations come, and one rank has no memory for them: the shorter ones go on where they are.
try "LACK_AREA=2" 2 -x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x LACK_AREA=2 -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_lacking reduce
grep -q 'offload queues: rank 1 could not have memory for longer operations' "$tmp/err" && grep -q ' mailbox  ' "$tmp/err" ||
	{ echo "FAILED: the report does not say that an area is missing"; fails=$((fails + 1)); }
# One rank may not let the others reach its memory: what copies between the ranks' buffers is nobody's then.
try "LACK_PAGES=1" 3 -x LACK_RANK=1 -x LACK_PAGES=1 -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_lacking large reduce
grep -q 'offload queues: rank 1 could not' "$tmp/err" || { echo "FAILED: the report does not say who refuses"; fails=$((fails + 1)); }
# ... and where a rank cannot know how it went for the others, its collectives fail: nobody waits for ever.
timeout 100 "$run" -n 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x LACK_RECV=3 tests/mp/coll_lacking interleave \
	>"$tmp/out" 2>"$tmp/err"
code=$?
[ $code != 0 ] && [ $code -lt 124 ] && grep -q 'the test refuses a receive' "$tmp/err" ||
	{ echo "FAILED ($code): a rank that does not know how the wire-up went"; tail -n 5 "$tmp/err"; fails=$((fails + 1)); }

# The report names executor and reason.
try "report" 5 -x HEDDLE_REPORT_COLLECTIVES=1 -x HEDDLE_COLL_EXECUTOR=tasks -x HEDDLE_COLL_EXTENSIONS=0 tests/mp/coll_correct reduce
for want in 'allreduce .*nonblocking tasks  *tree  *device' 'allreduce .*blocking  *mailbox  *cells  *owner' \
	'not tasks: the device does not know MAX on [0-9]* bytes of MPI_DOUBLE without its extensions'; do
	grep -q "$want" "$tmp/err" || { echo "FAILED: the report lacks '$want'"; fails=$((fails + 1)); }
done
# Queues of the offload are RC: where that is not allowed, the host executor runs everything over what is.
try "offload without RC" 3 -x HEDDLE_TRANSPORT=ud -x HEDDLE_REPORT_COLLECTIVES=1 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_correct reduce
grep -q 'HEDDLE_TRANSPORT=ud leaves out RC' "$tmp/err" && ! grep -q ' \(mailbox\|tasks\) ' "$tmp/err" ||
	{ echo "FAILED: offload with HEDDLE_TRANSPORT=ud"; fails=$((fails + 1)); }
try "report" 3 -x HEDDLE_REPORT_COLLECTIVES=1 bench/hd_allreduce -m 8:8 -i 20
for want in 'allreduce .*blocking  *mailbox  *cells' 'host: among the first of its communicator'; do
	grep -q "$want" "$tmp/err" || { echo "FAILED: the report lacks '$want'"; fails=$((fails + 1)); }
done
# Wrong settings are refused, with what is allowed.
for wrong in hsot hca; do
	timeout 60 "$run" -n 2 -x HEDDLE_COLL_EXECUTOR=$wrong tests/mp/coll_correct skew >"$tmp/out" 2>"$tmp/err" &&
		{ echo "FAILED: HEDDLE_COLL_EXECUTOR=$wrong was accepted"; fails=$((fails + 1)); }
	grep -q 'allowed is one of auto|host|mailbox|tasks' "$tmp/err" ||
		{ echo "FAILED: the allowed values are not named for $wrong"; fails=$((fails + 1)); }
done

exit $((fails != 0))
