/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Irregular (v) collectives, whose blocks have counts, displacements and types of their own; reductions by parts and prefixes
 * (MPI-5.0 sections 6.5 to 6.8, 6.10, 6.11); and neighborhood collectives (section 8.6). The arguments become lists of blocks,
 * which collectives/host/vcoll.c moves. Blocking, nonblocking and persistent, int and MPI_Count forms share one path.
 *
 * On an intercommunicator, ranks of `c` are those of the remote group; hdl_comm_local(c) has this process's group.
 */
#include "mpi/mpi_internal.h"
#include "mpi/topo.h"

#include <stdlib.h>

/* The send or receive arguments of a call. */
struct side {
	const char *buf_arg, *count_arg, *type_arg;
	const void *buf;
	MPI_Count count;		/* if counts is NULL */
	const void *counts, *displs;	/* displs NULL: consecutive blocks */
	const MPI_Datatype *types;	/* w form; displacements are in bytes then */
	MPI_Datatype type;
	bool large;			/* counts are MPI_Count, and so are displacements */
	bool far;			/* displacements are MPI_Aint; some functions have them with int counts, too */
};

static MPI_Count element(const void *array, bool large, int i)
{
	return large ? ((const MPI_Count *)array)[i] : ((const int *)array)[i];
}

static int bad_element(struct hdl_comm *c, const char *call, const char *arg, int i, long long count)
{
	char which[64];

	snprintf(which, sizeof(which), "%s[%d]", arg, i);
	return hdl_bad_count(c, call, which, count);
}

static int bad_type(struct hdl_comm *c, const char *call, const struct side *s, int i, MPI_Datatype handle)
{
	char which[64];

	snprintf(which, sizeof(which), s->types ? "%s[%d]" : "%s", s->type_arg, i);
	return hdl_bad_type(c, call, which, handle);
}

/* Returns the address of its first byte. */
static inline const char *begin_of(const struct hdl_vcoll_block *p)
{
	return (const char *)p->buf + p->type->true_lb;
}

/* Section 2.6.3: send and receive buffers must not overlap. Finds two that begin at the same byte; distinct parts of one array
 * are valid. */
static cold int check_overlap(struct hdl_comm *c, const char *call, const char *arg, const struct hdl_vcoll_block *a,
			      const char *other_arg, const struct hdl_vcoll_block *b)
{
	if (!a->count || !b->count || !a->type->size || !b->type->size)
		return MPI_SUCCESS;
	return hdl_raise(c, MPI_ERR_BUFFER, call, "%s and %s are, at %p, the same buffer: use MPI_IN_PLACE", arg, other_arg,
			 (const void *)begin_of(a));
}

/* Compares block i of one list with block i of the other, of n blocks; or, if `one`, the first block with each. */
static inline __attribute__((always_inline)) int check_overlaps(struct hdl_comm *c, const char *call, const char *arg,
								const struct hdl_vcoll_block *a, bool one, const char *other_arg,
								const struct hdl_vcoll_block *b, int n)
{
	for (int i = 0; i < n; i++) {
		const struct hdl_vcoll_block *mine = one ? a : &a[i];
		int rc = likely(begin_of(mine) != begin_of(&b[i])) ? MPI_SUCCESS :
								     check_overlap(c, call, arg, mine, other_arg, &b[i]);

		if (unlikely(rc))
			return rc;
	}
	return MPI_SUCCESS;
}

/* Returns NULL for a type with which no data can be sent. */
static inline const struct hdl_type *vcoll_type_of(MPI_Datatype handle)
{
	const struct hdl_type *t = hdl_type_get(handle);

	return likely(t && hdl_type_is_committed(t)) ? t : NULL;
}

/* Fills in block i, of elements of t (vcoll_type_of the side's type, or in the w form of the block's). only: the side has no
 * other block. */
static inline __attribute__((always_inline)) int get_typed_block(struct hdl_comm *c, const char *call, const struct side *s,
								 int i, bool only, const struct hdl_type *t,
								 struct hdl_vcoll_block *p)
{
	const void *counts = only ? NULL : s->counts;
	MPI_Count count = counts ? element(counts, s->large, i) : s->count, at = i, bytes, span;
	bool far = false;

