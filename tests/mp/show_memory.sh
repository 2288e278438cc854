#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What each of 64 ranks touches of memory (memory_touched.c). Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
program=$PWD/tests/mp/memory_touched
[ -x "$run" ] && [ -x "$program" ] || { echo "skipped: heddlerun or memory_touched is not built"; exit 77; }
if grep -q '__[at]san_init\|__ubsan_handle' .libs/libheddle.so.0; then
	echo "skipped: a sanitizer's own memory counts as the rank's"
	exit 77
fi
expect 0 "$run" -n 64 "$program"
cat "$out"
