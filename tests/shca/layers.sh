#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The software HCA's rooms use those below them only: fabric <- engine <- verbs <- interpose. Looks at the symbols that the
# objects of libshca_core need and define. Run in the build directory.
set -u
command -v nm >/dev/null || { echo "no nm"; exit 77; }
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
rooms="fabric engine verbs interpose"
# of the sources that are there: a file that has moved leaves its object behind in a build directory
objects_of()
{
	find "${srcdir:-..}/src/shca/$1" -name '*.c' | while read -r source; do
		name=$(basename "$source" .c)
		find "src/shca/$1" -path "*/.libs/*" \( -name "libshca_core_la-$name.o" -o -name "$name.o" \)
	done
}
for room in $rooms; do
	objects=$(objects_of $room)
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
done >"$dir/out"
sed 's/^/FAIL: points upwards: /' "$dir/out"
[ ! -s "$dir/out" ]
