#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The keys of info that spawning calls have, and arguments of spawned programs (dpm_info.c).
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/dpm_info
limit="timeout -k 5 300"
mkdir "$tmp/dir"
expect 0 "$run" -n 1 "$prog" "$tmp/dir"
nothing_left
