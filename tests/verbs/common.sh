# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this folder: runs unmodified verbs programs on the software HCA of the build tree.
: "${builddir:=.}" "${srcdir:=.}"
shcarun=$builddir/shcarun
library=$builddir/.libs/libshca.so.0
export SHCA_FABRIC="verbs-test-$$"
tmp=$(mktemp -d) || exit 99
pids=
finish() {
	for p in $pids; do kill "$p" 2>/dev/null; done
	rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() {
	echo "FAIL: $*" >&2
	for f in "$tmp"/*.out; do
		[ -s "$f" ] || continue
		echo "--- ${f##*/}" >&2
		# an error comes before the lines that the program had in its buffer
		if [ "$(wc -l <"$f")" -gt 30 ]; then head -n 15 "$f"; echo ...; tail -n 15 "$f"; else cat "$f"; fi >&2
	done
	exit 1
}
skip() {
	echo "SKIP: $*"
	exit 77
}
need() {
	for t in "$@"; do
		command -v "$t" >/dev/null || skip "$t is not installed (Debian: ibverbs-utils, perftest, binutils)"
	done
}
[ -x "$shcarun" ] || fail "$shcarun was not built"
# A sanitizer's runtime must be the first library of a program; a preloaded libshca would come before it.
if grep -q '__[at]san_init\|__ubsan_handle' "$library"; then skip "libshca was built with a sanitizer, which cannot be preloaded into programs without one"; fi

# Whether something listens on TCP port $1, or by RDMA CM on that port of any port space: the socket of a listening id is named by both.
listening() {
	hex=$(printf ':%04X' "$1")
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v p="$hex" '$4 == "0A" && substr($2, length($2) - 4) == p { f = 1 } END { exit !f }' ||
		grep -qi "@shca-cm/.*${hex#:}/\*" /proc/net/unix
}
# Below the ports that the kernel gives to clients (ip_local_port_range): a connection has a port as well as a listener.
port=$((10000 + $$ % 15000))
free_port() {
	while port=$((port + 1)); listening $port; do :; done
}
# start_server SECONDS PROGRAM ARGUMENT...: on a free port; waits until the server listens. Sets port and server.
start_server() {
	limit=$1
	shift
	for attempt in 1 2 3; do
		free_port
		timeout "$limit" "$shcarun" "$@" -p $port >"$tmp/server.out" 2>&1 &
		server=$!
		pids="$pids $server"
		n=0
		until listening $port || ! kill -0 $server 2>/dev/null; do
			n=$((n + 1))
			[ $n -lt 600 ] || fail "$*: the server does not listen"
			sleep 0.05
		done
		kill -0 $server 2>/dev/null && return
		wait $server
		status=$?
		# a socket that is bound and does not listen is not in the kernel's table
		grep -qi 'listen\|bind' "$tmp/server.out" || break
	done
	fail "$*: the server ended with $status"
}

# Programs of perftest measure the frequency of the time-stamp counter behind their traffic, and end with an error if the samples
# scatter (r^2 < 0.9), as they do where other programs take the CPU.
is_unmeasured() {
	grep -aq "Can't produce a report" "$tmp/server.out" "$tmp/client.out" 2>/dev/null
}
# pair SECONDS PROGRAM ARGUMENT...: server and client on a free port; both must end with 0. Output: $tmp/server.out,
# $tmp/client.out.
pair() {
	limit=$1
	shift
	echo "$*"
	for try in 1 2 3 4 5; do
		start_server "$limit" "$@"
		timeout "$limit" "$shcarun" "$@" -p $port 127.0.0.1 >"$tmp/client.out" 2>&1
		status=$?
		[ $status = 0 ] || is_unmeasured || fail "client: $* ended with $status"
		wait $server
		status=$?
		is_unmeasured || break
	done
	is_unmeasured && fail "$*: the time-stamp counter was not measured in $try tries"
	[ $status = 0 ] || fail "server: $* ended with $status"
}

# raw_pair PROGRAM SERVER-OPTIONS CLIENT-OPTIONS: the two sides of one of perftest's raw_ethernet_*. These agree on nothing before they send, and a frame
# that comes before the server's receives is lost: the client begins when the server's queue is there, and again if frames were lost
# or is_unmeasured.
# Returns 0, or the status of a side; 124: frames were lost every time.
raw_pair() {
	raw_macs=" -B 02:00:00:00:00:01 -E 02:00:00:00:00:02"
	for attempt in 1 2 3 4 5; do
		# shellcheck disable=SC2086
		SHCA_LINK=ethernet timeout 200 "$shcarun" --debug "$1" --server $raw_macs $2 >"$tmp/server.out" 2>&1 &
		server=$!
		pids="$pids $server"
		n=0
		until "$builddir/shcactl" --fabric "$SHCA_FABRIC" queues 2>/dev/null | grep -q 'RAW *RT[RS]' || ! kill -0 $server 2>/dev/null; do
			n=$((n + 1))
			[ $n -lt 1200 ] || break
			sleep 0.05
		done
		# shellcheck disable=SC2086
		SHCA_LINK=ethernet timeout 200 "$shcarun" --debug "$1" --client -B 02:00:00:00:00:02 -E 02:00:00:00:00:01 $3 >"$tmp/client.out" 2>&1
		raw_status=$?
		[ $raw_status = 0 ] || kill $server 2>/dev/null
		wait $server
		raw_server=$?
		[ $raw_status = 124 ] || [ $raw_server = 124 ] || is_unmeasured || break
	done
	[ $raw_status != 0 ] || raw_status=$raw_server
	return $raw_status
}
