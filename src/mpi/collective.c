/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective communication (MPI-5.0 chapter 6). Each function fills in hdl_coll_args, which are checked. Blocking, nonblocking
 * and persistent forms, int and MPI_Count forms share one path. vcoll.c has intercommunicators.
 */
#include "mpi/info.h"
#include "mpi/mpi_internal.h"

/* ---- argument checks ----------------------------------------------------------------------------------- */

static cold int check_type(struct hdl_comm *c, const char *call, const char *arg, MPI_Datatype handle)
{
	struct hdl_type *t = hdl_type_get(handle);

	return !t || !hdl_type_is_committed(t) ? hdl_bad_type(c, call, arg, handle) : MPI_SUCCESS;
}

static inline int check_data(struct hdl_comm *c, const char *call, const char *buf_arg, const void *buf,
			     const char *count_arg,
			     MPI_Count count, const char *type_arg, MPI_Datatype handle, const struct hdl_type *t)
{
	MPI_Count bytes;

	if (unlikely(!t || !hdl_type_is_committed(t)))
		return check_type(c, call, type_arg, handle);
	if (unlikely(count < 0))
		return hdl_bad_count(c, call, count_arg, count);
	if (unlikely(__builtin_mul_overflow(count, t->size, &bytes)))
		return hdl_raise(c, MPI_ERR_COUNT, call, "invalid %s %lld: so many elements of %lld bytes do not fit "
				 "the address space", count_arg, (long long)count, (long long)t->size);
	if (hdl_bad_buffer(buf, count, t))
		return hdl_bad_buffer_error(c, call, buf_arg, buf);
	return MPI_SUCCESS;
}

static inline int coll_check_root(struct hdl_comm *c, const char *call, int root)
{
	if (unlikely((unsigned)root >= (unsigned)c->size))
		return hdl_bad_rank(c, MPI_ERR_ROOT, call, "root", root);
	return MPI_SUCCESS;
}

/* Section 2.6.3: buffers must not overlap. Finds the common mistake, one buffer passed twice. */
static inline int check_alias(struct hdl_comm *c, const char *call, const void *sendbuf, const struct hdl_type *st,
			      const void *recvbuf, const struct hdl_type *rt, MPI_Count bytes)
{
	if (unlikely((const char *)sendbuf + st->true_lb == (const char *)recvbuf + rt->true_lb) && bytes)
		return hdl_raise(c, MPI_ERR_BUFFER, call,
				 "sendbuf and recvbuf are the same buffer (%p): use MPI_IN_PLACE", recvbuf);
	return MPI_SUCCESS;
}

/* Checks that n elements of `each` bytes fit the address space. */
static inline int check_fits(struct hdl_comm *c, const char *call, const char *count_arg, MPI_Count count, MPI_Count n,
			     MPI_Count each, const char *what)
{
	MPI_Count bytes, all;

	if (unlikely(__builtin_mul_overflow(count, each, &bytes) || __builtin_mul_overflow(bytes, n, &all)))
		return hdl_raise(c, MPI_ERR_COUNT, call, "invalid %s %lld: %lld times so many elements of %lld bytes (%s) do not "
				 "fit the address space", count_arg, (long long)count, (long long)n, (long long)each, what);
	return MPI_SUCCESS;
}

/* Checks one block for each rank, an extent apart; an extent may be less than the size, and negative. */
static inline int check_blocks(struct hdl_comm *c, const char *call, const char *count_arg, MPI_Count count,
			       const struct hdl_type *t)
{
	int rc = check_fits(c, call, count_arg, count, c->size, t->size, "once for each rank");

	return rc ? rc : check_fits(c, call, count_arg, count, c->size, hdl_type_extent(t), "the type's extent");
}

static inline int coll_run(struct hdl_comm *c, const char *call, const struct hdl_coll_args *args, const struct hdl_form *form)
{
	struct hdl_req *req = NULL;
	int rc;

	hdl_call = call;
	if (!form)
		rc = hdl_coll_run(c, args);
	else
		rc = form->persistent ? hdl_coll_prepare(c, args, &req) : hdl_coll_start(c, args, &req);
	if (unlikely(rc))
		return hdl_raise_class(c, rc, call);
	if (form)
		*form->request = (MPI_Request)req;
	return MPI_SUCCESS;
}

static inline int check_form(struct hdl_comm *c, const char *call, const struct hdl_form *form)
{
	return form ? hdl_check_form(c, call, form) : MPI_SUCCESS;
}

/* ---- one path per collective ---------------------------------------------------------------------------- */

