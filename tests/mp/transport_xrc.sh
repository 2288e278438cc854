#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# XRC's queues: their number, with 64 ranks, on one host and on four; ends and stops of processes that share them. 25 s on a machine
# with other work.
# Run from the build directory (make check) or with its name in HEDDLE_BUILD.
set -u
build=${HEDDLE_BUILD:-.}
run=$build/heddlerun
xrc=$build/tests/mp/transport_xrc
hosts=$(dirname "$0")/xrc_hosts.sh
failed=0

[ -x "$run" ] && [ -x "$xrc" ] && [ -x "$build/shcactl" ] || { echo "skipped: $run is not built"; exit 77; }
files=$(mktemp -d) || exit 99
trap 'rm -rf "$files"' EXIT
HEDDLE_TRANSPORT=xrc
export HEDDLE_TRANSPORT

# TEXT COMMAND...: prints the text
says() {
	text=$1
	shift
	out=$("$@" 2>&1)
	case $out in
	*"$text"*) ;;
	*) echo "FAILED: $*: $out" | head -20; failed=1 ;;
	esac
}
says ok timeout -k 5 100 "$run" -n 64 "$xrc" count 1 "$build/shcactl"
says ok timeout -k 5 100 "$run" -n 64 "$hosts" "$files" 16 "$xrc" count 4 "$build/shcactl"
for rings in 64k 0; do
	HEDDLE_RING_SIZE=$rings
	export HEDDLE_RING_SIZE
	says 'the target outlives its maker' timeout -k 5 60 "$run" --on-death continue -n 8 "$hosts" "$files" 4 "$xrc" maker
	says 'the others go on' env HEDDLE_KEEPALIVE=100ms HEDDLE_UD_TIMEOUT=300ms timeout -k 5 60 "$run" --on-death continue -n 3 "$xrc" receiver
	says 'the others go on' env HEDDLE_KEEPALIVE=100ms HEDDLE_UD_TIMEOUT=300ms timeout -k 5 60 "$run" --on-death continue -n 4 "$hosts" "$files" 2 "$xrc" receiver
	says 'the others go on' env HEDDLE_KEEPALIVE=100ms HEDDLE_UD_TIMEOUT=300ms timeout -k 5 60 "$run" --on-death continue -n 3 "$hosts" "$files" 0 "$xrc" receiver
done
HEDDLE_SRQ_DEPTH=16
export HEDDLE_SRQ_DEPTH
for mode in stopped killed; do
	says 'the others go on' env HEDDLE_KEEPALIVE=100ms timeout -k 5 60 "$run" --on-death continue -n 3 "$xrc" $mode
	says 'the others go on' env HEDDLE_RING_SIZE=64k HEDDLE_KEEPALIVE=100ms timeout -k 5 60 "$run" --on-death continue -n 3 "$xrc" $mode
done
exit $failed
