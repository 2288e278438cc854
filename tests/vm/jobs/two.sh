# SPDX-License-Identifier: BSD-3-Clause
# Two guests: libshca inside of each, rxe between them; the ranks are started by Open MPI's mpirun, whose PMIx Heddle takes.
# form: long
# guests: 2
# needs: mpirun.openmpi orted
# seconds: 1500
. "$sources/tests/vm/job.sh"
unset HEDDLE_DEVICE
if [ "$guest" != 1 ]; then
	"$sources/tests/vm/rsh" --serve
	exit 0
fi
mp=$build/tests/mp bench=$build/bench
for ranks in 1 2 4; do
	for kind in "" rc ud; do
		export HEDDLE_TRANSPORT=$kind
		echo "2 x $ranks ranks, HEDDLE_TRANSPORT=$kind"
		try 100 0 '^ok$' mpirun_two $ranks "$mp/transport_traffic" 100 60000 1
	done
done
exit $failed
