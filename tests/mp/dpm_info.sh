#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The keys of info that spawning calls have, and arguments of spawned programs (dpm_info.c).
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/dpm_info
limit="timeout -k 5 300"
mkdir "$tmp/dir"
# without symbolic links, as getcwd(3) has it
expect 0 "$run" -n 1 "$prog" "$(cd "$tmp/dir" && pwd -P)"
nothing_left
