# SPDX-License-Identifier: BSD-3-Clause
# Two guests of 2 ranks: one rank is killed in a collective, by every executor inside of a host; all others are told of it, and of nobody else.
# form: long
# guests: 2
# needs: mpirun.openmpi orted
# seconds: 1200
. "$sources/tests/vm/job.sh"
unset HEDDLE_DEVICE
if [ "$guest" != 1 ]; then
	"$sources/tests/vm/rsh" --serve
	exit 0
fi
dies allreduce auto 3 rc
dies bcast mailbox 1 rc
dies barrier tasks 2 rc
dies allreduce auto 3 ud
dies bcast host 0 ""
exit $failed
