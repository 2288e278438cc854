#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The transport over every queue kind, with small rings, queues and pools, and with packets lost on the way.
# Run from the build directory (make check) or with its name in HEDDLE_BUILD.
set -u
here=$(dirname "$0")
build=${HEDDLE_BUILD:-.}
run=$build/heddlerun
traffic=$build/tests/mp/transport_traffic
sleeper=$build/tests/mp/transport_sleep

[ -x "$run" ] && [ -x "$traffic" ] && [ -x "$sleeper" ] || { echo "skipped: $run is not built"; exit 77; }
. "$here/transport_lib.sh"

# text, environment..., command: prints the text
ends() {
	out=$(env "$@" 2>&1)
	case $out in
	*"$text"*) ;;
	*) echo "FAILED: $*: $out"; failed=1 ;;
	esac
}

for kind in "" rc ud xrc dc "ud,xrc" "ud,dc" "xrc,dc"; do
	try 1 HEDDLE_TRANSPORT=$kind -- "$traffic" 300 30000 1
	try 2 HEDDLE_TRANSPORT=$kind -- "$traffic" 1500 60000 2
	try 4 HEDDLE_TRANSPORT=$kind -- "$traffic" 400 200000 3
	try 2 HEDDLE_TRANSPORT=$kind -- "$sleeper" 30
	try 6 HEDDLE_TRANSPORT=$kind -- "$sleeper" 12
	try 2 HEDDLE_TRANSPORT=$kind -- "$build/tests/mp/transport_eager_off"
	try 2 HEDDLE_TRANSPORT=$kind -- "$build/tests/mp/transport_eager_off" short
	try 3 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=0 -- "$build/tests/mp/transport_first_contact"
done

# a receiver that is slow, or makes no progress: no sender runs another sender's queue into RNR
for kind in rc xrc dc; do
	try 4 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=0 HEDDLE_HOT_MESSAGES=1 HEDDLE_SRQ_DEPTH=2 -- "$build/tests/mp/transport_srq_shares"
done
# a packet that is being filled bounds the lane that is made meanwhile
try 2 HEDDLE_TRANSPORT=dc,ud -- "$build/tests/mp/transport_datagrams_packed"
# messages of several packets, which leave unasked while there is room for all of them
try 2 HEDDLE_TRANSPORT=ud -- "$build/tests/mp/transport_fragments"
try 2 HEDDLE_TRANSPORT=ud SHCA_FAULT=ud_drop=0.1,ud_dup=0.1,ud_reorder=0.1 -- "$build/tests/mp/transport_fragments"
# many peers of other jobs
for kind in xrc dc; do
	try 1 HEDDLE_TRANSPORT=$kind -- "$build/tests/mp/transport_peers_many"
done

# cores that other processes use, too
try 2 HEDDLE_SPIN=2000 -- "$build/tests/mp/transport_cores_shared"

# threads that sleep on descriptors: no thread reads the wake-up of another one
for behave in nowake async,nowake nosequence,noodp,noarena,nowake; do
	for threads in 2 5; do
		try 2 SHCA_BEHAVE=$behave HEDDLE_YIELD=0 -- "$build/tests/mp/transport_wakeups" 60 $threads
	done
	try 2 SHCA_BEHAVE=$behave HEDDLE_YIELD=0 HEDDLE_SPIN=0 -- "$build/tests/mp/transport_wakeups" 60 4
done
for kind in rc ud xrc dc; do
	try 2 HEDDLE_TRANSPORT=$kind SHCA_BEHAVE=nowake HEDDLE_RING_SIZE=0 HEDDLE_YIELD=0 -- "$build/tests/mp/transport_wakeups" 30 4
done
try 2 HEDDLE_YIELD=0 -- "$build/tests/mp/transport_wakeups" 60 4
# ... over two devices: on descriptors of both, and on one's word, which the other one's thread changes
for behave in nowake ""; do
	try 2 HOSTS_RANKS=1 HEDDLE_DEVICE=shca0,shca0 SHCA_BEHAVE=$behave HEDDLE_YIELD=0 -- "$build/tests/mp/transport_hosts_woken" 60 4
done

