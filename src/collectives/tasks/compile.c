/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiles a task graph to a list for ibv_exp_post_task (or to mailbox requests: mailbox/cell.c). Each node's position follows
 * from its predecessors:
 *
 *     CPU node before all device nodes    prologue: run at post
 *     PUT to another rank                 on the managed queue of its link: the master WAITs for the arrivals that precede the
 *                                         PUT, if any, then ENABLEs the PUT
 *     ACCUM, PUT on a pair link           on that queue, at once
 *     ACCUM, PUT to the rank itself       on the master, which is connected to itself, behind its WAITs
 *     CPU node after device nodes         epilogue: run when the operation is complete
 *
 * A PUT of several sources is one request whose payload CALC computes when the request runs, or one request per CALC element.
 *
 * Order in the list: managed queues first (an ENABLE must not find fewer requests than its count); then the master (the
 * arrivals of its WAITs may already be there); then the pair links: when their signals leave, this rank's part of the tree is
 * posted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"

enum position { POS_NONE, POS_PROLOGUE, POS_DEVICE, POS_ARRIVE, POS_EPILOGUE };

struct task_compiler {
	struct hdl_queues *h;
	struct hdl_coll_prog *p;
	const struct hdl_graph *g;
	const struct hdl_enc *enc;
	uint8_t *position;
	bool *after_arrival;		/* an arrival precedes the node */
	bool *waited, *visited;
	/* entries that p->steps has room for */
	uint32_t cap;
	int err;
};

static bool is_cpu(const struct hdl_node *n)
{
	return n->kind == HDL_N_COPY || n->kind == HDL_N_REDUCE || n->kind == HDL_N_ENCODE || n->kind == HDL_N_DECODE ||
	       n->kind == HDL_N_STAMP || n->kind == HDL_N_CHECK;
}

static bool classify(struct task_compiler *c)
{
	for (uint32_t i = 0; i < c->g->nnodes; i++) {
		const struct hdl_node *n = &c->g->nodes[i];
		bool after_device = false, after_epilogue = false;

		for (uint32_t k = 0; k < n->npreds; k++) {
			uint32_t on = c->g->preds[n->pred0 + k];

			after_device |= c->position[on] == POS_DEVICE || c->position[on] == POS_ARRIVE;
			after_epilogue |= c->position[on] == POS_EPILOGUE;
			c->after_arrival[i] |= c->position[on] == POS_ARRIVE || c->after_arrival[on];
		}
		if (is_cpu(n)) {
			/* mailbox: no node prepares data for the device, so all CPU nodes run after the cells were written */
			c->position[i] = after_device || after_epilogue || c->h->mailbox ? POS_EPILOGUE : POS_PROLOGUE;
			continue;
		}
		/* The device cannot wait for a CPU node. */
		if (after_epilogue)
			return false;
		/* mailbox: only a PUT without data (a barrier leader's answer) may follow an arrival */
		if ((n->link == HDL_LINK_MAILBOX) != c->h->mailbox ||
		    (n->link == HDL_LINK_MAILBOX && c->after_arrival[i] && (n->kind != HDL_N_PUT || n->len)))
			return false;
		if (n->kind == HDL_N_ARRIVE)
			c->position[i] = POS_ARRIVE;
		else if (n->kind == HDL_N_ACCUM || n->kind == HDL_N_PUT)
			c->position[i] = POS_DEVICE;
		else
			return false;
		/* An atomic's operand is read when the request is posted. */
		if (n->kind == HDL_N_ACCUM && c->after_arrival[i])
			return false;
	}
	return true;
}

/* The link on which a PUT or ACCUM leaves, or an ARRIVE comes in. NULL if there is no such link. */
static struct hdl_coll_link *link_of(const struct hdl_queues *h, const struct hdl_node *n)
{
	bool arrives = n->kind == HDL_N_ARRIVE;
	/* arrivals on a DOWN link come from the rank behind, arrivals on an UP link from the rank ahead */
	bool is_ahead = (n->link == HDL_LINK_DOWN) != arrives;
	int distance = (is_ahead ? n->peer - h->rank : h->rank - n->peer), link;

	if (n->link == HDL_LINK_SELF || n->link == HDL_LINK_PAIR)
		return n->link == HDL_LINK_SELF ? h->master : h->pair[n->peer];
	link = hdl_knomial_link(h->radix, h->size, (distance + h->size) % h->size);
	return link < 0 ? NULL : is_ahead ? h->out[link] : h->in[link];
}

