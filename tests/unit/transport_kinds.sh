#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Only the kind's own file and the pure selection ask for the kind of a queue: elsewhere no kind is named. A difference between kinds is
# an operation or a property of struct hdl_tp_kind, or a set in select.h.
set -u
src=${srcdir:-..}/src
# of, for instance, HDL_QUEUE_RC; but not HDL_QUEUE_NONE, and not the sets
name='HDL_QUEUE_\(UD\|RC\|XRC\|DC\)\b\|\bhdl_kind_\(ud\|rc\|xrc\|dc\)\b'
[ -d "$src/transport/kinds" ] || { echo "no $src/transport/kinds"; exit 99; }
out=$(grep -rn --include='*.[ch]' "$name" "$src" | grep -v "^$src/transport/\(kinds/\|connect/select\.[ch]:\)")
[ -z "$out" ] || { echo "$out" | sed 's/^/FAIL: names a kind: /'; exit 1; }
# and no kind's file names another kind, beside the table and the table's header; UD's packets serve all of them
for kind in UD RC XRC DC; do
	file=$(echo $kind | tr '[:upper:]' '[:lower:]')
	sed 's/HDL_QUEUE_'$kind'\b//g; s/hdl_kind_'"$file"'\b//g' "$src/transport/kinds/$file.c" | grep -n "$name" |
		sed "s/^/FAIL: $file.c names another kind: /"
done >"${TMPDIR:-/tmp}/transport_kinds.$$"
cat "${TMPDIR:-/tmp}/transport_kinds.$$"
[ ! -s "${TMPDIR:-/tmp}/transport_kinds.$$" ]
status=$?
rm -f "${TMPDIR:-/tmp}/transport_kinds.$$"
exit $status
