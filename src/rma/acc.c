/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates by the agent cpu (agent.c): every member has mapped the state block of every other, the origin's CPU does
 * the work, and the target takes no part. How an element is updated depends on the window, its type and its address only,
 * so that all origins agree:
 *
 *     native     the memory is in the fabric, mapped by all, and the element has 1, 2, 4 or 8 bytes at a multiple of its size:
 *                an atomic instruction, or a compare-and-swap
 *     locked     otherwise, and everywhere if the members gave mpi_accumulate_granularity: the hashed lock of the element in the
 *                owner's state block is held while the element is read, computed and written. Memory that is not mapped is read
 *                and written by the device
 *
 * An origin that holds the target's exclusive lock needs neither (`alone`): no accumulate of another process runs on that memory
 * during the epoch (section 12.5.3), so plain vector loops update it.
 *
 * The two never mix on an element: an element's lock depends on the offset of its first byte, and all accumulates that
 * MPI lets run at the same time on an element have the same type and so the same first byte.
 *
 *     1. A adds to a double by compare-and-swap
 *     2. B, which reached the same memory by the device, would read under a lock, compute, and write
 *     3. A's addition between B's read and B's write would be lost. So B uses the rule of A (`native`), or A that of B
 */
#include "rma/element.h"
#include "rma/failpoint.h"
#include "rma/message.h"
#include "rma/operation.h"
#include "rma/side.h"
#include "runtime/wait.h"

#include <stdlib.h>
#include <string.h>

#define BATCH		4096u		/* bytes of a batch in memory that is mapped */
#define BATCH_FAR	32768u		/* of one that the device moves */
#define SPINS		200u		/* looks at a hashed lock before the first yield */
#define YIELDS		64u		/* ... and before the sleep */

/* ---- native ---------------------------------------------------------------------------------------------------------------- */

#define AT_ONCE	64u			/* most elements of a compare-and-swap loop that compute their new values together */

/*
 * Updates n elements. MPI_REPLACE without a result is a store: an update that returns nothing may be ordered before any other
 * one. All other operations compute the new values of AT_ONCE elements together and store each by a compare-and-swap, unless the
 * new value is the old one; an element that another origin has changed since is computed again, alone.
 */
#define NATIVE(T)											\
static void replace_##T(T *at, const char *in, size_t n)						\
{													\
	for (size_t i = 0; i < n; i++) {								\
		T operand;										\
													\
		memcpy(&operand, in + i * sizeof(T), sizeof(T));					\
		__atomic_store_n(&at[i], operand, __ATOMIC_RELEASE);					\
	}												\
}													\
													\
