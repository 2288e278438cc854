#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every example of pyverbs' documentation passes, or stands in the table of docs/python.md with the device's reason.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
/usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null || skip "python3-pyverbs is not installed"
here=${srcdir:-$(dirname "$0")/../..}
snippets() {
	timeout 120 "$shcarun" /usr/bin/python3 "$here/tests/verbs/pyverbs_snippets.py" shca0 "$@" >>"$tmp/all.out" 2>"$tmp/all.err" ||
		{ cat "$tmp/all.err"; fail "the examples of $* end with $?"; }
}
snippets
export SHCA_LINK=ethernet
snippets ethernet
export SHCA_IDENTITY=connectx
snippets mlx5 ethernet
unset SHCA_LINK
snippets mlx5
cat "$tmp/all.out"
[ "$(wc -l <"$tmp/all.out")" -eq "$(grep -c '^def [a-z]' "$here/tests/verbs/pyverbs_snippets.py" | awk '{ print $1 - 1 }')" ] || fail "not all examples ran"
# the rows of the table: | `name` | passed or refused | reason |
cat "$tmp/all.out" | while IFS=: read -r name state rest; do
	row=$(grep "^| \`$name\` |" "$here/docs/python.md") || { echo "$name has no row in docs/python.md"; continue; }
	case $state,$row in
	*passed,*"| passed |"*) ;;
	*refused,*"| refused |"*) ;;
	*) echo "$name:$state${rest:+:}$rest, but docs/python.md: $row" ;;
	esac
done >"$tmp/wrong.out"
[ ! -s "$tmp/wrong.out" ] || fail "docs/python.md does not say what is so"
exit 0
