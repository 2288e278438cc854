#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Management datagrams: Debian's tools on libibumad, unmodified.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"

# The tools are where ordinary users do not look.
PATH=$PATH:/usr/sbin
need ibstat smpquery saquery perfquery sminfo ibaddr ibnetdiscover iblinkinfo
# run PATTERN PROGRAM...: the program succeeds, and prints PATTERN
run() {
	pattern=$1
	shift
	timeout 120 "$shcarun" "$@" >"$tmp/tool.out" 2>&1 || fail "$* ended with $?"
	grep -Eq -- "$pattern" "$tmp/tool.out" || fail "$* does not say $pattern"
}
# refused PATTERN PROGRAM...: the program fails, and prints PATTERN
refused() {
	pattern=$1
	shift
	timeout 120 "$shcarun" "$@" >"$tmp/tool.out" 2>&1 && fail "$* did not fail"
	grep -Eq -- "$pattern" "$tmp/tool.out" || fail "$* does not say $pattern"
}
guid=$("$shcarun" cat /sys/class/infiniband/shca0/node_guid | tr -d ':\n')
short=$(echo "$guid" | sed 's/^0*//')

run "^shca0$" ibstat -l
run "Node GUID: 0x$guid" ibstat
run 'State: Active' ibstat shca0 1
run "^0x$guid$" ibstat -p
run "^Guid:.*0x$guid$" smpquery nodeinfo 1
run '^NodeType:.*Channel Adapter$' smpquery -D nodeinfo 0
run 'shca0$' smpquery -D nodedesc 0,1
run '^LinkState:.*Active$' smpquery portinfo 1 1
run '0xffff' smpquery pkeys 1
run "0x$guid" smpquery guidinfo 1
run "sm lid 1 sm guid 0x$short.*SMINFO_MASTER" sminfo
run 'LID start 0x1 end 0x1' ibaddr
run 'PortXmitPkts' perfquery
run 'PortUnicastXmitPkts' perfquery -x
run "port_guid.*0x$guid" saquery
run 'dlid\.*1$' saquery -p
run 'slid\.*1$' saquery --src-to-dst 1:1
run 'Class version\.*2$' saquery -c
run 'EndPortLid\.*1$' saquery -s
run 'PKey Table' saquery PKTR
run 'FromLID\.*1$' saquery LR
run 'SMState\.*3$' saquery SMIR
# requests for missing attributes get a status, or no answer
refused 'Method/Attribute combination is not supported' saquery -S
refused 'failed' perfquery -R 1
refused 'query failed' smpquery sl2vl 1
refused 'failed' smpquery -t 20 nodeinfo 2

SHCA_PORTS=2
export SHCA_PORTS
run '^\[2\].*lid 257 .*lid 1 ' ibnetdiscover
run '0x[0-9a-f]* *257 *2.*Active.*==> *1 *1' iblinkinfo
run '257 *"shca0"' saquery --list
unset SHCA_PORTS

# the counters are those of the port's files; other processes see the counters of a fabric's port
"$builddir/tests/verbs/umad_traffic" "$tmp/ready" "$tmp/end" >"$tmp/traffic.out" 2>&1 &
pids="$pids $!"
traffic=$!
until [ -e "$tmp/ready" ]; do kill -0 $traffic || fail "the traffic has ended"; sleep 0.1; done
packets=$("$shcarun" cat /sys/class/infiniband/shca0/ports/1/counters/port_xmit_packets)
[ "$packets" -gt 0 ] || fail "no packets"
run "PortXmitPkts:\.*$packets\$" perfquery
run "PortUnicastXmitPkts:\.*$packets\$" perfquery -x
run 'MGID\.*ff12:a01b::77' saquery -g
"$builddir/shcactl" --fabric "$SHCA_FABRIC" inject port-down >"$tmp/inject.out" 2>&1 || fail "inject"
run 'State: Down' ibstat
run '^LinkState:.*Down$' smpquery -D portinfo 0
refused 'failed' smpquery -t 20 nodeinfo 1
"$builddir/shcactl" --fabric "$SHCA_FABRIC" inject port-up >"$tmp/inject.out" 2>&1 || fail "inject"
run '^LinkState:.*Active$' smpquery portinfo 1 1
: >"$tmp/end"
wait $traffic || fail "the traffic"
exit 0
