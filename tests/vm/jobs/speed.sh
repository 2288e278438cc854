# SPDX-License-Identifier: BSD-3-Clause
# One guest: Heddle over rxe beside perftest, which uses the verbs directly; no verdict, figures to read (only of an idle machine).
# form: long
# guests: 1
# needs: ib_send_lat ib_write_bw
# seconds: 300
. "$sources/tests/vm/job.sh"
pair() { # the two sides of a program of perftest; what the client says
	"$@" -d rxe0 -F >/dev/null 2>&1 </dev/null &
	sleep 1.5
	"$@" -d rxe0 -F 127.0.0.1 2>&1 </dev/null | grep -E '^ *[0-9]+ +[0-9]+ ' | tail -n 1
	wait $!
}
hd() { # the last line that a benchmark says
	"$run" "$@" 2>&1 </dev/null | tail -n 1
}
export HEDDLE_TRANSPORT=rc
for round in 1 2 3; do
	echo "round $round"
	echo "  8 B, us one way (typical is column 6):  ib_send_lat $(pair ib_send_lat -x 1 -s 8 -n 2000)"
	echo "                                          hd_latency $(hd -n 2 "$build/bench/hd_latency" -i 2000 -x 200 -m 8:8)"
	for size in 65536 1048576; do
		echo "  $size B, MB/s:  ib_write_bw $(pair ib_write_bw -x 1 -s $size -n 200)"
		echo "                hd_bw $(hd -n 2 "$build/bench/hd_bw" -i 4 -x 1 -m $size:$size)"
	done
	echo "  alltoall of 8 KiB, 4 ranks, us:  rc $(hd -n 4 "$build/bench/hd_alltoall" -i 20 -x 2 -m 8K:8K)"
	echo "                                   ud $(HEDDLE_TRANSPORT=ud hd -n 4 "$build/bench/hd_alltoall" -i 20 -x 2 -m 8K:8K)"
done
