/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives whose pieces have counts, places and types of their own, and reductions by parts and prefixes (MPI-5.0
 * sections 6.5 to 6.8, 6.10, 6.11). The arguments become lists of pieces, which collectives/pieces.c moves; blocking and
 * nonblocking, int and MPI_Count forms share one path.
 */
#include "mpi/mpi_internal.h"

#include <stdlib.h>

/* A send or receive argument list, as one of the forms gives it. */
struct side {
	const char *buf_arg, *count_arg, *type_arg;
	const void *buf;
	MPI_Count count;		/* unless there are counts */
	const void *counts, *displs;	/* NULL: one after the other */
	const MPI_Datatype *types;	/* w form: displacements are in bytes */
	MPI_Datatype type;
	bool large;
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

/* Section 2.6.3: what is received must not overlap what is sent. Seen where both begin at the same byte; parts of one array that
 * lie apart are right. */
static int check_overlap(struct hdl_comm *c, const char *call, const char *arg, const struct hdl_piece *a, const char *other_arg,
			 const struct hdl_piece *b)
{
	const char *at = (const char *)a->buf + a->type->true_lb;

	if (at != (const char *)b->buf + b->type->true_lb || !a->count || !b->count || !a->type->size || !b->type->size)
		return MPI_SUCCESS;
	return hdl_raise(c, MPI_ERR_BUFFER, call, "%s and %s are, at %p, the same buffer: use MPI_IN_PLACE", arg, other_arg,
			 (const void *)at);
}

/* Piece i. */
static int get_piece(struct hdl_comm *c, const char *call, const struct side *s, int i, struct hdl_piece *p)
{
	MPI_Count count = s->counts ? element(s->counts, s->large, i) : s->count, at = i, bytes;
	MPI_Datatype handle = s->types ? s->types[i] : s->type;
	struct hdl_type *t = hdl_type_get(handle);
	bool far = false;

	if (!t || !hdl_type_is_committed(t))
		return bad_type(c, call, s, i, handle);
	if (count < 0)
		return s->counts ? bad_element(c, call, s->count_arg, i, count) : hdl_bad_count(c, call, s->count_arg, count);
	if (!count)
		at = 0;		/* there is no place, whatever a displacement says */
	else if (s->displs)
		at = element(s->displs, s->large, i);
	else
		far = __builtin_mul_overflow(at, count, &at);
	if (!s->types)
		far |= __builtin_mul_overflow(at, hdl_type_extent(t), &at);
	if (far || __builtin_mul_overflow(count, hdl_type_size(t), &bytes))
		return hdl_raise(c, MPI_ERR_COUNT, call, "invalid %s: piece %d of %lld elements does not fit the address space",
				 s->count_arg, i, (long long)count);
	if (hdl_bad_buffer_at(s->buf, at, count, t))
		return hdl_bad_buffer_error(c, call, s->buf_arg, s->buf);
	*p = (struct hdl_piece){ (const char *)s->buf + at, count, t };

	return MPI_SUCCESS;
}

static int check_arrays(struct hdl_comm *c, const char *call, const struct side *s, const char *displs_arg, bool vector,
			bool each_type)
{
	if (vector && !s->counts)
		return hdl_null_arg(c, call, s->count_arg);
	if (vector && !s->displs)
		return hdl_null_arg(c, call, displs_arg);
	return each_type && !s->types ? hdl_null_arg(c, call, s->type_arg) : MPI_SUCCESS;
}

/* n pieces; *list is the caller's to free, whatever is returned. */
static int get_pieces(struct hdl_comm *c, const char *call, const struct side *s, int n, struct hdl_piece **list)
{
	int rc = MPI_SUCCESS;

	*list = calloc((size_t)n + 1, sizeof(**list));
	if (!*list)
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory for the list of %d pieces", n);
	for (int i = 0; i < n && !rc; i++)
		rc = get_piece(c, call, s, i, &(*list)[i]);
	return rc;
}

static int run(struct hdl_comm *c, const char *call, const struct hdl_pieces *a, MPI_Request *request)
{
	struct hdl_req *req = NULL;
	int rc;

	hdl_call = call;
	rc = hdl_coll_pieces(c, a, request ? &req : NULL);
	if (rc)
		return hdl_raise_class(c, rc, call);
	if (request)
		*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

/* comm, root (-1: none is needed), request of a nonblocking form. */
static int check_call(const char *call, MPI_Comm comm, struct hdl_comm *c, bool rooted, int root, bool blocking,
		      const MPI_Request *request)
{
	if (!c)
		return hdl_bad_coll_comm(call, comm);
	if (rooted && (unsigned)root >= (unsigned)c->size)
		return hdl_bad_rank(c, MPI_ERR_ROOT, call, "root", root);
	return !blocking && !request ? hdl_null_arg(c, call, "request") : MPI_SUCCESS;
}

/* Gather and gatherv: many is the root's receive side. Scatter and scatterv: many is the root's send side. */
static int rooted(const char *call, enum hdl_pieces_coll coll, const struct side *one, const struct side *many, bool vector,
		  int root, MPI_Comm comm, bool blocking, MPI_Request *request)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_piece mine, *list = NULL;
	struct hdl_pieces a = { .coll = coll, .root = root, .op = MPI_OP_NULL };
	int rc = check_call(call, comm, c, true, root, blocking, request), nmine = 1, nlist = 0;

	if (rc)
		return rc;
	a.in_place = c->rank == root && one->buf == MPI_IN_PLACE;
	if (a.in_place)
		nmine = 0;
	else
		rc = get_piece(c, call, one, 0, &mine);
	if (!rc && c->rank == root) {
		nlist = c->size;
		rc = check_arrays(c, call, many, "displs", vector, false);
		if (!rc)
			rc = get_pieces(c, call, many, nlist, &list);
		for (int i = 0; i < nlist && !rc && !a.in_place; i++)
			rc = check_overlap(c, call, one->buf_arg, &mine, many->buf_arg, &list[i]);
	}
	if (coll == HDL_P_GATHER) {
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
	if (!rc)
		rc = run(c, call, &a, blocking ? NULL : request);
	free(list);
	return rc;
}

/* Allgatherv, alltoallv, alltoallw. one: the send side is a single piece. */
static int exchange(const char *call, const struct side *send, bool one, const struct side *recv, bool each_type, MPI_Comm comm,
		    bool blocking, MPI_Request *request)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_piece mine, *in = NULL, *out = NULL;
	struct hdl_pieces a = { .coll = HDL_P_EXCHANGE, .op = MPI_OP_NULL };
	int rc = check_call(call, comm, c, false, 0, blocking, request);

	if (rc)
		return rc;
	a.in_place = send->buf == MPI_IN_PLACE;
	rc = check_arrays(c, call, recv, one ? "displs" : "rdispls", true, each_type);
	if (!rc)
		rc = get_pieces(c, call, recv, c->size, &out);
	if (!rc && !a.in_place && one) {
		rc = get_piece(c, call, send, 0, &mine);
	} else if (!rc && !a.in_place) {
		rc = check_arrays(c, call, send, "sdispls", true, each_type);
		if (!rc)
			rc = get_pieces(c, call, send, c->size, &in);
	}
	for (int i = 0; i < c->size && !rc && !a.in_place; i++)
		rc = check_overlap(c, call, send->buf_arg, one ? &mine : &in[i], recv->buf_arg, &out[i]);
	if (!rc) {
		if (a.in_place && one)
			mine = out[c->rank];
		a.in = one ? &mine : a.in_place ? out : in;
		a.nin = one ? 1 : c->size;
		a.out = out;
		a.nout = c->size;
		rc = run(c, call, &a, blocking ? NULL : request);
	}
	free(in);
	free(out);
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

/* One vector in, result out where this rank gets one. n elements in, m out. */
static int reduction(const char *call, struct hdl_comm *c, struct hdl_pieces *a, const char *count_arg, const void *sendbuf,
		     void *recvbuf, MPI_Count n, MPI_Count m, MPI_Datatype datatype, bool gets, MPI_Request *request)
{
	const struct side send = { "sendbuf", count_arg, "datatype", sendbuf == MPI_IN_PLACE && gets ? recvbuf : sendbuf, n,
				   .type = datatype };
	const struct side recv = { "recvbuf", count_arg, "datatype", recvbuf, m, .type = datatype };
	struct hdl_piece in, out;
	int rc = get_piece(c, call, &send, 0, &in);

	a->in_place = gets && sendbuf == MPI_IN_PLACE;
	if (!rc && gets)
		rc = get_piece(c, call, &recv, 0, &out);
	if (!rc && gets && !a->in_place)
		rc = check_overlap(c, call, "sendbuf", &in, "recvbuf", &out);
	if (rc)
		return rc;
	a->type = in.type;
	a->in = &in;
	a->nin = 1;
	a->out = &out;
	a->nout = gets;
	return run(c, call, a, request);
}

int hdl_reduce_by_user(const char *call, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
		       bool all, int root, MPI_Comm comm, bool blocking, MPI_Request *request)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_pieces a = { .coll = all ? HDL_P_ALLREDUCE : HDL_P_REDUCE, .root = root, .op = op };
	int rc = check_call(call, comm, c, !all, root, blocking, request);

	if (!rc)
		rc = check_reduction(c, call, datatype, op);
	return rc ? rc : reduction(call, c, &a, "count", sendbuf, recvbuf, count, count, datatype, all || c->rank == root,
				   blocking ? NULL : request);
}

static int scan(const char *call, bool inclusive, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
		MPI_Op op, MPI_Comm comm, bool blocking, MPI_Request *request)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_pieces a = { .coll = inclusive ? HDL_P_SCAN : HDL_P_EXSCAN, .op = op };
	int rc;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	rc = check_call(call, comm, c, false, 0, blocking, request);
	if (!rc)
		rc = check_reduction(c, call, datatype, op);
	/* MPI_Exscan leaves rank 0's recvbuf alone (section 6.11.2), unless that is where rank 0's contribution is */
	return rc ? rc : reduction(call, c, &a, "count", sendbuf, recvbuf, count, count, datatype,
				   inclusive || c->rank || sendbuf == MPI_IN_PLACE, blocking ? NULL : request);
}

