#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The transport and MPI on devices without some features (SHCA_BEHAVE, docs/shca.md): two combinations; with
# --long (half an hour) the whole of transport.sh with each word alone, and with all.
# Run from the build directory (make check) or with its name in HEDDLE_BUILD.
set -u
here=$(dirname "$0")
build=${HEDDLE_BUILD:-.}
run=$build/heddlerun
traffic=$build/tests/mp/transport_traffic
all=nosequence,noodp,noarena,noorder,nowake

[ -x "$run" ] && [ -x "$traffic" ] || { echo "skipped: $run is not built"; exit 77; }
. "$here/transport_lib.sh"

if [ "${1:-}" = --long ]; then
	for behave in async noarena noodp noorder nosequence nowake async,noodp,noarena,noorder,nowake $all; do
		echo "SHCA_BEHAVE=$behave"
		SHCA_BEHAVE=$behave sh "$here/transport.sh" || failed=1
	done
	exit $failed
fi

for kind in "" rc xrc dc "dc,ud"; do
	# rings that the receiver clears: small ones, which wrap at once; and none at all
	try 2 SHCA_BEHAVE=nosequence HEDDLE_TRANSPORT=$kind HEDDLE_RING_SIZE=2048 HEDDLE_HOT_MESSAGES=1 -- "$traffic" 1500 20000 5
	try 3 SHCA_BEHAVE=$all HEDDLE_TRANSPORT=$kind -- "$traffic" 500 60000 2
	try 2 SHCA_BEHAVE=noodp,noarena HEDDLE_TRANSPORT=$kind HEDDLE_RNDV_CHUNK=4096 -- "$traffic" 700 300000 22
done
for kind in rc xrc dc; do
	for behave in nosequence nosequence,nowake ""; do
		try 2 SHCA_BEHAVE=$behave HEDDLE_TRANSPORT=$kind HEDDLE_RENDEZVOUS=split HEDDLE_RING_MAX=16k -- "$build/tests/mp/transport_rndv_split"
	done
done
try 4 SHCA_BEHAVE=$all -- "$build/tests/mp/transport_sleep" 12
try 2 SHCA_BEHAVE=async,nowake -- "$build/tests/mp/transport_eager_off"

# different words on each rank: all ranks choose alike, and each relies only on promises of its own device and the peer's
# shellcheck disable=SC2016
unequal='case $PMIX_RANK in 0) b=noorder ;; 1) b=async ;; 2) b=nosequence,nowake ;; 3) b=noarena,noodp ;; *) b= ;; esac
	export SHCA_BEHAVE=$b; exec "$@"'
for kind in "" rc xrc "dc,ud"; do
	try 5 HEDDLE_TRANSPORT=$kind HEDDLE_HOT_MESSAGES=2 -- sh -c "$unequal" rank "$traffic" 200 60000 3
done
# of collectives: a single rank that no write wakes must not leave the other ranks waiting for its queues
for words in nowake async noodp; do
	rank="[ \$PMIX_RANK = 1 ] && export SHCA_BEHAVE=$words; exec \"\$0\" 10"
	out=$(timeout -k 5 120 "$run" -n 3 sh -c "$rank" "$build/tests/mp/coll_random" 2>&1) ||
		{ echo "FAILED: collectives, SHCA_BEHAVE=$words on rank 1 alone: $out" | tail -n 100; failed=1; }
done
# an expected limitation is no error
out=$(SHCA_BEHAVE=noorder timeout -k 5 120 "$run" -n 3 "$build/tests/mp/coll_random" 10 2>&1)
case $out in
*"random: ok"*) echo "$out" | grep 'heddle:' && { echo "FAILED: a foreseen fallback is told as an error"; failed=1; } ;;
*) echo "FAILED: collectives, SHCA_BEHAVE=noorder: $out" | tail -n 100; failed=1 ;;
esac

# registrations: other pages at the same addresses; room for one, or for none; not to be had
pages=$build/tests/mp/transport_pages_remapped
for kind in "" rc dc; do
	try 2 SHCA_BEHAVE=noodp HEDDLE_TRANSPORT=$kind -- "$pages" 3
	try 2 SHCA_BEHAVE=noodp,noarena HEDDLE_TRANSPORT=$kind HEDDLE_RENDEZVOUS=read -- "$pages" 2
done
try 2 SHCA_BEHAVE="" -- "$pages" 2 any
try 2 SHCA_BEHAVE=noodp HEDDLE_REGCACHE_ENTRIES=1 -- "$pages" 1 any
try 2 SHCA_BEHAVE=noodp HEDDLE_REGCACHE_SIZE=50000 -- "$pages" 1 any
try 2 SHCA_BEHAVE=noodp HEDDLE_REGCACHE_SIZE=0 -- "$pages" 1 any
try 2 SHCA_BEHAVE=noodp,noarena HEDDLE_REGCACHE_ENTRIES=2 HEDDLE_TRANSPORT=rc -- "$traffic" 700 300000 22
said=$(SHCA_BEHAVE=noodp LACK_USERFAULTFD=1 timeout -k 5 60 "$run" -n 2 "$pages" 1 any 2>&1)
[ "$(echo "$said" | grep -c 'are not kept.*userfaultfd')" = 1 ] && echo "$said" | grep -qx ok || { echo "FAILED: without userfaultfd: $said"; failed=1; }
regs() {
	SHCA_BEHAVE=noodp timeout -k 5 60 "$run" -n 2 "$@" --report-transports "$pages" 1 any 2>&1 | sed -n "s/.*rank 0: registrations: .*given up for room.* in \([0-9]*\) regions.*/\1/p"
}
[ "$(regs -x HEDDLE_REGCACHE_ENTRIES=2)" -le 2 ] || { echo "FAILED: more regions than HEDDLE_REGCACHE_ENTRIES"; failed=1; }

# each is asked for, and said
for behave in async noarena noodp nosequence nowake; do
	case $behave in
	async) lost=at-once ;;
	noarena) lost=arena ;;
	noodp) lost='no registration' ;;
	nosequence) lost=sequence ;;
	nowake) lost=wakes ;;
	esac
	for have in $behave ''; do
		said=$(SHCA_BEHAVE=$have HEDDLE_DEBUG=1 timeout 60 "$run" -n 1 "$traffic" 10 1000 1 2>&1 | grep 'promises:')
		case $said in
		'') promised=unheard ;;
		*"$lost"*) promised=yes ;;
		*) promised=no ;;
		esac
		[ $promised = "$([ -z "$have" ] && echo yes || echo no)" ] || { echo "FAILED: SHCA_BEHAVE=$have: $said"; failed=1; }
	done
done
# rings are used if the bytes of a request are written in order, and not otherwise; the order among requests does not matter
rings() {
	SHCA_BEHAVE=$1 timeout -k 5 60 "$run" -n 2 --report-transports "$traffic" 500 2000 1 2>&1 | grep -c '; ring'
}
for behave in "" async nosequence noarena noodp nowake; do
	[ "$(rings "$behave")" -gt 0 ] || { echo "FAILED: SHCA_BEHAVE=$behave: no rings"; failed=1; }
done
[ "$(rings noorder)" -eq 0 ] || { echo "FAILED: rings on a device without order"; failed=1; }
out=$(SHCA_BEHAVE=async,nooder timeout 60 "$run" -n 1 "$traffic" 10 1000 1 2>&1)
case $out in
*'SHCA_BEHAVE: there is no word "nooder"'*noorder*) ;;
*) echo "FAILED: SHCA_BEHAVE=async,nooder: $out"; failed=1 ;;
esac
exit $failed
