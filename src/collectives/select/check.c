/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A graph of two rounds, each from every rank to every other: the ranks' records, then their verdicts. The second round makes
 * one rank's error an error of all ranks, and all report the same text: that of the lowest process with a finding.
 *
 * Signatures are compared as (basic type, number of basic elements). Types of one representation count as equal, and so do
 * different mixtures of types with the same number of elements. The receiver of a pair compares the sender's signature with
 * its own.
 */
#include "collectives/select/select.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/host/host.h"

/* A type signature, as far as signatures are compared. type ANY: matches every type; only the bytes are compared. */
struct sig {
	uint64_t type;
	int64_t elements, bytes;
};

struct record {
	struct sig all;			/* must be equal on all ranks */
	struct sig sent;		/* of the data for the rank that gets this record; all zero: none */
	int32_t coll, form;		/* coll REFUSED: form is the error class of a refused argument, and text its text */
	int32_t root;			/* the root's rank in its job; -1: no root, or unknown to this rank */
	int32_t op;			/* a predefined operation's constant; 1: a user-defined one; 0: none */
	uint64_t root_job;		/* the job of `root` */
	char text[112];
};

#define REFUSED (-1)

struct verdict {
	int32_t class;			/* MPI error class; 0: no finding */
	char text[380];
};

struct hdl_check {
	struct hdl_run *run;		/* starts when all records match; NULL: a caller is blocked in hdl_check_agree */
	struct record mine;
	struct sig *sends, *expects;	/* signatures per rank of the communicator */
	int peers, npeers;		/* peers: ranks that take part; npeers: ranks of the communicator itself (the local
					 * group's follow them: hdl_own_peer) */
	int self;			/* this rank's index among `peers` */
	struct hdl_graph *g;
	struct hdl_run *exchange;
	size_t out, in, found, verdicts;	/* offsets in the scratch of `talk` */
};

/* ---- this rank's record -------------------------------------------------------------------------------------------- */

#define MIXED	1
#define ANY	0			/* MPI_PACKED matches every type (section 3.3.1) */

static struct sig sig_of(const struct hdl_type *t, MPI_Count count)
{
	const struct hdl_type *base = hdl_type_base(t);
	const struct hdl_reptype *rep = hdl_reptype(base);
	struct sig s = { MIXED, count * t->elements, count * t->size };

	if (base == hdl_type_get(MPI_PACKED))
		s.type = ANY;
	else if (base)
		s.type = rep->rep != HDL_REP_NONE ? 16 + (uint64_t)rep->rep : (uint64_t)(uintptr_t)hdl_type_handle(base);
	if (!s.elements)
		s.type = ANY;
	return s;
}

static bool coll_check_fits(struct sig a, struct sig b)
{
	return a.type == ANY || b.type == ANY ? a.bytes == b.bytes : a.type == b.type && a.elements == b.elements;
}

static struct hdl_check *check_new(struct hdl_comm *comm, int coll, enum hdl_form_kind form)
{
	struct hdl_check *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->npeers = comm->size;
	c->peers = comm->local ? comm->size + comm->local->size : comm->size;
	c->self = comm->local ? comm->size + comm->local->rank : comm->rank;
	c->sends = calloc((size_t)c->npeers * 2, sizeof(*c->sends));
	if (!c->sends) {
		free(c);
		return NULL;
	}
	c->expects = c->sends + c->npeers;
	c->mine.coll = coll;
	c->mine.form = (int32_t)form;
	c->mine.root = -1;
	return c;
}

static void record_root(struct hdl_check *c, const struct hdl_comm *comm, int root)
{
	int proc = root == MPI_ROOT ? hdl_job.rank : root >= 0 ? hdl_comm_proc(comm, root) : -1;

	if (proc < 0)
		return;
	c->mine.root = hdl_proc_rank(proc);
	c->mine.root_job = hdl_proc_job(proc);
}

