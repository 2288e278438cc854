#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Another user of the host (launcher_other_user.c) holds up no job, and that user's files and sockets are not touched.
. "$(dirname "$0")/launcher_lib.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: needs root to become another user"; exit 77; }
chmod 755 "$tmp"; chmod 1777 "$TMPDIR"
cp tests/mp/launcher_other_user "$tmp/intruder" && chmod 755 "$tmp/intruder"
intruder=
cleanup() {
	# shellcheck disable=SC2086
	kill -9 $intruder ${bg:-} 2>/dev/null
	rm -rf "$tmp"
}
trap cleanup EXIT
# as_other ARGUMENT...: starts the intruder; returns when the intruder is ready
as_other() {
	: >"$tmp/said"
	"$tmp/intruder" "$@" >"$tmp/said" 2>&1 &
	intruder="$intruder $!"
	wait_for grep -q '^ready' "$tmp/said"
}

# A silent connection to the PMIx server: the server closes the connection, and the ranks go through MPI_Init and MPI_Finalize meanwhile.
$limit "$run" -n 2 sh -c 'echo "$PMIX_SERVER_URI41 $PMIX_SERVER_TMPDIR" >"$1.$PMIX_RANK"; while [ ! -e "$1.go" ]; do sleep 0.02; done; exec "$0"' \
	"$job" "$tmp/uri" >"$out" 2>"$err" </dev/null &
bg=$!
wait_for [ -s "$tmp/uri.0" ]
read -r uri dir <"$tmp/uri.0"
as_other port "${uri##*:}"
wait_for grep -q '^closed' "$tmp/said"
# a directory of the name that the job's had
as_other make "$dir"
touch "$tmp/uri.go"
wait $bg || fail "a job beside a silent connection of another user: status $?"
lines "$err" 0
[ -d "$dir" ] || fail "heddlerun has removed another user's directory"
rmdir "$dir"

# Names of a fabric that two jobs share.
fabric=users-$$
as_other bind silent "shca-lock/0/$fabric" "shca/0/$fabric/$$/3"
expect 0 "$run" -n 2 -x SHCA_FABRIC=$fabric -x SHCA_JOIN_MS=3000 tests/mp/mpi_fds_closed 0
lines "$err" 1
nothing_left
