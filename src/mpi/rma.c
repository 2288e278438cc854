/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on windows (MPI-5.0 section 12.3): checks of arguments and epochs. The path of a put or a get of memory that is
 * mapped here, with equal contiguous types, is inline: no call, no allocation, no operation object.
 */
#include "mpi/win.h"

#include <string.h>

/* ---- arguments --------------------------------------------------------------------------------------------- */

/* Checks one buffer. */
static int rma_buffer_check(struct hdl_win *w, const char *call, const char *name, const void *buf, MPI_Count count,
			    MPI_Datatype handle, const struct hdl_type **type)
{
	struct hdl_type *t = hdl_type_get(handle);

	if (count < 0)
		return hdl_win_raise(w, MPI_ERR_COUNT, call, "invalid %s_count %lld: it must not be negative", name,
				     (long long)count);
	if (!t)
		return hdl_win_raise(w, MPI_ERR_TYPE, call, "invalid %s_datatype: %s", name,
				     handle == MPI_DATATYPE_NULL ? "MPI_DATATYPE_NULL" :
								   "the handle is no datatype of this library, or was freed");
	if (!t->committed)
		return hdl_win_raise(w, MPI_ERR_TYPE, call, "invalid %s_datatype: it is not committed (MPI_Type_commit)", name);
	if (hdl_bad_buffer(buf, count, t))
		return hdl_win_raise(w, MPI_ERR_BUFFER, call, "invalid %s_addr: %s", name,
				     buf ? "MPI_IN_PLACE is not allowed here" : "a null pointer, and there is data to move");
	*type = t;
	return MPI_SUCCESS;
}

static int check_target_type(struct hdl_win *w, const char *call, MPI_Count count, MPI_Datatype handle,
			     const struct hdl_type **type)
{
	/* any address: the window has its own */
	return rma_buffer_check(w, call, "target", (const void *)(uintptr_t)4096, count, handle, type);
}

/* Finds the target of an operation, and checks the epoch. *t NULL and MPI_SUCCESS: MPI_PROC_NULL. */
static int check_target(struct hdl_win *w, const char *call, int rank, bool request, struct hdl_target **t)
{
	int next;

	*t = NULL;
	if (rank == MPI_PROC_NULL)
		return MPI_SUCCESS;
	if (rank < 0 || rank >= w->size)
		return hdl_win_bad_rank(w, call, "target_rank", rank);
	next = hdl_epoch_next(w->epoch, w->exposed, request ? HDL_CALL_REQUEST : HDL_CALL_OPERATION);
	if (next < 0)
		return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call, "%s: %s", request ? "a request needs an epoch of MPI_Win_lock or "
				     "MPI_Win_lock_all" : "an operation needs an epoch", hdl_epoch_text(w->epoch, w->exposed));
	*t = hdl_target_of(w, rank);
	if (!*t)
		return hdl_win_raise(w, MPI_ERR_NO_MEM, call, "out of memory for a rank of a window");
	if ((w->epoch == HDL_EPOCH_STARTED || w->epoch == HDL_EPOCH_LOCKED) && !(*t)->open) {
		*t = NULL;
		return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call, "rank %d is not among those that %s has named", rank,
				     w->epoch == HDL_EPOCH_STARTED ? "MPI_Win_start" : "MPI_Win_lock");
	}
	w->epoch = (uint8_t)next;
	if (next == HDL_EPOCH_FENCE_USED)
		w->open_all = true;
	return MPI_SUCCESS;
}

/* Both sides must have as many bytes: their signatures are equal then, or the program is in error in a way that does no harm. */
static int check_sizes(struct hdl_win *w, const char *call, const struct hdl_rma_args *a)
{
	size_t origin, target;

	if (__builtin_mul_overflow((size_t)a->count, (size_t)a->type->size, &origin) ||
	    __builtin_mul_overflow((size_t)a->target_count, (size_t)a->target_type->size, &target))
		return hdl_win_raise(w, MPI_ERR_COUNT, call, "invalid count: the data has more bytes than an address space");
	if (origin == target)
		return MPI_SUCCESS;
	return hdl_win_raise(w, MPI_ERR_TYPE, call, "the type signatures differ: %zu bytes at the origin, %zu at the target",
			     origin, target);
}

