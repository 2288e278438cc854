# SPDX-License-Identifier: BSD-3-Clause
# A file over NFS (4.2) that two hosts have open: guest 1 has the server, by the kernel's nfsd, and both guests are clients. No mountd: its
# answers are written into the kernel's caches here.
# form: long
# guests: 2
# needs: mpirun.openmpi orted
# modules: nfs
# seconds: 4500
. "$sources/tests/vm/job.sh"
unset HEDDLE_DEVICE
mp=$build/tests/mp
serve() {
	mkdir /tmp/export && mount -t nfsd nfsd /proc/fs/nfsd || return
	for n in 1 2; do echo "nfsd 10.9.0.$n 2147483647 guests" >/proc/net/rpc/auth.unix.ip/channel || return; done
	# rw, insecure, no_root_squash, no_subtree_check, fsid=0: the root of NFS 4
	echo "guests /tmp/export 2147483647 9218 65534 65534 0" >/proc/net/rpc/nfsd.export/channel || return
	echo 'guests 1 \x00000000 2147483647 /tmp/export' >/proc/net/rpc/nfsd.fh/channel || return
	echo "-3 +4 +4.1 +4.2" >/proc/fs/nfsd/versions
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	echo "tcp 2049" >/proc/fs/nfsd/portlist && echo 4 >/proc/fs/nfsd/threads || return
	# no client has a state of an earlier server to claim; refused where the kernel has no record of clients, and so no grace period
	echo Y >/proc/fs/nfsd/v4_end_grace 2>/dev/null
	touch "$out/nfs"
}
# mounted OPTIONS: both guests mount the export at /tmp/nfs, with these options besides
mounted() {
	for n in 1 2; do
		"$sources/tests/vm/rsh" 10.9.0.$n "umount /tmp/nfs 2>/dev/null; mkdir -p /tmp/nfs && mount -i -t nfs \
			-o vers=4.2,addr=10.9.0.1,clientaddr=10.9.0.$n$1 10.9.0.1:/ /tmp/nfs" || { echo "FAILED: guest $n cannot mount"; exit 1; }
	done
	echo "mounted with vers=4.2$1"
}
if [ "$guest" != 1 ]; then
	"$sources/tests/vm/rsh" --serve
	exit 0
fi
"$sources/tests/vm/rsh" --serve &
serve || { echo "FAILED: no NFS server"; exit 1; }
for options in "" ,noac; do
	mounted "$options"
	try 600 0 '^ok:' mpirun_two 1 "$build/tests/vm/nfs_pages" /tmp/nfs/pages
	try 900 0 '^ok:' mpirun_two 1 "$mp/io_random" /tmp/nfs/random 30 4
	try 900 0 '^ok:' mpirun_two 1 "$mp/io_random" /tmp/nfs/random 30 3
done
exit $failed
