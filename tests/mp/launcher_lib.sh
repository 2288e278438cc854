# SPDX-License-Identifier: BSD-3-Clause
# For the tests of heddlerun: to be sourced. Run in the build directory.
set -u
run=$PWD/heddlerun
job=$PWD/tests/mp/runtime_job
tmp=$(mktemp -d)
export TMPDIR="$tmp/tmpdir"	# where heddlerun would leave something behind
mkdir "$TMPDIR"
out=$tmp/out err=$tmp/err
# Settings of the surrounding environment are not part of the test.
for v in $(env | sed -n 's/^\(PMIX_[A-Z_0-9]*\|PMI_[A-Z_]*\|OMPI_[A-Z_]*\|SLURM_[A-Z_]*\|HEDDLE_[A-Z_]*\)=.*/\1/p'); do unset "$v"; done
# Under sanitizers: leaks of the PMIx library itself are not ours.
echo 'leak:libpmix' >"$tmp/lsan.supp"
export LSAN_OPTIONS="suppressions=$tmp/lsan.supp:print_suppressions=0"
# No test may hang: every run of heddlerun ends within this time, or fails.
limit="timeout -k 5 60"
trap 'rm -rf "$tmp"' EXIT

fail() {
	echo "FAIL: $*"
	echo "--- standard output"; cat "$out" 2>/dev/null
	echo "--- standard error"; cat "$err" 2>/dev/null
	exit 1
}
# expect CODE COMMAND...: runs the command, keeps the output in $out and $err, compares the exit code.
expect() {
	expected=$1; shift
	$limit "$@" >"$out" 2>"$err" </dev/null
	code=$?
	[ $code = "$expected" ] || fail "exit code $code instead of $expected: $*"
}
# says FILE TEXT: the file holds a line with this text (a basic regular expression).
says() { grep -q -- "$2" "$1" || fail "'$2' is missing in $(basename "$1")"; }
says_not() { ! grep -q -- "$2" "$1" || fail "'$2' must not be in $(basename "$1")"; }
# lines FILE N: the file has N lines. (libpmix prints one of its own for a rank that is ended while connecting.)
lines() { n=$(grep -vc 'PMIX ERROR: UNREACHABLE in file .*connection_hdlr' "$1"); [ "$n" = "$2" ] || fail "$n lines instead of $2 in $(basename "$1")"; }
# wait_for COMMAND...: until the command succeeds; bounded.
wait_for() {
	for _ in $(seq 600); do
		"$@" 2>/dev/null && return 0
		sleep 0.05
	done
	fail "did not come true: $*"
}
# A zombie has ended.
gone() { case $(sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1) in '' | Z | X) return 0 ;; esac; return 1; }
stopped() { [ "$(sed 's/^.*) //' "/proc/$1/stat" | cut -c1)" = T ]; }
has_lines() { [ "$(grep -c -- "$2" "$1")" -ge "$3" ]; }
nothing_left() { [ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"; }
# counts_ranks PROGRAM...: $tmp/rank, which prints the device's counters of a rank (device_counts_rank.sh), can be made; else the test
# is skipped.
counts_ranks() {
	for p in "$@"; do
		[ -x "$p" ] || { echo "skipped: $p is not built"; exit 77; }
	done
	command -v ibv_asyncwatch >/dev/null || { echo "skipped: ibv_asyncwatch (Debian: ibverbs-utils) is not installed"; exit 77; }
	if grep -q '__[at]san_init\|__ubsan_handle' .libs/libshca.so.0; then
		echo "skipped: libshca was built with a sanitizer, which cannot be preloaded into ibv_asyncwatch"
		exit 77
	fi
	cp "$(dirname "$0")/device_counts_rank.sh" "$tmp/rank"
	chmod +x "$tmp/rank"
}
