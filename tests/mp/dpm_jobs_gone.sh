#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Records of spawned jobs are freed when nothing names the jobs (dpm_jobs_gone.c). HEDDLE_TEST_SPAWNS: so many further spawns.
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/dpm_jobs_gone
n=${HEDDLE_TEST_SPAWNS:-3}
limit="timeout -k 5 $((120 + 3 * n))"

expect 0 "$run" -n 2 -x HEDDLE_SQ_DEPTH=16 "$prog" groups "$n"
expect 0 "$run" -n 1 -x HEDDLE_SQ_DEPTH=16 "$prog" session "$n"
expect 0 "$run" -n 3 -x HEDDLE_SQ_DEPTH=16 "$prog" again "$n"
expect 137 "$run" -n 2 --on-death=continue "$prog" failed "$n"
[ "$(grep -c ok "$out")" = 2 ] || fail "the parents have not gone on"
nothing_left
