#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs of RDMA CM, a case of each sort: server and client end with 0. docs/interop.md has the whole table.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
need rping ucmatose fi_pingpong
ran=0
# Whether the program that $server (timeout) runs listens: has a socket of RDMA CM with the flag SO_ACCEPTCON.
listens() {
	# shellcheck disable=SC2012
	sockets=$(ls -l "/proc/$(ps -o pid= --ppid "$server" | tr -d ' ')/fd" 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\]/\1/p' | tr '\n' ' ')
	awk -v sockets="$sockets" 'BEGIN { n = split(sockets, s); for (i = 1; i <= n; i++) ours[s[i]] = 1 }
		$4 == "00010000" && $8 ~ /^@shca-cm\// && $7 in ours { found = 1 } END { exit !found }' /proc/net/unix
}
# both SERVER... -- CLIENT...: starts the client until it reaches the server, from when the server listens on. A client of several
# connections that came at the beginning of that would leave with only some of them refused, which the server takes for an error.
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
	case $server_command in
	' fi_pingpong'*) ;;	# listens for each peer, by TCP
	*)
		until listens || [ $n -ge 300 ] || ! kill -0 $server 2>/dev/null; do
			n=$((n + 1))
			sleep 0.1
		done
		;;
	esac
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
gid=$("$shcarun" cat /sys/class/infiniband/shca0/ports/1/gids/0)
both ucmatose -f gid -P ib -b "$gid" -- ucmatose -f gid -P ib -s "$gid"
both udaddy -c 5 -- udaddy -s 127.0.0.1 -c 5
both rdma_server -- rdma_client -s 127.0.0.1
both rdma_xserver -c x -- rdma_xclient -c x -s 127.0.0.1
both rstream -S 4096 -C 200 -- rstream -s 127.0.0.1 -S 4096 -C 200
head -c 300000 /dev/urandom >"$tmp/sent"
both rcopy -- rcopy "$tmp/sent" "127.0.0.1:$tmp/received"
cmp "$tmp/sent" "$tmp/received" || fail "rcopy: another file"
# the program's TCP port lies among those that the kernel gives to clients
free_port
both fi_pingpong -B $port -p verbs -e msg -I 100 -- fi_pingpong -P $port -p verbs -e msg -I 100 127.0.0.1
[ $ran -gt 0 ]
