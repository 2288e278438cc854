/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get. A buffer with holes is a stream (datatype/datatype.h): data is never packed as a whole.
 *
 *     MAPPED    one copy by this process's CPU; complete on return
 *     DEVICE    a request for each run that is contiguous on both sides: an operation of the transport each, which is counted in
 *               target->pending until it is complete at the target
 *     HANDLER   an accumulate by messages, of bytes (acc_origin.c)
 */
#include "rma/operation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An operation of the transport. */
struct part {
	struct hdl_rma rma;
	struct hdl_target *t;
	struct hdl_rma_group *g;
	struct part *next;
	int *now;			/* move_now: set to 1, or a negative errno; NULL: the part is freed at its end */
};

static struct part *free_parts;

#define TURN_EVERY 64			/* parts in flight to one target for which a call makes a turn of progress */

/* ---- parts --------------------------------------------------------------------------------------------------------------- */

static void move_part_done(struct hdl_rma *op, int err)
{
	struct part *p = container_of(op, struct part, rma);

	if (p->now) {
		*p->now = err ? err : 1;
		return;
	}
	hdl_rma_part_ended(p->t, p->g, err ? hdl_rma_class(err) : MPI_SUCCESS);
	p->next = free_parts;
	free_parts = p;
}

static struct part *part_new(void)
{
	struct part *p = free_parts;

	if (p)
		free_parts = p->next;
	else
		p = malloc(sizeof(*p));
	return p;
}

/*
 * Finds the key of memory of the target. Returns an error class. fixed: under a hashed lock, which is held for a copy of some
 * bytes only:
 *
 *     1. Thread A has a hashed lock. The target attaches a region, and thread B's put is under way
 *     2. A would read the new table, and wait for B's put
 *     3. All processes that want the hashed lock would wait for B's put, too
 */
static int place_of(struct hdl_win *w, struct hdl_target *t, bool fixed, uint64_t address, uint64_t bytes,
		    struct hdl_rkey **key, uint64_t *offset)
{
	if (w->dynamic)
		return fixed ? hdl_region_in_copy(w, t, address, bytes, key, offset) :
			       hdl_region_find(w, t, address, bytes, key, offset);
	*key = t->key;
	*offset = address - t->base;
	return MPI_SUCCESS;
}

static int begin_part(bool put, struct hdl_rkey *key, uint64_t offset, void *buf, size_t bytes, struct part *p)
{
	int r;

	p->rma.done = move_part_done;
	r = put ? hdl_put(key, offset, buf, bytes, &p->rma) : hdl_get(key, offset, buf, bytes, &p->rma);
	if (r > 0)
		move_part_done(&p->rma, 0);
	return r < 0 ? hdl_rma_class(r) : MPI_SUCCESS;
}

static int move_run(struct hdl_win *w, struct hdl_target *t, bool put, uint64_t address, void *buf, size_t bytes,
		    struct hdl_rma_group *g)
{
	struct hdl_rkey *key;
	struct part *p;
	uint64_t offset;
	int rc = place_of(w, t, false, address, bytes, &key, &offset);	/* may flush: before the part counts as pending */

	if (rc)
		return rc;
	if (!(p = part_new()))
		return hdl_rma_no_memory("an operation on a window");
	p->t = t;
	p->g = g;
	p->now = NULL;
	t->pending++;
	if (g)
		g->parts++;
	rc = begin_part(put, key, offset, buf, bytes, p);
	if (rc) {
		t->pending--;
		if (g)
			g->parts--;
		p->next = free_parts;
		free_parts = p;
	} else if (t->pending && t->pending % TURN_EVERY == 0) {
		hdl_progress();
	}
	return rc;
}

static bool has_moved(const void *arg)
{
	return *(const int *)arg;
}

int hdl_rma_move_now(struct hdl_win *w, struct hdl_target *t, bool put, uint64_t address, void *buf, size_t bytes)
{
	int now = 0;
	struct part p = { .now = &now };
	struct hdl_rkey *key;
	uint64_t offset;
	int rc = place_of(w, t, true, address, bytes, &key, &offset);

	/* no thread drops the copy of the target's regions, with the key, while an operation is pending */
	t->pending++;
	if (!rc)
		rc = begin_part(put, key, offset, buf, bytes, &p);
	/* over UD the target must make progress, and may be stopped */
	if (!rc && !now)
		hdl_wait_until(has_moved, &now);
	t->pending--;
	return rc ? rc : now < 0 ? hdl_rma_class(now) : MPI_SUCCESS;
}

/* ---- ranges -------------------------------------------------------------------------------------------------------------- */

__extension__ typedef __int128 wide;

int hdl_rma_range(const struct hdl_win *w, const struct hdl_target *t, const struct hdl_rma_args *a, int64_t *offset)
{
	const struct hdl_type *type = a->target_type;
	wide at = w->dynamic ? (wide)(uint64_t)a->disp : (wide)a->disp * t->disp_unit, low, high;
	char label[MPI_MAX_OBJECT_NAME + 16];

	*offset = (int64_t)at;
	if (a->disp < 0 && !w->dynamic) {
		hdl_reason_set("invalid target_disp %lld: it must not be negative", (long long)a->disp);
		return MPI_ERR_DISP;
	}
	if (!a->target_count || !type->size)
		return MPI_SUCCESS;
	low = high = at + type->true_lb;
	if (type->extent >= 0)
		high += (wide)(a->target_count - 1) * type->extent;
	else
		low += (wide)(a->target_count - 1) * type->extent;
	high += type->true_extent;
	if (low >= 0 && high <= (wide)t->size &&
	    (!w->dynamic || t->rank != w->rank || hdl_win_has(w, (uint64_t)low, (uint64_t)(high - low))))
		return MPI_SUCCESS;
	if (w->dynamic)
		hdl_reason_set("target_disp %#llx: %llu bytes from there are not attached to %s at rank %d",
			       (unsigned long long)a->disp, (unsigned long long)(high - low), hdl_win_label(w, label), t->rank);
	else
		hdl_reason_set("target_disp %lld: bytes %lld to %lld are accessed, and %s has %llu bytes at rank %d",
			       (long long)a->disp, (long long)low, (long long)high - 1, hdl_win_label(w, label),
			       (unsigned long long)t->size, t->rank);
	return MPI_ERR_RMA_RANGE;
}