	if (unlikely(!t))
		return bad_type(c, call, s, i, s->types ? s->types[i] : s->type);
	if (unlikely(count < 0))
		return counts ? bad_element(c, call, s->count_arg, i, count) : hdl_bad_count(c, call, s->count_arg, count);
	if (only || !count)
		at = 0;		/* an empty block has no address, with any displacement */
	else if (s->displs)
		at = element(s->displs, s->large || s->far, i);
	else
		far = __builtin_mul_overflow(at, count, &at);
	if (!s->types)
		far |= __builtin_mul_overflow(at, hdl_type_extent(t), &at);
	far |= __builtin_mul_overflow(count, hdl_type_extent(t), &span);
	if (unlikely(far || __builtin_mul_overflow(count, hdl_type_size(t), &bytes)))
		return hdl_raise(c, MPI_ERR_COUNT, call,
				 "invalid %s: block %d of %lld elements, of size %lld and extent %lld, does not fit "
				 "the address space",
				 s->count_arg, i, (long long)count, (long long)hdl_type_size(t), (long long)hdl_type_extent(t));
	if (hdl_bad_buffer_at(s->buf, at, count, t))
		return hdl_bad_buffer_error(c, call, s->buf_arg, s->buf);
	*p = (struct hdl_vcoll_block){ (const char *)s->buf + at, count, t };

	return MPI_SUCCESS;
}

/* Fills in the side's one block. */
static inline int get_block(struct hdl_comm *c, const char *call, const struct side *s, struct hdl_vcoll_block *p)
{
	return get_typed_block(c, call, s, 0, true, vcoll_type_of(s->type), p);
}

/* Which arguments are arrays: none; counts and displacements; types, too. */
enum vform { V_NONE, V_COUNTS, V_TYPES };

static inline int check_arrays(struct hdl_comm *c, const char *call, const struct side *s, const char *displs_arg,
			       enum vform vform)
{
	if (vform != V_NONE && !s->counts)
		return hdl_null_arg(c, call, s->count_arg);
	if (vform != V_NONE && !s->displs)
		return hdl_null_arg(c, call, displs_arg);
	return vform == V_TYPES && !s->types ? hdl_null_arg(c, call, s->type_arg) : MPI_SUCCESS;
}

/* Lists of up to so many blocks need no allocation. */
#define FEW 16
struct few {
	struct hdl_vcoll_block piece[FEW];
};

static void free_blocks(struct hdl_vcoll_block *list, const struct few *few)
{
	if (list != few->piece)
		free(list);
}

/* Fills in blocks of a predefined type with int displacements, which cannot overflow. False: an argument is invalid, or the
 * blocks are of another sort. */
static inline bool get_plain_blocks(const struct side *s, int n, const struct hdl_type *t, struct hdl_vcoll_block *p)
{
	const int *counts = s->counts, *displs = s->displs;
	int all = 0;

	if (!t || !hdl_type_is_predefined(t) || !counts || !displs || s->large || s->far || (uintptr_t)s->buf <= 1)
		return false;
	for (int i = 0; i < n; i++) {
		all |= counts[i];
		p[i] = (struct hdl_vcoll_block){ (const char *)((uintptr_t)s->buf + (uintptr_t)(displs[i] * t->extent)),
						 counts[i], t };
	}
	return likely(all >= 0);
}

/* Fills in n blocks. The caller must free_blocks(*list), also after an error. */
static int get_blocks(struct hdl_comm *c, const char *call, const struct side *s, int n, struct few *few,
		      struct hdl_vcoll_block **list)
{
	const struct hdl_type *all = s->types ? NULL : vcoll_type_of(s->type);
	int rc = MPI_SUCCESS;

	*list = n <= FEW ? few->piece : calloc((size_t)n, sizeof(**list));
	if (!*list) {
		hdl_coll_no_memory(c);
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory for the list of %d blocks", n);
	}
	if (get_plain_blocks(s, n, all, *list))
		return MPI_SUCCESS;
	for (int i = 0; i < n && !rc; i++)
		rc = get_typed_block(c, call, s, i, false, s->types ? vcoll_type_of(s->types[i]) : all, &(*list)[i]);
	return rc;
}

