/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bring-up of mailbox or tasks for a communicator; no rank blocks for it. The first offloaded collective starts an Allgather of
 * queue numbers and keys on the host executor. Then every rank connects its queues, and a second Allgather exchanges a status per
 * rank. Its result is complete only when all ranks have connected, so the first request that is posted finds a queue that
 * answers. The result is the same on all ranks, so either all ranks use the queues or none does.
 *
 * Before a rank creates queues, the rank looks in the queue cache (cache.c) for queues of the same ranks, and offers these in its
 * record. If all ranks have offered the same queues, the queues are taken over, and the second Allgather confirms so. Otherwise
 * (a rank has none, or other ones, because a communicator was freed later there) a status is BEGIN_AGAIN: all ranks destroy the
 * offered queues, create new ones, and begin again. So an offer that fails costs cached queues on each rank that made the offer,
 * and queues that only some ranks have cached disappear.
 *
 * The ranks of a host take their memory from one fabric, so a rank's bring-up may lack memory that only other ranks can free:
 *     1. Ranks 0 and 1 keep scratch of long operations (scratch.c), which fills the fabric.
 *     2. Rank 1 frees its own scratch and creates its queues; the queues of rank 2 get ENOMEM, and rank 2 has nothing to free.
 *     3. All ranks read ENOMEM in the record of rank 2: each frees its scratch and cached queues, and its status is BEGIN_AGAIN.
 *     4. All statuses have arrived at rank 2, so all ranks have freed their memory: rank 2 creates its queues.
 * That happens once for a bring-up. The second ENOMEM refuses the queues on all ranks.
 *
 * A rank on which a step fails, even the first Allgather itself, continues to the end: the rank sends all that its peers wait
 * for, with HDL_STATUS_UNKNOWN in place of blocks that did not arrive, and reports the failure in the second Allgather. Only if
 * the second Allgather fails, too, the rank cannot know the outcome on its peers: then its collectives fail, because its peers
 * may not run them on the same executor.
 */
#include <errno.h>
#include <shca.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

struct record {
	union ibv_gid gid;
	uint64_t addr;			/* of the first region */
	uint32_t rkey;
	uint32_t lid;
	int32_t status;			/* of creating this rank's queues: 0 or an errno */
	uint32_t exposed;		/* rkey of all this rank's memory, or 0 */
	struct hdl_proc proc;
	uint64_t offered_id;		/* hdl_queues.id of the cached queues that this rank offers; 0: new queues */
	uint64_t posted, class_posted[HDL_SLOT_CLASSES];	/* operations posted on the offered queues */
	uint64_t new_id;		/* id for new queues; rank 0's is used */
	struct hdl_agreed_config config;	/* must be the same on all ranks */
	uint32_t depth, index;
	uint64_t region_bytes;
	uint32_t qpn[];			/* pair[size], out[tree_links], in[tree_links] */
};

/* Status of a rank that has all records, in which the ranks offer different queues, or a rank lacked
 * memory for the first time. */
#define BEGIN_AGAIN ESTALE

static struct record *record(const struct hdl_queues *h, int rank)
{
	return (struct record *)(h->records + (size_t)rank * h->record_bytes);
}

/* ---- queues ---------------------------------------------------------------------------------------------- */

static struct ibv_cq *bringup_create_cq(const struct hdl_queues *h, uint64_t entries)
{
	struct ibv_exp_cq_init_attr attr = { .comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					     .flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL };

	return ibv_exp_create_cq(h->port->ctx, (int)entries, NULL, hdl_tp_local_channel(hdl_mpi_tp), 0, &attr);
}

static struct hdl_coll_link *add_link(struct hdl_queues *h, int peer, uint64_t sq_depth)
{
	struct hdl_coll_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->peer = peer;
	l->index = h->nlinks;
	l->sq_depth = (uint32_t)sq_depth;
	h->links[h->nlinks++] = l;
	return l;
}

/* Depth of a mailbox queue: small, since each request takes memory in every communicator. Half as many for more than MANY_RANKS
 * ranks. */
