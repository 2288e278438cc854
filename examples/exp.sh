#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The examples of the experimental verbs: with 2 to 9 and 16 ranks, again and again; then with all ranks but one stopped in each round.
# Run in the build directory.
set -u
ran=0
SHCA_FABRIC=exp-examples-$$ SHCA_VISIBLE=1
export SHCA_FABRIC SHCA_VISIBLE

run()
{
	timeout 100 "$@" >"$log" 2>&1 || { cat "$log"; echo "FAIL: $*"; exit 1; }
	ran=$((ran + 1))
}

log=$(mktemp) || exit 99
trap 'rm -f "$log"' EXIT
for n in 2 3 4 5 6 7 8 9 16; do
	for program in exp_barrier 'exp_allreduce -m calc' 'exp_allreduce -m atomics'; do
		# a program with its option, split on purpose
		# shellcheck disable=SC2086
		run examples/$program -n $n -r 50
		# shellcheck disable=SC2086
		run examples/$program -n $n -r $n -s
	done
done
echo "ok: $ran runs"
