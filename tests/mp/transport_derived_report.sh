#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# --report-transports tells which way derived types went: in pieces, through the ring; by RDMA WRITE of packed chunks where no ring is in memory
# that both sides load and store; and not at all where all messages are runs of bytes. Run in the build directory.
. "$(dirname "$0")/launcher_lib.sh"

# row RANK: the rank's row
row() { sed -n "s/^heddle: transports: rank $1: derived types are packed by the CPU (memory keys of the device, UMR, are not used): //p" "$err"; }
vectors="bench/hd_datatype -s -c -p vector -m 128K:128K"
# shellcheck disable=SC2086
expect 0 "$run" -n 2 --report-transports $vectors
says "$out" '^# Validation: Pass'
for rank in 0 1; do
	case $(row $rank) in
	"sent "[1-9]*" msgs "[1-9]*" bytes in pieces, "*"; received "[1-9]*" msgs "[1-9]*" bytes") ;;
	*) fail "no row of rank $rank for messages in pieces: $(row $rank)" ;;
	esac
done
# shellcheck disable=SC2086
expect 0 "$run" -n 2 --report-transports -x SHCA_BEHAVE=noarena $vectors
says "$out" '^# Validation: Pass'
case $(row 0) in
*" in pieces, "[1-9]*" msgs "[1-9]*" bytes by RDMA WRITE; received "*) ;;
*) fail "no row for RDMA WRITEs of packed chunks: $(row 0)" ;;
esac
expect 0 "$run" -n 2 --report-transports bench/hd_latency -c -m 128K:128K -i 20 -x 2
says_not "$err" 'derived types'
echo ok