static inline int vcoll_run(struct hdl_comm *c, const char *call, const struct hdl_vcoll *a, const struct hdl_form *form)
{
	struct hdl_req *req = NULL;
	int rc;

	hdl_call = call;
	if (form && form->persistent)
		rc = hdl_vcoll_prepare(c, a, &req);
	else
		rc = hdl_vcoll_start(c, a, form ? &req : NULL);
	if (rc)
		return hdl_raise_class(c, rc, call);
	if (form)
		*form->request = (MPI_Request)req;
	return MPI_SUCCESS;
}

/* Section 6.2.3: in the root's group of an intercommunicator the root passes MPI_ROOT, and other ranks MPI_PROC_NULL. */
static inline int vcoll_check_root(struct hdl_comm *c, const char *call, int root)
{
	if ((unsigned)root < (unsigned)c->size || (c->local && (root == MPI_ROOT || root == MPI_PROC_NULL)))
		return MPI_SUCCESS;
	return hdl_bad_rank(c, MPI_ERR_ROOT, call, "root", root);
}

/* Returns true if this process is the root; of its group, whether it or another process is. */
static bool is_root(const struct hdl_comm *c, int root)
{
	return c->local ? root == MPI_ROOT : c->rank == root;
}

static bool is_beside_root(const struct hdl_comm *c, int root)
{
	return c->local && root == MPI_PROC_NULL;
}

/* Checks comm, root (if there is one), request and info. */
static inline int check_call(const char *call, MPI_Comm comm, struct hdl_comm *c, bool rooted, int root,
			     const struct hdl_form *form)
{
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = rooted ? vcoll_check_root(c, call, root) : MPI_SUCCESS;
	return !rc && form ? hdl_check_form(c, call, form) : rc;
}

/* Gather and gatherv: many is the root's receive side. Scatter and scatterv: many is the root's send side. */
static int vcoll_rooted(const char *call, enum hdl_vcoll_kind coll, const struct side *one, const struct side *many,
			enum vform vform, int root, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_vcoll_block mine, *list = NULL;
	struct few few;
	struct hdl_vcoll a = { .coll = coll, .root = root, .op = MPI_OP_NULL, .alike = vform == V_NONE };
	int rc = check_call(call, comm, c, true, root, form), nmine = 1, nlist = 0;

	if (rc)
		return hdl_refused(c, rc);
	a.in_place = !c->local && c->rank == root && one->buf == MPI_IN_PLACE;
	if (a.in_place || (c->local && (unsigned)root >= (unsigned)c->size))
		nmine = 0;
	else
		rc = get_block(c, call, one, &mine);
	if (!rc && is_root(c, root)) {
		nlist = c->size;
		rc = check_arrays(c, call, many, "displs", vform);
		if (!rc)
			rc = get_blocks(c, call, many, nlist, &few, &list);
		if (!rc && nmine)
			rc = check_overlaps(c, call, one->buf_arg, &mine, true, many->buf_arg, list, nlist);
	}
	if (coll == HDL_V_GATHER) {
		a.in = &mine;
		a.nin = nmine;
		a.out = list;
		a.nout = nlist;
	} else {
		a.in = list;
		a.nin = nlist;
		a.out = &mine;
		a.nout = nmine;
	}
	rc = rc ? hdl_refused(c, rc) : vcoll_run(c, call, &a, form);
	free_blocks(list, &few);
	return rc;
}

/* The send side: one block for all receivers, or one for each. */
enum sends { SENDS_ONE, SENDS_EACH };

