#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rules and examples of the MPI standard by chapter (standard_*.c), on 1 to 7 ranks. MPI_TEST_KINDS adds kinds of queue.
MPI_TEST_PREFIX=standard
MPI_TEST_KINDS=${MPI_TEST_KINDS:-default}
MPI_TEST_RANKS=${MPI_TEST_RANKS:-1 2 3 4 5 6 7}
MPI_TEST_PROGRAMS=${MPI_TEST_PROGRAMS:-ptp types coll forms comms topo env}
export MPI_TEST_PREFIX MPI_TEST_KINDS MPI_TEST_RANKS MPI_TEST_PROGRAMS
exec "$(dirname "$0")/mpi_run.sh"
