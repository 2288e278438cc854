#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdma-core's examples, by polling (-c: the received bytes are checked) and by events.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
need ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong ibv_xsrq_pingpong

for kind in rc uc ud srq; do
	for options in '' -c -e '-c -e'; do
		# shellcheck disable=SC2086
		pair 100 ibv_${kind}_pingpong $options
		for side in client server; do
			grep -q '^1000 iters' "$tmp/$side.out" || fail "$kind $options: $side did not do 1000 iterations"
		done
	done
done
for options in '' -e '-c 4'; do
	# shellcheck disable=SC2086
	case $options in
	-c*)	# several clients of one server
		start_server 100 ibv_xsrq_pingpong -c 2
		timeout 100 "$shcarun" ibv_xsrq_pingpong -p $port 127.0.0.1 >"$tmp/client2.out" 2>&1 &
		second=$!
		pids="$pids $second"
		timeout 100 "$shcarun" ibv_xsrq_pingpong -p $port 127.0.0.1 >"$tmp/client.out" 2>&1 || fail "xsrq: client"
		wait $second || fail "xsrq: second client"
		wait $server || fail "xsrq: server"
		;;
	*)	pair 100 ibv_xsrq_pingpong $options ;;
	esac
	grep -qi success "$tmp/client.out" || grep -q 'iters' "$tmp/client.out" || fail "xsrq $options says nothing"
done
# by the second port
need ibv_devinfo
SHCA_PORTS=2 "$shcarun" ibv_devinfo -i 2 >"$tmp/devinfo.out" 2>&1 || fail "ibv_devinfo -i 2"
grep -q 'PORT_ACTIVE' "$tmp/devinfo.out" || fail "ibv_devinfo: port 2"
export SHCA_PORTS=2
for kind in rc uc ud srq; do
	pair 100 ibv_${kind}_pingpong -i 2
	for side in client server; do
		grep -q '^1000 iters' "$tmp/$side.out" || fail "$kind by port 2: $side did not do 1000 iterations"
	done
done
exit 0
