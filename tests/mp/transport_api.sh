#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The transport without matching: active messages, remote memory, two instances in a process. Over every kind and some together, limits
# set to 2, devices without some feature, two threads, a rank that is stopped, one that dies.
#     transport_api.sh [--long]     --long: every kind with every word of SHCA_BEHAVE, many seeds (minutes)
# Run from the build directory (make check) or with its name in HEDDLE_BUILD.
set -u
here=$(dirname "$0")
build=${HEDDLE_BUILD:-.}
run=$build/heddlerun
am=$build/tests/mp/transport_am
rma=$build/tests/mp/transport_rma
instances=$build/tests/mp/transport_instances
all=async,nosequence,noodp,noarena,noorder,nowake

[ -x "$run" ] && [ -x "$am" ] && [ -x "$rma" ] || { echo "skipped: $run is not built"; exit 77; }
. "$here/transport_lib.sh"
bound=60

# kind, program, arguments: rank 1 is killed, and rank 0 prints the results of the operations under way
dies() {
	kind=$1
	shift
	out=$(HEDDLE_TRANSPORT=$kind timeout -k 5 60 "$run" -n 2 "$@" 2>&1)
	case $out in
	*"ended with an error, then refused"*) ;;
	*)
		echo "FAILED: HEDDLE_TRANSPORT=$kind $run -n 2 $*"
		echo "$out" | tail -n 100
		failed=1
		;;
	esac
}

# name=value...: operations on memory that cannot be reached, at the peer or here, fail alone, and each request has one answer
faults() {
	try 2 "$@" -- "$rma" 10 400000 1 faults
	case $out in
	*"connection to"* | *"which does not exist"*) echo "FAILED: $* faults: $out" | head -20; failed=1 ;;
	esac
	case $out in
	*"the local memory at 0x"*" of a get of 400000 bytes cannot be written: the page at 0x"*" is protected"*) ;;
	*) echo "FAILED: $* faults: no line names the local memory"; failed=1 ;;
	esac
}

if [ "${1:-}" = --long ]; then
	for seed in 11 12 13 14 15; do
		for kind in "" rc ud xrc dc dc,ud rc,ud xrc,dc; do
			for behave in "" async noarena noodp noorder nosequence nowake noodp,noarena $all; do
				try $((seed % 4 + 2)) HEDDLE_TRANSPORT=$kind SHCA_BEHAVE=$behave HEDDLE_RC_PEERS=2 -- "$am" 200 60000 $seed
				for atomics in handlers device; do
					settings="HEDDLE_TRANSPORT=$kind SHCA_BEHAVE=$behave RMA_ATOMICS=$atomics"
					try $((seed % 4 + 2)) $settings HEDDLE_RC_PEERS=2 -- "$rma" 200 200000 $seed
					try 2 $settings -- "$rma" 100 60000 $seed gone
					try 3 $settings RMA_BREAK=15 -- "$rma" 200 60000 $seed
				done
			done
		done
	done
	exit $failed
fi

for kind in "" rc ud xrc dc dc,ud; do
	try 3 HEDDLE_TRANSPORT=$kind -- "$instances" 100 1 0
	try 3 HEDDLE_TRANSPORT=$kind -- "$instances" 100 2 1 threads
	try 4 HEDDLE_TRANSPORT=$kind HEDDLE_RC_PEERS=2 HEDDLE_HOT_MESSAGES=2 HEDDLE_RING_PEERS=2 HEDDLE_RING_SIZE=2048 HEDDLE_SRQ_DEPTH=2 -- \
		"$instances" 50 3 0 threads
	try 3 HEDDLE_TRANSPORT=$kind SHCA_BEHAVE=noodp,nowake -- "$instances" 50 4 1 threads
	try 3 HEDDLE_TRANSPORT=$kind -- "$am" 300 60000 1
	try 2 HEDDLE_TRANSPORT=$kind -- "$am" 150 20000 2 unknown
	try 2 HEDDLE_TRANSPORT=$kind -- "$am" 200 60000 3 threads
	dies "$kind" "$am" 100 20000 4 dies
	dies "$kind" "$rma" 100 20000 4 dies
	for atomics in handlers device; do
		settings="HEDDLE_TRANSPORT=$kind RMA_ATOMICS=$atomics"
		try 3 $settings -- "$rma" 250 150000 1
		try 2 $settings -- "$rma" 100 60000 2 gone
		try 3 $settings RMA_BREAK=15 SHCA_BEHAVE=async -- "$rma" 200 60000 3
	done
	try 2 HEDDLE_TRANSPORT=$kind RMA_ATOMICS=device -- "$rma" 200 60000 4 threads
