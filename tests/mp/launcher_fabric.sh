#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The job's fabric: heddlerun makes the fabric; exactly the ranks are members; the fabric goes with the job.
. "$(dirname "$0")/launcher_lib.sh"
mpi=$PWD/tests/mp/mpi_errors
unset SHCA_FABRIC SHCA_FABRIC_FD

# Processes that hold the fabric $1: descriptors and mappings, by process.
holders() {
	{
		find /proc/[0-9]*/fd -maxdepth 1 -lname "/memfd:shca:$1 *" 2>/dev/null
		grep -lsF "memfd:shca:$1 " /proc/[0-9]*/maps
	} | cut -d/ -f3 | sort -u
}
nobody() { [ -z "$(holders "$1")" ]; }
sockets() { grep -cE "@shca[^ ]*/$1(/|$)" /proc/net/unix; }
no_socket() { [ "$(sockets "$1")" = 0 ]; }
freed() {
	wait_for nobody "$1"
	wait_for no_socket "$1"
	nothing_left
}
cleanup() {
	for p in $(sed -n 's/.*pid //p' "$out" 2>/dev/null) ${bg:-}; do kill -9 "$p" 2>/dev/null; done
	rm -rf "$tmp"
}
trap cleanup EXIT
bg=

# Every rank inherits the same file, which no other job has; nothing of the namespace is in the name.
show='echo "$SHCA_FABRIC $(stat -L -c %d:%i "/proc/self/fd/$SHCA_FABRIC_FD") $PMIX_NAMESPACE"'
expect 0 "$run" -n 3 sh -c "$show"
lines "$out" 3
[ "$(sort -u "$out" | wc -l)" = 1 ] || fail "not one file"
read -r first file nspace <"$out"
says "$out" '^job-[0-9a-f]\{32\} [0-9]*:[0-9]* '
case $first in *"${nspace##*-}"*) fail "the namespace shows" ;; esac
expect 0 "$run" sh -c "$show"
read -r name _ <"$out"
[ "$name" != "$first" ] || fail "two jobs with one fabric"
freed "$name"

# Only the ranks inherit the descriptor: it is close-on-exec in heddlerun, and the guard process has closed it.
expect 0 "$run" -n 1 sh -c 'for c in $(cat "/proc/$PPID/task/$PPID/children"); do
	[ "$(cat "/proc/$c/comm")" = hdlguard ] && ls -l "/proc/$c/fd"
done; sed -n "s/^flags:[[:space:]]*/flags /p" "/proc/$PPID/fdinfo/$SHCA_FABRIC_FD"'
says_not "$out" "memfd:shca"
says "$out" "^flags 0*2[0-9]\{6\}$"	# 02000000: O_CLOEXEC

# MPI programs are members of the fabric, also those that lost the descriptor or found another file in its place.
start() {
	: >"$out"; : >"$err"
	"$run" "$@" >"$out" 2>"$err" </dev/null &
	bg=$!
	wait_for has_lines "$out" "^waiting" 4
	pids=$(sed -n 's/.*pid //p' "$out")
	name=$(tr '\0' '\n' <"/proc/${pids%%[!0-9]*}/environ" | sed -n 's/^SHCA_FABRIC=//p')
	case $name in job-*) ;; *) fail "no fabric of the job: '$name'" ;; esac
}
start -n 2 "$mpi" wait : sh -c 'eval "exec $SHCA_FABRIC_FD<&-"; exec "$0" wait' "$mpi" \
	: sh -c 'eval "exec $SHCA_FABRIC_FD</dev/null"; exec "$0" wait' "$mpi"
