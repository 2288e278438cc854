# SPDX-License-Identifier: BSD-3-Clause
# For the tests in which a rank dies and the survivors go on (survivors.h): to be sourced. Run in the build directory.
set -u
run=./heddlerun
fails=0
tmp=$(mktemp -d) || exit 1
count=$tmp/count	# the survivors' file, new for each job
trap 'rm -rf "$tmp"' EXIT

# one_dies RANKS DEAD LABEL OPTION... PROGRAM ARGUMENT...: every survivor reports the error; the dead rank is named, and neither another
# rank nor an invalid one.
one_dies() {
	ranks=$1 dead=$2 label=$3; shift 3
	rm -f "$count"
	timeout -k 5 120 "$run" --on-death=continue -n "$ranks" "$@" >"$tmp/out" 2>"$tmp/err"
	code=$?
	told=$(grep -c '^survivor [0-9]*: told' "$tmp/out")
	grep -o 'rank [0-9]* of MPI_COMM_WORLD\|to rank [0-9]* failed' "$tmp/err" | grep -o 'rank [0-9]*' >"$tmp/named"
	blamed=$(grep -vcx "rank $dead" "$tmp/named")
	named=$(grep -cx "rank $dead" "$tmp/named")
	blamed=$((blamed + $(grep -c 'rank -[0-9]' "$tmp/err")))
	if [ $code = 137 ] && [ "$told" = $((ranks - 1)) ] && [ "$blamed" = 0 ] && [ "$named" != 0 ]; then
		echo "ok: $label"
	else
		echo "FAILED: $label: exit code $code, $told are told, $named lines name rank $dead, $blamed blame others"
		head -n 20 "$tmp/out"
		head -n 10 "$tmp/err" | cut -c1-300
		fails=$((fails + 1))
	fi
}