#define CELL_QUEUE_DEPTH 30
#define MANY_RANKS 8

static uint32_t cell_queue_depth(const struct hdl_queues *h)
{
	return h->size > MANY_RANKS ? CELL_QUEUE_DEPTH / 2 : CELL_QUEUE_DEPTH;
}

/* Creates the queue through which cells are written to a peer. Its one receive never takes a message: the receive is flushed when
 * the peer is gone, which reports the peer's end. */
static struct hdl_coll_link *create_cell_link(struct hdl_queues *h, int peer)
{
	size_t cell = h->region[HDL_CELL_MEDIUM].cell_bytes;
	const uint32_t tries[] = { cell && cell <= HDL_CELL_INLINE_LONG ? (uint32_t)cell : HDL_CELL_INLINE, HDL_CELL_INLINE, 0 };
	static const uint32_t always_unfinished = 1;
	struct hdl_coll_link *l = add_link(h, peer, cell_queue_depth(h));

	if (l)
		l->unfinished = &always_unfinished;
	if (l && !h->port) {
		l->max_inline = tries[0];
		return l;
	}
	for (int i = 0; l && i < 3; i++) {
		struct ibv_qp_init_attr attr = {
			.qp_type = IBV_QPT_RC, .send_cq = h->local_cq, .recv_cq = h->local_cq,
			.cap = { .max_send_wr = l->sq_depth, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1,
				 .max_inline_data = tries[i] },
		};

		l->qp = ibv_create_qp(h->port->pd, &attr);
		if (!l->qp)
			continue;
		l->max_inline = attr.cap.max_inline_data;
		if (hdl_tp_writes_at_once(hdl_mpi_tp))
			shca_unfinished(l->qp, &l->unfinished);
		return l;
	}
	return NULL;
}

/* Returns the most operands that one request of a master or managed queue names. */
static uint32_t most_operands(const struct hdl_queues *h)
{
	return (uint32_t)(h->pairs ? h->size < HDL_TREE_LINKS ? h->size : HDL_TREE_LINKS : 1 + h->tree_links);
}

/* arrives: the link receives messages. Returns NULL with errno; the link then stays in h->links, which frees the parts that were
 * made. */
static struct hdl_coll_link *create_link(struct hdl_queues *h, int peer, uint64_t sq_depth, uint32_t flags, bool arrives)
{
	struct ibv_exp_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.exp_create_flags = flags,
		.max_atomic_arg = 8,
		.send_cq = h->local_cq,
		.cap = { .max_send_wr = (uint32_t)sq_depth, .max_send_sge = flags ? most_operands(h) : 1, .max_recv_sge = 1,
			 .max_recv_wr = 1 },
	};
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = (uint32_t)hdl_link_receives(h), .max_sge = 1 } };
	struct hdl_coll_link *l = add_link(h, peer, sq_depth);

	if (!l)
		return NULL;
	l->managed = flags & IBV_EXP_QP_CREATE_MANAGED_SEND;
	if (!h->port)
		return l;
	attr.pd = h->port->pd;
	if (arrives) {
		l->rcq = bringup_create_cq(h, hdl_link_receives(h));
		l->srq = ibv_create_srq(h->port->pd, &srq);
		if (!l->rcq || !l->srq)
			return NULL;
		attr.srq = l->srq;
		attr.cap.max_recv_wr = 0;
	}
	attr.recv_cq = arrives ? l->rcq : h->local_cq;
	l->qp = ibv_exp_create_qp(h->port->ctx, &attr);
	return l->qp ? l : NULL;
}

static bool has_pair_link(const struct hdl_queues *h, int a, int b)
{
	return a != b && (h->mailbox || h->pairs || (h->star && (!a || !b)));
}

/* Returns the depth of a send queue: room for `small` requests of each operation under way, or for two of the largest
 * operations. */
