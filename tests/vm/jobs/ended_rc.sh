# SPDX-License-Identifier: BSD-3-Clause
# Two guests: the second one ends without a word (its qemu is ended) while all ranks exchange messages over rc.
# form: long
# guests: 2
# needs: mpirun.openmpi orted
# seconds: 480
. "$sources/tests/vm/job.sh"
unset HEDDLE_DEVICE
[ "$guest" = 1 ] || { be_lost; exit 0; }
lose ended rc
exit $failed
