/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles that are none (MPI-5.0 sections 2.5.1, 9.4): every kind of handle x null, freed, of another kind, and foreign ones
 * (addresses inside, outside and at odd places of the library's objects, unmapped ones, numbers) x the functions that take it.
 * The error is of the kind's class, the text names the function. Nothing crashes; under valgrind no freed memory is read.
 */
#include "mpi_test.h"

static int i, j, k, flag, four[4], out[4];
static char text[MPI_MAX_OBJECT_NAME + MPI_MAX_INFO_VAL];
static MPI_Aint a, b;
static MPI_Count c;
static void *p;
static MPI_Status st;
static MPI_Comm comm;
static MPI_Group group;
static MPI_Datatype type;
static MPI_Errhandler errh;
static MPI_Info info;
static MPI_Request req;
static MPI_Message msg;
#define W MPI_COMM_WORLD

/* X(call, arguments, whether the null handle is right there). h: the handle, *H: a variable that has it. */
#define COMM_CALLS(X) \
	X(MPI_Comm_size, (h, &i), 0) X(MPI_Comm_rank, (h, &i), 0) X(MPI_Comm_group, (h, &group), 0) \
	X(MPI_Comm_compare, (h, W, &i), 0) X(MPI_Comm_compare, (W, h, &i), 0) X(MPI_Comm_test_inter, (h, &i), 0) \
	X(MPI_Comm_remote_size, (h, &i), 0) X(MPI_Comm_remote_group, (h, &group), 0) X(MPI_Comm_dup, (h, &comm), 0) \
	X(MPI_Comm_dup_with_info, (h, MPI_INFO_NULL, &comm), 0) X(MPI_Comm_idup, (h, &comm, &req), 0) \
	X(MPI_Comm_split, (h, 0, 0, &comm), 0) X(MPI_Comm_split_type, (h, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm), 0) \
	X(MPI_Comm_create, (h, MPI_GROUP_EMPTY, &comm), 0) X(MPI_Comm_create_group, (h, MPI_GROUP_EMPTY, 0, &comm), 0) \
	X(MPI_Intercomm_create, (h, 0, W, 0, 0, &comm), 0) X(MPI_Intercomm_merge, (h, 0, &comm), 0) \
	X(MPI_Comm_free, (H), 0) X(MPI_Comm_disconnect, (H), 0) \
	X(MPI_Comm_get_name, (h, text, &i), 1) X(MPI_Comm_set_name, (h, "x"), 0) \
	X(MPI_Comm_get_info, (h, &info), 0) X(MPI_Comm_set_info, (h, MPI_INFO_NULL), 0) \
	X(MPI_Comm_get_attr, (h, MPI_TAG_UB, &p, &flag), 0) X(MPI_Comm_set_attr, (h, comm_key, NULL), 0) \
	X(MPI_Comm_delete_attr, (h, comm_key), 0) X(MPI_Comm_get_errhandler, (h, &errh), 0) \
	X(MPI_Comm_set_errhandler, (h, MPI_ERRORS_RETURN), 0) X(MPI_Comm_call_errhandler, (h, MPI_ERR_OTHER), 0) \
	X(MPI_Topo_test, (h, &i), 0) X(MPI_Cart_create, (h, 1, four, four, 0, &comm), 0) X(MPI_Cartdim_get, (h, &i), 0) \
	X(MPI_Cart_get, (h, 1, four, out, out), 0) X(MPI_Cart_rank, (h, four, &i), 0) X(MPI_Cart_shift, (h, 0, 1, &i, &j), 0) \
	X(MPI_Cart_sub, (h, four, &comm), 0) X(MPI_Graphdims_get, (h, &i, &j), 0) \
	X(MPI_Dist_graph_neighbors_count, (h, &i, &j, &k), 0) \
	X(MPI_Send, (four, 1, MPI_INT, 0, 0, h), 0) X(MPI_Ssend, (four, 1, MPI_INT, 0, 0, h), 0) \
	X(MPI_Bsend, (four, 1, MPI_INT, 0, 0, h), 0) X(MPI_Rsend, (four, 1, MPI_INT, 0, 0, h), 0) \
	X(MPI_Recv, (out, 1, MPI_INT, 0, 0, h, &st), 0) X(MPI_Isend, (four, 1, MPI_INT, 0, 0, h, &req), 0) \
	X(MPI_Irecv, (out, 1, MPI_INT, 0, 0, h, &req), 0) X(MPI_Probe, (0, 0, h, &st), 0) \
	X(MPI_Iprobe, (0, 0, h, &flag, &st), 0) X(MPI_Mprobe, (0, 0, h, &msg, &st), 0) \
	X(MPI_Improbe, (0, 0, h, &flag, &msg, &st), 0) X(MPI_Send_init, (four, 1, MPI_INT, 0, 0, h, &req), 0) \
	X(MPI_Recv_init, (out, 1, MPI_INT, 0, 0, h, &req), 0) \
	X(MPI_Sendrecv, (four, 1, MPI_INT, 0, 0, out, 1, MPI_INT, 0, 0, h, &st), 0) \
	X(MPI_Sendrecv_replace, (four, 1, MPI_INT, 0, 0, 0, 0, h, &st), 0) \
	X(MPI_Comm_attach_buffer, (h, text, 64), 0) X(MPI_Comm_detach_buffer, (h, &p, &i), 0) \
	X(MPI_Barrier, (h), 0) X(MPI_Ibarrier, (h, &req), 0) X(MPI_Bcast, (four, 1, MPI_INT, 0, h), 0) \
	X(MPI_Ibcast, (four, 1, MPI_INT, 0, h, &req), 0) X(MPI_Gather, (four, 1, MPI_INT, out, 1, MPI_INT, 0, h), 0) \
	X(MPI_Scatter, (four, 1, MPI_INT, out, 1, MPI_INT, 0, h), 0) X(MPI_Allgather, (four, 1, MPI_INT, out, 1, MPI_INT, h), 0) \
	X(MPI_Alltoall, (four, 1, MPI_INT, out, 1, MPI_INT, h), 0) X(MPI_Reduce, (four, out, 1, MPI_INT, MPI_SUM, 0, h), 0) \
	X(MPI_Allreduce, (four, out, 1, MPI_INT, MPI_SUM, h), 0) X(MPI_Scan, (four, out, 1, MPI_INT, MPI_SUM, h), 0) \
	X(MPI_Exscan, (four, out, 1, MPI_INT, MPI_SUM, h), 0) X(MPI_Pack, (four, 1, MPI_INT, text, 64, &i, h), 0) \
	X(MPI_Unpack, (text, 64, &i, four, 1, MPI_INT, h), 0) X(MPI_Pack_size, (1, MPI_INT, h, &i), 0)

#define GROUP_CALLS(X) \
	X(MPI_Group_size, (h, &i), 0) X(MPI_Group_rank, (h, &i), 0) \
	X(MPI_Group_translate_ranks, (h, 1, four, MPI_GROUP_EMPTY, out), 0) \
	X(MPI_Group_translate_ranks, (MPI_GROUP_EMPTY, 0, four, h, out), 0) X(MPI_Group_compare, (h, MPI_GROUP_EMPTY, &i), 0) \
	X(MPI_Group_compare, (MPI_GROUP_EMPTY, h, &i), 0) X(MPI_Group_union, (h, MPI_GROUP_EMPTY, &group), 0) \
	X(MPI_Group_intersection, (MPI_GROUP_EMPTY, h, &group), 0) X(MPI_Group_difference, (h, h, &group), 0) \
	X(MPI_Group_incl, (h, 0, four, &group), 0) X(MPI_Group_excl, (h, 0, four, &group), 0) \
	X(MPI_Group_range_incl, (h, 0, NULL, &group), 0) X(MPI_Group_free, (H), 0) X(MPI_Comm_create, (W, h, &comm), 0) \
	X(MPI_Comm_create_group, (W, h, 0, &comm), 0) \
	X(MPI_Comm_create_from_group, (h, "x", MPI_INFO_NULL, of_self, &comm), 0)

#define TYPE_CALLS(X) \
	X(MPI_Type_size, (h, &i), 0) X(MPI_Type_size_c, (h, &c), 0) X(MPI_Type_get_extent, (h, &a, &b), 0) \
	X(MPI_Type_get_true_extent, (h, &a, &b), 0) X(MPI_Type_commit, (H), 0) X(MPI_Type_free, (H), 0) \
	X(MPI_Type_dup, (h, &type), 0) X(MPI_Type_contiguous, (2, h, &type), 0) X(MPI_Type_vector, (2, 1, 2, h, &type), 0) \
	X(MPI_Type_create_hvector, (2, 1, 8, h, &type), 0) X(MPI_Type_indexed, (1, one, four, h, &type), 0) \
	X(MPI_Type_create_struct, (1, one, &a, &h, &type), 0) X(MPI_Type_create_resized, (h, 0, 8, &type), 0) \
	X(MPI_Type_create_subarray, (1, one, one, four, MPI_ORDER_C, h, &type), 0) \
	X(MPI_Type_get_envelope, (h, &i, &j, &k, &flag), 0) X(MPI_Type_get_contents, (h, 0, 0, 0, out, &a, &type), 0) \
	X(MPI_Type_get_name, (h, text, &i), 1) X(MPI_Type_set_name, (h, "x"), 0) X(MPI_Type_set_attr, (h, type_key, NULL), 0) \
	X(MPI_Type_get_attr, (h, type_key, &p, &flag), 0) X(MPI_Type_delete_attr, (h, type_key), 0) \
	X(MPI_Get_count, (&st, h, &i), 0) X(MPI_Get_elements, (&st, h, &i), 0) X(MPI_Status_set_elements, (&st, h, 1), 0) \
	X(MPI_Pack, (four, 1, h, text, 64, &i, W), 0) X(MPI_Unpack, (text, 64, &i, four, 1, h, W), 0) \
	X(MPI_Pack_size, (1, h, W, &i), 0) X(MPI_Pack_external_size, ("external32", 1, h, &a), 0) \
	X(MPI_Send, (four, 1, h, 0, 0, W), 0) X(MPI_Recv, (out, 1, h, 0, 0, W, &st), 0) \
	X(MPI_Isend, (four, 1, h, 0, 0, W, &req), 0) X(MPI_Irecv, (out, 1, h, 0, 0, W, &req), 0) \
	X(MPI_Send_init, (four, 1, h, 0, 0, W, &req), 0) X(MPI_Recv_init, (out, 1, h, 0, 0, W, &req), 0) \
	X(MPI_Sendrecv, (four, 1, h, 0, 0, out, 1, MPI_INT, 0, 0, W, &st), 0) \
	X(MPI_Sendrecv, (four, 1, MPI_INT, 0, 0, out, 1, h, 0, 0, W, &st), 0) \
	X(MPI_Bcast, (four, 1, h, 0, W), 0) X(MPI_Gather, (four, 1, h, out, 1, MPI_INT, 0, W), 0) \
	X(MPI_Allgather, (four, 1, MPI_INT, out, 1, h, W), 0) X(MPI_Alltoall, (four, 1, h, out, 1, MPI_INT, W), 0) \
	X(MPI_Allreduce, (four, out, 1, h, MPI_SUM, W), 0) X(MPI_Reduce, (four, out, 1, h, MPI_SUM, 0, W), 0) \
	X(MPI_Scan, (four, out, 1, h, MPI_SUM, W), 0) X(MPI_Reduce_local, (four, out, 1, h, MPI_SUM), 0) \
	X(MPI_Iallreduce, (four, out, 1, h, MPI_SUM, W, &req), 0) X(MPI_Ibcast, (four, 1, h, 0, W, &req), 0)

#define OP_CALLS(X) \
	X(MPI_Op_free, (H), 0) X(MPI_Op_commutative, (h, &i), 0) X(MPI_Reduce_local, (four, out, 1, MPI_INT, h), 0) \
	X(MPI_Allreduce, (four, out, 1, MPI_INT, h, W), 0) X(MPI_Reduce, (four, out, 1, MPI_INT, h, 0, W), 0) \
	X(MPI_Scan, (four, out, 1, MPI_INT, h, W), 0) X(MPI_Exscan, (four, out, 1, MPI_INT, h, W), 0) \
	X(MPI_Reduce_scatter_block, (four, out, 1, MPI_INT, h, W), 0) X(MPI_Iallreduce, (four, out, 1, MPI_INT, h, W, &req), 0) \
	X(MPI_Ireduce, (four, out, 1, MPI_INT, h, 0, W, &req), 0)

#define INFO_CALLS(X) \
	X(MPI_Info_dup, (h, &info), 0) X(MPI_Info_free, (H), 0) X(MPI_Info_set, (h, "k", "v"), 0) \
	X(MPI_Info_delete, (h, "k"), 0) \
	X(MPI_Info_get_string, (h, "k", &i, text, &flag), 0) X(MPI_Info_get, (h, "k", 8, text, &flag), 0) \
	X(MPI_Info_get_valuelen, (h, "k", &i, &flag), 0) X(MPI_Info_get_nkeys, (h, &i), 0) \
	X(MPI_Info_get_nthkey, (h, 0, text), 0) X(MPI_Comm_set_info, (W, h), 1) X(MPI_Comm_dup_with_info, (W, h, &comm), 1) \
	X(MPI_Comm_split_type, (W, MPI_COMM_TYPE_SHARED, 0, h, &comm), 1) X(MPI_Alloc_mem, (8, h, &p), 1)

#define ERRH_CALLS(X) \
	X(MPI_Errhandler_free, (H), 0) X(MPI_Comm_set_errhandler, (W, h), 0) X(MPI_File_set_errhandler, (MPI_FILE_NULL, h), 0) \
	X(MPI_Comm_create_from_group, (MPI_GROUP_EMPTY, "x", MPI_INFO_NULL, h, &comm), 0)

#define REQ_CALLS(X) \
	X(MPI_Wait, (H, &st), 1) X(MPI_Test, (H, &flag, &st), 1) X(MPI_Waitall, (1, H, &st), 1) \
	X(MPI_Testall, (1, H, &flag, &st), 1) X(MPI_Waitany, (1, H, &i, &st), 1) X(MPI_Testany, (1, H, &i, &flag, &st), 1) \
	X(MPI_Waitsome, (1, H, &i, out, &st), 1) X(MPI_Testsome, (1, H, &i, out, &st), 1) \
	X(MPI_Request_get_status, (h, &flag, &st), 1) X(MPI_Request_get_status_any, (1, H, &i, &flag, &st), 1) \
	X(MPI_Request_get_status_all, (1, H, &flag, &st), 1) X(MPI_Request_get_status_some, (1, H, &i, out, &st), 1) \
	X(MPI_Request_free, (H), 0) X(MPI_Cancel, (H), 0) X(MPI_Start, (H), 0) X(MPI_Startall, (1, H), 0) \
	X(MPI_Grequest_complete, (h), 0)

#define MSG_CALLS(X) \
	X(MPI_Mrecv, (out, 1, MPI_INT, H, &st), 0) X(MPI_Imrecv, (out, 1, MPI_INT, H, &req), 0)

static int one[1] = { 1 }, comm_key, type_key;
/* The error handler of MPI_COMM_SELF, for constructors that have one as their argument and raise their errors by that */
static MPI_Errhandler of_self = MPI_ERRORS_RETURN;


static int ncalls;
static int forgiving;		/* the error handler is one that forgives */

/* what: a word for the handle. */
static void judge(const char *call, int rc, int want, const char *kind, const char *what)
{
	char said[MPI_MAX_ERROR_STRING];
	int class = -1, len;

	ncalls++;
	if (n_forgiven != forgiving)
		test_fail(__FILE__, __LINE__, "%s with a %s that is %s: the error handler was called %d times", call, kind, what,
			  n_forgiven);
	n_forgiven = 0;
	MPI_Error_class(rc, &class);
	MPI_Error_string(rc, said, &len);
	if (class != want)
		test_fail(__FILE__, __LINE__, "%s with a %s that is %s: class %d instead of %d: %s", call, kind, what, class,
			  want, said);
	if (strncmp(said, call, strlen(call)) || said[strlen(call)] != ':')
		test_fail(__FILE__, __LINE__, "%s with a %s that is %s: the text does not begin with the call: %s", call, kind,
			  what, said);
}

#define TRIES(kind, CALLS, class) \
	static void try_##kind(const void *handle, const char *what, int is_null) \
	{ \
		const char *name = #kind; \
		const int want = class; \
		typedef kind handle_type; \
		CALLS(TRY) \
	}
#define TRY(call, args, null_is_right) \
	{ \
		handle_type h = (handle_type)handle, copy = h, *H = &copy; \
		(void)H; \
		if (!is_null || !(null_is_right)) \
			judge(#call, call args, want, name, what); \
	}
TRIES(MPI_Comm, COMM_CALLS, MPI_ERR_COMM)
TRIES(MPI_Group, GROUP_CALLS, MPI_ERR_GROUP)
TRIES(MPI_Datatype, TYPE_CALLS, MPI_ERR_TYPE)
TRIES(MPI_Op, OP_CALLS, MPI_ERR_OP)
TRIES(MPI_Info, INFO_CALLS, MPI_ERR_INFO)
TRIES(MPI_Errhandler, ERRH_CALLS, MPI_ERR_ERRHANDLER)
TRIES(MPI_Request, REQ_CALLS, MPI_ERR_REQUEST)
TRIES(MPI_Message, MSG_CALLS, MPI_ERR_REQUEST)

/* ---- one of each, in use and freed ---------------------------------------------------------------------- */

enum kind { COMM, GROUP, TYPE, OP, INFO, ERRH, REQ, MSG, KINDS };
static void (*const tries[KINDS])(const void *handle, const char *what, int is_null) = {
	try_MPI_Comm, try_MPI_Group, try_MPI_Datatype, try_MPI_Op, try_MPI_Info, try_MPI_Errhandler, try_MPI_Request,
	try_MPI_Message,
};
static const char *const kind_name[KINDS] = {
	"a communicator", "a group", "a datatype", "an operation", "an info object", "an error handler", "a request", "a message",
};
static void *const null_handle[KINDS] = {
	MPI_COMM_NULL, MPI_GROUP_NULL, MPI_DATATYPE_NULL, MPI_OP_NULL, MPI_INFO_NULL, MPI_ERRHANDLER_NULL, MPI_REQUEST_NULL,
	MPI_MESSAGE_NULL,
};

static void add(void *in, void *inout, int *len, MPI_Datatype *t)
{
	(void)t;
	for (int n = 0; n < *len; n++)
		((int *)inout)[n] += ((int *)in)[n];
}

static void handler(MPI_Comm *on, int *code, ...)
{
	(void)on;
	(void)code;
}

static void make(void *all[KINDS])
{
	static int sent;
	MPI_Group world;
	MPI_Request r;

	MPI_Comm_dup(MPI_COMM_SELF, (MPI_Comm *)&all[COMM]);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, four, (MPI_Group *)&all[GROUP]);
	MPI_Group_free(&world);
	MPI_Type_contiguous(3, MPI_INT, (MPI_Datatype *)&all[TYPE]);
	MPI_Type_commit((MPI_Datatype *)&all[TYPE]);
	MPI_Op_create(add, 1, (MPI_Op *)&all[OP]);
	MPI_Info_create((MPI_Info *)&all[INFO]);
	MPI_Comm_create_errhandler(handler, (MPI_Errhandler *)&all[ERRH]);
	MPI_Recv_init(out, 1, MPI_INT, 0, 9, MPI_COMM_SELF, (MPI_Request *)&all[REQ]);
	MPI_Isend(&sent, 1, MPI_INT, 0, 8, MPI_COMM_SELF, &r);
	MPI_Mprobe(0, 8, MPI_COMM_SELF, (MPI_Message *)&all[MSG], MPI_STATUS_IGNORE);
	MPI_Request_free(&r);
}

/* The variables keep the handles. */
static void unmake(void *const all[KINDS])
{
	void *h[KINDS];

	memcpy(h, all, sizeof(h));
	CHECK_EQ(MPI_Comm_free((MPI_Comm *)&h[COMM]), 0);
	CHECK_EQ(MPI_Group_free((MPI_Group *)&h[GROUP]), 0);
	CHECK_EQ(MPI_Type_free((MPI_Datatype *)&h[TYPE]), 0);
	CHECK_EQ(MPI_Op_free((MPI_Op *)&h[OP]), 0);
	CHECK_EQ(MPI_Info_free((MPI_Info *)&h[INFO]), 0);
	CHECK_EQ(MPI_Errhandler_free((MPI_Errhandler *)&h[ERRH]), 0);
	CHECK_EQ(MPI_Request_free((MPI_Request *)&h[REQ]), 0);
	CHECK_EQ(MPI_Mrecv(out, 1, MPI_INT, (MPI_Message *)&h[MSG], MPI_STATUS_IGNORE), 0);
	for (int n = 0; n < KINDS; n++)
		CHECK(h[n] == null_handle[n]);
}

static void try_all(const void *handle, const char *what)
{
	for (int n = 0; n < KINDS; n++)
		tries[n](handle, what, 0);
}

/* ---- the cases ---------------------------------------------------------------------------------------------- */

static void nulls(void)
{
	for (int n = 0; n < KINDS; n++)
		tries[n](null_handle[n], "null", 1);
}

static void foreign(void *const all[KINDS])
{
	static long mine[64];

	try_all(&mine[2], "an address of the program's memory");
	try_all((char *)mine + 3, "an odd address");
	try_all((void *)0xdeadbee8, "an address where nothing is");
	try_all((void *)~(uintptr_t)7, "the last address");
	try_all((void *)(uintptr_t)0xffff800000000000u, "no address at all");
	try_all((void *)(uintptr_t)0x7f, "a number");
	try_all((void *)(uintptr_t)0xfff, "a constant that is not in use");
	for (int n = 0; n < KINDS; n++) {
		try_all((char *)all[n] + 8, "inside of an object");
		try_all((char *)all[n] + 1, "an odd address inside of an object");
	}
}

static void wrong_kinds(void *const all[KINDS])
{
	static void *const constants[KINDS] = {
		MPI_COMM_WORLD, MPI_GROUP_EMPTY, MPI_INT, MPI_SUM, MPI_INFO_ENV, MPI_ERRORS_RETURN, NULL, MPI_MESSAGE_NO_PROC,
	};

	for (int n = 0; n < KINDS; n++)
		for (int other = 0; other < KINDS; other++) {
			if (n == other)
				continue;
			tries[n](all[other], kind_name[other], 0);
			if (constants[other])
				tries[n](constants[other], "a constant of another kind", 0);
			tries[n](null_handle[other], "null of another kind", 0);
		}
}

static void freed(void)
{
	void *all[KINDS];

	for (int round = 0; round < 3; round++) {
		make(all);
		unmake(all);
		for (int n = 0; n < KINDS; n++)
			tries[n](all[n], "freed", 0);
		try_all(all[round], "freed, and was something else");
	}
}

/* A handle ends with its free function, also while the object is in use. */
static void freed_in_use(void)
{
	MPI_Comm c1, stale;
	MPI_Request r;
	MPI_Errhandler e, e2, stale_e, before;
	MPI_Datatype t, stale_t, t2;
	MPI_Group g, g2, stale_g;

	MPI_Comm_dup(MPI_COMM_SELF, &c1);
	stale = c1;
	MPI_Irecv(out, 1, MPI_INT, 0, 3, c1, &r);
	CHECK_EQ(MPI_Comm_free(&c1), 0);
	try_MPI_Comm(stale, "freed, with an operation pending", 0);
	MPI_Cancel(&r);
	CHECK_EQ(MPI_Wait(&r, &st), 0);

	MPI_Comm_dup(MPI_COMM_SELF, &c1);
	MPI_Comm_create_errhandler(handler, &e);
	MPI_Comm_set_errhandler(c1, e);
	stale_e = e;
	MPI_Errhandler_free(&e);
	try_MPI_Errhandler(stale_e, "freed, but a communicator's", 0);
	CHECK_EQ(MPI_Comm_get_errhandler(c1, &e), 0);		/* two new handles */
	CHECK_EQ(MPI_Comm_get_errhandler(c1, &e2), 0);
	CHECK(e == stale_e && e2 == e);
	CHECK_EQ(MPI_Errhandler_free(&e), 0);
	CHECK_EQ(MPI_Comm_get_errhandler(MPI_COMM_SELF, &before), 0);
	CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_SELF, e2), 0);
	CHECK_EQ(MPI_Comm_set_errhandler(MPI_COMM_SELF, before), 0);
	CHECK_EQ(MPI_Errhandler_free(&e2), 0);
	CHECK_EQ(MPI_Errhandler_free(&before), 0);
	try_MPI_Errhandler(stale_e, "freed as often as it was had", 0);
	CHECK_EQ(MPI_Comm_free(&c1), 0);
	try_MPI_Errhandler(stale_e, "freed, and its communicator, too", 0);

	MPI_Type_contiguous(2, MPI_INT, &t);
	MPI_Type_contiguous(2, t, &t2);
	stale_t = t;
	MPI_Type_free(&t);
	try_MPI_Datatype(stale_t, "freed, but another type is made of it", 0);
	MPI_Type_free(&t2);
	try_MPI_Datatype(stale_t, "freed, and what was made of it, too", 0);

	MPI_Comm_group(MPI_COMM_WORLD, &g);
	MPI_Comm_group(MPI_COMM_WORLD, &g2);
	stale_g = g;
	MPI_Group_free(&g);
	MPI_Group_free(&g2);
	try_MPI_Group(stale_g, "freed, but the communicator's", 0);
	CHECK_EQ(MPI_Comm_group(MPI_COMM_WORLD, &g), 0);
	MPI_Group_free(&g);
}

