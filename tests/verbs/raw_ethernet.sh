#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs of raw packet queue pairs between two processes: perftest's raw_ethernet_*, with the flows that each of their
# options makes; and shcactl's output: the queues, the counters, the frames in a trace as tshark reads them.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
need raw_ethernet_bw raw_ethernet_lat raw_ethernet_fs_rate
ctl() {
	timeout 60 "$builddir/shcactl" --fabric "$SHCA_FABRIC" "$@"
}
raw() {
	echo "$1: $2; $3"
	raw_pair "$1" "$2" "$3" || fail "$1 $2; $3: status $?"
}
ip='-J 10.0.0.1 -j 10.0.0.2'
ports='-K 5000 -k 6000'
for how in '-s 64 -q 2' '-s 9000 -m 9600 -b --vlan_en' "-s 1024 $ip $ports --flows 4" "-s 1024 -J fe80::1 -j fe80::2 $ports --raw_ipv6 --tcp"; do
	raw raw_ethernet_bw "-n 100 $how" "-n 100 $how"
done
raw raw_ethernet_bw '-n 100 -s 1024 --promiscuous' '-n 100 -s 1024 -E 02:00:00:00:00:77'
raw raw_ethernet_bw '-n 100 -s 1024 --sniffer' '-n 100 -s 1024 -E 02:00:00:00:00:77'
raw raw_ethernet_lat "-n 100 -s 256 $ip $ports" "-n 100 -s 256 $ip $ports"
SHCA_LINK=ethernet timeout 60 "$shcarun" raw_ethernet_fs_rate --server -B 02:00:00:00:00:01 -n 1000 >"$tmp/fs_rate.out" 2>&1 || fail "raw_ethernet_fs_rate ended with $?"

# an InfiniBand port has no frames
timeout 60 "$shcarun" raw_ethernet_fs_rate --server -B 02:00:00:00:00:01 >"$tmp/ib.out" 2>&1 && fail "raw_ethernet_fs_rate on InfiniBand"
grep -q 'Ethernet link' "$tmp/ib.out" || fail "raw_ethernet_fs_rate does not say that the link is InfiniBand"

# a server that waits for frames, and a client with frames that go elsewhere: the queue is there, the frames are counted as steered nowhere
SHCA_LINK=ethernet timeout 100 "$shcarun" raw_ethernet_bw --server -B 02:00:00:00:00:01 -n 100 -s 256 >"$tmp/server.out" 2>&1 &
server=$!
pids="$pids $server"
n=0
until ctl queues 2>/dev/null | grep -q ' RAW *RT[RS] '; do
	n=$((n + 1))
	[ $n -lt 2400 ] || fail "no row of a raw packet queue: $(ctl queues)"
	sleep 0.05
done
elsewhere() {
	SHCA_LINK=ethernet timeout 60 "$shcarun" raw_ethernet_bw --client -B 02:00:00:00:00:02 -E 02:00:00:00:00:99 -n 100 -s 256 >"$tmp/client.out" 2>&1 || is_unmeasured || fail "client: $?"
}
missed() {
	"$shcarun" cat /sys/class/infiniband/shca0/ports/1/hw_counters/rx_steer_missed_packets
}
[ "$(missed)" = 0 ] || fail "frames that no flow has steered: $(missed)"
elsewhere
[ "$(missed)" = 100 ] || fail "of 100 frames that no flow has steered, $(missed) are counted"
ctl totals | grep -q '^RAW' || fail "no totals of raw packet queues: $(ctl totals)"
command -v tshark >/dev/null || exit 0

# trace OPTION...: the frames of such a client, which tshark reads. (The file's records are of InfiniBand and of Ethernet.)
trace() {
	ctl trace -o "$tmp/frames.pcapng" --count 100 "$@" 2>"$tmp/trace.out" &
	tracer=$!
	pids="$pids $tracer"
	n=0
	until grep -q '^tracing' "$tmp/trace.out" 2>/dev/null; do
		n=$((n + 1))
		[ $n -lt 2400 ] && kill -0 $tracer 2>/dev/null || fail "shcactl trace does not begin"
		sleep 0.05
	done
	elsewhere
	wait $tracer || fail "shcactl trace ended with $?"
	tshark -n -r "$tmp/frames.pcapng" -Y 'eth.dst == 02:00:00:00:00:99 && eth.src == 02:00:00:00:00:02' -T fields -e frame.len -e frame.comment \
		2>"$tmp/tshark.out" >"$tmp/frames.out"
	[ "$(wc -l <"$tmp/frames.out")" = 100 ] && [ "$(grep -c 'raw_ethernet_bw\[[0-9]*\] queue 0x[0-9a-f]*: a frame' "$tmp/frames.out")" = 100 ] ||
		fail "trace $*: of 100 frames tshark reads $(wc -l <"$tmp/frames.out")"
}
# perftest leaves 4 of the 256 bytes to the FCS
trace --roce
[ "$(cut -f 1 "$tmp/frames.out" | sort -u)" = 252 ] || fail "lengths of frames: $(cut -f 1 "$tmp/frames.out" | sort | uniq -c)"
trace
exit 0
