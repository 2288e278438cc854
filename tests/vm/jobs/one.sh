# SPDX-License-Identifier: BSD-3-Clause
# One guest: the transport over rxe's RC and UD queues and over the default.
# form: short
# guests: 1
# seconds: 280
. "$sources/tests/vm/job.sh"
mp=$build/tests/mp bench=$build/bench
for kind in "" rc ud; do
	export HEDDLE_TRANSPORT=$kind
	echo "HEDDLE_TRANSPORT=$kind"
	try 60 0 '^ok$' "$run" -n 2 "$mp/transport_traffic" 300 60000 1
	try 60 0 '^ok$' "$run" -n 4 "$mp/transport_traffic" 100 200000 2
	try 60 0 '^ok$' "$run" -n 3 "$mp/transport_sleep" 5
	try 60 0 '^ok$' "$run" -n 2 "$mp/transport_eager_off"
	# rxe pins pages: where a registration outlives them, bytes are wrong
	try 60 0 '^ok$' "$run" -n 2 "$mp/transport_pages_remapped" 1 any
	try 60 0 '^1048576 ' "$run" -n 2 "$bench/hd_latency" -c -i 5:2 -x 1:1 -m 0:1M
	try 60 0 '^65536 ' "$run" -n 4 "$bench/hd_allreduce" -c -i 3:2 -x 1:1 -m 8:64K
	try 60 0 '^8192 ' "$run" -n 4 "$bench/hd_alltoall" -c -i 3:2 -x 1:1 -m 1:8K
	try 60 0 '^PASS$' "$run" -n 4 "$build/examples/heat2d" -n 128 -s 50
done
unset HEDDLE_TRANSPORT
# what the device lacks is named
try 30 1 'XRC' HEDDLE_TRANSPORT=xrc "$run" -n 2 "$mp/transport_eager_off"
try 30 1 'DC' HEDDLE_TRANSPORT=dc "$run" -n 2 "$mp/transport_eager_off"
# A peer's death. An RC queue of rxe reports it after its seven timeouts of 1.07 s; heddlerun ends the others before.
try 60 137 'told of rank 1' HEDDLE_TRANSPORT=ud "$run" -n 2 "$mp/transport_death"
exit $failed
