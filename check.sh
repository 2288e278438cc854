#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The whole test run: installs what is missing, builds out of tree with warnings as errors, runs every test that needs
# no hardware, then the lock-free and parsing parts again under sanitizers. Ends with "N passed, N failed".
#   ./check.sh            everything
#   ./check.sh --quick    the plain build and its shorter tests: for use between two changes
set -u
cd "$(dirname "$0")"
top=$PWD
quick=no
[ "${1:-}" = --quick ] && quick=yes
. scripts/debian.sh
heddle_packages check || exit 1
jobs=$(nproc)
# Tests at a time. The quick ones wait more than they compute (on 2 processors 710 s one behind the other, 275 s of processor time): one
# more than there are processors.
lanes=$jobs
[ $quick = no ] || lanes=$((jobs + 1))
passed=0 failed=0 skipped=0
words=$(mktemp) || exit 1	# of the tests that failed
trap 'rm -f "$words"' EXIT

note() { printf '\n== %s\n' "$*"; }

# Builds tree $1 with configure options $2; a failure counts as one failed test.
build() {
	mkdir -p "$1"
	if [ ! -f "$1/Makefile" ] || [ configure -nt "$1/config.status" ]; then
		(cd "$1" && "$top/configure" -q --enable-werror $2) || { failed=$((failed + 1)); return 1; }
	fi
	make -s -C "$1" -j"$jobs" all $3 || { echo "FAIL: build of $1 ($2)"; failed=$((failed + 1)); return 1; }
	passed=$((passed + 1))
}

# Runs the tests $2 of tree $1 and builds these programs only (empty: all tests), $lanes at a time; adds up automake's counts.
run() {
	if [ -z "$2" ]; then
		# make check, in two steps: a program that does not build is reported by the second
		make -s -C "$1" -j"$jobs" check TESTS= >/dev/null 2>&1 </dev/null
		make -s -C "$1" -j"$lanes" check >"$1/check.out" 2>&1 </dev/null
	else
		make -s -C "$1" -j"$lanes" check-TESTS check_PROGRAMS= TESTS="$2" >"$1/check.out" 2>&1 </dev/null
	fi
	rc=$?
	grep -E '^(PASS|FAIL|XFAIL|XPASS|SKIP|ERROR): ' "$1/check.out"
	n=$(sed -n 's/^# PASS: *//p' "$1/check.out" | tail -n 1); passed=$((passed + ${n:-0}))
	for kind in FAIL XPASS ERROR; do
		n=$(sed -n "s/^# $kind: *//p" "$1/check.out" | tail -n 1); failed=$((failed + ${n:-0}))
	done
	n=$(sed -n 's/^# SKIP: *//p' "$1/check.out" | tail -n 1); skipped=$((skipped + ${n:-0}))
	grep -q '^# TOTAL' "$1/check.out" || { tail -n 40 "$1/check.out"; failed=$((failed + 1)); return; }
	if [ $rc -ne 0 ]; then
		find "$1/tests" -name '*.trs' 2>/dev/null | while read -r trs; do
			grep -q '^:test-result: \(FAIL\|ERROR\)' "$trs" || continue
			printf -- '--- %s\n' "${trs%.trs}"
			tail -n 60 "${trs%.trs}.log"
		done >>"$words"
	fi
}

# The words of variable $2 of tree $1's Makefile, a line each.
variable() {
	printf 'show:\n\t@echo $(%s)\n' "$2" | make -s -C "$1" -f Makefile -f - show | tr ' ' '\n'
}

# The tests of tree $1 without the guests, perftest, and the scripts that take long because they go through all queue kinds or executors.
quick_long="correct|random|queue_cache|vector|hosts|port_down|single_copy|sc_staging|pipelined|ranks_stopped|persistent_starts|memory|uncompleted|death_random|reduce_order"
quick_tests() {
	variable "$1" TESTS |
		grep -vE "^tests/(vm/run|shca/((fuzz|vproc|random_kills).sh|step_counts)|verbs/((perftest|interop).sh|access)|mp/(transport|mpi_run|mpi_flood|mpi_comm_join|rma|rma_random|dpm_spawn|launcher_leftovers|launcher_timeout|coll_($quick_long)).sh)$" | tr '\n' ' '
}

# Makes the tarball of tree $1; every file of the repository must be in the tarball (EXTRA_DIST), where there is a repository.
tarball() {
	rm -f "$1"/heddle-*.tar.xz
	make -s -C "$1" dist >"$1/dist.out" 2>&1 </dev/null && tar -tf "$1"/heddle-*.tar.xz >"$1/dist.files" || {
		echo "FAIL: make dist in $1"
		tail -n 20 "$1/dist.out"
		failed=$((failed + 1))
		return
	}
	missing=$(git ls-files 2>/dev/null | while read -r f; do
		[ "$f" = .gitignore ] || grep -q "^heddle-[^/]*/$f\$" "$1/dist.files" || echo "$f"
	done)
	if [ -n "$missing" ]; then
		echo "FAIL: not in the tarball:" $missing
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}

note "configure"
./autogen.sh >autogen.log 2>&1 || { cat autogen.log; echo "0 passed, 1 failed"; exit 1; }
rm -f autogen.log

note "gcc"
if build build-check "" ""; then
	if [ $quick = yes ]; then
		make -s -C build-check -j"$jobs" check TESTS= >/dev/null 2>&1
		run build-check "$(quick_tests build-check)"
	else
		run build-check ""
	fi
	tarball build-check
fi

if [ $quick = no ]; then
	note "mutants: the tests notice what is broken"
	if tests/mutants --check --seconds 140; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
	note "clang, warnings as errors; AddressSanitizer, UndefinedBehaviorSanitizer"
	# tests that run other projects' programs or start hundreds of ranks are left to the plain build
	# (a program may have several sources with tests)
	tests=$(grep -l '^Test(' tests/unit/*.c | sed 's/\.c$//' | grep -Fx "$(variable build-check check_PROGRAMS)" | tr '\n' ' ')
	LSAN_OPTIONS="suppressions=$top/share/lsan.supp:print_suppressions=0"
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
	export LSAN_OPTIONS UBSAN_OPTIONS
	# (port_events ends processes whose helper threads live, which LeakSanitizer cannot stop)
	for t in state errors events traffic objects device exp exp_dc exp_calls exp_xrc open_qp raw statuses mlx5; do
		tests="$tests tests/verbs/$t"
	done
	for t in fabric_stress rnr_list_destroy timers device_fatal_modify copy_share_death common_qp_last_handle slot_reuse_death interleavings \
		common_qp_death control_path_death stale_threads task_lists wakeups completions datagram_death wc_error_qp_state process_limits proxy_mailbox_death; do
		tests="$tests tests/shca/$t"
	done
	ranks="sizes order semantics types comms ptp streams stress signatures threads"
	build build-asan "--enable-sanitizers CC=clang CXX=clang++" "$(printf 'tests/mp/mpi_%s ' $ranks)" &&
		MPI_TEST_RANKS=2 MPI_TEST_KINDS="default rc" MPI_TEST_PROGRAMS=$ranks run build-asan "tests/mp/mpi_run.sh $tests"
fi

# at the end, where a reader of the last lines finds them
cat "$words"
printf '\n%d passed, %d failed, %d skipped\n' $passed $failed $skipped
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
