#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The report names executor and reason; settings that cannot be met are refused. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

try "report" 5 -x HEDDLE_REPORT_COLLECTIVES=1 -x HEDDLE_COLL_EXECUTOR=tasks -x HEDDLE_COLL_EXTENSIONS=0 tests/mp/coll_correct reduce
for want in 'allreduce .*nonblocking tasks  *tree  *device' 'allreduce .*blocking  *mailbox  *cells  *owner' \
	'not tasks: the device does not know MAX on [0-9]* bytes of MPI_DOUBLE without its extensions'; do
	reported "$want" "'$want'"
done
# Queues of the offload are RC: where that is not allowed, the host executor runs everything over the kinds that are.
try "offload without RC" 3 -x HEDDLE_TRANSPORT=ud -x HEDDLE_REPORT_COLLECTIVES=1 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_correct reduce
reported 'HEDDLE_TRANSPORT=ud leaves out RC' 'why nothing is offloaded with HEDDLE_TRANSPORT=ud'
not_reported ' \(mailbox\|tasks\) ' 'that something is offloaded with HEDDLE_TRANSPORT=ud'
try "report" 3 -x HEDDLE_REPORT_COLLECTIVES=1 bench/hd_allreduce -m 8:8 -i 20
for want in 'allreduce .*blocking  *mailbox  *cells' 'host: among the first of its communicator'; do
	reported "$want" "'$want'"
done
for wrong in hsot hca; do
	timeout 60 "$run" -n 2 -x HEDDLE_COLL_EXECUTOR=$wrong tests/mp/coll_correct skew >"$tmp/out" 2>"$tmp/err" &&
		failed "HEDDLE_COLL_EXECUTOR=$wrong was accepted"
	reported 'allowed is one of auto|host|mailbox|tasks' "the allowed values for $wrong"
done

[ $fails = 0 ]
