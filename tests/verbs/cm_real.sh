#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# RDMA CM where the host has a real RDMA device, by its files: addresses of the device and of other hosts are not the software HCA's, and
# are refused with the reason, since the kernel has no RDMA CM here. tests/vm/jobs/cm.sh has a device that works.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
need ucmatose unshare ip mount
# A separate network and mount namespace: 10.9.8.7 is the device's, 10.9.8.8 that of no device.
cat >"$tmp/inside" <<'END'
mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband || exit 77
ip link set lo up && ip addr add 10.9.8.7/32 dev lo || exit 77
[ ! -e /dev/infiniband/rdma_cm ] || exit 77
# try STATUS PATTERN COMMAND...
try() {
	status=$1
	pattern=$2
	shift 2
	SHCA_DEBUG=1 timeout 60 "$shcarun" "$@" >"$tmp/tool.out" 2>&1
	got=$?
	[ $got = "$status" ] && grep -q "$pattern" "$tmp/tool.out" && return
	echo "FAIL: $*: status $got" >&2
	cat "$tmp/tool.out" >&2
	exit 1
}
# without a device: every local address is the software HCA's, another host has no device
try 237 'there is no real RDMA device' ucmatose -s 10.9.8.8
try 0 'return status 0' sh -c 'ucmatose -b 10.9.8.7 & sleep 0.2; until ucmatose -s 10.9.8.7; do sleep 0.2; done; wait'
netdevs=/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs
mkdir -p $netdevs
echo eth7 >$netdevs/0
# the device is another interface's: the local address is still the software HCA's
try 0 'return status 0' sh -c 'ucmatose -b 10.9.8.7 & sleep 0.2; until ucmatose -s 10.9.8.7; do sleep 0.2; done; wait'
try 255 'another host, and /dev/infiniband/rdma_cm cannot be opened' ucmatose -s 10.9.8.8
echo lo >$netdevs/1
try 255 'a real RDMA device, .* cannot be opened' ucmatose -b 10.9.8.7
try 255 'a real RDMA device, .* cannot be opened' ucmatose -s 10.9.8.7
try 255 'a real RDMA device, .* cannot be opened' ucmatose -s 127.0.0.1 -b 10.9.8.7
# loopback is never a device's; a listener to every address hears of the software HCA
try 0 'return status 0' sh -c 'ucmatose & sleep 0.2; until ucmatose -s 127.0.0.1; do sleep 0.2; done; wait'
# as the interface of an adapter with IPoIB
rm -r $netdevs
try 0 'return status 0' sh -c 'ucmatose -b 10.9.8.7 & sleep 0.2; until ucmatose -s 10.9.8.7; do sleep 0.2; done; wait'
mkdir -p /sys/class/infiniband/rxe0/device/net/lo
try 255 'a real RDMA device, .* cannot be opened' ucmatose -s 10.9.8.7
END
export tmp shcarun
unshare -rmn sh "$tmp/inside" 2>"$tmp/unshare.out"
status=$?
case $status in
0) exit 0 ;;
77) skip "no mounts, or no addresses, in a namespace of one's own; or a device that is there" ;;
*) grep -q '^unshare:' "$tmp/unshare.out" && skip "$(cat "$tmp/unshare.out")"; fail "status $status" ;;
esac
