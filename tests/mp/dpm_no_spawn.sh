#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Launchers whose PMIx server can neither spawn nor publish (dpm_no_spawn.c plays one, and the environment says which): errors name what lacks it.
. "$(dirname "$0")/launcher_lib.sh"
prog=$PWD/tests/mp/dpm_no_spawn
expect 0 "$prog" server 'a PMIx launcher'
expect 0 env PRTE_LAUNCHED=1 "$prog" server PRRTE
expect 0 env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 "$prog" server Slurm
nothing_left
