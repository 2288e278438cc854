#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified verbs programs where the kernel forbids process_vm_readv to both sides, or to one. Run in the build directory.
set -eu
[ -x ./shcarun ] && command -v ibv_rc_pingpong >/dev/null || { echo "needs shcarun and ibv_rc_pingpong"; exit 77; }
dir=$(mktemp -d)
. "$(dirname "$0")/pair.sh"
trap 'pair_end; rm -rf "$dir"' EXIT
unset SHCA_FABRIC_FD SHCA_CMA
SHCA_FABRIC=nocma-$$
export SHCA_FABRIC
status=0
tests/shca/fabric_nocma true || status=$?
[ $status -ne 77 ] || exit 77

fail()
{
	echo "fabric_proxy: $1" >&2
	cat "$dir"/server "$dir"/client >&2
	exit 1
}
both()
{
	pair "$@" || fail "$*: failed"
}
no=tests/shca/fabric_nocma
touch "$dir/client"
$no timeout 60 ./shcarun ibv_devinfo >"$dir/server" 2>&1 || fail "ibv_devinfo does not run"
grep -q "forbids process_vm_readv here (a seccomp profile)" "$dir/server" || fail "nobody says that the slow path is taken"
both $no $no ibv_rc_pingpong -n 200 -c
both "" $no ibv_rc_pingpong -n 200 -c
both $no "" ibv_rc_pingpong -n 200 -c
if command -v ib_read_bw >/dev/null; then
	both $no $no ib_write_bw -s 100000 -n 50
	both $no $no ib_read_bw -s 100000 -n 50
	both $no $no ib_atomic_bw -n 50
fi