static int barrier(const char *call, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	const struct hdl_coll_args args = { .coll = HDL_BARRIER, .op = MPI_OP_NULL };
	int rc;

	if (unlikely(!c))
		return hdl_vcoll_barrier(call, comm, form);
	rc = check_form(c, call, form);
	return unlikely(rc) ? hdl_refused(c, rc) : coll_run(c, call, &args, form);
}

static int bcast(const char *call, void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
		 const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	struct hdl_coll_args args;
	int rc;

	if (unlikely(!c))
		return hdl_vcoll_bcast(call, buffer, count, datatype, root, comm, form);
	rc = check_data(c, call, "buffer", buffer, "count", count, "datatype", datatype, t);
	if (!rc)
		rc = coll_check_root(c, call, root);
	if (!rc)
		rc = check_form(c, call, form);
	if (unlikely(rc))
		return hdl_refused(c, rc);
	args = (struct hdl_coll_args){ .coll = HDL_BCAST, .sendbuf = buffer, .recvbuf = buffer, .sendcount = count,
				       .recvcount = count, .sendtype = t, .recvtype = t, .op = MPI_OP_NULL,
				       .root = root };
	return coll_run(c, call, &args, form);
}

/* MPI_Reduce and MPI_Allreduce. all: every rank gets the result. */
static int reduce(const char *call, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
		  MPI_Op op,
		  bool all, int root, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	struct hdl_coll_args args;
	bool gets;
	int rc;

	if (unlikely(!c || hdl_op_get(op)))
		return hdl_vcoll_reduce(call, sendbuf, recvbuf, count, datatype, op, all, root, comm, form);
	rc = all ? MPI_SUCCESS : coll_check_root(c, call, root);
	if (unlikely(rc))
		return hdl_refused(c, rc);
	gets = all || c->rank == root;
	/* Only a rank that gets the result may pass MPI_IN_PLACE. */
	rc = check_data(c, call, "sendbuf", gets && sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, "count", count,
			"datatype",
			datatype, t);
	if (!rc && unlikely(!hdl_op_valid(op, t)))
		rc = hdl_bad_op(c, call, op, t);
	if (!rc && gets && hdl_bad_buffer(recvbuf, count, t))
		rc = hdl_bad_buffer_error(c, call, "recvbuf", recvbuf);
	if (!rc)
		rc = check_fits(c, call, "count", count, 1, hdl_type_extent(t), "the type's extent");
	/* one buffer for both at the root is taken as MPI_IN_PLACE. The other ranks do not know the root's arguments, and
	 * would go on if the root refused the call */
	if (!all && gets && sendbuf == recvbuf)
		sendbuf = MPI_IN_PLACE;
	if (!rc && gets)
		rc = check_alias(c, call, sendbuf, t, recvbuf, t, count * t->size);
	if (!rc)
		rc = check_form(c, call, form);
	if (unlikely(rc))
		return hdl_refused(c, rc);
	args = (struct hdl_coll_args){ .coll = all ? HDL_ALLREDUCE : HDL_REDUCE, .sendbuf = sendbuf, .recvbuf = recvbuf,
				       .sendcount = count, .recvcount = count, .sendtype = t, .recvtype = t, .op = op,
				       .root = root };
	return coll_run(c, call, &args, form);
}

/* MPI_Allgather and MPI_Alltoall: sendcount elements for each peer, recvcount from each. With MPI_IN_PLACE the send arguments are
 * not significant, and are set to the receive arguments. */