# a completion for which a leaving rank waits comes while the rank sleeps: if such a completion did not count as progress, one run in
# three hung
for kind in rc rc rc rc rc rc xrc dc; do
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=0 HEDDLE_SRQ_DEPTH=16 HEDDLE_HOT_MESSAGES=1 -- "$build/tests/mp/transport_leave"
done

# pools asked to be deeper than the device allows
for kind in ud rc xrc dc; do
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_SRQ_DEPTH=100000 -- "$traffic" 300 30000 23
done

# devices that need every buffer registered
for kind in "" rc xrc dc; do
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_ODP=0 HEDDLE_RENDEZVOUS=read -- "$traffic" 700 300000 21
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_ODP=0 HEDDLE_SQ_DEPTH=16 HEDDLE_RNDV_CHUNK=4096 -- "$traffic" 700 300000 22
done

# lost, doubled and late datagrams: also those that make connections
for kind in "" ud; do
	for seed in 1 2; do
		try 2 HEDDLE_TRANSPORT=$kind SHCA_FAULT=ud_drop=0.01 -- "$traffic" 1500 60000 $seed
		try 3 HEDDLE_TRANSPORT=$kind SHCA_FAULT=ud_drop=0.1,ud_dup=0.1,ud_reorder=0.1 -- "$traffic" 300 30000 $seed
	done
done
try 4 SHCA_FAULT=ud_drop=0.5 HEDDLE_TRANSPORT=rc -- "$traffic" 100 10000 1

# many senders to one receiver over UD do not overrun the receiver's pool: nothing is lost, so next to nothing is sent again (a receiver
# without a CPU for longer than the timeout may get a packet twice); with losses only the lost packets are sent again
counts() {
	out=$(env HEDDLE_REPORT_TRANSPORTS=1 HEDDLE_TRANSPORT=ud "$@" 2>&1)
	status=$?
	again=$(echo "$out" | sed -n 's/.*; \([0-9]*\) packets sent again.*/\1/p' | awk '{ n += $1 } END { print n + 0 }')
	all=$(echo "$out" | sed -n 's/.*UD queues: \([0-9]*\) requests.*/\1/p' | awk '{ n += $1 } END { print n + 0 }')
	if [ $status -ne 0 ] || [ "$all" -eq 0 ] || [ $((again * 1000)) -lt $((all * least)) ] || [ $((again * 1000)) -gt $((all * most)) ]; then
		echo "FAILED ($status): $*: $again of $all packets sent again"
		echo "$out" | tail -n 100
		failed=1
	fi
}
least=0 most=5 counts timeout -k 5 120 "$run" -n 16 "$build/bench/hd_incast" -c -i 3 -x 0
least=0 most=5 counts HEDDLE_SRQ_DEPTH=100 timeout -k 5 120 "$run" -n 12 "$build/bench/hd_incast" -c -i 2 -x 0 -m 2000:2000
least=10 most=70 counts SHCA_FAULT=ud_drop=0.05 timeout -k 5 120 "$run" -n 2 "$build/bench/hd_bw" -c -m 64K:64K -i 3 -x 0
# messages that wait for room leave several in a packet: of 768 the first of each 256 have a packet of their own
out=$(HEDDLE_REPORT_TRANSPORTS=1 HEDDLE_TRANSPORT=ud HEDDLE_SRQ_DEPTH=64 timeout -k 5 120 "$run" -n 2 "$build/bench/hd_incast" -c -i 3 -x 0 2>&1)
status=$?
n=$(echo "$out" | sed -n 's/.*rank 1: .*UD queues: \([0-9]*\) requests.*/\1/p')
if [ $status -ne 0 ] || [ "${n:-768}" -gt 384 ]; then
	echo "FAILED ($status): 768 messages that wait took ${n:-no} packets"
	echo "$out" | tail -n 100
	failed=1
fi

