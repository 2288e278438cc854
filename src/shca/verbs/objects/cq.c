/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and channels: life cycle and events. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "shca/verbs/control.h"

struct lchannel {
	struct ibv_comp_channel ch;
	struct shca_fd bell;		/* ch.fd, which the application may have closed */
	char addr[32];
};

static struct lchannel *lchannel_of(struct ibv_comp_channel *channel)
{
	return (struct lchannel *)channel;
}

/* As shca_ring_read. -EBADF: the program has closed the channel's descriptor; another file may have the number. */
static int next_ring(struct ibv_comp_channel *channel, bool wait, struct shca_ring *ring)
{
	const struct shca_fd *bell = &lchannel_of(channel)->bell;

	return shca_fd_ours(bell) ? shca_ring_read(bell->n, wait, ring) : -EBADF;	/* said: get_cq_event */
}

/* ---- channels ----------------------------------------------------------------------------------------------- */

struct ibv_comp_channel *shca_create_comp_channel(struct ibv_context *ctx)
{
	struct shca_context *c = shca_context_of(ctx);
	if (shca_unusable(ctx))
		return NULL;
	struct lchannel *l = calloc(1, sizeof *l);
	if (!l) {
		errno = shca_no_memory("create_comp_channel");
		return NULL;
	}
	l->ch.context = ctx;
	l->bell = shca_fd_note(shca_bell_open(c->m, l->addr));
	if (l->bell.n < 0) {
		errno = -l->bell.n;
		free(l);
		return NULL;
	}
	l->ch.fd = l->bell.n;
	return &l->ch;
}

int shca_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct ibv_context *ctx = channel->context;
	struct shca_context *c = shca_context_of(ctx);
	int refs;
	if (shca_inherited(ctx)) {
		refs = channel->refcnt;
	} else {
		pthread_mutex_lock(&c->mutex);
		refs = channel->refcnt;
		pthread_mutex_unlock(&c->mutex);
	}
	if (refs)
		return shca_refuse(EBUSY, "destroy_comp_channel: %d completion queues use the channel", refs);
	shca_fd_close(&lchannel_of(channel)->bell);
	free(lchannel_of(channel));
	return 0;
}

/* The CQ of this number on this channel; node->mutex is held. */
static struct shca_user_cq *on_channel(struct shca_context *c, const struct ibv_comp_channel *channel, uint32_t number)
{
	struct shca_tagged *t = number ? shca_local_get(c->m, number) : NULL;

	return t && t->kind == SHCA_KIND_CQ && t->cq && t->cq->cq.channel == channel ? t->cq : NULL;
}

static bool names(const struct shca_ring *r, uint64_t word)
{
	return (word & SHCA_CQ_EVENT) && SHCA_CQ_EVENT_SEQ(word) == r->seq && SHCA_CQ_EVENT_BY(word) == r->by;
}

/* Takes the event that the ring names. Returns NULL if the event has another ringer since, whose ring will come, or if the CQ is
 * gone. */
static struct shca_user_cq *take_event(struct shca_context *c, struct ibv_comp_channel *channel, const struct shca_ring *r)
{
	pthread_mutex_lock(&c->node->mutex);
	struct shca_user_cq *cq = on_channel(c, channel, r->cqn);
	uint64_t w = cq ? atomic_load(&cq->sh->notify) : 0;
	bool taken = false;
	while (!taken && names(r, w))
		taken = atomic_compare_exchange_weak(&cq->sh->notify, &w,
						     shca_cq_event(w & (SHCA_CQ_ARMED | SHCA_CQ_STAMPED), r->seq, 0));
	if (taken) {
		pthread_mutex_lock(&cq->cq.mutex);
		cq->events_unacked++;
		pthread_mutex_unlock(&cq->cq.mutex);
	}
	pthread_mutex_unlock(&c->node->mutex);
	return taken ? cq : NULL;
}