/* ---- copies -------------------------------------------------------------------------------------------------------------- */

/* A stream in memory of the stack. */
#define STREAM(name, type) \
	struct hdl_stream *const name = __builtin_alloca_with_align((type) ? hdl_stream_bytes(type) : 16, 128)

/* Copies between (buf, count, type) and (mem, count, type), both in memory of this process. */
static void move_copy(bool put, void *buf, MPI_Count count, const struct hdl_type *type, void *mem, MPI_Count mem_count,
		      const struct hdl_type *mem_type, size_t bytes)
{
	bool run = hdl_type_is_run(type, count) || hdl_type_find_run(type, count, &buf);
	bool mem_run = hdl_type_is_run(mem_type, mem_count) || hdl_type_find_run(mem_type, mem_count, &mem);
	void *part;
	size_t n;

	if (run && mem_run) {
		memcpy(put ? mem : buf, put ? buf : mem, bytes);
		return;
	}
	STREAM(s, run ? NULL : type);
	STREAM(m, mem_run ? NULL : mem_type);
	if (!run)
		hdl_stream_open(s, buf, count, type, 0);
	if (!mem_run)
		hdl_stream_open(m, mem, mem_count, mem_type, 0);
	if (mem_run) {
		if (put)
			hdl_stream_pack(s, mem, bytes);
		else
			hdl_stream_unpack(s, mem, bytes);
	} else if (run) {
		if (put)
			hdl_stream_unpack(m, buf, bytes);
		else
			hdl_stream_pack(m, buf, bytes);
	} else {
		while ((n = hdl_stream_next(m, SIZE_MAX / 2, &part)))
			put ? hdl_stream_pack(s, part, n) : hdl_stream_unpack(s, part, n);
	}
}

/* Begins an operation for each run that is contiguous on both sides. */
static int move_runs(struct hdl_win *w, struct hdl_target *t, bool put, const struct hdl_rma_args *a, int64_t offset,
		     size_t bytes, struct hdl_rma_group *g)
{
	void *buf = a->buf, *mem = (void *)(uintptr_t)(t->base + (uint64_t)offset);
	bool run = hdl_type_is_run(a->type, a->count) || hdl_type_find_run(a->type, a->count, &buf);
	bool mem_run =
		hdl_type_is_run(a->target_type, a->target_count) || hdl_type_find_run(a->target_type, a->target_count, &mem);
	size_t have = run ? bytes : 0, want = mem_run ? bytes : 0;
	int rc = MPI_SUCCESS;

	STREAM(s, run ? NULL : a->type);
	STREAM(m, mem_run ? NULL : a->target_type);
	if (!run)
		hdl_stream_open(s, buf, a->count, a->type, 0);
	if (!mem_run)
		hdl_stream_open(m, mem, a->target_count, a->target_type, 0);
	for (size_t n; bytes && !rc; bytes -= n) {
		if (!have && !(have = hdl_stream_next(s, SIZE_MAX / 2, &buf)))
			break;
		if (!want && !(want = hdl_stream_next(m, SIZE_MAX / 2, &mem)))
			break;
		n = have < want ? have : want;
		rc = move_run(w, t, put, (uintptr_t)mem, buf, n, g);
		have -= n;
		want -= n;
		buf = (void *)((uintptr_t)buf + n);
		mem = (void *)((uintptr_t)mem + n);
	}
	return rc;
}

static int move(struct hdl_win *w, struct hdl_target *t, bool put, const struct hdl_rma_args *a, struct hdl_rma_group *g)
{
	size_t bytes = (size_t)a->count * (size_t)a->type->size;
	int64_t offset;
	int rc = hdl_rma_range(w, t, a, &offset);

	if (rc || !bytes)
		return rc;
	if (hdl_target_failed(t))
		return hdl_rma_dead(w, t->rank, put ? "put to" : "get from");
	if (t->lane == HDL_LANE_MAPPED) {
		move_copy(put, a->buf, a->count, a->type, (void *)((uintptr_t)t->memory + (uint64_t)offset), a->target_count,
			  a->target_type, bytes);
		return MPI_SUCCESS;
	}
	if (t->lane == HDL_LANE_DEVICE) {
		rc = move_runs(w, t, put, a, offset, bytes, g);
		return rc == MPI_ERR_PROC_ABORTED ? hdl_rma_dead(w, t->rank, put ? "put to" : "get from") : rc;
	}
	struct hdl_acc_args acc = { .at = *a, .op = put ? MPI_REPLACE : MPI_NO_OP, .fetch = !put };
	if (!put) {
		acc.result = a->buf;
		acc.result_count = a->count;
		acc.result_type = a->type;
		acc.at.count = 0;
	}
	return hdl_rma_msg_accumulate(w, t, &acc, NULL, offset, g);
}

int hdl_rma_put(struct hdl_win *w, struct hdl_target *t, const struct hdl_rma_args *a, struct hdl_rma_group *g)
{
	return move(w, t, true, a, g);
}

int hdl_rma_get(struct hdl_win *w, struct hdl_target *t, const struct hdl_rma_args *a, struct hdl_rma_group *g)
{
	return move(w, t, false, a, g);
}
