#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the fuzzer of verbs calls with clang (libFuzzer, AddressSanitizer, UndefinedBehaviorSanitizer), and runs it: fuzz.sh [SECONDS], else
# SHCA_FUZZ_SECONDS, else 30. SHCA_FUZZ_CORPUS: a directory that keeps the inputs that have reached something new. SHCA_FUZZ_CALLS: the most
# calls of an input. Run in the build directory.
set -eu
command -v clang >/dev/null || { echo "SKIP: no clang"; exit 77; }
seconds=${1:-${SHCA_FUZZ_SECONDS:-30}}
src=${srcdir:-..}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo 'int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n) { return p && n == 99; }' >"$dir/probe.c"
clang -fsanitize=fuzzer,address "$dir/probe.c" -o "$dir/probe" 2>/dev/null || { echo "SKIP: clang without libFuzzer"; exit 77; }

# the sources of vproc, without the tests
sources=$(printf 'show:\n\t@echo $(shca_sources)\n' | make -s -f Makefile -f - show | tr ' ' '\n' | grep '\.c$')
flags="-std=gnu11 -g -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -D_GNU_SOURCE -Wno-macro-redefined \
-Iinclude -I. -I$src/include -I$src/src -I$src/tests/verbs -I$src/tests/shca"
[ "$(uname -m)" != x86_64 ] || flags="$flags -mcx16"
cc=clang
! command -v ccache >/dev/null || cc="ccache clang"
objects=
for s in $sources tests/shca/rig.c tests/shca/fuzz_verbs.c; do
	o=$dir/$(echo "$s" | tr / _).o
	objects="$objects $o"
	printf '%s\n' "$src/$s $o"
done >"$dir/list"
xargs -P "$(nproc)" -L 1 sh -c "$cc $flags"' -c "$0" -o "$1"' <"$dir/list" || { echo "FAIL: the fuzzer does not build"; exit 1; }
# shellcheck disable=SC2086
clang -fsanitize=fuzzer,address,undefined $objects -o "$dir/fuzz" -libverbs -lpthread -ldl
corpus=${SHCA_FUZZ_CORPUS:-$dir/corpus}
mkdir -p "$corpus"
# leaks: memory of a dying process in this address space is not freed
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	"$dir/fuzz" -max_total_time="$seconds" -max_len=$((32 * ${SHCA_FUZZ_CALLS:-64})) -len_control=0 -timeout=60 -rss_limit_mb=6000 -print_final_stats=1 -artifact_prefix="${SHCA_FUZZ_CORPUS:-.}/" \
	"$corpus" >"$dir/out" 2>&1 || { tail -n 60 "$dir/out"; echo "FAIL: the input is in ${SHCA_FUZZ_CORPUS:-.}"; exit 1; }
grep 'stat::number_of_executed_units\|^Done\|^[0-9]* calls' "$dir/out"
exit 0