/* Sends the rings again of all CQs whose event is in this state. Must hold node->mutex and c->mutex. */
static void ring_again(struct shca_thread *thr, struct shca_context *c, uint32_t state)
{
	shca_enter(thr);
	for (struct shca_user_cq *cq = c->cqs; cq; cq = cq->next) {
		uint64_t w = atomic_load(&cq->sh->notify);
		if ((w & SHCA_CQ_EVENT) == state && (state == SHCA_CQ_EVENT_LOST ? shca_ring_adopt(thr, cq->sh, w) :
										    SHCA_CQ_EVENT_BY(w) == thr->slot))
			shca_ring_event(thr, cq->sh);
	}
	shca_leave(thr);
}

/* Sends the rings again that found a full socket. Called when a ring was read, so that the socket has room. */
static void ring_lost(struct shca_thread *thr, struct shca_context *c)
{
	if (!atomic_load(&c->m->proc->rings_lost) || !atomic_exchange(&c->m->proc->rings_lost, 0))
		return;
	pthread_mutex_lock(&c->node->mutex);
	for (struct shca_context *o = c->node->contexts; o; o = o->next) {
		pthread_mutex_lock(&o->mutex);
		ring_again(thr, o, SHCA_CQ_EVENT_LOST);
		pthread_mutex_unlock(&o->mutex);
	}
	pthread_mutex_unlock(&c->node->mutex);
}

/* Takes the rings out of the socket when a CQ with an unread event is destroyed. The rings of other CQs are taken out, too, and
 * sent again. */
static void drop_rings(struct shca_thread *thr, struct shca_context *c, struct ibv_comp_channel *channel)
{
	struct shca_ring r;

	pthread_mutex_lock(&c->node->mutex);
	pthread_mutex_lock(&c->mutex);
	while (next_ring(channel, false, &r) > 0) {
		struct shca_user_cq *cq = on_channel(c, channel, r.cqn);
		uint64_t w = cq ? atomic_load(&cq->sh->notify) : 0;
		if (names(&r, w))
			shca_ring_adopt(thr, cq->sh, w);
	}
	ring_again(thr, c, SHCA_CQ_EVENT_OWED);
	pthread_mutex_unlock(&c->mutex);
	pthread_mutex_unlock(&c->node->mutex);
	ring_lost(thr, c);
}

int shca_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct shca_context *c = shca_context_of(channel->context);
	if (shca_inherited(channel->context))
		return -1;
	struct shca_thread *thr = shca_thread_get(c->m);
	if (!thr)
		return -1;
	for (;;) {
		struct shca_ring ring;
		int r = next_ring(channel, true, &ring);
		if (r <= 0) {
			errno = EAGAIN;		/* said: nothing is refused, there is no event */
			if (r)
				errno = shca_refuse(-r, "get_cq_event: descriptor %d of the channel", channel->fd);
			return -1;
		}
		ring_lost(thr, c);
		struct shca_user_cq *got = take_event(c, channel, &ring);
		if (!got)
			continue;
		*cq = &got->cq;
		*cq_context = got->cq.cq_context;
		return 0;
	}
}

void shca_ack_cq_events(struct ibv_cq *ibcq, unsigned int n)
{
	struct shca_user_cq *cq = shca_user_cq_of(ibcq);
	if (!n)
		return;
	pthread_mutex_lock(&ibcq->mutex);
	cq->events_unacked -= n < cq->events_unacked ? n : cq->events_unacked;
	ibcq->comp_events_completed += n;
	pthread_cond_broadcast(&ibcq->cond);
	pthread_mutex_unlock(&ibcq->mutex);
}

/* ---- queues ------------------------------------------------------------------------------------------------- */

/* The fields that ibv_create_cq_ex gives completions. */
#define STAMP_FIELDS ((uint64_t)(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
#define CQ_FIELDS (IBV_WC_STANDARD_FLAGS | STAMP_FIELDS)

/* Bytes of a ring, with the times of its completions. */
static uint64_t ring_bytes(bool stamped, uint32_t log2)
{
	return (sizeof(struct shca_cqe) + (stamped ? sizeof(uint64_t) : 0)) << log2;
}