/* Allgatherv, alltoallv, alltoallw. On intercommunicators allgather and alltoall, too (V_NONE). */
static int vcoll_exchange(const char *call, const struct side *send, enum sends sends, const struct side *recv, enum vform vform,
			  MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_vcoll_block mine, *in = NULL, *out = NULL;
	const bool one = sends == SENDS_ONE;
	struct few few_in, few_out;
	struct hdl_vcoll a = { .coll = HDL_V_EXCHANGE, .op = MPI_OP_NULL };
	int rc = check_call(call, comm, c, false, 0, form);

	if (rc)
		return hdl_refused(c, rc);
	a.in_place = !c->local && send->buf == MPI_IN_PLACE;
	rc = check_arrays(c, call, recv, one ? "displs" : "rdispls", vform);
	if (!rc)
		rc = get_blocks(c, call, recv, c->size, &few_out, &out);
	if (!rc && !a.in_place && one) {
		rc = get_block(c, call, send, &mine);
	} else if (!rc && !a.in_place) {
		rc = check_arrays(c, call, send, "sdispls", vform);
		if (!rc)
			rc = get_blocks(c, call, send, c->size, &few_in, &in);
	}
	if (!rc && !a.in_place)
		rc = check_overlaps(c, call, send->buf_arg, one ? &mine : in, one, recv->buf_arg, out, c->size);
	if (!rc) {
		if (a.in_place && one)
			mine = out[c->rank];
		a.in = one ? &mine : a.in_place ? out : in;
		a.nin = one ? 1 : c->size;
		a.out = out;
		a.nout = c->size;
		rc = vcoll_run(c, call, &a, form);
	} else {
		rc = hdl_refused(c, rc);
	}
	free_blocks(in, &few_in);
	free_blocks(out, &few_out);
	return rc;
}

int hdl_vcoll_exchange(const char *call, bool one, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
			void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, const struct hdl_form *form)
{
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };

	return vcoll_exchange(call, &send, one ? SENDS_ONE : SENDS_EACH, &recv, V_NONE, comm, form);
}

/* ---- on intercommunicators; collective.c has the others --------------------------------------------------- */

int hdl_vcoll_bcast(const char *call, void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
		     const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	const struct side side = { "buffer", "count", "datatype", buffer, count, .type = datatype };
	struct hdl_vcoll_block piece;
	struct hdl_vcoll a = { .coll = HDL_V_BCAST, .root = root, .op = MPI_OP_NULL, .in = &piece, .out = &piece };
	int rc = check_call(call, comm, c, true, root, form);

	if (!rc && !is_beside_root(c, root)) {
		rc = get_block(c, call, &side, &piece);
		a.nin = is_root(c, root);
		a.nout = !a.nin;
	}
	return rc ? hdl_refused(c, rc) : vcoll_run(c, call, &a, form);
}

int hdl_vcoll_barrier(const char *call, MPI_Comm comm, const struct hdl_form *form)
{
	const struct hdl_vcoll a = { .coll = HDL_V_BARRIER, .op = MPI_OP_NULL };
	struct hdl_comm *c = hdl_comm_get(comm);
	int rc = check_call(call, comm, c, false, 0, form);

	return rc ? hdl_refused(c, rc) : vcoll_run(c, call, &a, form);
}

/* ---- neighbors (section 8.6) -------------------------------------------------------------------------------- */

