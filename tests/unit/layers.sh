#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files call downwards: by the symbols that their objects need and define, no file is reached from itself through other files, in the
# folders of the table. Upper files are reached through tables and hooks. Run in the build directory; with names of folders (mpi,
# shca/verbs): these alone.
set -u
command -v nm >/dev/null || { echo "no nm"; exit 77; }
src=${srcdir:-..}/src
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT

# circles FOLDER MOST            so many files of the folder may call each other in circles, each within one of its folders
# order FOLDER ITEM...           lowest first: no file calls one of a later item, a file or a folder. Every file is of an item
# among FOLDER ITEM...           the same, but other files need not be of an item
# names FOLDER FILE REGEX        FILE alone names symbols like this
cat >"$dir/table" <<-'END'
	circles collectives 0
	names collectives coll ^hdl_exec_(host|mailbox|vector|single_copy|tasks)$
	circles datatype 0
	circles io 0
	order io error datarep view blocks pool calls scatter access window domains collective shared file
	circles launcher 0
	circles mpi 0
	circles p2p 0
	order p2p error instance buffer comm/hosts comm/group comm/describe comm/ids fault/record match unexpected comm/jobs_gone comm/comm request report \
		wait deliver fault/revoke recv send fault/ft_send comm/leader_link comm/cid_messages comm/comm_cid fault/ft_recv fault/notify \
		comm/construct dpm/handshake dpm/port buffered persistent grequest sendrecv message part_arrive part_send partitioned leaks arrive init
	circles rdmacm 0
	order rdmacm device handle address port_name channel event timer kernel id attr resolve connect multicast port_event get_event command
	circles rma 0
	order rma error target request element message control flush regions acc_origin acc_target move acc agent locks sync report helper win
	circles runtime 0
	circles shca/engine 0
	circles shca/fabric 0
	circles shca/interpose 0
	circles shca/verbs 0
	order shca/verbs refuse events query objects receive submit exp child device import dv devx counters sa files
	among shca fabric engine verbs interpose
	circles transport 0
	circles umad 0
	circles verbs_exp 0
	among . runtime datatype transport p2p collectives rma io mpi
END
sed -e :a -e '/\\$/N; s/\\\n//; ta' "$dir/table" >"$dir/rows"

# The object of a source in the library that links its folder. Sources are those that are there: a file that has moved leaves its object behind.
object_of()
{
	for o in .libs/libheddle_internal_la- .libs/libshca_core_la- .libs/libshca_la- libheddle_internal_la- heddlerun- .libs/ ""; do
		[ -f "src/${1%/*}/$o${1##*/}.o" ] && { echo "src/${1%/*}/$o${1##*/}.o"; return; }
	done
	echo "FAIL: no object of src/$1.c" >&2
	return 1
}
find "$src" -name '*.c' | sed "s|^$src/||; s|\.c\$||" | sort | awk -F/ '
	NR == FNR { split($0, w, " "); if (w[1] == "circles") folder[w[2]]; next }
	{ for (f in folder) if (index($0, f "/") == 1) { print; next } }' "$dir/rows" - >"$dir/files"
while read -r file; do
	case $file in shca/interpose/directories | shca/interpose/files | shca/interpose/rdma_cm) continue;; esac	# a library by itself, which interposes functions of libc
	object=$(object_of "$file") || exit 1
	echo "$object $file"
done <"$dir/files" >"$dir/objects" || exit 1
cut -d ' ' -f 1 "$dir/objects" | xargs nm -gA | awk 'NR == FNR { file[$1] = $2; next }
	{ at = index($0, ":"); f = file[substr($0, 1, at - 1)]; n = split(substr($0, at + 1), w, " ") }
	n == 3 { print "has", w[3], f } n == 2 && w[1] == "U" { print "needs", w[2], f }' "$dir/objects" - >"$dir/symbols"
grep -q '^has' "$dir/symbols" || { echo "FAIL: no symbols"; exit 1; }

awk -v only="$*" '
function under(file, item)
{
	return file == item || index(file, item "/") == 1
}
function path(folder, item)
{
	return folder == "." ? item : folder "/" item
}
function fail(text)
{
	print "FAIL: " text
	bad = 1
}
# The files of a folder that reach themselves, circle by circle
function circles(folder, most,   i, j, k, n, size, wide, text, reach, seen, part, in_circles, first, c)
{
	for (i in file) if (under(i, folder)) {
		n++
		for (j in file) if (under(j, folder) && (i, j) in calls) reach[i, j]
	}
	if (!n) { fail("no files in src/" folder); return }
	for (k in file) if (under(k, folder))
		for (i in file) if ((i, k) in reach)
			for (j in file) if ((k, j) in reach)
				reach[i, j]
	for (i in file) if ((i, i) in reach && !(i in seen)) {
		size = 0; wide = 0; text = ""; split("", part)
		for (j in file) if ((i, j) in reach && (j, i) in reach) {
			seen[j]; size++; text = text " " substr(j, length(folder) + 2)
			first = j; sub("/[^/]*$", "", first)
			if (!(first in part)) wide++
			part[first]
		}
		in_circles += size
		printf "src/%s: circle of %d files:%s\n", folder, size, text
		for (j in file) for (k in file) if ((j, k) in calls && (i, j) in reach && (j, i) in reach && (i, k) in reach && (k, i) in reach)
			printf "    %s calls %s of %s\n", j, calls[j, k], k
		if (wide > 1) fail("a circle across folders of src/" folder)
	}
	printf "src/%s: %d files, %d of them in circles\n", folder, n, in_circles
	if (in_circles > most) fail("at most " most " files of src/" folder " may be in circles")
}
function order(folder, all,   i, j, k, place)
{
	for (i in file) if (folder == "." || under(i, folder)) {
		for (k = 3; k <= NF && !(i in place); k++) if (under(i, path(folder, $k))) place[i] = k
		if (all && !(i in place)) fail("not in the order of src/" folder ": " i)
	}
	for (k = 3; k <= NF; k++) {
		for (i in place) if (place[i] == k) break
		if (!(i in place) || place[i] != k) fail("in the order of src/" folder ", and no file: " $k)
	}
	for (i in place) for (j in place) if ((i, j) in calls && place[j] > place[i])
		fail("src/" i ".c calls " calls[i, j] " of src/" j ".c, which lies above it")
}
FILENAME ~ /symbols$/ && $1 == "has" { home[$2] = $3; file[$3] }
FILENAME ~ /symbols$/ && $1 == "needs" { needs[$2, $3] }
FILENAME ~ /symbols$/ { next }
FNR == 1 {
	for (k in needs) {
		split(k, w, SUBSEP)
		if (w[1] in home && home[w[1]] != w[2]) calls[w[2], home[w[1]]] = w[1]
	}
}
only != "" && index(" " only " ", " " $2 " ") == 0 { next }
$1 == "circles" { circles($2, $3) }
$1 == "order" { order($2, 1) }
$1 == "among" { order($2, 0) }
$1 == "names" {
	for (k in needs) {
		split(k, w, SUBSEP)
		if (under(w[2], $2) && w[1] ~ $4 && w[2] != $2 "/" $3) fail("src/" w[2] ".c names " w[1])
	}
}
END { exit bad }' "$dir/symbols" "$dir/rows"
