#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files on a file system that is full, and on one that is read-only: a small tmpfs in a namespace of its own. Run in the build directory.
if [ "${1:-}" != inside ]; then
	why=$(unshare -Urm sh -c 'mount -t tmpfs -o size=4k none /tmp' 2>&1) || { echo "no mounts in a user namespace: $why"; exit 77; }
	exec unshare -Urm sh "$0" inside
fi
. "$(dirname "$0")/coll_lib.sh"
disk=$tmp/disk
mkdir "$disk" && mount -t tmpfs -o size=4m none "$disk" || exit 1
for n in 1 2 3; do
	try "full" "$n" tests/mp/io_full "$disk"
done
printf abc >"$disk/io_full"
mount -o remount,ro "$disk" || exit 1
try "read-only" 2 tests/mp/io_full "$disk" readonly
umount "$disk"
[ $fails = 0 ]