/* SENDS_ONE: the same block for all destinations. */
static int neighbors(const char *call, const struct side *send, enum sends sends, const struct side *recv, enum vform vform,
		     MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_vcoll_block mine, *in = NULL, *out = NULL;
	const bool one = sends == SENDS_ONE;
	struct few few_in, few_out;
	struct hdl_vcoll a = { .coll = HDL_V_NEIGHBORS, .op = MPI_OP_NULL };
	struct hdl_neighbors near = { 0 };
	int rc;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	rc = check_call(call, comm, c, false, 0, form);
	if (!rc)
		rc = hdl_topo_neighbors(call, c, &near);
	if (!rc && near.nfrom)
		rc = check_arrays(c, call, recv, one ? "displs" : "rdispls", vform);
	if (!rc)
		rc = get_blocks(c, call, recv, near.nfrom, &few_out, &out);
	if (!rc && one) {
		rc = get_block(c, call, send, &mine);
	} else if (!rc) {
		if (near.nto)
			rc = check_arrays(c, call, send, "sdispls", vform);
		if (!rc)
			rc = get_blocks(c, call, send, near.nto, &few_in, &in);
	}
	if (!rc) {
		a.in = one ? &mine : in;
		a.nin = one ? 1 : near.nto;
		a.out = out;
		a.nout = near.nfrom;
		a.to = near.to;
		a.nto = near.nto;
		a.from = near.from;
		a.grid = near.grid;
		rc = vcoll_run(c, call, &a, form);
	} else {
		rc = hdl_refused(c, rc);
	}
	free(near.made);
	free_blocks(in, &few_in);
	free_blocks(out, &few_out);
	return rc;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

static int check_reduction(struct hdl_comm *c, const char *call, MPI_Datatype datatype, MPI_Op op)
{
	struct hdl_type *t = hdl_type_get(datatype);

	if (!t || !hdl_type_is_committed(t))
		return hdl_bad_type(c, call, "datatype", datatype);
	return !hdl_op_get(op) && !hdl_op_valid(op, t) ? hdl_bad_op(c, call, op, t) : MPI_SUCCESS;
}

/* The part of a rank in a reduction. */
enum reduction_role { CONTRIBUTES = 1, GETS_RESULT = 2, DOES_BOTH = CONTRIBUTES | GETS_RESULT };

/* n elements are contributed, m result. A rank passes one vector for each part that it has. */
static int reduction(const char *call, struct hdl_comm *c, struct hdl_vcoll *a, const char *count_arg, const void *sendbuf,
		     void *recvbuf, MPI_Count n, MPI_Count m, MPI_Datatype datatype, enum reduction_role role,
		     const struct hdl_form *form)
{
	const bool gives = role & CONTRIBUTES, gets = role & GETS_RESULT;
	/* one buffer for both, where its other use is not significant on some ranks: see collective.c */
	bool twice = sendbuf == recvbuf && (a->coll == HDL_V_REDUCE || a->coll == HDL_V_EXSCAN);
	bool in_place = gives && gets && !c->local && (sendbuf == MPI_IN_PLACE || twice);
	const struct side send = { "sendbuf", count_arg, "datatype", in_place ? recvbuf : sendbuf, n, .type = datatype };
	const struct side recv = { "recvbuf", count_arg, "datatype", recvbuf, m, .type = datatype };
	struct hdl_vcoll_block in, out;
	int rc = gives ? get_block(c, call, &send, &in) : MPI_SUCCESS;

	a->in_place = in_place;
	if (!rc && gets)
		rc = get_block(c, call, &recv, &out);
	if (!rc && gives && gets && !a->in_place)
		rc = check_overlaps(c, call, "sendbuf", &in, true, "recvbuf", &out, 1);
	if (rc)
		return hdl_refused(c, rc);
	a->type = hdl_type_get(datatype);
	a->in = &in;
	a->nin = gives;
	a->out = &out;
	a->nout = gets;
	return vcoll_run(c, call, a, form);
}

/* On an intercommunicator the root contributes nothing, and no other rank gets the result. */
int hdl_vcoll_reduce(const char *call, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
		      bool all, int root, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_vcoll a = { .coll = all ? HDL_V_ALLREDUCE : HDL_V_REDUCE, .root = root, .op = op };
	enum reduction_role role;
	int rc = check_call(call, comm, c, !all, root, form);

	if (rc)
		return hdl_refused(c, rc);
	if (!all && is_beside_root(c, root)) {
		a.op = MPI_OP_NULL;
		return vcoll_run(c, call, &a, form);
	}
	rc = check_reduction(c, call, datatype, op);
	if (rc)
		return hdl_refused(c, rc);
	if (all || (is_root(c, root) && !c->local))
		role = DOES_BOTH;
	else
		role = is_root(c, root) ? GETS_RESULT : CONTRIBUTES;
	return reduction(call, c, &a, "count", sendbuf, recvbuf, count, count, datatype, role, form);
}

static int prefix_reduction(const char *call, bool inclusive, const void *sendbuf, void *recvbuf, MPI_Count count,
			    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_vcoll a = { .coll = inclusive ? HDL_V_SCAN : HDL_V_EXSCAN, .op = op };
	int rc;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	rc = check_call(call, comm, c, false, 0, form);
	if (!rc)
		rc = check_reduction(c, call, datatype, op);
	/* MPI_Exscan does not write rank 0's recvbuf (section 6.11.2), unless rank 0's contribution lies there */
	return rc ? hdl_refused(c, rc) : reduction(call, c, &a, "count", sendbuf, recvbuf, count, count, datatype,
				   inclusive || c->rank || sendbuf == MPI_IN_PLACE ? DOES_BOTH : CONTRIBUTES, form);
}

static int reduce_scatter_block(const char *call, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
				MPI_Op op, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_vcoll a = { .coll = HDL_V_REDUCE_SCATTER, .op = op, .count = count };
	int rc = check_call(call, comm, c, false, 0, form);
	MPI_Count all;
	int n;

	if (rc)
		return hdl_refused(c, rc);
	n = hdl_comm_local(c)->size;
	rc = check_reduction(c, call, datatype, op);
	if (!rc && count < 0)
		rc = hdl_bad_count(c, call, "recvcount", count);
	if (!rc && __builtin_mul_overflow(count, (MPI_Count)n, &all))
		rc = hdl_raise(c, MPI_ERR_COUNT, call,
			       "invalid recvcount %lld: %d times so many elements do not fit the address space",
			       (long long)count, n);
	return rc ? hdl_refused(c, rc) :
		    reduction(call, c, &a, "recvcount", sendbuf, recvbuf, all, count, datatype, DOES_BOTH, form);
}

int hdl_vcoll_reduce_part(const char *call, enum hdl_coll coll, const void *sendbuf, void *recvbuf, MPI_Count count,
			   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, const struct hdl_form *form)
{
	if (coll == HDL_REDUCE_SCATTER)
		return reduce_scatter_block(call, sendbuf, recvbuf, count, datatype, op, comm, form);
	return prefix_reduction(call, coll == HDL_SCAN, sendbuf, recvbuf, count, datatype, op, comm, form);
}

static int reduce_scatter(const char *call, const void *sendbuf, void *recvbuf, const void *counts, bool large,
			  MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_vcoll a = { .coll = HDL_V_REDUCE_SCATTER, .op = op };
	int rc = check_call(call, comm, c, false, 0, form);
	MPI_Count all = 0, *copy;
	struct hdl_comm *local;

	if (!rc)
		rc = check_reduction(c, call, datatype, op);
	if (!rc && !counts)
		rc = hdl_null_arg(c, call, "recvcounts");
	if (rc)
		return hdl_refused(c, rc);
	local = hdl_comm_local(c);
	copy = calloc((size_t)local->size, sizeof(*copy));
	if (!copy) {
		hdl_coll_no_memory(c);
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory for %d counts", local->size);
	}
	for (int i = 0; i < local->size && !rc; i++) {
		copy[i] = element(counts, large, i);
		if (copy[i] < 0)
			rc = bad_element(c, call, "recvcounts", i, copy[i]);
		else if (__builtin_add_overflow(all, copy[i], &all))
			rc = hdl_raise(c, MPI_ERR_COUNT, call, "invalid recvcounts: their sum does not fit 63 bits");
	}
	a.counts = copy;
	rc = rc ? hdl_refused(c, rc) :
		  reduction(call, c, &a, "recvcounts", sendbuf, recvbuf, all, copy[local->rank], datatype, DOES_BOTH, form);
	free(copy);
	return rc;
}

int hdl_vcoll_rooted(const char *call, bool gather, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
		     void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
		     const struct hdl_form *form)
{
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };

	return gather ? vcoll_rooted(call, HDL_V_GATHER, &send, &recv, V_NONE, root, comm, form) :
			vcoll_rooted(call, HDL_V_SCATTER, &recv, &send, V_NONE, root, comm, form);
}