/* More objects than the first memory for them holds, and those freed from the middle. */
static void many(void)
{
	enum { N = 700 };
	static MPI_Info infos[N];
	static MPI_Request reqs[N];
	static MPI_Comm comms[40];

	for (int n = 0; n < N; n++) {
		MPI_Info_create(&infos[n]);
		MPI_Recv_init(out, 1, MPI_INT, 0, n, MPI_COMM_SELF, &reqs[n]);
	}
	for (int n = 0; n < 40; n++)
		MPI_Comm_dup(MPI_COMM_SELF, &comms[n]);
	for (int n = 0; n < N; n++) {
		MPI_Info kept = infos[n];
		MPI_Request kept_req = reqs[n];

		CHECK_EQ(MPI_Info_set(infos[n], "k", "v"), 0);
		CHECK_EQ(MPI_Info_free(&infos[n]), 0);
		CHECK_EQ(MPI_Request_free(&reqs[n]), 0);
		if (n % 100 == 7) {
			try_MPI_Info(kept, "one of many that was freed", 0);
			try_MPI_Request(kept_req, "one of many that was freed", 0);
			try_all((char *)kept + 4, "inside of one of many");
		}
	}
	for (int n = 0; n < 40; n++) {
		MPI_Comm kept = comms[n];

		CHECK_EQ(MPI_Comm_free(&comms[n]), 0);
		try_MPI_Comm(kept, "one of many that was freed", 0);
	}
}