static int reduce_scatter_block(const char *call, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
				MPI_Op op, MPI_Comm comm, bool blocking, MPI_Request *request)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_pieces a = { .coll = HDL_P_REDUCE_SCATTER, .op = op, .count = count };
	int rc = check_call(call, comm, c, false, 0, blocking, request);
	MPI_Count all;

	if (!rc)
		rc = check_reduction(c, call, datatype, op);
	if (!rc && count < 0)
		rc = hdl_bad_count(c, call, "recvcount", count);
	if (!rc && __builtin_mul_overflow(count, (MPI_Count)c->size, &all))
		rc = hdl_raise(c, MPI_ERR_COUNT, call, "invalid recvcount %lld: %d times so many elements do not fit the address space",
			       (long long)count, c->size);
	return rc ? rc : reduction(call, c, &a, "recvcount", sendbuf, recvbuf, all, count, datatype, true, blocking ? NULL : request);
}

static int reduce_scatter(const char *call, const void *sendbuf, void *recvbuf, const void *counts, bool large,
			  MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, bool blocking, MPI_Request *request)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_pieces a = { .coll = HDL_P_REDUCE_SCATTER, .op = op };
	int rc = check_call(call, comm, c, false, 0, blocking, request);
	MPI_Count all = 0, *copy;

	if (!rc)
		rc = check_reduction(c, call, datatype, op);
	if (!rc && !counts)
		rc = hdl_null_arg(c, call, "recvcounts");
	if (rc)
		return rc;
	copy = calloc((size_t)c->size, sizeof(*copy));
	if (!copy)
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory for %d counts", c->size);
	for (int i = 0; i < c->size && !rc; i++) {
		copy[i] = element(counts, large, i);
		if (copy[i] < 0)
			rc = bad_element(c, call, "recvcounts", i, copy[i]);
		else if (__builtin_add_overflow(all, copy[i], &all))
			rc = hdl_raise(c, MPI_ERR_COUNT, call, "invalid recvcounts: their sum does not fit 63 bits");
	}
	a.counts = copy;
	if (!rc)
		rc = reduction(call, c, &a, "recvcounts", sendbuf, recvbuf, all, copy[c->rank], datatype, true, blocking ? NULL : request);
	free(copy);
	return rc;
}

