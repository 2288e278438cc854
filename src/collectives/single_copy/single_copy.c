/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large collectives of the ranks of one host by single copy. A rank announces its user's buffer, address and length, in
 * HDL_SC_RTS; the peer copies by RDMA READ from that buffer into its own, or by RDMA WRITE into that buffer. Each byte is copied
 * once, without the CPU of the buffer's owner, and reductions read segments that stay in the cache. Or twice: a rank that only
 * gives data may announce a staging buffer (hdl_sc_stage) instead, and completes at once.
 *
 * In each slot (queues.h) a rank has three control records from every peer:
 *
 *     HDL_SC_RTS       where the sender's buffers are. The receiver may copy from and to them until it sends HDL_SC_FIN.
 *     HDL_SC_PROGRESS  how many bytes of the announced buffer hold the result, if the sender is still computing (Scan); of a
 *                      reduction in parts: where the result of the sender's part is staged, or 0: written by the sender.
 *     HDL_SC_FIN       the receiver accesses those buffers no more.
 *
 *     movement         Each block is announced to the one rank that copies the block. Bcast, Scatter, Allgather, Alltoall, and
 *                      Gather of short blocks: the rank that gets the block reads. Gather of long blocks: the root announces
 *                      places, and the other ranks write, all at a time. Of two ranks with a CPU each both announce, and each
 *                      copies a part.
 *     reductions       A rank reduces one part of the vector: the rank reads that part of all inputs, and writes the result to
 *                      its places. All ranks announce their buffers to all ranks that have a part.
 *
 * R1  A rank's operation ends when two kinds of records have come: HDL_SC_FIN from every rank to which this rank has announced
 *     its user's buffer (or HDL_SC_PROGRESS, from a rank that was to write there), and every HDL_SC_RTS that is addressed to this
 *     rank. A staging buffer (struct hdl_sc_staged) stays unchanged until the readers have sent HDL_SC_FIN.
 * R2  When the executor fails, the queues are stopped before any operation ends (hdl_queues_stop): no peer reads or writes an
 *     announced buffer that an error has given back to the user; this holds also for a peer at which the operation succeeds.
 * R3  Reductions combine in the order of the ranks, all segments alike. So does the host executor where that one steps in for
 *     want of queues (hdl_build_in_order), but operands may take other sides there: therefore reductions are not among the calls
 *     that run on the host executor before a communicator has queues (start.c, hdl_plan_is_early).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memcheck.h"
#include "collectives/mailbox/mailbox.h"
#include "collectives/select/select.h"
#include "collectives/single_copy/single_copy.h"

/* ---- selection ----------------------------------------------------------------------------------------------- */

/* Bytes (struct hdl_shape) from which single copy is used, by measurement: below, cells or messages cost less than the device's
 * copy between processes. 0: never. */
static const size_t least[HDL_COLLS] = {
	[HDL_BCAST] = HDL_SC_LEAST, [HDL_ALLGATHER] = HDL_SC_LEAST, [HDL_ALLTOALL] = HDL_SC_LEAST,
	[HDL_GATHER] = HDL_SC_LEAST, [HDL_SCATTER] = HDL_SC_LEAST, [HDL_REDUCE] = HDL_SC_LEAST, [HDL_ALLREDUCE] = 128 << 10,
	[HDL_REDUCE_SCATTER] = HDL_SC_LEAST, [HDL_SCAN] = HDL_SC_LEAST, [HDL_EXSCAN] = HDL_SC_LEAST,
};

#define ALWAYS SIZE_MAX
#define NEVER ((size_t)0)

/* Returns the least length for this communicator. Allreduce by messages moves no more bytes; but ranks that share CPUs switch
 * context in each round of messages, and between two ranks staged results are quicker. */
static size_t least_of(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	if (key->coll == HDL_ALLREDUCE && (props->oversubscribed || (props->size == 2 && key->blocking)))
		return HDL_SC_LEAST;
	return least[key->coll];
}

/* Returns the length below which a blocking reduction goes by single copy, by measurement. Beyond, messages are quicker: the
 * device lets both ranks of a pair copy a part of a large message, and a rank that has given all its data goes on. */