done
for kind in "" rc ud dc; do
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_EAGER_MAX=2 -- "$am" 100 3000 10
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_EAGER_MAX=2 -- "$rma" 100 3000 12
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=2048 -- "$am" 200 200 11 stream
done
for kind in ud xrc dc; do
	try 2 HEDDLE_TRANSPORT=$kind -- "$rma" 10 1000 13 stale
done
try 2 HEDDLE_TRANSPORT=rc SHCA_BEHAVE=noodp -- "$rma" 10 100000 14 unmapped
for kind in rc xrc dc ud; do
	faults HEDDLE_TRANSPORT=$kind RMA_ATOMICS=device
	faults HEDDLE_TRANSPORT=$kind HEDDLE_RNDV_CHUNK=64k SHCA_BEHAVE=async
done
for behave in noodp async,noodp; do
	faults SHCA_BEHAVE=$behave
done
# Two devices, of which the second one updates the words for the ranks of all hosts: by agent queues, and by messages to the owner
two="HEDDLE_DEVICE=shca0,shca0 RMA_ATOMICS=device"
for behave in "" async,nowake; do
	try 3 HOSTS=0,0,1 $two RMA_AGENTS=1 SHCA_BEHAVE=$behave -- "${rma}_hosts" 250 60000 1
	try 5 HOSTS=0,1,0,0,1 $two RMA_AGENTS=1 SHCA_BEHAVE=$behave RMA_BREAK=40 -- "${rma}_hosts" 150 60000 2
done
try 3 HOSTS=0,0,1 $two -- "${rma}_hosts" 150 60000 3
try 3 HOSTS=0,1,0 $two RMA_BREAK=15 -- "${rma}_hosts" 150 60000 4
for behave in "" async; do
	try 2 HOSTS=0,1 $two SHCA_BEHAVE=$behave -- "${rma}_hosts" 10 1000 6 behind
	try 2 HOSTS=0,0 $two SHCA_BEHAVE=$behave RMA_AGENTS=1 -- "${rma}_hosts" 10 1000 7 again
done
# shellcheck disable=SC2086
dies "" env HOSTS=0,0 $two RMA_AGENTS=1 "${rma}_hosts" 100 20000 7 dies
for mode in faults gone stops threads; do
	try 2 HOSTS=0,0 $two RMA_AGENTS=1 -- "${rma}_hosts" 50 400000 5 $mode
done
for kind in "" ud dc,ud; do
	try 2 HEDDLE_TRANSPORT=$kind -- "$am" 300 20000 5 stops
	try 5 HEDDLE_TRANSPORT=$kind HEDDLE_RC_PEERS=2 HEDDLE_HOT_MESSAGES=2 HEDDLE_RING_PEERS=2 HEDDLE_RING_SIZE=2048 -- "$am" 100 20000 6
	try 3 HEDDLE_TRANSPORT=$kind HEDDLE_EAGER_MAX=100 SHCA_FAULT=ud_drop=0.05 -- "$am" 150 20000 7
	try 3 HEDDLE_TRANSPORT=$kind SHCA_BEHAVE=$all -- "$am" 150 60000 8
	try 2 HEDDLE_TRANSPORT=$kind RMA_ATOMICS=device -- "$rma" 200 20000 5 stops
	try 5 HEDDLE_TRANSPORT=$kind RMA_ATOMICS=device HEDDLE_RC_PEERS=2 HEDDLE_HOT_MESSAGES=2 HEDDLE_RNDV_CHUNK=4096 -- "$rma" 100 60000 6
	try 3 HEDDLE_TRANSPORT=$kind SHCA_BEHAVE=$all -- "$rma" 150 60000 7
