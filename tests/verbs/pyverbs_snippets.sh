#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every example of pyverbs' documentation passes, or stands in the table of docs/python.md with the device's reason.
. "${srcdir:-.}/tests/verbs/common.sh"
/usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null || skip "python3-pyverbs is not installed"
here=${srcdir:-.}
timeout 120 "$shcarun" /usr/bin/python3 "$here/tests/verbs/pyverbs_snippets.py" shca0 >"$tmp/any.out" 2>"$tmp/any.err" ||
	{ cat "$tmp/any.err"; fail "the examples of any device end with $?"; }
SHCA_IDENTITY=connectx timeout 120 "$shcarun" /usr/bin/python3 "$here/tests/verbs/pyverbs_snippets.py" shca0 mlx5 >"$tmp/mlx5.out" 2>"$tmp/mlx5.err" ||
	{ cat "$tmp/mlx5.err"; fail "the examples of an mlx5 end with $?"; }
cat "$tmp/any.out" "$tmp/mlx5.out"
[ "$(cat "$tmp/any.out" "$tmp/mlx5.out" | wc -l)" -eq "$(grep -c '^def [a-z]' "$here/tests/verbs/pyverbs_snippets.py" | awk '{ print $1 - 1 }')" ] || fail "not all examples ran"
# the rows of the table: | `name` | passed or refused | reason |
cat "$tmp/any.out" "$tmp/mlx5.out" | while IFS=: read -r name state rest; do
	row=$(grep "^| \`$name\` |" "$here/docs/python.md") || { echo "$name has no row in docs/python.md"; continue; }
	case $state,$row in
	*passed,*"| passed |"*) ;;
	*refused,*"| refused |"*) ;;
	*) echo "$name:$state${rest:+:}$rest, but docs/python.md: $row" ;;
	esac
done >"$tmp/wrong.out"
[ ! -s "$tmp/wrong.out" ] || fail "docs/python.md does not say what is so"
exit 0