static void add_wr(struct task_compiler *c, struct hdl_task_step step)
{
	struct hdl_coll_prog *p = c->p;
	uint32_t cap = c->cap ? c->cap * 2 : 64;

	if (p->nwrs == c->cap && !c->err) {
		struct hdl_task_step *more = realloc(p->steps, cap * sizeof(*more));

		if (!more) {
			c->err = ENOMEM;
			return;
		}
		p->steps = more;
		c->cap = cap;
	}
	if (!c->err)
		p->steps[p->nwrs++] = step;
}

static void add_waits(struct task_compiler *c, uint32_t i)
{
	const struct hdl_node *n = &c->g->nodes[i];

	if (c->visited[i])
		return;
	c->visited[i] = true;
	for (uint32_t k = 0; k < n->npreds; k++)
		add_waits(c, c->g->preds[n->pred0 + k]);
	if (c->position[i] == POS_ARRIVE && !c->waited[i]) {
		c->waited[i] = true;
		add_wr(c, (struct hdl_task_step){ .kind = HDL_STEP_WAIT, .link = link_of(c->h, n), .peer = n->peer,
						 .src_space = HDL_SP_NONE, .dst_space = HDL_SP_NONE });
	}
}

static bool task_compile_is_calc(const struct hdl_node *n)
{
	return n->kind == HDL_N_PUT && n->nsrc > 1;
}

/* Number of requests that a PUT takes. */
static uint32_t requests_of(const struct task_compiler *c, const struct hdl_node *n)
{
	return task_compile_is_calc(n) && c->enc->by == HDL_ENC_BY_CALC ? (uint32_t)(n->len / HDL_CALC_ELEMENT) :
	       n->stamped ? 2 : 1;
}

static void task_compile_add_put(struct task_compiler *c, struct hdl_coll_link *l, const struct hdl_node *n)
{
	uint32_t requests = requests_of(c, n);
	size_t len = n->stamped ? n->len : n->len / requests;

	for (uint32_t k = 0; k < requests; k++) {
		bool stamps = n->stamped && k;
		size_t at = stamps ? n->stride - HDL_STAMPS : k * len;

		add_wr(c, (struct hdl_task_step){ .kind = HDL_STEP_PUT, .link = l, .peer = n->peer, .src_space = n->src_space,
						 .src_off = n->src_off + at, .dst_space = n->dst_space,
						 .dst_off = n->dst_off + at,
						 .len = stamps ? HDL_STAMPS : len, .stride = n->stride, .nsrc = n->nsrc,
						 .arrives = k + 1 == requests, .stamps = stamps });
	}
}

/* One request per word of 8 bytes. */
static void add_accum(struct task_compiler *c, struct hdl_coll_link *l, const struct hdl_node *n)
{
	for (size_t at = 0; at < n->len; at += 8)
		add_wr(c, (struct hdl_task_step){ .kind = HDL_STEP_ACCUM, .link = l, .peer = n->peer, .src_space = n->src_space,
						 .src_off = n->src_off + at, .dst_space = HDL_SP_ACC,
						 .dst_off = n->dst_off + at, .len = n->len - at < 8 ? n->len - at : 8 });
}

enum pass { PASS_MANAGED, PASS_MASTER, PASS_PAIR, PASSES };

static void emit(struct task_compiler *c, enum pass pass, uint32_t i)
{
	const struct hdl_node *n = &c->g->nodes[i];
	struct hdl_coll_link *l;

	if (c->position[i] != POS_DEVICE)
		return;
	l = link_of(c->h, n);
	if (!l || (n->kind == HDL_N_PUT && !l->managed && l != c->h->master && c->after_arrival[i]) ||
	    (task_compile_is_calc(n) && !c->enc)) {
		c->err = EOPNOTSUPP;
		return;
	}
	if (l == c->h->master || !l->managed) {
		if (pass != (l == c->h->master ? PASS_MASTER : PASS_PAIR))
			return;
		if (l == c->h->master)
			add_waits(c, i);
		if (n->kind == HDL_N_ACCUM)
			add_accum(c, l, n);
		else
			task_compile_add_put(c, l, n);
		return;
	}
	if (n->kind == HDL_N_ACCUM)
		c->err = EOPNOTSUPP;
	else if (pass == PASS_MANAGED)
		task_compile_add_put(c, l, n);
	if (pass == PASS_MASTER) {
		add_waits(c, i);
		add_wr(c, (struct hdl_task_step){ .kind = HDL_STEP_ENABLE, .link = l, .peer = n->peer, .src_space = HDL_SP_NONE,
						 .dst_space = HDL_SP_NONE, .count = requests_of(c, n) });
	}
}

static struct hdl_coll_link *queue_of(const struct hdl_queues *h, const struct hdl_task_step *s)
{
	return s->kind == HDL_STEP_WAIT || s->kind == HDL_STEP_ENABLE ? h->master : s->link;
}

