/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI functions over a mock transport: argument checks with class and text, error handlers, completion families.
 * This process is rank 0 of 4. MPI_Get_version is overridden below, as a profiling tool does.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/collectives.h"
#include "mpi/reorder.h"
#include "p2p_mock.h"
#include "rma/rma.h"

/* ---- collectives that only note their arguments ------------------------------------------------------------ */

static struct hdl_coll_args asked;
static int nasked, coll_result;
const char hdl_version[] = "mock";

/* ---- windows: none is made here ------------------------------------------------------------------------------ */

struct hdl_pool hdl_wins = HDL_POOL(struct hdl_win, 32);

int hdl_rma_init(void)
{
	return 0;
}

void hdl_rma_fini(void)
{
}

const char *hdl_win_label(const struct hdl_win *w, char buf[static MPI_MAX_OBJECT_NAME + 16])
{
	return strcpy(buf, w->name);
}

unsigned hdl_rt_ended(void)
{
	return 0;
}

bool hdl_rt_has_ended(int proc)
{
	return proc < 0;
}

#define NOT_CALLED(type, name, ...) type name(__VA_ARGS__) { abort(); }
NOT_CALLED(int, hdl_win_make, struct hdl_comm *comm, const struct hdl_win_args *args, struct hdl_win **out)
NOT_CALLED(int, hdl_win_end, struct hdl_win *w)
NOT_CALLED(void, hdl_rma_begun, struct hdl_win *w)
NOT_CALLED(struct hdl_target *, hdl_target_make, struct hdl_win *w, int rank)
NOT_CALLED(int, hdl_rma_no_memory, const char *what)
NOT_CALLED(int, hdl_win_attach, struct hdl_win *w, void *base, MPI_Aint size)
NOT_CALLED(int, hdl_win_detach, struct hdl_win *w, const void *base)
NOT_CALLED(int, hdl_rma_put, struct hdl_win *w, struct hdl_target *t, const struct hdl_rma_args *a, struct hdl_rma_group *g)
NOT_CALLED(int, hdl_rma_get, struct hdl_win *w, struct hdl_target *t, const struct hdl_rma_args *a, struct hdl_rma_group *g)
NOT_CALLED(struct hdl_rma_group *, hdl_rma_group_new, struct hdl_win *w)
NOT_CALLED(int, hdl_rma_group_seal, struct hdl_rma_group *g, int rc, struct hdl_req **req)
NOT_CALLED(int, hdl_rma_accumulate, struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a,
	   struct hdl_rma_group *g)
NOT_CALLED(int, hdl_rma_compare_and_swap, struct hdl_win *w, struct hdl_target *t, const void *origin, const void *compare,
	   void *result, const struct hdl_type *type, MPI_Aint disp)
NOT_CALLED(bool, hdl_acc_native, const struct hdl_target *t, MPI_Op op, const struct hdl_type *type, void *at, const void *in,
	   void *out, size_t n)
NOT_CALLED(bool, hdl_cas_native, const struct hdl_target *t, const struct hdl_type *type, void *at, const void *origin,
	   const void *compare, void *result)
NOT_CALLED(int, hdl_win_lock, struct hdl_win *w, struct hdl_target *t, int lock_type, int assert)
NOT_CALLED(int, hdl_win_unlock, struct hdl_win *w, struct hdl_target *t)
NOT_CALLED(int, hdl_win_fence, struct hdl_win *w, int assert)
NOT_CALLED(int, hdl_win_post, struct hdl_win *w, struct hdl_group *group, int assert)
NOT_CALLED(int, hdl_win_start, struct hdl_win *w, struct hdl_group *group, int assert)
NOT_CALLED(int, hdl_win_complete, struct hdl_win *w)
NOT_CALLED(int, hdl_win_wait, struct hdl_win *w, int *flag)
NOT_CALLED(int, hdl_rma_flush, struct hdl_win *w, struct hdl_target *t)
NOT_CALLED(int, hdl_rma_flush_all, struct hdl_win *w)

int hdl_coll_init(void)
{
	return 0;
}

int hdl_coll_fini(void)
{
	return 0;
}

/* ---- tables of the tool interface, which is tried elsewhere (tests/mp/tools.sh) ------------------------------------------ */

const char *hdl_coll_name(enum hdl_coll coll)
{
	(void)coll;
	return "mock";
}

const struct hdl_counter *hdl_coll_counter(unsigned i)
{
	(void)i;
	return NULL;
}

uint64_t hdl_coll_counter_read(unsigned i)
{
	(void)i;
	return 0;
}

const struct hdl_counter *hdl_counter(unsigned i)
{
	(void)i;
	return NULL;
}

bool hdl_counter_of_device(unsigned i)
{
	(void)i;
	return false;
}

uint64_t hdl_counter_read(struct hdl_tp *tp, unsigned i, const struct hdl_ep *ep)
{
	(void)tp, (void)i, (void)ep;
	return 0;
}

bool hdl_var_at(unsigned i, struct hdl_var *out)
{
	(void)i, (void)out;
	return false;
}

