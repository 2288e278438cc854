#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files of src/transport that call each other in a circle (strongly connected components of the graph "needs a symbol of") lie in one folder,
# and are no more than are listed here. Calls that would close another circle go by a hook (transport/core/tp.h). Run in the build directory.
set -u
command -v nm >/dev/null || { echo "no nm"; exit 77; }
src=${srcdir:-..}/src/transport
# folder, and the most files of it that are in circles
allowed='mem 2
rma 2
rndv 6'
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
# of the sources that are there: a file that has moved leaves its object behind in a build directory
find "$src" -name '*.c' >"$dir/sources"
[ -s "$dir/sources" ] || { echo "no sources in $src"; exit 99; }
while read -r source; do
	name=$(basename "$source" .c)
	folder=$(basename "$(dirname "$source")")
	object=src/transport/$folder/.libs/libheddle_internal_la-$name.o
	[ -f "$object" ] || object=src/transport/$folder/libheddle_internal_la-$name.o
	[ -f "$object" ] || { echo "FAIL: no $object"; exit 1; }
	nm -g "$object" | awk -v file="$folder/$name" 'NF == 3 { print "has", file, $3 } $1 == "U" { print "needs", file, $2 }'
done <"$dir/sources" >"$dir/symbols"
# reach[a, b]: a needs b, directly or not; a and b are in a circle if each needs the other
awk '
$1 == "has" { owner[$3] = $2; file[$2] = 1 }
{ line[NR] = $0 }
END {
	for (i = 1; i <= NR; i++) {
		split(line[i], f, " ")
		if (f[1] == "needs" && f[3] in owner && owner[f[3]] != f[2])
			reach[f[2], owner[f[3]]] = 1
	}
	for (k in file)
		for (a in file)
			if ((a, k) in reach)
				for (b in file)
					if ((k, b) in reach)
						reach[a, b] = 1
	for (a in file)
		for (b in file)
			if (a != b && (a, b) in reach && (b, a) in reach)
				print a, b
}' "$dir/symbols" | sort >"$dir/circles"
{
	# of different folders
	awk '{ split($1, a, "/"); split($2, b, "/"); if (a[1] != b[1] && $1 < $2) print "FAIL: a circle across folders: " $1 " and " $2 }' "$dir/circles"
	awk '{ print $1 }' "$dir/circles" | sort -u | awk -F/ '{ print $1 }' | sort | uniq -c | while read -r n folder; do
		most=$(echo "$allowed" | awk -v folder="$folder" '$1 == folder { print $2 }')
		[ "$n" -le "${most:-0}" ] || echo "FAIL: $n files of transport/$folder call each other in circles, at most ${most:-0} should"
	done
} >"$dir/out"
cat "$dir/out"
[ ! -s "$dir/out" ] || { sed 's/^/      /' "$dir/circles"; exit 1; }
