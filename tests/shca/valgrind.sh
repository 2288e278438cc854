#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Under valgrind: a process that ends without having closed the device makes no error, and the leak check ends. A leak check of the
# fabric's address space would take minutes, and every word would cost a signal. And a test that reads another process's memory, and tests
# that destroy objects while other threads use them.
if ! command -v valgrind >/dev/null; then
	echo "SKIP: valgrind is not installed"
	exit 77
fi
grep -q 'HAVE_VALGRIND_MEMCHECK_H 1' config.h || {
	echo "SKIP: built without valgrind's header"
	exit 77
}
program()
{
	[ -x "tests/shca/.libs/$1" ] && echo "tests/shca/.libs/$1" || echo "tests/shca/$1"
}
prog=$(program exit_without_close)
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
failed=0
for how in exit _exit signal; do
	timeout 100 valgrind --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=none $prog $how >"$out" 2>&1
	rc=$?
	# 143: by the signal that the program sent itself
	want=0
	[ $how = signal ] && want=143
	if [ $rc -ne $want ] || [ "$(grep -c 'ERROR SUMMARY: 0 errors' "$out")" -ne 2 ] || ! grep -q 'LEAK SUMMARY\|no leaks' "$out"; then
		echo "FAIL: $how: status $rc instead of $want (124: no end)"
		tail -n 60 "$out"
		failed=1
	fi
done
for test in memcheck_peer_arena rnr_list_destroy device_fatal_modify common_qp_last_handle; do
	# each case is a child with separate errors and status
	timeout 300 valgrind --error-exitcode=9 "$(program $test)" >"$out" 2>&1 || {
		echo "FAIL: $test: status $? (124: no end)"
		grep -v ' ok$' "$out" | tail -n 60
		failed=1
	}
done
# MPI: private memory into which peers wrote is initialised, by the kernel's copies and by proxy threads; leaks of the PMIx library are
# suppressed.
for cma in yes no; do
	timeout 200 ./heddlerun -n 2 -x SHCA_CMA=$cma valgrind --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=9 \
		--suppressions="$(dirname "$0")/../../share/valgrind.supp" tests/mp/mpi_memcheck_received >"$out" 2>&1 || {
		echo "FAIL: mpi_memcheck_received, SHCA_CMA=$cma: status $? (124: no end)"
		tail -n 60 "$out"
		failed=1
	}
done
exit $failed
