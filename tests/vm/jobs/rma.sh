# SPDX-License-Identifier: BSD-3-Clause
# Two guests: one-sided communication between them and within each. libshca inside of each and rxe between them, where accumulates are
# messages; and rxe, alone or beside libshca, whose atomic requests carry accumulates out where the ranks ask for it, those of ranks of one
# guest, too. The ranks are started by Open MPI's mpirun.
# form: long
# guests: 2
# needs: mpirun.openmpi orted
# seconds: 4000
. "$sources/tests/vm/job.sh"
if [ "$guest" != 1 ]; then
	"$sources/tests/vm/rsh" --serve
	exit 0
fi
mp=$build/tests/mp
# of both guests the slower one comes to MPI_Init later, by the time that its first look at the programs' files takes
slow="env HEDDLE_INIT_TIMEOUT=300s"
for device in "" rxe0; do
	export HEDDLE_DEVICE=$device
	[ -n "$device" ] || unset HEDDLE_DEVICE
	for kind in rc ud; do
		export HEDDLE_TRANSPORT=$kind
		echo "2 x 1 ranks, HEDDLE_DEVICE=$device HEDDLE_TRANSPORT=$kind"
		# on every flavour of window that can be; shadow copies; fence, post/start, lock and lock_all
		# shellcheck disable=SC2086
		{
			try 600 0 '^comm: ok' mpirun_two 1 $slow "$mp/rma_comm" put compare_and_swap
			try 600 0 '^sync: ok' mpirun_two 1 $slow "$mp/rma_sync" fence star exclusive
			try 600 0 '^atomic: ok' mpirun_two 1 $slow RMA_TIMES=8 "$mp/rma_atomic" counter exchanged
		}
	done
done
export HEDDLE_TRANSPORT=rc
for device in rxe0 ""; do
	export HEDDLE_DEVICE=$device
	[ -n "$device" ] || unset HEDDLE_DEVICE
	for ranks in 1 2; do
		echo "2 x $ranks ranks, HEDDLE_DEVICE=$device, accumulates by rxe"
		# shellcheck disable=SC2086
		{
			try 600 0 'accumulates by device for aligned elements of 8 bytes' mpirun_two $ranks $slow HEDDLE_REPORT_TRANSPORTS=1 RMA_TIMES=8 \
				RMA_GRANULARITY=8 "$mp/rma_atomic" counter exchanged
			[ "$device$ranks" != 2 ] || grep -q 'too: 1 of 1 others have an agent queue' /tmp/said ||
				{ echo "FAILED: ranks of one guest do not accumulate by rxe"; failed=1; }
			try 600 0 '^atomic: ok' mpirun_two $ranks $slow RMA_TIMES=8 RMA_GRANULARITY=8 "$mp/rma_atomic" swaps strides
		}
	done
done
exit $failed