/* Stores the result of e->op on one element. new: computed from the value `old`. Returns the old value. */	\
static T swap_##T(const struct hdl_element *e, T *at, const char *in, T old, T new)			\
{													\
	T operand;											\
													\
	HDL_FAILPOINT("swap");										\
	memcpy(&operand, in, sizeof(T));								\
	while (new != old && !__atomic_compare_exchange_n(at, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {	\
		new = old;										\
		hdl_op_apply(e->op, e->type, &operand, &new, 1);					\
	}												\
	return old;											\
}													\
													\
static void swaps_##T(const struct hdl_element *e, T *at, const char *in, char *out, size_t n)		\
{													\
	T old[AT_ONCE], new[AT_ONCE];									\
													\
	for (size_t done = 0, part; done < n; done += part) {						\
		part = n - done < AT_ONCE ? n - done : AT_ONCE;						\
		for (size_t i = 0; i < part; i++)							\
			new[i] = old[i] = __atomic_load_n(&at[done + i], __ATOMIC_RELAXED);		\
		hdl_op_apply(e->op, e->type, in + done * sizeof(T), new, (MPI_Count)part);		\
		for (size_t i = 0; i < part; i++)							\
			old[i] = swap_##T(e, &at[done + i], in + (done + i) * sizeof(T), old[i], new[i]);	\
		if (out)										\
			memcpy(out + done * sizeof(T), old, part * sizeof(T));				\
	}												\
}													\
													\
static void native_##T(const struct hdl_element *e, T *at, const char *in, char *out, size_t n)		\
{													\
	if (e->op == MPI_REPLACE && !out) {								\
		replace_##T(at, in, n);									\
		return;											\
	}												\
	if (e->op != MPI_NO_OP && e->op != MPI_REPLACE && !e->integer) {				\
		swaps_##T(e, at, in, out, n);								\
		return;											\
	}												\
	for (size_t i = 0; i < n; i++, at++) {								\
		T old, operand = 0;									\
													\
		if (in)											\
			memcpy(&operand, in + i * sizeof(T), sizeof(T));				\
		if (e->op == MPI_NO_OP)									\
			old = __atomic_load_n(at, __ATOMIC_SEQ_CST);					\
		else if (e->op == MPI_REPLACE)								\
			old = __atomic_exchange_n(at, operand, __ATOMIC_SEQ_CST);			\
		else											\
			old = __atomic_fetch_add(at, operand, __ATOMIC_SEQ_CST);			\
		if (out)										\
			memcpy(out + i * sizeof(T), &old, sizeof(T));					\
	}												\
}
NATIVE(uint8_t)
NATIVE(uint16_t)
NATIVE(uint32_t)
NATIVE(uint64_t)

/* Returns true if elements at this address are updated by instructions. */
static inline bool is_native(const struct hdl_target *t, const struct hdl_element *e, uint64_t address)
{
	return t->native && e->whole && (e->size == 8 || e->size == 4 || e->size == 2 || e->size == 1) &&
	       !(address & (e->size - 1));
}

static void native(const struct hdl_element *e, void *at, const char *in, char *out, size_t n)
{
	switch (e->size) {
	case 1:
		native_uint8_t(e, at, in, out, n);
		break;
	case 2:
		native_uint16_t(e, at, in, out, n);
		break;
	case 4:
		native_uint32_t(e, at, in, out, n);
		break;
	default:
		native_uint64_t(e, at, in, out, n);
		break;
	}
}

/* Updates n elements without a hole at an address here that no other process updates meanwhile. */
static void plain(const struct hdl_element *e, void *at, const void *in, void *out, size_t n)
{
	if (out)
		memcpy(out, at, n * e->size);
	hdl_element_compute(e, in, at, n);
}

bool hdl_acc_native(const struct hdl_target *t, MPI_Op op, const struct hdl_type *type, void *at, const void *in, void *out,
		    size_t n)
{
	const struct hdl_element e = hdl_element_of(type, op);

	if (unlikely(!is_native(t, &e, (uintptr_t)at)) ||
	    unlikely(!e.integer && op != MPI_REPLACE && op != MPI_NO_OP && !hdl_op_valid(op, type)))
		return false;
	if (likely(e.size == 8 && n == 1 && e.integer && out)) {
		uint64_t operand, old;

		memcpy(&operand, in, 8);
		old = __atomic_fetch_add((uint64_t *)at, operand, __ATOMIC_SEQ_CST);
		memcpy(out, &old, 8);
		return true;
	}
	if (t->alone)
		plain(&e, at, in, out, n);
	else
		native(&e, at, in, out, n);
	return true;
}

/* ---- locked ---------------------------------------------------------------------------------------------------------------- */

static int left_behind(const struct hdl_win *w, const struct hdl_target *t, int dead)
{
	char label[MPI_MAX_OBJECT_NAME + 16];

	hdl_reason_set("rank %d (%s) has failed within an accumulate to rank %d of %s: elements that it was about to write have "
		       "their old or their new value; longer than 8 bytes, parts of both",
		       dead, hdl_proc_text_full(hdl_comm_proc(w->comm, dead)), t->rank, hdl_win_label(w, label));
	return MPI_ERR_PROC_ABORTED;
}

static void hashed_unlock(struct hdl_win *w, uint32_t *word)
{
	if (unlikely(hdl_hashed_release(word)))
		hdl_rma_wake_all(w);
}

struct hashed_wait {
	struct hdl_win *w;
	const uint32_t *word;
	uint32_t found;			/* the word, with HDL_HASHED_AWAITED */
};

/* Returns true if the word has changed, or its holder has ended. */
static bool hashed_changed(const void *arg)
{
	const struct hashed_wait *h = arg;

	return __atomic_load_n(h->word, __ATOMIC_SEQ_CST) != h->found ||
	       hdl_win_has_ended(h->w, (int)hdl_hashed_holder(h->found) - 1);
}

/* Sleeps until the holder that `found` names has released the lock, or has ended. Returns true if this process has taken the lock
 * over from a holder that has ended. */
static bool hashed_sleep(struct hdl_win *w, uint32_t *word, uint32_t found)
{
	struct hashed_wait h = { .w = w, .word = word, .found = found | HDL_HASHED_AWAITED };
	int holder = (int)hdl_hashed_holder(found) - 1;

	if (holder >= w->size || !hdl_hashed_await(word, found))
		return false;
	if (holder != w->rank)
		hdl_comm_ep(w->comm, holder);	/* the transport then notices that the holder ends */
	hdl_rma_wait(w, hashed_changed, &h);
	/* this process's rank: another thread, which waits for a move */
	return holder != w->rank && hdl_ep_process(hdl_mpi_tp, hdl_comm_proc(w->comm, holder)) == HDL_PROC_ENDED &&
	       hdl_hashed_take_over(word, h.found, (uint32_t)w->rank + 1);
}

/*
 * Takes a hashed lock. The holder may be slow, or stopped, and may need this process's progress, where no device reaches memory
 * directly. So the library's lock is open in all steps but the spins. Returns MPI_SUCCESS: this process has the lock.
 * MPI_ERR_PROC_ABORTED: the lock was that of a process that has ended, and is free.
 */
static int hashed_lock(struct hdl_win *w, const struct hdl_target *t, uint32_t *word)
{
	uint32_t me = (uint32_t)w->rank + 1, found;
	unsigned spins = hdl_wait_spins() ? SPINS : 0;

	for (unsigned vain = 0; (found = hdl_hashed_try(word, me)); vain++) {
		enum hdl_wait_next next = hdl_wait_nth(vain, spins, YIELDS);

		if (next == HDL_WAIT_SPIN) {
			cpu_relax();
			continue;
		}
		hdl_tp_progress(hdl_mpi_tp);
		hdl_wait_yield();
		if (next != HDL_WAIT_SLEEP)
			continue;
		if (hashed_sleep(w, word, found)) {
			HDL_FAILPOINT("hashed-taken-over");
			hashed_unlock(w, word);
			return left_behind(w, t, (int)hdl_hashed_holder(found) - 1);
		}
		/* the next holder may have the lock already: one look for each wake-up would lose against it */
		vain = 0;
	}
	return MPI_SUCCESS;
}

/* Reads or writes pieces of the target, packed in buf. */
static int pieces_move(struct hdl_win *w, struct hdl_target *t, bool write, const struct hdl_acc_piece *piece, unsigned n,
		       char *buf)
{
	int rc = MPI_SUCCESS;

	for (unsigned i = 0; i < n && !rc; buf += piece[i++].len) {
		void *at = (void *)((uintptr_t)t->memory + (piece[i].at - t->base));

		if (t->lane == HDL_LANE_MAPPED)
			memcpy(write ? at : buf, write ? buf : at, piece[i].len);
		else
			rc = hdl_rma_move_now(w, t, write, piece[i].at, buf, piece[i].len);
	}
	return rc;
}

/* Updates elements that no other process updates meanwhile. */
static int update(struct hdl_win *w, struct hdl_target *t, const struct hdl_element *e, const struct hdl_acc_piece *piece,
		  unsigned n, size_t elements, const char *in, const char *compare, char *out, char *buf)
{
	int rc;

	if (t->lane == HDL_LANE_MAPPED && n == 1 && e->whole && !compare) {
		plain(e, (void *)((uintptr_t)t->memory + (piece[0].at - t->base)), in, out, elements);
		return MPI_SUCCESS;
	}
	rc = pieces_move(w, t, false, piece, n, buf);
	if (!rc && out)
		memcpy(out, buf, elements * e->size);
	if (!rc && e->op != MPI_NO_OP && (!compare || !memcmp(buf, compare, e->size))) {
		hdl_element_compute(e, in, buf, elements);
		HDL_FAILPOINT("hashed-computed");
		rc = pieces_move(w, t, true, piece, n, buf);
	}
	return rc;
}

/*
 * Takes the hashed lock, and has a copy of a dynamic window's regions under it, from which the keys are taken:
 *
 *     1. Thread A waits for the hashed lock with the library's lock open
 *     2. The owner attaches a region. Thread B drops the copy, and yields before it has read the new table
 *     3. A gets the hashed lock, and would find no region
 */
static int hashed_lock_regions(struct hdl_win *w, struct hdl_target *t, uint32_t *word, uint64_t address)
{
	struct hdl_rkey *key;
	uint64_t at;
	int rc = hashed_lock(w, t, word);

	while (!rc && unlikely(w->dynamic && t->lane == HDL_LANE_DEVICE && !t->version)) {
		hashed_unlock(w, word);
		rc = hdl_region_find(w, t, address, 1, &key, &at);
		if (!rc)
			rc = hashed_lock(w, t, word);
	}
	return rc;
}

/* Updates elements under the lock of the first one; all have that lock. */
static int update_locked(struct hdl_win *w, struct hdl_target *t, const struct hdl_element *e,
			 const struct hdl_acc_piece *piece, unsigned n, size_t elements, const char *in, const char *compare,
			 char *out, char *buf)
{
	uint32_t *word = &t->state->hashed[hdl_hashed_index(piece[0].at - t->base, t->granule)].word;
	int rc;

	if (t->alone)
		return update(w, t, e, piece, n, elements, in, compare, out, buf);
	rc = hashed_lock_regions(w, t, word, piece[0].at);
	if (rc)
		return rc;
	HDL_FAILPOINT("hashed-locked");
	rc = update(w, t, e, piece, n, elements, in, compare, out, buf);
	HDL_FAILPOINT("hashed-written");
	hashed_unlock(w, word);
	return rc;
}

/* ---- batches --------------------------------------------------------------------------------------------------------------- */

#define PIECES 4			/* runs of an element with holes, at most */

/* The target buffer as a sequence of batches: whole elements that one way of updating covers. */
struct walk {
	struct hdl_stream *s;		/* NULL: one run */
	uint64_t at;			/* the current run: the owner's address and bytes left */
	size_t left;
};

/* Moves to the next run if the current one is used up. Returns false at the end. */
static bool acc_walk_run(struct walk *k)
{
	void *run;

	if (k->left)
		return true;
	if (!k->s || !(k->left = hdl_stream_next(k->s, SIZE_MAX / 2, &run)))
		return false;
	k->at = (uintptr_t)run;
	return true;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Takes the next batch. Returns its elements; 0: the end. */
static size_t walk_batch(struct walk *k, const struct hdl_target *t, const struct hdl_element *e, size_t most,
			 struct hdl_acc_piece *piece, unsigned *n)
{
	uint64_t granule_end;
	size_t got = 0, bytes;

	*n = 0;
	if (!acc_walk_run(k))
		return 0;
	if (!e->whole || k->left < e->size) {
		/* an element with holes, or one that is divided among runs (of which only MPI_REPLACE and MPI_NO_OP know) */
		while (got < e->size && *n < PIECES && acc_walk_run(k)) {
			bytes = smaller(k->left, e->size - got);
			piece[(*n)++] = (struct hdl_acc_piece){ k->at, bytes };
			k->at += bytes;
			k->left -= bytes;
			got += bytes;
		}
		return got == e->size;
	}
	bytes = smaller(k->left / e->size * e->size, most / e->size * e->size);
	if (!is_native(t, e, k->at)) {
		/* elements that begin in one granule */
		granule_end = (((k->at - t->base) >> t->granule) + 1) << t->granule;
		bytes = smaller(bytes, (granule_end - (k->at - t->base) + e->size - 1) / e->size * e->size);
	}
	piece[(*n)++] = (struct hdl_acc_piece){ k->at, bytes };
	k->at += bytes;
	k->left -= bytes;
	return bytes / e->size;
}

/* Returns the buffers of a call for memory that is not mapped; bounce_give ends their use. NULL: no memory. A call has buffers of
 * its own, since the wait for a hashed lock lets other threads in. */
static char *bounce_take(struct hdl_win *w)
{
	char *room = w->bounce;

	w->bounce = NULL;
	return room ? room : malloc(3 * (BATCH_FAR + 64));
}

static void bounce_give(struct hdl_win *w, char *room)
{
	if (w->bounce)
		free(room);
	else
		w->bounce = room;
}

int hdl_acc_by_cpu(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, const struct hdl_type *base,
		   const char *compare, int64_t offset)
{
	const struct hdl_element e = hdl_element_of(base, a->op);
	bool far = t->lane != HDL_LANE_MAPPED;
	size_t most = far ? BATCH_FAR : BATCH, elements;
	_Alignas(16) char near_room[3 * (BATCH + 64)];
	char *room = near_room, *buf, *old;
	void *mem = (void *)(uintptr_t)(t->base + (uint64_t)offset);
	struct hdl_acc_piece piece[PIECES];
	struct hdl_side in = { 0 }, out = { 0 };
	struct walk k = { 0 };
	int rc = MPI_SUCCESS;
	unsigned n;

	if (far && !(room = bounce_take(w)))
		return hdl_rma_no_memory("an accumulate");
	buf = room + most + 64;
	old = buf + most + 64;
	HDL_STREAM_HERE(is, a->at.type);
	HDL_STREAM_HERE(os, a->fetch ? a->result_type : NULL);
	HDL_STREAM_HERE(ts, a->at.target_type);
	if (a->op != MPI_NO_OP)
		hdl_side_open(&in, is, a->at.buf, a->at.count, a->at.type);
	if (a->fetch)
		hdl_side_open(&out, os, a->result, a->result_count, a->result_type);
	if (hdl_type_is_run(a->at.target_type, a->at.target_count) ||
	    hdl_type_find_run(a->at.target_type, a->at.target_count, &mem)) {
		k.at = (uintptr_t)mem;
		k.left = (size_t)a->at.target_count * (size_t)a->at.target_type->size;
	} else {
		hdl_stream_open(ts, mem, a->at.target_count, a->at.target_type, 0);
		k.s = ts;
	}
	while (!rc && (elements = walk_batch(&k, t, &e, most, piece, &n))) {
		const char *operand = a->op == MPI_NO_OP ? NULL : hdl_side_take(&in, room, elements * e.size);
		char *result = a->fetch ? old : NULL;

		if (n == 1 && is_native(t, &e, piece[0].at) && !t->alone)
			native(&e, (void *)((uintptr_t)t->memory + (piece[0].at - t->base)), operand, result, elements);
		else
			rc = update_locked(w, t, &e, piece, n, elements, operand, compare, result, buf);
		if (result && !rc)
			hdl_side_give(&out, result, elements * e.size);
	}
	if (far)
		bounce_give(w, room);
	return rc;
}

/* ---- compare-and-swap ----------------------------------------------------------------------------------------------------- */

bool hdl_cas_native(const struct hdl_target *t, const struct hdl_type *type, void *at, const void *origin, const void *compare,
		    void *result)
{
	const struct hdl_element e = { .type = type, .size = (size_t)type->size, .whole = hdl_type_is_contiguous(type) };
	uint64_t old = 0, new = 0;

	if (unlikely(!is_native(t, &e, (uintptr_t)at)))
		return false;
	memcpy(&old, compare, e.size);
	memcpy(&new, origin, e.size);
	switch (e.size) {
#define CASE(bytes, T)												\
	case bytes: {												\
		T o = (T)old;											\
														\
		__atomic_compare_exchange_n((T *)at, &o, (T)new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);	\
		memcpy(result, &o, bytes);									\
		break;												\
	}
	CASE(1, uint8_t)
	CASE(2, uint16_t)
	CASE(4, uint32_t)
	CASE(8, uint64_t)
	}
	return true;
}
