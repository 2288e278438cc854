#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# SHCA_DEBUG=1 prints the reason of every refused call (docs/shca.md): so no verb of the device returns an error without a line.
# Searches the source for errors that are returned bare. An error whose line is printed elsewhere, or that refuses nothing, has a remark
# behind it:
# "refusal_log: WHERE". Tests are of the calls themselves (refusal_log.c); this finds the call that they have forgotten.
#
# mlx5_wqe.c computes, and is not asked by programs; files.c, interpose/files.c and interpose/directories.c answer for a file system.
set -eu
src=${srcdir:-$(dirname "$0")/../..}
found=$(cd "$src" && for f in src/verbs_exp/*.c src/shca/verbs/*.c src/shca/verbs/*/*.c src/shca/interpose/*.c; do
	case $f in */mlx5_wqe.c | */files.c | */directories.c) continue ;; esac
	awk -v f="$f" '
		/said: / { next }
		/return -?E[A-Z]+;|errno = E[A-Z]+;|(err|rc) = E[A-Z]+;|[?:] -?E[A-Z]+( :|;)/ && !/ENOSYS/ { print f ":" FNR ": " $0 }' "$f"
done)
[ -z "$found" ] || {
	echo "errors without a word where SHCA_DEBUG is set (shca_refuse, exp_refuse):"
	echo "$found"
	exit 1
}