/* Completes the record. Must: hdl_call is the name of the MPI function. */
static struct hdl_check *record_complete(struct hdl_check *c, bool rooted, int root, MPI_Op op, const struct hdl_type *type,
					 MPI_Count count)
{
	char *text = c->mine.text;
	size_t text_size = sizeof(c->mine.text), n;

	c->mine.op = op == MPI_OP_NULL ? 0 : hdl_op_get(op) ? 1 : (int32_t)(uintptr_t)op;
	n = (size_t)snprintf(text, text_size, "%s", hdl_call);
	if (rooted && n < text_size)
		n += (size_t)snprintf(text + n, text_size - n, root == MPI_ROOT ? ", root MPI_ROOT" :
				      root < 0 ? ", root MPI_PROC_NULL" : ", root %d", root);
	if (c->mine.op && n < text_size)
		n += (size_t)snprintf(text + n, text_size - n, ", %s",
				      c->mine.op == 1 ? "a user-defined operation" : hdl_op_name(op));
	if (type && n < text_size)
		snprintf(text + n, text_size - n, ", %lld x %.40s", (long long)count, hdl_type_label(type));
	return c;
}

struct hdl_check *hdl_check_args(struct hdl_comm *comm, const struct hdl_coll_args *a, enum hdl_form_kind form)
{
	struct hdl_check *c = check_new(comm, (int)a->coll, form);
	bool rooted = a->coll == HDL_BCAST || a->coll == HDL_REDUCE;

	if (!c)
		return NULL;
	if (rooted)
		record_root(c, comm, a->root);
	if (a->coll == HDL_ALLGATHER || a->coll == HDL_ALLTOALL) {
		bool in_place = a->sendbuf == MPI_IN_PLACE;

		for (int r = 0; r < c->npeers; r++) {
			c->sends[r] = in_place ? sig_of(a->recvtype, a->recvcount) : sig_of(a->sendtype, a->sendcount);
			c->expects[r] = sig_of(a->recvtype, a->recvcount);
		}
	} else if (a->coll != HDL_BARRIER) {
		c->mine.all = sig_of(a->recvtype, a->recvcount);
	}
	return record_complete(c, rooted, a->root, a->op, a->recvtype, a->recvcount);
}

/*
 * Returns true if all ranks know the length of every block, by which an algorithm may be chosen: for MPI_Gather, not for
 * MPI_Gatherv. For exchanges: if one block goes to all, as in MPI_Allgatherv; not between groups, where one block may belong
 * to the only remote rank.
 */
static bool is_plain(const struct hdl_vcoll *a, const struct hdl_comm *comm)
{
	return a->coll == HDL_V_EXCHANGE ? !comm->local && a->nin == 1 : a->alike;
}

/* Index of the collective among all collectives. Reduce and Allreduce by a user-defined operation have the index that
 * hdl_check_args gives them. */
static int coll_check_number_of(const struct hdl_vcoll *a, const struct hdl_comm *comm)
{
	switch (a->coll) {
	case HDL_V_REDUCE:
		return HDL_REDUCE;
	case HDL_V_ALLREDUCE:
		return HDL_ALLREDUCE;
	default:
		return HDL_COLLS + 2 * (int)a->coll + is_plain(a, comm);
	}
}

/* Adds an edge, in any order: several edges between two ranks are distinguished by their number. */
static void add_edge(struct sig *to, struct sig s, int number)
{
	uint64_t h = (s.type ^ (uint64_t)s.elements << 8 ^ (uint64_t)number << 40) * 0x9e3779b97f4a7c15ULL;

	to->type += h ^ h >> 29;
	to->elements += s.elements;
	to->bytes += s.bytes;
}

