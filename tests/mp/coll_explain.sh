#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# heddle_info --explain: the requests that it lists for a collective are exactly those that the device counts, for all ranks together
# and over the task lists of all of them; with executors host and mailbox the device counts none. Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
program=$PWD/tests/mp/coll_device_counts
counts_ranks "$run" "$program" "$PWD/shcactl" "$PWD/shcarun" "$PWD/heddle_info"

times=3
# counted EXECUTOR RANKS COLLECTIVE ELEMENTS: CALCs, WAITs, ENABLEs and atomics of one operation
counted() {
	expect 0 "$run" -n "$2" -x HEDDLE_COLL_EXECUTOR=$1 "$tmp/rank" "$tmp" "$PWD" "$program" "$3" "$4" $times
	awk -F, -v times=$times '$1 == "RC" { c = $7; w = $8; e = $9; a = $10 }
		END { printf "%g %g %g %g", c / times, w / times, e / times, a / times }' "$tmp/totals"
}
# explained EXECUTOR RANKS COLLECTIVE ELEMENTS: the same
explained() {
	HEDDLE_COLL_EXECUTOR=$1 ./heddle_info --explain "$3" --ranks "$2" --size $(($4 * 8)) --type INT64_T --nonblocking \
		>"$tmp/explained" || fail "heddle_info --explain $3"
	sed -n 's/^device .* these \([0-9]*\) with CALC and \([0-9]*\) masked atomics; \([0-9]*\) WAITs, \([0-9]*\) ENABLEs$/\1 \3 \4 \2/p' \
		"$tmp/explained"
}

# compare RANKS COLLECTIVE ELEMENTS
compare() {
	e=$(explained tasks "$@") c=$(counted tasks "$@")
	grep -q '^executor *tasks$' "$tmp/explained" || fail "$2 of $3 elements, $1 ranks: not on tasks: $(cat "$tmp/explained")"
	[ -n "$e" ] && [ "$e" = "$c" ] ||
		fail "$2 of $3 elements, $1 ranks, ${HEDDLE_COLL_EXTENSIONS:-}: CALC WAIT ENABLE atomics: explained $e, the device counted $c"
	# of pure moves nothing waits at the device among pairs
	[ "$2" = alltoall ] || [ "$e" != "0 0 0 0" ] || fail "$2: nothing is offloaded"
}

for n in 3 5; do
	for what in barrier bcast reduce allreduce allgather alltoall gather scatter reduce_scatter; do
		compare $n $what 16
	done
done
compare 4 reduce_scatter 4096
compare 4 allreduce 8192
export HEDDLE_COLL_EXTENSIONS=0
compare 5 allreduce 16
unset HEDDLE_COLL_EXTENSIONS
HEDDLE_COLL_RADIX=2 && export HEDDLE_COLL_RADIX
compare 6 allreduce 100
unset HEDDLE_COLL_RADIX
# Between many collectives in a row that are not synchronizing a slot barrier is inserted, and only then: a barrier of the program
# serves, too, although its slots are of another class.
b=$(explained tasks 3 bcast 8192)
e=$( (echo "$b"; explained tasks 3 barrier 1) | awk '{ for (i = 1; i <= 4; i++) s[i] += $i } END { print s[1], s[2], s[3], s[4] }')
c=$(counted tasks 3 bcast+barrier 8192)
[ "$e" = "$c" ] || fail "bcast and barrier in turns: CALC WAIT ENABLE atomics: explained $e, the device counted $c"
c=$(counted tasks 3 bcast 8192)
[ "$b" != "$c" ] || fail "no barrier is inserted among as many bcasts as may be under way"
# No such request where no task list runs: else the comparison would prove nothing.
for executor in host mailbox; do
	for what in barrier allreduce alltoall; do
		c=$(counted $executor 3 $what 16)
		[ "$c" = "0 0 0 0" ] || fail "$what on $executor: CALC WAIT ENABLE atomics: $c"
	done
done

# Pieces, and operations of programs: requests of one operation's lines, the report's words, and nothing that the device counts.
HEDDLE_REPORT_COLLECTIVES=1 && export HEDDLE_REPORT_COLLECTIVES
while read -r requests what; do
	c=$(counted auto 3 "$what" 16)
	[ "$c" = "0 0 0 0" ] || fail "$what on mailbox: CALC WAIT ENABLE atomics: $c"
	mv "$err" "$tmp/report"
	expect 0 ./heddle_info --explain "$what" --ranks 3 --size 128 --nonblocking
	says "$out" '^executor *mailbox$'
	says "$out" "^device  *all ranks: $requests requests, of these 0 with CALC and 0 masked atomics; 0 WAITs, 0 ENABLEs\$"
	why=$(sed -n 's/^why *//p' "$out")
	grep -F "$what " "$tmp/report" | grep "nonblocking *mailbox *vector .* $times  $why\$" >/dev/null ||
		fail "$what: explained $why, the report says: $(cat "$tmp/report")"