done
# devices without a feature, where the feature matters most
for behave in noodp noarena noorder; do
	try 2 HEDDLE_TRANSPORT=dc SHCA_BEHAVE=$behave RMA_ATOMICS=device -- "$rma" 150 100000 8
done
try 3 HEDDLE_TRANSPORT=ud SHCA_FAULT=ud_drop=0.05 -- "$rma" 150 60000 9
try 2 HEDDLE_TRANSPORT=ud -- "$rma" 10 1000 10 busy
try 2 HEDDLE_TRANSPORT=rc -- "$rma" 10 1000 10 busy
try 1 HEDDLE_TRANSPORT=ud -- "$rma" 10 1000 10 flushes
# a second matching, beside MPI's
for kind in "" rc ud xrc dc,ud; do
	try 4 HEDDLE_TRANSPORT=$kind -- "$build/tests/mp/p2p_instances" 60 1
	try 3 HEDDLE_TRANSPORT=$kind HEDDLE_RC_PEERS=2 HEDDLE_HOT_MESSAGES=2 HEDDLE_RING_PEERS=2 HEDDLE_RING_SIZE=2048 HEDDLE_SRQ_DEPTH=2 \
		HEDDLE_UNEXPECTED_MAX=2 SHCA_BEHAVE=noodp,nowake -- "$build/tests/mp/p2p_instances" 40 2
done
# invalid messages of a peer are refused, and do no harm
crooked=$build/tests/mp/transport_peer_invalid
try 3 HEDDLE_TRANSPORT=ud -- "$crooked" rndv
try 2 HEDDLE_TRANSPORT=rc,ud -- "$crooked" packets
try 1 HEDDLE_TRANSPORT=ud -- "$crooked" states
for behave in "" async nowake; do
	try 2 HEDDLE_TRANSPORT=rc SHCA_BEHAVE=$behave -- "$crooked" numbers
	try 2 HEDDLE_TRANSPORT=xrc SHCA_BEHAVE=$behave -- "$crooked" numbers
	try 2 HEDDLE_TRANSPORT=xrc SHCA_BEHAVE=$behave -- env -u HEDDLERUN_FILE "$crooked" numbers
	# where another thread executes requests (async), their effects may come after the last poll
	case $behave in *async*) ;; *) try 1 HEDDLE_TRANSPORT=rc SHCA_BEHAVE=$behave -- "$crooked" sleeps ;; esac
done
for behave in "" async; do
	try 2 HEDDLE_TRANSPORT=rc SHCA_BEHAVE=$behave -- "$rma" 10 1000 12 early
done
try 1 RMA_ATOMICS=device -- "$rma" 100 20000 11 refuses
try 1 -- "$rma" 100 20000 11 refuses
try 1 -- "$am" 100 20000 9 refuses
out=$(timeout -k 5 60 "$run" -n 2 "$am" 10 100 1 unknown 2>&1)
case $out in
*"rank 0 sent an active message of 100000 bytes for handler 104, which this process does not have"*) ;;
*) echo "FAILED: a message for an unknown handler: $out"; failed=1 ;;
esac
# packets are lost: a rank that ends one instance leaves no peer waiting for packets that the other instance has to send again
try 3 HEDDLE_TRANSPORT=ud SHCA_FAULT=ud_drop=0.1 -- "$instances" 60 9757 1
[ $failed = 0 ] && echo ok
exit $failed
