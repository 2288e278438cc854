/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids of communicators: see ids.h. */
#include "p2p/comm/ids.h"

#include <string.h>

uint64_t hdl_ids_used[HDL_ID_WORDS];

void hdl_id_take(unsigned id)
{
	hdl_ids_used[id / 64] |= (uint64_t)1 << id % 64;
}

void hdl_id_give(unsigned id)
{
	hdl_ids_used[id / 64] &= ~((uint64_t)1 << id % 64);
}

void hdl_ids_reset(void)
{
	memset(hdl_ids_used, 0, sizeof(hdl_ids_used));
}

int hdl_id_lowest_free(const uint64_t *used)
{
	for (int w = 0; w < (int)HDL_ID_WORDS; w++)
		if (~used[w])
			return w * 64 + __builtin_ctzl(~used[w]);
	return -1;
}
