/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids of communicators. The communicator with an id has the contexts 2 * id (point-to-point) and 2 * id + 1 (collectives). */
#ifndef HDL_P2P_IDS_H
#define HDL_P2P_IDS_H

#include <stdint.h>

#define HDL_ID_WORDS	((1u << 15) / 64)
#define HDL_IDS		(64 * HDL_ID_WORDS)
extern uint64_t hdl_ids_used[HDL_ID_WORDS];	/* bit id % 64 of word id / 64: in use on this rank */

/* Mark an id as used on this rank, or as free. */
void hdl_id_take(unsigned id);
void hdl_id_give(unsigned id);
/* Of a bitmap of HDL_ID_WORDS words. Returns the lowest id whose bit is 0, or -1. */
int hdl_id_lowest_free(const uint64_t *used);
void hdl_ids_reset(void);

#endif
