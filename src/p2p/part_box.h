/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The box of a partitioned receive: fabric memory of the receiver, into which the sender's threads store partitions without a lock.
 *
 *     head | count of partition 0 | count of partition 1 | ... | bytes, as in the packed stream
 *
 * A writer copies the bytes of one of its partitions and then adds their number to the counts of the receiver's partitions that they
 * belong to. Counts are never reset: after epoch e the count of a partition is e * each, so what an epoch adds is known without a message.
 */
#ifndef HDL_P2P_PART_BOX_H
#define HDL_P2P_PART_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

struct hdl_part_box {
	_Alignas(64) uint64_t nonce;	/* proves that the sender has mapped this box and no other memory; the receiver, once */
	_Alignas(64) char counts[];
};

/* Counts have a cache line each, unless they are very many: then several threads add to one line. */
static inline size_t hdl_box_stride(uint32_t n)
{
	return n <= 1024 ? 64 : sizeof(uint64_t);
}

static inline uint64_t *hdl_box_count(struct hdl_part_box *b, uint32_t n, uint32_t j)
{
	return (uint64_t *)(void *)(b->counts + j * hdl_box_stride(n));
}

static inline char *hdl_box_data(struct hdl_part_box *b, uint32_t n)
{
	return b->counts + align_up(n * hdl_box_stride(n), 64);
}

/* Bytes of a box for n partitions of `total` bytes in all. */
static inline size_t hdl_box_bytes(uint32_t n, size_t total)
{
	return sizeof(struct hdl_part_box) + align_up(n * hdl_box_stride(n), 64) + total;
}

/* The sender has stored these bytes. each: bytes of a partition of the receiver, not 0. */
static inline void hdl_box_wrote(struct hdl_part_box *b, uint32_t n, size_t each, size_t offset, size_t len)
{
	for (size_t j = offset / each, part; len; j++, offset += part, len -= part) {
		part = (j + 1) * each - offset;
		if (part > len)
			part = len;
		/* release: pairs with the acquire in hdl_box_has */
		__atomic_fetch_add(hdl_box_count(b, n, (uint32_t)j), part, __ATOMIC_RELEASE);
	}
}

/* Whether all bytes of partition j of this epoch are in the box. */
static inline bool hdl_box_has(struct hdl_part_box *b, uint32_t n, size_t each, uint32_t j, uint32_t epoch)
{
	return __atomic_load_n(hdl_box_count(b, n, j), __ATOMIC_ACQUIRE) == (uint64_t)epoch * each;
}

#endif
