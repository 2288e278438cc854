#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shcactl: what it says of a fabric, and how it refuses. Run in the build directory.
set -eu
name=ctl-$$
dir=$(mktemp -d)
unset SHCA_FABRIC SHCA_FABRIC_FD
mkfifo "$dir/in" "$dir/out"
timeout 120 tests/shca/fabric_procs --hold "$name" <"$dir/in" >"$dir/out" &
holder=$!
exec 9>"$dir/in" 8<"$dir/out"
trap 'exec 9>&- 8<&-; wait $holder || :; rm -rf "$dir"' EXIT
read -r ready <&8
[ "$ready" = ready ]

fail()
{
	echo "fabric_shcactl: $1" >&2
	exit 1
}
ctl()
{
	timeout 60 ./shcactl --fabric "$name" "$@"
}
refused()	# STATUS TEXT COMMAND...
{
	want=$1 text=$2
	shift 2
	status=0
	"$@" >"$dir/refused" 2>&1 || status=$?
	[ $status -eq "$want" ] || fail "$*: exit status $status, not $want"
	grep -q -- "$text" "$dir/refused" || fail "$*: does not say \"$text\" but: $(cat "$dir/refused")"
}

./shcactl -o csv fabrics | grep -q "^$name,$(id -u),1," || fail "fabrics does not list $name with 1 process"
ctl -o csv processes | grep -q ",fabric_procs,live," || fail "processes does not list its member"
ctl processes | head -1 | grep -q "^slot  *pid  *program" || fail "no line of names"
[ "$(ctl queues | wc -l)" -eq 1 ] || fail "queues lists something in an empty fabric"
[ "$(ctl regions | wc -l)" -eq 1 ] || fail "regions lists something in an empty fabric"
refused 2 'did you mean "queues"' ctl quues
refused 2 'did you mean "regions"' ctl reg
refused 2 'did you mean "--fabric"' ./shcactl --fabrc x queues
refused 2 'takes no argument' ctl queues now
refused 2 'not understood' ctl set ud_drop=2
refused 2 'not understood' ctl set ud_dropp=0.1
refused 1 'no fabric "nobody-has-this"' ./shcactl --fabric nobody-has-this queues
[ "$(ctl set)" = "ud_drop=0 ud_dup=0 ud_reorder=0 seed=0" ] || fail "faults are not zero at first"
ctl set ud_drop=0.25 ud_dup=0.5,seed=7 >/dev/null
[ "$(ctl set)" = "ud_drop=0.25 ud_dup=0.5 ud_reorder=0 seed=7" ] || fail "set did not set"
ctl set ud_drop=0 ud_dup=0 >/dev/null

# counters of an unmodified program's traffic: 1000 exchanges of 4096 bytes, both ways, read after the queues are gone
if [ -x ./shcarun ] && command -v ibv_rc_pingpong >/dev/null; then
	SHCA_FABRIC=$name
	export SHCA_FABRIC
	. "$(dirname "$0")/pair.sh"
	pair "" "" ibv_rc_pingpong -n 1000 -s 4096 || fail "ibv_rc_pingpong does not run: $(cat "$dir/client" "$dir/server")"
	ctl -o csv totals >"$dir/totals"
	grep -q "^RC,0,[0-9]*,2000,8192000,[0-9]*,0,0,0,0$" "$dir/totals" || fail "totals: $(cat "$dir/totals")"
fi