static int coll_exchange(const char *call, enum hdl_coll coll, const void *sendbuf, MPI_Count sendcount,
		    MPI_Datatype sendtype,
		    void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_type *rt = hdl_type_get(recvtype), *st;
	struct hdl_coll_args args;
	int rc;

	if (unlikely(!c))
		return hdl_vcoll_exchange(call, coll == HDL_ALLGATHER, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
					   comm, form);
	rc = check_data(c, call, "recvbuf", recvbuf, "recvcount", recvcount, "recvtype", recvtype, rt);
	if (!rc)
		rc = check_blocks(c, call, "recvcount", recvcount, rt);
	if (unlikely(rc))
		return hdl_refused(c, rc);
	if (sendbuf == MPI_IN_PLACE) {
		st = rt;
		sendcount = recvcount;
	} else {
		st = hdl_type_get(sendtype);
		rc = check_data(c, call, "sendbuf", sendbuf, "sendcount", sendcount, "sendtype", sendtype, st);
		if (!rc && unlikely(sendcount * st->size != recvcount * rt->size))
			rc = hdl_raise(c, MPI_ERR_COUNT, call,
				       "invalid sendcount %lld, recvcount %lld: each rank sends %lld bytes to "
				       "a rank, but receives %lld from one", (long long)sendcount, (long long)recvcount,
				       (long long)(sendcount * st->size), (long long)(recvcount * rt->size));
		if (!rc)
			rc = check_alias(c, call, sendbuf, st, recvbuf, rt, recvcount * rt->size);
		if (!rc && coll == HDL_ALLTOALL)
			rc = check_blocks(c, call, "sendcount", sendcount, st);
		/* the rank's own block of an allgather is in the result */
		if (!rc && coll == HDL_ALLGATHER)
			rc = check_alias(c, call, sendbuf, st, (char *)recvbuf + c->rank * recvcount * hdl_type_extent(rt), rt,
					 recvcount * rt->size);
	}
	if (!rc)
		rc = check_form(c, call, form);
	if (unlikely(rc))
		return hdl_refused(c, rc);
	args = (struct hdl_coll_args){ .coll = coll, .sendbuf = sendbuf, .recvbuf = recvbuf, .sendcount = sendcount,
				       .recvcount = recvcount, .sendtype = st, .recvtype = rt, .op = MPI_OP_NULL };
	return coll_run(c, call, &args, form);
}

/* Returns true if only vcoll.c can do it: intercommunicators, and HEDDLE_CHECK's comparison among ranks. */
static inline bool by_vcoll(const struct hdl_comm *c)
{
	return unlikely(!c || hdl_vars.check);
}

/* MPI_Gather and MPI_Scatter. Each rank has one block, and the root all of them. Arguments that are not significant at this
 * rank are set to the significant ones. */
static int coll_rooted(const char *call, bool gather, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
		       void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
		       const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_type *st = hdl_type_get(sendtype), *rt = hdl_type_get(recvtype);
	struct hdl_coll_args args;
	bool is_root, in_place, sends, gets;
	int rc;

	if (by_vcoll(c))
		return hdl_vcoll_rooted(call, gather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
					form);
	rc = coll_check_root(c, call, root);
	if (!rc)
		rc = check_form(c, call, form);
	if (unlikely(rc))
		return rc;
	is_root = c->rank == root;
	in_place = is_root && (gather ? sendbuf : recvbuf) == MPI_IN_PLACE;
	sends = gather ? !in_place : is_root;
	gets = gather ? is_root : !in_place;
	if (sends)
		rc = check_data(c, call, "sendbuf", sendbuf, "sendcount", sendcount, "sendtype", sendtype, st);
	if (!rc && gets)
		rc = check_data(c, call, "recvbuf", recvbuf, "recvcount", recvcount, "recvtype", recvtype, rt);
	if (!rc && is_root)
		rc = gather ? check_blocks(c, call, "recvcount", recvcount, rt) :
			      check_blocks(c, call, "sendcount", sendcount, st);
	if (unlikely(rc))
		return rc;
	args = (struct hdl_coll_args){ .coll = gather ? HDL_GATHER : HDL_SCATTER, .sendbuf = sendbuf, .recvbuf = recvbuf,
				       .sendcount = sends ? sendcount : recvcount, .recvcount = gets ? recvcount : sendcount,
				       .sendtype = sends ? st : rt, .recvtype = gets ? rt : st, .op = MPI_OP_NULL, .root = root };
	if (is_root && !in_place) {
		/* the root's own block may lie among all blocks */
		MPI_Count step = gather ? recvcount * hdl_type_extent(rt) : sendcount * hdl_type_extent(st);
		MPI_Count away = (const char *)sendbuf + st->true_lb - ((const char *)recvbuf + rt->true_lb);

		away = gather ? away : -away;
		if (unlikely(step > 0 && away >= 0 && away % step == 0 && away / step < c->size))
			rc = check_alias(c, call, recvbuf, rt, recvbuf, rt, gather ? recvcount * rt->size : sendcount * st->size);
		if (unlikely(rc))
			return rc;
	}
	return coll_run(c, call, &args, form);
}