/* ---- the functions of the standard --------------------------------------------------------------------- */

#define FORM(_c, Count)												\
int PMPI_Gather##_c(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,	\
		    MPI_Datatype recvtype, int root, MPI_Comm comm)						\
{														\
	HDL_LOCKED;												\
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };	\
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };	\
														\
	return rooted("MPI_Gather" #_c, HDL_P_GATHER, &send, &recv, false, root, comm, true, NULL);		\
}														\
HDL_PROFILED(Gather##_c);											\
														\
int PMPI_Igather##_c(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf,		\
		     Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request)	\
{														\
	HDL_LOCKED;												\
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };	\
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };	\
														\
	return rooted("MPI_Igather" #_c, HDL_P_GATHER, &send, &recv, false, root, comm, false, request);	\
}														\
HDL_PROFILED(Igather##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

int PMPI_Gatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		 const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs,
		.type = recvtype, .large = false };

	return rooted("MPI_Gatherv", HDL_P_GATHER, &send, &recv, true, root, comm, true, NULL);
}
HDL_PROFILED(Gatherv);

int PMPI_Gatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
		   const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype, int root,
		   MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs,
		.type = recvtype, .large = true };

	return rooted("MPI_Gatherv_c", HDL_P_GATHER, &send, &recv, true, root, comm, true, NULL);
}
HDL_PROFILED(Gatherv_c);