# rings that wrap at once, that are taken back, that do not exist
for kind in rc dc; do
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=512 -- "$traffic" 1500 20000 4
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=2048 -- "$traffic" 1500 20000 5
	try 4 HEDDLE_TRANSPORT=$kind HEDDLE_RING_PEERS=1 -- "$traffic" 400 20000 6
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=0 -- "$traffic" 1500 20000 7
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=0 -- "$build/tests/mp/transport_eager_off"
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_SRQ_DEPTH=16 HEDDLE_SQ_DEPTH=16 HEDDLE_RING_SIZE=0 -- "$traffic" 1500 20000 8
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_SQ_DEPTH=16 HEDDLE_RNDV_CHUNK=1000 -- "$traffic" 1000 50000 9
	for way in read split write; do
		try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RENDEZVOUS=$way -- "$traffic" 700 1500000 13
		try 3 HEDDLE_TRANSPORT=$kind HEDDLE_RENDEZVOUS=$way HEDDLE_SQ_DEPTH=16 HEDDLE_RNDV_CHUNK=5000 HEDDLE_RING_SIZE=2048 -- \
			"$traffic" 500 100000 18
	done
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=4096 -- "$traffic" 700 1500000 14
	try 2 HEDDLE_TRANSPORT=$kind HEDDLE_EAGER_MAX=0 -- "$traffic" 500 5000 10
done
# floods both ways, of which one side reads late: more unread lines than 16 bits count, and small rings that skip their end on most laps
# and wrap that often
try 2 HEDDLE_TRANSPORT=rc HEDDLE_RING_SIZE=5m HEDDLE_RING_MEMORY=64m HEDDLE_HOT_MESSAGES=1 -- "$traffic" 24000 16000 15 23000
for ring in 512 1000 2048; do
	try 2 HEDDLE_TRANSPORT=rc HEDDLE_RING_SIZE=$ring HEDDLE_HOT_MESSAGES=1 -- "$traffic" 60000 1000 16 20
done
# on a device without an order of writes there are no rings (transport_behave.sh)
rings=yes
case ${SHCA_BEHAVE:-} in *noorder*) rings= ;; esac
# each rank may give one ring, which is revoked, full of frames at times, when the partner changes
for kind in ${rings:+"" dc}; do
	try 4 HEDDLE_TRANSPORT=$kind HEDDLE_RING_PEERS=1 -- "$build/tests/mp/transport_rings" 9
done
try 4 HEDDLE_TRANSPORT=dc HEDDLE_DCI_COUNT=2 HEDDLE_DCI_POLICY=lru HEDDLE_SQ_DEPTH=16 -- "$traffic" 400 20000 11
try 2 HEDDLE_HOT_MESSAGES=700 -- "$traffic" 1500 20000 12

# queues that peers share are brought to an error, with requests of several peers in them; those of UD with their receives
for breaks in 1 50; do
	try 2 HEDDLE_TRANSPORT=ud TRAFFIC_BREAK=$breaks -- "$traffic" 1500 60000 26
	try 4 HEDDLE_TRANSPORT=ud TRAFFIC_BREAK=$breaks SHCA_FAULT=ud_drop=0.05 -- "$traffic" 300 60000 27
	try 3 HEDDLE_TRANSPORT=rc TRAFFIC_BREAK=$breaks -- "$traffic" 400 60000 28
	try 2 HEDDLE_TRANSPORT=dc TRAFFIC_BREAK=$breaks -- "$traffic" 1500 60000 24
	try 4 HEDDLE_TRANSPORT=dc,ud HEDDLE_DCI_COUNT=1 TRAFFIC_BREAK=$breaks -- "$traffic" 400 60000 25
done

# queues that break on a peer that lives: on both sides, on one, often, with requests of every kind in them, with limits that make
# kinds mix; nothing is lost, doubled or damaged
for breaks in 1 50; do
	for kind in rc xrc rc,ud; do
		try 2 HEDDLE_TRANSPORT=$kind TRAFFIC_BREAK=$breaks -- "$traffic" 700 60000 26
		try 4 HEDDLE_TRANSPORT=$kind TRAFFIC_BREAK=$breaks TRAFFIC_BREAKERS=1 -- "$traffic" 200 60000 27
	done
	for kind in rc,ud rc,xrc dc,rc; do
		try 6 HEDDLE_TRANSPORT=$kind HEDDLE_RC_PEERS=2 HEDDLE_DCI_COUNT=2 TRAFFIC_BREAK=$breaks -- "$traffic" 60 60000 28
	done
	for kind in rc xrc; do
		try 2 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=512 HEDDLE_SQ_DEPTH=16 TRAFFIC_BREAK=$breaks -- "$traffic" 700 20000 29
		try 3 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=0 HEDDLE_SRQ_DEPTH=16 TRAFFIC_BREAK=$breaks -- "$traffic" 300 20000 30
		for way in read split write; do
			try 3 HEDDLE_TRANSPORT=$kind HEDDLE_RENDEZVOUS=$way HEDDLE_RNDV_CHUNK=5000 HEDDLE_RING_SIZE=32k \
				TRAFFIC_BREAK=$breaks -- "$traffic" 150 300000 31
		done
	done