/* Fills in the fields of a step's request that all operations share. */
static void fill_wr(struct task_compiler *c, uint32_t i, struct ibv_sge *sge)
{
	const struct hdl_task_step *s = &c->p->steps[i];
	static const struct hdl_enc stamp_and = { .by = HDL_ENC_BY_VECTOR, .calc_op = IBV_EXP_CALC_OP_BAND,
						  .calc_type = IBV_EXP_CALC_DATA_TYPE_UINT,
						  .calc_size = IBV_EXP_CALC_DATA_SIZE_64_BIT };
	const struct hdl_slot_region *a = &c->h->region[c->p->class];
	const struct hdl_enc *enc = c->enc;
	struct ibv_exp_send_wr *wr = &c->p->wrs[i];

	wr->sg_list = sge;
	sge->lkey = a->mr->lkey;
	switch ((enum hdl_step_kind)s->kind) {
	case HDL_STEP_ACCUM:
		wr->exp_opcode = enc->atomic == HDL_ENC_ADD ? IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD :
							      IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
		wr->exp_send_flags = IBV_EXP_SEND_EXT_ATOMIC_INLINE;
		wr->ext_op.masked_atomics.log_arg_sz = 3;
		wr->ext_op.masked_atomics.rkey = a->peers[s->peer].rkey;
		if (enc->atomic == HDL_ENC_ADD)
			wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = enc->boundary;
		/* The old values are not needed: all land in one word behind the slots. */
		sge->addr = (uintptr_t)a->mem + a->bytes - HDL_QUEUES_OLD_VALUES;
		sge->length = 8;
		wr->num_sge = 1;
		c->p->requests++;
		c->p->bytes += 8;
		break;
	case HDL_STEP_PUT:
		wr->exp_opcode = s->arrives ? IBV_EXP_WR_RDMA_WRITE_WITH_IMM : IBV_EXP_WR_RDMA_WRITE;
		wr->wr.rdma.rkey = a->peers[s->peer].rkey;
		wr->num_sge = s->len ? s->nsrc : 0;
		for (int k = 0; k < wr->num_sge; k++)
			sge[k] = (struct ibv_sge){ .length = (uint32_t)s->len, .lkey = a->mr->lkey };
		if (s->nsrc > 1)
			hdl_enc_calc(s->stamps ? &stamp_and : enc, wr);
		c->p->requests++;
		c->p->bytes += s->len;
		break;
	case HDL_STEP_WAIT:
		wr->exp_opcode = IBV_EXP_WR_CQE_WAIT;
		wr->exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST;
		wr->task.cqe_wait.cq = s->link->rcq;
		break;
	case HDL_STEP_ENABLE:
		wr->exp_opcode = IBV_EXP_WR_SEND_ENABLE;
		/* FENCE: the enabled request reads an accumulator to which this queue may have added. */
		wr->exp_send_flags = IBV_EXP_SEND_FENCE | IBV_EXP_SEND_WAIT_EN_LAST;
		wr->task.wqe_enable.qp = s->link->qp;
		wr->task.wqe_enable.wqe_count = (int32_t)s->count;
		break;
	}
}

static struct hdl_task_use *use_of(struct hdl_coll_prog *p, struct hdl_coll_link *l)
{
	for (uint32_t u = 0; u < p->nuses; u++)
		if (p->uses[u].link == l)
			return &p->uses[u];
	p->uses[p->nuses].link = l;
	return &p->uses[p->nuses++];
}

/* Groups the requests into tasks: one task per queue, its requests linked in order. */
static void link_up(struct task_compiler *c)
{
	struct hdl_coll_prog *p = c->p;
	uint32_t n = p->nwrs ? p->nwrs : 1, nsges = 1, queues = n < c->h->nlinks ? n : c->h->nlinks;

	for (uint32_t i = 0; i < p->nwrs; i++)
		nsges += p->steps[i].nsrc > 1 ? p->steps[i].nsrc : 1;
	p->wrs = calloc(n, sizeof(*p->wrs));
	p->sges = calloc(nsges, sizeof(*p->sges));
	p->tasks = calloc(queues, sizeof(*p->tasks));
	p->uses = calloc(queues, sizeof(*p->uses));
	if (!p->wrs || !p->sges || !p->tasks || !p->uses)
		c->err = ENOMEM;
	for (uint32_t i = 0; i < p->nwrs && !c->err; i++) {
		const struct hdl_task_step *s = &p->steps[i];
		struct hdl_task_use *use = use_of(p, queue_of(c->h, s));
		uint32_t u = (uint32_t)(use - p->uses);

		use->wrs++;
		use->reads_slot |= s->kind == HDL_STEP_PUT && s->len;
		if (use->wrs == 1) {
			p->tasks[u].task_type = IBV_EXP_TASK_SEND;
			p->tasks[u].item.qp = use->link->qp;
			p->tasks[u].item.send_wr = &p->wrs[i];
			p->tasks[u].next = NULL;
			if (u)
				p->tasks[u - 1].next = &p->tasks[u];
		} else {
			use->last->next = &p->wrs[i];
		}
		use->last = &p->wrs[i];
	}
	p->ntasks = p->nuses;
}

