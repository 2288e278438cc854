/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned communication (part.h): GO, and the life of a request. */
#include "p2p/part.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define BOX_MOST (1u << 20)		/* bytes */

/* A GO that came before the first start of its sender. */
struct early {
	struct early *next;
	int proc;
	struct part_go go;
	size_t key_len;
	char key[HDL_RKEY_MAX];
};

static struct early *earlies;

static int part_no_memory(void)
{
	hdl_reason_set("out of memory for a partitioned request");
	return MPI_ERR_NO_MEM;
}

/* ---- boxes ------------------------------------------------------------------------------------------------ */

/* Receiver: allocates the box, at the first start. Without a box the bytes travel in messages. */
static void box_make(struct hdl_part *p)
{
	if (!p->each || p->total > BOX_MOST || !hdl_proc_is_ours(p->proc) || !hdl_is_local(p->proc))
		return;
	if (hdl_part_box_count(1))
		return;
	p->box = hdl_tp_share(hdl_mpi_tp, hdl_box_bytes((uint32_t)p->n, p->total), &p->box_at);
	if (!p->box)
		hdl_part_box_count(-1);
	else
		__atomic_store_n(&p->box->nonce, (uint64_t)(uintptr_t)p ^ monotonic_ns() << 20 ^ (uint64_t)hdl_job.rank << 1 ^ 1,
				 __ATOMIC_RELEASE);
}

/* Sender: returns the box of a GO; NULL: this process does not map the box. */
static struct hdl_part_box *box_of(const struct hdl_part *p, const struct part_go *go)
{
	struct hdl_part_box *b;

	if (!go->box_at || go->total != p->total || !p->each || !go->n || go->total % go->n)
		return NULL;
	b = hdl_tp_shared_at(hdl_mpi_tp, go->box_at, hdl_box_bytes(go->n, go->total));
	return b && __atomic_load_n(&b->nonce, __ATOMIC_ACQUIRE) == go->box_nonce ? b : NULL;
}

/* ---- GO --------------------------------------------------------------------------------------------------- */

static void part_take_go(struct hdl_part *p, const struct part_go *go, const void *key, size_t key_len)
{
	struct hdl_part_box *box = !p->box && go->epoch == 1 ? box_of(p, go) : NULL;

	p->go = go->epoch;
	p->id_there = go->id;
	if (box) {
		p->box_n = go->n;
		p->box_nonce = go->box_nonce;
		__atomic_store_n(&box->mapped, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&p->box, box, __ATOMIC_RELEASE);	/* pairs with the acquire in box_is_open */
	}
	/* The receiver refuses the bytes of a sender that has another total, and may free its buffer then: no put may be in
	 * flight. Without the key, the bytes travel in messages. */
	if (!p->box && key_len && go->total == p->total && !p->rkey && hdl_rkey_unpack(p->ep, key, key_len, &p->rkey))
		p->rkey = NULL;
	hdl_part_push(p);
}

