#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The software HCA's rooms use those below them only: fabric <- engine <- verbs <- interpose. Looks at the symbols that the
# objects of libshca_core need and define. What is listed in `known` points upwards still; a line that is not needed any more
# fails, too. Run in the build directory.
set -u
command -v nm >/dev/null || { echo "no nm"; exit 77; }
known="fabric engine shca_helper_forget
fabric engine shca_helper_stop
fabric engine shca_look
fabric engine shca_reap
fabric engine shca_reap_give_up
fabric engine shca_cma_judge
fabric engine shca_proxy_stop
fabric engine shca_share_end
engine verbs shca_port_gid"
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
rooms="fabric engine verbs interpose"
for room in $rooms; do
	objects=$(find src/shca/$room -name 'libshca_core_la-*.o' -path '*/.libs/*' 2>/dev/null)
	[ -n "$objects" ] || objects=$(find src/shca/$room -path '*/.libs/*.o' ! -name 'libshca_la-*' ! -name '*failpoints*')
	[ -n "$objects" ] || { echo "FAIL: no objects of $room"; exit 1; }
	# shellcheck disable=SC2086
	nm -g --defined-only $objects | awk 'NF == 3 { print $3 }' | sort -u >"$dir/$room.has"
	# shellcheck disable=SC2086
	nm -u $objects | awk '$1 == "U" { print $2 }' | sort -u >"$dir/$room.needs"
done
for lower in fabric engine verbs; do
	above=no
	for upper in $rooms; do
		[ $above = yes ] && comm -12 "$dir/$lower.needs" "$dir/$upper.has" | sed "s/^/$lower $upper /"
		[ $upper = $lower ] && above=yes
	done
done | sort >"$dir/found"
printf '%s\n' "$known" | sort >"$dir/known"
comm -13 "$dir/known" "$dir/found" | sed 's/^/FAIL: points upwards: /' >"$dir/out"
comm -23 "$dir/known" "$dir/found" | sed 's/^/FAIL: no longer points upwards, take it off the list: /' >>"$dir/out"
cat "$dir/out"
[ ! -s "$dir/out" ]
