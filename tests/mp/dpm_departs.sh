#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Spawned processes that end in order while parents still wait in the last operation (dpm_departs.c). DEPARTS=all: more.
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/dpm_departs

# departs RANKS CASE BYTES [VARIABLE...]
departs() {
	n=$1 case=$2 bytes=$3; shift 3
	for v; do set -- "$@" -x "$v"; shift; done
	expect 0 "$run" -n "$n" "$@" "$prog" "$case" "$bytes"
	lines "$err" 0
}

departs 2 gather 8
departs 3 any 8
departs 2 any_later 8
# a ring has more messages than a turn of progress takes when the process's end is seen
for kind in rc xrc dc; do
	departs 2 receive_any 8 HEDDLE_TRANSPORT=$kind
done
for executor in host tasks ${DEPARTS:+auto}; do
	departs 3 gather 8 HEDDLE_COLL_EXECUTOR=$executor
done
departs 3 session 8 HEDDLE_COLL_EXECUTOR=tasks
if [ -n "${DEPARTS:-}" ]; then
	departs 3 session 8
	departs 3 session 8 HEDDLE_COLL_EXECUTOR=host
	for executor in auto host tasks; do
		for bytes in 8 200000; do
			departs 3 gather $bytes HEDDLE_COLL_EXECUTOR=$executor
			departs 3 bcast $bytes HEDDLE_COLL_EXECUTOR=$executor
		done
	done
	for kind in rc xrc dc ud; do
		departs 2 any_later 8 HEDDLE_TRANSPORT=$kind
		departs 3 receive 8 HEDDLE_TRANSPORT=$kind
		departs 3 receive_any 8 HEDDLE_TRANSPORT=$kind
		departs 3 any 8 HEDDLE_TRANSPORT=$kind
		departs 3 gather 8 HEDDLE_TRANSPORT=$kind
	done
fi
nothing_left
