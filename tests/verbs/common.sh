# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this folder: runs strangers' programs on the software HCA of the build tree.
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
		[ -s "$f" ] && { echo "--- ${f##*/}" >&2; tail -n 15 "$f" >&2; }
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
if grep -q '__[at]san_init\|__ubsan_handle' "$library"; then skip "libshca was built with a sanitizer, which cannot be preloaded into strangers"; fi

# Whether something listens on TCP port $1.
listening() {
	hex=$(printf ':%04X' "$1")
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v p="$hex" '$4 == "0A" && substr($2, length($2) - 4) == p { f = 1 } END { exit !f }'
}
port=$((20000 + $$ % 20000))
free_port() {
	while port=$((port + 1)); listening $port; do :; done
}

# pair SECONDS PROGRAM ARGUMENT...: server and client on a free port; both must end with 0. Output: $tmp/server.out,
# $tmp/client.out.
pair() {
	limit=$1
	shift
	free_port
	echo "$*"
	timeout "$limit" "$shcarun" "$@" -p $port >"$tmp/server.out" 2>&1 &
	server=$!
	pids="$pids $server"
	n=0
	until listening $port; do
		n=$((n + 1))
		[ $n -lt 600 ] || fail "$1: the server does not listen"
		kill -0 $server 2>/dev/null || fail "$1: the server ended"
		sleep 0.05
	done
	timeout "$limit" "$shcarun" "$@" -p $port 127.0.0.1 >"$tmp/client.out" 2>&1 || fail "client: $* ended with $?"
	wait $server || fail "server: $* ended with $?"
}