/* log2 of the entries of a ring of at least so many. */
static uint32_t ring_log2(uint32_t entries)
{
	uint32_t log2 = 3;

	while ((1u << log2) < entries)
		log2++;
	return log2;
}

static struct shca_user_cq *cq_new(struct ibv_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	struct shca_context *c = shca_context_of(ctx);
	struct shca_member *m = c->m;

	if (shca_unusable(ctx) || shca_wants_huge("MLX_CQ_ALLOC_TYPE"))
		return NULL;
	if (!attr->cqe || attr->cqe > SHCA_MAX_CQE ||
	    attr->comp_vector >= (uint32_t)ctx->num_comp_vectors) {
		errno = shca_refuse(EINVAL, "create_cq: %u entries (1 to %d), completion vector %u (of %d)", attr->cqe,
				    SHCA_MAX_CQE, attr->comp_vector, ctx->num_comp_vectors);
		return NULL;
	}
	uint32_t log2 = ring_log2(attr->cqe);
	struct shca_user_cq *cq = calloc(1, sizeof *cq);
	if (!cq) {
		errno = shca_no_memory("create_cq");
		return NULL;
	}
	cq->stamped = attr->wc_flags & STAMP_FIELDS;
	cq->off = shca_mem_alloc(m, sizeof *cq->sh);
	if (!cq->off)
		goto free_cq;
	cq->sh = shca_at(m->base, cq->off);
	shca_off ring = shca_mem_alloc(m, ring_bytes(cq->stamped, log2));
	if (!ring)
		goto free_sh;
	uint32_t number = shca_number_alloc(m);
	if (!number)
		goto free_ring;
	if (shca_local_set(m, number, SHCA_KIND_CQ, cq)) {
		shca_number_free(m, number);
		errno = shca_no_memory("create_cq");
		goto free_ring;
	}
	cq->m = m;
	cq->ring = shca_at(m->base, ring);
	cq->log2 = log2;
	cq->sh->ring = ring;
	cq->sh->log2 = log2;
	cq->sh->cqn = number;
	cq->sh->proc = m->slot;
	cq->sh->end = ring + ring_bytes(cq->stamped, log2);
	cq->sh->notify = cq->stamped ? SHCA_CQ_STAMPED : 0;
	cq->sh->seal = shca_cq_seal(m, cq->sh);
	cq->ex.context = ctx;
	cq->ex.channel = attr->channel;
	cq->ex.cq_context = attr->cq_context;
	cq->ex.handle = number;
	cq->ex.cqe = 1 << log2;
	pthread_mutex_init(&cq->resizing, NULL);
	pthread_mutex_init(&cq->ex.mutex, NULL);
	pthread_cond_init(&cq->ex.cond, NULL);
	if (attr->channel)
		memcpy(cq->sh->channel, lchannel_of(attr->channel)->addr, sizeof cq->sh->channel);
	pthread_mutex_lock(&c->mutex);
	if (attr->channel)
		attr->channel->refcnt++;
	cq->next = c->cqs;
	cq->prev = &c->cqs;
	if (cq->next)
		cq->next->prev = &cq->next;
	c->cqs = cq;
	pthread_mutex_unlock(&c->mutex);
	pthread_mutex_lock(&c->node->mutex);
	shca_list_add(&c->node->cqs, &m->proc->cq_list, &cq->listed, cq->off, &cq->sh->next);
	pthread_mutex_unlock(&c->node->mutex);
	shca_number_set(m, number, SHCA_KIND_CQ, cq->off);
	return cq;

free_ring:
	shca_mem_free(m, ring, ring_bytes(cq->stamped, log2));
free_sh:
	shca_mem_free(m, cq->off, sizeof *cq->sh);
free_cq:
	free(cq);
	return NULL;
}