/* Marks all predecessors of a node. */
static void task_compile_mark(const struct hdl_graph *g, uint32_t i, bool *marked)
{
	for (uint32_t k = 0; k < g->nodes[i].npreds; k++) {
		uint32_t on = g->preds[g->nodes[i].pred0 + k];

		if (!marked[on]) {
			marked[on] = true;
			task_compile_mark(g, on, marked);
		}
	}
}

/* Chooses the links, or the master's completion, that the CPU polls to see that all arrivals are there. An arrival implies all
 * arrivals that precede it in the graph. */
static void choose_watch(struct task_compiler *c)
{
	struct hdl_coll_prog *p = c->p;
	uint32_t waited = 0;
	bool self = false, *implied = c->visited;

	memset(implied, 0, c->g->nnodes);
	for (uint32_t i = 0; i < c->g->nnodes; i++) {
		const struct hdl_node *n = &c->g->nodes[i];

		self |= n->kind == HDL_N_ACCUM && n->link == HDL_LINK_SELF;
		if (c->position[i] != POS_ARRIVE)
			continue;
		p->arrivals[p->narrivals++] = link_of(c->h, n);
		if (!p->arrivals[p->narrivals - 1])
			c->err = EOPNOTSUPP;
		if (n->link == HDL_LINK_SELF)
			task_compile_mark(c->g, i, implied);
		waited += c->waited[i];
		p->uses_acc |= n->dst_space == HDL_SP_ACC && n->len;
	}
	p->uses_acc |= self;
	/* The master's completion replaces many arrivals, and follows this rank's own ACCUMs, if there are any. */
	if (waited == p->narrivals && (self || waited > 1)) {
		p->watch_master = true;
		return;
	}
	for (uint32_t i = 0, a = 0; i < c->g->nnodes; i++) {
		if (c->position[i] != POS_ARRIVE)
			continue;
		if (!implied[i])
			p->watches[p->nwatches++] = p->arrivals[a];
		a++;
	}
	if (self)
		c->err = EOPNOTSUPP;	/* no completion would follow the ACCUMs */
}

static void list_cpu_nodes(struct task_compiler *c)
{
	for (uint32_t i = 0; i < c->g->nnodes; i++) {
		if (c->position[i] == POS_PROLOGUE)
			c->p->prologue[c->p->nprologue++] = i;
		else if (c->position[i] == POS_EPILOGUE)
			c->p->epilogue[c->p->nepilogue++] = i;
	}
}

/* Compiles the nodes between prologue and epilogue to a list of tasks. */
static void compile_tasks(struct task_compiler *c)
{
	struct ibv_sge *sge;

	for (int pass = 0; pass < PASSES && !c->err; pass++)
		for (uint32_t i = 0; i < c->g->nnodes && !c->err; i++)
			emit(c, (enum pass)pass, i);
	if (!c->err)
		link_up(c);
	sge = c->p->sges;
	for (uint32_t i = 0; !c->err && i < c->p->nwrs; i++) {
		fill_wr(c, i, sge);
		sge += c->p->steps[i].nsrc > 1 ? c->p->steps[i].nsrc : 1;
	}
	if (!c->err)
		choose_watch(c);
	for (uint32_t u = 0; !c->err && u < c->p->nuses; u++)
		if (c->p->uses[u].wrs > c->p->uses[u].link->sq_depth)
			c->err = EOPNOTSUPP;
}

/* The class with the smallest slots that hold the graph's data. -1: none. */
static int task_compile_class_of(const struct hdl_queues *h, const struct hdl_graph *g)
{
	for (int i = 0; i < HDL_SLOT_CLASSES; i++)
		if (h->class[i].depth && g->acc_bytes <= h->class[i].acc_bytes && g->data_bytes <= h->class[i].data_bytes)
			return i;
	return -1;
}

int hdl_task_region_of(const struct hdl_queues *h, const struct hdl_plan *plan)
{
	int class = task_compile_class_of(h, plan->offload_graph);

	return class < 0 ? 0 : class;	/* hdl_task_compile refuses a graph that no class holds */
}