static int null_request(const char *call, MPI_Request *request)
{
	(void)call;
	*request = (MPI_Request)&hdl_req_sent;
	return MPI_SUCCESS;
}

/* ---- put and get ------------------------------------------------------------------------------------------- */

static cold int move_slowly(const char *call, bool put, void *buf, MPI_Count count, MPI_Datatype datatype, int rank,
			    MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win,
			    MPI_Request *request)
{
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_rma_args a = { .buf = buf, .count = count, .disp = disp, .target_count = target_count };
	struct hdl_rma_group *g = NULL;
	struct hdl_req *req = NULL;
	struct hdl_target *t;
	int rc;

	if (!w)
		return hdl_bad_win(call, win);
	rc = rma_buffer_check(w, call, "origin", buf, count, datatype, &a.type);
	if (!rc)
		rc = check_target_type(w, call, target_count, target_datatype, &a.target_type);
	if (!rc)
		rc = check_target(w, call, rank, request != NULL, &t);
	if (rc)
		return rc;
	if (!t)
		return request ? null_request(call, request) : MPI_SUCCESS;
	rc = check_sizes(w, call, &a);
	if (rc)
		return rc;
	if (request && t->lane != HDL_LANE_MAPPED && !(g = hdl_rma_group_new(w)))
		return hdl_win_raise(w, MPI_ERR_NO_MEM, call, "out of memory for a request");
	rc = put ? hdl_rma_put(w, t, &a, g) : hdl_rma_get(w, t, &a, g);
	if (g)
		rc = hdl_rma_group_seal(g, rc, &req);
	if (rc)
		return hdl_win_raise_class(w, rc, call);
	if (request)
		*request = req ? (MPI_Request)req : (MPI_Request)&hdl_req_sent;
	return MPI_SUCCESS;
}

/* Returns the address of memory of the target that is mapped here, if all arguments are plain; else NULL. */
static inline __attribute__((always_inline)) char *plain_target(MPI_Win win, int rank, MPI_Aint disp, size_t bytes,
								struct hdl_target **target)
{
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_target *t;
	uint64_t at;

	if (unlikely(!w || (unsigned)rank >= (unsigned)w->size || !(t = w->target[rank])))
		return NULL;
	*target = t;
	if (unlikely(!(w->open_all | t->open) || t->lane != HDL_LANE_MAPPED || !t->memory || t->note->failed))
		return NULL;
	if (unlikely(disp < 0 || __builtin_mul_overflow((uint64_t)disp, (uint64_t)t->disp_unit, &at)))
		return NULL;
	if (unlikely(bytes > t->size || at > t->size - bytes))
		return NULL;
	return t->memory + at;
}

static inline __attribute__((always_inline)) char *plain_place(MPI_Win win, int rank, MPI_Aint disp, size_t bytes)
{
	struct hdl_target *t;

	return plain_target(win, rank, disp, bytes, &t);
}

/* Bytes of (count, datatype), if both sides are one run of this type; else false. */
static inline __attribute__((always_inline)) bool plain_bytes(const void *buf, MPI_Count count, MPI_Datatype datatype,
							      MPI_Count target_count, MPI_Datatype target_datatype,
							      size_t *bytes)
{
	const struct hdl_type *type;

	return datatype == target_datatype && count == target_count && count >= 0 && (uintptr_t)buf > 1 &&
	       (type = hdl_type_get(datatype)) && type->contiguous &&
	       !__builtin_mul_overflow((size_t)count, (size_t)type->size, bytes);
}