static void record_neighbors(struct hdl_check *c, const struct hdl_vcoll *a)
{
	for (int k = 0; k < a->nto; k++)
		if (a->to[k] >= 0)
			add_edge(&c->sends[a->to[k]], sig_of(a->in[a->nin > 1 ? k : 0].type, a->in[a->nin > 1 ? k : 0].count),
				 hdl_edge_to(a, k));
	for (int k = 0; k < a->nout; k++)
		if (a->from[k] >= 0)
			add_edge(&c->expects[a->from[k]], sig_of(a->out[k].type, a->out[k].count), hdl_edge_from(a, k));
}

static void record_blocks(struct hdl_check *c, const struct hdl_vcoll *a)
{
	bool to_one = a->coll == HDL_V_GATHER, from_one = a->coll == HDL_V_SCATTER;

	for (int r = 0; r < c->npeers; r++) {
		const struct hdl_vcoll_block *in = &a->in[a->nin > 1 ? r : 0], *out = &a->out[a->nout > 1 ? r : 0];

		if (a->nin && (!to_one || r == a->root))
			c->sends[r] = sig_of(in->type, in->count);
		if (a->nout && (!from_one || r == a->root))
			c->expects[r] = sig_of(out->type, out->count);
	}
}

struct hdl_check *hdl_check_vcoll(struct hdl_comm *comm, const struct hdl_vcoll *a, enum hdl_form_kind form)
{
	struct hdl_check *c = check_new(comm, coll_check_number_of(a, comm), form);
	bool rooted = a->coll == HDL_V_GATHER || a->coll == HDL_V_SCATTER || a->coll == HDL_V_REDUCE || a->coll == HDL_V_BCAST;
	const struct hdl_vcoll_block *one = a->nin == 1 ? a->in : a->nout == 1 ? a->out : NULL;

	if (!c)
		return NULL;
	if (rooted)
		record_root(c, comm, a->root);
	switch (a->coll) {
	case HDL_V_GATHER:
	case HDL_V_SCATTER:
	case HDL_V_EXCHANGE:
		record_blocks(c, a);
		break;
	case HDL_V_NEIGHBORS:
		record_neighbors(c, a);
		break;
	case HDL_V_REDUCE_SCATTER:
		c->mine.all = sig_of(a->in[0].type, a->in[0].count);
		/* the counts are equal within a group */
		for (int i = 0; a->counts && !comm->local && i < comm->size; i++)
			c->mine.all.type += (uint64_t)a->counts[i] * (0x9e3779b97f4a7c15ULL * (2 * (uint64_t)i + 1));
		break;
	case HDL_V_BARRIER:
		break;
	default:
		c->mine.all = one ? sig_of(one->type, one->count) : (struct sig){ ANY, -1, 0 };
	}
	return record_complete(c, rooted, a->root, a->op, one ? one->type : NULL, one ? one->count : 0);
}

void hdl_check_free(struct hdl_check *c)
{
	if (!c)
		return;
	hdl_run_free(c->exchange);
	hdl_graph_free(c->g);
	free(c->sends);
	free(c);
}

/* ---- comparing ------------------------------------------------------------------------------------------------- */

/* Compares the peer's record with this rank's. Returns an MPI error class, and in *what the first difference; or MPI_SUCCESS. */
static int compare_calls(const struct hdl_check *c, int peer, const struct record *r, const char **what)
{
	const struct record *m = &c->mine;
	bool silent = r->all.elements < 0 || m->all.elements < 0;	/* a rank beside the root in an intercommunicator has
									 * no signature */

	*what = "the outcome of the argument checks";
	if (r->coll == REFUSED || m->coll == REFUSED)
		return r->coll == m->coll ? MPI_SUCCESS : r->coll == REFUSED ? r->form : m->form;
	*what = "the collective";
	if (r->coll != m->coll)
		return MPI_ERR_OTHER;
	*what = "the form (blocking, nonblocking, persistent)";
	if (r->form != m->form)
		return MPI_ERR_OTHER;
	*what = "the root";
	if (r->root >= 0 && m->root >= 0 && (r->root != m->root || r->root_job != m->root_job))
		return MPI_ERR_ROOT;
	*what = "the operation";
	if (!silent && r->op != m->op)
		return MPI_ERR_OP;
	*what = "the count or the type signature";
	if (!silent && !coll_check_fits(r->all, m->all))
		return r->all.elements != m->all.elements ? MPI_ERR_COUNT : MPI_ERR_TYPE;
	*what = "the signature of the data sent and received";
	if (peer < c->npeers && !coll_check_fits(r->sent, c->expects[peer]))
		return r->sent.elements != c->expects[peer].elements ? MPI_ERR_COUNT : MPI_ERR_TYPE;
	return MPI_SUCCESS;
}