struct ibv_cq *shca_create_cq(struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			      int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe < 0 ? 0 : (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct shca_user_cq *cq = cq_new(ctx, &attr);
	return cq ? &cq->cq : NULL;
}

struct ibv_cq_ex *shca_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct shca_user_pd *pd = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? shca_user_pd_of(attr->parent_domain) : NULL;

	if ((attr->comp_mask & ~known) ||
	    (flags & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))) {
		errno = shca_refuse(EINVAL, "create_cq_ex: comp_mask %#x flags %#x", attr->comp_mask, attr->flags);
		return NULL;
	}
	const uint64_t fields = CQ_FIELDS | (shca_is_ethernet() ? IBV_WC_EX_WITH_CVLAN : 0);
	if (attr->wc_flags & ~fields) {
		errno = shca_refuse(EOPNOTSUPP, "create_cq_ex: completion fields %#lx: only %#lx are kept%s",
				    (unsigned long)attr->wc_flags, (unsigned long)fields,
				    attr->wc_flags & IBV_WC_EX_WITH_CVLAN ? "; VLANs with SHCA_LINK=ethernet" : "");
		return NULL;
	}
	if (pd && !pd->parent) {
		errno = shca_refuse(EINVAL, "create_cq_ex: the domain given is no parent domain");
		return NULL;
	}
	struct shca_user_cq *cq = cq_new(ctx, attr);
	if (!cq)
		return NULL;
	cq->lock.none = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) || (pd && pd->td);
	if (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		cq->sh->flags |= SHCA_CQ_IGNORE_OVERRUN;
	if (pd) {
		cq->pd = pd;
		atomic_fetch_add(&pd->refs, 1);
	}
	cq->wc_flags = attr->wc_flags;
	cq->ex_used = true;
	shca_context_of(ctx)->queue_ops->fill_cq(cq);
	return &cq->ex;
}

/* Copies the completions that the consumer has not taken into the new ring, and their times. Must: cq->lock is held. */
static void ring_copy(const struct shca_user_cq *cq, const struct shca_cq_move *to)
{
	for (uint64_t pos = cq->ci; pos < to->first; pos++) {
		struct shca_cqe *from = &cq->ring[pos & ((1ull << cq->log2) - 1)], *e = &to->ring[pos & ((1ull << to->log2) - 1)];
		uint64_t w0 = atomic_load_explicit(&from->w0, memory_order_acquire) & ((1ull << 49) - 1);
		uint64_t time =
			cq->stamped ? atomic_load(&shca_cq_stamps(cq->ring, cq->log2)[pos & ((1ull << cq->log2) - 1)]) : 0;

		atomic_store_explicit(&e->w1, atomic_load_explicit(&from->w1, memory_order_relaxed), memory_order_relaxed);
		if (cq->stamped && SHCA_STAMP_LAP(time) == shca_cqe_lap(pos, cq->log2))
			atomic_store(&shca_cq_stamps(to->ring, to->log2)[pos & ((1ull << to->log2) - 1)],
				     shca_stamp(SHCA_STAMP_TIME(time), shca_cqe_lap(pos, to->log2)));
		atomic_store_explicit(&e->w0, w0 | (uint64_t)shca_cqe_lap(pos, to->log2) << 49, memory_order_release);
	}
}

/* Steps 1 to 3 of a move (engine/cq_move.c). Returns 0; EINVAL: the CQ is in error, nothing was changed; EIO: its slots cannot be
 * right (I7), it is in error. */
static int move_begin(struct shca_thread *thr, struct shca_user_cq *cq, uint64_t ring, uint64_t spare, struct shca_cq_move *to)
{
	struct shca_cq *sh = cq->sh;
	uint64_t floor = atomic_load(&sh->floor);
	int rc = 0;

	shca_lock(&cq->lock);
	atomic_store_explicit(&sh->move_ring, ring, memory_order_relaxed);
	atomic_store_explicit(&sh->move_spare, spare, memory_order_relaxed);
	atomic_store_explicit(&sh->move_low, cq->ci, memory_order_relaxed);
	atomic_store_explicit(&sh->move_first, 0, memory_order_relaxed);
	SHCA_FAILPOINT(thr, "cq-move-written", NULL, 0);
	do
		if (floor & SHCA_CQ_NO_ROOM)
			rc = EINVAL;	/* said: the caller */
	while (!rc && !atomic_compare_exchange_weak(&sh->floor, &floor, floor | SHCA_CQ_MOVING));
	SHCA_FAILPOINT(thr, "cq-move-begun", NULL, 0);
	if (!rc && !shca_cq_moved_to(thr, sh, to)) {
		atomic_fetch_or(&sh->error, SHCA_ERROR);
		atomic_fetch_or(&sh->floor, SHCA_CQ_NO_ROOM);
		rc = EIO;	/* said: the caller */
	}
	if (!rc) {
		ring_copy(cq, to);
		cq->ring = to->ring;
		cq->log2 = to->log2;
	}
	shca_unlock(&cq->lock);
	SHCA_FAILPOINT(thr, "cq-move-copied", NULL, 0);
	return rc;
}

