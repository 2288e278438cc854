#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Cells that are longer than the bytes that a request carries inline. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for odp in 0 1; do
	try "wide cells, HEDDLE_ODP=$odp" 3 -x HEDDLE_ODP=$odp -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_correct reduce interleave
	try "wide cells, HEDDLE_ODP=$odp" 5 -x HEDDLE_ODP=$odp -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_random 20 "$seed"
done

[ $fails = 0 ]