/* ---- the functions of the standard --------------------------------------------------------------------- */

/* The arguments of the functions below, as structs side. */
#define ONE_SENT	(&(const struct side){ "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype })
#define ONE_RECEIVED	(&(const struct side){ "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype })
#define EACH_SENT(displs) \
	(&(const struct side){"sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, displs, .type = sendtype, \
			      .large = LARGE})
#define EACH_RECEIVED(displs) \
	(&(const struct side){"recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs, .type = recvtype, \
			      .large = LARGE})
#define TYPES_SENT(is_far)	\
	(&(const struct side){ "sendbuf", "sendcounts", "sendtypes", sendbuf, 0, sendcounts, sdispls, sendtypes, .large = LARGE, \
			       .far = is_far })
#define TYPES_RECEIVED(is_far)	\
	(&(const struct side){ "recvbuf", "recvcounts", "recvtypes", recvbuf, 0, recvcounts, rdispls, recvtypes, .large = LARGE, \
			       .far = is_far })

#define FORM(_c, Count, Displ)											\
HDL_COLLECTIVE(Gatherv, gatherv, _c,										\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, const Count recvcounts[],	\
	 const Displ displs[], MPI_Datatype recvtype, int root, MPI_Comm comm),					\
	vcoll_rooted(call, HDL_V_GATHER, ONE_SENT, EACH_RECEIVED(displs), V_COUNTS, root, comm, form))			\
HDL_COLLECTIVE(Scatterv, scatterv, _c,										\
	(const void *sendbuf, const Count sendcounts[], const Displ displs[], MPI_Datatype sendtype, void *recvbuf,	\
	 Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),					\
	vcoll_rooted(call, HDL_V_SCATTER, ONE_RECEIVED, EACH_SENT(displs), V_COUNTS, root, comm, form))			\
HDL_COLLECTIVE(Allgatherv, allgatherv, _c,									\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, const Count recvcounts[],	\
	 const Displ displs[], MPI_Datatype recvtype, MPI_Comm comm),						\
	vcoll_exchange(call, ONE_SENT, SENDS_ONE, EACH_RECEIVED(displs), V_COUNTS, comm, form))				\
HDL_COLLECTIVE(Alltoallv, alltoallv, _c,									\
	(const void *sendbuf, const Count sendcounts[], const Displ sdispls[], MPI_Datatype sendtype,		\
	 void *recvbuf, const Count recvcounts[], const Displ rdispls[], MPI_Datatype recvtype, MPI_Comm comm),	\
	vcoll_exchange(call, EACH_SENT(sdispls), SENDS_EACH, EACH_RECEIVED(rdispls), V_COUNTS, comm, form))		\
HDL_COLLECTIVE(Alltoallw, alltoallw, _c,									\
	(const void *sendbuf, const Count sendcounts[], const Displ sdispls[], const MPI_Datatype sendtypes[],	\
	 void *recvbuf, const Count recvcounts[], const Displ rdispls[], const MPI_Datatype recvtypes[],	\
	 MPI_Comm comm),											\
	vcoll_exchange(call, TYPES_SENT(false), SENDS_EACH, TYPES_RECEIVED(false), V_TYPES, comm, form))		\
														\
HDL_COLLECTIVE(Neighbor_allgather, neighbor_allgather, _c,							\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,		\
	 MPI_Datatype recvtype, MPI_Comm comm),									\
	neighbors(call, ONE_SENT, SENDS_ONE, ONE_RECEIVED, V_NONE, comm, form))				\
HDL_COLLECTIVE(Neighbor_allgatherv, neighbor_allgatherv, _c,							\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, const Count recvcounts[],	\
	 const Displ displs[], MPI_Datatype recvtype, MPI_Comm comm),						\
	neighbors(call, ONE_SENT, SENDS_ONE, EACH_RECEIVED(displs), V_COUNTS, comm, form))			\
