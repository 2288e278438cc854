/* SPDX-License-Identifier: BSD-3-Clause */
/* Between partitioned.c and the files of src/p2p above it. */
#ifndef HDL_P2P_PARTITIONED_H
#define HDL_P2P_PARTITIONED_H

#include "p2p/request.h"

/* Numbers of the handlers (transport.h, active messages). */
enum { HDL_AM_PART_GO = HDL_AM_OWN, HDL_AM_PART_DATA };

/* Registers the handlers. Must be called before the first turn of progress. 0 or a negative errno, reported. */
int hdl_partitioned_open(struct hdl_tp *tp);
void hdl_partitioned_close(void);
/* Fails the active requests whose peer is process `proc`. */
void hdl_partitioned_peer_failed(int proc);

#endif