static size_t sc_most_of(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	bool two = props->size == 2;

	if (!key->blocking)
		return key->coll == HDL_ALLREDUCE && two && key->bytes < 512 << 10 ? NEVER : ALWAYS;
	/* -0, 0 and NaN would show the side of each operand, which differs by part where messages combine in parts */
	if (hdl_coll_reduces(key->coll) && hdl_op_is_sided(key->op, key->type))
		return ALWAYS;
	switch (key->coll) {
	case HDL_REDUCE: return two ? 512 << 10 : ALWAYS;
	case HDL_REDUCE_SCATTER: return two ? 256 << 10 : NEVER;
	case HDL_ALLREDUCE: return two ? HDL_SC_STAGE_ALLREDUCE : ALWAYS;
	case HDL_EXSCAN: return NEVER;
	default: return ALWAYS;
	}
}

bool hdl_sc_fit(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	/* an exchange in place sends each block from the place into which another block is received */
	if (!least[key->coll] || (key->coll == HDL_ALLTOALL && key->in_place))
		return false;
	if (hdl_vars.coll_single_copy_min)
		return key->bytes >= (size_t)hdl_vars.coll_single_copy_min;
	return key->bytes >= least_of(key, props) && key->bytes < sc_most_of(key, props);
}

struct hdl_graph *hdl_sc_graph(void)
{
	struct hdl_gb *b = hdl_gb_new("single-copy", NULL, 0);

	return b ? hdl_gb_finish(b) : NULL;
}

/* Lengths from which both of two ranks that have a CPU each copy a part of one block, by measurement. In Scatter and Gather the
 * root has its own block to copy as well. From BY_BOTH_BELOW on the device itself divides copies. */
static const size_t by_both_from[HDL_COLLS] = { [HDL_BCAST] = 64 << 10, [HDL_GATHER] = 32 << 10, [HDL_SCATTER] = 256 << 10 };
#define BY_BOTH_BELOW ((size_t)512 << 10)

static bool by_both(const struct hdl_plan *plan, int size)
{
	const struct hdl_plan_key *key = &plan->key;
	size_t from = by_both_from[key->coll];

	return size == 2 && from && !plan->oversubscribed && key->bytes < BY_BOTH_BELOW &&
	       (key->bytes >= from || hdl_sc_all());
}

/* Returns true if the operation completes nowhere before all ranks have posted: queues/SLOTS.md, (b). */
static bool synchronizes(const struct hdl_plan *plan, int size)
{
	if (by_both(plan, size))
		return true;
	if (!hdl_coll_reduces(plan->key.coll))
		return plan->key.coll == HDL_ALLGATHER || plan->key.coll == HDL_ALLTOALL;
	/* a rank without a part waits for the ranks that have one, and these wait for every rank's HDL_SC_RTS */
	if (plan->key.coll == HDL_ALLREDUCE)
		return true;
	for (int p = 0; p < size && plan->key.coll != HDL_SCAN; p++)
		if (!hdl_sc_reduce_has_part(plan, size, p))
			return false;
	return plan->key.coll != HDL_SCAN;
}

static struct hdl_coll_prog *sc_compile(struct hdl_queues *h, const struct hdl_plan *plan)
{
	struct hdl_coll_prog *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->g = plan->offload_graph;
	p->synchronizes = synchronizes(plan, h->size);
	return p;
}

/* ---- movement ------------------------------------------------------------------------------------------------- */

/* Announces to rank p a block, or a place to write. Must: the queue has room, which holds since an operation is posted when every
 * queue has some. */
static void announce(struct hdl_queues *h, struct hdl_run *run, int p, const char *at)
{
	hdl_sc_ctrl_send(h, run, p, HDL_SC_RTS, (struct hdl_sc_ctrl){ .in = (uintptr_t)at, .bytes = run->plan->key.bytes });
	run->sc->awaiting_fin |= 1u << p;
}

/* Notes that rank p's HDL_SC_RTS will name a buffer that this rank copies to or from `at`. */
static void expect(struct hdl_run *run, int p, char *at)
{
	run->sc->block[p].at = at;
	run->sc->block[p].off = 0;
	run->sc->block[p].end = run->plan->key.bytes;
	run->sc->owes_fin |= 1u << p;
}

/* Expects a block from every rank p, for p's place in `recv`. */
static void expect_all(struct hdl_queues *h, struct hdl_run *run, char *recv)
{
	for (int k = 1; k < h->size; k++) {
		int p = (h->rank + k) % h->size;

		expect(run, p, recv + (size_t)p * run->plan->key.bytes);
	}
}

