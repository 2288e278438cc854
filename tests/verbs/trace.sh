#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shcactl trace: tshark reads from the files, opcode for opcode, the packets that the program reports as sent; in both forms; of chosen
# queues; and the trace ends by itself when the tracer is killed.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
command -v tshark >/dev/null || skip "tshark is not installed (Debian: tshark)"
# (tshark's guess that data may be RPC over RDMA ends with an error for short data)
shark() {
	tshark --disable-protocol rpcordma "$@"
}
ctl() {
	timeout 60 "$builddir/shcactl" --fabric "$SHCA_FABRIC" "$@"
}

# traced NAME OPTION...: runs the program (with $arguments), traced with these options. Leaves $tmp/NAME.pcapng, $tmp/NAME.sent, $tmp/NAME.out
arguments=
traced() {
	name=$1
	shift
	rm -f "$tmp/in" "$tmp/said"
	mkfifo "$tmp/in" "$tmp/said"
	timeout 120 "$builddir/tests/verbs/trace_traffic" $arguments <"$tmp/in" >"$tmp/said" 2>"$tmp/program.out" &
	program=$!
	pids="$pids $program"
	exec 9>"$tmp/in" 8<"$tmp/said"
	read -r ready queue <&8 && [ "$ready" = ready ] || fail "trace_traffic does not begin"
	[ "${1:-}" != --queue ] || { shift; set -- --queue "$queue" "$@"; }
	ctl trace -o "$tmp/$name.pcapng" "$@" 2>"$tmp/$name.out" &
	tracer=$!
	pids="$pids $tracer"
	n=0
	until grep -q '^tracing' "$tmp/$name.out" 2>/dev/null; do
		n=$((n + 1))
		[ $n -lt 600 ] && kill -0 $tracer 2>/dev/null || fail "shcactl trace does not begin"
		sleep 0.05
	done
	echo go >&9
	exec 9>&-
	cat <&8 >"$tmp/$name.sent"
	exec 8<&-
	wait $program || fail "trace_traffic ended with $?"
	# ends by itself: the program was the last process
	wait $tracer || fail "shcactl trace ended with $?"
	grep -q 'lost: 0 requests' "$tmp/$name.out" || fail "requests were lost"
}
# seen FILE FIELD...: these fields of each packet
seen() {
	file=$1
	shift
	for f in "$@"; do set -- "$@" -e "$f"; shift; done
	shark -n -r "$file" -T fields -E separator=' ' "$@" 2>"$tmp/tshark.out"
}
# The program's lines, opcode and queue, against the file
compare() {
	seen "$tmp/$1.pcapng" infiniband.bth.opcode infiniband.bth.destqp >"$tmp/$1.seen"
	cut -d ' ' -f 1,2 "$tmp/$1.sent" >"$tmp/$1.want"
	cmp -s "$tmp/$1.seen" "$tmp/$1.want" || {
		diff "$tmp/$1.want" "$tmp/$1.seen" >"$tmp/diff.out"
		fail "$1: tshark reads other packets than were sent"
	}
	# (Wireshark 4.0 takes packets that are cut off for malformed)
	shark -n -r "$tmp/$1.pcapng" -Y '_ws.malformed && frame.cap_len == frame.len' 2>/dev/null >"$tmp/malformed.out"
	[ ! -s "$tmp/malformed.out" ] || fail "$1: malformed packets"
}

traced ib --data 144
compare ib
traced roce --roce
compare roce
# the same packets in both
cut -d ' ' -f 1 "$tmp/ib.sent" >"$tmp/one"
cut -d ' ' -f 1 "$tmp/roce.sent" | cmp -s - "$tmp/one" || fail "the program sent other packets the second time"