int hdl_var_set(unsigned i, const char *text)
{
	(void)i, (void)text;
	return 0;
}

bool hdl_op_valid(MPI_Op op, const struct hdl_type *type)
{
	return op == MPI_SUM || (op == MPI_BAND && type != hdl_type_get(MPI_DOUBLE));
}

int hdl_coll_run(struct hdl_comm *comm, const struct hdl_coll_args *args)
{
	asked = *args;
	nasked++;
	if (coll_result)
		hdl_reason_set("the mock refuses");
	return coll_result;
}

int hdl_coll_start(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req)
{
	*req = hdl_req_new(comm);
	hdl_req_complete(*req, MPI_SUCCESS);
	return hdl_coll_run(comm, args);
}

void hdl_coll_no_memory(struct hdl_comm *comm)
{
}

void hdl_coll_refused(struct hdl_comm *comm, int class, const char *text)
{
}

int hdl_rt_program_size(void)
{
	return 1;
}

int hdl_vcoll_start(struct hdl_comm *comm, const struct hdl_vcoll *args, struct hdl_req **req)
{
	if (req) {
		*req = hdl_req_new(comm);
		hdl_req_complete(*req, MPI_SUCCESS);
	}
	return args->nin + args->nout ? MPI_SUCCESS : MPI_ERR_INTERN;
}

int hdl_coll_prepare(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req)
{
	return hdl_coll_start(comm, args, req);
}

int hdl_vcoll_prepare(struct hdl_comm *comm, const struct hdl_vcoll *args, struct hdl_req **req)
{
	return hdl_vcoll_start(comm, args, req);
}

struct hdl_pool hdl_user_ops;
struct hdl_user_op *hdl_op_get(MPI_Op handle)
{
	(void)handle;
	return NULL;
}

struct hdl_user_op *hdl_op_create(MPI_User_function *fn, MPI_User_function_c *fn_c, bool commute)
{
	(void)fn;
	(void)fn_c;
	(void)commute;
	return NULL;
}

void hdl_op_free(struct hdl_user_op *op)
{
	(void)op;
}

bool hdl_op_commutes(const struct hdl_user_op *op)
{
	return op != NULL;
}

int hdl_op_reduce_local(MPI_Op op, const struct hdl_type *type, const void *in, void *inout, MPI_Count count)
{
	(void)in;
	(void)inout;
	return count && hdl_op_valid(op, type) ? MPI_SUCCESS : MPI_ERR_OP;
}

/* ---- helpers ------------------------------------------------------------------------------------------- */

