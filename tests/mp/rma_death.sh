#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank dies that holds a window's lock, waits for one, is a target, or is waited for: every survivor is told, and the dead rank is
# named. Run in the build directory.
. "$(dirname "$0")/death_lib.sh"

dies() {	# dies RANKS DEAD CASE OPTION...
	ranks=$1 dead=$2 case=$3; shift 3
	one_dies "$ranks" "$dead" "$case, rank $dead of $ranks dies${*:+, $*}" "$@" tests/mp/rma_death "$dead" "$case" "$count"
}

dies 4 1 holder
dies 3 2 holder
dies 4 2 waiter
dies 3 1 target
dies 4 3 fence
dies 3 0 post
# by messages
dies 4 1 holder -x SHCA_BEHAVE=noarena
dies 3 1 target -x SHCA_BEHAVE=noarena
dies 3 0 post -x SHCA_BEHAVE=noarena
exit $((fails != 0))
