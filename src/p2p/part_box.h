/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The box of a partitioned receive: fabric memory of the receiver, into which the sender's threads store
 * partitions without a lock.
 *
 *     head | count of partition 0 | count of partition 1 | ... | bytes, as in the packed stream
 *
 * Counts. A writer copies the bytes of one of its partitions and then adds their number to the counts of the receiver's
 * partitions that the bytes belong to. Counts are never reset: after epoch e the count of a partition is e * each, so the number
 * that an epoch adds is known without a message. A count whose partition one writer fills alone has no other writer in the
 * epoch: a store is enough.
 *
 * GO of the second epoch and later ones is `go`. A sender that has a partition ready, but does not find GO, stores `asked`; the
 * receiver that finds `asked` sends GO as a message too, which the sender's progress finds. Each side stores its word and then
 * loads the other one, sequentially consistent both. Without that order:
 *     1. The sender loads `go`: not yet. The receiver loads `asked`: not yet.
 *     2. The receiver stores `go` and sends no message. The sender stores `asked`, and waits for the message for ever.
 */
#ifndef HDL_P2P_PART_BOX_H
#define HDL_P2P_PART_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

struct hdl_part_box {
	_Alignas(64) uint64_t nonce;	/* proves that the sender has mapped this box and no other memory; the receiver, once */
	uint32_t mapped;		/* 1: the sender uses the box, and finds `go`; the sender, at the first GO; atomic */
	uint32_t asked;			/* the last epoch in which the sender had to wait for GO; the sender; atomic */
	_Alignas(64) uint64_t go;	/* nonce + epoch: that epoch has begun at the receiver; the receiver; atomic */
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

/* The sender has stored these bytes in this epoch. each: bytes of a partition of the receiver, not 0. */
static inline void hdl_box_wrote(struct hdl_part_box *b, uint32_t n, size_t each, uint32_t epoch, size_t offset, size_t len)
{
	for (size_t j = offset / each, part; len; j++, offset += part, len -= part) {
		uint64_t *count = hdl_box_count(b, n, (uint32_t)j);

		part = (j + 1) * each - offset;
		if (part > len)
			part = len;
		/* release, of both: pairs with the acquire in hdl_box_has */
		if (part == each)
			__atomic_store_n(count, (uint64_t)epoch * each, __ATOMIC_RELEASE);
		else
			__atomic_fetch_add(count, part, __ATOMIC_RELEASE);
	}
}

/* Receiver: lets the sender store the partitions of this epoch. Returns whether the sender needs GO as a message, too. */
static inline bool hdl_box_go(struct hdl_part_box *b, uint32_t epoch)
{
	__atomic_store_n(&b->go, b->nonce + epoch, __ATOMIC_SEQ_CST);
	return !__atomic_load_n(&b->mapped, __ATOMIC_SEQ_CST) || __atomic_load_n(&b->asked, __ATOMIC_SEQ_CST) == epoch;
}

/* Sender: whether the receiver has begun this epoch. nonce: the box's, from GO; a box that the receiver has
 * freed has another one. */
static inline bool hdl_box_may_store(struct hdl_part_box *b, uint64_t nonce, uint32_t epoch)
{
	return __atomic_load_n(&b->go, __ATOMIC_SEQ_CST) == nonce + epoch;
}

/* Returns true if all bytes of partition j of this epoch are in the box. */
static inline bool hdl_box_has(struct hdl_part_box *b, uint32_t n, size_t each, uint32_t j, uint32_t epoch)
{
	return __atomic_load_n(hdl_box_count(b, n, j), __ATOMIC_ACQUIRE) == (uint64_t)epoch * each;
}

#endif
