#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# perftest: all sizes, each line of the table. perftest spins without yielding, so that each iteration costs a time slice
# where the cores are busy: few iterations, long limits.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
need ib_send_lat ib_send_bw ib_write_lat ib_write_bw ib_read_lat ib_read_bw ib_atomic_lat ib_atomic_bw

# sizes PROGRAM LAST COUNT: the client's table ends at LAST bytes and has COUNT lines with positive figures
sizes() {
	awk -v last="$2" -v count="$3" '
		/^ #bytes/ { table = 1; next }
		/^---/ { table = 0 }
		table && $1 ~ /^[0-9]+$/ { n++; seen = $1; if ($4 + 0 <= 0) bad = 1 }
		END { exit !(n == count && seen == last && !bad) }' "$tmp/client.out" || fail "$1: the table is not complete"
}
for what in send write read; do
	for how in lat bw; do
		pair 280 ib_${what}_$how -c RC -a -n 100
		sizes ib_${what}_$how 8388608 23
	done
done
for how in lat bw; do
	pair 280 ib_atomic_$how -c RC -n 100
	sizes ib_atomic_$how 8 1
	pair 280 ib_atomic_$how -c RC -A CMP_AND_SWAP -n 100
	pair 280 ib_send_$how -c UD -a -n 100
	sizes ib_send_$how 4096 12
	pair 280 ib_send_$how -c RC -e -n 100
	sizes ib_send_$how $([ $how = lat ] && echo 2 || echo 65536) 1
	pair 280 ib_send_$how -c RC --use-srq -n 100
	pair 280 ib_write_$how -c UC -s 4096 -n 100
	pair 280 ib_send_$how -c XRC -s 1024 -n 100
done
# DC: of an mlx5 only, by mlx5dv. (No -e: perftest's DC server destroys the channel before the CQ that uses it.)
export SHCA_IDENTITY=connectx
for what in send write read atomic; do
	for how in lat bw; do
		pair 280 ib_${what}_$how -c DC -n 100
	done
done
pair 280 ib_send_lat -c DC -a -n 100
sizes ib_send_lat 8388608 23
pair 280 ib_send_bw -c DC -b -q 4 -n 100
exit 0
