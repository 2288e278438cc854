#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The experimental verbs' tests and examples once more, over the provider mlx5, on the software HCA as a ConnectX; and that libmlx5 is
# bound to the command of libshca that passes creation flags on. Run in the build directory. 3 seconds; with an argument all that can
# be done, minutes.
set -u
log=$(mktemp) || exit 99
trap 'rm -f "$log"' EXIT

library=$PWD/.libs/libshca.so.0
if ldconfig -p 2>/dev/null | grep -q 'libmlx5\.so\.1' && [ -z "${LD_PRELOAD:-}" ] && [ -x /usr/bin/ibv_devices ]; then
	# LD_DEBUG writes to standard error: every binding at once, libmlx5's among them
	LD_DEBUG=bindings LD_BIND_NOW=1 LD_PRELOAD="$library libmlx5.so.1" /usr/bin/ibv_devices >"$log" 2>&1
	if grep -q 'IBVERBS_PRIVATE_34' "$log"; then
		grep "file .*libmlx5\.so\.1 .* to .*libshca.* .ibv_cmd_create_qp_ex2' \[IBVERBS_PRIVATE_34\]" "$log" >/dev/null || {
			grep ibv_cmd_create_qp_ex2 "$log"
			echo "FAIL: libmlx5 is not bound to libshca's ibv_cmd_create_qp_ex2"
			exit 1
		}
	fi
fi

SHCA_IDENTITY=connectx SHCA_EXP_PROVIDER=mlx5 SHCA_EXP_CALC=yes
export SHCA_IDENTITY SHCA_EXP_PROVIDER SHCA_EXP_CALC
run()
{
	timeout 600 "$@" >"$log" 2>&1 || { tail -n 20 "$log"; echo "FAIL: $*"; exit 1; }
}
access='exp cross-channel arena'
n=300
[ $# -gt 0 ] && access='' n=20000
run tests/verbs/exp
run tests/verbs/exp_xrc
run tests/verbs/exp_comp_mask
run tests/verbs/atomics $n
run tests/verbs/calc $n
# words that choose cases
# shellcheck disable=SC2086
run tests/verbs/access $access
SHCA_FABRIC=exp-mlx5-$$ SHCA_VISIBLE=1
export SHCA_FABRIC SHCA_VISIBLE
run examples/exp_barrier -n 5 -r 20
run examples/exp_barrier -n 5 -r 5 -s
run examples/exp_allreduce -m calc -n 6 -r 20
run examples/exp_allreduce -m calc -n 4 -r 4 -s
