# SPDX-License-Identifier: BSD-3-Clause
# Two guests: one-sided communication between them and within each. libshca inside of each and rxe between them, where accumulates are
# messages; and rxe alone, whose atomic requests carry accumulates out where the ranks ask for it. The ranks are started by Open MPI's mpirun.
# form: long
# guests: 2
# needs: mpirun.openmpi orted
# seconds: 1500
. "$sources/tests/vm/job.sh"
if [ "$guest" != 1 ]; then
	"$sources/tests/vm/rsh" --serve
	exit 0
fi
mp=$build/tests/mp
for device in "" rxe0; do
	export HEDDLE_DEVICE=$device
	[ -n "$device" ] || unset HEDDLE_DEVICE
	for kind in rc ud; do
		export HEDDLE_TRANSPORT=$kind
		echo "2 x 1 ranks, HEDDLE_DEVICE=$device HEDDLE_TRANSPORT=$kind"
		# on every flavour of window that can be; shadow copies; fence, post/start, lock and lock_all
		try 240 0 '^comm: ok' mpirun_two 1 "$mp/rma_comm" put compare_and_swap
		try 240 0 '^sync: ok' mpirun_two 1 "$mp/rma_sync" fence star exclusive
		try 240 0 '^atomic: ok' mpirun_two 1 env RMA_TIMES=8 "$mp/rma_atomic" counter exchanged
	done
done
export HEDDLE_DEVICE=rxe0 HEDDLE_TRANSPORT=rc
for ranks in 1 2; do
	echo "2 x $ranks ranks, accumulates by the device"
	try 240 0 'accumulates by device for aligned elements of 8 bytes' mpirun_two $ranks env HEDDLE_REPORT_TRANSPORTS=1 RMA_TIMES=8 RMA_GRANULARITY=8 \
		"$mp/rma_atomic" counter exchanged
	try 240 0 '^atomic: ok' mpirun_two $ranks env RMA_TIMES=8 RMA_GRANULARITY=8 "$mp/rma_atomic" swaps strides
done
exit $failed
