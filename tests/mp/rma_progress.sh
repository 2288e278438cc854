#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One-sided operations complete though their target is stopped, or computes (rma_progress.c). Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for n in 2 4; do
	try "stopped targets" "$n" tests/mp/rma_progress stopped
	try "computing targets" "$n" tests/mp/rma_progress computing
done
for kind in rc xrc dc ud; do
	try "computing targets, queue kind $kind" 2 -x HEDDLE_TRANSPORT=$kind tests/mp/rma_progress computing
done
for kind in rc dc; do
	try "stopped targets, accumulates by the device, queue kind $kind" 3 -x HEDDLE_TRANSPORT=$kind -x RMA_GRANULARITY=8 tests/mp/rma_progress atomics
done
try_hosts "stopped targets, accumulates by the device" 0,1,1 -x RMA_GRANULARITY=8 tests/mp/rma_progress_hosts atomics
try_hosts "stopped targets, also of the own host, accumulates by the second of two devices" 0,1,0 -x HEDDLE_DEVICE=shca0,shca0 \
	-x RMA_GRANULARITY=8 tests/mp/rma_progress_hosts atomics
for kind in ud rc; do
	try "computing targets whose memory alone is not mapped, queue kind $kind" 2 -x HEDDLE_TRANSPORT=$kind tests/mp/rma_progress asymmetric
done
try "computing targets whose memory alone is not mapped, copied by proxies" 2 -x SHCA_CMA=no tests/mp/rma_progress asymmetric
# more ranks than a window connects at its creation
try "computing targets, first contact" 66 tests/mp/rma_progress asymmetric
# operations are messages, which the target's helper thread answers
try "computing targets that share no memory" 3 -x SHCA_BEHAVE=noarena tests/mp/rma_progress computing
try "a stopped holder of a lock" 3 tests/mp/rma_progress holder
try "a stopped holder of a hashed lock" 3 tests/mp/rma_holder_stopped
try "a stopped target, under a hashed lock" 3 -x HEDDLE_TRANSPORT=ud tests/mp/rma_holder_stopped 3 target

[ $fails = 0 ]