/* Returns true if the length allows staging. The root of Gather announces places that peers write to, which cannot be staged. */
static bool may_stage(const struct hdl_queues *h, const struct hdl_plan_key *key, size_t apart)
{
	if (key->coll == HDL_GATHER && h->rank == key->root)
		return false;
	return apart ? apart * (size_t)(h->size - 1) <= HDL_SC_STAGE_IN_BLOCKS : key->bytes <= HDL_SC_STAGE_FOR_ALL;
}

/* Announces to each rank in `readers` a block of the user's buffer or of a staging buffer. apart: distance in bytes of the blocks
 * of consecutive ranks; 0: all get the same block. */
static void announce_to(struct hdl_queues *h, struct hdl_run *run, uint32_t readers, const char *many, size_t apart)
{
	const struct hdl_plan_key *key = &run->plan->key;
	size_t bytes = apart ? apart * (size_t)h->size : key->bytes;
	char *staging = may_stage(h, key, apart) ? hdl_sc_stage(h, run, bytes, readers, apart * (size_t)(h->size - 1)) : NULL;

	if (staging && !apart)
		hdl_sc_stage_copy(h, staging, many, key->bytes);
	for (int k = 1; k < h->size; k++) {
		int p = (h->rank + k) % h->size;
		size_t at = (size_t)p * apart;

		if (!(readers & 1u << p))
			continue;
		if (staging && apart)
			hdl_sc_stage_copy(h, staging + at, many + at, apart);
		announce(h, run, p, (staging ? staging : many) + at);
	}
	if (staging)
		run->sc->awaiting_fin = 0;
}

static void announce_all(struct hdl_queues *h, struct hdl_run *run, const char *many, size_t apart)
{
	announce_to(h, run, ((1u << h->size) - 1) & ~(1u << h->rank), many, apart);
}

/* Longest blocks of Gather that the root reads from staging buffers. Beyond, and where ranks have CPUs of their own, the other
 * ranks write, several at a time. */
#define GATHER_READS ((size_t)512 << 10)

static bool root_reads(const struct hdl_plan *plan, int size)
{
	return plan->key.coll == HDL_GATHER && plan->key.bytes <= GATHER_READS && (size == 2 || plan->oversubscribed);
}

static void begin_gathered(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_plan_key *key = &run->plan->key;
	char *recv = run->base[HDL_SP_RECV], *one = run->base[HDL_SP_SEND];

	if (h->rank != key->root) {
		announce_to(h, run, 1u << key->root, one, 0);
		return;
	}
	expect_all(h, run, recv);
	if (!key->in_place)
		memcpy(recv + (size_t)h->rank * key->bytes, one, key->bytes);
}

static void begin_rooted(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_plan_key *key = &run->plan->key;
	char *send = run->base[HDL_SP_SEND], *recv = run->base[HDL_SP_RECV];
	char *many = key->coll == HDL_SCATTER ? send : recv, *one = key->coll == HDL_GATHER ? send : recv;
	size_t apart = key->coll == HDL_BCAST ? 0 : key->bytes;

	/* several ranks write at a time, where the root would be the only reader; meanwhile the root copies its own block */
	run->sc->writes = key->coll == HDL_GATHER;
	if (h->rank != key->root) {
		expect(run, key->root, one);
		return;
	}
	announce_all(h, run, many, apart);
	many += (size_t)h->rank * apart;
	if (key->in_place || !apart)
		return;
	memcpy(key->coll == HDL_GATHER ? many : recv, key->coll == HDL_GATHER ? send : many, apart);
}

/* Both ranks announce the block, or the place. In Scatter and Gather the root copies the smaller part, since the root has a block
 * of its own to copy as well. */
static void begin_by_both(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_plan_key *key = &run->plan->key;
	bool root = h->rank == key->root, up = key->coll == HDL_GATHER, has_own = key->coll != HDL_BCAST;
	char *send = run->base[HDL_SP_SEND], *recv = run->base[HDL_SP_RECV], *many = key->coll == HDL_SCATTER ? send : recv;
	size_t cut = (has_own ? key->bytes / 5 * 4 : key->bytes / 2) & ~(size_t)4095;
	char *at = root ? many + (has_own ? (size_t)(1 - h->rank) * key->bytes : 0) : up ? send : recv;

	run->sc->writes = root != up;
	announce(h, run, 1 - h->rank, at);
	expect(run, 1 - h->rank, at);
	if (root)
		run->sc->block[1 - h->rank].off = cut;
	else
		run->sc->block[1 - h->rank].end = cut;
	many += (size_t)h->rank * key->bytes;
	if (root && has_own && !key->in_place)
		memcpy(up ? many : recv, up ? send : many, key->bytes);
}