static int coll_check_proc_of(const struct hdl_comm *comm, int peer)
{
	struct hdl_comm *of = hdl_peer_comm((struct hdl_comm *)comm, &peer);

	return hdl_comm_proc(of, peer);
}

/* The `reduce` callback of the graph: runs when all records are there, and writes this rank's verdict. */
static void coll_check_look(const struct hdl_run *exchange, const void *src, void *dst, size_t len)
{
	struct hdl_check *c = exchange->arg;
	const struct record *records = src;
	struct verdict *v = dst;
	const char *what;

	(void)len;
	memset(v, 0, sizeof(*v));
	for (int p = 0; p < c->peers && !v->class; p++) {
		const struct record *r = &records[p];

		if (p == c->self)
			continue;
		v->class = compare_calls(c, p, r, &what);
		if (!v->class)
			continue;
		snprintf(v->text, sizeof(v->text), "%s differs: rank %d calls %s; %s calls %s (ranks in MPI_COMM_WORLD)", what,
			 hdl_job.rank, c->mine.text, hdl_proc_text(coll_check_proc_of(exchange->comm, p)), r->text);
		if (p < c->npeers && r->coll == c->mine.coll && !coll_check_fits(r->sent, c->expects[p])) {
			size_t n = strlen(v->text);

			snprintf(v->text + n, sizeof(v->text) - n, ": %lld basic elements sent, %lld received",
				 (long long)r->sent.elements, (long long)c->expects[p].elements);
		}
	}
}

/* The finding of the lowest process, or NULL. */
static const struct verdict *coll_check_judge(const struct hdl_check *c)
{
	const struct verdict *all = (const void *)(c->exchange->base[HDL_SP_TMP] + c->verdicts), *found = NULL;
	int first = 0;

	for (int p = 0; p < c->peers; p++) {
		const struct verdict *v = p == c->self ? (const void *)(c->exchange->base[HDL_SP_TMP] + c->found) : &all[p];
		int proc = p == c->self ? hdl_job.rank : coll_check_proc_of(c->exchange->comm, p);

		if (v->class && (!found || hdl_proc_before(proc, first))) {
			found = v;
			first = proc;
		}
	}
	return found;
}

static void exchange_done(struct hdl_run *exchange)
{
	struct hdl_check *c = exchange->arg;
	struct hdl_run *run = c->run ? c->run : exchange;
	const struct verdict *v = exchange->error ? NULL : coll_check_judge(c);

	if (exchange->error)
		hdl_reason_set("%s", exchange->why);
	else if (v)
		hdl_reason_set("HEDDLE_CHECK: %s", v->text);
	if (exchange->error || v)
		hdl_run_error(run, exchange->error ? exchange->error : v->class);
	if (!c->run)
		return;
	if (exchange->error || v)
		hdl_run_finish(run);
	else
		hdl_host_start(run);
}

