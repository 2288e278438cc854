#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tool interface and the profiling interface (MPI-5.0 chapter 15): tools_mpit.c, a preloaded wrapper (tools_pmpi.c), and the
# tool of examples/mpit_report.c, preloaded into a program that knows nothing of it.
set -u
top=${MPI_TEST_BUILD:-.}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

job() {		# job NAME ARGUMENTS...: the job ends with success
	name=$1
	shift
	timeout -k 5 100 "$top/heddlerun" "$@" >"$tmp/out" 2>"$tmp/err" && return
	echo "FAILED ($?): $name"
	tail -n 100 "$tmp/out" "$tmp/err"
	failed=1
}

said() {	# said TEXT: the last job's output has TEXT (a basic regular expression)
	grep -q -- "$1" "$tmp/out" "$tmp/err" && return
	echo "FAILED: $name: not said: $1"
	tail -n 100 "$tmp/out" "$tmp/err"
	failed=1
}

for n in 2 3; do
	job "$n ranks" -n $n "$top/tests/mp/tools_mpit"
	said "tools_mpit: ok, $n ranks"
done
job "events" -n 2 -x TOOLS_OFFLOADED=1 "$top/tests/mp/tools_mpit"
said 'tools_mpit: ok'
job "counters of the device" -n 3 -x HEDDLE_COLL_EXECUTOR=tasks "$top/tests/mp/tools_mpit" device
said 'tools_mpit: ok'
job "a variable written before MPI_Init" -n 2 "$top/tests/mp/tools_mpit" write
said 'transports: rank 0 -> 1'
job "instances" -n 2 "$top/tests/mp/tools_mpit" instances
said 'tools_mpit: ok, instances'
timeout -k 5 60 "$top/heddlerun" --on-death=continue -n 2 "$top/tests/mp/tools_mpit" death >"$tmp/out" 2>"$tmp/err"
name="the event of a death"
said 'tools_mpit: rank 0 got the event'

src=$(dirname "$0")
preload() {	# preload NAME SOURCE OPTIONS...: a job of heat2d with a library made of SOURCE
	name=$1 source=$2
	shift 2
	"$top/heddlecc" -shared -fPIC "$source" -o "$tmp/tool.so" || { echo "FAILED: $name: not built"; failed=1; }
	job "$name" -n 2 "$@" -x LD_PRELOAD="$tmp/tool.so" "$top/examples/heat2d" -n 64 -s 20
}
preload "profiling interface" "$src/tools_pmpi.c"
said 'tools_pmpi: rank 0 sent [1-9][0-9]* messages, [1-9][0-9]* bytes'
said 'tools_pmpi: rank 1 sent [1-9][0-9]* messages, [1-9][0-9]* bytes'
preload "examples/mpit_report.c" "$src/../../examples/mpit_report.c" -x HEDDLE_EAGER_MAX=4096
said 'mpit_report: rank 0: performance variables'
said '  requests  *[1-9]'
said '  HEDDLE_EAGER_MAX  *4096'
exit $failed