/* One load and one store where the processor has them: a program that polls a word sees it whole. */
static inline __attribute__((always_inline)) void plain_copy(void *to, const void *from, size_t bytes)
{
	if (likely(bytes == 8))
		memcpy(to, from, 8);
	else if (bytes == 4)
		memcpy(to, from, 4);
	else
		memcpy(to, from, bytes);
}

static inline __attribute__((always_inline)) int rma_put(const char *call, const void *buf, MPI_Count count,
							 MPI_Datatype datatype, int rank, MPI_Aint disp, MPI_Count target_count,
							 MPI_Datatype target_datatype, MPI_Win win)
{
	size_t bytes;
	char *to;

	if (likely(plain_bytes(buf, count, datatype, target_count, target_datatype, &bytes) &&
		   (to = plain_place(win, rank, disp, bytes)) != NULL)) {
		plain_copy(to, buf, bytes);
		return MPI_SUCCESS;
	}
	return move_slowly(call, true, (void *)(uintptr_t)buf, count, datatype, rank, disp, target_count, target_datatype, win,
			   NULL);
}

static inline __attribute__((always_inline)) int rma_get(const char *call, void *buf, MPI_Count count, MPI_Datatype datatype,
							 int rank, MPI_Aint disp, MPI_Count target_count,
							 MPI_Datatype target_datatype, MPI_Win win)
{
	size_t bytes;
	const char *from;

	if (likely(plain_bytes(buf, count, datatype, target_count, target_datatype, &bytes) &&
		   (from = plain_place(win, rank, disp, bytes)) != NULL)) {
		plain_copy(buf, from, bytes);
		return MPI_SUCCESS;
	}
	return move_slowly(call, false, buf, count, datatype, rank, disp, target_count, target_datatype, win, NULL);
}

