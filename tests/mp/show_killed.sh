#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A whole job, launcher and ranks, is killed in the middle of traffic: the job's memory is free again, and neither a file, nor a socket,
# nor a process of the job is left. Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
alltoall=$PWD/bench/hd_alltoall
ctl=$PWD/shcactl
[ -x "$run" ] && [ -x "$alltoall" ] && [ -x "$ctl" ] || { echo "skipped: heddlerun, hd_alltoall or shcactl is not built"; exit 77; }
[ -r /proc/net/unix ] || { echo "skipped: no /proc/net/unix"; exit 77; }
ranks=4

shmem() { sed -n 's/^Shmem: *\([0-9]*\) kB/\1/p' /proc/meminfo; }
# new files in /dev/shm
new_files() { for f in /dev/shm/* /dev/shm/.*; do grep -qxF -- "$f" "$tmp/shm" || { [ -e "$f" ] && echo "$f"; }; done; }
# all descendants of a process, by their parents
descendants() {
	for c in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		echo "$c"
		descendants "$c"
	done
}
# names in the abstract namespace of sockets that the processes have open
names_of() {
	for p in "$@"; do ls -l "/proc/$p/fd" 2>/dev/null; done | sed -n 's/.*socket:\[\([0-9]*\)\]$/\1/p' | sort -u >"$tmp/inodes"
	awk 'NR == FNR { own[$1] = 1; next } ($7 in own) && $8 ~ /^@/ { print $8 }' "$tmp/inodes" /proc/net/unix | sort -u
}
started=
cleanup() {
	for p in $started; do kill -9 "$p" 2>/dev/null; done
	rm -rf "$tmp"
}
trap cleanup EXIT

ls -d /dev/shm/* /dev/shm/.* 2>/dev/null >"$tmp/shm"
before=$(shmem)
"$run" -n $ranks "$alltoall" --alloc-mem -M 256M -m 4M:4M -i 100000000 -B 0 -x 0 >"$out" 2>"$err" </dev/null &
bg=$!
started=$bg

# In the middle of traffic: the device has counted, and counts on.
fabric_of() {
	for f in $("$ctl" -o csv fabrics | sed 1d | cut -d, -f1); do
		"$ctl" --fabric "$f" -o csv processes 2>/dev/null | cut -d, -f2 | grep -qx "$1" && { echo "$f"; return 0; }
	done
	return 1
}
all_ranks() {
	pids=$(descendants $bg)
	ours=$(for p in $pids; do [ "$(cat "/proc/$p/comm")" = hd_alltoall ] && echo "$p"; done)
	[ "$(echo $ours | wc -w)" -eq $ranks ]
}
wait_for all_ranks
started="$bg $pids"
first=${ours%%[!0-9]*}
found() { fabric=$(fabric_of "$first"); }
wait_for found
moved() { "$ctl" --fabric "$fabric" -o csv totals | awk -F, 'NR > 1 { n += $5 } END { printf "%.0f", n }'; }
much() { [ "$(moved)" -gt 100000000 ]; }
wait_for much
# 2 buffers of 4 blocks of 4 MiB in each rank, in the fabric
used=$("$ctl" -o csv fabrics | awk -F, -v f="$fabric" '$1 == f { print $4 }')
[ "$used" -gt 100000 ] || fail "the fabric uses $used KiB only, so that its return could not be seen"
during=$(shmem)
[ $((during - before)) -gt $((used / 2)) ] || fail "Shmem went from $before to $during kB while the job uses $used KiB"
names_of $bg $pids >"$tmp/names"
[ "$(grep -c . "$tmp/names")" -ge $ranks ] || fail "$ranks ranks have $(grep -c . "$tmp/names") abstract sockets"
echo "job: $(echo $pids | wc -w) processes, $used KiB, abstract sockets: $(grep -c . "$tmp/names"), Shmem $before -> $during kB"
at=$(moved)
sleep 0.1
[ "$(moved)" -gt "$at" ] || fail "there is no traffic"

# launcher, ranks, and the launcher's guard process
for p in $bg $pids; do kill -9 "$p"; done
wait $bg 2>/dev/null
for p in $pids; do wait_for gone "$p"; done
returned() { [ $(($(shmem) - before)) -lt $((used / 4)) ]; }
wait_for returned
no_files() { [ -z "$(new_files)" ]; }
wait_for no_files
no_names() { ! awk '{ print $8 }' /proc/net/unix | grep -qxFf "$tmp/names"; }
wait_for no_names
"$ctl" -o csv fabrics | cut -d, -f1 | grep -qxF -- "$fabric" && fail "shcactl still finds the fabric $fabric"
nothing_left
echo "Shmem is $(shmem) kB"
started=
