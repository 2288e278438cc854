#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Standard input and output of ranks.
. "$(dirname "$0")/launcher_lib.sh"

# Rank 0 gets the whole input, from a file, a pipe or nothing; the other ranks get none.
seq 100000 >"$tmp/in"
read_all='cat >"$0.$PMIX_RANK"'
$limit "$run" -n 3 sh -c "$read_all" "$tmp/file" <"$tmp/in" || fail "file"
cmp "$tmp/in" "$tmp/file.0" || fail "file as input"
[ -s "$tmp/file.1" ] || [ -s "$tmp/file.2" ] && fail "input of the others"
cat "$tmp/in" | $limit "$run" -n 2 sh -c "$read_all" "$tmp/pipe" || fail "pipe"
cmp "$tmp/in" "$tmp/pipe.0" || fail "pipe as input"
$limit "$run" -n 2 sh -c "$read_all" "$tmp/closed" <&- || fail "closed input"
# Input that rank 0 does not read stays for the next command.
printf 'one\ntwo\n' | { $limit "$run" -n 1 true; cat; } >"$out"
says "$out" "^two$"

# A terminal: rank 0 reads it although rank 0 is in another process group, and the end of input arrives.
if command -v script >/dev/null; then
	( sleep 0.3; printf 'typed\n'; sleep 0.3; printf '\004'; sleep 0.3 ) |
		$limit script -qec "$run -n 2 sh -c 'cat | sed s/^/seen:/'" /dev/null >"$out" 2>"$err"
	says "$out" "seen:typed"
	# ... and heddlerun does not wait for input that the ranks do not read.
	( sleep 20 & echo $! >"$tmp/sleeper"; wait ) | $limit script -qec "$run -n 2 echo quick" /dev/null >"$out" 2>"$err" &
	waiter=$!
	wait_for has_lines "$out" quick 2
	kill "$(cat "$tmp/sleeper")"
	wait $waiter
fi

# Tags: each line whole, also long ones, and the last without a newline; streams apart.
expect 0 "$run" --tag-output -n 3 sh -c 'echo out of $PMIX_RANK; echo err of $PMIX_RANK >&2; printf unfinished'
for r in 0 1 2; do
	says "$out" "^\[$r\]<stdout> out of $r$"
	says "$err" "^\[$r\]<stderr> err of $r$"
	says "$out" "^\[$r\]<stdout> unfinished$"
done
lines "$out" 6; lines "$err" 3
expect 0 "$run" --tag-output -n 4 sh -c 'seq 20000'
lines "$out" 80000
for r in 0 1 2 3; do
	sed -n "s/^\[$r\]<stdout> //p" "$out" >"$tmp/one"
	seq 20000 | cmp - "$tmp/one" || fail "lines of rank $r"
done
expect 0 "$run" --tag-output -n 1 sh -c 'head -c 300000 /dev/zero | tr "\0" x; echo; echo end'
[ "$(wc -c <"$out")" = $((300001 + 4 + 2 * 12)) ] || fail "a long line"
# An output that is nonblocking, as some programs leave the pipe that they share, and a slow reader: nothing is lost.
if command -v python3 >/dev/null; then
	$limit python3 -c 'import os, subprocess, sys, time
r, w = os.pipe()
os.set_blocking(w, False)
p = subprocess.Popen(sys.argv[1:], stdout=w)
os.close(w)
time.sleep(0.3)
with os.fdopen(r) as f:
    sys.stdout.write(f.read())
sys.exit(p.wait())' "$run" --tag-output -n 2 seq 40000 >"$out" 2>"$err" || fail "a nonblocking output"
	lines "$out" 80000
fi
# Output of a killed rank is not lost.
expect 137 "$run" --tag-output -n 1 sh -c 'echo last words; kill -9 $$'
says "$out" "last words"
# Many ranks and a low limit of descriptors, which the ranks keep.
expect 0 sh -c 'ulimit -Sn 64; exec "$0" --tag-output -n 40 sh -c "ulimit -Sn"' "$run"
[ "$(grep -c '> 64$' "$out")" = 40 ] || fail "the limit of descriptors"

# Output that cannot be written is an error, at heddlerun and at a rank, which writes its last words when exiting.
if [ -c /dev/full ]; then
	full() { code=$1; shift; $limit "$@" >/dev/full 2>"$err" </dev/null; c=$?; [ $c = $code ] || fail "exit code $c instead of $code: $*"; }
	full 1 "$run" --tag-output -n 2 sh -c 'echo lost; exit 0'
	says "$err" "^heddlerun: standard output cannot be written: No space left on device"
	lines "$err" 1
	full 3 "$run" --tag-output -n 1 sh -c 'echo lost; sleep 0.2; exit 3'
	full 1 "$run" -n 2 "$job" where
	says "$err" "^heddle: rank [01] (.*): standard output cannot be written: No space left on device"
	says "$err" "ended with exit code 1"
	full 6 "$run" -n 2 "$job" abort 1 6
	full 1 "$job" where		# without heddlerun
	full 1 "$run" --help
	full 1 ./heddle_info --vars
	says "$err" "^heddle_info: standard output cannot be written"
	# A standard error that is lost is lost output, too.
	$limit "$run" --tag-output sh -c 'echo x >&2' >"$out" 2>/dev/full; [ $? = 1 ] || fail "standard error"
	# With room again in the end: lost output stays an error.
	$limit "$run" "$job" where >"$tmp/ok" 2>"$err" || fail "a good output"
	# A reader that has gone is told by the exit code alone.
	for tag in --tag-output --verbose; do
		{ $limit "$run" $tag -n 2 sh -c 'exec seq 1000000' 2>"$err"; echo $? >"$tmp/code"; } | head -n 1 >"$out"
		[ "$(cat "$tmp/code")" = 141 ] && ! grep -v 'Heddle\|rank [01]: ' "$err" || fail "a closed pipe, $tag: $(cat "$tmp/code")"
	done
	# A pipe of the rank's own is another matter.
	expect 141 "$run" bash -c 'yes | true; exit ${PIPESTATUS[0]}'
	says "$err" "exit code 141"
fi
nothing_left
exit 0
