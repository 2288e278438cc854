#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sessions: their calls, and every order in which they and the world model begin and end. SESSION_KINDS, SESSION_ORDERS select a part.
# The kinds of queue matter where one process leaves alone.
set -u
top=${MPI_TEST_BUILD:-.}
orders=${SESSION_ORDERS:-only overlap world after between some uneven stays leaves child threads beside busy strangers}
kinds=${SESSION_KINDS:-default ud rc xrc dc}
log=${TMPDIR:-/tmp}/session.$$
trap 'rm -f "$log"' EXIT
failed=0 runs=0

# run NAME KIND RANKS PROGRAM ARGS...: exit code 0, the line "NAME: ok", and nothing else but names of ranks' lines
run() {
	name=$1 kind=$2 n=$3
	shift 3
	if [ "$kind" = default ]; then unset HEDDLE_TRANSPORT; else HEDDLE_TRANSPORT=$kind; export HEDDLE_TRANSPORT; fi
	runs=$((runs + 1))
	timeout -k 5 120 "$top/heddlerun" -n "$n" "$@" >"$log" 2>&1
	status=$?
	if [ $status -ne 0 ] || grep -qv "^$name: ok" "$log"; then
		echo "FAILED: $name, $n ranks, $kind: status $status"
		tail -n 20 "$log"
		failed=$((failed + 1))
	fi
}

[ -x "$top/heddlerun" ] || { echo "no $top/heddlerun"; exit 1; }
for n in 1 2 3; do
	run session_calls default $n "$top/tests/mp/session_calls"
done
for order in $orders; do
	for kind in $kinds; do
		case $kind-$order in
		default-* | *-only | *-between | *-uneven | *-leaves | ud-busy | dc-strangers) run "$order" $kind 3 "$top/tests/mp/session_life" "$order" ;;
		esac
	done
	run "$order" default 2 "$top/tests/mp/session_life" "$order"
done
run session_psets default 2 "$top/tests/mp/session_psets"
unset HEDDLE_TRANSPORT

# A session that cannot be made is an error for the session's error handler, and does not end the job.
HEDDLE_DEVICE=nosuch9 timeout -k 5 60 "$top/heddlerun" -n 2 "$top/tests/mp/session_life" refused >"$log" 2>&1
status=$?
if [ $status -ne 0 ] || ! grep -q 'nosuch9' "$log" || ! grep -q "^refused: ok" "$log"; then
	echo "FAILED: refused: status $status"
	tail -n 20 "$log"
	failed=$((failed + 1))
fi
# Without a launcher.
"$top/tests/mp/session_life" only >"$log" 2>&1 || { echo "FAILED: alone"; cat "$log"; failed=$((failed + 1)); }
echo "$runs runs, $failed failed"
[ $failed -eq 0 ]