static uint64_t sq_depth(const struct hdl_queues *h, uint64_t small, uint64_t large)
{
	uint64_t a = h->depth * small, b = 2 * large;

	return (a > b ? a : b) + 1;
}

static int create_links(struct hdl_queues *h)
{
	/* elements: requests of one hop; words: atomics on a pair link or on the rank's own; control: WAITs and ENABLEs, since a
	 * graph at most waits for a peer on the link in one direction and enables the other, and the root's writes to itself, for
	 * which the root waits, with their stamps. */
	uint64_t elements = h->reduce_caps->vector ? 2 : HDL_CALC_REQUESTS,
		 words = h->star ? h->class[HDL_SLOT_LONGER].acc_bytes / 8 : 0;
	uint64_t control = 2 * (uint64_t)h->tree_links + 4 + (h->star || h->pairs ? (uint64_t)h->size : 0);
	uint64_t own = elements > words ? elements : words;
	const uint32_t cross = IBV_EXP_QP_CREATE_CROSS_CHANNEL, managed = cross | IBV_EXP_QP_CREATE_MANAGED_SEND;

	for (int r = 0; r < h->size; r++) {
		if (!has_pair_link(h, h->rank, r))
			continue;
		h->pair[r] = create_link(h, r, sq_depth(h, 2, words + 1), 0, true);
		if (!h->pair[r])
			return -errno;
	}
	for (int k = 0; k < h->tree_links; k++) {
		h->out[k] = create_link(h, hdl_knomial_ahead(h->rank, h->size, h->radix, k), sq_depth(h, 2, elements), managed,
					true);
		if (!h->out[k])
			return -errno;
		h->in[k] = create_link(h, hdl_knomial_behind(h->rank, h->size, h->radix, k), sq_depth(h, 2, elements), managed,
				       true);
		if (!h->in[k])
			return -errno;
	}
	h->master = create_link(h, h->rank, sq_depth(h, control, own + control), cross, true);
	return h->master ? 0 : -errno;
}

static int create_cell_links(struct hdl_queues *h)
{
	for (int r = 0; r < h->size; r++) {
		if (!has_pair_link(h, h->rank, r))
			continue;
		h->pair[r] = create_cell_link(h, r);
		if (!h->pair[r])
			return -errno;
	}
	return 0;
}

static uint64_t most_links(const struct hdl_queues *h)
{
	if (h->mailbox)
		return (uint64_t)h->size - 1;
	return (h->star || h->pairs ? (uint64_t)h->size : 0) + 2 * (uint64_t)h->tree_links + 1;
}

static int allocate(struct hdl_queues *h)
{
	size_t n = (size_t)h->size;
	uint64_t links = most_links(h);

	h->links = calloc(links, sizeof(*h->links));
	h->pair = calloc(n, sizeof(*h->pair));
	h->out = calloc((size_t)h->tree_links + 1, sizeof(*h->out));
	h->in = calloc((size_t)h->tree_links + 1, sizeof(*h->in));
	h->ring = calloc(h->depth, sizeof(*h->ring));
	h->need = h->mailbox ? NULL : calloc(h->depth * links, sizeof(*h->need));
	if (!h->links || !h->pair || !h->out || !h->in || !h->ring || (!h->mailbox && !h->need))
		return -ENOMEM;
	return 0;
}

static int bringup_create(struct hdl_queues *h)
{
	uint64_t links = most_links(h);
	int err;

	/* peers rely on an exposed rank; the status in this rank's record refuses the queues on all ranks */
	if (h->mailbox && !hdl_tp_exposes(hdl_mpi_tp, &h->exposed_lkey, &h->exposed_rkey) && hdl_tp_can_expose(hdl_mpi_tp))
		return -EACCES;
	h->local_room = (h->depth + 2) * links;
	/* mailbox: room for all requests of the queues, and for their receives when flushed */
	h->local_cq = !h->mailbox ? bringup_create_cq(h, h->local_room) :
		      ibv_create_cq(h->port->ctx, (int)(links * (cell_queue_depth(h) + 1)), NULL,
				    hdl_tp_local_channel(hdl_mpi_tp), 0);
	if (!h->local_cq)
		return -errno;
	err = h->mailbox ? create_cell_links(h) : create_links(h);
	return err ? err : hdl_region_make(h, 0);
}