#define MOVES(_c, num)												\
int PMPI_Put##_c(const void *origin_addr, num origin_count, MPI_Datatype origin_datatype, int target_rank,	\
		 MPI_Aint target_disp, num target_count, MPI_Datatype target_datatype, MPI_Win win)		\
{														\
	HDL_LOCKED;												\
	return rma_put("MPI_Put" #_c, origin_addr, origin_count, origin_datatype, target_rank, target_disp,	\
		       target_count, target_datatype, win);							\
}														\
HDL_PROFILED(Put##_c);												\
														\
int PMPI_Get##_c(void *origin_addr, num origin_count, MPI_Datatype origin_datatype, int target_rank,		\
		 MPI_Aint target_disp, num target_count, MPI_Datatype target_datatype, MPI_Win win)		\
{														\
	HDL_LOCKED;												\
	return rma_get("MPI_Get" #_c, origin_addr, origin_count, origin_datatype, target_rank, target_disp,	\
		       target_count, target_datatype, win);							\
}														\
HDL_PROFILED(Get##_c);												\
														\
int PMPI_Rput##_c(const void *origin_addr, num origin_count, MPI_Datatype origin_datatype, int target_rank,	\
		  MPI_Aint target_disp, num target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return rmove("MPI_Rput" #_c, true, (void *)(uintptr_t)origin_addr, origin_count, origin_datatype, target_rank,	\
		     target_disp, target_count, target_datatype, win, request);					\
}														\
HDL_PROFILED(Rput##_c);												\
														\
int PMPI_Rget##_c(void *origin_addr, num origin_count, MPI_Datatype origin_datatype, int target_rank,		\
		  MPI_Aint target_disp, num target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return rmove("MPI_Rget" #_c, false, origin_addr, origin_count, origin_datatype, target_rank, target_disp,	\
		     target_count, target_datatype, win, request);						\
}														\
HDL_PROFILED(Rget##_c);

static int rmove(const char *call, bool put, void *buf, MPI_Count count, MPI_Datatype datatype, int rank, MPI_Aint disp,
		 MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)
{
	struct hdl_win *w = hdl_win_get(win);

	if (!w)
		return hdl_bad_win(call, win);
	if (!request)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid request: it is a null pointer");
	return move_slowly(call, put, buf, count, datatype, rank, disp, target_count, target_datatype, win, request);
}
MOVES(, int)
MOVES(_c, MPI_Count)

/* ---- accumulates ------------------------------------------------------------------------------------------- */

/* Checks the operation on the target's basic type. */
static int check_op(struct hdl_win *w, const char *call, MPI_Op op, const struct hdl_type *type, bool no_op)
{
	const struct hdl_type *base = hdl_type_base(type);

	if (!base && type->size)
		return hdl_win_raise(w, MPI_ERR_TYPE, call,
				     "invalid target_datatype: an accumulate needs a type of which all basic elements have one "
				     "predefined type");
	if (op == MPI_REPLACE || (op == MPI_NO_OP && no_op) || !type->size)
		return MPI_SUCCESS;
	if (op == MPI_NO_OP)
		return hdl_win_raise(w, MPI_ERR_OP, call, "invalid op: MPI_NO_OP is for MPI_Get_accumulate and MPI_Fetch_and_op");
	if (hdl_op_get(op) || op == MPI_OP_NULL)
		return hdl_win_raise(w, MPI_ERR_OP, call, "invalid op: %s", op == MPI_OP_NULL ? "MPI_OP_NULL" :
				     "an operation of the program; accumulates take predefined ones");
	if (!hdl_op_valid(op, base))
		return hdl_win_raise(w, MPI_ERR_OP, call, "invalid op: it is none, or is not defined on %s",
				     hdl_type_label(base));
	return MPI_SUCCESS;
}

struct acc_call {
	const char *call;
	const void *origin;
	MPI_Count origin_count;
	MPI_Datatype origin_type;
	bool fetch;
	void *result;
	MPI_Count result_count;
	MPI_Datatype result_type;
	int rank;
	MPI_Aint disp;
	MPI_Count target_count;
	MPI_Datatype target_type;
	MPI_Op op;
	MPI_Win win;
};

static int accumulate(const struct acc_call *c, MPI_Request *request)
{
	struct hdl_win *w = hdl_win_get(c->win);
	struct hdl_acc_args a = { .at = { .buf = (void *)(uintptr_t)c->origin, .count = c->origin_count, .disp = c->disp,
					  .target_count = c->target_count }, .op = c->op, .fetch = c->fetch, .result = c->result,
				  .result_count = c->result_count };
	struct hdl_rma_group *g = NULL;
	struct hdl_req *req = NULL;
	struct hdl_target *t;
	bool reads = c->op != MPI_NO_OP || !c->fetch;
	int rc;

	if (!w)
		return hdl_bad_win(c->call, c->win);
	rc = check_target_type(w, c->call, c->target_count, c->target_type, &a.at.target_type);
	/* of MPI_NO_OP the origin's arguments are ignored (section 12.3.4.2) */
	if (!rc && reads)
		rc = rma_buffer_check(w, c->call, "origin", c->origin, c->origin_count, c->origin_type, &a.at.type);
	if (!rc && c->fetch)
		rc = rma_buffer_check(w, c->call, "result", c->result, c->result_count, c->result_type, &a.result_type);
	if (!rc)
		rc = check_op(w, c->call, c->op, a.at.target_type, c->fetch);
	if (!rc)
		rc = check_target(w, c->call, c->rank, request != NULL, &t);
	if (rc)
		return rc;
	if (!t)
		return request ? null_request(c->call, request) : MPI_SUCCESS;
	if (reads)
		rc = check_sizes(w, c->call, &a.at);
	if (!rc && c->fetch) {
		struct hdl_rma_args result = a.at;

		result.count = c->result_count;
		result.type = a.result_type;
		rc = check_sizes(w, c->call, &result);
	}
	if (rc)
		return rc;
	if (!reads) {
		a.at.count = 0;
		a.at.type = a.at.target_type;
	}
	if (request && (!w->mapped || t->atomics) && !(g = hdl_rma_group_new(w)))
		return hdl_win_raise(w, MPI_ERR_NO_MEM, c->call, "out of memory for a request");
	rc = hdl_rma_accumulate(w, t, &a, g);
	if (g)
		rc = hdl_rma_group_seal(g, rc, &req);
	if (rc)
		return hdl_win_raise_class(w, rc, c->call);
	if (request)
		*request = req ? (MPI_Request)req : (MPI_Request)&hdl_req_sent;
	return MPI_SUCCESS;
}

static int racc(const struct acc_call *c, MPI_Request *request)
{
	struct hdl_win *w = hdl_win_get(c->win);

	if (w && !request)
		return hdl_win_raise(w, MPI_ERR_ARG, c->call, "invalid request: it is a null pointer");
	return accumulate(c, request);
}

/* Returns true if an operation on n elements of this predefined type was done by instructions. in NULL: MPI_NO_OP. */
static inline __attribute__((always_inline)) bool plain_update(const void *in, void *out, MPI_Count n,
							       const struct hdl_type *type, int rank, MPI_Aint disp, MPI_Op op,
							       MPI_Win win)
{
	struct hdl_target *t;
	size_t bytes;
	char *at;

	return type && hdl_type_is_named(type) && n > 0 && !__builtin_mul_overflow((size_t)n, (size_t)type->size, &bytes) &&
	       (at = plain_target(win, rank, disp, bytes, &t)) && t->native &&
	       hdl_acc_native(t, op, type, at, in, out, (size_t)n);
}

#define ACCUMULATES(_c, num)											\
int PMPI_Accumulate##_c(const void *origin_addr, num origin_count, MPI_Datatype origin_datatype, int target_rank,	\
			MPI_Aint target_disp, num target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)	\
{														\
	HDL_LOCKED;												\
	if (origin_datatype == target_datatype && origin_count == target_count && (uintptr_t)origin_addr > 1 &&	\
	    op != MPI_NO_OP &&											\
	    plain_update(origin_addr, NULL, origin_count, hdl_type_get(origin_datatype), target_rank, target_disp, op, win))	\
		return MPI_SUCCESS;										\
	return accumulate(&(struct acc_call){ "MPI_Accumulate" #_c, origin_addr, origin_count, origin_datatype, false, NULL, 0,	\
					      MPI_DATATYPE_NULL, target_rank, target_disp, target_count, target_datatype,	\
					      op, win }, NULL);							\
}														\
HDL_PROFILED(Accumulate##_c);											\
														\
int PMPI_Raccumulate##_c(const void *origin_addr, num origin_count, MPI_Datatype origin_datatype, int target_rank,	\
			 MPI_Aint target_disp, num target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,	\
			 MPI_Request *request)									\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return racc(&(struct acc_call){ "MPI_Raccumulate" #_c, origin_addr, origin_count, origin_datatype, false, NULL, 0,	\
					MPI_DATATYPE_NULL, target_rank, target_disp, target_count, target_datatype,	\
					op, win }, request);							\
}														\
HDL_PROFILED(Raccumulate##_c);											\
														\
int PMPI_Get_accumulate##_c(const void *origin_addr, num origin_count, MPI_Datatype origin_datatype, void *result_addr,	\
			    num result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,	\
			    num target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)		\
{														\
	HDL_LOCKED;												\
	return accumulate(&(struct acc_call){ "MPI_Get_accumulate" #_c, origin_addr, origin_count, origin_datatype, true,	\
					      result_addr, result_count, result_datatype, target_rank, target_disp,	\
					      target_count, target_datatype, op, win }, NULL);			\
}														\
HDL_PROFILED(Get_accumulate##_c);										\
														\
int PMPI_Rget_accumulate##_c(const void *origin_addr, num origin_count, MPI_Datatype origin_datatype, void *result_addr,	\
			     num result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,	\
			     num target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request *request)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return racc(&(struct acc_call){ "MPI_Rget_accumulate" #_c, origin_addr, origin_count, origin_datatype, true,	\
					result_addr, result_count, result_datatype, target_rank, target_disp,	\
					target_count, target_datatype, op, win }, request);			\
}														\
HDL_PROFILED(Rget_accumulate##_c);
ACCUMULATES(, int)
ACCUMULATES(_c, MPI_Count)

int PMPI_Fetch_and_op(const void *origin_addr, void *result_addr, MPI_Datatype datatype, int target_rank, MPI_Aint target_disp,
		      MPI_Op op, MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Fetch_and_op";
	struct hdl_type *type = hdl_type_get(datatype);
	struct hdl_win *w;

	if (likely((uintptr_t)result_addr > 1 && ((uintptr_t)origin_addr > 1 || op == MPI_NO_OP) &&
		   plain_update(op == MPI_NO_OP ? NULL : origin_addr, result_addr, 1, type, target_rank, target_disp, op, win)))
		return MPI_SUCCESS;
	w = hdl_win_get(win);
	if (!w)
		return hdl_bad_win(call, win);
	if (!type || !hdl_type_is_predefined(type))
		return hdl_win_raise(w, MPI_ERR_TYPE, call, "invalid datatype: it must be a predefined one");
	return accumulate(&(struct acc_call){call, origin_addr, 1, datatype, true, result_addr, 1, datatype, target_rank,
					     target_disp, 1, datatype, op, win},
			  NULL);
}
HDL_PROFILED(Fetch_and_op);

/* Section 12.3.4.4: C integers, Fortran integers, logicals, multi-language types, bytes. */
static bool can_compare(const struct hdl_type *type)
{
	static uint8_t known[ARRAY_SIZE(hdl_types)];	/* of named types: 1: no; 2: yes */
	bool can;

	if (hdl_type_is_named(type) && known[type - hdl_types])
		return known[type - hdl_types] == 2;
	can = hdl_type_is_predefined(type) && hdl_type_base(type) && hdl_type_is_contiguous(type) && type->size <= 16 &&
	       (hdl_op_valid(MPI_BAND, hdl_type_base(type)) || hdl_op_valid(MPI_LAND, hdl_type_base(type)));
	if (hdl_type_is_named(type))
		known[type - hdl_types] = can ? 2 : 1;
	return can;
}

int PMPI_Compare_and_swap(const void *origin_addr, const void *compare_addr, void *result_addr, MPI_Datatype datatype,
			  int target_rank, MPI_Aint target_disp, MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Compare_and_swap";
	const struct hdl_type *type = hdl_type_get(datatype);
	struct hdl_target *t;
	struct hdl_win *w;
	char *at;
	int rc;

	if (likely(type && hdl_type_is_named(type) && (uintptr_t)origin_addr > 1 && (uintptr_t)compare_addr > 1 &&
		   (uintptr_t)result_addr > 1 && can_compare(type) &&
		   (at = plain_target(win, target_rank, target_disp, (size_t)type->size, &t)) != NULL &&
		   hdl_cas_native(t, type, at, origin_addr, compare_addr, result_addr)))
		return MPI_SUCCESS;
	w = hdl_win_get(win);
	if (!w)
		return hdl_bad_win(call, win);
	rc = rma_buffer_check(w, call, "origin", origin_addr, 1, datatype, &type);
	if (!rc)
		rc = rma_buffer_check(w, call, "compare", compare_addr, 1, datatype, &type);
	if (!rc)
		rc = rma_buffer_check(w, call, "result", result_addr, 1, datatype, &type);
	if (rc)
		return rc;
	if (!can_compare(type))
		return hdl_win_raise(w, MPI_ERR_TYPE, call,
				     "invalid datatype: it must be a predefined integer, logical, multi-language or byte "
				     "type, and is %s",
				     hdl_type_label(type));
	rc = check_target(w, call, target_rank, false, &t);
	if (rc || !t)
		return rc;
	rc = hdl_rma_compare_and_swap(w, t, origin_addr, compare_addr, result_addr, type, target_disp);
	return rc ? hdl_win_raise_class(w, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Compare_and_swap);
