#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Published names (dpm_names.c): within a job, and between two heddleruns of a user; what stays of one that is killed; other users.
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/dpm_names
name=dpm-test-$$
store=/tmp/heddle-names-$(id -u)
mine() { grep -qs "$name" "$store"*/*; }
end() { kill -9 "$1" 2>/dev/null; wait "$1" 2>/dev/null; }

expect 0 "$run" -n 2 "$prog" publish "$name"
mine && fail "an unpublished name is still in the store"
expect 0 sh -c 'trap "" XFSZ; exec "$@"' full "$run" -n 1 "$prog" full "$name"
mine && fail "a name is left after a full disk"

# Two heddleruns.
$limit "$run" -n 2 -x SHCA_FABRIC="$name" "$prog" serve "$name" >"$tmp/server" 2>&1 </dev/null &
server=$!
expect 0 "$run" -n 3 -x SHCA_FABRIC="$name" "$prog" visit "$name"
wait $server || fail "the server: exit code $?: $(cat "$tmp/server")"
mine && fail "a name is left"

# In two fabrics: HEDDLE_CONNECT_TIMEOUT is 180 s, the limit of `expect` is a third of that. The server accepts the next one.
$limit "$run" -n 2 -x SHCA_FABRIC="$name" "$prog" serve "$name" >"$tmp/server" 2>&1 </dev/null &
server=$!
expect 0 "$run" -n 2 "$prog" visit_apart "$name"
says "$err" 'another fabric of the software HCA.*SHCA_FABRIC=NAME'
expect 0 "$run" -n 1 -x SHCA_FABRIC="$name" --report-collectives "$prog" visit "$name"
says "$err" ' allreduce  *262144-524287 .* mailbox  *single-copy '
wait $server || fail "the server: exit code $?: $(cat "$tmp/server")"
says "$tmp/server" 'another fabric of the software HCA.*SHCA_FABRIC=NAME'

# A process that is killed takes its name along, and so does a heddlerun.
for victim in rank launcher; do
	: >"$tmp/held"
	"$run" -n 1 "$prog" hold "$name" >"$tmp/held" 2>"$err" </dev/null &
	pid=$!
	wait_for grep -q published "$tmp/held"
	expect 0 "$run" -n 1 "$prog" look "$name"
	says "$out" '^held$'
	if [ $victim = rank ]; then
		kill -TERM $pid
	else
		kill -9 $pid
	fi
	wait $pid 2>/dev/null
	expect 0 "$run" -n 1 "$prog" look "$name"
	says "$out" '^none$'
	mine && fail "the name of a killed $victim is left"
done

# Without a launcher.
export HEDDLE_LAUNCHER="$run"
expect 0 "$prog" publish "$name"
expect 0 "$prog" look "$name"
says "$out" '^none$'

# Another user has no access to the store; a directory of that name that another user has made is passed over.
: >"$tmp/held"
"$run" -n 1 "$prog" hold "$name" >"$tmp/held" 2>"$err" </dev/null &
pid=$!
wait_for grep -q published "$tmp/held"
[ "$(stat -c %a "$store")" = 700 ] || fail "mode of $store: $(stat -c %a "$store")"
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$tmp"
	cp tests/mp/launcher_other_user "$tmp/intruder" && chmod 755 "$tmp/intruder"
	"$tmp/intruder" store "$store" >"$out" 2>&1 || fail "another user has access to $store"
fi
kill -TERM $pid
wait $pid
if [ "$(id -u)" = 0 ] && [ ! -e "$store" ]; then
	: >"$tmp/said"
	"$tmp/intruder" make "$store" >"$tmp/said" 2>&1 &
	intruder=$!
	wait_for grep -q '^ready' "$tmp/said"
	code=0
	$limit "$run" -n 2 "$prog" publish "$name" >"$out" 2>"$err" </dev/null || code=$?
	end $intruder
	rm -rf "$store"
	[ $code = 0 ] || fail "exit code $code beside another user's directory"
	[ ! -e "$store.1" ] || fail "$store.1 is left"
fi
nothing_left
