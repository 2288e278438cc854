# SPDX-License-Identifier: BSD-3-Clause
# For the tests of the transport's programs, which print ok: to be sourced, with $run set to heddlerun.
failed=0

# try RANKS NAME=VALUE... -- PROGRAM ARGUMENT...: ends within $bound seconds, with status 0, and prints the line ok.
try() {
	n=$1
	shift
	env=
	while [ "$1" != -- ]; do
		env="$env $1"
		shift
	done
	shift
	# the settings are several words on purpose
	# shellcheck disable=SC2086
	out=$(env $env timeout -k 5 "${bound:-120}" "$run" -n "$n" "$@" 2>&1)
	status=$?
	if [ $status -ne 0 ] || ! echo "$out" | grep -qx ok; then
		echo "FAILED ($status): $env $run -n $n $*"
		echo "$out" | tail -n 100
		failed=1
	fi
}
