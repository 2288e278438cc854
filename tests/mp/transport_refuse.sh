#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Features that a device lacks, or for which memory is too small, are refused with the reason and the remedy.
. "$(dirname "$0")/launcher_lib.sh"
traffic=$PWD/tests/mp/transport_lacking

# refuses TEXT COMMAND...: the command ends by itself, with an error and TEXT.
refuses() {
	text=$1; shift
	$limit "$@" >"$out" 2>"$err" </dev/null
	code=$?
	[ $code != 0 ] && [ $code -lt 124 ] || fail "exit code $code: $*"
	says "$err" "$text"
}

# Nothing is lacking.
expect 0 "$run" -n 2 "$traffic" 100 10000 1
says "$out" "^ok$"

# A kind that the device lacks, by name, alone or beside other kinds; kinds that are not requested are not missed.
for kinds in dc rc,dc; do
	refuses "HEDDLE_TRANSPORT=$kinds: shca0 cannot do DC: it lacks DC (mlx5dv_create_qp .*leave DC out, or choose another device" \
		env LACK_DC=1 HEDDLE_TRANSPORT=$kinds "$run" -n 2 "$traffic" 100 10000 1
done
expect 0 env LACK_DC=1 HEDDLE_TRANSPORT=rc,ud "$run" -n 2 "$traffic" 100 10000 1
expect 0 env LACK_DC=1 "$run" -n 2 "$traffic" 100 10000 1

# The heap is exhausted: the text has the purpose and the size.
refuses "out of memory: [0-9]* bytes for the slots of a send queue" \
	env LACK_CALLOC=4096 HEDDLE_SQ_DEPTH=4096 HEDDLE_TRANSPORT=rc "$run" -n 2 "$traffic" 700 1500000 13
refuses "out of memory: 24 bytes for the table of peers" env LACK_CALLOC=32 "$run" -n 3 "$traffic" 100 10000 1

# Too little memory may be locked: the text has the need, the limit and the remedy. At start ...
locked='This process may lock 64 KiB in memory and has locked [0-9]* KiB: raise the limit by .ulimit -l unlimited'
refuses "shca0: cannot register [0-9]* bytes of message buffers (Cannot allocate memory). $locked" \
	sh -c 'ulimit -l 64; LACK_MEMLOCK=65536 HEDDLE_ODP=0 exec "$@"' sh "$run" -n 2 "$traffic" 100 10000 1
if [ "$(ulimit -l)" = unlimited ]; then
	refuses "message buffers .*(ulimit -l) is not the cause" \
		env LACK_MEMLOCK=65536 HEDDLE_ODP=0 "$run" -n 1 "$traffic" 100 10000 1
fi
# ... and for a message.
refuses "cannot register [0-9]* bytes of a \(message\|receive buffer\) (Cannot allocate memory). $locked" \
	sh -c 'ulimit -l 64; LACK_MEMLOCK=700000 HEDDLE_ODP=0 HEDDLE_TRANSPORT=rc exec "$@"' sh \
	"$run" -n 2 "$traffic" 700 1500000 13

# The region of all memory, by which a device pages on demand, is refused: that is no error, but --report-transports shows the refusal.
expect 0 env LACK_MEMLOCK=1000000000 "$run" -n 2 --report-transports "$traffic" 100 10000 1
says "$err" "rank 1: shca0 pages on demand, but did not register all memory (Cannot allocate memory): "
expect 0 env LACK_MEMLOCK=1000000000 "$run" -n 2 -x HEDDLE_DEBUG=1 "$traffic" 100 10000 1
says "$err" "debug: shca0 pages on demand, but did not register all memory"
nothing_left
exit 0
