#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each kind of queue, forced: the device's counters of the queues of that kind equal the numbers of --report-transports, request for
# request and byte for byte. A way around the verbs would show. Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
allreduce=$PWD/bench/hd_allreduce
counts_ranks "$run" "$allreduce" "$PWD/shcactl" "$PWD/shcarun"

# reported KIND, counted TYPE: requests and bytes, "0 0" without any
reported() {
	awk -v kind="$1" '/^heddle: transports: rank [0-9]+: / && $6 == kind && $7 ~ /^queues:?$/ {
		for (i = 7; i < NF; i++) {
			if ($(i + 1) == "requests") n += $i
			if ($(i + 1) == "bytes") b += $i
		}
	} END { printf "%.0f %.0f", n, b }' "$err"
}
counted() { awk -F, -v type="$1" '$1 == type { n = $4; b = $5 } END { printf "%.0f %.0f", n, b }' "$tmp/totals"; }

# check TRANSPORT KIND: all kinds are equal, and this one carried something
check() {
	for pair in RC:RC UD:UD XRC:XRC_SEND DC:DCI; do
		r=$(reported "${pair%:*}") c=$(counted "${pair#*:}")
		[ "$r" = "$c" ] || fail "HEDDLE_TRANSPORT=$1: ${pair%:*}: reported $r requests and bytes, the device counted $c:
$(cat "$tmp/totals")"
		[ "${pair%:*}" != "$2" ] || forced=$r
	done
	[ "${forced% *}" -gt 100 ] || fail "HEDDLE_TRANSPORT=$1: ${forced% *} requests only"
}
job() { expect 0 "$run" -n 4 --report-transports "$tmp/rank" "$tmp" "$PWD" "$allreduce" -c -i 30:3 -x 3:1 "$@"; }

for t in rc ud xrc dc; do
	kind=$(echo $t | tr a-z A-Z)
	HEDDLE_TRANSPORT=$t
	export HEDDLE_TRANSPORT
	# by default: where ranks outnumber cores, the device carries out small reductions
	job
	says "$out" '^# Validation: Pass'
	check $t "$kind"
	echo "$t: $forced requests and bytes"
	# everything by messages: then only connections are made over another kind
	HEDDLE_COLL_EXECUTOR=host; export HEDDLE_COLL_EXECUTOR
	job
	check $t "$kind"
	for other in RC XRC DC; do
		[ $other = "$kind" ] || [ "$(reported $other)" = "0 0" ] || fail "HEDDLE_TRANSPORT=$t: $other carried $(reported $other)"
	done
	echo "$t, messages: $forced requests and bytes"
	unset HEDDLE_COLL_EXECUTOR
done
# the device's own reductions: atomics and managed queues
unset HEDDLE_TRANSPORT
HEDDLE_COLL_EXECUTOR=tasks
export HEDDLE_COLL_EXECUTOR
job -T int64 -m 8:1024
says "$err" 'RC queues of offloaded collectives'
check "" RC
echo "offloaded: $forced requests and bytes"
