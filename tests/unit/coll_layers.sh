#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The files of src/collectives call downwards: by the symbols that their objects need and define, no file is reached from itself through others,
# in one folder or across two. Upper files are reached through tables and hooks (exec.h, struct hdl_coll_hooks). And no file
# names the table of another executor, but the door, which registers all of them. Run in the build directory.
set -u
command -v nm >/dev/null || { echo "no nm"; exit 77; }
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
top=${srcdir:-..}/src/collectives
most=0	# files in circles

# of the sources that are there: a file that has moved leaves its object behind in a build directory
find "$top" -name '*.c' | sed "s|^$top/||; s|\.c\$||" | sort >"$dir/files"
while read -r file; do
	folder=src/collectives/$(dirname "$file")
	object=$(find "$folder" -maxdepth 2 -path '*/.libs/*' -name "libheddle_internal_la-${file##*/}.o" | head -n 1)
	[ -n "$object" ] || { echo "FAIL: no object of $file.c"; exit 1; }
	nm -g --defined-only "$object" | awk -v f="$file" 'NF == 3 { print "has", $3, f }'
	nm -u "$object" | awk -v f="$file" 'NF == 2 { print "needs", $2, f }'
done <"$dir/files" | sort >"$dir/symbols" || exit 1
grep -q '^has' "$dir/symbols" || { cat "$dir/symbols"; exit 1; }

# every file that reaches itself, with the files that it reaches and is reached from: its circle
awk -v most="$most" '
$1 == "FAIL:" { print; bad = 1; exit }
$1 == "has" { home[$2] = $3; file[$3] = 1 }
$1 == "needs" && $2 in home && home[$2] != $3 { calls[$3, home[$2]] = $2; reach[$3, home[$2]] = 1 }
END {
	for (k in file) for (i in file) if ((i, k) in reach)
		for (j in file) if ((k, j) in reach) reach[i, j] = 1
	for (i in file) {
		n++
		if (!((i, i) in reach) || i in seen)
			continue
		text = ""; size = 0; delete folders
		for (j in file) if ((i, j) in reach && (j, i) in reach) {
			seen[j] = 1; size++; in_circles++; text = text " " j
			f = j; if (!sub("/[^/]*$", "", f)) f = "."
			folders[f] = 1
		}
		wide = 0; for (f in folders) wide++
		printf "circle of %d files in %d folders:%s\n", size, wide, text
		for (a in seen) for (b in seen) if ((a, b) in calls && (a, i) in reach && (i, a) in reach)
			printf "    %s calls %s of %s\n", a, calls[a, b], b
		if (wide > 1) { print "FAIL: a circle across folders"; bad = 1 }
	}
	printf "%d files, %d of them in circles\n", n, in_circles
	if (in_circles > most) { printf "FAIL: at most %d files may be in circles\n", most; bad = 1 }
	exit bad
}' "$dir/symbols" || exit 1

awk '$2 ~ /^hdl_exec_(host|mailbox|vector|single_copy|tasks)$/ && $1 == "needs" && $3 != "coll" { print "FAIL: " $3 ".c names " $2; bad = 1 }
	END { exit bad }' "$dir/symbols"
