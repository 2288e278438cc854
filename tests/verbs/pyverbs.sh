#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdma-core's own tests, where they are installed (Debian: python3-pyverbs, rdma-core). One of them hands a context to
# forked children, which a device in user space cannot serve: they do not have its memory. Another expects queues on huge pages
# (MLX_CQ_ALLOC_TYPE=HUGE) where the host has free ones: queues lie in the fabric's memory, which has none, and the device refuses.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
tests=/usr/share/doc/rdma-core/tests
[ -d $tests ] || skip "$tests is not there"
/usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null || skip "python3-pyverbs is not installed"
known='test_multi_process_alloc_dm\|test_obj_on_huge'

mkdir "$tmp/tests" || exit 99
cp $tests/*.py "$tmp/tests/"
for f in $tests/*.py.gz; do
	gzip -dc "$f" >"$tmp/tests/$(basename "$f" .gz)"
done
# run AT-LEAST OPTION...: only known tests fail, and at least AT-LEAST pass
run() {
	least=$1
	shift
	(cd "$tmp" && timeout 900 "$OLDPWD/$shcarun" /usr/bin/python3 -W ignore tests/run_tests.py --dev shca0 -v "$@") >"$tmp/run.out" 2>&1
	grep -a '^Ran [0-9]* tests' "$tmp/run.out" || fail "the tests did not run to their end"
	grep -a '^FAILED\|^OK' "$tmp/run.out"
	failed=$(grep -aE '^(ERROR|FAIL): ' "$tmp/run.out" | grep -av "$known")
	[ -z "$failed" ] || { tail -n 200 "$tmp/run.out"; fail "$failed"; }
	[ "$(grep -acE '\.\.\. ok$|^ok$' "$tmp/run.out")" -ge "$least" ] || fail "fewer than $least tests passed: were they skipped?"
}
run 100
# those for an mlx5: DC, completion queues, raw work requests, places of queues
SHCA_IDENTITY=connectx run 12 -k mlx5
# raw packet queue pairs and flows, on an Ethernet port
export SHCA_LINK=ethernet
run 13 -k test_flow.FlowTest -k test_create_raw -k test_query_raw -k CqEx
exit 0