int PMPI_Igatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		  const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs,
		.type = recvtype, .large = false };

	return rooted("MPI_Igatherv", HDL_P_GATHER, &send, &recv, true, root, comm, false, request);
}
HDL_PROFILED(Igatherv);

int PMPI_Igatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
		    const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype, int root,
		    MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs,
		.type = recvtype, .large = true };

	return rooted("MPI_Igatherv_c", HDL_P_GATHER, &send, &recv, true, root, comm, false, request);
}
HDL_PROFILED(Igatherv_c);

#define FORM(_c, Count)												\
int PMPI_Scatter##_c(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf,		\
		     Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)				\
{														\
	HDL_LOCKED;												\
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };	\
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };	\
														\
	return rooted("MPI_Scatter" #_c, HDL_P_SCATTER, &recv, &send, false, root, comm, true, NULL);		\
}														\
HDL_PROFILED(Scatter##_c);											\
														\
int PMPI_Iscatter##_c(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf,		\
		      Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request)	\
{														\
	HDL_LOCKED;												\
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };	\
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };	\
														\
	return rooted("MPI_Iscatter" #_c, HDL_P_SCATTER, &recv, &send, false, root, comm, false, request);	\
}														\
HDL_PROFILED(Iscatter##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

int PMPI_Scatterv(const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,
		  void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, displs,
		.type = sendtype, .large = false };
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };

	return rooted("MPI_Scatterv", HDL_P_SCATTER, &recv, &send, true, root, comm, true, NULL);
}
HDL_PROFILED(Scatterv);

int PMPI_Scatterv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[], MPI_Datatype sendtype,
		    void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, displs,
		.type = sendtype, .large = true };
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };

	return rooted("MPI_Scatterv_c", HDL_P_SCATTER, &recv, &send, true, root, comm, true, NULL);
}
HDL_PROFILED(Scatterv_c);

int PMPI_Iscatterv(const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,
		   void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, displs,
		.type = sendtype, .large = false };
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };

	return rooted("MPI_Iscatterv", HDL_P_SCATTER, &recv, &send, true, root, comm, false, request);
}
HDL_PROFILED(Iscatterv);

int PMPI_Iscatterv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[],
		     MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
		     MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, displs,
		.type = sendtype, .large = true };
	const struct side recv = { "recvbuf", "recvcount", "recvtype", recvbuf, recvcount, .type = recvtype };

	return rooted("MPI_Iscatterv_c", HDL_P_SCATTER, &recv, &send, true, root, comm, false, request);
}
HDL_PROFILED(Iscatterv_c);

