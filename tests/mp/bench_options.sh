#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The benchmarks' options, output layout, validation and refusals, and heat2d's check, on a few ranks with few
# iterations. No figure is judged. BENCH_RUN (a launcher with its options, ending in -n) and BENCH_BIN, BENCH_EXAMPLES, BENCH_TESTS
# (directories) let the same test run over another MPI implementation.
set -u
run=${BENCH_RUN:-./heddlerun -n}
bin=${BENCH_BIN:-./bench}
examples=${BENCH_EXAMPLES:-./examples}
tests=${BENCH_TESTS:-./tests/mp}
limits=${BENCH_LIMITS:-./bench/limits}
compare=${srcdir:-$(dirname "$0")/../..}/bench/compare
launcher=${run%% *}
if ! command -v "$launcher" >/dev/null 2>&1; then
	echo "skipped: $launcher is not built"
	exit 77
fi
if [ ! -x "$bin/hd_latency" ]; then
	echo "skipped: $bin/hd_latency is not built"
	exit 77
fi
bin=$(cd "$bin" && pwd) && tests=$(cd "$tests" && pwd) && dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
failures=0

# try STATUS NAME COMMAND...: runs the command, at most a minute; the output is in $dir/out and $dir/err.
try() {
	want=$1 name=$2
	shift 2
	timeout 60 "$@" >"$dir/out" 2>"$dir/err" </dev/null
	got=$?
	[ $got -eq "$want" ] && return 0
	echo "FAIL: $name: exit status $got, $want was wanted: $*"
	sed 's/^/    /' "$dir/out" "$dir/err" | head -n 20
	failures=$((failures + 1))
	return 1
}

# says NAME PATTERN: the last output has a line that matches.
says() {
	grep -Eq -- "$2" "$dir/out" "$dir/err" && return 0
	echo "FAIL: $1: no line matches '$2':"
	sed 's/^/    /' "$dir/out" "$dir/err" | head -n 20
	failures=$((failures + 1))
}

# rows NAME FIELDS SIZE...: the last output's rows are of these sizes, with so many numbers each; "-": no size column.
rows() {
	name=$1 fields=$2
	shift 2
	grep -v '^#' "$dir/out" | awk -v n="$fields" '
		NF != n { bad = 1 }
		{ for (i = 1; i <= NF; i++) if ($i !~ /^[0-9]+(\.[0-9]+)?$/) bad = 1 }
		END { exit bad }' || {
		echo "FAIL: $name: rows of $fields numbers are wanted"
		sed 's/^/    /' "$dir/out"
		failures=$((failures + 1))
	}
	if [ "$1" = - ]; then
		sizes=$(grep -vc '^#' "$dir/out")
		set -- 1
	else
		sizes=$(grep -v '^#' "$dir/out" | awk '{ printf "%s%s", s, $1; s = " " }')
	fi
	[ "$sizes" = "$*" ] || {
		echo "FAIL: $name: the rows' sizes are '$sizes', '$*' are wanted"
		failures=$((failures + 1))
	}
}

all="latency bw bibw mbw_mr bcast allreduce ibarrier init"
collectives="bcast gather scatter allgather alltoall reduce allreduce reduce_scatter scan"