/* Creates the queues. If the device or the process has no memory for them, frees spare scratch, then evicts the oldest cached
 * queues, and tries again. Returns 0 or a negative errno. */
static int bringup_make(struct hdl_queues *h)
{
	int err;

	hdl_queue_cache_trim();
	while ((err = bringup_create(h)) == -ENOMEM && (hdl_scratch_give() || hdl_queue_cache_evict()))
		hdl_queues_unmake(h);
	return err;
}

static void bringup_report(const struct hdl_queues *h, int err)
{
	hdl_error("offloaded collectives, communicator of %d ranks: creating queues or %zu bytes of registered scratch "
		  "failed (%s); its collectives run on the host", h->size, h->region[0].bytes,
		  err != -EACCES ? strerror(-err) :
		  "the device refused this rank a region of all its memory: see --report-transports");
}

/* Destroys the queues, resets all counters, and creates new queues. Returns 0 or a negative errno. */
static int make_anew(struct hdl_queues *h)
{
	hdl_queues_flush(h);
	hdl_queues_unmake(h);
	for (int i = 0; i < HDL_SLOT_CLASSES; i++) {
		struct hdl_slot_class *c = &h->class[i];

		c->posted = c->retired = 0;
		c->next_slot = 0;
	}
	h->posted = h->completed = h->retired = h->since_sync_all = 0;
	memset(h->since_sync, 0, sizeof(h->since_sync));
	h->local_posted = h->local_seen = 0;
	h->next_place = h->oldest = h->cell_room = 0;
	h->unfit = false;
	hdl_queues_on(h, HDL_QUEUES_ON_RENEW);
	h->id = 0;
	h->offered = false;
	return bringup_make(h);
}

/* ---- exchange -------------------------------------------------------------------------------------------- */

static uint32_t qpn_of(const struct hdl_coll_link *l)
{
	return l && l->qp ? l->qp->qp_num : 0;
}

static uint64_t region_bytes(const struct hdl_queues *h)
{
	uint64_t bytes = 0;

	for (int k = 0; k < HDL_REGIONS; k++)
		bytes += h->region[k].bytes;
	return bytes;
}

static void fill_record(struct hdl_queues *h, int err)
{
	static uint64_t ids;
	struct record *r = record(h, h->rank);
	struct hdl_comm_props props;
	int unsure;

	memset(r, 0, h->record_bytes);
	r->depth = (uint32_t)h->depth;
	r->region_bytes = region_bytes(h);
	r->index = (uint32_t)h->index;
	unsure = hdl_comm_props_of(h->cc->comm, &props);
	if (!unsure)
		hdl_agreed_config_of(&props, &r->config);
	r->status = err ? -err : -unsure;
	if (r->status)
		return;
	r->offered_id = h->id;
	r->posted = h->posted;
	for (int i = 0; i < HDL_SLOT_CLASSES; i++)
		r->class_posted[i] = h->class[i].posted;
	r->new_id = ++ids;
	r->gid = h->port->gid;
	r->lid = h->port->lid;
	r->addr = (uintptr_t)h->region[0].mem;
	r->rkey = h->region[0].mr->rkey;
	r->exposed = h->exposed_rkey;
	hdl_proc_self(&r->proc);
	for (int i = 0; i < h->size; i++)
		r->qpn[i] = qpn_of(h->pair[i]);
	for (int k = 0; k < h->tree_links; k++) {
		r->qpn[h->size + k] = qpn_of(h->out[k]);
		r->qpn[h->size + h->tree_links + k] = qpn_of(h->in[k]);
	}
}

