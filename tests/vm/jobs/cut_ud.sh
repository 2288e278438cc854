# SPDX-License-Identifier: BSD-3-Clause
# Two guests: the second one is cut off (its link goes down) and lives on while all ranks exchange messages over ud.
# form: long
# guests: 2
# needs: mpirun.openmpi orted
# seconds: 480
. "$sources/tests/vm/job.sh"
unset HEDDLE_DEVICE
[ "$guest" = 1 ] || { be_lost; exit 0; }
lose cut ud
exit $failed
