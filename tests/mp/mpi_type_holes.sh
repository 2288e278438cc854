#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Types with holes, and buffers at the edges of mapped memory, on every executor of collectives and several queue kinds. Run in the
# build directory. HOLES: numbers of elements, for a long run.
. "$(dirname "$0")/coll_lib.sh"
options="-x HEDDLE_REPORT_COLLECTIVES=1"

# shellcheck disable=SC2086
for executor in host mailbox tasks; do
	try "reductions, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/mpi_type_holes reduce ${HOLES:-1 3}
	reported "allreduce .* $executor " "that an Allreduce was on $executor"
	try "data, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/mpi_type_holes move ${HOLES:-1 3}
done
try "reductions, single copy" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/mpi_type_holes reduce ${HOLES:-3 200}
reported 'allreduce .* single-copy' 'that an Allreduce was single copy'
try "reductions, single copy, two ranks" 2 -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/mpi_type_holes reduce ${HOLES:-3}
try "data, single copy" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/mpi_type_holes move ${HOLES:-200}
try "reductions in a fixed order" 4 -x HEDDLE_REDUCE_ORDER=fixed tests/mp/mpi_type_holes reduce ${HOLES:-2}
try "HEDDLE_CHECK=1" 2 -x HEDDLE_CHECK=1 tests/mp/mpi_type_holes reduce ${HOLES:-2}
try_hosts "hierarchical" 0,0,1 -x HOLES_TYPES=8 -x HEDDLE_COLL_HIERARCHY=2 tests/mp/mpi_type_holes_hosts reduce ${HOLES:-3}
reported 'allreduce .*two-level' 'that an Allreduce was hierarchical'
for kind in rc ud dc; do
	try "messages, queue kind $kind" 2 -x HEDDLE_TRANSPORT=$kind tests/mp/mpi_type_holes ptp ${HOLES:-1 5 1500}
done
[ $fails = 0 ]