/* Step 4. */
static void move_end(struct shca_thread *thr, struct shca_user_cq *cq, const struct shca_cq_move *to)
{
	struct shca_cq *sh = cq->sh;
	shca_off ring = shca_off_of(thr->m, to->ring), end = ring + ring_bytes(cq->stamped, to->log2);
	bool grows = to->log2 > sh->log2;

	shca_quiesce(thr, thr->m->slot);
	/* The seal is right again when the last word is written; until then shca_cq_sound_moving answers. A thread that looks at
	 * a slot meanwhile looks at a slot of the longer ring with an index of the shorter one, or at its own. */
	if (grows)
		__atomic_store_n(&sh->ring, ring, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&sh->log2, to->log2, __ATOMIC_RELEASE);
	__atomic_store_n(&sh->end, end, __ATOMIC_RELEASE);
	SHCA_FAILPOINT(thr, "cq-move-half", NULL, 0);
	shca_quiesce(thr, thr->m->slot);
	if (grows)
		__atomic_store_n(&sh->log2, to->log2, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&sh->ring, ring, __ATOMIC_RELEASE);
	__atomic_store_n(&sh->seal, shca_cq_seal(cq->m, sh), __ATOMIC_RELEASE);
	SHCA_FAILPOINT(thr, "cq-move-sealed", NULL, 0);
	shca_quiesce(thr, thr->m->slot);
	/* Below the consumer's index all slots are filled, and the new ring has those from `low` on. */
	uint64_t floor = atomic_load(&sh->floor), ci, n;
	do {
		ci = atomic_load_explicit(&sh->ci, memory_order_acquire);
		n = ci > to->first ? ci : to->low;
		n |= floor & SHCA_CQ_NO_ROOM;
	} while (!atomic_compare_exchange_weak(&sh->floor, &floor, n));
	SHCA_FAILPOINT(thr, "cq-moved", NULL, 0);
	shca_quiesce(thr, thr->m->slot);
}

/* Gives the CQ a ring of 2^log2 entries. Returns 0 or an errno value. Must: cq->resizing is held. */
static int ring_replace(struct shca_thread *thr, struct shca_user_cq *cq, uint32_t log2)
{
	struct shca_member *m = cq->m;
	uint32_t was = cq->log2;
	uint64_t bytes = ring_bytes(cq->stamped, log2), bytes_was = ring_bytes(cq->stamped, was);
	shca_off old = cq->sh->ring, ring = shca_mem_alloc(m, bytes);
	/* of a smaller ring it turns out when the old one is at its end whether the unread completions fit */
	shca_off spare = ring && log2 < was ? shca_mem_alloc(m, bytes_was) : 0;
	struct shca_cq_move to;

	if (!ring || (log2 < was && !spare)) {
		shca_mem_free(m, ring, bytes);
		return errno = ENOMEM;	/* said: shca_mem_alloc */
	}
	int rc = move_begin(thr, cq, ring | log2, spare ? spare | was : 0, &to);
	if (rc == EIO)
		return shca_refuse(EIO, "resize_cq to %u entries: the completion queue's memory was overwritten, by this "
					"process or another one; destroy the queue", 1u << log2);
	if (rc) {
		shca_mem_free(m, ring, bytes);
		shca_mem_free(m, spare, bytes_was);
		return shca_refuse(
			EINVAL,
			"resize_cq to %u entries: the completion queue was overrun and is in error; destroy it, and make a "
			"larger one",
			1u << log2);
	}
	move_end(thr, cq, &to);
	shca_mem_free(m, old, bytes_was);
	if (to.spare)
		shca_mem_free(m, ring, bytes);
	else
		shca_mem_free(m, spare, bytes_was);
	return to.spare ? EINVAL : 0;	/* said: the caller */
}

