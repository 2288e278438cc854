#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# All state of the transport, and of matching, hangs on an instance: their objects have no variables of their own that can change, but
# those that are explained here. Looks at their symbols. Run in the build directory.
set -u
command -v nm >/dev/null || { echo "no nm"; exit 77; }
src=${srcdir:-..}/src
# file and symbol:
# regcache watcher		the kernel watches a range of memory for one descriptor: one instance in a process keeps registrations
# regcache for_children		... and pthread_atfork's handlers stay for good
allowed='regcache watcher
regcache for_children'
matching="match.c unexpected.c deliver.c recv.c arrive.c fault/revoke.c"
for path in transport/kinds $(printf 'p2p/%s ' $matching); do
	[ -e "$src/$path" ] || { echo "no $src/$path"; exit 99; }
done
out=${TMPDIR:-/tmp}/transport_instance_state.$$
trap 'rm -f "$out"' EXIT
# of the sources that are there: a file that has moved leaves its object behind in a build directory
for source in $(find "$src/transport" -name '*.c') $(printf "$src/p2p/%s " $matching); do
	name=$(basename "$source" .c)
	object=$(dirname "src${source#"$src"}")/.libs/libheddle_internal_la-$name.o
	[ -f "$object" ] || object=$(dirname "$(dirname "$object")")/libheddle_internal_la-$name.o
	[ -f "$object" ] || { echo "FAIL: no $object" >&2; exit 1; }
	# data that the linker relocates and then protects is constant; a static of a function is called name.number
	nm -f sysv --defined-only "$object" | awk -F'|' '{ gsub(/ /, "") } $7 ~ /^\.t?(data|bss)/ && $7 !~ /^\.data\.rel\.ro/ || $7 ~ /COM/ { print $1 }' |
		sed "s/\.[0-9]*$//; s/^/$name /"
done >"$out"
bad=$(echo "$allowed" | grep -vxFf - "$out")
[ -z "$bad" ] || { echo "$bad" | sed 's/^/FAIL: a variable of the process, not of an instance (file, name): /'; exit 1; }
# the list has no needless entry
echo "$allowed" | while read -r line; do
	grep -qxF "$line" "$out" || echo "FAIL: there is no $line any more"
done | { ! grep .; }
