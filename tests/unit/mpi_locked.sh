#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# MPI_THREAD_MULTIPLE: every function that src/mpi exports begins with HDL_LOCKED (HDL_TOOL has it), or says HDL_NO_LOCK.
set -u
cd "${srcdir:-$(dirname "$0")/../..}/src/mpi" || exit 1
set -- *.c *.h
out=$(awk '
	/^[A-Za-z_].* \**PMPI_[A-Za-z_#]*\(/ && !/;[ \t\\]*$/ && !/^#define HDL_PROFILED/ { name = $0; functions++; want = 1 }
	want && want++ > 1 && /^{/ { body = 1; next }
	body {
		if ($1 !~ /^(HDL_LOCKED|HDL_NO_LOCK|HDL_TOOL|HDL_TOOL_GIVES\([a-z_]*\));$/)
			print FILENAME ": " name
		want = body = 0
	}
	END { if (functions < 100 || want) print "only " functions " functions were understood" }
' "$@")
[ -z "$out" ] && exit 0
echo "FAILED: no HDL_LOCKED and no HDL_NO_LOCK (see mpi_internal.h) at the beginning of"
echo "$out"
exit 1
