#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A member of a window dies: ranks that use that member get the error, with the dead rank's name, and the other ranks go on in the same
# window (rma_member_dies.c). RMA_DEATH=all: all cases on every flavour, and random deaths by the dozen. Run in the build directory.
. "$(dirname "$0")/death_lib.sh"

dies() {	# dies RANKS DEAD FLAVOUR WHAT [MICROSECONDS]
	one_dies "$1" "$2" "$4 on a window of $3, rank $2 of $1 dies${5:+ after $5 us}" tests/mp/rma_member_dies "$2" "$3" "$4" "$count" ${5:-}
}

dies_at() {	# dies_at RANKS DEAD FLAVOUR POINT [WHAT]
	one_dies "$1" "$2" "at $4 on a window of $3, rank $2 of $1 dies" tests/mp/rma_member_dies_at "$2" "$3" "${5:-random}" "$count" "$4"
}

points="lock-wanted lock-entered lock-drawn lock-admitted lock-exclusive lock-shared unlock-released unlock-cleared hashed-locked hashed-written"
if [ "${RMA_DEATH:-}" = all ]; then
	for point in $points swap; do
		for flavour in allocate shared; do
			dies_at 2 1 $flavour $point
			dies_at 4 0 $flavour $point
		done
	done
	for point in $points hashed-computed; do
		dies_at 3 2 create $point
	done
	for flavour in create allocate shared dynamic; do
		for what in put get accumulate fetch_and_op compare_and_swap lock holder flush start wait fence freed groups; do
			dies 2 1 $flavour $what
			dies 4 0 $flavour $what
			dies 5 2 $flavour $what
		done
		for us in 100 300 1000 2000 4000 7000 12000 20000 33000 50000 80000 130000 210000; do
			dies 4 $((us / 100 % 4)) $flavour random $us
		done
	done
	export RMA_GRANULARITY=8
	for what in accumulate fetch_and_op compare_and_swap flush; do
		dies 2 1 create $what
		dies 5 2 create $what
	done
	for us in 100 1000 7000 33000 130000; do
		dies 4 $((us / 100 % 4)) create random $us
		SHCA_BEHAVE=noarena dies 4 $((us / 100 % 4)) create random $us
	done
else
	dies 3 1 allocate put
	dies 3 0 create get
	dies 3 2 shared accumulate
	dies 3 0 dynamic fetch_and_op
	dies 3 1 create compare_and_swap
	dies 3 1 allocate lock
	dies 4 2 shared holder
	dies 2 1 allocate holder
	dies 3 0 create holder
	dies 3 2 create flush
	dies 3 1 allocate start
	dies 3 0 shared wait
	dies 3 1 create fence
	dies 4 3 allocate freed
	SHCA_BEHAVE=noarena dies 4 3 create freed
	dies 4 0 allocate groups
	SHCA_BEHAVE=noarena dies 4 3 create groups
	SHCA_BEHAVE=noarena dies 3 0 dynamic freed
	export RMA_GRANULARITY=8	# accumulates by the device
	dies 3 1 create accumulate
	dies 3 2 create compare_and_swap
	dies 4 1 create random 5000
	dies_at 3 1 create device-swap
	unset RMA_GRANULARITY
	for us in 500 5000 40000; do
		dies 4 1 allocate random $us
		dies 3 0 create random $us
	done
	for point in $points swap; do
		dies_at 3 1 allocate $point
	done
	dies_at 3 1 create hashed-computed
	dies_at 3 1 allocate hashed-locked within
	dies_at 3 0 create hashed-computed within
	dies_at 2 1 shared hashed-written within
fi
exit $((fails != 0))