done
try 2 HEDDLE_TRANSPORT=rc HEDDLE_ODP=0 HEDDLE_RENDEZVOUS=read HEDDLE_RNDV_CHUNK=4096 TRAFFIC_BREAK=20 -- "$traffic" 300 300000 32
try 3 HEDDLE_TRANSPORT=rc SHCA_FAULT=ud_drop=0.2,ud_dup=0.1,ud_reorder=0.1 TRAFFIC_BREAK=30 -- "$traffic" 150 30000 33
try 2 HEDDLE_TRANSPORT=rc TRAFFIC_BREAK=200 -- "$traffic" 3000 16000 34 500
# receivers are stopped meanwhile, and have few receives: much waits in the queues that break
for kind in rc xrc dc rc,ud dc,ud; do
	try 3 HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=0 HEDDLE_SRQ_DEPTH=16 TRAFFIC_BREAK=50 TRAFFIC_STOP=200 -- "$traffic" 300 20000 30
	try 6 HEDDLE_TRANSPORT=$kind HEDDLE_RC_PEERS=2 HEDDLE_DCI_COUNT=2 TRAFFIC_BREAK=50 TRAFFIC_STOP=200 -- "$traffic" 60 60000 37
done
# the event is read late: while the queue is being replaced, or when that is done
try 2 HEDDLE_TRANSPORT=rc TRAFFIC_BREAK=50 TRAFFIC_EVENTS=1 -- "$traffic" 700 60000 36
# no event tells a rank that only receives of its broken queue: the peer's device has to retry for some seconds
try 2 HEDDLE_TRANSPORT=rc TRAFFIC_BREAK=700 TRAFFIC_BREAKERS=1 TRAFFIC_SILENT=1 -- "$traffic" 700 60000 35

# XRC between hosts, as far as one host can show it: of two ranks each, and of one; packets that ask for a target are lost, and queues break
hosts=$(dirname "$0")/xrc_hosts.sh
files=$(mktemp -d) || exit 99
trap 'rm -rf "$files"' EXIT
for size in 0 2; do
	try 2 HEDDLE_TRANSPORT=xrc -- "$hosts" "$files" $size "$traffic" 700 60000 38
	try 6 HEDDLE_TRANSPORT=xrc,rc HEDDLE_RC_PEERS=2 -- "$hosts" "$files" $size "$traffic" 60 60000 39
	try 4 HEDDLE_TRANSPORT=xrc SHCA_FAULT=ud_drop=0.2,ud_dup=0.1,ud_reorder=0.1 TRAFFIC_BREAK=30 -- "$hosts" "$files" $size "$traffic" 150 30000 40
	try 5 HEDDLE_TRANSPORT=xrc HEDDLE_RING_SIZE=0 HEDDLE_SRQ_DEPTH=16 TRAFFIC_BREAK=50 TRAFFIC_STOP=200 -- "$hosts" "$files" $size "$traffic" 60 60000 41
	text='the others go on' ends HEDDLE_TRANSPORT=xrc timeout -k 5 60 "$run" -n 3 "$hosts" "$files" $size "$build/tests/mp/transport_ep_fails" shared
done