# fields of the headers
[ "$(seen "$tmp/ib.pcapng" infiniband.lrh.dlid | sort -u | tr '\n' ' ')" = "1 49152 " ] || fail "LIDs: $(seen "$tmp/ib.pcapng" infiniband.lrh.dlid | sort -u)"
[ "$(seen "$tmp/ib.pcapng" infiniband.aeth.syndrome | grep -v '^$' | sort -u | tr '\n' ' ')" = "31 98 " ] || fail "syndromes"
[ "$(shark -n -r "$tmp/ib.pcapng" -Y 'infiniband.grh' 2>/dev/null | wc -l)" -eq 2 ] || fail "GRHs"
[ "$(shark -n -r "$tmp/ib.pcapng" -Y 'infiniband.deth.srcqp' 2>/dev/null | wc -l)" -eq 3 ] || fail "DETHs"
[ "$(seen "$tmp/ib.pcapng" infiniband.reth.dmalen | grep -v '^$' | sort -n | uniq -c | awk '{ print $1 "x" $2 }' | tr '\n' ' ')" = "2x0 3x10 1x100 5x10000 " ] || fail "RETHs"
[ "$(seen "$tmp/ib.pcapng" infiniband.atomiceth.swapdt | grep -v '^$' | tr '\n' ' ')" = "2 1 " ] || fail "AtomicETHs"
# ATOMIC WRITEs: behind BTH and RETH (of which Wireshark 4.0 knows nothing here), 8 bytes of value
shark -n -r "$tmp/ib.pcapng" -Y 'infiniband.bth.opcode == 29' -x >"$tmp/atomic.out" 2>/dev/null
[ "$(cut -c 57- "$tmp/atomic.out" | tr -d '\n' | grep -Eo 'by a seg|inline 8' | tr '\n' ' ')" = "by a seg inline 8 " ] || fail "the values of ATOMIC WRITEs"
[ "$(seen "$tmp/roce.pcapng" udp.dstport | sort -u)" = 4791 ] || fail "not RoCE v2"
# packet sequence numbers go up by one for each packet of a queue's requests
shark -n -r "$tmp/ib.pcapng" -T fields -e frame.comment 2>/dev/null | grep -q 'trace_traffic\[[0-9]*\] queue 0x[0-9a-f]* to trace_traffic\[[0-9]*\] queue' ||
	fail "no comments"

# two ports: the addresses of each packet, and of datagrams with a GRH its GIDs
export SHCA_PORTS=2
arguments=ports
traced ports
seen "$tmp/ports.pcapng" infiniband.bth.opcode infiniband.bth.destqp infiniband.lrh.slid infiniband.lrh.dlid infiniband.grh.sgid infiniband.grh.dgid |
	sed 's/ *$//' >"$tmp/ports.seen"
cmp -s "$tmp/ports.seen" "$tmp/ports.sent" || {
	diff "$tmp/ports.sent" "$tmp/ports.seen" >"$tmp/diff.out"
	fail "the addresses of two ports"
}
traced ports_roce --roce
seen "$tmp/ports_roce.pcapng" ipv6.src ipv6.dst >"$tmp/roce.seen"
# packet by packet the GIDs of the ports that have the LIDs: a datagram with a GRH has both
awk 'NR == FNR { if (NF == 6) { gid[$3] = $5; gid[$4] = $6 } next } { print gid[$3], gid[$4] }' \
	"$tmp/ports.sent" "$tmp/ports.sent" >"$tmp/roce.sent"
[ "$(tr ' ' '\n' <"$tmp/roce.sent" | sort -u | wc -l)" -eq 2 ] && cmp -s "$tmp/roce.seen" "$tmp/roce.sent" || {
	diff "$tmp/roce.sent" "$tmp/roce.seen" >"$tmp/diff.out"
	fail "RoCE: the addresses of two ports"
}
unset SHCA_PORTS
arguments=

# one queue: the two packets of the refused WRITE
traced queue --queue
[ "$(seen "$tmp/queue.pcapng" infiniband.bth.opcode | tr '\n' ' ')" = "10 17 " ] || fail "more, or less, than the queue's packets"
# bounded
traced bounded --count 5
[ "$(seen "$tmp/bounded.pcapng" infiniband.bth.opcode | wc -l)" -eq 5 ] || fail "not 5 packets"

ctl trace -o "$tmp/none.pcapng" >"$tmp/none.out" 2>&1 && fail "traced a fabric that is gone"
exit 0
