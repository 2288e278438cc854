#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Objects made of ranks (attributes, groups, communicators, topologies), handles that are none, and objects that are freed while
# in use: on 1 to 7 ranks; the kind of queue does not matter.
MPI_TEST_KINDS=default
MPI_TEST_RANKS=${MPI_TEST_RANKS:-1 2 3 4 5 7}
MPI_TEST_PROGRAMS=${MPI_TEST_PROGRAMS:-attributes groups create topologies ptp vcoll handles refused freed first_use comm_members}
export MPI_TEST_KINDS MPI_TEST_RANKS MPI_TEST_PROGRAMS
# The members of communicators, with many ranks, over every carrier of messages.
case $MPI_TEST_PROGRAMS in
*parts*)	MPI_TEST_KINDS="default ud dc,ud" MPI_TEST_RANKS=33 MPI_TEST_PROGRAMS=parts "$(dirname "$0")/mpi_run.sh" || exit 1 ;;
esac
top=${MPI_TEST_BUILD:-.}
# Arguments that are none, one rank's own affair.
case $MPI_TEST_PROGRAMS in
*handles*)	timeout -k 5 120 "$top/heddlerun" -n 1 "$top/tests/mp/mpi_outputs" || exit 1 ;;
esac
first=$top/tests/mp/mpi_first_use
# Several programs in a job: each gets the number of its ranks.
case $MPI_TEST_PROGRAMS in
*first_use*)	timeout -k 5 120 "$top/heddlerun" -n 2 "$first" 2 : -n 1 "$first" 1 : -n 2 "$first" 2 || exit 1 ;;
esac
exec "$(dirname "$0")/mpi_run.sh"