int PMPI_Allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		    const int displs[], MPI_Datatype recvtype, MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs,
		.type = recvtype, .large = false };

	return exchange("MPI_Allgatherv", &send, true, &recv, false, comm, true, NULL);
}
HDL_PROFILED(Allgatherv);

int PMPI_Allgatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
		      const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs,
		.type = recvtype, .large = true };

	return exchange("MPI_Allgatherv_c", &send, true, &recv, false, comm, true, NULL);
}
HDL_PROFILED(Allgatherv_c);

int PMPI_Iallgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
		     const int displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs,
		.type = recvtype, .large = false };

	return exchange("MPI_Iallgatherv", &send, true, &recv, false, comm, false, request);
}
HDL_PROFILED(Iallgatherv);

int PMPI_Iallgatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
		       const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm,
		       MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcount", "sendtype", sendbuf, sendcount, .type = sendtype };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, displs,
		.type = recvtype, .large = true };

	return exchange("MPI_Iallgatherv_c", &send, true, &recv, false, comm, false, request);
}
HDL_PROFILED(Iallgatherv_c);

int PMPI_Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
		   void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, sdispls,
		.type = sendtype, .large = false };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, rdispls,
		.type = recvtype, .large = false };

	return exchange("MPI_Alltoallv", &send, false, &recv, false, comm, true, NULL);
}
HDL_PROFILED(Alltoallv);

int PMPI_Alltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
		     MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
		     MPI_Datatype recvtype, MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, sdispls,
		.type = sendtype, .large = true };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, rdispls,
		.type = recvtype, .large = true };

	return exchange("MPI_Alltoallv_c", &send, false, &recv, false, comm, true, NULL);
}
HDL_PROFILED(Alltoallv_c);

int PMPI_Ialltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
		    void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
		    MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, sdispls,
		.type = sendtype, .large = false };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, rdispls,
		.type = recvtype, .large = false };

	return exchange("MPI_Ialltoallv", &send, false, &recv, false, comm, false, request);
}
HDL_PROFILED(Ialltoallv);

int PMPI_Ialltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
		      MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
		      MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtype", sendbuf, 0, sendcounts, sdispls,
		.type = sendtype, .large = true };
	const struct side recv = { "recvbuf", "recvcounts", "recvtype", recvbuf, 0, recvcounts, rdispls,
		.type = recvtype, .large = true };

	return exchange("MPI_Ialltoallv_c", &send, false, &recv, false, comm, false, request);
}
HDL_PROFILED(Ialltoallv_c);

int PMPI_Alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
		   void *recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[],
		   MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtypes", sendbuf, 0, sendcounts, sdispls, sendtypes,
		.large = false };
	const struct side recv = { "recvbuf", "recvcounts", "recvtypes", recvbuf, 0, recvcounts, rdispls, recvtypes,
		.large = false };

	return exchange("MPI_Alltoallw", &send, false, &recv, true, comm, true, NULL);
}
HDL_PROFILED(Alltoallw);

int PMPI_Alltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
		     const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
		     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtypes", sendbuf, 0, sendcounts, sdispls, sendtypes,
		.large = true };
	const struct side recv = { "recvbuf", "recvcounts", "recvtypes", recvbuf, 0, recvcounts, rdispls, recvtypes,
		.large = true };

	return exchange("MPI_Alltoallw_c", &send, false, &recv, true, comm, true, NULL);
}
HDL_PROFILED(Alltoallw_c);

int PMPI_Ialltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
		    void *recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[],
		    MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtypes", sendbuf, 0, sendcounts, sdispls, sendtypes,
		.large = false };
	const struct side recv = { "recvbuf", "recvcounts", "recvtypes", recvbuf, 0, recvcounts, rdispls, recvtypes,
		.large = false };

	return exchange("MPI_Ialltoallw", &send, false, &recv, true, comm, false, request);
}
HDL_PROFILED(Ialltoallw);