static void bad_keyvals(void)
{
	int keys[6] = { MPI_KEYVAL_INVALID, 0x5000000, -77, MPI_TAG_UB, MPI_WIN_BASE, 0 }, key;
	char what[40];

	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	keys[5] = key;
	MPI_Comm_free_keyval(&key);
	for (int n = 0; n < 6; n++) {
		key = keys[n];
		snprintf(what, sizeof(what), "%d", key);
		judge("MPI_Comm_set_attr", MPI_Comm_set_attr(W, key, NULL), MPI_ERR_KEYVAL, "key", what);
		judge("MPI_Comm_delete_attr", MPI_Comm_delete_attr(W, key), MPI_ERR_KEYVAL, "key", what);
		if (n != 3)
			judge("MPI_Comm_get_attr", MPI_Comm_get_attr(W, key, &p, &flag), MPI_ERR_KEYVAL, "key", what);
		judge("MPI_Comm_free_keyval", MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL, "key", what);
		judge("MPI_Type_set_attr", MPI_Type_set_attr(MPI_INT, key, NULL), MPI_ERR_KEYVAL, "key", what);
		judge("MPI_Type_get_attr", MPI_Type_get_attr(MPI_INT, key, &p, &flag), MPI_ERR_KEYVAL, "key", what);
		judge("MPI_Type_delete_attr", MPI_Type_delete_attr(MPI_INT, key), MPI_ERR_KEYVAL, "key", what);
		judge("MPI_Type_free_keyval", MPI_Type_free_keyval(&key), MPI_ERR_KEYVAL, "key", what);
	}
	key = type_key;
	judge("MPI_Comm_set_attr", MPI_Comm_set_attr(W, key, NULL), MPI_ERR_KEYVAL, "key", "one for datatypes");
	judge("MPI_Comm_free_keyval", MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL, "key", "one for datatypes");
	key = comm_key;
	judge("MPI_Type_get_attr", MPI_Type_get_attr(MPI_INT, key, &p, &flag), MPI_ERR_KEYVAL, "key", "one for communicators");
	judge("MPI_Type_free_keyval", MPI_Type_free_keyval(&key), MPI_ERR_KEYVAL, "key", "one for communicators");
}

int main(int argc, char **argv)
{
	void *all[KINDS];

	test_init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
	MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL);
	for (;; forgiving = 1) {
		make(all);
		nulls();
		foreign(all);
		wrong_kinds(all);
		freed();
		freed_in_use();
		many();
		bad_keyvals();
		unmake(all);
		if (forgiving)
			break;
		forgive();
		MPI_Comm_get_errhandler(MPI_COMM_SELF, &of_self);
	}
	MPI_Errhandler_free(&of_self);
	MPI_Comm_free_keyval(&comm_key);
	MPI_Type_free_keyval(&type_key);
	if (!me)
		printf("%d calls\n", ncalls);
	test_done("handles");
	return 0;
}
