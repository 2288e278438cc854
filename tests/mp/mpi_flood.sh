#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Messages that come before their receive: their memory is bounded by HEDDLE_UNEXPECTED_MAX, on every lane, and that of
# messages of up to 32 bytes by twice that or 16 MiB, with tables of 200 bytes a message; but for the announcements of those that
# wait (128 bytes each, and a table). All of them are received.
set -u
top=${MPI_TEST_BUILD:-.}
failed=0

[ -x "$top/heddlerun" ] || { echo "no $top/heddlerun"; exit 1; }

# ranks, KiB by which rank 0 may grow, messages, bytes, way, environment...
flood() {
	n=$1 kib=$2 messages=$3 bytes=$4 way=$5
	shift 5
	out=$(env "$@" timeout -k 5 120 "$top/heddlerun" -n "$n" "$top/tests/mp/mpi_flood" "$messages" "$bytes" "$way" "$kib" 2>&1)
	status=$?
	case $status-$out in
	0-*"flood: ok, $n ranks"*) ;;
	*)
		echo "FAILED: $* heddlerun -n $n mpi_flood $messages $bytes $way $kib: status $status"
		echo "$out" | tail -n 100
		failed=1
		;;
	esac
}

for kind in "" rc ud xrc dc; do
	flood 2 22000 30000 1024 reverse "HEDDLE_TRANSPORT=$kind" HEDDLE_UNEXPECTED_MAX=8m
	flood 2 13000 30000 1024 order "HEDDLE_TRANSPORT=$kind" HEDDLE_UNEXPECTED_MAX=8m
	flood 3 14000 20000 1024 probe "HEDDLE_TRANSPORT=$kind" HEDDLE_UNEXPECTED_MAX=8m
done
# without rings most messages wait in the senders' lists, which are emptied as fast as rank 0 takes them in
flood 3 30000 20000 1024 reverse HEDDLE_RING_SIZE=0 HEDDLE_UNEXPECTED_MAX=8m
flood 2 14000 10000 8000 reverse HEDDLE_UNEXPECTED_MAX=8m
flood 2 4000 10000 40 probe HEDDLE_UNEXPECTED_MAX=0
# the message for which rank 0 waits gets through: it is short, like those before; or its sender has sent little
for kind in "" ud; do
	flood 4 24000 30000 8 release "HEDDLE_TRANSPORT=$kind" HEDDLE_UNEXPECTED_MAX=64k
	flood 4 14000 5000 1024 innocent "HEDDLE_TRANSPORT=$kind" HEDDLE_UNEXPECTED_MAX=512k
done
# 200 MB, with default settings
flood 2 120000 200000 1024 reverse HEDDLE_DEBUG=0

# short ones: 400,000 take 110 MB where nothing bounds them, tables included
for kind in "" ud; do
	flood 2 60000 400000 8 probe "HEDDLE_TRANSPORT=$kind" HEDDLE_UNEXPECTED_MAX=4m
done

# messages of senders that are held back always, or now and then, arrive all the same
for max in 0 20k; do
	for kind in "" ud dc; do
		out=$(HEDDLE_UNEXPECTED_MAX=$max HEDDLE_TRANSPORT=$kind timeout -k 5 120 "$top/heddlerun" -n 3 "$top/tests/mp/mpi_stress" 2>&1) ||
			{ echo "FAILED: HEDDLE_UNEXPECTED_MAX=$max HEDDLE_TRANSPORT=$kind mpi_stress: $out"; failed=1; }
	done
done
HEDDLE_UNEXPECTED_MAX=0 MPI_TEST_PROGRAMS=threads sh "${srcdir:-$(dirname "$0")/../..}/tests/mp/mpi_run.sh" || failed=1
exit $failed
