#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Ranks whose private memory the kernel keeps from other processes, from their start or from the middle of the run: every kind of queue
# carries
# all messages, and one line of the job says that proxies are used. Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"
denied=tests/mp/transport_cma_denied
line='the kernel forbids process [0-9]* (.*) process_vm_readv of process [0-9]* ('
[ -x $denied ] || { echo "skipped: $denied is not built"; exit 77; }

for kind in rc xrc dc ud default; do
	if [ $kind = default ]; then set --; else set -- -x HEDDLE_TRANSPORT=$kind; fi
	expect 0 "$run" -n 5 "$@" $denied
	says "$out" '^ok$'
	# UD carries no private memory
	[ $kind = ud ] || [ "$(grep -c "$line" "$err")" = 1 ] || fail "$kind: not one line says that process_vm_readv is forbidden"
	says_not "$err" '^heddle: '
done
# one reason at a time, from the middle of the run: they have read each other's memory by then
for sort in 3 4; do
	expect 0 "$run" -n 5 $denied $sort
	[ "$(grep -c "$line" "$err")" = 1 ] || fail "sort $sort: not one line says that process_vm_readv is forbidden"
done
# of the two calls the one that was refused is named
expect 0 "$run" -n 5 -x HEDDLE_RENDEZVOUS=write $denied 5
[ "$(grep -c "$(echo "$line" | sed s/readv/writev/)" "$err")" = 1 ] || fail "not one line says that process_vm_writev is forbidden"
expect 0 "$run" -n 5 -x SHCA_CMA=no $denied
says_not "$err" "$line"
echo ok
