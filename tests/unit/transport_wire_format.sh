#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# docs/wire-format.md has a row for each kind of message and each control message, in the order of the enums, and names the version of
# address records: a message that is added, removed or renamed changes the page.
set -u
top=${srcdir:-..}
page=$top/docs/wire-format.md
tmp=${TMPDIR:-/tmp}/transport_wire_format.$$
trap 'rm -f "$tmp".*' EXIT
failed=0

# names PREFIX FILE ENUM: the members of the enum
names() {
	sed -n "/^enum $3 {/,/^};/p" "$2" | sed -n "s/^[[:space:]]*\($1[A-Z_]*\)\( = [0-9]*\)\{0,1\},.*/\1/p"
}
# compare WHAT PATTERN: the rows of the page whose first column matches, with the list of names
compare() {
	sed -n "s/^| \`\($2\)\` .*/\1/p" "$page" >"$tmp.page"
	[ -s "$tmp.code" ] || { echo "FAIL: no $1 found in the headers"; failed=1; }
	diff "$tmp.code" "$tmp.page" >"$tmp.diff" && return
	echo "FAIL: $1 of the header (<) and of docs/wire-format.md (>) differ:"
	cat "$tmp.diff"
	failed=1
}

[ -f "$page" ] || { echo "no $page"; exit 99; }
names HDL_ "$top/src/transport/transport.h" hdl_kind >"$tmp.code"
compare "kinds of messages" 'HDL_[A-BD-Z][A-Z_]*'
names HDL_CTL_ "$top/src/transport/connect/wire.h" hdl_ctl_kind >"$tmp.code"
compare "control messages" 'HDL_CTL_[A-Z_]*'
version=$(sed -n 's/^#define HDL_ADDR_VERSION \([0-9]*\)u$/\1/p' "$top/src/transport/connect/wire.h")
grep -q "\`HDL_ADDR_VERSION\`, which is $version\." "$page" || { echo "FAIL: the page has another HDL_ADDR_VERSION than $version"; failed=1; }
exit $failed
