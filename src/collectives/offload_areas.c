/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Areas of slots: how many and how long these are, the memory, and the exchange in which ranks tell each other where it is. offload.h has
 * what they are for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/offload.h"

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

/* ---- sizes ------------------------------------------------------------------------------------------------- */

/* What is one operand: 48 bytes with stamps, or a block of half as many; 64 bytes, or 32 as elements of CALC; 1 KiB, twice that as
 * elements; and stamps. */
#define LEAST_OPERAND 64
#define SHORT_OPERAND (64 + 64)
#define MIDDLE_OPERAND (2048 + 64)
#define LONG_OPERAND(most) (align_up(most, 8) + 64)
#define LONG_DEPTH 3			/* long ones take their time, and their slots much room */
#define WIDE_DEPTH 4			/* of lines */
/* Of more ranks all blocks together have no more room than those of so many. */
#define BLOCKS_RANKS 16

/* Operands, or blocks of ranks, that a slot has room for: along a tree the own one, the children's and the result, or each rank's block;
 * among pairs each rank's in both directions, and the result. */
static size_t places(int size, bool pairs, bool reduces)
{
	size_t blocks = (size_t)min_int(size, BLOCKS_RANKS), operands = 2 + (size_t)hdl_knomial_links(hdl_vars.coll_radix, size);

	return pairs ? 2 * blocks + 1 : reduces && operands > blocks ? operands : blocks;
}

/* The same in slots that all communicators have: blocks are half as long. */
static size_t least_places(int size, bool pairs)
{
	size_t blocks = (size_t)min_int(size, BLOCKS_RANKS), operands = 2 + (size_t)hdl_knomial_links(hdl_vars.coll_radix, size);

	return pairs ? blocks + 1 : operands > blocks / 2 ? operands : blocks / 2;
}

size_t hdl_off_room(int size, const struct hdl_means *means, bool pairs)
{
	size_t small = places(size, pairs, true) * MIDDLE_OPERAND;
	/* without extensions only what is moved is so long */
	size_t large = places(size, pairs, means->vector) * LONG_OPERAND(hdl_vars.coll_tasks_max);

	return small > large ? small : large;
}

static void size_line_classes(struct hdl_off *h, uint64_t depth)
{
	h->class[HDL_OFF_SHORT].depth = depth;
	if (hdl_line_class(hdl_line_most()) == HDL_OFF_LONG)
		h->class[HDL_OFF_LONG].depth = depth < WIDE_DEPTH ? depth : WIDE_DEPTH;
	h->depth = depth + h->class[HDL_OFF_LONG].depth;
}

static void size_task_classes(struct hdl_off *h, uint64_t depth)
{
	struct hdl_off_class *s = &h->class[HDL_OFF_SHORT], *m = &h->class[HDL_OFF_LONG], *l = &h->class[HDL_OFF_LONGER],
			     *most = &h->class[HDL_OFF_LONGEST];

	h->depth = s->depth = m->depth = l->depth = depth;
	s->data_bytes = least_places(h->size, h->pairs) * LEAST_OPERAND;
	m->data_bytes = places(h->size, h->pairs, true) * SHORT_OPERAND;
	l->acc_bytes = h->star ? HDL_STAR_MAX : 0;
	l->data_bytes = places(h->size, h->pairs, true) * MIDDLE_OPERAND;
	if (l->data_bytes < l->acc_bytes)
		l->data_bytes = l->acc_bytes;
	most->data_bytes = hdl_off_room(h->size, h->means, h->pairs);
	most->depth = most->data_bytes > l->data_bytes ? depth < LONG_DEPTH ? depth : LONG_DEPTH : 0;
}

static void lay_out(struct hdl_off *h)
{
	if (h->lines) {
		hdl_line_areas(h);
		hdl_reads_area(h);
		return;
	}
	for (int i = 0; i < HDL_OFF_CLASSES; i++) {
		struct hdl_off_class *c = &h->class[i];

		c->slot_bytes = c->acc_bytes + c->data_bytes;
		h->area[i].bytes = c->depth ? HDL_OFF_SLOTS(c->depth) * c->slot_bytes + HDL_OFF_OLD_VALUES : 0;
	}
}

