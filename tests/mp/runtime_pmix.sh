#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# heddlerun as the server of PMIx clients in general.
. "$(dirname "$0")/launcher_lib.sh"
client=$PWD/tests/mp/runtime_pmix_client

expect 0 "$run" --universe 7 -n 1 "$client" 1
expect 0 "$run" --universe 7 -n 4 "$client" 4
[ ! -s "$err" ] || fail "noise"
expect 0 "$run" --universe 7 -n 2 "$client" 5 0 : -n 3 "$client" 5 1
nothing_left
exit 0
