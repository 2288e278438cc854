#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One-sided communication by chapter 12 of the MPI standard (rma_*.c): all programs over the selected kind, the operations over every
# queue kind, on devices without some features, and between simulated hosts. RMA=all: more ranks, and much of
# everything (rma_large). Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"
all=${RMA:-}

for n in ${all:+1 4 6 7} 2 3; do
	for p in windows comm sync errors atomic; do
		try "$p" "$n" "tests/mp/rma_$p"
	done
done
try "errors" 1 tests/mp/rma_errors
try "a window of an attribute callback" 2 -x SHCA_BEHAVE=noarena -x RMA_FIRST=1 tests/mp/rma_windows in_callback
try "promises, HEDDLE_CHECK" 3 -x HEDDLE_CHECK=yes tests/mp/rma_windows promises
try "sync" 5 tests/mp/rma_sync
for kind in rc xrc dc dc,ud ${all:+ud}; do
	try "comm, queue kind $kind" 2 -x HEDDLE_TRANSPORT=$kind tests/mp/rma_comm
	try "atomic, queue kind $kind" 3 -x HEDDLE_TRANSPORT=$kind -x RMA_TIMES=80 tests/mp/rma_atomic
done
# Accumulates by the device: single requests, loops that end while they are posted and later ones, a queue kind that peers share, between hosts;
# memory and devices that such accumulates need.
try "atomic, by the device" 3 --report-transports -x RMA_GRANULARITY=8 -x RMA_TIMES=80 tests/mp/rma_atomic
reported 'MPI_Win_create, 3 ranks.*accumulates by device for aligned elements of 8 bytes.*else cpu' "that the device accumulates"
try "atomic, by the device, SHCA_BEHAVE=async,noarena" 3 -x SHCA_BEHAVE=async,noarena -x RMA_GRANULARITY=8 -x RMA_TIMES=40 tests/mp/rma_atomic
for kind in xrc dc; do
	try "atomic, by the device, queue kind $kind" 3 -x HEDDLE_TRANSPORT=$kind -x RMA_GRANULARITY=8 -x RMA_TIMES=40 tests/mp/rma_atomic exchanged counter strides
done
try "atomic, not by the device" 2 --report-transports -x HEDDLE_TRANSPORT=ud -x RMA_GRANULARITY=8 -x RMA_TIMES=40 tests/mp/rma_atomic exchanged
reported 'asks for the agent device, but there is no device with atomic requests and connected queues' "why the device does not accumulate"
try "comm, by the device" 2 -x RMA_GRANULARITY=8 tests/mp/rma_comm
try_hosts "atomic, by the device" 0,1,0 --report-transports -x RMA_GRANULARITY=8 -x RMA_TIMES=40 tests/mp/rma_atomic_hosts
reported 'accumulates by device for aligned elements of 8 bytes.*else handler' "that the device accumulates between hosts"
reported 'asks for the agent device, but some rank.s memory is not registered' "that the memory begins at no multiple of 8"
# Two devices: all ranks, also those of one host, update by the one that leads to other hosts.
two="-x HEDDLE_DEVICE=shca0,shca0 -x RMA_GRANULARITY=8"
# shellcheck disable=SC2086
{
	try_hosts "atomic, by the device of two that leads to other hosts" 0,1,0 --report-transports $two -x RMA_TIMES=40 tests/mp/rma_atomic_hosts
	reported 'MPI_Win_create, 3 ranks.*accumulates by device for aligned elements of 8 bytes' "that the device accumulates"
	reported 'accumulate by the device that leads to other hosts, too: 1 of 1 others have an agent queue' "the agent queues"
	try_hosts "atomic, by the device of the one host" 0,0 --report-transports $two -x RMA_TIMES=20 tests/mp/rma_atomic_hosts exchanged
	reported 'accumulates by device for aligned elements of 8 bytes' "that the device accumulates"
	not_reported 'agent queue' "agent queues where all ranks are on one host"
	try_hosts "atomic, not by the second of two devices, queue kind dc" 0,1,0 --report-transports $two -x HEDDLE_TRANSPORT=dc \
		-x RMA_TIMES=20 tests/mp/rma_atomic_hosts exchanged
	reported 'no device with atomic requests and connected queues towards all its ranks' "that agent queues are of RC"
	for rank in 0 2; do
		for lacking in device absent queue connect early; do
			try_hosts "rank $rank lacks the agent device or queue: $lacking" 0,1,0,0 --report-transports $two tests/mp/rma_agent_lacking $lacking $rank
		done
	done
}
try_hosts "atomic" 0,1,2,0 -x RMA_TIMES=20 tests/mp/rma_atomic_hosts
not_reported 'window that does not exist here' "that an unlock came too late for its window"
# An accumulate by datagrams takes a round trip for each piece: some cases only.
try "comm, queue kind ud" 2 -x HEDDLE_TRANSPORT=ud tests/mp/rma_comm put get many_at_once derived_columns derived_shapes by_requests late_waits
for words in noorder async,noodp,noarena ${all:+async noarena noodp nosequence nowake async,noodp,noorder,nosequence,nowake} nosequence,nowake; do
	try "comm, SHCA_BEHAVE=$words" 2 -x SHCA_BEHAVE=$words tests/mp/rma_comm
	[ -z "$all" ] || try "sync, SHCA_BEHAVE=$words" 3 -x SHCA_BEHAVE=$words tests/mp/rma_sync
done
try "errors, SHCA_BEHAVE=noarena" 2 -x SHCA_BEHAVE=noarena -x RMA_NO_SHARED=1 tests/mp/rma_errors pair_at_page_end target_protected
try "creation, SHCA_BEHAVE=noarena" 2 -x SHCA_BEHAVE=noarena tests/mp/rma_errors one_refused alignment
try "errors, queue kind ud" 2 -x HEDDLE_TRANSPORT=ud tests/mp/rma_errors pair_at_page_end target_protected
for hosts in 0,1 ${all:+0,0,1,1 0,1,2 3,1,0,3,1}; do
	try_hosts "comm" "$hosts" tests/mp/rma_comm_hosts
done
try "threads" 2 tests/mp/rma_threads
for words in async noarena; do
	try "threads that lock targets, SHCA_BEHAVE=$words" 3 -x SHCA_BEHAVE=$words tests/mp/rma_threads 0
done
try "threads while regions come and go, queue kind ud" 3 -x HEDDLE_TRANSPORT=ud tests/mp/rma_threads 0
# 1,000 windows at a time cost at most 4 KiB for each member
try "windows" 5 tests/mp/rma_large windows 1000 4
try "ranks" 8 tests/mp/rma_large ranks
try "lock_all of 64 ranks" 64 tests/mp/rma_large ranks 1 allocate
try "displacements beyond 4 GiB" 2 tests/mp/rma_large sparse
try "displacements beyond 4 GiB, by messages and by the device" 2 -x SHCA_BEHAVE=noarena tests/mp/rma_large sparse
try "flush_local by messages" 2 -x SHCA_BEHAVE=noarena tests/mp/rma_sync local_progress
if [ -n "$all" ]; then
	try "windows" 7 tests/mp/rma_large windows 1000 4
	try "ranks" 64 tests/mp/rma_large ranks 2
	try "bytes" 2 tests/mp/rma_large bytes
	try "threads" 3 tests/mp/rma_threads 1 40
	try "threads" 4 tests/mp/rma_threads 4 300
fi
[ $fails = 0 ]