void hdl_off_size(struct hdl_off *h)
{
	uint64_t depth = (uint64_t)min_int(hdl_vars.coll_depth < 2 ? 2 : hdl_vars.coll_depth, HDL_OFF_DEPTH_MAX);

	if (h->lines)
		size_line_classes(h, depth);
	else
		size_task_classes(h, depth);
	lay_out(h);
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

/* Accumulators are zero before. */
static void clear_accumulators(struct hdl_off *h, int class)
{
	const struct hdl_off_class *c = &h->class[class];

	for (uint64_t k = 0; c->acc_bytes && k < HDL_OFF_SLOTS(c->depth); k++)
		memset(h->area[class].mem + k * c->slot_bytes, 0, c->acc_bytes);
}

void hdl_area_unmake(struct hdl_off *h, struct hdl_area *a)
{
	if (a->mr && h->port)
		ibv_dereg_mr(a->mr);
	if (a->mem)
		hdl_tp_free(hdl_mpi_tp, a->mem);
	free(a->peers);
	a->mr = NULL;
	a->mem = NULL;
	a->peers = NULL;
}

int hdl_area_make(struct hdl_off *h, int k)
{
	struct hdl_area *a = &h->area[k];

	a->staged = h->lines && hdl_line_stages(h, (enum hdl_line_size)k) ? a->bytes : 0;
	a->peers = calloc((size_t)h->size, sizeof(*a->peers));
	a->mem = hdl_tp_alloc(hdl_mpi_tp, a->bytes + a->staged);
	if (h->lines && k == HDL_LINE_READS && !h->segments)
		h->segments = aligned_alloc(4096, 2 * HDL_FOLD_SEGMENT);
	if (!a->peers || !a->mem || (h->lines && k == HDL_LINE_READS && !h->segments))
		return -ENOMEM;
	if (h->lines)
		hdl_line_clear(a);
	else
		clear_accumulators(h, k);
	a->mr = ibv_reg_mr(h->port->pd, a->mem, a->bytes + a->staged,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	return a->mr ? 0 : -errno;
}

/* ---- exchange ---------------------------------------------------------------------------------------------- */

static void area_unknown(struct hdl_off *h, const struct hdl_run *run)
{
	h->wire_error = run->error ? run->error : MPI_ERR_OTHER;
	snprintf(h->why_off, sizeof(h->why_off), "memory for longer operations: whether all ranks have it is not known (%.160s)",
		 run->why[0] ? run->why : "some were not heard of");
	hdl_off_break(h, h->why_off);
}

/* One Allgather is enough: a rank that hears of all knows what they know, and what it is told of has been there since before. */
static void area_exchanged(struct hdl_run *run)
{
	struct hdl_off *h = run->arg;
	const struct hdl_area_record *rec = h->area_records;
	struct hdl_area *a = &h->area[h->area_wired];
	bool known = !run->error;

	a->state = HDL_AREA_READY;
	for (int r = 0; r < h->size; r++) {
		if (rec[r].status) {
			hdl_off_note(h, "have memory for longer operations", r, rec[r].status);
			a->state = HDL_AREA_OFF;
			known &= rec[r].status != HDL_UNHEARD;
		} else if (a->peers) {
			a->peers[r] = (struct hdl_area_peer){ .addr = rec[r].addr, .rkey = rec[r].rkey };
		}
	}
	if (!known)
		area_unknown(h, run);
	if (a->state == HDL_AREA_OFF)
		hdl_area_unmake(h, a);
	hdl_run_free(run);
	hdl_graph_free(h->area_graph);
	h->area_graph = NULL;
	free(h->area_records);
	h->area_records = NULL;
}

enum hdl_area_state hdl_off_ask_area(struct hdl_off *h, int k)
{
	struct hdl_area *a = &h->area[k];
	struct hdl_area_record *rec;
	int err;

	if (a->state != HDL_AREA_NONE)
		return a->state;
	a->state = HDL_AREA_WIRING;
	h->area_wired = k;
	while ((err = hdl_area_make(h, k)) == -ENOMEM && (hdl_scratch_give() || hdl_sets_evict()))
		hdl_area_unmake(h, a);
	/* each communicator that goes on with the set tries again */
	if (err && !a->told)
		hdl_error("offloaded collectives, communicator of %d ranks: %zu bytes of registered memory for longer operations cannot "
			  "be had (%s); these run on the host", h->size, a->bytes, strerror(-err));
	a->told = err;
	h->area_records = calloc((size_t)h->size, sizeof(*rec));
	if (!h->area_records)
		goto fail;
	rec = h->area_records + h->rank;
	rec->status = -err;
	if (!err)
		*rec = (struct hdl_area_record){ .addr = (uintptr_t)a->mem, .rkey = a->mr->rkey };
	if (!hdl_off_gather_as(h, &h->area_graph, HDL_AREA_NUMBER(k), h->area_records, sizeof(*rec), area_exchanged, h))
		return a->state;
fail:
	a->state = HDL_AREA_OFF;
	hdl_area_unmake(h, a);
	free(h->area_records);
	h->area_records = NULL;
	hdl_off_cannot_wire(h);
	return a->state;
}

void hdl_areas_try_again(struct hdl_off *h)
{
	for (int k = 0; k < HDL_OFF_AREAS; k++)
		if (h->area[k].state == HDL_AREA_OFF)
			h->area[k].state = HDL_AREA_NONE;
}
