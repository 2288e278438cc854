# SPDX-License-Identifier: BSD-3-Clause
# One guest: Heddle over rxe beside perftest, which uses the verbs directly; medians of turns, and their ratios, to read (only of an idle machine).
# form: long
# guests: 1
# needs: ib_send_lat ib_write_bw
# seconds: 420
. "$sources/tests/vm/job.sh"
# value NUMBER NAME: one more of a figure; median NAME: of what there is
value() { echo "${1:-nan}" >>"/tmp/speed.$2"; }
median() { sort -n "/tmp/speed.$1" | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "nan" }'; }
pair() { # COLUMN and the two sides of a program of perftest: what the client says there
	column=$1
	shift
	timeout 60 "$@" -d rxe0 -F >/dev/null 2>&1 </dev/null &
	sleep 1.5
	timeout 60 "$@" -d rxe0 -F 127.0.0.1 2>&1 </dev/null | grep -E '^ *[0-9]+ +[0-9]+ ' | tail -n 1 | awk -v c="$column" '{ print $c }'
	wait $!
}
hd() { # the last figure that a benchmark says
	timeout 60 "$run" "$@" 2>&1 </dev/null | awk '/^[0-9]+ / { x = $2 } END { print x }'
}
for _ in 1 2 3; do
	export HEDDLE_TRANSPORT=rc
	value "$(pair 6 ib_send_lat -x 1 -s 8 -n 2000)" lat.peer
	value "$(hd -n 2 "$build/bench/hd_latency" -i 2000 -x 200 -m 8:8)" lat
	for size in 65536 1048576; do
		# perftest's MB are 2^20 bytes, hd_bw's 1e6
		value "$(pair 4 ib_write_bw -x 1 -s $size -n 200 | awk '{ print $1 * 1.048576 }')" bw.$size.peer
		value "$(hd -n 2 "$build/bench/hd_bw" -i 4 -x 1 -m $size:$size)" bw.$size
	done
	value "$(hd -n 4 "$build/bench/hd_alltoall" -i 20 -x 2 -m 8K:8K)" all.peer
	value "$(HEDDLE_TRANSPORT=ud hd -n 4 "$build/bench/hd_alltoall" -i 20 -x 2 -m 8K:8K)" all
done
row() { # TEXT NAME WANTED
	echo "$(median "$2.peer") $(median "$2")" | awk -v t="$1" -v w="$3" '{ printf "%-44s %12s %12s %7.2f  %s\n", t, $1, $2, ($1 > 0 ? $2 / $1 : 0), w }'
}
printf '%-44s %12s %12s %7s  %s\n' figure beside Heddle ratio wanted
row "8 B, RC, us one way; beside ib_send_lat" lat "at most 1.2"
row "64 KiB, RC, MB/s; beside ib_write_bw" bw.65536 "at least 0.95"
row "1 MiB, RC, MB/s; beside ib_write_bw" bw.1048576 "at least 0.95"
row "alltoall of 8 KiB, UD, us; beside RC" all "at most 1.5"
# what an exchange of 8 bytes takes of the device: requests beyond one per message are control messages
echo "2200 messages of 8 bytes each way, RC:"
HEDDLE_TRANSPORT=rc timeout 60 "$run" --report-transports -n 2 "$build/bench/hd_latency" -i 2000 -x 200 -m 8:8 2>&1 </dev/null |
	grep -E 'rank 0( -> 1)?:' | cut -c1-200
