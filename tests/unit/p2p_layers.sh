#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The files of src/p2p have an order, lowest first, in which each calls only files ahead of it: so none call each other in a circle. Looks
# at the symbols that their objects need and define. Run in the build directory.
set -u
command -v nm >/dev/null || { echo "no nm"; exit 77; }
src=${srcdir:-..}/src/p2p
order='
error instance buffer
comm/hosts comm/group comm/describe comm/ids fault/record
match unexpected
comm/comm
request report wait deliver
fault/revoke
recv send fault/ft_send
comm/leader_link comm/cid_messages comm/comm_cid
fault/ft_recv fault/notify
comm/construct
dpm/handshake dpm/port
buffered persistent grequest sendrecv message partitioned
leaks
arrive init'
out=${TMPDIR:-/tmp}/p2p_layers.$$
trap 'rm -f "$out"' EXIT
# every file is in the list, once, and the list has no other
(cd "$src" && find . -name '*.c' | sed 's/^\.\///; s/\.c$//' | sort) >"$out"
bad=$(printf '%s\n' $order | sort | diff "$out" - | grep '^[<>]')
[ -z "$bad" ] || { echo "$bad" | sed 's/^</FAIL: not in the order:/; s/^>/FAIL: in the order, and no file:/'; exit 1; }
# "file D symbol" or "file U symbol", files in the order
for file in $order; do
	dir=src/p2p/$(dirname "$file")
	object=$dir/.libs/libheddle_internal_la-$(basename "$file").o
	[ -f "$object" ] || object=$dir/libheddle_internal_la-$(basename "$file").o
	[ -f "$object" ] || { echo "FAIL: no $object" >&2; exit 1; }
	nm -g "$object" | awk -v file="$file" 'NF == 2 { print file, "U", $2 } NF == 3 { print file, "D", $3 }'
done >"$out" || exit 1
awk 'NR == FNR { if (!($1 in place)) place[$1] = ++n; if ($2 == "D") home[$3] = $1; next }
	$2 == "U" && $3 in home && place[home[$3]] > place[$1] { print "FAIL: " $1 ".c uses " $3 " of " home[$3] ".c, which lies above it"; bad = 1 }
	END { exit bad }' "$out" "$out"
