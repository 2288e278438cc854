#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Hosts that lack something, and ranks in containers: one line names the cause.
. "$(dirname "$0")/launcher_lib.sh"
mpi=$PWD/tests/mp/mpi_errors

# names CODE TEXT COMMAND...: fails with this code; a line has the text, and no other line explains (lines about consequences do not count).
names() {
	code=$1 text=$2; shift 2
	expect "$code" "$@"
	says "$err" "$text"
	n=$(grep -v 'MPI_Init failed; the program ends$' "$err" | grep -v '^heddlerun: rank [0-9]* .* \(ended with\|aborted\)' | wc -l)
	[ "$n" -le "${most:-1}" ] || fail "$n lines instead of one"
}

names 1 "too few open files are allowed: 4 ranks need [0-9]* descriptors in heddlerun, the limit is 16 (ulimit -Hn" \
	sh -c 'ulimit -n 16; exec "$@"' - "$run" -n 4 "$mpi" returned
most=2 names 1 "too few open files are allowed: the limit is 12 (ulimit -n), a rank needs" \
	sh -c 'ulimit -Sn 12; exec "$@"' - "$run" -n 2 "$mpi" returned
expect 0 sh -c 'ulimit -n 64; exec "$@"' - "$run" -n 4 "$mpi" returned
[ ! -s "$err" ] || fail "noise"

# srun's other protocols.
names 1 "srun (Slurm) .*--mpi=pmi2.* started 4 processes (PMI_SIZE=4).* or with srun --mpi=pmix" \
	env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 PMI_SIZE=4 PMI_RANK=0 "$mpi" returned
expect 1 env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 HYDI_CONTROL_FD=5 PMI_SIZE=4 PMI_RANK=0 "$mpi" returned
says "$err" "mpiexec (Hydra"

# Namespaces, where they can be made.
if unshare -n true 2>/dev/null; then
	names 1 "^heddlerun: no network interface is up.*ip link set lo up" unshare -n "$run" -n 2 "$mpi" returned
	most=2 names 1 "is in another network namespace (a container?) than heddlerun.*--network=host" \
		"$run" -n 2 unshare -n "$mpi" returned
else
	echo "note: no network namespace can be made here"
fi
if unshare -U true 2>/dev/null; then
	most=2 names 1 "is in another user namespace (a container?) than heddlerun" "$run" -n 2 unshare -U "$mpi" returned
	# libpmix closes a refused connection twice: by heddlerun's functions, which tests/unit/launcher_accept.c tests
	$limit env LD_DEBUG=bindings LD_DEBUG_OUTPUT="$tmp/bindings" "$run" -n 2 unshare -U "$mpi" returned >"$out" 2>"$err" </dev/null
	for function in accept shutdown close; do
		cat "$tmp"/bindings.* | grep -q "libpmix[^ ]* \[0\] to [^ ]*heddlerun \[0\]: normal symbol .$function'" || fail "libpmix has its own $function()"
	done
fi
if unshare -fp true 2>/dev/null; then
	expect 1 "$run" -n 2 unshare -fp "$mpi" returned
	says "$err" "belongs to another PID namespace (container) than this process.*--pid=host"
fi
if unshare -m sh -c 'mount -t tmpfs none /proc' 2>/dev/null; then
	expect 0 unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' - "$run" -n 2 "$mpi" returned
	[ ! -s "$err" ] || fail "noise without /proc"
fi
nothing_left
exit 0