# $run is a command with options, split on purpose.
# shellcheck disable=SC2086
{
	for p in $all; do
		try 0 "$p -h" $run 2 "$bin/hd_$p" -h && says "$p -h" '-h, --help'
		try 0 "$p -v" $run 2 "$bin/hd_$p" -v && says "$p -v" "^hd_$p \(Heddle\) [0-9]"
		try 2 "$p, unknown option" $run 2 "$bin/hd_$p" --hlep &&
			says "$p, unknown option" "^hd_$p: unknown option '--hlep'; the nearest is '--help'"
		try 2 "$p, argument" $run 2 "$bin/hd_$p" 17
	done

	# Refusals.
	try 2 "letter in the wrong case" $run 2 "$bin/hd_latency" -F && says "wrong case" "the nearest is '-f'"
	try 2 "sizes the wrong way round" $run 2 "$bin/hd_latency" -m 8:4
	try 2 "no number" $run 2 "$bin/hd_latency" -i many && says "no number" "--iterations 'many'"
	try 2 "no value" $run 2 "$bin/hd_latency" -i && says "no value" '-i needs'
	try 2 "unknown type" $run 2 "$bin/hd_allreduce" -T int46 && says "unknown type" "the nearest is 'int64'"
	try 2 "operation without meaning" $run 2 "$bin/hd_allreduce" -O bxor && says "operation" 'add -T int64'
	try 2 "too many ranks" $run 3 "$bin/hd_latency" && says "too many ranks" 'exactly 2 ranks are needed, 3 given'
	try 2 "too few ranks" $run 1 "$bin/hd_allreduce" && says "too few ranks" 'run it with -n 2'
	try 2 "odd ranks" $run 3 "$bin/hd_mbw_mr" && says "odd ranks" 'even number'
	try 2 "no memory for -c" $run 2 "$bin/hd_bw" -c -M 1K -m 1K:1K && says "no memory for -c" 'raise -M'

	# Layout, OSU's: a size column of 10, then columns of 18.
	try 0 "latency" $run 2 "$bin/hd_latency" -m 1:8 -i 20 -x 2 && rows latency 2 1 2 4 8 &&
		says latency '^# Size +Avg Latency\(us\)$'
	says "latency, columns" '^[0-9]+ {9} +[0-9]+\.[0-9]{2}$'
	for o in "" --overtaking; do
		try 0 "latency among wildcards $o" $run 2 "$bin/hd_latency" -c -m 8:8 -i 20 -x 2 --wildcards 100 $o &&
			rows "latency among wildcards $o" 2 8
	done
	try 0 "latency -f" $run 2 "$bin/hd_latency" -m :2 -i 20 -x 2 -f && rows "latency -f" 5 0 1 2 &&
		says "latency -f" 'Min Latency\(us\) +Max Latency\(us\) +Iterations$'
	try 0 "latency, long options" $run 2 "$bin/hd_latency" --message-size=4K:8K --iterations 20:10 --warmup=0 \
		--digits 4 &&
		rows "latency, long options" 2 4096 8192
	try 0 "mbw_mr" $run 4 "$bin/hd_mbw_mr" -m 8:8 -i 3 -x 1 -p 1 && rows mbw_mr 3 8 &&
		says mbw_mr '\[ pairs: 1 \] \[ window size: 64 \]'
	try 0 "barrier -f" $run 3 "$bin/hd_barrier" -i 20 -x 2 -f && rows "barrier -f" 4 -
	try 0 "ibarrier" $run 3 "$bin/hd_ibarrier" -i 20 -x 2 -t 2 && rows ibarrier 4 -
	try 0 "iallreduce --persistent" $run 3 "$bin/hd_iallreduce" -c --persistent -m 8:4096 -i 20 -x 2 && says "iallreduce --persistent" '^# Validation: Pass'
	try 0 "ibarrier --persistent" $run 2 "$bin/hd_ibarrier" --persistent -i 20 -x 2
	try 0 "iallreduce -f" $run 2 "$bin/hd_iallreduce" -m 8:16 -i 20 -x 2 -f && rows "iallreduce -f" 11 8 16
	says "iallreduce, type" 'Datatype: MPI_INT64_T. Operation: MPI_SUM.'
	try 0 "budget" $run 2 "$bin/hd_barrier" -i 1000000000 -B 0.05 -f
	try 0 "binding" $run 2 "$bin/hd_barrier" -i 5 --binding && says binding '^# CPUs of rank 1: [0-9]'
	try 0 "init" $run 2 "$bin/hd_init" --memory && says init '^nprocs: 2, min: [0-9.]+ ms' &&
		says init '^PSS nprocs: 2'

	# Every byte is checked.
	for p in latency bw bibw; do
		try 0 "$p -c" $run 2 "$bin/hd_$p" -c -m 0:70000 -i 6:2 -x 1 -M 64M && says "$p -c" '^# Validation: Pass'
	done
	try 0 "mbw_mr -c" $run 4 "$bin/hd_mbw_mr" -c -m 2K -i 3 -x 1 && says "mbw_mr -c" '^# Validation: Pass'
	for p in $collectives; do
		for i in "" i; do
			try 0 "$i$p -c" $run 3 "$bin/hd_$i$p" -c -m 70000 -i 6:2 -x 1 && says "$i$p -c" '^# Validation: Pass'
		done
	done
	# Collectives are told apart by the program's name.
	ln -s "$bin/hd_bcast" "$dir/hd_ialltoall"
	ln -s "$bin/hd_bcast" "$dir/hd_everything"
	try 0 "named ialltoall" $run 2 "$dir/hd_ialltoall" -m 8:8 -i 3 -x 1 && says "named ialltoall" 'MPI Non-blocking All-to-All'
	try 2 "named everything" "$dir/hd_everything" && says "named everything" 'known are barrier bcast'
	for o in sum max min band bor bxor; do
		try 0 "allreduce int64 $o" $run 3 "$bin/hd_allreduce" -c -T int64 -O $o -m 2K -i 6 -x 1
		try 0 "iallreduce int64 $o" $run 3 "$bin/hd_iallreduce" -c -O $o -m 2K -i 6 -x 1
	done
	try 0 "buffers of MPI_Alloc_mem" $run 2 "$bin/hd_latency" -c --alloc-mem -m 4K -i 10 -x 1
	for p in barrier ibarrier; do
		try 0 "$p -c" $run 4 "$bin/hd_$p" -c -i 20 -x 2 && says "$p -c" '^# Validation: Pass'
	done
	try 0 "datatype" $run 1 "$bin/hd_datatype" -c -m 1000:1000 && says datatype '^transpose +968 ' &&
		says datatype '^# Validation: Pass'
	try 0 "datatype -s" $run 2 "$bin/hd_datatype" -s -c -p transpose -m 100000:100000 && says "datatype -s" '^transpose +98568 ' &&
		says "datatype -s" '^# Validation: Pass'
	# One-sided: every flavour with every completion; operations on one word by all.
	for f in create allocate shared dynamic; do
		for s in flush lock fence post; do
			try 0 "rma put $f $s" $run 2 "$bin/hd_rma" -c --flavour $f --sync $s -m 8:64 -i 10 -x 2 && says "rma put $f $s" '^# Validation: Pass'
		done
		for o in get accumulate fetch_and_op compare_and_swap; do
			try 0 "rma $o $f" $run 2 "$bin/hd_rma" -c --flavour $f --operation $o -m 8:64 -i 10 -x 2 && says "rma $o $f" '^# Validation: Pass'
		done
	done
	try 0 "rma bandwidth" $run 2 "$bin/hd_rma" --measure bw -m 8:64 -i 40 && rows "rma bandwidth" 3 8 16 32 64
	try 0 "rma contention" $run 4 "$bin/hd_rma" -c --measure contention --operation fetch_and_op -i 40 && says "rma contention" '^# Validation: Pass'
	try 0 "rma computing" $run 2 "$bin/hd_rma" --measure computing --compute 0.05 -m 8:8 -i 40 && rows "rma computing" 4 8
	try 2 "rma, fences of windows" $run 2 "$bin/hd_rma" --measure bw --sync fence && says "rma, fences of windows" '--sync fence is for'
	try 2 "rma, three ranks" $run 3 "$bin/hd_rma" --sync lock && says "rma, three ranks" "2 ranks are wanted, these are 3"
	for access in contiguous strided collective shared; do
		try 0 "io $access" $run 2 "$bin/hd_io" -c --access "$access" --total 64K -m 64:4K -i 1 -x 0 --file "$dir/hd_io" &&
			says "io $access" '^# Validation: Pass'
	done
	try 0 "partitioned" $run 2 "$bin/hd_partitioned" -c -i 20 -x 2 && says partitioned '^# Validation: Pass'
	try 0 "partitioned, one thread" $run 2 "$bin/hd_partitioned" -c --threads 1 --partitions 5 -m 1:8 -i 20 -x 2 &&
		says "partitioned, one thread" '^# Validation: Pass'
	# Which iterations may be judged, and which are complete, is the scheduler's doing, too: such rows are told by status 1.
	offload() {	# offload NAME PROGRAM ARGUMENT...
		name=$1
		shift
		$run 3 "$@" -i 20 -x 2 -B 0.05 --while sleep >"$dir/out" 2>"$dir/err" ||
			grep -Eq 'the row proves nothing|were complete when' "$dir/err" || { echo "FAIL: $name"; failures=$((failures + 1)); }
	}
	offload offload "$bin/hd_offload" -c --sizes 64 --operation all
	says offload '^iallreduce +64 ' && says offload '^ibarrier +0 ' && says offload '^igather +64 ' &&
		says offload '^# Validation: Pass'
	if [ -x "$bin/../shcactl" ] && says offload '^iallreduce .* mailbox$'; then
		grep -Eq '^i.* (WRONG|UNKNOWN|-)$' "$dir/out" && { echo "FAIL: offload: $(grep -E '^i.* (WRONG|UNKNOWN|-)$' "$dir/out")"; failures=$((failures + 1)); }
		for p in gatherv scatterv allgatherv alltoallv; do says offload "^i$p +64 .* mailbox\$"; done
		HEDDLE_COLL_EXECUTOR=tasks && export HEDDLE_COLL_EXECUTOR
		offload "offload by tasks" "$bin/hd_offload" --sizes 64 --operation ibarrier,ibcast,iallreduce,ireduce_scatter
		for o in ibarrier ibcast iallreduce ireduce_scatter; do says "offload by tasks" "^$o .* tasks\$"; done
		# Slot barriers run as tasks, too, with every executor of barriers; with depth 2 each of these operations is behind one.
		for depth in 2 8; do
			HEDDLE_COLL_DEPTH=$depth && export HEDDLE_COLL_DEPTH
			offload "offload by tasks, depth $depth" "$bin/hd_offload" --sizes 64 --operation ibcast,igather
			for o in ibcast igather; do says "offload by tasks, depth $depth" "^$o .* tasks\$"; done
			unset HEDDLE_COLL_EXECUTOR
			offload "offload, depth $depth" "$bin/hd_offload" --sizes 65536 --operation ibcast
			says "offload, depth $depth" "^ibcast .* tasks\$"
			HEDDLE_COLL_EXECUTOR=tasks && export HEDDLE_COLL_EXECUTOR
		done
		unset HEDDLE_COLL_DEPTH
		# A graph that differs from the device's requests.
		cp "$bin/hd_offload" "$dir/hd_offload" && ln -s "$(realpath "$bin/../shcactl")" "$dir/shcactl"
		printf '#!/bin/sh\n%s "$@" | sed "s/ WAITs/9 WAITs/"\n' "$(realpath "$bin/../heddle_info")" >"$dir/heddle_info"
		chmod +x "$dir/heddle_info"
		try 1 "offload, another graph" $run 3 "$dir/hd_offload" -i 4 -x 1 -B 0.05 --sizes 64 --operation iallreduce &&
			says "offload, another graph" '^iallreduce .* WRONG$'
		# A graph that is not to be had.
		printf '#!/bin/sh\nexit 1\n' >"$dir/heddle_info"
		try 1 "offload, no graph" $run 3 "$dir/hd_offload" -i 4 -x 1 -B 0.05 --sizes 64 --operation iallreduce &&
			says "offload, no graph" '^iallreduce .* UNKNOWN$' && says "offload, no graph" 'heddle_info --explain failed'
		# As many operations as are asked for.
		list=ibarrier
		for i in $(seq 17); do list=$list,ibarrier; done
		try 0 "offload, many" $run 3 "$bin/hd_offload" --stop --operation $list &&
			[ "$(grep -c '^ibarrier .* yes' "$dir/out")" != 18 ] && { echo "FAIL: offload, many: not 18 rows"; failures=$((failures + 1)); }
		# The negative control.
		HEDDLE_COLL_EXECUTOR=host
		try 1 "offload by the host" $run 4 "$bin/hd_offload" -i 40 -x 2 -B 0.05 --sizes 1024 --operation iallreduce &&
			says "offload by the host" '^iallreduce .* host$'
		unset HEDDLE_COLL_EXECUTOR
	fi
	try 2 "offload, two ranks" $run 2 "$bin/hd_offload" && says "offload, two ranks" 'run it with -n 3'
	try 2 "offload, unknown" $run 3 "$bin/hd_offload" --operation iallreduce,nothing && says "offload, unknown" "'nothing' is no"

	# The check itself: a benchmark with spoiled messages must report that and fail.
	for p in latency allreduce; do
		ln -s "$tests/bench_broken_$p" "$dir/hd_$p"
		try 0 "$p, not spoiled" env BENCH_BREAK=no $run 2 "$dir/hd_$p" -c -m 8:64 -i 60
		for b in data guard; do
			try 1 "$p, $b spoiled" env BENCH_BREAK=$b $run 2 "$dir/hd_$p" -c -m 8:64 -i 60 &&
				says "$p, $b spoiled" '^# Validation: FAIL'
		done
	done

	# The example.
	try 0 "heat2d" $run 4 "$examples/heat2d" -n 61 -s 40 && says heat2d '^PASS$' &&
		says heat2d '^check +0 of 3721 cells'
	try 0 "heat2d, until it is steady" $run 3 "$examples/heat2d" -n 16 -s 5000 -e 1e-6 && says heat2d '^PASS$'
	try 2 "heat2d, unknown option" $run 2 "$examples/heat2d" -q
	try 2 "heat2d, wrong grid" $run 2 "$examples/heat2d" -x 3
}

try 0 "limits" "$limits" -r 1 -s 0.001 -o csv && says limits '^copy_1cpu,4096,MB/s,[0-9.]+,'
try 0 "limits on one CPU" taskset -c "$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "$limits" -r 1 -s 0.001 &&
	says "limits on one CPU" '^line_hop_shared +not measurable'
try 2 "limits, unknown option" "$limits" -q
try 2 "limits, no number" "$limits" -r x
if command -v python3 >/dev/null; then
	try 0 "compare -h" python3 "$compare" -h
	try 2 "compare, unknown option" python3 "$compare" --quik &&
		says "compare, unknown option" 'nearest option is --quick'
	try 2 "compare, unknown group" python3 "$compare" --only latncy &&
		says "compare, unknown group" "nearest is 'latency'"
	try 2 "compare, wrong peer" python3 "$compare" --peer x
fi

[ $failures -eq 0 ] || echo "$failures failed"
[ $failures -eq 0 ]
