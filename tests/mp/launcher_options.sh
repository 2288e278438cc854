#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# heddlerun's command line: options and errors.
. "$(dirname "$0")/launcher_lib.sh"

refuses() { code=$1 text=$2; shift 2; expect "$code" "$run" "$@"; says "$err" "$text"; [ ! -s "$out" ] || fail "ran: $*"; }

refuses 2 "unknown option --tag-outptu; did you mean --tag-output" --tag-outptu -n 1 echo ran
refuses 2 "unknown option --timeuot=3; did you mean --timeout" --timeuot=3 echo ran
refuses 2 "unknown option" --frobnicate echo ran
refuses 2 "did you mean -np\|unknown option" -npp 2 echo ran
refuses 2 "nothing to start"
refuses 2 "nothing to start" -n 2
refuses 2 "after ':'" -n 1 echo ran :
refuses 2 "a whole number from 1" -n 0 echo ran
refuses 2 "a whole number from 1" -n two echo ran
refuses 2 "needs a value" -n
refuses 2 "none, core, l3, numa or socket" --bind-to sockets echo ran
refuses 2 "positive number of seconds" --timeout soon echo ran
refuses 2 "takes no value" --tag-output=yes echo ran
refuses 2 "no variable NOT_SET_ANYWHERE" -x NOT_SET_ANYWHERE echo ran
for o in --host -H; do
	refuses 2 "this host only.*srun --mpi=pmix.*prterun" $o a,b -n 2 echo ran
	refuses 2 "this host only" $o localhost,b -n 2 echo ran
done
printf '# hosts\nlocalhost slots=4\n' >"$tmp/here"
printf 'localhost\nelsewhere:2\n' >"$tmp/there"
for o in --hostfile -machinefile -f; do refuses 2 "elsewhere:2: heddlerun starts ranks on this host only" $o "$tmp/there" -n 2 echo ran; done
refuses 2 "No such file" --hostfile "$tmp/nowhere" echo ran
refuses 2 "4 ranks of echo, 2 on each host, need 2 hosts" -ppn 2 -n 4 echo ran
refuses 2 "whole number from 1" -N a,b echo ran
# Options of other launchers are refused with the equivalent option of heddlerun.
refuses 2 "-x NAME=VALUE" --mca btl self -n 2 echo ran
refuses 2 "--cpus-per-rank" -c 4 echo ran
refuses 2 "taskset -c" --cpu-set 0,1 echo ran
refuses 2 "env -i" -envnone echo ran
refuses 2 "HEDDLE_LOCAL_RANK" --rankfile x echo ran
refuses 2 "one of them" --tag-output --output-filename x echo ran
refuses 2 "core, l3, numa or socket" --map-by ppr:2:socket echo ran
refuses 127 "no such program in PATH" no-such-program-anywhere
refuses 127 "no such program" "$tmp/missing"
refuses 126 "a directory" "$tmp"
echo x >"$tmp/text"
refuses 126 "cannot be executed" "$tmp/text"
printf '\177ELFnonsense' >"$tmp/bad"; chmod +x "$tmp/bad"
expect 126 "$run" "$tmp/bad"
refuses 126 "wdir" --wdir "$tmp/nowhere" echo ran
# The second program of a job is looked for before the first one starts.
refuses 127 "no such program" -n 1 echo ran : -n 1 no-such-program-anywhere
cp /bin/echo "$tmp/here-only"
(cd "$tmp" && expect 127 "$run" here-only && says "$err" "did you mean ./here-only") || exit 1
nothing_left

expect 0 "$run" --version; says "$out" "Heddle"
expect 0 "$run" -V; says "$out" "Heddle"
expect 0 "$run" --help; says "$out" "usage: heddlerun"

# Several programs, their numbers, options that carry over.
expect 0 "$run" -n 2 "$job" where : -n 3 "$job" where
says "$out" "^rank 4 of 5"
show='echo "$0 $A $B $(pwd)"'
expect 0 "$run" -x A=1 --wdir / sh -c "$show" p : -x B=2 -x A=3 sh -c "$show" q
says "$out" "^p 1  /$"
says "$out" "^q 3 2 /$"
expect 0 env A=7 "$run" -x A sh -c 'echo "<$A>"'
says "$out" "^<7>$"
expect 0 "$run" -np 2 echo x; lines "$out" 2
expect 0 "$run" -- echo -n; lines "$out" 0
expect 0 "$run" -wdir=/usr pwd; says "$out" "^/usr$"
(cd / && expect 0 "$run" --wdir "$tmp" ./here-only found && says "$out" found) || exit 1
printf 'echo script $0 $1\n' >"$tmp/script"; chmod +x "$tmp/script"
expect 0 "$run" "$tmp/script" arg; says "$out" "^script $tmp/script arg$"
expect 0 "$run" --report-transports --report-collectives --report-tuning sh -c 'echo $HEDDLE_REPORT_TRANSPORTS$HEDDLE_REPORT_COLLECTIVES$HEDDLE_REPORT_TUNING'
says "$out" "^111$"
expect 0 "$run" -n 2 sh -c 'echo $SHCA_FABRIC'
[ "$(sort -u "$out" | wc -l)" = 1 ] && [ -n "$(head -1 "$out")" ] || fail "the fabric's name"
first=$(head -1 "$out")
expect 0 "$run" sh -c 'echo $SHCA_FABRIC'
[ "$(cat "$out")" != "$first" ] || fail "two jobs with one fabric"
# Habits of other launchers.
for o in "-np 2" "-N 2" "-ppn 2" "-ppn 4 -n 2" "-host localhost -n 2" "--host localhost:4 -n 2" "-H $(uname -n),127.0.0.1 -n 2" \
	"-hostfile $tmp/here -n 2" "-n 2 --oversubscribe" "-n 2 -envall" "-genvall -n 2" "-n 2 -envlist A,B" \
	"--allow-run-as-root -n 2" "--map-by slot:PE=1:OVERSUBSCRIBE -n 2" "--map-by node -n 2" "-n 2 --bind-to none"; do
	expect 0 "$run" $o echo x; lines "$out" 2
	[ ! -s "$err" ] || fail "noise: $o"
done
show='echo "$0 $A $B"'
expect 0 "$run" -genv A 1 -env B 2 sh -c "$show" p : sh -c "$show" q
says "$out" "^p 1 2$"; says "$out" "^q 1 $"
expect 0 "$run" -genv A=5 -n 1 sh -c "$show" p : -genv A 6 sh -c "$show" q
says "$out" "^p 5 $"; says "$out" "^q 6 $"
expect 0 "$run" -l -n 2 echo x; says "$out" "^\[1\]<stdout> x$"
expect 0 "$run" --output-filename "$tmp/o" -n 2 sh -c 'echo out $PMIX_RANK; echo err $PMIX_RANK >&2'
lines "$out" 0
for r in 0 1; do [ "$(cat "$tmp/o.$r.out" "$tmp/o.$r.err")" = "out $r
err $r" ] || fail "--output-filename"; done
refuses 1 "x.0.out: No such file" --output-filename "$tmp/nowhere/x" echo ran
expect 0 "$run" -v -n 2 true; says "$err" "rank 1: .*true, pid"
nothing_left
exit 0