static bool build(struct hdl_check *c, struct hdl_comm *comm)
{
	size_t n = (size_t)c->peers, rec = sizeof(struct record), ver = sizeof(struct verdict), all = n * rec;
	struct hdl_gb *b = hdl_gb_new("check", NULL, 1);

	if (!b)
		return false;
	c->out = hdl_gb_tmp(b, n, rec);
	c->in = hdl_gb_tmp(b, n, rec);
	c->found = hdl_gb_tmp(b, 1, all > ver ? all : ver);	/* a REDUCE node writes and reads the same number of bytes */
	c->verdicts = hdl_gb_tmp(b, n, ver);
	for (int p = 0; p < c->peers; p++)
		if (p != c->self) {
			hdl_gb_send(b, p, 0, hdl_ref(HDL_SP_TMP, c->out + (size_t)p * rec), rec);
			hdl_gb_recv(b, p, 0, hdl_ref(HDL_SP_TMP, c->in + (size_t)p * rec), rec);
		}
	hdl_gb_reduce(b, hdl_ref(HDL_SP_TMP, c->found), hdl_ref(HDL_SP_TMP, c->in), all);
	for (int p = 0; p < c->peers; p++)
		if (p != c->self) {
			hdl_gb_send(b, p, 1, hdl_ref(HDL_SP_TMP, c->found), ver);
			hdl_gb_recv(b, p, 1, hdl_ref(HDL_SP_TMP, c->verdicts + (size_t)p * ver), ver);
		}
	c->g = hdl_gb_finish(b);
	c->exchange = c->g ? hdl_run_new(c->g, comm) : NULL;
	if (!c->exchange || hdl_run_prepare_host(c->exchange))
		return false;
	c->exchange->retain = true;
	c->exchange->done = exchange_done;
	c->exchange->reduce = coll_check_look;
	c->exchange->arg = c;
	return true;
}

static int coll_check_no_memory(void)
{
	hdl_reason_set("no memory for HEDDLE_CHECK");
	return MPI_ERR_NO_MEM;
}

/* Starts the comparison. Must be called once for each check. Returns an MPI error class. */
static int check_exchange(struct hdl_check *c, struct hdl_comm *comm)
{
	struct record *out;

	if (!build(c, comm))
		return coll_check_no_memory();
	out = (void *)(c->exchange->base[HDL_SP_TMP] + c->out);
	for (int p = 0; p < c->peers; p++) {
		out[p] = c->mine;
		out[p].sent = p < c->npeers ? c->sends[p] : (struct sig){ ANY, 0, 0 };
	}
	hdl_host_begin(c->exchange);
	return MPI_SUCCESS;
}

void hdl_check_start(struct hdl_run *run)
{
	int rc;

	run->check->run = run;
	rc = check_exchange(run->check, run->comm);
	if (rc) {
		hdl_run_error(run, rc);
		hdl_run_finish(run);
	}
}

static bool coll_check_is_finished(const void *arg)
{
	return ((const struct hdl_run *)arg)->finished;
}

int hdl_check_agree(struct hdl_check *c, struct hdl_comm *comm)
{
	int rc;

	/* takes a collective's number, as the other ranks do */
	((struct hdl_cc *)comm->coll)->seq++;
	rc = check_exchange(c, comm);
	if (rc) {
		hdl_coll_no_memory(comm);	/* the other ranks wait for this rank's record */
		rc = coll_check_no_memory();
	} else {
		hdl_blocked_comm = comm;
		hdl_wait_until(coll_check_is_finished, c->exchange);
		hdl_blocked_comm = NULL;
		rc = c->exchange->error;
		if (rc)
			hdl_reason_set("%s", c->exchange->why);
	}
	hdl_check_free(c);
	return rc;
}

void hdl_coll_refused(struct hdl_comm *comm, int class, const char *text)
{
	struct hdl_check *c = hdl_vars.check && hdl_coll_state(comm) ? check_new(comm, REFUSED, HDL_BLOCKS) : NULL;

	if (!c)
		return;
	c->mine.form = class;
	snprintf(c->mine.text, sizeof(c->mine.text), "%s", text);
	hdl_check_agree(c, comm);
	hdl_reason_take();	/* the caller reports this rank's error */
}