HDL_COLLECTIVE(Neighbor_alltoall, neighbor_alltoall, _c,							\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,		\
	 MPI_Datatype recvtype, MPI_Comm comm),									\
	neighbors(call, ONE_SENT, SENDS_EACH, ONE_RECEIVED, V_NONE, comm, form))				\
HDL_COLLECTIVE(Neighbor_alltoallv, neighbor_alltoallv, _c,							\
	(const void *sendbuf, const Count sendcounts[], const Displ sdispls[], MPI_Datatype sendtype,		\
	 void *recvbuf, const Count recvcounts[], const Displ rdispls[], MPI_Datatype recvtype, MPI_Comm comm),	\
	neighbors(call, EACH_SENT(sdispls), SENDS_EACH, EACH_RECEIVED(rdispls), V_COUNTS, comm, form))		\
HDL_COLLECTIVE(Neighbor_alltoallw, neighbor_alltoallw, _c,							\
	(const void *sendbuf, const Count sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],	\
	 void *recvbuf, const Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],	\
	 MPI_Comm comm),											\
	neighbors(call, TYPES_SENT(true), SENDS_EACH, TYPES_RECEIVED(true), V_TYPES, comm, form))			\
														\
HDL_COLLECTIVE(Reduce_scatter, reduce_scatter, _c,								\
	(const void *sendbuf, void *recvbuf, const Count recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm),	\
	reduce_scatter(call, sendbuf, recvbuf, recvcounts, LARGE, datatype, op, comm, form))

#define LARGE false
FORM(, int, int)
#undef LARGE
#define LARGE true
FORM(_c, MPI_Count, MPI_Aint)
