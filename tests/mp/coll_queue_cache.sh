#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The cache of connected queues: a new communicator takes over the queues of a freed one, and freeing one destroys nothing; the memory of a
# communicator. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for executor in mailbox tasks; do
	for n in 2 5; do
		try "queues are reused, executor $executor" "$n" -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_queue_cache count
		try "random communicators, executor $executor, seed $seed" "$n" -x HEDDLE_COLL_EXECUTOR=$executor \
			tests/mp/coll_queue_cache random "${COLL_RANDOM:-150}" "$seed"
	done
done
try "queues that an error has spoiled" 3 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache spoiled
for executor in mailbox tasks; do
	try "cached queues are given up for memory" 4 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_queue_cache given
	try "ranks offer different queues" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_queue_cache other
	try "memory for longer operations, tried again" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_queue_cache again
done
fails_with 'the test refuses a receive' "ranks offer different queues, and one rank does not get the others' records" 3 \
	-x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache other refused
try "scratch that is kept" 3 -x SHCA_RESERVE=64m tests/mp/coll_queue_cache spares
not_reported 'run on the host' "that kept scratch leaves communicators without memory"
try "a rank lacks memory that other ranks keep" 3 -x SHCA_RESERVE=64m -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache lack
not_reported 'run on the host' "that a rank lacks memory which other ranks have freed"
try "more communicators than queues are cached for" 2 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache many
try "longer operations beside persistent ones" 2 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache mixed
try "persistent collectives that the program does not free" 2 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache unfreed
not_reported ibv_dealloc_pd "that unfreed persistent collectives stay registered"
# The aim is 64 KiB. With more ranks, and on tasks, a communicator takes more: there the bound only notices growth.
for n in 2 4 8; do
	try "memory of a communicator on mailbox" "$n" -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache memory ./shcactl 64
done
try "memory of a communicator on tasks" 2 -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_queue_cache memory ./shcactl 64
try "memory of a communicator on mailbox, above the aim" 16 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_queue_cache memory ./shcactl 96
try "memory of a communicator on tasks, above the aim" 4 -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_queue_cache memory ./shcactl 112
try "memory of a communicator on tasks, above the aim" 8 -x HEDDLE_COLL_EXECUTOR=tasks tests/mp/coll_queue_cache memory ./shcactl 148
for kind in ud dc,ud; do
	try "random communicators, depth 2, queue kind $kind, seed $seed" 4 -x HEDDLE_TRANSPORT=$kind -x HEDDLE_COLL_DEPTH=2 \
		tests/mp/coll_queue_cache random "${COLL_RANDOM:-150}" "$seed"
done

[ $fails = 0 ]
