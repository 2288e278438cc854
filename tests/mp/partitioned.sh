#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Partitioned communication over every kind of queue: the rules of the chapter, random traffic of one and of several threads, a rank that
# dies. PARTITIONED_RANDOM batches, PARTITIONED_SEED.
. "$(dirname "$0")/death_lib.sh"
[ -x "$run" ] || { echo "no $run"; exit 1; }
batches=${PARTITIONED_RANDOM:-3}
seed=${PARTITIONED_SEED:-$(date +%s)}

# goes NAME RANKS PROGRAM ARGS...: exit code 0 and the line "NAME: ok"
goes() {
	name=$1 n=$2
	shift 2
	timeout -k 5 120 "$run" -n "$n" "$@" >"$tmp/out" 2>&1
	code=$?
	if [ $code -ne 0 ] || ! grep -q "^$name: ok, $n ranks" "$tmp/out" || grep -q "^heddle: " "$tmp/out"; then
		echo "FAILED: $*, $n ranks, HEDDLE_TRANSPORT=${HEDDLE_TRANSPORT:-}: exit code $code"
		tail -n 20 "$tmp/out"
		fails=$((fails + 1))
	fi
}

for kind in default rc ud xrc dc; do
	if [ $kind = default ]; then unset HEDDLE_TRANSPORT; else HEDDLE_TRANSPORT=$kind; export HEDDLE_TRANSPORT; fi
	goes partitioned_calls 2 tests/mp/partitioned_calls
	goes partitioned_random 3 tests/mp/partitioned_random "$batches" "$seed"
	goes partitioned_random 2 tests/mp/partitioned_random "$batches" "$seed" 8
	one_dies 3 1 "a rank dies, few bytes, $kind" tests/mp/partitioned_death 1 16
	one_dies 3 0 "a rank dies, many bytes, $kind" tests/mp/partitioned_death 0 200000
done
unset HEDDLE_TRANSPORT
goes partitioned_calls 1 tests/mp/partitioned_calls
goes partitioned_calls 3 tests/mp/partitioned_calls
goes partitioned_random 1 tests/mp/partitioned_random "$batches" "$seed" 4
# without memory that ranks share partitions are messages
SHCA_BEHAVE=noarena
export SHCA_BEHAVE
goes partitioned_calls 2 tests/mp/partitioned_calls
goes partitioned_random 2 tests/mp/partitioned_random "$batches" "$seed" 8
one_dies 3 1 "a rank dies, few bytes, no memory that ranks share" tests/mp/partitioned_death 1 16
# everything by messages that are announced
HEDDLE_UNEXPECTED_MAX=1k goes partitioned_random 2 tests/mp/partitioned_random "$batches" "$seed" 2
HEDDLE_EAGER_MAX=256 goes partitioned_random 2 tests/mp/partitioned_random "$batches" "$seed"
unset SHCA_BEHAVE
[ $fails -eq 0 ] || echo "seed $seed"
[ $fails -eq 0 ]
