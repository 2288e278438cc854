#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Buffers that the device cannot reach, in messages by rendezvous: each kind of queue, each way, with registrations and without, requests
# that are carried out later. Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
faults=tests/mp/transport_faults
[ -x $faults ] || { echo "skipped: $faults is not built"; exit 77; }

# try RANKS NAME=VALUE...
try() {
	n=$1; shift
	set -- $(printf ' -x %s' "$@")
	expect 0 "$run" -n "$n" "$@" $faults
	says "$out" '^ok$'
	says "$err" 'of 400000 bytes from rank 0 cannot be written by the device: the page at 0x[0-9a-f]* is not mapped'
	says "$err" 'of 1500000 bytes to rank 1 cannot be read by the device: the page at 0x[0-9a-f]* is beyond the end of its file'
	says_not "$err" 'connection to'
	says_not "$err" 'which does not exist'		# one answer to each announcement
}
for kind in rc xrc dc ud; do
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RENDEZVOUS=read
done
for kind in rc xrc dc; do
	for way in write split; do
		try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RENDEZVOUS=$way
	done
done
for way in write split; do
	expect 0 "$run" -n 2 -x HEDDLE_TRANSPORT=rc -x HEDDLE_RENDEZVOUS=$way -x HEDDLE_RNDV_CHUNK=64k $faults behind
	says "$out" '^ok$'
	says_not "$err" 'connection to'
done
for behave in noodp async nosequence; do
	try 2 SHCA_BEHAVE=$behave HEDDLE_RENDEZVOUS=read
done
expect 0 "$run" -n 3 -x HEDDLE_COLL_EXECUTOR=host -x HEDDLE_RING_MAX=16k $faults collectives
says "$out" '^ok$'
says_not "$err" 'connection to'
echo ok
