#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The device's files, as programs and shells look at them under shcarun; and nothing else is touched.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"

cat >"$tmp/look" <<'EOF'
sys=/sys/class/infiniband/shca0
stat -c '%F' /dev/infiniband/shca0
test -c /dev/infiniband/shca0 -a -r /dev/infiniband/shca0 -a -w /dev/infiniband/shca0 && echo accessible
head -c 3 /dev/infiniband/shca0 | wc -c
test -d $sys && echo directory
cat $sys/node_type $sys/ports/1/state /$sys//ports/1/pkeys/0 $sys/ports/1/lid /sys/class/infiniband_verbs/shca0/ibdev
read -r type <$sys/node_type && echo "$type"
stat -c '%a %F' $sys/fw_ver
for f in $sys/nothing $sys/node_type/ $sys/ports/2/state; do cat $f 2>/dev/null && echo "found $f"; done
(echo x >$sys/fw_ver) 2>/dev/null || echo 'not to be written'
cat $sys 2>/dev/null || echo 'not to be listed'
cat /dev/infiniband/shca1 /sys/class/infiniband/shca00/node_type 2>/dev/null || echo others
wc -c </dev/null
EOF
expected='character special file
accessible
0
directory
1: CA
4: ACTIVE
0xffff
0x1
shca0
1: CA
444 regular file
not to be written
not to be listed
others
0'
got=$("$shcarun" sh "$tmp/look" 2>"$tmp/stderr.out")
[ "$got" = "$expected" ] || { echo "$got" >"$tmp/got.out"; fail "the files are not what was expected"; }
guid=$("$shcarun" cat /sys/class/infiniband/shca0/node_guid)
gid=$("$shcarun" cat /sys/class/infiniband/shca0/ports/1/gids/0)
[ "$gid" = "fe80:0000:0000:0000:$guid" ] || fail "GUID $guid, GID $gid"
if command -v ibv_devinfo >/dev/null; then
	"$shcarun" ibv_devinfo | grep -q "node_guid:.*$guid" || fail "ibv_devinfo and node_guid do not agree on $guid"
fi
# a program that is not run by shcarun sees nothing of it
[ ! -e /sys/class/infiniband/shca0/node_type ] || fail "the device is in the file system"
"$builddir/tests/verbs/files" none || fail "tests/verbs/files without shcarun"
"$shcarun" "$builddir/tests/verbs/files" all || fail "tests/verbs/files"
exit 0