./shcactl --fabric "$name" -o csv processes >"$tmp/members" || fail "shcactl"
for p in $pids; do grep -q "^[0-9]*,$p,mpi_errors,live" "$tmp/members" || fail "not in the fabric: $(cat "$tmp/members")"; done
[ "$(wc -l <"$tmp/members")" = 5 ] || fail "others in the fabric: $(cat "$tmp/members")"
# The memory that a rank holds in the fabric before sending much does not grow unnoticed: 768 KiB, and where packets have piled up,
# since a rank had to
# wait for a CPU, the pool of UD packets twice (576 KiB more).
awk -F, 'NR > 1 && $6 > 1344 { exit 1 }' "$tmp/members" || fail "more than 1344 KiB per rank: $(cat "$tmp/members")"
awk -F, 'NR > 1 && $6 <= 768 { least = 1 } END { exit !least }' "$tmp/members" || fail "no rank has 768 KiB: $(cat "$tmp/members")"
# The ranks are killed, and heddlerun with them.
kill -9 $pids "$bg" 2>/dev/null	# some may be gone by then
wait "$bg" 2>/dev/null
freed "$name"

# One rank is killed: the job ends.
start -n 4 "$mpi" wait
kill -9 "${pids%%[!0-9]*}"
wait "$bg"; code=$?
[ $code = 137 ] || fail "exit code $code"
freed "$name"

# heddlerun alone is killed.
start -n 4 "$mpi" wait
kill -9 "$bg"
wait "$bg" 2>/dev/null
freed "$name"

# A normal end, and MPI_Abort.
expect 0 "$run" -n 2 sh -c '"$0" returned && echo $SHCA_FABRIC' "$mpi"
freed "$(tail -n 1 "$out")"
expect 17 "$run" -n 2 sh -c 'echo $SHCA_FABRIC; exec "$0" abort' "$mpi"
freed "$(head -n 1 "$out")"

# A fabric that -x names is used instead, by all programs or by none; one of the surroundings is not the job's.
expect 0 "$run" -x SHCA_FABRIC=mine-$$ -n 2 sh -c 'echo "$SHCA_FABRIC ${SHCA_FABRIC_FD-none}"; exec "$0" returned' "$mpi"
[ "$(grep -c "^mine-$$ none$" "$out")" = 2 ] || fail "-x SHCA_FABRIC"
expect 0 env SHCA_FABRIC=mine-$$ "$run" -x SHCA_FABRIC sh -c 'echo "$SHCA_FABRIC"'; says "$out" "^mine-$$"
expect 0 env SHCA_FABRIC=mine-$$ "$run" sh -c 'echo "$SHCA_FABRIC"'; says "$out" "^job-"
expect 0 "$run" ./shcarun --fabric mine-$$ sh -c 'echo "$SHCA_FABRIC ${SHCA_FABRIC_FD-none}"'; says "$out" "^mine-$$ none$"
expect 2 "$run" true : -x SHCA_FABRIC=mine-$$ false
says "$err" "different fabrics (SHCA_FABRIC=(the job's) for true, mine-$$ for false)"

# Settings by -x that concern the creator of a fabric hold for this fabric.
expect 0 "$run" -x SHCA_FAULT=ud_drop=0.25 sh -c '"$0"/shcactl set' "$PWD"
says "$out" "0\.25"
# Where no fabric can be made, programs without one run all the same.
expect 0 "$run" -x SHCA_FAULT=ud_dorp=1 echo ran
says "$out" "^ran"; says "$err" "ud_dorp"; says "$err" "warning: the job's fabric cannot be made"

# Verbs programs without MPI reach each other in the fabric as well.
if command -v ibv_rc_pingpong >/dev/null; then
	port=$((20000 + $$ % 10000))
	expect 0 "$run" --timeout 50 -n 2 sh -c 'if [ "$PMIX_RANK" = 1 ]; then
			for _ in $(seq 100); do
				"$0" ibv_rc_pingpong -n 10 -p "$1" localhost 2>"$2" && exit
				sleep 0.1
			done
			cat "$2" >&2; exit 1
		fi
		exec "$0" ibv_rc_pingpong -n 10 -p "$1"' "$PWD/shcarun" $port "$tmp/pingpong"
	[ "$(grep -c "^10 iters" "$out")" = 2 ] || fail "pingpong"
else
	echo "note: ibv_rc_pingpong is not installed"
fi
nothing_left
exit 0
