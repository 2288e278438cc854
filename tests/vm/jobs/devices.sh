# SPDX-License-Identifier: BSD-3-Clause
# One guest: ranks that believe to be on two hosts, reached by the software HCA and by rxe; no wake-up of either is lost.
# form: short
# guests: 1
# seconds: 200
. "$sources/tests/vm/job.sh"
mp=$build/tests/mp
export HEDDLE_DEVICE=shca0,rxe0 HOSTS_RANKS=2
for kind in rc ud; do
	export HEDDLE_TRANSPORT=$kind
	echo "HEDDLE_TRANSPORT=$kind"
	try 60 0 '^ok$' "$run" -n 4 "$mp/transport_hosts_sleep" 30
	try 60 0 '^ok$' "$run" -n 4 "$mp/transport_hosts_traffic" 60 60000 2
done
exit $failed
