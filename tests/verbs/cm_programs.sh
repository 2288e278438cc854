#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs of RDMA CM, a case of each sort: server and client end with 0. docs/interop.md has the whole table.
. "${srcdir:-.}/tests/verbs/common.sh"
need rping ucmatose fi_pingpong
ran=0
# both NAME SERVER... -- CLIENT...: starts the client until it reaches the server: none of these programs says that it listens
both() {
	server_command=
	while [ "$1" != -- ]; do
		server_command="$server_command $1"
		shift
	done
	shift
	command -v "$1" >/dev/null || return 0
	echo "$*"
	# shellcheck disable=SC2086
	timeout 60 "$shcarun" $server_command >"$tmp/server.out" 2>&1 &
	server=$!
	pids="$pids $server"
	n=0
	until timeout 60 "$shcarun" "$@" >"$tmp/client.out" 2>&1; do
		n=$((n + 1))
		[ $n -lt 50 ] && kill -0 $server 2>/dev/null || fail "client: $*"
		sleep 0.1
	done
	case $server_command in
	' rcopy') kill $server ;;	# serves for ever
	*) wait $server || fail "server:$server_command ended with $?" ;;
	esac
	ran=$((ran + 1))
}
both rping -s -a 127.0.0.1 -C 20 -v -V -- rping -c -a 127.0.0.1 -C 20 -v -V
both ucmatose -c 20 -C 5 -- ucmatose -s ::1 -c 20 -C 5
both udaddy -c 5 -- udaddy -s 127.0.0.1 -c 5
both rdma_server -- rdma_client -s 127.0.0.1
both rdma_xserver -c x -- rdma_xclient -c x -s 127.0.0.1
both rstream -S 4096 -C 200 -- rstream -s 127.0.0.1 -S 4096 -C 200
head -c 300000 /dev/urandom >"$tmp/sent"
both rcopy -- rcopy "$tmp/sent" "127.0.0.1:$tmp/received"
cmp "$tmp/sent" "$tmp/received" || fail "rcopy: another file"
both fi_pingpong -p verbs -e msg -I 100 -- fi_pingpong -p verbs -e msg -I 100 127.0.0.1
[ $ran -gt 0 ]
