#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every set of queue kinds as HEDDLE_TRANSPORT, with limits of the selection, traffic, losses and ranks that follow from a
# seed: both sides of a pair come to lanes of one kind, whichever side reaches a limit first, with any limits of the other ranks, and
# with any one-sided traffic.
#     transport_kinds.sh [first seed [last seed]]     15 seeds are every set once; without arguments seeds 1 to 15
# Run from the build directory (make check) or with its name in HEDDLE_BUILD.
set -u
build=${HEDDLE_BUILD:-.}
run=$build/heddlerun
traffic=$build/tests/mp/transport_traffic
failed=0

[ -x "$run" ] && [ -x "$traffic" ] || { echo "skipped: $run is not built"; exit 77; }

# Picks one of the values, by the seed.
pick() {
	state=$(((state * 1103515245 + 12345) % 2147483648))
	shift $((state / 65536 % $#))
	echo "$1 $state"
}

seed=${1:-1}
last=${2:-$((seed + 14))}
while [ "$seed" -le "$last" ]; do
	set=$(((seed - 1) % 15 + 1))
	kinds=
	for bit in 1:rc 2:ud 4:xrc 8:dc; do
		[ $((set & ${bit%:*})) = 0 ] || kinds=$kinds${kinds:+,}${bit#*:}
	done
	state=$((seed * 7919))
	read -r hot state <<-EOF
		$(pick 1 2 5 16 40)
	EOF
	read -r ranks state <<-EOF
		$(pick 2 3 4 5 6 7)
	EOF
	read -r sparse state <<-EOF
		$(pick 0 1 1)
	EOF
	read -r rings state <<-EOF
		$(pick 1 2 16)
	EOF
	read -r drop state <<-EOF
		$(pick 0 0.05)
	EOF
	limits=
	while [ "$(echo "$limits" | wc -w)" -lt "$ranks" ]; do
		read -r limit state <<-EOF
			$(pick 0 1 2 3 256)
		EOF
		limits="$limits $limit"
	done
	settings="HEDDLE_TRANSPORT=$kinds HEDDLE_HOT_MESSAGES=$hot HEDDLE_RING_PEERS=$rings SHCA_FAULT=ud_drop=$drop"
	# each rank has a separate limit: word number rank of LIMITS
	# shellcheck disable=SC2016
	rank='set -- $LIMITS -- "$@"; shift $PMIX_RANK; export HEDDLE_RC_PEERS=$1; while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
	# the settings are several words on purpose
	# shellcheck disable=SC2086
	out=$(env $settings LIMITS="$limits" timeout -k 5 60 "$run" -n "$ranks" sh -c "$rank" rank "$traffic" 100 60000 "$seed" 0 "$sparse" 2>&1)
	status=$?
	if [ $status -ne 0 ] || ! echo "$out" | grep -qx ok; then
		echo "FAILED ($status), seed $seed: env $settings LIMITS='$limits' $run -n $ranks sh -c '$rank' rank $traffic 100 60000 $seed 0 $sparse"
		echo "$out" | tail -n 100
		failed=1
	fi
	seed=$((seed + 1))
done
[ $failed = 0 ] && echo "ok: up to seed $last"
exit $failed