static void begin_exchange(struct hdl_queues *h, struct hdl_run *run)
{
	const struct hdl_plan_key *key = &run->plan->key;
	char *recv = run->base[HDL_SP_RECV], *place = recv + (size_t)h->rank * key->bytes;
	char *send = key->in_place ? place : run->base[HDL_SP_SEND];
	size_t apart = key->coll == HDL_ALLTOALL ? key->bytes : 0;

	announce_all(h, run, send, apart);
	expect_all(h, run, recv);
	if (!key->in_place)
		memcpy(place, send + (size_t)h->rank * apart, key->bytes);
}

/* Continues the copy of rank p's block. Returns true if HDL_SC_FIN was sent to rank p. */
static bool sc_move(struct hdl_queues *h, struct hdl_run *run, int p)
{
	const struct hdl_sc_ctrl *t = hdl_sc_ctrl_poll(h, run, HDL_SC_RTS, p);
	struct hdl_sc_run *x = run->sc;
	uint64_t bytes = run->plan->key.bytes;

	if (!t)
		return false;
	if (unlikely(t->bytes != bytes)) {
		if (!x->writes && !run->error)	/* if this rank writes, the receiver reports the error */
			hdl_sc_refuse(run, p, t->bytes, bytes);
		return hdl_sc_ctrl_send(h, run, p, HDL_SC_FIN, (struct hdl_sc_ctrl){ .bytes = bytes });
	}
	while (x->block[p].off < x->block[p].end) {
		uint64_t off = x->block[p].off, rest = x->block[p].end - off, len = rest < HDL_SC_TURN ? rest : HDL_SC_TURN;

		if (!(x->copying & 1u << p) && !hdl_sc_copy(h, run, p, x->writes, x->block[p].at + off, t->in + off, len))
			return false;
		if (!hdl_sc_copied(h, x, p))
			return false;
		x->block[p].off += len;
		if (x->turn_bytes >= HDL_SC_TURN && x->block[p].off < x->block[p].end)
			return false;
	}
	return hdl_sc_ctrl_send(h, run, p, HDL_SC_FIN, (struct hdl_sc_ctrl){ .bytes = bytes });
}

/* Continues all blocks. Each rank begins with a different peer. */
static void sc_move_all(struct hdl_queues *h, struct hdl_run *run)
{
	struct hdl_sc_run *x = run->sc;

	for (int k = 1; x->owes_fin && k < h->size; k++) {
		int p = (h->rank - k + h->size) % h->size;

		if (x->owes_fin & 1u << p && sc_move(h, run, p))
			x->owes_fin &= ~(1u << p);
		if (unlikely(hdl_queues_are_broken(h) || x->turn_bytes >= HDL_SC_TURN))
			return;
	}
}

/* ---- an operation ---------------------------------------------------------------------------------------------- */

static void sc_begin(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	const struct hdl_plan_key *key = &run->plan->key;
	struct hdl_sc_run *x = run->sc;

	(void)prog;
	x->owes_fin = x->awaiting_fin = x->awaiting_result = x->copying = 0;
	x->staging = NULL;
	x->failed = x->writes = false;
	if (by_both(run->plan, h->size))
		begin_by_both(h, run);
	else if (key->coll == HDL_SCAN)
		hdl_sc_scan_begin(h, run);
	else if (hdl_coll_reduces(key->coll))
		hdl_sc_reduce_begin(h, run);
	else if (root_reads(run->plan, h->size))
		begin_gathered(h, run);
	else if (hdl_coll_has_root(key->coll))
		begin_rooted(h, run);
	else
		begin_exchange(h, run);
}

/* Bytes of this rank's receive buffer into which peers may have written. */
static size_t written_by_others(const struct hdl_queues *h, const struct hdl_plan_key *key)
{
	bool root = h->rank == key->root;

	switch (key->coll) {
	case HDL_BCAST:
	case HDL_SCATTER:
		return root ? 0 : key->bytes;
	case HDL_GATHER:
		return root ? key->bytes * (size_t)h->size : 0;
	case HDL_REDUCE:
		return root ? key->bytes : 0;
	case HDL_ALLREDUCE:
	case HDL_SCAN:
		return key->bytes;
	default:
		return 0;
	}
}