static int connect_link(const struct hdl_queues *h, struct hdl_coll_link *l, int peer, uint32_t qpn)
{
	const struct record *r = record(h, peer);
	int err;

	if (!l)
		return 0;
	err = hdl_tp_rc_connect(hdl_mpi_tp, l->qp, h->port, &r->gid, (uint16_t)r->lid, qpn, 0);
	if (!err && h->mailbox)
		err = hdl_tp_in_order(l->qp) ? hdl_link_post_recvs(l, 1) : -HDL_NOT_IN_ORDER;
	return err;
}

static int connect_all(struct hdl_queues *h)
{
	int err = 0;

	h->region[0].state = HDL_REGION_READY;
	for (int r = 0; r < h->size && !err; r++) {
		h->region[0].peers[r] = (struct hdl_region_peer){ .addr = record(h, r)->addr, .rkey = record(h, r)->rkey };
		h->peers[r].exposed = record(h, r)->exposed;
		h->peers[r].proc = record(h, r)->proc;
		err = connect_link(h, h->pair[r], r, record(h, r)->qpn[h->rank]);
	}
	for (int k = 0; k < h->tree_links && !err; k++) {
		int to = hdl_knomial_ahead(h->rank, h->size, h->radix, k),
		    from = hdl_knomial_behind(h->rank, h->size, h->radix, k);

		err = connect_link(h, h->out[k], to, record(h, to)->qpn[h->size + h->tree_links + k]);
		if (!err)
			err = connect_link(h, h->in[k], from, record(h, from)->qpn[h->size + k]);
	}
	if (!err)
		err = connect_link(h, h->master, h->rank, qpn_of(h->master));
	return err;
}

static void bringup_exchange(struct hdl_queues *h, int err);

/* Returns true if the only failure that any status reports is BEGIN_AGAIN. A status of HDL_STATUS_UNKNOWN is a failure, too. */
static bool is_to_begin_again(const struct hdl_queues *h)
{
	bool differs = false;

	for (int r = 0; r < h->size; r++) {
		if (h->statuses[r] && h->statuses[r] != BEGIN_AGAIN)
			return false;
		differs |= h->statuses[r] == BEGIN_AGAIN;
	}
	return differs;
}

static void bringup_wired(struct hdl_run *run)
{
	struct hdl_queues *h = run->arg;
	int error = run->error;
	bool all = true;

	if (!error && is_to_begin_again(h)) {
		hdl_run_free(run);
		bringup_exchange(h, h->offered || h->create_error ? make_anew(h) : 0);
		return;
	}
	h->state = HDL_QUEUES_READY;
	for (int r = 0; r < h->size; r++) {
		if (!h->statuses[r])
			continue;
		all = false;
		if (h->statuses[r] != BEGIN_AGAIN)
			hdl_queues_note_reason(h, "connect its queues, or receive the records of all ranks", r, h->statuses[r]);
		/* The rank reports its own failure: every peer gets this status, too, or none. But a peer whose statuses report
		 * BEGIN_AGAIN and no other failure begins again, and waits for this rank. */
		if (h->statuses[r] != HDL_STATUS_UNKNOWN && h->statuses[r] != BEGIN_AGAIN)
			h->state = HDL_QUEUES_REFUSED;
	}
	if (h->state == HDL_QUEUES_READY && (error || !all)) {
		h->wire_error = error ? error : MPI_ERR_OTHER;
		snprintf(h->why_refused, sizeof(h->why_refused),
			 "offload queues: whether all ranks have theirs is not known (%.160s)",
			 run->why[0] ? run->why : "the records of some ranks did not come");
		hdl_queues_break(h, h->why_refused);
	}
	h->offered = false;
	hdl_run_free(run);
	hdl_queues_free_records(h);
}

/* Returns true if the only failure that any record reports is ENOMEM, for the first time: frees the memory that other ranks of
 * the host may use. */
static bool frees_memory(struct hdl_queues *h)
{
	bool lacks = false;

	for (int r = 0; r < h->size; r++) {
		if (record(h, r)->status && record(h, r)->status != ENOMEM)
			return false;
		lacks |= record(h, r)->status == ENOMEM;
	}
	if (!lacks || h->freed_memory)
		return false;
	h->freed_memory = true;
	hdl_scratch_give();
	while (hdl_queue_cache_evict())
		;
	return true;
}