int PMPI_Ialltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
		      const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
		      const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request *request)
{
	HDL_LOCKED;
	const struct side send = { "sendbuf", "sendcounts", "sendtypes", sendbuf, 0, sendcounts, sdispls, sendtypes,
		.large = true };
	const struct side recv = { "recvbuf", "recvcounts", "recvtypes", recvbuf, 0, recvcounts, rdispls, recvtypes,
		.large = true };

	return exchange("MPI_Ialltoallw_c", &send, false, &recv, true, comm, false, request);
}
HDL_PROFILED(Ialltoallw_c);

#define FORM(_c, Count, large)											\
int PMPI_Scan##_c(const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op,		\
		  MPI_Comm comm)										\
{														\
	HDL_LOCKED;												\
	return scan("MPI_Scan" #_c, true, sendbuf, recvbuf, count, datatype, op, comm, true, NULL);		\
}														\
HDL_PROFILED(Scan##_c);												\
														\
int PMPI_Iscan##_c(const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op,		\
		   MPI_Comm comm, MPI_Request *request)								\
{														\
	HDL_LOCKED;												\
	return scan("MPI_Iscan" #_c, true, sendbuf, recvbuf, count, datatype, op, comm, false, request);	\
}														\
HDL_PROFILED(Iscan##_c);											\
														\
int PMPI_Exscan##_c(const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op,		\
		    MPI_Comm comm)										\
{														\
	HDL_LOCKED;												\
	return scan("MPI_Exscan" #_c, false, sendbuf, recvbuf, count, datatype, op, comm, true, NULL);		\
}														\
HDL_PROFILED(Exscan##_c);											\
														\
int PMPI_Iexscan##_c(const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op,		\
		     MPI_Comm comm, MPI_Request *request)							\
{														\
	HDL_LOCKED;												\
	return scan("MPI_Iexscan" #_c, false, sendbuf, recvbuf, count, datatype, op, comm, false, request);	\
}														\
HDL_PROFILED(Iexscan##_c);											\
														\
int PMPI_Reduce_scatter_block##_c(const void *sendbuf, void *recvbuf, Count recvcount, MPI_Datatype datatype,	\
				  MPI_Op op, MPI_Comm comm)							\
{														\
	HDL_LOCKED;												\
	return reduce_scatter_block("MPI_Reduce_scatter_block" #_c, sendbuf, recvbuf, recvcount, datatype, op, comm, true,	\
		NULL);												\
}														\
HDL_PROFILED(Reduce_scatter_block##_c);										\
														\
int PMPI_Ireduce_scatter_block##_c(const void *sendbuf, void *recvbuf, Count recvcount, MPI_Datatype datatype,	\
				   MPI_Op op, MPI_Comm comm, MPI_Request *request)				\
{														\
	HDL_LOCKED;												\
	return reduce_scatter_block("MPI_Ireduce_scatter_block" #_c, sendbuf, recvbuf, recvcount, datatype, op, comm,	\
		false, request);										\
}														\
HDL_PROFILED(Ireduce_scatter_block##_c);									\
														\
int PMPI_Reduce_scatter##_c(const void *sendbuf, void *recvbuf, const Count recvcounts[], MPI_Datatype datatype,	\
			    MPI_Op op, MPI_Comm comm)								\
{														\
	HDL_LOCKED;												\
	return reduce_scatter("MPI_Reduce_scatter" #_c, sendbuf, recvbuf, recvcounts, large, datatype, op, comm, true,	\
		NULL);												\
}														\
HDL_PROFILED(Reduce_scatter##_c);										\
														\
int PMPI_Ireduce_scatter##_c(const void *sendbuf, void *recvbuf, const Count recvcounts[],			\
			     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request *request)		\
{														\
	HDL_LOCKED;												\
	return reduce_scatter("MPI_Ireduce_scatter" #_c, sendbuf, recvbuf, recvcounts, large, datatype, op, comm, false,	\
		request);											\
}														\
HDL_PROFILED(Ireduce_scatter##_c);

FORM(, int, false)
FORM(_c, MPI_Count, true)
#undef FORM
