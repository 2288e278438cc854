#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Joining a job: by heddlerun, alone, by other launchers; refusals.
. "$(dirname "$0")/launcher_lib.sh"

for n in 1 2 5; do
	expect 0 "$run" -n $n "$job" where
	lines "$out" $n
	for r in $(seq 0 $((n - 1))); do
		says "$out" "^rank $r of $n local $r of $n hosts 1 host 0 .* singleton 0 launcher heddlerun"
	done
	[ -s "$err" ] && fail "noise"
done
expect 0 "$job" where
says "$out" "^rank 0 of 1 local 0 of 1 .* singleton 1 launcher none"

# Values, lazily and in both directions; order by the fence; nothing at all.
expect 0 "$run" -n 6 "$job" exchange
lines "$out" 6
mkdir "$tmp/fences"
expect 0 "$run" -n 5 "$job" fences "$tmp/fences"
lines "$out" 5
expect 0 "$run" -n 3 "$job" nothing

# Oversubscription is seen, also when heddlerun itself is confined.
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
expect 0 taskset -c "$cpu" "$run" -n 2 "$job" where
says "$out" "cores 1 oversubscribed 1"
expect 0 taskset -c "$cpu" "$run" -n 1 "$job" where
says "$out" "cores 1 oversubscribed 0"

# Absent ranks are named, at the fence, before it, and when their address is asked for.
export HEDDLE_INIT_TIMEOUT=2500ms
expect 7 "$run" -n 3 "$job" absent 1
says "$err" "waited longer than 2.5 s (HEDDLE_INIT_TIMEOUT) for 1 of 3 ranks: rank 1"
expect 7 "$run" -n 4 "$job" late 2
says "$err" "for 1 of 4 ranks: rank 2"
expect 7 "$run" -n 2 "$job" get-absent
says "$err" "rank 1 has not published test.never within 2.5 s"
# The same when the first rank of the host, to which all compare their version, does not come.
expect 9 "$run" -n 3 "$job" late 0
says "$err" "rank 0 has not published hdl.common"
unset HEDDLE_INIT_TIMEOUT

# Different libraries.
$limit "$run" -n 1 "$job" where : -n 1 "${job%job}other_version" where >"$out" 2>"$err" </dev/null &&
	fail "two versions in a job"
says "$err" "rank 1 runs Heddle 9.9.9-test, rank 0 runs Heddle"
nothing_left

# Launchers without PMIx, as their environment shows.
expect 9 env PMI_SIZE=4 PMI_RANK=0 "$job" where
says "$err" "started 4 processes (PMI_SIZE=4).*no PMIx server.*heddlerun -n 4"
expect 9 env PMI_SIZE=4 PMI_RANK=3 "$job" where
says "$err" "rank 3 .*see the message of rank 0"
expect 9 env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$job" where
says "$err" "mpirun (Open MPI) started 2"
expect 9 env SLURM_NTASKS=3 SLURM_STEP_ID=0 SLURM_PROCID=0 "$job" where
says "$err" "srun --mpi=pmix"
expect 0 env PMI_SIZE=1 PMI_RANK=0 "$job" where
expect 0 env SLURM_NTASKS=3 "$job" where				# a batch script
expect 0 env SLURM_NTASKS=3 SLURM_STEP_ID=4294967290 "$job" where	# an interactive step
# ... and one inside heddlerun, since its ranks would all be the same rank.
expect 9 "$run" -n 1 env PMI_SIZE=2 PMI_RANK=0 "$job" where
says "$err" "one launcher was started by the other"
# heddlerun inside another launcher makes a separate job.
expect 0 env PMI_SIZE=4 PMI_RANK=3 OMPI_COMM_WORLD_SIZE=4 "$run" -n 2 "$job" where
says "$out" "^rank 1 of 2"

# A child of a rank is not that rank once more, but may be a single process, or start a separate job.
expect 0 "$run" -n 2 "$job" start "$job where" 9
says "$err" "was started by rank 1 of the job (process [0-9]*) and inherited its place"
says "$err" "env -u PMIX_NAMESPACE"
lines "$out" 0
expect 0 "$run" -n 2 "$job" start "env -u PMIX_NAMESPACE $job where" 0
says "$out" "^rank 0 of 1 .* singleton 1"
expect 0 "$run" -n 1 "$job" start "$run -n 2 $job where" 0
says "$out" "^rank 1 of 2"
# If a shell starts a rank, the shell's next program is not that rank.
expect 0 "$run" -n 2 sh -c '"$0" where && true' "$job"
lines "$out" 2

# A PMIx server that is no more.
expect 9 env PMIX_NAMESPACE=gone PMIX_RANK=1 PMIX_SERVER_URI41='gone.0;tcp4://127.0.0.1:9' "$job" where
says "$err" "namespace gone, but its PMIx server (gone.0;tcp4://127.0.0.1:9"

# heddlerun stopped in the middle: the ranks do not wait for ever.
HEDDLE_INIT_TIMEOUT=1s "$run" -n 1 sh -c 'kill -STOP $PPID; "$0" where 2>"$1"; echo $? >"$1.code"; kill -CONT $PPID' "$job" \
	"$tmp/stopped" >"$out" 2>"$err" </dev/null || fail "stopped heddlerun"
[ "$(cat "$tmp/stopped.code")" != 0 ] || fail "joined a stopped heddlerun"
says "$tmp/stopped" "PMIx"
# ... nor when it was stopped after they had joined. (The shell hides the program's exit status; but the program had joined.)
HEDDLE_INIT_TIMEOUT=1s "$run" -n 1 sh -c '"$0" publish-stopped $PPID 2>"$1"; echo $? >"$1.code"; kill -CONT $PPID' "$job" \
	"$tmp/stopped" >"$out" 2>"$err" </dev/null && fail "stopped heddlerun, later"
says "$err" "rank 0 (sh, pid [0-9]*) ended with exit code 0, but without MPI_Finalize"
[ "$(cat "$tmp/stopped.code")" = 1 ] || fail "published to a stopped heddlerun"
says "$tmp/stopped" "publishing this rank's addresses .* took longer than 1 s"

# Open MPI's launcher is a PMIx server.
if command -v mpirun.openmpi >/dev/null; then
	ompi="mpirun.openmpi --allow-run-as-root --oversubscribe"
	expect 0 $ompi -n 2 "$job" where
	says "$out" "^rank 1 of 2 local 1 of 2 .* launcher mpirun (Open MPI)"
	expect 0 $ompi -n 3 "$job" exchange
	lines "$out" 3
	# that launcher reports the size of the last program as that of the first, and of no other
	first=$PWD/tests/mp/mpi_first_use
	expect 0 $ompi -n 1 "$first" 1 : -n 2 "$first" 2
	expect 0 $ompi -n 3 "$first" 3 : -n 1 "$first" 1
	expect 5 $ompi -n 2 "$job" abort 1 5
	says "$err" "rank 1 .*it was asked to"
fi
# MPICH's launcher is no PMIx server: the job ends at once with the reason, not as twice rank 0 of 1.
if command -v mpiexec.hydra >/dev/null; then
	# Hydra itself may die of SIGPIPE, with all output of the ranks, when a proxy ends before Hydra has ended that proxy.
	for _ in 1 2 3 4 5; do
		$limit mpiexec.hydra -n 2 "$job" where >"$out" 2>"$err" </dev/null && fail "ran under Hydra"
		[ $? = 141 ] || break
	done
	says "$err" "started 2 processes (PMI_SIZE=2)"
	says_not "$out" "rank 0 of 1"
fi
exit 0