static int too_small(int cqe, uint64_t unread)
{
	return shca_refuse(EINVAL, "resize_cq: to %d entries, %lu are waiting to be polled", cqe, (unsigned long)unread);
}

/* Must: cq->resizing is held. */
static int cq_resize(struct shca_thread *thr, struct shca_user_cq *cq, int cqe)
{
	uint32_t log2 = ring_log2((uint32_t)cqe);

	shca_enter_in(thr, shca_epoch_of(cq->m->slot));
	uint64_t unread = shca_cq_count(thr, cq->sh) - atomic_load(&cq->sh->ci);
	shca_leave(thr);
	if ((uint64_t)cqe < unread)
		return too_small(cqe, unread);
	if (log2 == cq->log2)
		return 0;
	if (cq->sh->flags & SHCA_CQ_IGNORE_OVERRUN)
		return shca_refuse(
			EOPNOTSUPP,
			"resize_cq to %d entries: the completion queue was made with IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, so "
			"unread entries may be overwritten meanwhile",
			cqe);
	int rc = ring_replace(thr, cq, log2);
	if (rc == EINVAL && !shca_cq_in_error(cq->sh))
		return too_small(cqe, 1ull << log2);
	if (!rc)
		cq->ex.cqe = 1 << log2;
	return rc;
}

/* ibv_resize_cq, both ways. Producers, also those of other processes, go on meanwhile and wait for nothing (engine/cq_move.c);
 * the caller waits until every thread has left the engine that was in it. */
int shca_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	if (shca_unusable(ibcq->context))
		return errno;
	if (cqe < 1 || cqe > SHCA_MAX_CQE)
		return shca_refuse(EINVAL, "resize_cq: %d entries (1 to %d)", cqe, SHCA_MAX_CQE);
	struct shca_user_cq *cq = shca_user_cq_of(ibcq);
	struct shca_thread *thr = shca_thread_get(cq->m);
	if (!thr)
		return errno;
	pthread_mutex_lock(&cq->resizing);
	int rc = cq_resize(thr, cq, cqe);
	pthread_mutex_unlock(&cq->resizing);
	return rc;
}

/* Moderation bounds how long, and for how many completions, an event may be held back to save interrupts. The device holds none
 * back: every bound holds. */
int shca_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	if (shca_unusable(ibcq->context))
		return errno;
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return shca_refuse(EINVAL, "modify_cq: mask %#x: moderation is all there is", attr->attr_mask);
	if (shca_cq_in_error(shca_user_cq_of(ibcq)->sh))
		return shca_refuse(EINVAL, "modify_cq: the completion queue was overrun");
	return 0;
}

void shca_cq_clean(struct shca_user_cq *cq, uint32_t qpn, struct shca_user_srq *srq)
{
	struct shca_thread *thr = shca_thread_get(cq->m);

	if (!thr)
		return;
	/* inside the engine: another thread may replace the ring */
	shca_enter_in(thr, shca_epoch_of(cq->m->slot));
	shca_lock(&cq->lock);
	uint64_t mask = (1ull << cq->log2) - 1, end = shca_cq_count(thr, cq->sh);
	for (uint64_t pos = end - cq->ci > mask ? end - mask - 1 : cq->ci; pos < end; pos++) {
		struct shca_cqe *e = &cq->ring[pos & mask];
		uint64_t w0 = atomic_load(&e->w0);
		if (SHCA_CQE_QPN(w0) != qpn || SHCA_CQE_OP(w0) == SHCA_OP_PURGED)
			continue;
		if (srq && SHCA_CQE_OP(w0) >= SHCA_OP_RECV)
			shca_receive_polled(&srq->rq, SHCA_CQE_INDEX(w0));
		atomic_store(&e->w0, w0 | (uint64_t)SHCA_OP_PURGED << 44);
	}
	/* The completions at the front make room at once instead of at the next poll; not in a CQ that was overrun. */
	while (cq->ci < end && end - cq->ci <= mask + 1 &&
	       SHCA_CQE_OP(atomic_load(&cq->ring[cq->ci & mask].w0)) == SHCA_OP_PURGED)
		cq->ci++;
	atomic_store_explicit(&cq->sh->ci, cq->ci, memory_order_release);
	shca_unlock(&cq->lock);
	shca_leave(thr);
}