# a rank detects and names a killed peer, also while only waiting for that peer; a stopped peer is not taken for dead
for kind in "" rc xrc dc ud; do
	for mode in "" waits; do
		out=$(HEDDLE_TRANSPORT=$kind timeout -k 5 60 "$run" -n 2 "$build/tests/mp/transport_death" $mode 2>&1)
		case $out in
		*'connection to rank 1 failed'*'told of rank 1'*'then refused'*) ;;
		*) echo "FAILED: HEDDLE_TRANSPORT=$kind transport_death $mode: $out"; failed=1 ;;
		esac
	done
	# a rank that fails an endpoint tells the peer, and repeats the message if lost
	for mode in fails lost; do
		out=$(HEDDLE_TRANSPORT=$kind timeout -k 5 60 "$run" -n 2 "$build/tests/mp/transport_death" $mode 2>&1)
		case $out in
		*'connection to rank 0 failed: that rank has met an error'*'told of rank 0, which lives, then refused'*) ;;
		*) echo "FAILED: HEDDLE_TRANSPORT=$kind transport_death $mode: $out"; failed=1 ;;
		esac
	done
	out=$(HEDDLE_TRANSPORT=$kind HEDDLE_UD_TIMEOUT=200ms timeout -k 5 60 "$run" -n 2 "$build/tests/mp/transport_death" stop 2>&1)
	case $out in
	'the stopped rank answers') ;;
	*) echo "FAILED: HEDDLE_TRANSPORT=$kind transport_death stop: $out"; failed=1 ;;
	esac
done
# an endpoint that fails ends all of its operations, each once; nothing lands in a buffer that the user has back; the ring is free
end=$build/tests/mp/transport_ep_fails
for kind in "" rc ud xrc dc; do
	text='all has ended' ends HEDDLE_TRANSPORT=$kind HEDDLE_RING_MAX=16k timeout -k 5 60 "$run" -n 2 "$end" owns
done
text='nothing has landed' ends HEDDLE_TRANSPORT=rc HEDDLE_RENDEZVOUS=write HEDDLE_RNDV_CHUNK=65536 \
	timeout -k 5 60 "$run" -n 2 "$end" writes
text='what is refused once is lost, and no more' ends HEDDLE_TRANSPORT=ud timeout -k 5 60 "$run" -n 2 "$end" refused
text='a refused ring counts' ends HEDDLE_TRANSPORT=rc HEDDLE_RING_SIZE=0 timeout -k 5 60 "$run" -n 2 "$end" offers
# where buffers stay registered and the failed peer has no queue of its own, the peer's key becomes invalid
for kind in dc xrc; do
	text='nothing has landed' ends SHCA_BEHAVE="noodp${SHCA_BEHAVE:+,$SHCA_BEHAVE}" HEDDLE_TRANSPORT=$kind HEDDLE_RENDEZVOUS=write \
		HEDDLE_RNDV_CHUNK=65536 timeout -k 5 60 "$run" -n 2 "$end" writes
done
text='settled' ends timeout -k 5 60 "$run" -n 1 "$end" settles
text='grown' ends SHCA_BEHAVE="noarena${SHCA_BEHAVE:+,$SHCA_BEHAVE}" timeout -k 5 60 "$run" -n 1 "$end" grows
text='all has come' ends HEDDLE_TRANSPORT=rc timeout -k 5 60 "$run" -n 2 "$end" stopped
for kind in rc ud xrc dc; do
	text='all has come' ends HEDDLE_TRANSPORT=$kind timeout -k 5 60 "$run" -n 2 "$end" paused
done
text="it was not replaced: the peer's process has ended" ends HEDDLE_TRANSPORT=rc timeout -k 5 60 "$run" -n 2 "$end" dies
text='it was not replaced: the request that went again by the new queue has failed again' \
	ends HEDDLE_TRANSPORT=rc timeout -k 5 60 "$run" -n 2 "$end" twice
text='it was not replaced: the request that went again by the new queue has failed again' \
	ends HEDDLE_TRANSPORT=rc timeout -k 5 60 "$run" -n 2 "$end" thrice
for kind in dc dc,ud xrc xrc,ud; do
	text='the others go on' ends HEDDLE_TRANSPORT=$kind HEDDLE_DCI_COUNT=1 timeout -k 5 60 "$run" -n 3 "$end" shared
done
for kind in ${rings:+rc xrc dc}; do
	text='another got the ring' ends HEDDLE_TRANSPORT=$kind HEDDLE_RING_PEERS=1 timeout -k 5 60 "$run" -n 3 "$end" rings
