#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory that a collective still needs, or must not touch, while another rank is late. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

try "a Gather's places" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_memory_in_use gather
try "an exchange in place" 2 -x HEDDLE_COLL_EXECUTOR=host tests/mp/coll_memory_in_use exchange
try "blocks that no rank sends" 2 -x HEDDLE_COLL_EXECUTOR=host tests/mp/coll_memory_in_use untouched
try "much scratch" 2 -x HEDDLE_COLL_EXECUTOR=host -x HEDDLE_EAGER_MAX=64m tests/mp/coll_memory_in_use scratch
try "a kept send" 4 -x HEDDLE_COLL_EXECUTOR=host -x HEDDLE_COLL_VECTOR=tree -x HEDDLE_UNEXPECTED_MAX=2 \
	tests/mp/coll_memory_in_use kept

[ $fails = 0 ]
