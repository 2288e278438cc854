#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# 8 ranks that are blocked in MPI_Recv use no CPU, on two cores, and wake when the message comes. Run in the build
# directory.
. "$(dirname "$0")/launcher_lib.sh"
blocked=$PWD/tests/mp/show_blocked
[ -x "$run" ] && [ -x "$blocked" ] || { echo "skipped: heddlerun or show_blocked is not built"; exit 77; }
command -v taskset >/dev/null || { echo "skipped: taskset (util-linux) is not here"; exit 77; }
hz=$(getconf CLK_TCK)
seconds=2

# The first two CPUs that we may use.
cpus=$(taskset -cp $$ | sed 's/.*: *//' | awk -F, '{
	for (i = 1; i <= NF; i++) {
		split($i, r, /[-:]/)
		for (c = r[1]; c <= (r[2] == "" ? r[1] : r[2]) && n < 2; c++) printf "%s%d", n++ ? "," : "", c
	}
}')

# utime + stime of all threads of the processes, in ticks
ticks() { for p in "$@"; do sed 's/^.*) //' "/proc/$p/stat"; done | awk '{ n += $12 + $13 } END { print n }'; }
asleep() {
	for p in $pids; do [ "$(sed 's/^.*) //' "/proc/$p/stat" | cut -c1)" = S ] || return 1; done
	before=$(ticks $pids)
	sleep 0.3
	[ $(($(ticks $pids) - before)) -le 2 ]
}
end() {
	exec 9>&-
	[ -z "$bg" ] || kill "$bg" 2>/dev/null
	rm -rf "$tmp"
}
bg=
trap end EXIT

for kind in default ud; do
	rm -f "$tmp/go"
	mkfifo "$tmp/go"
	unset HEDDLE_TRANSPORT
	[ $kind = default ] || { HEDDLE_TRANSPORT=$kind; export HEDDLE_TRANSPORT; }
	: >"$out"; : >"$err"
	# rank 0 waits for a line, the other ranks for rank 0
	$limit taskset -c "$cpus" "$run" -n 9 "$blocked" <"$tmp/go" >"$out" 2>"$err" &
	bg=$!
	exec 9>"$tmp/go"
	wait_for has_lines "$out" "^blocked" 8
	pids=$(sed -n 's/^blocked //p' "$out")
	wait_for asleep
	before=$(ticks $pids)
	sleep $seconds
	used=$(($(ticks $pids) - before))
	echo "$kind: 8 blocked ranks used $used ticks of 1/$hz s in $seconds s"
	[ $((used * 10)) -lt $((seconds * hz)) ] || fail "$kind: blocked ranks do not sleep"
	echo go >&9
	wait $bg || fail "$kind: exit status $?"
	bg=
	exec 9>&-
	has_lines "$out" '^woken' 8 || fail "$kind: not all ranks were woken"
done