done
# a rank that only waits for a peer of another host sends keepalives: the peer's device answers, or the peer's process
out=$(HEDDLE_TRANSPORT=ud HEDDLE_KEEPALIVE=100ms HEDDLE_UD_TIMEOUT=300ms timeout -k 5 60 "$run" -n 2 "$build/tests/mp/transport_death" silent 2>&1)
case $out in
*'connection to rank 1 failed'*'no sign of life'*'told of rank 1'*'then refused'*) ;;
*) echo "FAILED: transport_death silent: $out"; failed=1 ;;
esac
for kind in rc xrc dc; do
	out=$(HEDDLE_TRANSPORT=$kind HEDDLE_KEEPALIVE=100ms HEDDLE_UD_TIMEOUT=300ms timeout -k 5 60 "$run" -n 2 \
		"$build/tests/mp/transport_death" computes 2>&1)
	case $out in
	'was asked and lives') ;;
	*) echo "FAILED: HEDDLE_TRANSPORT=$kind transport_death computes: $out"; failed=1 ;;
	esac
done
# UD serves a peer without a connection: a message about that peer's end counts all the same
out=$(HEDDLE_TRANSPORT=rc,ud timeout -k 5 60 "$run" -n 2 "$build/tests/mp/transport_death" refused 2>&1)
case $out in
*'told of rank 0, which lives, then refused'*) ;;
*) echo "FAILED: transport_death refused: $out"; failed=1 ;;
esac
# without any evidence of the death, the timeout decides
out=$(HEDDLE_TRANSPORT=ud HEDDLE_UD_TIMEOUT=300ms timeout -k 5 60 "$run" -n 2 "$build/tests/mp/transport_death" unknown 2>&1)
case $out in
*'connection to rank 1 failed'*'no sign of life'*HEDDLE_UD_TIMEOUT*'told of rank 1'*'then refused'*) ;;
*) echo "FAILED: transport_death unknown: $out"; failed=1 ;;
esac

# invalid settings are refused by name
out=$(HEDDLE_TRANSPORT=rd timeout 60 "$traffic" 1 2>&1)
case $out in
*HEDDLE_TRANSPORT=rd*rc*ud*xrc*dc*) ;;
*) echo "FAILED: HEDDLE_TRANSPORT=rd: $out"; failed=1 ;;
esac
out=$(HEDDLE_DEVICE=shcb0 timeout 60 "$traffic" 1 2>&1)
case $out in
*'HEDDLE_DEVICE=shcb0: there is no such verbs device (did you mean "shca0"?)'*) ;;
*) echo "FAILED: HEDDLE_DEVICE=shcb0: $out"; failed=1 ;;
esac
# a queue towards another host that gets no answer, while the peer has asked to replace it
try 2 HOSTS=0,1 HEDDLE_DEVICE=shca0 HEDDLE_TRANSPORT=rc HEDDLE_RING_SIZE=0 -- "$build/tests/mp/transport_replace_asked"
# two devices: one for the peers of this host, one for peers of other hosts; here ranks take `each` of them at a time for ranks of a
# separate host
for each in 0 1 2; do
	for kind in "" ud "dc,ud"; do
		for what in "sleep 12" "traffic 200 60000 3"; do
			# shellcheck disable=SC2086
			try 4 HOSTS_RANKS=$each HEDDLE_DEVICE=shca0,shca0 HEDDLE_TRANSPORT=$kind -- "$build/tests/mp/transport_hosts_"$what
		done
	done
done
for wrong in shca0,shcb0=such shca0,=empty ,shca0=empty shca0,shca0,shca0=more shca0,shca0:2=ports; do
	out=$(HEDDLE_DEVICE=${wrong%=*} timeout 60 "$traffic" 1 2>&1)
	case $?,$out in
	0,*) echo "FAILED: HEDDLE_DEVICE=${wrong%=*} was accepted"; failed=1 ;;
	*HEDDLE_DEVICE=*"${wrong#*=}"*) ;;
	*) echo "FAILED: HEDDLE_DEVICE=${wrong%=*}: $out"; failed=1 ;;
	esac
done
for wrong in HEDDLE_RNDV_CHUNK=0 HEDDLE_SQ_DEPTH=2147483647 HEDDLE_EAGER_MAX=5g; do
	out=$(env $wrong timeout -k 5 60 "$run" -n 2 "$traffic" 10 100000 1 2>&1)
	case $?,$out in
	124,* | 137,* | 0,*) echo "FAILED: $wrong was accepted: $out"; failed=1 ;;
	*"${wrong%%=*}="*': a'*) ;;
	*) echo "FAILED: $wrong: $out"; failed=1 ;;
	esac
done
exit $failed