/* MPI_Scan, MPI_Exscan, MPI_Reduce_scatter_block: count elements out, n times as many in. */
static int reduce_part(const char *call, enum hdl_coll coll, const char *count_arg, const void *sendbuf, void *recvbuf,
		       MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, const struct hdl_form *form)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_type *t = hdl_type_get(datatype);
	struct hdl_coll_args args;
	bool in_place, gets;
	MPI_Count n;
	int rc;

	if (by_vcoll(c) || unlikely(hdl_op_get(op)))
		return hdl_vcoll_reduce_part(call, coll, sendbuf, recvbuf, count, datatype, op, comm, form);
	/* Rank 0's recvbuf is not significant (section 6.11.2), so rank 0 cannot refuse one buffer for both as the other ranks
	 * could. It is taken as MPI_IN_PLACE on all ranks. */
	if (coll == HDL_EXSCAN && c->rank && sendbuf == recvbuf)
		sendbuf = MPI_IN_PLACE;
	in_place = sendbuf == MPI_IN_PLACE;
	/* MPI_Exscan does not write rank 0's recvbuf, unless rank 0's contribution lies there */
	gets = coll != HDL_EXSCAN || c->rank || in_place;
	n = coll == HDL_REDUCE_SCATTER ? c->size : 1;
	rc = check_data(c, call, "sendbuf", in_place ? recvbuf : sendbuf, count_arg, count, "datatype", datatype, t);
	if (!rc && unlikely(!hdl_op_valid(op, t)))
		rc = hdl_bad_op(c, call, op, t);
	if (!rc && gets && hdl_bad_buffer(recvbuf, count, t))
		rc = hdl_bad_buffer_error(c, call, "recvbuf", recvbuf);
	if (!rc)
		rc = check_fits(c, call, count_arg, count, n, hdl_type_extent(t), "the type's extent");
	if (!rc && gets && !in_place)
		rc = check_alias(c, call, sendbuf, t, recvbuf, t, count * t->size);
	if (!rc)
		rc = check_form(c, call, form);
	if (unlikely(rc))
		return rc;
	args = (struct hdl_coll_args){ .coll = coll, .sendbuf = sendbuf, .recvbuf = recvbuf, .sendcount = count * n,
				       .recvcount = count, .sendtype = t, .recvtype = t, .op = op };
	return coll_run(c, call, &args, form);
}

/* ---- the functions of the standard --------------------------------------------------------------------- */

HDL_COLLECTIVE(Barrier, barrier, , (MPI_Comm comm), barrier(call, comm, form))

#define FORM(_c, Count)												\
HDL_COLLECTIVE(Bcast, bcast, _c,										\
	(void *buffer, Count count, MPI_Datatype datatype, int root, MPI_Comm comm),				\
	bcast(call, buffer, count, datatype, root, comm, form))							\
HDL_COLLECTIVE(Reduce, reduce, _c,										\
	(const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm),	\
	reduce(call, sendbuf, recvbuf, count, datatype, op, false, root, comm, form))				\
HDL_COLLECTIVE(Allreduce, allreduce, _c,									\
	(const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm),	\
	reduce(call, sendbuf, recvbuf, count, datatype, op, true, 0, comm, form))				\
HDL_COLLECTIVE(Allgather, allgather, _c,									\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,		\
	 MPI_Datatype recvtype, MPI_Comm comm),									\
	coll_exchange(call, HDL_ALLGATHER, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, form))	\
HDL_COLLECTIVE(Alltoall, alltoall, _c,										\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,		\
	 MPI_Datatype recvtype, MPI_Comm comm),									\
	coll_exchange(call, HDL_ALLTOALL, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, form))	\
HDL_COLLECTIVE(Gather, gather, _c,										\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,		\
	 MPI_Datatype recvtype, int root, MPI_Comm comm),							\
	coll_rooted(call, true, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, form))	\
HDL_COLLECTIVE(Scatter, scatter, _c,										\
	(const void *sendbuf, Count sendcount, MPI_Datatype sendtype, void *recvbuf, Count recvcount,		\
	 MPI_Datatype recvtype, int root, MPI_Comm comm),							\
	coll_rooted(call, false, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, form))	\
HDL_COLLECTIVE(Scan, scan, _c,											\
	(const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm),	\
	reduce_part(call, HDL_SCAN, "count", sendbuf, recvbuf, count, datatype, op, comm, form))		\
HDL_COLLECTIVE(Exscan, exscan, _c,										\
	(const void *sendbuf, void *recvbuf, Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm),	\
	reduce_part(call, HDL_EXSCAN, "count", sendbuf, recvbuf, count, datatype, op, comm, form))		\
HDL_COLLECTIVE(Reduce_scatter_block, reduce_scatter_block, _c,							\
	(const void *sendbuf, void *recvbuf, Count recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm),	\
	reduce_part(call, HDL_REDUCE_SCATTER, "recvcount", sendbuf, recvbuf, recvcount, datatype, op, comm, form))

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM
