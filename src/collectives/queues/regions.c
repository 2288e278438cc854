/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of slots: their number and sizes, their memory, and the exchange of their addresses. See queues.h for their use.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

/* ---- sizes ------------------------------------------------------------------------------------------------- */

/* Bytes of one operand in the slots of each class. LEAST: 48 bytes with stamps; a block is half as long. SHORT: 64 bytes, or 32
 * as elements of CALC, and stamps. MIDDLE: 1 KiB, twice as long as elements, and stamps. LONG: `most` bytes and stamps. */
#define LEAST_OPERAND 64
#define SHORT_OPERAND (64 + 64)
#define MIDDLE_OPERAND (2048 + 64)
#define LONG_OPERAND(most) (align_up(most, 8) + 64)
#define LONG_DEPTH 3			/* long operations take long, and their slots much memory */
#define WIDE_DEPTH 4			/* of wide cells */
/* Most blocks for which a slot has memory: with more ranks all blocks together get no more. */
#define BLOCKS_RANKS 16

/* Contents of a slot of a tree. */
enum slot_content { SLOT_BLOCKS, SLOT_BLOCKS_OR_OPERANDS };

/* Returns the number of operands, or of ranks' blocks, for which a slot has room. Tree: this rank's operand, the children's and
 * the result, or each rank's block. Pairs: each rank's block in both directions, and the result. */
static size_t places(int size, bool pairs, enum slot_content content)
{
	bool reduces = content == SLOT_BLOCKS_OR_OPERANDS;
	size_t blocks = (size_t)min_int(size, BLOCKS_RANKS), operands = 2 + (size_t)hdl_knomial_links(hdl_vars.coll_radix, size);

	return pairs ? 2 * blocks + 1 : reduces && operands > blocks ? operands : blocks;
}

/* The same in the slots of HDL_SLOT_SHORT, which every communicator has: blocks are half as long. */
static size_t least_places(int size, bool pairs)
{
	size_t blocks = (size_t)min_int(size, BLOCKS_RANKS), operands = 2 + (size_t)hdl_knomial_links(hdl_vars.coll_radix, size);

	return pairs ? blocks + 1 : operands > blocks / 2 ? operands : blocks / 2;
}

size_t hdl_queues_data_max(int size, const struct hdl_reduce_caps *caps, bool pairs)
{
	size_t small = places(size, pairs, SLOT_BLOCKS_OR_OPERANDS) * MIDDLE_OPERAND;
	/* without the device's extensions reductions have no LONG_OPERAND, only data movement has */
	size_t large = places(size, pairs, caps->vector ? SLOT_BLOCKS_OR_OPERANDS : SLOT_BLOCKS) *
		       LONG_OPERAND(hdl_vars.coll_tasks_max);

	return small > large ? small : large;
}

static void size_cell_classes(struct hdl_queues *h, uint64_t depth)
{
	h->class[HDL_SLOT_SHORT].depth = depth;
	if (hdl_cell_class(hdl_cell_most()) == HDL_SLOT_LONG)
		h->class[HDL_SLOT_LONG].depth = depth < WIDE_DEPTH ? depth : WIDE_DEPTH;
	h->depth = depth + h->class[HDL_SLOT_LONG].depth;
}

static void size_task_classes(struct hdl_queues *h, uint64_t depth)
{
	struct hdl_slot_class *s = &h->class[HDL_SLOT_SHORT], *m = &h->class[HDL_SLOT_LONG], *l = &h->class[HDL_SLOT_LONGER],
			     *most = &h->class[HDL_SLOT_LONGEST];

	h->depth = s->depth = m->depth = l->depth = depth;
	s->data_bytes = least_places(h->size, h->pairs) * LEAST_OPERAND;
	m->data_bytes = places(h->size, h->pairs, SLOT_BLOCKS_OR_OPERANDS) * SHORT_OPERAND;
	l->acc_bytes = h->star ? HDL_STAR_MAX : 0;
	l->data_bytes = places(h->size, h->pairs, SLOT_BLOCKS_OR_OPERANDS) * MIDDLE_OPERAND;
	if (l->data_bytes < l->acc_bytes)
		l->data_bytes = l->acc_bytes;
	most->data_bytes = hdl_queues_data_max(h->size, h->reduce_caps, h->pairs);
	most->depth = most->data_bytes > l->data_bytes ? depth < LONG_DEPTH ? depth : LONG_DEPTH : 0;
}

static void region_lay_out(struct hdl_queues *h)
{
	if (h->mailbox) {
		hdl_cell_lay_out(h);
		hdl_sc_lay_out(h);
		return;
	}
	for (int i = 0; i < HDL_SLOT_CLASSES; i++) {
		struct hdl_slot_class *c = &h->class[i];

		c->slot_bytes = c->acc_bytes + c->data_bytes;
		h->region[i].bytes = c->depth ? HDL_SLOTS(c->depth) * c->slot_bytes + HDL_QUEUES_OLD_VALUES : 0;
	}
}

void hdl_queues_lay_out(struct hdl_queues *h)
{
	uint64_t depth = (uint64_t)min_int(hdl_vars.coll_depth < 2 ? 2 : hdl_vars.coll_depth, HDL_QUEUES_DEPTH_MAX);

	if (h->mailbox)
		size_cell_classes(h, depth);
	else
		size_task_classes(h, depth);
	region_lay_out(h);
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

/* Clears the accumulators: an operation finds its accumulator zero. */
static void clear_accumulators(struct hdl_queues *h, int class)
{
	const struct hdl_slot_class *c = &h->class[class];

	for (uint64_t k = 0; c->acc_bytes && k < HDL_SLOTS(c->depth); k++)
		memset(h->region[class].mem + k * c->slot_bytes, 0, c->acc_bytes);
}

int hdl_region_make(struct hdl_queues *h, int k)
{
	struct hdl_slot_region *a = &h->region[k];

	a->staging_off = h->mailbox && hdl_cell_stages(h, a) ? a->bytes : 0;
	a->peers = calloc((size_t)h->size, sizeof(*a->peers));
	a->mem = hdl_tp_alloc(hdl_mpi_tp, a->bytes + a->staging_off);
	if (h->mailbox && k == HDL_REGION_SC && !h->segments)
		h->segments = aligned_alloc(4096, 2 * HDL_SC_SEGMENT);
	if (!a->peers || !a->mem || (h->mailbox && k == HDL_REGION_SC && !h->segments))
		return -ENOMEM;
	hdl_ledger_add("collectives' slots", a->mem, a->bytes + a->staging_off);
	if (h->mailbox)
		hdl_cell_clear(a);
	else
		clear_accumulators(h, k);
	a->mr = ibv_reg_mr(h->port->pd, a->mem, a->bytes + a->staging_off,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	return a->mr ? 0 : -errno;
}

/* ---- exchange ---------------------------------------------------------------------------------------------- */

static void region_unknown(struct hdl_queues *h, const struct hdl_run *run)
{
	h->wire_error = run->error ? run->error : MPI_ERR_OTHER;
	snprintf(h->why_refused, sizeof(h->why_refused),
		 "memory for longer operations: whether all ranks have it is not known (%.160s)",
		 run->why[0] ? run->why : "the records of some ranks did not come");
	hdl_queues_break(h, h->why_refused);
}

/* Ends the exchange of a region. One Allgather is enough: a rank with all records knows the outcome on all ranks, and each peer's
 * region was registered before its record was sent. */
static void region_exchanged(struct hdl_run *run)
{
	struct hdl_queues *h = run->arg;
	const struct hdl_region_record *rec = h->region_records;
	struct hdl_slot_region *a = &h->region[h->region_wired];
	bool known = !run->error;

	a->state = HDL_REGION_READY;
	for (int r = 0; r < h->size; r++) {
		if (rec[r].status) {
			hdl_queues_note_reason(h, "have memory for longer operations", r, rec[r].status);
			a->state = HDL_REGION_REFUSED;
			known &= rec[r].status != HDL_STATUS_UNKNOWN;
		} else if (a->peers) {
			a->peers[r] = (struct hdl_region_peer){ .addr = rec[r].addr, .rkey = rec[r].rkey };
		}
	}
	if (!known)
		region_unknown(h, run);
	if (a->state == HDL_REGION_REFUSED)
		hdl_region_unmake(h, a);
	hdl_run_free(run);
	hdl_graph_free(h->region_graph);
	h->region_graph = NULL;
	free(h->region_records);
	h->region_records = NULL;
}

enum hdl_region_state hdl_region_request(struct hdl_queues *h, int k)
{
	struct hdl_slot_region *a = &h->region[k];
	struct hdl_region_record *rec;
	int err;

	if (a->state != HDL_REGION_NONE)
		return a->state;
	a->state = HDL_REGION_WIRING;
	h->region_wired = k;
	while ((err = hdl_region_make(h, k)) == -ENOMEM && (hdl_scratch_give() || hdl_queue_cache_evict()))
		hdl_region_unmake(h, a);
	/* each communicator that takes over the queues tries again: the error is printed once */
	if (err && !a->reported)
		hdl_error("offloaded collectives, communicator of %d ranks: %zu bytes of registered memory for longer operations "
			  "cannot be had (%s); these run on the host", h->size, a->bytes, strerror(-err));
	a->reported = err;
	h->region_records = calloc((size_t)h->size, sizeof(*rec));
	if (!h->region_records)
		goto fail;
	rec = h->region_records + h->rank;
	rec->status = -err;
	if (!err)
		*rec = (struct hdl_region_record){ .addr = (uintptr_t)a->mem, .rkey = a->mr->rkey };
	if (!hdl_queues_allgather_as(h, &h->region_graph, HDL_REGION_NUMBER(k), h->region_records, sizeof(*rec),
				     region_exchanged, h))
		return a->state;
fail:
	a->state = HDL_REGION_REFUSED;
	hdl_region_unmake(h, a);
	free(h->region_records);
	h->region_records = NULL;
	hdl_queues_bringup_failed(h);
	return a->state;
}

void hdl_regions_retry(struct hdl_queues *h)
{
	for (int k = 0; k < HDL_REGIONS; k++)
		if (h->region[k].state == HDL_REGION_REFUSED)
			h->region[k].state = HDL_REGION_NONE;
}