static void *task_compile_cut(void *array, size_t n, size_t each)
{
	void *p = n ? realloc(array, n * each) : NULL;

	if (!n)
		free(array);
	return p || !n ? p : array;
}

/* The lists were allocated at their largest possible size, and live as long as the communicator. */
static void cut_lists(struct hdl_coll_prog *p)
{
	p->arrivals = task_compile_cut(p->arrivals, p->narrivals, sizeof(*p->arrivals));
	p->watches = task_compile_cut(p->watches, p->nwatches, sizeof(*p->watches));
	p->prologue = task_compile_cut(p->prologue, p->nprologue, sizeof(*p->prologue));
	if (p->mailbox)
		p->nepilogue = 0;	/* the mailbox program has these nodes as steps */
	p->epilogue = task_compile_cut(p->epilogue, p->nepilogue, sizeof(*p->epilogue));
	p->steps = task_compile_cut(p->steps, p->nwrs, sizeof(*p->steps));
}

/* class -1: the graph fits no class. region: of the mailbox's cells; NULL: compile a task list. */
static struct hdl_coll_prog *compile_graph(struct hdl_queues *h, const struct hdl_graph *g, int class, const struct hdl_enc *enc,
				    bool synchronizes, const struct hdl_slot_region *region)
{
	uint32_t n = g->nnodes ? g->nnodes : 1;
	struct task_compiler c = { .h = h, .g = g, .enc = enc };

	c.p = calloc(1, sizeof(*c.p));
	c.position = calloc(n, sizeof(*c.position));
	c.after_arrival = calloc(n, sizeof(*c.after_arrival));
	c.waited = calloc(n, sizeof(*c.waited));
	c.visited = calloc(n, sizeof(*c.visited));
	if (c.p) {
		c.p->arrivals = calloc(n, sizeof(*c.p->arrivals));
		c.p->watches = calloc(n, sizeof(*c.p->watches));
		c.p->prologue = calloc(n, sizeof(*c.p->prologue));
		c.p->epilogue = calloc(n, sizeof(*c.p->epilogue));
	}
	if (!c.p || !c.position || !c.after_arrival || !c.waited || !c.visited || !c.p->arrivals || !c.p->watches ||
	    !c.p->prologue || !c.p->epilogue)
		c.err = ENOMEM;
	else if (class < 0 || !classify(&c))
		c.err = EOPNOTSUPP;
	if (!c.err) {
		c.p->g = g;
		c.p->class = (uint8_t)class;
		c.p->synchronizes = synchronizes;
		list_cpu_nodes(&c);
		if (region)
			c.err = hdl_cell_compile(h, c.p, region);
		else
			compile_tasks(&c);
	}
	free(c.position);
	free(c.after_arrival);
	free(c.waited);
	free(c.visited);
	if (!c.err) {
		cut_lists(c.p);
		return c.p;
	}
	hdl_coll_prog_free(c.p);
	errno = c.err;
	return NULL;
}

struct hdl_coll_prog *hdl_task_compile(struct hdl_queues *h, const struct hdl_graph *g, size_t bytes, const struct hdl_enc *enc,
				     bool synchronizes)
{
	if (h->mailbox)
		return compile_graph(h, g, hdl_cell_class(bytes), enc, synchronizes, &h->region[hdl_cell_size(bytes)]);
	return compile_graph(h, g, task_compile_class_of(h, g), enc, synchronizes, NULL);
}

struct hdl_coll_prog *hdl_slot_barrier_compile(struct hdl_queues *h, const struct hdl_plan *plan, uint8_t class)
{
	const struct hdl_slot_region *region = h->mailbox ? &h->region[hdl_cell_size(plan->key.bytes)] : NULL;

	return compile_graph(h, plan->offload_graph, class, &plan->enc, true, region);
}

struct hdl_coll_prog *hdl_mailbox_compile_at(struct hdl_queues *h, const struct hdl_graph *g,
					     const struct hdl_slot_region *region)
{
	struct hdl_coll_prog *p = compile_graph(h, g, HDL_SLOT_SHORT, NULL, true, region);

	if (p)
		p->lasts = true;
	return p;
}

void hdl_coll_prog_free(struct hdl_coll_prog *p)
{
	if (!p)
		return;
	hdl_cell_free(p->mailbox);
	free(p->tasks);
	free(p->wrs);
	free(p->sges);
	free(p->steps);
	free(p->uses);
	free(p->arrivals);
	free(p->watches);
	free(p->prologue);
	free(p->epilogue);
	free(p);
}
