#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Binding: to cores when there are enough, within the CPUs that heddlerun itself may use.
. "$(dirname "$0")/launcher_lib.sh"

mask='grep Cpus_allowed_list /proc/self/status | sed "s/.*:[[:space:]]*/cpus /"'
own=$(sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
first=${own%%[-,]*}
cores=$(for c in $(seq 0 $(($(nproc --all) - 1))); do
	taskset -c "$c" true 2>/dev/null && cat /sys/devices/system/cpu/cpu$c/topology/thread_siblings_list 2>/dev/null
done | sort -u | wc -l)

expect 0 "$run" --bind-to none -n 2 sh -c "$mask"
[ "$(sort -u "$out")" = "cpus $own" ] || fail "--bind-to none"
expect 0 "$run" -n $((cores + 1)) sh -c "$mask"
[ "$(sort -u "$out")" = "cpus $own" ] || fail "bound though there are more ranks than cores"
expect 0 "$run" -n "$cores" sh -c "$mask"
[ "$(sort -u "$out" | wc -l)" = "$cores" ] || fail "not a core each"
expect 0 taskset -c "$first" "$run" -n 1 sh -c "$mask"
[ "$(cat "$out")" = "cpus $first" ] || fail "bound outside of what is allowed"
expect 0 taskset -c "$first" "$run" --bind-to core -n 2 sh -c "$mask"
[ "$(sort -u "$out")" = "cpus $first" ] || fail "bound outside of what is allowed"
says "$err" "warning: 2 ranks share 1 cores"
# Several cores for each rank, as far as there are; a warning if the threads of a rank have too few.
[ "$cores" -ge 2 ] && {
	expect 0 "$run" --cpus-per-rank 2 -n 1 sh -c "$mask"
	[ "$cores" -gt 2 ] || [ "$(cat "$out")" = "cpus $own" ] || fail "--cpus-per-rank 2"
	expect 0 "$run" --cpus-per-rank 2 --report-bindings -n 1 true
	says "$err" "rank 0 .*BB.* on CPUs "
	expect 0 "$run" --report-bindings --map-by socket -n 2 sh -c "$mask"
	[ "$(sort -u "$out" | wc -l)" = 2 ] || fail "not a core each with --map-by socket"
	[ "$(grep -c "rank [01] .*B.* on CPU" "$err")" = 2 ] || fail "--report-bindings"
	expect 0 "$run" -n 1 -x OMP_NUM_THREADS=2 true
	says "$err" "warning: OMP_NUM_THREADS=2, but each rank of true is bound to 1 CPU, .*--cpus-per-rank 2" ||
		[ "$(nproc)" != "$cores" ]
	expect 0 "$run" -n 1 --cpus-per-rank 2 -x OMP_NUM_THREADS=2 true
	[ ! -s "$err" ] || fail "noise"
}
expect 0 "$run" --cpus-per-rank 1000 -n 2 sh -c "$mask"
says "$err" "warning: 2 ranks with 1000 cores each (--cpus-per-rank) need 2000 cores, there are $cores: they are not bound"
[ "$(sort -u "$out")" = "cpus $own" ] || fail "bound though it does not fit"
expect 0 "$run" --bind-to none -x OMP_NUM_THREADS=1000 true
[ ! -s "$err" ] || fail "noise"
for d in l3 numa socket; do
	expect 0 "$run" --bind-to $d -n $((cores + 1)) sh -c "$mask"
	[ ! -s "$err" ] || fail "noise"
	lines "$out" $((cores + 1))
done
expect 2 "$run" --bind-to board true; says "$err" "none, core, l3, numa or socket"
expect 2 "$run" --map-by none true; says "$err" "core, l3, numa or socket"
expect 2 "$run" --cpus-per-rank 0 true; says "$err" "whole number from 1"

# Variables by which scripts choose a GPU.
expect 0 "$run" -n 3 sh -c 'echo "local $HEDDLE_LOCAL_RANK of $HEDDLE_LOCAL_SIZE is $PMIX_RANK"'
for r in 0 1 2; do says "$out" "^local $r of 3 is $r$"; done
expect 0 "$run" -n 2 "$job" where
[ ! -s "$err" ] || fail "noise"

# MPI and OpenMP.
expect 0 "$run" -n 3 --bind-to none -x OMP_NUM_THREADS=2 examples/hybrid 5000 20
says "$out" "rank 2: 2 threads on"; says "$out" "20 steps of 15000 cells: .*: right"
expect 0 "$run" -n 1 --cpus-per-rank "$cores" examples/hybrid 5000 20
says "$out" "rank 0: $(nproc) threads on $(nproc) CPUs"
exit 0
