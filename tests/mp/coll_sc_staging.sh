#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Staging: a rank with a buffer that is only read (the input of a Reduce, a Scan's result for the next rank) completes before its
# readers have
# read. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for executor in auto mailbox; do
	try "staged, communicator freed, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_sc_staging freed 60
	try "staged, one after another, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_sc_staging stream 200
	try "staged by ranks in MPI_Finalize, executor $executor" 3 -x HEDDLE_COLL_EXECUTOR=$executor tests/mp/coll_sc_staging stopped
done
for n in 2 3 5; do
	for behave in "" async,noarena; do
		try "reductions in parts, some staged, SHCA_BEHAVE=$behave" "$n" -x SHCA_BEHAVE=$behave -x HEDDLE_COLL_EXECUTOR=mailbox \
			-x HEDDLE_COLL_MAILBOX_MAX=2 -x HEDDLE_COLL_DEPTH=16 -x HEDDLE_COLL_SINGLE_COPY_MIN=1 tests/mp/coll_sc_reduce 40 "$seed"
	done
done
try "staged on many communicators" 3 tests/mp/coll_sc_staging many 90

[ $fails = 0 ]
