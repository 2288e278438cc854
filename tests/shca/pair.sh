# SPDX-License-Identifier: BSD-3-Clause
# To be sourced: a server and a client of an unmodified verbs program on the software HCA. Needs $dir; the outputs are left in
# $dir/server and $dir/client. Some other program may hold a port, so several are tried.
pair_port=$((10000 + $$ % 15000))
pair_server=

# pair SERVER-WRAPPER CLIENT-WRAPPER PROGRAM ARGUMENT...: 0 when both ended well
pair()
{
	pair_sw=$1 pair_cw=$2
	shift 2
	for pair_try in 1 2 3 4 5; do
		pair_port=$((pair_port + 1))
		# shellcheck disable=SC2086
		$pair_sw timeout 60 ./shcarun "$@" -p $pair_port >"$dir/server" 2>&1 &
		pair_server=$!
		pair_n=0
		until pair_status=0; $pair_cw timeout 60 ./shcarun "$@" -p $pair_port 127.0.0.1 >"$dir/client" 2>&1 ||
			pair_status=$?; [ $pair_status -eq 0 ]; do
			pair_n=$((pair_n + 1))
			# not listening yet: again; anything else is the program's own failure
			[ $pair_n -lt 100 ] && kill -0 $pair_server 2>/dev/null && grep -qi "connect" "$dir/client" || break
			sleep 0.1
		done
		if [ $pair_status -ne 0 ]; then
			kill $pair_server 2>/dev/null || :
		fi
		wait $pair_server || pair_status=$?
		pair_server=
		# perftest: the samples of the time-stamp counter scatter where other programs take the CPU
		if grep -qi "listen" "$dir/server" || grep -aq "Can't produce a report" "$dir/server" "$dir/client"; then
			continue
		fi
		return $pair_status
	done
	return 1
}
pair_end()
{
	[ -z "$pair_server" ] || kill "$pair_server" 2>/dev/null || :
}