static bool sc_poll(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog)
{
	struct hdl_sc_run *x = run->sc;
	bool reduces = hdl_coll_reduces(run->plan->key.coll);

	(void)prog;
	x->turn_bytes = 0;
	if (!x->owes_fin && !x->awaiting_result)
		;
	else if (run->plan->key.coll == HDL_SCAN)
		hdl_sc_scan_turn(h, run);
	else if (reduces)
		hdl_sc_reduce_turn(h, run);
	else
		sc_move_all(h, run);
	for (int p = 0; x->awaiting_fin >> p; p++) {
		const struct hdl_sc_ctrl *t = x->awaiting_fin & 1u << p ? hdl_sc_ctrl_poll(h, run, HDL_SC_FIN, p) : NULL;

		if (!t)
			continue;
		x->awaiting_fin &= ~(1u << p);
		/* Gather: the writer has found the length to differ, and has written nothing */
		if (unlikely(t->bytes != run->plan->key.bytes && h->rank == run->plan->key.root &&
			     run->plan->key.coll == HDL_GATHER))
			hdl_sc_refuse(run, p, t->bytes, run->plan->key.bytes);
		if (unlikely(t->failed && t->bytes != run->plan->key.bytes))
			hdl_sc_refuse(run, p, t->bytes, run->plan->key.bytes);
		else if (unlikely(t->failed))
			hdl_sc_peer_failed(run, p);
	}
	if (x->owes_fin || x->awaiting_fin || x->awaiting_result || hdl_queues_are_broken(h))
		return false;
	if (reduces)
		hdl_sc_reduce_end(h, run);
	memcheck_received(run->base[HDL_SP_RECV], written_by_others(h, &run->plan->key));
	return true;
}

static bool sc_needs_cpu(struct hdl_queues *h, const struct hdl_run *run)
{
	const struct hdl_sc_run *x = run->sc;
	uint32_t sharers = hdl_queues_cpu_sharers(h), needs = (x->awaiting_fin | x->awaiting_result) & sharers,
		 owed = x->owes_fin & sharers;

	/* the previous rank of the chain waits for the earlier ranks, unless the previous rank's HDL_SC_PROGRESS has come */
	if (run->plan->key.coll == HDL_SCAN)
		return !x->owes_fin || (h->rank > 1 && !hdl_sc_ctrl_poll(h, run, HDL_SC_PROGRESS, h->rank - 1));
	for (int p = 0; owed >> p; p++)
		if (owed & 1u << p && !hdl_sc_ctrl_poll(h, run, HDL_SC_RTS, p))
			needs |= 1u << p;
	return needs;
}

static bool sc_more(const struct hdl_run *run)
{
	return run->sc->turn_bytes >= HDL_SC_TURN;
}

static int sc_prepare(struct hdl_run *run)
{
	if (hdl_run_prepare_tmp(run))
		return -ENOMEM;
	if (!run->sc)
		run->sc = calloc(1, sizeof(*run->sc));
	if (!run->sc)
		return -ENOMEM;
	return hdl_coll_reduces(run->plan->key.coll) ? hdl_sc_reduce_prepare(run) : 0;
}

static void sc_free(struct hdl_run *run)
{
	if (!run->sc)
		return;
	free(run->sc->reduce.whole);
	free(run->sc);
}

static int sc_region(const struct hdl_queues *h, const struct hdl_plan *plan)
{
	(void)h;
	(void)plan;
	return HDL_REGION_SC;
}

/* The operation waits for nothing but copies and control records. */
static bool sc_by_device(const struct hdl_run *run)
{
	(void)run;
	return true;
}

const struct hdl_executor_ops hdl_exec_single_copy = {
	.name = "single copy",
	.reducer = HDL_EXEC_HOST,
	.own_order = true,
	.prepare = sc_prepare,
	.free = sc_free,
	.region = sc_region,
	.compile = sc_compile,
	.has_room = hdl_cell_has_room,
	.post = sc_begin,
	.poll = sc_poll,
	.has_more = sc_more,
	.by_device = sc_by_device,
	.needs_cpu = sc_needs_cpu,
};
