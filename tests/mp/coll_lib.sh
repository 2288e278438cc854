# SPDX-License-Identifier: BSD-3-Clause
# For the tests of collectives: to be sourced, in the build directory. Sets run, fails, tmp and count (death_lib.sh), and seed.
# COLL_SEED: the seed of the random tests; COLL_RANDOM: their batches, for a long run.
. "$(dirname "$0")/death_lib.sh"
seed=${COLL_SEED:-$(date +%s)}
options=	# of every job: several words

failed() {	# failed TEXT: counts a failure
	echo "FAILED: $*"
	fails=$((fails + 1))
}

job() {	# job NAME ARGS...: heddlerun with ARGS ends with status 0; the output is in $tmp/out and $tmp/err
	name=$1
	shift
	# shellcheck disable=SC2086
	if timeout -k 5 240 $run "$@" >"$tmp/out" 2>"$tmp/err"; then
		echo "ok: $name"
	else
		echo "FAILED ($?): $name"
		grep -v '^heddle:  ' "$tmp/err" | cat "$tmp/out" - | tail -n 100
		fails=$((fails + 1))
	fi
}

try() {	# try NAME RANKS ARGS...
	label=$1 n=$2
	shift 2
	# shellcheck disable=SC2086
	job "$label, $n ranks" -n "$n" $options "$@"
}

try_hosts() {	# try_hosts NAME HOSTS ARGS...: a rank for each of HOSTS, which are played on this machine (hosts_played.c)
	label=$1 hosts=$2
	shift 2
	# shellcheck disable=SC2086
	job "$label, ranks on hosts $hosts" -n "$(echo "$hosts" | tr , '\n' | wc -l)" -x HEDDLE_DEVICE=shca0 -x HOSTS="$hosts" $options "$@"
}

fails_with() {	# fails_with TEXT NAME RANKS ARGS...: the job ends by itself, with an error that has TEXT
	text=$1 name=$2 n=$3
	shift 3
	timeout -k 5 100 "$run" -n "$n" "$@" >"$tmp/out" 2>"$tmp/err"
	code=$?
	[ $code != 0 ] && [ $code -lt 124 ] && grep -q "$text" "$tmp/err" && return
	echo "FAILED ($code): $name"
	tail -n 100 "$tmp/err"
	fails=$((fails + 1))
}

reported() {	# reported TEXT WHAT: the last job's report has TEXT (a basic regular expression)
	grep -q -- "$1" "$tmp/err" || failed "the report does not say $2"
}

not_reported() {	# not_reported TEXT WHAT
	! grep -- "$1" "$tmp/err" || failed "the report says $2"
}
