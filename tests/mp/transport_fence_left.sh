#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank leaves the fence of hdl_tp_fini ahead of the other ranks, whose requests to that rank fail: no error, by any kind of queue.
# 8 s, in which a DC initiator and an RC queue pair retry.
# Run from the build directory (make check) or with its name in HEDDLE_BUILD.
set -u
here=$(dirname "$0")
build=${HEDDLE_BUILD:-.}
run=$build/heddlerun
left=$build/tests/mp/transport_fence_left

[ -x "$run" ] && [ -x "$left" ] || { echo "skipped: $run is not built"; exit 77; }
. "$here/transport_lib.sh"
files=$(mktemp -d) || exit 99
trap 'rm -rf "$files"' EXIT
HEDDLE_RING_SIZE=512
export HEDDLE_RING_SIZE

# nothing is printed but ok
silent() {
	try "$@"
	[ "$out" = ok ] || { echo "FAILED: $*: $out"; failed=1; }
}
silent 4 HEDDLE_TRANSPORT=xrc -- "$left"
silent 4 HEDDLE_TRANSPORT=xrc -- "$here/xrc_hosts.sh" "$files" 2 "$left"
HEDDLE_UD_TIMEOUT=200ms
export HEDDLE_UD_TIMEOUT
( silent 3 HEDDLE_TRANSPORT=rc,dc HEDDLE_RC_PEERS=1 -- "$left" far; exit $failed ) &
silent 3 HEDDLE_TRANSPORT=xrc -- "$here/xrc_hosts.sh" "$files" 1 "$left" far
wait $! || failed=1
exit $failed
