#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank dies at a random place in collectives of every kind, while communicators are made, and in messages of all forms: all survivors
# get the error in every case, no living rank is blamed, and the survivors go on without the dead rank (coll_death_random.c,
# comm_death_random.c, comm_create_death.c, comm_leader_link_death.c, p2p_death_random.c,
# coll_sc_staging.c). Run in the build directory. COLL_LOST=N: N random cases more; SEED: of the random ones.
. "$(dirname "$0")/death_lib.sh"
seed=${SEED:-$(date +%s)}

lost() {	# lost RANKS FORM BYTES DEAD LATE MOMENT EXECUTOR VARIABLE
	one_dies "$1" "$4" "$*" -x HEDDLE_COLL_EXECUTOR="$7" -x "$8" tests/mp/coll_death_random "$2" "$3" "$4" "$5" "$6" "$count"
}

hosts() {	# hosts RANKS FORM BYTES DEAD LATE MOMENT EXECUTOR: half of the ranks on another host, or so they believe
	HOSTS_RANKS=$((($1 + 1) / 2)) HEDDLE_DEVICE=shca0,shca0 one_dies "$1" "$4" "two hosts: $*" \
		-x HEDDLE_COLL_EXECUTOR="$7" tests/mp/coll_hosts_lost "$2" "$3" "$4" "$5" "$6" "$count"
}

made() {	# made RANKS DEAD MOMENT SEED EXECUTOR VARIABLE
	one_dies "$1" "$2" "communicators are made: $*" -x HEDDLE_COLL_EXECUTOR="$5" -x "$6" tests/mp/comm_death_random "$2" "$3" "$4" "$count"
}

sent() {	# sent RANKS DEAD MOMENT SEED THREADS VARIABLE
	one_dies "$1" "$2" "messages: $*" -x "$6" tests/mp/p2p_death_random "$2" "$3" "$4" 200 "$5" "$count"
}

# a random number below $1, in $random (Park and Miller's, without the shell's)
draw() {
	seed=$(((seed % 2147483646 + 1) * 48271 % 2147483647))
	random=$((seed / 7 % $1))
}

one_of() {
	draw $#
	shift "$random"
	picked=$1
}

some() {
	one_of 2 3 4 5 7 8 17; n=$picked
	one_of blocking nonblocking persistent; form=$picked
	one_of 8 64 1024 16384 65536; bytes=$picked
	draw "$n"; dead=$random
	late=-1
	# a sender waits for a late rank to which a message was announced: see docs/collectives.md
	if [ "$n" -gt 2 ] && [ "$bytes" -le 1024 ]; then draw $((n - 1)); late=$(((dead + 1 + random) % n)); fi
	draw 20000; moment=$random
	one_of auto host mailbox tasks; executor=$picked
	one_of HEDDLE_TRANSPORT= HEDDLE_TRANSPORT= HEDDLE_TRANSPORT=rc HEDDLE_TRANSPORT=ud HEDDLE_TRANSPORT=dc,ud HEDDLE_TRANSPORT=xrc \
		HEDDLE_CHECK=1 HEDDLE_COLL_DEPTH=2 HEDDLE_COLL_EXTENSIONS=0 HEDDLE_COLL_SINGLE_COPY_MIN=1
	[ "$n" -lt 17 ] || bytes=64
	# over UD messages longer than a packet are announced: four blocks, in a tree of 7 ranks and more
	[ "$picked" != HEDDLE_TRANSPORT=ud ] || [ "$late" = -1 ] || [ "$n" -lt 7 ] || bytes=64
	lost "$n" "$form" "$bytes" "$dead" "$late" "$moment" "$executor" "$picked"
	draw 1000000
	made "$n" "$dead" "$moment" "$random" "$executor" "$picked"
	[ "$n" -gt 8 ] || sent "$n" "$dead" "$moment" "$random" $((1 + random % 2)) "$picked"
}

echo "seed $seed"
if timeout 60 "$run" -n 3 tests/mp/coll_message_stale >"$tmp/out" 2>"$tmp/err"; then
	echo "ok: messages that come late"