void shca_cq_unmap(struct shca_user_cq *cq)
{
	struct shca_context *c = shca_context_of(cq->cq.context);
	struct shca_member *m = cq->m;

	if (shca_inherited(cq->cq.context)) {
		if (cq->cq.channel)
			cq->cq.channel->refcnt--;
		return;
	}
	pthread_mutex_lock(&c->mutex);
	*cq->prev = cq->next;
	if (cq->next)
		cq->next->prev = cq->prev;
	if (cq->cq.channel)
		cq->cq.channel->refcnt--;
	pthread_mutex_unlock(&c->mutex);

	struct shca_thread *thr = shca_thread_get(m);	/* has one: shca_no_thread */
	SHCA_FAILPOINT(thr, "cq-closing", NULL, 0);
	shca_number_set(m, cq->sh->cqn, SHCA_KIND_NONE, 0);
	pthread_mutex_lock(&c->node->mutex);
	shca_list_remove(&c->node->cqs, &m->proc->cq_list, &cq->listed);
	shca_local_set(m, cq->sh->cqn, SHCA_KIND_NONE, NULL);
	pthread_mutex_unlock(&c->node->mutex);
	shca_quiesce(thr, thr->m->slot);
	SHCA_FAILPOINT(thr, "cq-quiesced", NULL, 0);
	/* every thread that rings this CQ has done so */
	if (cq->cq.channel && atomic_load(&cq->sh->notify) & SHCA_CQ_EVENT)
		drop_rings(thr, c, cq->cq.channel);
	if (atomic_load(&cq->sh->error) & SHCA_ERROR_EVENT)
		shca_events_gone(c);
	shca_waits_free(cq);
	shca_number_free(m, cq->sh->cqn);
	shca_mem_free(m, cq->sh->ring, ring_bytes(cq->stamped, cq->log2));
	shca_mem_free(m, cq->off, sizeof *cq->sh);
}

static uint64_t waits_for(struct shca_user_cq *cq)
{
	struct shca_context *c = shca_context_of(cq->cq.context);

	if (shca_inherited(cq->cq.context))
		return 0;
	pthread_mutex_lock(&c->cross);
	uint64_t n = shca_waits_posted(cq);
	pthread_mutex_unlock(&c->cross);
	return n;
}

int shca_destroy_cq(struct ibv_cq *ibcq)
{
	struct shca_user_cq *cq = shca_user_cq_of(ibcq);
	if (!shca_inherited(ibcq->context) && !shca_thread_get(cq->m))
		return shca_no_thread("destroy_cq");
	if (atomic_load(&cq->refs))
		return shca_refuse(EBUSY, "destroy_cq: %u queues complete to the CQ", atomic_load(&cq->refs));
	uint64_t waits = waits_for(cq);
	if (waits)
		return shca_refuse(EBUSY, "destroy_cq: %lu posted requests wait for completions of the CQ", (unsigned long)waits);
	shca_cq_unmap(cq);
	shca_wait_acked(&ibcq->mutex, &ibcq->cond, &cq->events_unacked);
	shca_wait_acked(&ibcq->mutex, &ibcq->cond, &cq->async_unacked);
	if (cq->pd)
		atomic_fetch_sub(&cq->pd->refs, 1);
	pthread_mutex_destroy(&cq->resizing);
	pthread_mutex_destroy(&ibcq->mutex);
	pthread_cond_destroy(&ibcq->cond);
	free(cq);
	return 0;
}
