# SPDX-License-Identifier: BSD-3-Clause
# Two guests of 2 ranks: the second guest ends without a word (its qemu is ended) while all ranks are in collectives.
# form: long
# guests: 2
# needs: mpirun.openmpi orted
# seconds: 480
. "$sources/tests/vm/job.sh"
unset HEDDLE_DEVICE
[ "$guest" = 1 ] || { be_lost; exit 0; }
export HEDDLE_TRANSPORT=rc HEDDLE_UD_TIMEOUT=10s
mpirun_two 2 "$build/tests/vm/collective" allreduce -1 "$out/enough" >/tmp/died.said 2>&1 </dev/null &
within 120 has 4 exchanges /tmp/died.said || { echo "FAILED: the ranks do not come to their collectives"; tail -n 40 /tmp/died.said; exit 1; }
touch "$out/ended.2"
start=$(date +%s)
within 60 spoke 2
echo "after $(($(date +%s) - start)) s:"
touch "$out/enough"
told_of '2|3' 3
exit $failed