static void setup(void)
{
	mock_job(0, 4);
	MPI_Init(NULL, NULL);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static void teardown(void)
{
	MPI_Finalize();
}

TestSuite(mpi, .init = setup, .fini = teardown, .timeout = 60);

/* The code is of this class, and its text has each of the words (up to NULL). */
static void check_error(int line, int code, int class, ...)
{
	char text[MPI_MAX_ERROR_STRING];
	const char *word;
	int got, len;
	va_list ap;

	cr_assert_eq(MPI_Error_class(code, &got), MPI_SUCCESS);
	cr_assert_eq(MPI_Error_string(code, text, &len), MPI_SUCCESS);
	cr_assert_eq((size_t)len, strlen(text));
	cr_assert_eq(got, class, "line %d: class %d instead of %d: %s", line, got, class, text);
	va_start(ap, class);
	while ((word = va_arg(ap, const char *)))
		cr_assert(strstr(text, word), "line %d: no \"%s\" in: %s", line, word, text);
	va_end(ap);
}
#define ERROR(code, class, ...) check_error(__LINE__, code, class, __VA_ARGS__, NULL)
#define OK(call) cr_assert_eq(call, MPI_SUCCESS)

int MPI_Get_version(int *version, int *subversion)
{
	int rc = PMPI_Get_version(version, subversion);

	*version += 100;
	return rc;
}

static int yields;

int sched_yield(void)
{
	yields++;
	return 0;
}

/* ---- arguments ------------------------------------------------------------------------------------------ */

Test(mpi, send_arguments)
{
	int v = 1;
	MPI_Datatype t;

	ERROR(MPI_Send(&v, 1, MPI_INT, 7, 0, MPI_COMM_WORLD), MPI_ERR_RANK,
	      "MPI_Send: invalid dest 7: communicator MPI_COMM_WORLD has 4 ranks (0..3)");
	ERROR(MPI_Send(&v, 1, MPI_INT, -1, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "-1 (MPI_ANY_SOURCE)");
	ERROR(MPI_Send(&v, -3, MPI_INT, 1, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "MPI_Send: invalid count -3");
	ERROR(MPI_Send(&v, 1, MPI_INT, 1, -5, MPI_COMM_WORLD), MPI_ERR_TAG, "invalid tag -5");
	ERROR(MPI_Send(&v, 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG, "MPI_ANY_TAG");
	ERROR(MPI_Send(NULL, 1, MPI_INT, 1, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "invalid buf");
	ERROR(MPI_Send(MPI_IN_PLACE, 1, MPI_INT, 1, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_IN_PLACE");
	ERROR(MPI_Send(&v, 1, MPI_DATATYPE_NULL, 1, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
	ERROR(MPI_Send(&v, 1, (MPI_Datatype)0x101, 1, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "0x101");
	ERROR(MPI_Send(&v, 1, MPI_INT, 1, 0, MPI_COMM_NULL), MPI_ERR_COMM, "MPI_COMM_NULL");
	ERROR(MPI_Ssend_c(&v, 1, MPI_INT, 4, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Ssend_c: invalid dest 4");
	OK(MPI_Type_vector(2, 1, 2, MPI_INT, &t));
	ERROR(MPI_Send(&v, 1, t, 1, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "not committed");
	OK(MPI_Type_free(&t));
	cr_assert_eq(t, MPI_DATATYPE_NULL);
	OK(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
	OK(MPI_Send(&v, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
	OK(MPI_Send(NULL, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
	cr_assert_eq(mock_nsent, 1);
}

Test(mpi, recv_arguments)
{
	int v = 1, flag;
	MPI_Status s;
	MPI_Request r;

	ERROR(MPI_Recv(&v, 1, MPI_INT, 4, 0, MPI_COMM_WORLD, &s), MPI_ERR_RANK, "MPI_Recv: invalid source 4");
	ERROR(MPI_Recv(&v, 1, MPI_INT, 1, -7, MPI_COMM_WORLD, &s), MPI_ERR_TAG, "invalid tag -7");
	ERROR(MPI_Recv(&v, -1, MPI_INT, 1, 0, MPI_COMM_WORLD, &s), MPI_ERR_COUNT, "count -1");
	ERROR(MPI_Recv(NULL, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &s), MPI_ERR_BUFFER, "invalid buf");
	ERROR(MPI_Irecv(&v, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "invalid request");
	ERROR(MPI_Irecv(&v, 1, MPI_INT, -9, 0, MPI_COMM_WORLD, &r), MPI_ERR_RANK, "MPI_Irecv: invalid source -9");
	ERROR(MPI_Probe(17, 0, MPI_COMM_WORLD, &s), MPI_ERR_RANK, "MPI_Probe: invalid source 17");
	ERROR(MPI_Iprobe(1, 0, MPI_COMM_WORLD, NULL, &s), MPI_ERR_ARG, "invalid flag");
	ERROR(MPI_Sendrecv(&v, 1, MPI_INT, 1, 0, &v, 1, MPI_INT, 9, 0, MPI_COMM_WORLD, &s), MPI_ERR_RANK,
	      "MPI_Sendrecv: invalid source 9");
	OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
	cr_assert(!flag);
}

Test(mpi, collective_arguments)
{
	int a[4], b[4];
	double d, e;
	MPI_Request r;

	ERROR(MPI_Bcast(a, 1, MPI_INT, 4, MPI_COMM_WORLD), MPI_ERR_ROOT, "MPI_Bcast: invalid root 4");
	ERROR(MPI_Bcast(NULL, 1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "invalid buffer");
	ERROR(MPI_Reduce(a, b, -1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "count -1");
	ERROR(MPI_Allreduce(a, b, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_OP_NULL");
	ERROR(MPI_Allreduce(&d, &e, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP,
	      "MPI_Allreduce: invalid op: MPI_BAND is not defined on MPI_DOUBLE");
	ERROR(MPI_Allreduce(a, a, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_IN_PLACE");
	ERROR(MPI_Allgather(a, 2, MPI_INT, b, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_COUNT, "8 bytes", "4 from");
	ERROR(MPI_Alltoall(a, 1, MPI_INT, NULL, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_BUFFER, "recvbuf");
	ERROR(MPI_Iallreduce(a, b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "MPI_Iallreduce",
	      "request");
	ERROR(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "MPI_Barrier");
	ERROR(MPI_Allreduce_c(a, b, INT64_MAX, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT, "address space");
	cr_assert_eq(nasked, 0);
	OK(MPI_Barrier(MPI_COMM_WORLD));
	OK(MPI_Allreduce(MPI_IN_PLACE, b, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
	cr_assert(asked.coll == HDL_ALLREDUCE && asked.sendbuf == MPI_IN_PLACE && asked.recvbuf == b);
	OK(MPI_Reduce(a, NULL, 2, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD));	/* not the root: no recvbuf */
	cr_assert(asked.coll == HDL_REDUCE && asked.root == 1);
	ERROR(MPI_Reduce(MPI_IN_PLACE, b, 2, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_IN_PLACE");
	OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 1, MPI_INT, MPI_COMM_WORLD));
	cr_assert(asked.sendcount == 1 && asked.sendtype == asked.recvtype);
	OK(MPI_Iallgather(a, 1, MPI_INT, b, 4, MPI_BYTE, MPI_COMM_WORLD, &r));
	OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
	coll_result = MPI_ERR_INTERN;
	ERROR(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_INTERN, "MPI_Barrier: the mock refuses");
}

Test(mpi, type_arguments)
{
	MPI_Datatype t, u = (MPI_Datatype)0x300;
	MPI_Count c;
	MPI_Aint lb, ext;
	int n;

	ERROR(MPI_Type_contiguous(-1, MPI_INT, &t), MPI_ERR_COUNT, "count -1");
	ERROR(MPI_Type_vector(1, -2, 1, MPI_INT, &t), MPI_ERR_ARG, "blocklength -2");
	ERROR(MPI_Type_vector(1, 2, 1, u, &t), MPI_ERR_TYPE, "oldtype", "0x300");
	ERROR(MPI_Type_contiguous(1, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
	t = MPI_INT;
	ERROR(MPI_Type_free(&t), MPI_ERR_TYPE, "MPI_INT", "predefined");
	ERROR(MPI_Type_contiguous_c(INT64_MAX, MPI_INT, &t), MPI_ERR_VALUE_TOO_LARGE, "63 bits");
	OK(MPI_Type_contiguous_c((MPI_Count)1 << 40, MPI_INT, &t));
	OK(MPI_Type_size(t, &n));
	cr_assert_eq(n, MPI_UNDEFINED);
	OK(MPI_Type_size_c(t, &c));
	cr_assert_eq(c, (MPI_Count)1 << 42);
	OK(MPI_Type_get_extent(t, &lb, &ext));
	cr_assert(lb == 0 && ext == (MPI_Aint)1 << 42);
	OK(MPI_Type_free(&t));
	OK(MPI_Type_vector(3, 1, -2, MPI_DOUBLE, &t));
	OK(MPI_Type_get_true_extent(t, &lb, &ext));
	cr_assert(lb == -32 && ext == 40);
	OK(MPI_Type_commit(&t));
	OK(MPI_Type_free(&t));
	OK(MPI_Type_commit(&(MPI_Datatype){ MPI_INT }));
}

Test(mpi, comm_arguments)
{
	MPI_Comm c = MPI_COMM_WORLD, d;
	char name[MPI_MAX_OBJECT_NAME], longer[MPI_MAX_OBJECT_NAME * 2];
	int n;

	ERROR(MPI_Comm_free(&c), MPI_ERR_COMM, "MPI_COMM_WORLD", "predefined");
	ERROR(MPI_Comm_rank(MPI_COMM_NULL, &n), MPI_ERR_COMM, "MPI_Comm_rank");
	ERROR(MPI_Comm_rank((MPI_Comm)0x777, &n), MPI_ERR_COMM, "0x777");
	ERROR(MPI_Comm_size(MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "size");
	ERROR(MPI_Comm_split(MPI_COMM_SELF, -4, 0, &d), MPI_ERR_ARG, "color -4");
	OK(MPI_Comm_split(MPI_COMM_SELF, MPI_UNDEFINED, 0, &d));
	cr_assert_eq(d, MPI_COMM_NULL);
	OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &n));
	cr_assert_str_eq(name, "MPI_COMM_WORLD");
	OK(MPI_Comm_dup(MPI_COMM_SELF, &d));
	OK(MPI_Comm_get_name(d, name, &n));
	cr_assert(n == 0 && !name[0]);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	OK(MPI_Comm_set_name(d, longer));
	OK(MPI_Comm_get_name(d, name, &n));
	cr_assert(n == MPI_MAX_OBJECT_NAME - 1 && strlen(name) == (size_t)n);
	OK(MPI_Comm_compare(d, MPI_COMM_SELF, &n));
	cr_assert_eq(n, MPI_CONGRUENT);
	OK(MPI_Comm_compare(d, d, &n));
	cr_assert_eq(n, MPI_IDENT);
	OK(MPI_Comm_compare(d, MPI_COMM_WORLD, &n));
	cr_assert_eq(n, MPI_UNEQUAL);
	c = d;
	OK(MPI_Comm_free(&d));
	cr_assert_eq(d, MPI_COMM_NULL);
	(void)c;
}

/* ---- error handlers -------------------------------------------------------------------------------------- */

static int handler_calls, handler_code;
static MPI_Comm handler_comm;

static void handler(MPI_Comm *comm, int *code, ...)
{
	handler_calls++;
	handler_code = *code;
	handler_comm = *comm;
}

Test(mpi, user_error_handler)
{
	MPI_Errhandler h, got;
	MPI_Comm c;
	int rc;

	OK(MPI_Comm_create_errhandler(handler, &h));
	OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, h));
	OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &got));
	cr_assert_eq(got, h);
	OK(MPI_Errhandler_free(&got));
	OK(MPI_Errhandler_free(&h));
	cr_assert_eq(h, MPI_ERRHANDLER_NULL);
	OK(MPI_Comm_dup(MPI_COMM_SELF, &c));		/* inherits it */
	rc = MPI_Send(NULL, 1, MPI_INT, 0, 0, c);
	ERROR(rc, MPI_ERR_BUFFER, "MPI_Send");
	cr_assert_eq(handler_calls, 1);
	cr_assert_eq(handler_code, rc);
	cr_assert_eq(handler_comm, c);
	OK(MPI_Comm_call_errhandler(c, MPI_ERR_OTHER));
	cr_assert_eq(handler_calls, 2);
	OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
	OK(MPI_Comm_call_errhandler(c, MPI_ERR_OTHER));
	cr_assert_eq(handler_calls, 3, "the duplicate keeps it");
	OK(MPI_Comm_free(&c));
	ERROR(MPI_Errhandler_free(&h), MPI_ERR_ERRHANDLER, "MPI_Errhandler_free");
	ERROR(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER, "errhandler");
}

Test(mpi, default_handler_is_fatal, .exit_code = MPI_ERR_RANK)
{
	int v = 0;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Send(&v, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
}

Test(mpi, abort_ends_with_the_code, .exit_code = 3)
{
	MPI_Abort(MPI_COMM_WORLD, 3);
}

Test(mpi, codes_keep_their_texts)
{
	int code[300];
	char text[MPI_MAX_ERROR_STRING], word[16];
	int len, class;

	for (int i = 0; i < 300; i++)
		code[i] = MPI_Send(&len, 1, MPI_INT, 1000 + i, 0, MPI_COMM_WORLD);
	for (int i = 60; i < 300; i++) {
		OK(MPI_Error_string(code[i], text, &len));
		snprintf(word, sizeof(word), "%d", 1000 + i);
		cr_assert(strstr(text, word), "%d: %s", i, text);
	}
	for (int c = 0; c <= MPI_ERR_ABI; c++) {
		OK(MPI_Error_string(c, text, &len));
		cr_assert(strncmp(text, c ? "MPI_ERR_" : "MPI_SUCCESS", 7) == 0, "%d: %s", c, text);
		OK(MPI_Error_class(c, &class));
		cr_assert_eq(class, c);
	}
	ERROR(MPI_Error_class(-1, &class), MPI_ERR_ARG, "MPI_Error_class: invalid errorcode -1");
	ERROR(MPI_Error_string(MPI_ERR_LASTCODE + 1, text, &len), MPI_ERR_ARG, "MPI_Error_string: invalid errorcode 16384");
}

/* ---- before and after ------------------------------------------------------------------------------------ */

Test(state, before_init, .exit_code = MPI_ERR_OTHER)
{
	int rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	exit(0);
}

Test(state, before_init_without_communicator, .exit_code = MPI_ERR_OTHER)
{
	MPI_Datatype t;

	MPI_Type_contiguous(1, MPI_INT, &t);
	exit(0);
}

Test(state, after_finalize, .exit_code = MPI_ERR_OTHER)
{
	MPI_Init(NULL, NULL);
	MPI_Finalize();
	MPI_Barrier(MPI_COMM_WORLD);
	exit(0);
}

Test(state, twice, .exit_code = MPI_ERR_OTHER)
{
	MPI_Init(NULL, NULL);
	MPI_Init(NULL, NULL);
	exit(0);
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
}

Test(state, flags_and_levels)
{
	int flag = 7, provided = 7, version, sub, len;
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	MPI_Errhandler h;

	OK(MPI_Initialized(&flag));
	cr_assert(!flag);
	OK(MPI_Get_version(&version, &sub));
	cr_assert(version == 105 && sub == 0, "a tool's MPI_Get_version is called");
	OK(MPI_Get_library_version(text, &len));
	cr_assert_eq(strlen(text), (size_t)len);
	OK(MPI_Abi_get_version(&version, &sub));
	cr_assert(version == 1 && sub == 0);
	OK(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided));
	cr_assert_eq(provided, MPI_THREAD_MULTIPLE);
	OK(MPI_Query_thread(&provided));
	cr_assert_eq(provided, MPI_THREAD_MULTIPLE);
	OK(MPI_Is_thread_main(&flag));
	cr_assert(flag);
	OK(MPI_Initialized(&flag));
	cr_assert(flag);
	OK(MPI_Finalized(&flag));
	cr_assert(!flag);
	cr_assert(MPI_Wtick() > 0 && MPI_Wtick() < 1e-3);
	cr_assert(MPI_Wtime() > 0);
	OK(MPI_Comm_create_errhandler(on_error, &h));
	OK(MPI_Finalize());
	OK(MPI_Finalized(&flag));
	cr_assert(flag);
	OK(MPI_Errhandler_free(&h));
	cr_assert_eq(h, MPI_ERRHANDLER_NULL);
	cr_assert_eq(MPI_Errhandler_free(&h), MPI_ERR_ERRHANDLER);
	OK(MPI_Initialized(&flag));
	cr_assert(flag);
}

/* ---- completion ------------------------------------------------------------------------------------------ */

static MPI_Request post(int *buf, int src, int tag)
{
	MPI_Request r;

	OK(MPI_Irecv(buf, 1, MPI_INT, src, tag, MPI_COMM_WORLD, &r));
	return r;
}

Test(mpi, wait_and_test)
{
	int v = 5, got = 0, flag = 7;
	MPI_Request r = post(&got, 1, 2), stale;
	MPI_Status s;

	OK(MPI_Test(&r, &flag, &s));
	cr_assert(!flag && r != MPI_REQUEST_NULL);
	OK(MPI_Request_get_status(r, &flag, &s));
	cr_assert(!flag);
	stale = r;
	mock_later(1, 2, 0, &v, sizeof(v));
	OK(MPI_Wait(&r, &s));
	cr_assert(r == MPI_REQUEST_NULL && got == 5 && s.MPI_TAG == 2);
	ERROR(MPI_Wait(&stale, &s), MPI_ERR_REQUEST, "MPI_Wait: invalid request");
	OK(MPI_Wait(&r, &s));
	cr_assert(s.MPI_SOURCE == MPI_ANY_SOURCE && s.MPI_TAG == MPI_ANY_TAG);
	OK(MPI_Test(&r, &flag, &s));
	cr_assert(flag);
	OK(MPI_Request_get_status(r, &flag, MPI_STATUS_IGNORE));
	cr_assert(flag);
	r = post(&got, 1, 3);
	mock_eager(1, 3, 0, &v, sizeof(v));
	OK(MPI_Request_get_status(r, &flag, &s));
	cr_assert(flag && r != MPI_REQUEST_NULL && s.MPI_SOURCE == 1);
	OK(MPI_Request_free(&r));
	cr_assert_eq(r, MPI_REQUEST_NULL);
	ERROR(MPI_Request_free(&r), MPI_ERR_REQUEST, "MPI_Request_free");
}

Test(mpi, waitall_statuses)
{
	int v = 5, got[4], n;
	MPI_Request r[4] = { post(&got[0], 1, 0), MPI_REQUEST_NULL, post(&got[2], 2, 1), post(&got[3], 3, 2) };
	MPI_Status s[4];
	int flag = 7;

	for (int i = 0; i < 4; i++)
		s[i].MPI_ERROR = 1234;
	mock_later(3, 2, 0, &v, sizeof(v));
	mock_later(1, 0, 0, &v, sizeof(v));
	OK(MPI_Testall(4, r, &flag, s));
	cr_assert(!flag && r[0] != MPI_REQUEST_NULL, "all or none");
	mock_later(2, 1, 0, &v, sizeof(v));
	OK(MPI_Waitall(4, r, s));
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(r[i], MPI_REQUEST_NULL);
		cr_assert_eq(s[i].MPI_ERROR, i == 1 ? MPI_SUCCESS : 1234, "the empty status has it, of the others it stays");
		OK(MPI_Get_count(&s[i], MPI_INT, &n));
		cr_assert_eq(n, i != 1);
	}
	cr_assert(s[0].MPI_SOURCE == 1 && s[2].MPI_SOURCE == 2 && s[3].MPI_SOURCE == 3);
	cr_assert_eq(s[1].MPI_SOURCE, MPI_ANY_SOURCE);
	OK(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
	OK(MPI_Testall(4, r, &flag, MPI_STATUSES_IGNORE));
	cr_assert(flag);
	OK(MPI_Waitall(0, NULL, NULL));
	ERROR(MPI_Waitall(-1, r, s), MPI_ERR_COUNT, "count -1");
	r[2] = (MPI_Request)0x5000;
}

Test(mpi, waitall_with_an_error)
{
	int v[2] = { 5, 6 }, got[3];
	MPI_Request r[3] = { post(&got[0], 1, 0), post(&got[1], 2, 0), post(&got[2], 3, 0) };
	MPI_Status s[3];

	mock_eager(1, 0, 0, v, 4);
	mock_eager(2, 0, 0, v, 8);
	mock_eager(3, 0, 0, v, 4);
	ERROR(MPI_Waitall(3, r, s), MPI_ERR_IN_STATUS, "MPI_Waitall", "array_of_requests[1]", "8 bytes");
	cr_assert_eq(s[0].MPI_ERROR, MPI_SUCCESS);
	ERROR(s[1].MPI_ERROR, MPI_ERR_TRUNCATE, "8 bytes from rank 2", "4 bytes");
	cr_assert_eq(s[2].MPI_ERROR, MPI_SUCCESS);
	cr_assert_eq(r[1], MPI_REQUEST_NULL);
}

Test(mpi, waitany_and_some)
{
	int v = 5, got[4], index, n, indices[4], flag;
	MPI_Request r[4] = { post(&got[0], 1, 0), MPI_REQUEST_NULL, post(&got[2], 2, 0), post(&got[3], 3, 0) };
	MPI_Status s[4];

	OK(MPI_Testany(4, r, &index, &flag, s));
	cr_assert(!flag && index == MPI_UNDEFINED);
	OK(MPI_Testsome(4, r, &n, indices, s));
	cr_assert_eq(n, 0);
	mock_later(2, 0, 0, &v, sizeof(v));
	OK(MPI_Waitany(4, r, &index, s));
	cr_assert(index == 2 && r[2] == MPI_REQUEST_NULL && s[0].MPI_SOURCE == 2);
	mock_eager(3, 0, 0, &v, sizeof(v));
	mock_eager(1, 0, 0, &v, sizeof(v));
	OK(MPI_Waitsome(4, r, &n, indices, s));
	cr_assert(n == 2 && indices[0] == 0 && indices[1] == 3);
	cr_assert(s[0].MPI_SOURCE == 1 && s[1].MPI_SOURCE == 3);
	OK(MPI_Waitany(4, r, &index, s));
	cr_assert_eq(index, MPI_UNDEFINED);
	OK(MPI_Waitsome(4, r, &n, indices, s));
	cr_assert_eq(n, MPI_UNDEFINED);
	OK(MPI_Testany(4, r, &index, &flag, s));
	cr_assert(flag && index == MPI_UNDEFINED);
}

Test(mpi, cancel)
{
	int got, flag;
	MPI_Request r = post(&got, 1, 0);
	MPI_Status s;

	OK(MPI_Cancel(&r));
	OK(MPI_Wait(&r, &s));
	OK(MPI_Test_cancelled(&s, &flag));
	cr_assert(flag);
}

/* ---- statuses -------------------------------------------------------------------------------------------- */

Test(mpi, statuses)
{
	MPI_Status s;
	MPI_Datatype t;
	MPI_Count c;
	int n;

	cr_assert_eq(sizeof(MPI_Status), 32);
	memset(&s, 0x55, sizeof(s));
	OK(MPI_Status_set_cancelled(&s, 0));
	OK(MPI_Status_set_elements_c(&s, MPI_BYTE, (MPI_Count)5 << 40));
	OK(MPI_Get_count(&s, MPI_BYTE, &n));
	cr_assert_eq(n, MPI_UNDEFINED);
	OK(MPI_Get_count_c(&s, MPI_BYTE, &c));
	cr_assert_eq(c, (MPI_Count)5 << 40);
	OK(MPI_Status_set_elements(&s, MPI_INT, 5));
	OK(MPI_Type_contiguous(2, MPI_INT, &t));
	OK(MPI_Get_count(&s, t, &n));
	cr_assert_eq(n, MPI_UNDEFINED, "two and a half");
	OK(MPI_Get_elements(&s, t, &n));
	cr_assert_eq(n, 5);
	OK(MPI_Type_free(&t));
	OK(MPI_Status_set_cancelled(&s, 1));
	OK(MPI_Get_elements(&s, MPI_INT, &n));
	cr_assert_eq(n, 5);
	OK(MPI_Test_cancelled(&s, &n));
	cr_assert_eq(n, 1);
	OK(MPI_Status_set_source(&s, 3));
	OK(MPI_Status_get_source(&s, &n));
	cr_assert_eq(n, 3);
	OK(MPI_Status_set_tag(&s, 4));
	OK(MPI_Status_get_tag(&s, &n));
	cr_assert_eq(n, 4);
	OK(MPI_Status_set_error(&s, 5));
	OK(MPI_Status_get_error(&s, &n));
	cr_assert_eq(n, 5);
}

Test(mpi, alloc_mem)
{
	char *p = NULL;

	OK(MPI_Alloc_mem(1000, MPI_INFO_NULL, &p));
	cr_assert_not_null(p);
	memset(p, 1, 1000);
	OK(MPI_Free_mem(p));
	ERROR(MPI_Alloc_mem(-1, MPI_INFO_NULL, &p), MPI_ERR_ARG, "size -1");
	OK(MPI_Alloc_mem(0, MPI_INFO_NULL, &p));
	OK(MPI_Free_mem(p));
	ERROR(MPI_Free_mem(&p), MPI_ERR_BASE, "MPI_Alloc_mem did not return it");
	OK(MPI_Free_mem(NULL));
}

Test(mpi, bottom)
{
	MPI_Datatype t;

	/* valid only with datatypes of absolute addresses, of which there are none */
	OK(MPI_Type_vector(2, 1, -1, MPI_INT, &t));
	OK(MPI_Type_commit(&t));
	ERROR(MPI_Send(MPI_BOTTOM, 1, MPI_INT, 1, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "invalid buf", "MPI_BOTTOM",
	      "absolute addresses");
	ERROR(MPI_Send(MPI_BOTTOM, 1, t, 1, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_BOTTOM");
	ERROR(MPI_Bcast(MPI_BOTTOM, 1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_BOTTOM");
	/* nothing is moved */
	OK(MPI_Send(MPI_BOTTOM, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
	OK(MPI_Send(MPI_BOTTOM, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
	OK(MPI_Type_free(&t));
}

/* ---- counts with products that do not fit ----------------------------------------------------------------- */

Test(mpi, products_of_counts)
{
	MPI_Count large = (MPI_Count)1 << 60, pairs = (MPI_Count)9 << 56;
	char a[64] = "", b[64] = "";

	/* one rank's part fits, that of four does not */
	ERROR(MPI_Allgather_c(a, large, MPI_INT, b, large, MPI_INT, MPI_COMM_WORLD), MPI_ERR_COUNT,
	      "invalid recvcount 1152921504606846976", "4 times");
	ERROR(MPI_Alltoall_c(MPI_IN_PLACE, 0, MPI_INT, b, large, MPI_INT, MPI_COMM_WORLD), MPI_ERR_COUNT,
	      "invalid recvcount 1152921504606846976", "4 times");
	/* 12 bytes each fit, 16 do not */
	ERROR(MPI_Allreduce_c(a, b, pairs, MPI_DOUBLE_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT, "extent");
	ERROR(MPI_Reduce_c(a, b, pairs, MPI_DOUBLE_INT, MPI_SUM, 1, MPI_COMM_WORLD), MPI_ERR_COUNT, "extent");
	cr_assert_eq(nasked, 0);
}

/* ---- polling with too few cores --------------------------------------------------------------------------- */

/* So many calls of each kind that find nothing done. */
static void poll_in_vain(MPI_Request request, int kind, int times)
{
	int flag, index, n, indices[1];

	for (int i = 0; i < times; i++) {
		flag = n = 0;
		switch (kind) {
		case 0:
			OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
			break;
		case 1:
			OK(MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE));
			break;
		case 2:
			OK(MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE));
			break;
		case 3:
			OK(MPI_Testsome(1, &request, &n, indices, MPI_STATUSES_IGNORE));
			break;
		case 4:
			OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
			break;
		case 5:
			OK(MPI_Iprobe(2, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
			break;
		}
		cr_assert(!flag && !n);
	}
}

Test(mpi, polling_lets_others_run)
{
	MPI_Request r;
	int got, other, one = 1, before;

	OK(MPI_Irecv(&got, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &r));
	for (int kind = 0; kind < 6; kind++) {
		hdl_job.oversubscribed = false;
		yields = 0;
		poll_in_vain(r, kind, 1000);
		cr_assert_eq(yields, 0, "kind %d: a rank with a core of its own gave it away", kind);
		hdl_job.oversubscribed = true;
		poll_in_vain(r, kind, 1000);
		cr_assert_gt(yields, 10, "kind %d: %d times", kind, yields);
	}
	/* a call that receives a message each time keeps the CPU: such a wait is never long */
	before = yields;
	for (int i = 0; i < 200; i++) {
		mock_later(3, 7, 0, &one, sizeof(one));
		poll_in_vain(r, 0, 1);
		OK(MPI_Recv(&other, 1, MPI_INT, 3, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	}
	cr_assert_leq(yields - before, 1);
	hdl_job.oversubscribed = false;
	mock_eager(1, 5, 0, &one, sizeof(one));
	OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

/* ---- reordering by the machine's distances -------------------------------------------------------------------- */

/* Neighbors of a row-major grid that are on different hosts. */
static int crossings(const struct hdl_locality *place, const int *order, int rows, int cols)
{
	int n = 0;

	for (int r = 0; r < rows; r++)
		for (int c = 0; c < cols; c++) {
			int cell = r * cols + c, host = place[order ? order[cell] : cell].at[HDL_AT_HOST];

			if (r + 1 < rows)
				n += place[order ? order[cell + cols] : cell + cols].at[HDL_AT_HOST] != host;
			if (c + 1 < cols)
				n += place[order ? order[cell + 1] : cell + 1].at[HDL_AT_HOST] != host;
		}
	return n;
}

Test(mpi_reorder, grid_of_two_hosts)
{
	int dims[2] = { 2, 4 }, periods[2] = { 0, 0 }, seen = 0, *order;
	struct hdl_locality place[8];

	/* ranks go from host to host by turns: every step along a row leaves it */
	memset(place, 0xff, sizeof(place));
	for (int r = 0; r < 8; r++)
		place[r].at[HDL_AT_HOST] = r % 2;
	cr_assert_eq(crossings(place, NULL, 2, 4), 6);
	order = hdl_grid_order(place, 2, dims, periods, 8);
	cr_assert_not_null(order);
	for (int c = 0; c < 8; c++)
		seen |= 1 << order[c];
	cr_assert_eq(seen, 255);
	cr_assert_eq(crossings(place, order, 2, 4), 2, "cut across the longer side");
	free(order);
	/* a placement that cannot be improved stays */
	for (int r = 0; r < 8; r++)
		place[r].at[HDL_AT_HOST] = r % 4 / 2;
	cr_assert_null(hdl_grid_order(place, 2, dims, periods, 8));
}

Test(mpi_reorder, graph_of_two_hosts)
{
	int index[6], edges[12], *order, leaves = 0;
	struct hdl_locality place[6];

	/* a ring of six with nodes that alternate between hosts: at best two edges cross, each specified by both ends */
	memset(place, 0xff, sizeof(place));
	for (int v = 0; v < 6; v++) {
		place[v].at[HDL_AT_HOST] = v % 2;
		edges[2 * v] = (v + 1) % 6;
		edges[2 * v + 1] = (v + 5) % 6;
		index[v] = 2 * v + 2;
	}
	order = hdl_graph_order(place, 6, index, edges);
	cr_assert_not_null(order);
	for (int v = 0; v < 6; v++)
		leaves += place[order[v]].at[HDL_AT_HOST] != place[order[(v + 1) % 6]].at[HDL_AT_HOST];
	cr_assert_leq(leaves, 4);
	free(order);
}
