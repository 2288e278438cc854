#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Plans: a loop of two collectives prepares each of them once. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

try "plans" 4 tests/mp/coll_plans

[ $fails = 0 ]