static int check_records(struct hdl_queues *h)
{
	const struct record *mine = record(h, h->rank);
	char what[160];

	for (int r = 0; r < h->size; r++)
		if (record(h, r)->status) {
			hdl_queues_note_reason(h, "create its queues", r, record(h, r)->status);
			return -ENOLINK;
		}
	for (int r = 0; r < h->size; r++) {
		const struct record *rec = record(h, r);

		if (rec->depth != mine->depth || rec->region_bytes != mine->region_bytes || rec->index != mine->index ||
		    memcmp(&rec->config, &mine->config, sizeof(mine->config))) {
			hdl_agreed_config_difference(&mine->config, &rec->config, what, sizeof(what));
			hdl_queues_note_reason(h, what, r, EINVAL);
			return -EINVAL;
		}
		if (!rec->exposed != !mine->exposed) {
			hdl_queues_note_reason(h, "agree: its device's paging on demand differs", r, EINVAL);
			return -EINVAL;
		}
	}
	return 0;
}

/* Returns 0: all ranks have new queues; 1: all offer the same cached queues with the same operations posted; -BEGIN_AGAIN:
 * neither. */
static int compare_offers(const struct hdl_queues *h)
{
	const struct record *mine = record(h, h->rank);

	for (int r = 0; r < h->size; r++) {
		const struct record *rec = record(h, r);

		if (rec->offered_id != mine->offered_id || rec->posted != mine->posted ||
		    memcmp(rec->class_posted, mine->class_posted, sizeof(mine->class_posted)))
			return -BEGIN_AGAIN;
	}
	return mine->offered_id != 0;
}

/* Returns 0 if the offered queues may be used on: each link has exactly the arrivals that the posted operations imply, so all
 * ranks have posted all of them ((d) of queues.h), and no queue has failed. Polls first: completions that report a failure may
 * have come while the queues were cached. */
static int bringup_take_over(struct hdl_queues *h)
{
	hdl_queues_drain(h);
	if (h->unfit || h->health == HDL_QUEUES_SUSPECT)
		return -BEGIN_AGAIN;
	for (uint16_t i = 0; i < h->nlinks; i++)
		if (h->links[i]->rcq && !hdl_link_has_arrived(h, h->links[i]))
			return -BEGIN_AGAIN;
	return hdl_queues_are_broken(h) ? -EIO : 0;
}

static int take_or_connect(struct hdl_queues *h)
{
	int same = compare_offers(h), err;

	if (same)
		return same < 0 ? same : bringup_take_over(h);
	err = connect_all(h);
	if (err && err != -HDL_NOT_IN_ORDER)
		hdl_error("offloaded collectives, communicator of %d ranks: connecting queues failed (%s); its collectives run "
			  "on the host", h->size, strerror(-err));
	h->id = record(h, 0)->new_id;
	return err;
}

static void exchanged(struct hdl_run *run)
{
	struct hdl_queues *h = run->arg;
	int err = run->error ? -EIO : 0;

	hdl_run_free(run);
	if (err)
		hdl_queues_note_reason(h, "receive the records of all ranks", h->rank, EIO);
	else if (frees_memory(h))
		err = -BEGIN_AGAIN;
	else
		err = check_records(h);
	if (h->create_error && err != -BEGIN_AGAIN)
		bringup_report(h, h->create_error);
	if (!err)
		err = take_or_connect(h);
	h->statuses[h->rank] = -err;
	if (hdl_queues_allgather(h, h->statuses, sizeof(*h->statuses), bringup_wired, h))
		hdl_queues_bringup_failed(h);
}

/* Starts the first Allgather. err: of creating this rank's queues; the record reports the error to the peers, which wait for the
 * record. */