else
	echo "FAILED: messages that come late"
	head -n 20 "$tmp/out" "$tmp/err" | cut -c1-300
	fails=$((fails + 1))
fi
lost 4 blocking 64 1 3 500 host HEDDLE_TRANSPORT=
lost 5 nonblocking 64 0 2 9000 auto HEDDLE_TRANSPORT=
lost 4 blocking 65536 2 -1 1300 host HEDDLE_TRANSPORT=
lost 3 persistent 1024 2 0 4000 host HEDDLE_TRANSPORT=
lost 4 persistent 64 1 3 2500 auto HEDDLE_TRANSPORT=
lost 4 blocking 65536 1 -1 2500 mailbox HEDDLE_TRANSPORT=
lost 4 blocking 64 1 3 1500 mailbox HEDDLE_TRANSPORT=
lost 3 blocking 8 0 -1 6000 mailbox HEDDLE_TRANSPORT=
lost 4 nonblocking 65536 1 -1 2500 mailbox HEDDLE_COLL_SINGLE_COPY_MIN=1
lost 3 nonblocking 4096 0 -1 3500 mailbox HEDDLE_TRANSPORT=
made 5 2 9000 3 auto HEDDLE_TRANSPORT=
made 4 0 40000 8 host HEDDLE_TRANSPORT=ud
made 2 1 2000 1 tasks HEDDLE_TRANSPORT=
one_dies 4 3 "one is away: 4 3" tests/mp/comm_create_death 3 "$count"
for moment in 3000 9000; do
	one_dies 5 2 "communicators are made: 5 2 $moment, announced" -x HEDDLE_TRANSPORT=ud -x HEDDLE_EAGER_MAX=2 tests/mp/comm_death_random 2 $moment 3 "$count"
done
one_dies 5 3 "one is away: 5 3, announced" -x HEDDLE_EAGER_MAX=2 tests/mp/comm_create_death 3 "$count"
one_dies 7 4 "one is away: 7 4 over ud" -x HEDDLE_TRANSPORT=ud tests/mp/comm_create_death 4 "$count"
one_dies 4 3 "a root at its port: accept" tests/mp/comm_leader_link_death accept
one_dies 4 3 "a root at its port: connect" tests/mp/comm_leader_link_death connect
for variable in HEDDLE_TRANSPORT= HEDDLE_TRANSPORT=ud HEDDLE_EAGER_MAX=2; do
	for case in lost waits whole early; do
		for later in comes stays; do
			one_dies 4 3 "leaders on a bridge: $case, $later, $variable" -x $variable tests/mp/comm_leader_link_death $case $later
		done
	done
	one_dies 4 3 "leaders on a bridge: alone, comes, $variable" -x $variable tests/mp/comm_leader_link_death alone comes
done
sent 4 1 20000 5 1 HEDDLE_TRANSPORT=
sent 3 0 9000 6 2 HEDDLE_TRANSPORT=dc,ud
sent 4 3 30000 7 1 SHCA_BEHAVE=noarena
for how in killed gone; do
	one_dies 3 0 "what was left behind for it: $how" -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_sc_staging $how "$count"
done
hosts 4 blocking 64 1 3 500 host
hosts 4 nonblocking 64 3 -1 900 auto
hosts 4 blocking 64 3 -1 500 mailbox
hosts 5 persistent 1024 0 2 700 tasks
for kind in mailbox tasks; do
	if HOSTS_RANKS=2 HEDDLE_DEVICE=shca0,shca0 HEDDLE_COLL_EXECUTOR=$kind timeout -k 5 120 "$run" -n 4 tests/mp/coll_hosts_random 10 "$((seed % 1000))" >"$tmp/out" 2>&1; then
		echo "ok: random ones over two hosts, $kind"
	else
		echo "FAILED: random ones over two hosts, $kind"
		tail -n 100 "$tmp/out" | cut -c1-300
		fails=$((fails + 1))
	fi
done
for i in $(seq $((4 + ${COLL_LOST:-0}))); do some; done
exit $((fails != 0))
