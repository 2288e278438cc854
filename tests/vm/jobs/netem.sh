# SPDX-License-Identifier: BSD-3-Clause
# Two guests with a bad wire between them: loss, reordering, duplication, delay, and a link that goes down and up during traffic.
# form: long
# guests: 2
# needs: mpirun.openmpi orted tc
# seconds: 1200
. "$sources/tests/vm/job.sh"
unset HEDDLE_DEVICE
if [ "$guest" != 1 ]; then
	"$sources/tests/vm/rsh" --serve
	exit 0
fi
wire() { # both directions alike
	tc qdisc replace dev eth0 root netem "$@" && "$sources/tests/vm/rsh" guest2 tc qdisc replace dev eth0 root netem "$@" || {
		echo "FAILED: tc netem $*"
		exit 1
	}
}
for kind in rc ud; do
	export HEDDLE_TRANSPORT=$kind
	for bad in "loss 1%" "loss 5%" "delay 5ms reorder 25%" "duplicate 10%" "delay 20ms"; do
		# shellcheck disable=SC2086
		wire $bad
		echo "HEDDLE_TRANSPORT=$kind, $bad"
		try 120 0 '^ok$' mpirun_two 1 "$build/tests/mp/transport_traffic" 40 20000 1
		try 120 0 '^1024 ' mpirun_two 2 "$build/bench/hd_allreduce" -c -i 3 -x 0 -m 8:1K
	done
	wire delay 0ms
	echo "HEDDLE_TRANSPORT=$kind, the link goes down for 2 s"
	mpirun_two 1 "$build/tests/vm/exchange" 400 >/tmp/link.said 2>&1 </dev/null &
	pid=$!
	for _ in $(seq 600); do [ "$(grep -c exchanges /tmp/link.said)" = 2 ] && break; sleep 0.1; done
	ip link set eth0 down || echo "ip link set eth0 down: status $?"
	sleep 2
	ip link set eth0 up || echo "ip link set eth0 up: status $?"
	for _ in $(seq 900); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
	kill $pid 2>/dev/null
	wait $pid
	[ $? = 0 ] && [ "$(grep -c 'is done' /tmp/link.said)" = 2 ] && echo ok || {
		echo FAILED
		grep -E 'heddle:|ends:|done' /tmp/link.said
		dmesg | tail -n 40	# the wire is the kernel's, and so is what becomes of it
		failed=1
	}
done
exit $failed
