#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each line of a call stack in docs/life.md ("    function    src/file    ...") names a function that is defined in that file.
set -u
cd "${srcdir:-$(dirname "$0")/../..}" || exit 1
lines=$(sed -n 's/^    \([a-zA-Z_][a-zA-Z_0-9]*\)  *\(src\/[^ ]*\.[ch]\).*/\1 \2/p' docs/life.md)
n=0 fails=0
while read -r function file; do
	n=$((n + 1))
	case $function in
	PMPI_*) # macros make the forms of a function
		grep -qwE "$function|$function##_c|${function#PMPI_}" "$file" 2>/dev/null && continue ;;
	*) # a definition begins in the first column, and its first line does not end with a semicolon
		grep -E "^([a-zA-Z_].*[ *])?$function\(" "$file" 2>/dev/null | grep -qv ';[[:space:]]*$' && continue ;;
	esac
	echo "FAILED: docs/life.md: $function is not defined in $file"
	fails=$((fails + 1))
done <<END
$lines
END
[ $n -ge 50 ] || { echo "FAILED: only $n lines of call stacks were understood"; fails=$((fails + 1)); }
[ $fails = 0 ]