static void bringup_exchange(struct hdl_queues *h, int err)
{
	h->create_error = err;
	fill_record(h, err);
	if (hdl_queues_allgather(h, h->records, h->record_bytes, exchanged, h))
		hdl_queues_bringup_failed(h);
}

static struct hdl_queues *lay(int rank, int size, enum hdl_executor executor, bool pairs, const struct hdl_reduce_caps *caps)
{
	struct hdl_queues *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->queue_tail = &h->queue;
	h->rank = rank;
	h->size = size;
	h->mailbox = executor == HDL_EXEC_MAILBOX;
	h->index = hdl_queues_index(executor, pairs);
	if (!h->mailbox) {
		h->reduce_caps = caps;
		h->radix = hdl_vars.coll_radix;
		h->pairs = pairs;
		h->tree_links = pairs ? 0 : hdl_knomial_links(h->radix, h->size);
		h->star = !pairs && !caps->vector && caps->atomics;
	}
	hdl_queues_lay_out(h);
	h->peers = calloc((size_t)size, sizeof(*h->peers));
	if (h->peers && !allocate(h))
		return h;
	hdl_queues_destroy(h);
	return NULL;
}

struct hdl_queues *hdl_queues_sketch(int rank, int size, enum hdl_executor executor, bool pairs,
				     const struct hdl_reduce_caps *caps)
{
	static struct ibv_mr nothing;
	struct hdl_queues *h = lay(rank, size, executor, pairs, caps);

	if (!h)
		return NULL;
	for (int k = 0; k < HDL_REGIONS; k++) {
		h->region[k].mr = &nothing;
		h->region[k].peers = calloc((size_t)size, sizeof(*h->region[k].peers));
		if (!h->region[k].peers)
			goto fail;
	}
	if (!(h->mailbox ? create_cell_links(h) : create_links(h)))
		return h;
fail:
	hdl_queues_destroy(h);
	return NULL;
}

static int allocate_records(struct hdl_queues *h)
{
	h->record_bytes = align_up(sizeof(struct record) + 4 * ((size_t)h->size + 2 * (size_t)h->tree_links), 8);
	h->records = calloc((size_t)h->size, h->record_bytes);
	h->statuses = calloc((size_t)h->size, sizeof(*h->statuses));
	return h->records && h->statuses ? 0 : -ENOMEM;
}

static struct hdl_queues *lay_new(const struct hdl_comm *comm, enum hdl_executor executor, bool pairs)
{
	const struct hdl_port *port = hdl_tp_local_port(hdl_mpi_tp);
	const struct hdl_reduce_caps *caps;
	int err = hdl_reduce_caps_of(port, &caps);
	struct hdl_queues *h = err ? NULL : lay(comm->rank, comm->size, executor, pairs, caps);

	if (!h) {
		errno = err ? -err : ENOMEM;
		return NULL;
	}
	h->port = port;
	h->members = calloc((size_t)h->size, sizeof(*h->members));
	if (!h->members) {
		hdl_queues_destroy(h);
		errno = ENOMEM;
		return NULL;
	}
	for (int r = 0; r < h->size; r++)
		h->members[r] = hdl_comm_proc(comm, r);
	return h;
}

struct hdl_queues *hdl_queues_new(struct hdl_cc *cc, enum hdl_executor executor, bool pairs)
{
	struct hdl_queues *h = hdl_queue_cache_take(cc->comm, hdl_queues_index(executor, pairs));
	bool offered = h;

	if (!h)
		h = lay_new(cc->comm, executor, pairs);
	if (!h)
		return NULL;
	h->cc = cc;
	h->state = HDL_QUEUES_WIRING;
	h->offered = offered;
	h->freed_memory = false;
	h->wire_seq = 0;
	h->why_refused[0] = 0;
	hdl_regions_retry(h);
	if (allocate_records(h)) {
		hdl_queues_end(h);		/* flushes: cells of the previous communicator may not have left yet */
		errno = ENOMEM;
		return NULL;
	}
	bringup_exchange(h, offered ? 0 : bringup_make(h));
	return h;
}