static void on_go(void *context, const struct hdl_am *am)
{
	struct part_go go;
	struct hdl_part *p;
	struct early *e;
	int proc = hdl_part_proc_of(am->ep);
	size_t n = am->data && am->len <= HDL_RKEY_MAX ? am->len : 0;

	(void)context;
	if (am->rts)
		hdl_ep_refuse(am->ep, am->rts);
	if (am->head_len != sizeof(go))
		return;
	memcpy(&go, am->head, sizeof(go));
	p = hdl_part_find(true, proc, go.context, go.tag, go.number);
	if (p && p->epoch) {
		part_take_go(p, &go, am->data, n);
		return;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		hdl_out_of_memory("a partitioned receive that has no send yet", sizeof(*e));
	e->next = earlies;
	e->proc = proc;
	e->go = go;
	e->key_len = n;
	memcpy(e->key, am->data, n);
	earlies = e;
}

static void go_sent(struct hdl_send *s, int err)
{
	struct part_out *o = container_of(container_of(s, struct hdl_am_send, send), struct part_out, am);
	struct hdl_part *p = o->part;

	p->inflight--;
	hdl_buf_put(o);
	if (err && err != -ECANCELED)
		hdl_part_fail_errno(p, err);
	else
		hdl_part_check(p);
}

/* Sends GO: the sender may send the bytes of this epoch. */
static int send_go(struct hdl_part *p)
{
	struct part_go go = { .total = p->total, .tag = p->tag, .number = p->number, .epoch = p->epoch, .id = p->id,
			      .context = p->context, .n = (uint32_t)p->n };
	struct part_out *o;
	size_t n = 0;
	int r;

	if (p->epoch == 1 && !p->box)
		box_make(p);
	if (p->box && !hdl_box_go(p->box, p->epoch))
		return MPI_SUCCESS;
	o = hdl_buf_get(sizeof(*o));
	if (!o)
		return part_no_memory();
	if (p->box) {
		go.box_at = p->box_at;
		go.box_nonce = p->box->nonce;
	}
	o->part = p;
	o->am.send.done = go_sent;
	if (p->epoch == 1 && p->run && p->total > hdl_vars.eager_max && !p->mr &&
	    !hdl_mr_register(hdl_mpi_tp, p->run, p->total, HDL_MR_WRITE, &p->mr))
		n = hdl_mr_pack(p->mr, o->key);
	r = hdl_am_send(p->ep, HDL_AM_PART_GO, HDL_AM_ORDERED, &go, sizeof(go), n ? o->key : NULL, n, &o->am);
	if (!r) {
		p->inflight++;
		return MPI_SUCCESS;
	}
	hdl_buf_put(o);
	if (r > 0)
		return MPI_SUCCESS;
	hdl_reason_set("partitioned receive from rank %d with tag %d: %s", p->peer, p->tag, strerror(-r));
	return hdl_class_of(-r);
}

/* Applies a GO that arrived before this sender's first start. */
static void part_take_early(struct hdl_part *p)
{
	for (struct early **e = &earlies, *found; (found = *e); e = &found->next) {
		if (found->proc != p->proc || found->go.context != p->context || found->go.tag != p->tag ||
		    found->go.number != p->number)
			continue;
		*e = found->next;
		part_take_go(p, &found->go, found->key, found->key_len);
		free(found);
		return;
	}
}

/* ---- starting, making, freeing ------------------------------------------------------------------------------- */

static int part_begin(struct hdl_req *req, void *arg)
{
	struct hdl_part *p = arg;
	int rc, failed;

	if (p->proc == MPI_PROC_NULL) {
		hdl_status_empty(&req->status, MPI_PROC_NULL);
		hdl_req_complete(req, MPI_SUCCESS);
		return MPI_SUCCESS;
	}
	if (!p->ep && p->proc != hdl_job.rank)
		/* not in hdl_part_init, which is local: the peer may not be there yet */
		p->ep = hdl_comm_ep(req->comm, p->peer);
	failed = p->ep ? hdl_ep_note(p->ep)->failed : 0;
	if (failed) {
		hdl_reason_set("partitioned %s rank %d with tag %d: that rank has failed or cannot be reached",
			       p->sends ? "send to" : "receive from", p->peer, p->tag);
		return MPI_ERR_PROC_ABORTED;
	}
	p->epoch++;
	p->error = MPI_SUCCESS;
	p->active = true;
	req->ep = p->ep;
	if (p->sends) {
		p->nsent = 0;
		p->box_closed = false;
		memset(p->marks, UNMARKED, (size_t)p->n);
		__atomic_store_n(&p->top, -1, __ATOMIC_RELEASE);
		if (p->ep && p->epoch == 1)
			part_take_early(p);
		return MPI_SUCCESS;
	}
	p->received = 0;
	memset(p->arrived, 0, (size_t)p->n);
	for (int i = 0; i < p->n; i++)
		p->missing[i] = p->each;
	rc = p->ep ? send_go(p) : MPI_SUCCESS;
	if (rc) {
		p->active = false;
		p->epoch--;
		return rc;
	}
	if (p->box)
		hdl_part_box_watch(p);
	if (!p->ep) {
		struct hdl_part *from = hdl_part_find(true, p->proc, p->context, p->tag, p->number);

		if (from)
			hdl_part_push(from);
	}
	return MPI_SUCCESS;
}

static void part_free_memory(struct hdl_part *p)
{
	hdl_part_free_id(p);
	free(p->marks);
	free(p->stack);
	free(p->arrived);
	free(p->missing);
	free(p);
}

static void part_free(void *arg)
{
	struct hdl_part *p = arg;

	while (__atomic_load_n(&p->callers, __ATOMIC_ACQUIRE))
		sched_yield();
	hdl_part_drain();
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	if (p->rkey)
		hdl_rkey_release(p->rkey);
	if (p->mr)
		hdl_mr_deregister(p->mr);
	if (p->box && !p->sends) {
		hdl_tp_unshare(hdl_mpi_tp, p->box);
		hdl_part_box_count(-1);
	}
	hdl_type_release(p->type);
	part_free_memory(p);
}

/* Returns the counter of the requests with one tag, peer and direction; NULL without memory. */
static struct hdl_part_count *part_counter(const struct hdl_part *p, struct hdl_comm *comm)
{
	struct hdl_part_count *c = comm->parts;

	while (c && (c->proc != p->proc || c->tag != p->tag || c->sends != p->sends))
		c = c->next;
	if (c || !(c = malloc(sizeof(*c))))
		return c;
	*c = (struct hdl_part_count){ comm->parts, p->proc, p->tag, p->sends, 0 };
	comm->parts = c;
	return c;
}

/* Fills in buffer and sizes. Returns an error class with hdl_reason_set. */
static int part_set_buffer(struct hdl_part *p, void *buf, int n, MPI_Count count, struct hdl_type *t)
{
	void *first = buf;

	p->n = n;
	p->buf = buf;
	p->type = t;
	if (__builtin_mul_overflow((MPI_Count)n, count, &p->count) ||
	    __builtin_mul_overflow((size_t)count, (size_t)t->size, &p->each) ||
	    __builtin_mul_overflow(p->each, (size_t)n, &p->total)) {
		hdl_reason_set("%d partitions of %lld elements of %lld bytes do not fit the address space", n, (long long)count,
			       (long long)t->size);
		return MPI_ERR_COUNT;
	}
	if (hdl_type_is_run(t, p->count) || hdl_type_find_run(t, p->count, &first))
		p->run = first;
	return MPI_SUCCESS;
}

static bool part_alloc(struct hdl_part *p)
{
	size_t n = (size_t)p->n;

	if (p->sends)
		return (p->marks = calloc(n, 1)) && (p->stack = calloc(n, sizeof(*p->stack)));
	return (p->arrived = calloc(n, 1)) && (p->missing = calloc(n, sizeof(*p->missing)));
}

int hdl_part_init(bool sends, void *buf, int n, MPI_Count count, const struct hdl_type *t, int peer, int tag,
		  struct hdl_comm *comm, struct hdl_req **req)
{
	struct hdl_part *p = calloc(1, sizeof(*p));
	struct hdl_part_count *count_of = NULL;
	int rc;

	*req = NULL;
	if (!p)
		return part_no_memory();
	p->sends = sends;
	p->peer = peer;
	p->tag = tag;
	p->context = comm->context;
	p->proc = peer == MPI_PROC_NULL ? peer : hdl_comm_proc(comm, peer);
	p->top = -1;
	p->id = UINT32_MAX;
	rc = part_set_buffer(p, buf, n, count, (struct hdl_type *)t);
	if (!rc && (!part_alloc(p) || !(count_of = part_counter(p, comm)) || (!sends && !hdl_part_take_id(p))))
		rc = part_no_memory();
	if (!rc)
		rc = hdl_collective_init(comm, part_begin, part_free, p, req);
	if (rc) {
		part_free_memory(p);
		return rc;
	}
	p->number = count_of->made++;
	hdl_type_retain(p->type);
	p->req = *req;
	p->next = hdl_parts;
	p->link = &hdl_parts;
	if (hdl_parts)
		hdl_parts->link = &p->next;
	hdl_parts = p;
	return MPI_SUCCESS;
}

/* ---- inquiry ---------------------------------------------------------------------------------------------- */

struct hdl_part *hdl_req_part(const struct hdl_req *req)
{
	return hdl_req_is_persistent_collective(req) && ((const struct hdl_op *)req)->persistent.begin == part_begin ?
	       hdl_req_collective_arg(req) : NULL;
}

bool hdl_part_sends(const struct hdl_part *p)
{
	return p->sends;
}

int hdl_part_count(const struct hdl_part *p)
{
	return p->n;
}

bool hdl_part_is_null(const struct hdl_part *p)
{
	return p->proc == MPI_PROC_NULL;
}

bool hdl_parrived(struct hdl_part *p, int i)
{
	if (__atomic_load_n(&p->arrived[i], __ATOMIC_ACQUIRE) == HERE)
		return true;
	if (!p->box || !hdl_box_has(p->box, (uint32_t)p->n, p->each, (uint32_t)i, p->epoch))
		return false;
	hdl_part_box_take(p, i);
	return true;
}

/* ---- the library's beginning and end --------------------------------------------------------------------------- */

void hdl_partitioned_peer_failed(int proc)
{
	for (struct hdl_part *p = hdl_parts, *next; p; p = next) {
		next = p->next;
		if (p->proc == proc && p->active)
			hdl_part_fail(p, MPI_ERR_PROC_ABORTED, "that rank has failed or cannot be reached");
	}
}

int hdl_partitioned_open(struct hdl_tp *tp)
{
	int err = hdl_am_register(tp, HDL_AM_PART_GO, on_go, NULL);

	return err ? err : hdl_am_register(tp, HDL_AM_PART_DATA, hdl_part_on_data, NULL);
}

void hdl_partitioned_close(void)
{
	for (struct early *e = earlies, *next; e; e = next) {
		next = e->next;
		free(e);
	}
	earlies = NULL;
	hdl_part_forget_ids();
	hdl_parts = NULL;		/* requests that the program did not free */
}
