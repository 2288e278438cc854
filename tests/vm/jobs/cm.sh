# SPDX-License-Identifier: BSD-3-Clause
# One guest: RDMA CM under shcarun beside a real device: addresses of eth0 are rxe0's, loopback is the software HCA's, and a listener to
# every address hears of both.
# form: long
# guests: 1
# seconds: 500
# needs: rping ucmatose rstream rdma_server cmtime
. "$sources/tests/vm/job.sh"
host=10.9.0.1
export PATH=$PATH:$build SHCA_DEBUG=1
# pair SECONDS PATTERN SERVER -- CLIENT: the client is started until it reaches the server; both end with 0, and the client says the pattern
cat >/tmp/pair <<'END'
server=$1 client=$2
shcarun $server >/tmp/server.said 2>&1 &
pid=$!
n=0
until shcarun $client >/tmp/client.said 2>&1; do
	n=$((n + 1))
	[ $n -lt 40 ] && kill -0 $pid 2>/dev/null || break
	sleep 0.5
done
cat /tmp/client.said
wait $pid
status=$?
[ $status = 0 ] && echo "both ended well" || { echo "server: $status"; cat /tmp/server.said; exit 1; }
END
for at in $host 127.0.0.1; do
	try 90 0 'both ended well' sh /tmp/pair "rping -s -a $at -C 3 -v" "rping -c -a $at -C 3 -v"
	try 90 0 'both ended well' sh /tmp/pair "ucmatose -b $at" "ucmatose -s $at"
	try 90 0 'both ended well' sh /tmp/pair "rstream -b $at -S 64 -C 10" "rstream -s $at -S 64 -C 10"
	try 90 0 'both ended well' sh /tmp/pair "rdma_server -s $at" "rdma_client -s $at"
	# a listener to every address
	try 90 0 'both ended well' sh /tmp/pair "ucmatose" "ucmatose -s $at"
done
# connect and accept, by either device. The server ends by no client; one that comes ahead of the server leaves connections behind there.
for at in $host 127.0.0.1; do
	shcarun cmtime -c 50 >/tmp/server.said 2>&1 &
	server=$!
	sleep 5
	try 120 0 '^connect ' shcarun cmtime -s $at -c 50
	grep '^connect ' /tmp/said
	kill $server
	wait $server
done
# the device is named by ibv_devinfo's list, too; and of a connection by rxe0 the software HCA's counters know nothing
try 60 0 'rxe0' shcarun ibv_devices
try 60 0 'shca0' shcarun ibv_devices
# nobody is there: the kernel says so
try 60 146 'ADDR_ERROR, error: -110' shcarun ucmatose -s 10.9.0.77
exit $failed