done <<ROWS
2 gatherv
2 scatterv
6 allgatherv
6 alltoallv
6 neighbors
2 reduce (op)
6 allreduce (op)
6 reduce_scatter (v)
3 scan (op)
3 exscan (op)
ROWS
unset HEDDLE_REPORT_COLLECTIVES
expect 0 ./heddle_info --explain alltoallv --ranks 3 --size 1m
says "$out" '^executor *mailbox$'
says "$out" '^cells  *have blocks of up to 1024 bytes; a longer one follows'
says "$out" ', and from 16385 on its receiver copies'
# long ones of more than two ranks: where these share CPUs
expect 0 taskset -c 0 ./heddle_info --explain allgatherv --ranks 3 --size 1m
says "$out" '^executor *mailbox$'
[ "$(nproc)" -lt 3 ] || {
	expect 0 ./heddle_info --explain allgatherv --ranks 3 --size 1m
	says "$out" '^executor *host$'
	says "$out" '^algorithm *blocks$'
}
expect 0 ./heddle_info --explain allgatherv --ranks 2 --size 1m
says "$out" '^executor *mailbox$'
says "$out" '^why .* copies between'
expect 0 ./heddle_info --explain allgatherv --ranks 2 --size 8k
says "$out" '^executor *host$'
expect 0 ./heddle_info --explain gatherv --ranks 3 --persistent
says "$out" '^why  *mailbox: any lengths'
HEDDLE_REDUCE_ORDER=fixed expect 0 ./heddle_info --explain 'allreduce (op)' --ranks 3
says "$out" '^why  *host: HEDDLE_REDUCE_ORDER=fixed'
expect 0 ./heddle_info --explain neighbors --ranks 4 --rank 3 --dot
says "$out" 'n0 -> r0'
expect 2 ./heddle_info --explain gatherv --ranks 40 --dot

# The same words as the report's, and graphs that Graphviz can read.
expect 0 "$run" -n 3 -x HEDDLE_COLL_EXECUTOR=tasks -x HEDDLE_REPORT_COLLECTIVES=1 "$program" allreduce 16 2
mv "$err" "$tmp/report"
HEDDLE_COLL_EXECUTOR=tasks expect 0 ./heddle_info --explain allreduce --ranks 3 --size 128 --nonblocking
why=$(sed -n 's/^why *//p' "$out")
says "$tmp/report" "allreduce .* nonblocking tasks .* $why\$"
expect 0 ./heddle_info --explain bcast --ranks 7 --root 2 --rank 3 --dot
says "$out" '^digraph rank3 {'
expect 0 ./heddle_info --explain alltoall --ranks 200 --size 1k
says "$out" 'executor *host'
# The tuner's tables.
while read -r executor arguments; do
	expect 0 ./heddle_info --explain $arguments
	says "$out" "^executor *$executor\$"
done <<ROWS
tasks alltoall --ranks 8 --size 1k --nonblocking
mailbox reduce_scatter --ranks 8 --size 1k --nonblocking
tasks reduce_scatter --ranks 8 --size 10k --nonblocking
mailbox allreduce --ranks 4 --size 1k --nonblocking
tasks allreduce --ranks 8 --size 1k --nonblocking
tasks gather --ranks 20 --size 1k
mailbox allreduce --ranks 4 --size 1k --persistent
mailbox scatter --ranks 16 --persistent
host allreduce --ranks 4 --size 2k --persistent
host allreduce --ranks 17 --persistent
host gather --ranks 20 --size 2k
host reduce_scatter --ranks 20 --size 8
ROWS
HEDDLE_COLL_EXECUTOR=tasks expect 0 ./heddle_info --explain allreduce --ranks 3 --persistent
says "$out" '^why  *mailbox: persistent: not tasks'
says "$out" '^device  *all ranks: 6 requests'
# A forced executor takes precedence over a quicker one; a cell with a separate write of the number is two requests.
HEDDLE_COLL_EXECUTOR=tasks expect 0 ./heddle_info --explain bcast --ranks 4 --size 32k
says "$out" '^executor *tasks$'
HEDDLE_COLL_EXECUTOR=mailbox expect 0 ./heddle_info --explain bcast --ranks 4 --size 4k
says "$out" '^device  *all ranks: 6 requests'
expect 2 ./heddle_info --explain alreduce
says "$err" 'did you mean allreduce'
expect 2 ./heddle_info --explain allreduce --size 12
says "$err" 'not a multiple of the 8 bytes'
# Elements are packed.
expect 0 ./heddle_info --explain allreduce --ranks 3 --size 12 --op MAXLOC --type DOUBLE_INT
expect 2 ./heddle_info --explain allreduce --ranks 3 --size 16 --op MAXLOC --type DOUBLE_INT
says "$err" 'not a multiple of the 12 bytes'
expect 2 ./heddle_info --explain allreduce --type INT --op MINLOC
expect 2 ./heddle_info --explain allreduce --ranks 3 --rank 3
expect 2 ./heddle_info --explain allreduce --rnks 3
says "$err" 'did you mean --ranks'
