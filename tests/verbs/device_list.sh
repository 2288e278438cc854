#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The device is found by programs that ask for the software HCA, with every way of linking, and by no other program.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
need ibv_devices ibv_devinfo

"$shcarun" ibv_devices >"$tmp/devices.out" 2>&1 || fail "ibv_devices"
grep -q shca0 "$tmp/devices.out" || fail "ibv_devices does not show shca0"
"$shcarun" ibv_devinfo -v >"$tmp/devinfo.out" 2>&1 || fail "ibv_devinfo -v"
for text in 'hca_id:.*shca0' 'PORT_ACTIVE' 'link_layer:.*InfiniBand' 'atomic_cap:.*ATOMIC_HCA' 'max_srq:' 'XRC' 'GID\[ *0\]:.*fe80' \
	'port_lid:' 'general_odp_caps' 'ODP_SUPPORT_IMPLICIT'; do
	grep -q "$text" "$tmp/devinfo.out" || fail "ibv_devinfo -v does not say $text"
done

check() {
	expected=$1
	shift
	got=$("$@" 2>"$tmp/stderr.out") || fail "$* ended with $?"
	[ "$got" = "$expected" ] || fail "$*: got '$got', expected '$expected'"
}
# linked against libibverbs alone: only under shcarun
check 'seen 0 opened 0' "$builddir/tests/verbs/device_visible_plain"
check 'seen 1 opened 1' "$shcarun" "$builddir/tests/verbs/device_visible_plain"
# libshca before libibverbs: when asked for
check 'seen 0 opened 0' "$builddir/tests/verbs/device_visible_linked"
check 'seen 1 opened 1' env SHCA_VISIBLE=1 "$builddir/tests/verbs/device_visible_linked"
# libshca behind libibverbs: the real library is found first
check 'seen 0 opened 0' env SHCA_VISIBLE=1 "$builddir/tests/verbs/device_visible_behind"
check 'seen 1 opened 1' "$shcarun" "$builddir/tests/verbs/device_visible_behind"
# inside another library
"$builddir/tests/verbs/embedded" own >"$tmp/embedded.out" 2>&1 || fail "embedded own"
"$shcarun" "$builddir/tests/verbs/embedded" preloaded >"$tmp/embedded.out" 2>&1 || fail "embedded preloaded"
# an extension module, loaded RTLD_LOCAL
if /usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null; then
	"$shcarun" /usr/bin/python3 -c 'import pyverbs.device as d
names = [x.name.decode() for x in d.get_device_list()]
assert names.count("shca0") == 1, names
c = d.Context(name="shca0")
assert c.query_device().max_qp > 0' >"$tmp/python.out" 2>&1 || fail "pyverbs"
fi

# shcarun itself
"$shcarun" --help | grep -q -- --fabric || fail "shcarun --help"
"$shcarun" --fabrik x true 2>"$tmp/option.out" && fail "an unknown option was accepted"
grep -q 'did you mean --fabric' "$tmp/option.out" || fail "the nearest option is not named"
"$shcarun" 2>"$tmp/none.out" && fail "no program was accepted"
"$shcarun" /nonexistent 2>"$tmp/nofile.out"
[ $? = 127 ] || fail "a program that is not there"
"$shcarun" sh -c 'exit 7'
[ $? = 7 ] || fail "the exit status is the program's"
[ "$("$shcarun" --fabric some sh -c 'echo $SHCA_FABRIC')" = some ] || fail "--fabric"
exit 0
