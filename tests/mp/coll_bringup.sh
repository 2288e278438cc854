#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Bring-up of a communicator's queues, with one rank that fails or has different settings. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

# All ranks go on together, on the host executor.
for n in 3 5; do
	for lack in LACK_CONNECT=1 LACK_RECV=1 LACK_RECV=2 LACK_AREA=1; do
		try "$lack" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x $lack -x LACK_AREAS=9 -x HEDDLE_REPORT_COLLECTIVES=1 \
			tests/mp/coll_lacking interleave
		reported 'offload queues: rank [0-9]* could not' 'that the bring-up failed'
	done
done
# A rank that lacks memory once gets the memory when all ranks have freed their cached memory.
try "LACK_AREA=1, once" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x LACK_AREA=1 -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_lacking interleave
reported ' mailbox  ' 'that the second try succeeds'
not_reported 'offload queues: rank [0-9]* could not' 'that the bring-up failed'
# The settings that choose an executor are not the same on all ranks: nothing is offloaded.
try "LACK_CORES=1" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x LACK_CORES=1 -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_lacking interleave
reported 'offload queues: rank [0-9]* could not agree' 'that the ranks did not agree'
not_reported ' mailbox  ' 'that ranks which did not agree offload all the same'
# Ranks of a host that count the CPUs differently use the first rank's number.
for rank in 0 1; do
	try "rank $rank counts other CPUs" 4 sh -c "[ \$PMIX_RANK != $rank ] || export HEDDLERUN_CPUS=\$((HEDDLERUN_CPUS < 4 ? 4 : 1))
		exec tests/mp/coll_correct reduce interleave"
done
# One rank has no memory for the slots of longer operations: the shorter ones stay offloaded.
try "LACK_AREA=2" 2 -x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x LACK_AREA=2 -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_lacking reduce
reported 'offload queues: rank 1 could not have memory for longer operations' 'that a region is missing'
reported ' mailbox  ' 'that shorter operations stay on mailbox'
# One rank cannot register all of its memory for the other ranks: no rank copies between the ranks' buffers.
try "LACK_PAGES=1" 3 -x LACK_RANK=1 -x LACK_PAGES=1 -x HEDDLE_REPORT_COLLECTIVES=1 tests/mp/coll_lacking large reduce
reported 'offload queues: rank 1 could not' 'which rank refuses'
# A rank that cannot know whether bring-up succeeded at the other ranks fails its collectives, and no rank waits for ever.
fails_with 'the test refuses a receive' "a rank that does not know how the bring-up ended" 3 \
	-x HEDDLE_COLL_EXECUTOR=mailbox -x LACK_RANK=1 -x LACK_RECV=3 tests/mp/coll_lacking interleave

[ $fails = 0 ]
