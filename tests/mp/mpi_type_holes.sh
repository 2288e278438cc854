#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Types with holes, and buffers at the edges of mapped memory, on every executor of collectives and several kinds of queues. Run in the
# build directory. HOLES: numbers of elements, for a long run.
set -u
fails=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

try() {	# try NAME RANKS ARGS...
	name=$1 n=$2
	shift 2
	if timeout -k 5 240 ./heddlerun -n "$n" -x HEDDLE_REPORT_COLLECTIVES=1 "$@" >"$tmp/out" 2>"$tmp/err"; then
		echo "ok: $name, $n ranks"
	else
		echo "FAILED ($?): $name, $n ranks"
		grep -v '^heddle:  ' "$tmp/err" | cat "$tmp/out" - | tail -n 8
		fails=$((fails + 1))
	fi
}

reported() {	# reported TEXT WHAT
	grep -q -- "$1" "$tmp/err" && return
	echo "FAILED: the report does not say $2"
	fails=$((fails + 1))
}

# shellcheck disable=SC2086
for executor in host mailbox tasks; do
	try "reductions, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/mpi_type_holes reduce ${HOLES:-1 3}
	reported "allreduce .* $executor " "that an Allreduce was on $executor"
	try "data, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/mpi_type_holes move ${HOLES:-1 3}
done
try "reductions by copies between buffers" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/mpi_type_holes reduce ${HOLES:-3 200}
reported 'allreduce .* single-copy' 'that an Allreduce was by reads'
try "reductions by copies, two ranks" 2 -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/mpi_type_holes reduce ${HOLES:-3}
try "data by copies between buffers" 3 -x HEDDLE_COLL_EXECUTOR=mailbox -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/mpi_type_holes move ${HOLES:-200}
try "reductions in a fixed order" 4 -x HEDDLE_REDUCE_ORDER=fixed tests/mp/mpi_type_holes reduce ${HOLES:-2}
try "compared" 2 -x HEDDLE_CHECK=1 tests/mp/mpi_type_holes reduce ${HOLES:-2}
try "by hosts, in stages" 3 -x HEDDLE_DEVICE=shca0 -x HOSTS=0,0,1 -x HOLES_TYPES=8 -x HEDDLE_COLL_HIERARCHY=2 tests/mp/mpi_type_holes_hosts reduce ${HOLES:-3}
reported 'allreduce .*two-level' 'that an Allreduce went by hosts'
for kind in rc ud dc; do
	try "messages, queue kind $kind" 2 -x HEDDLE_TRANSPORT=$kind tests/mp/mpi_type_holes ptp ${HOLES:-1 5 1500}
done
exit $((fails != 0))
