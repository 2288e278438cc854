/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of sessions (MPI-5.0 sections 3.6, 7.3.2, 7.4.2, 9.3, 11.3), a case each, without the world model. Runs under any
 * MPI with sessions.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int me = -1, np = -1;
static MPI_Session session;
static MPI_Comm all;

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: rank %d of %d: %s\n", __FILE__, __LINE__, me, np, #cond); \
			_exit(1); \
		} \
	} while (0)

static int class_of(int code)
{
	int class = -1;

	MPI_Error_class(code, &class);
	return class;
}

/* ---- before anything ------------------------------------------------------------------------------------- */

static int n_session_errors, last_class;
static MPI_Session last_session;

static void on_error(MPI_Session *s, int *code, ...)
{
	n_session_errors++;
	last_class = class_of(*code);
	last_session = *s;
}

/* Section 11.4.1: these may be called ahead of any session. */
static void early(void)
{
	char text[MPI_MAX_ERROR_STRING];
	MPI_Errhandler h;
	MPI_Info info;
	int flag, n;

	MPI_Initialized(&flag);
	CHECK(!flag);
	MPI_Finalized(&flag);
	CHECK(!flag);
	CHECK(!MPI_Get_version(&n, &flag));
	CHECK(!MPI_Error_string(MPI_ERR_SESSION, text, &n) && n > 0);
	CHECK(!MPI_Info_create(&info));
	CHECK(!MPI_Info_set(info, "thread_level", "MPI_THREAD_RED"));
	CHECK(!MPI_Session_create_errhandler(on_error, &h));
	/* errors of MPI_Session_init come by its own handler, and make no session */
	session = (MPI_Session)&flag;
	CHECK(class_of(MPI_Session_init(info, MPI_ERRORS_RETURN, &session)) == MPI_ERR_INFO_VALUE);
	CHECK(session == MPI_SESSION_NULL);
	CHECK(class_of(MPI_Session_init(info, h, &session)) == MPI_ERR_INFO_VALUE);
	CHECK(session == MPI_SESSION_NULL && n_session_errors == 1 && last_class == MPI_ERR_INFO_VALUE);
	CHECK(last_session == MPI_SESSION_NULL);
	MPI_Info_set(info, "thread_level", "MPI_THREAD_SERIALIZED");
	MPI_Info_set(info, "mpi_memory_alloc_kinds", "system");
	CHECK(!MPI_Session_init(info, h, &session));
	CHECK(session != MPI_SESSION_NULL && n_session_errors == 1);
	MPI_Info_free(&info);
	MPI_Errhandler_free(&h);	/* the session keeps it */
}

/* ---- a session's calls ------------------------------------------------------------------------------------ */

static void info(void)
{
	char value[MPI_MAX_INFO_VAL];
	int len = sizeof value, flag;
	MPI_Info used;

	CHECK(!MPI_Session_get_info(session, &used));
	CHECK(!MPI_Info_get_string(used, "thread_level", &len, value, &flag));
	CHECK(flag && !strcmp(value, "MPI_THREAD_SERIALIZED"));
	len = sizeof value;
	CHECK(!MPI_Info_get_string(used, "mpi_memory_alloc_kinds", &len, value, &flag));
	CHECK(flag && strstr(value, "system"));
	MPI_Info_free(&used);
}

static int pset_size(const char *name)
{
	char value[MPI_MAX_INFO_VAL];
	int len = sizeof value, flag;
	MPI_Info info;

	CHECK(!MPI_Session_get_pset_info(session, name, &info));
	CHECK(!MPI_Info_get_string(info, "mpi_size", &len, value, &flag));
	CHECK(flag);
	MPI_Info_free(&info);
	return atoi(value);
}

static void psets(void)
{
	int n, size, rank, world = 0, self = 0;
	char name[MPI_MAX_PSET_NAME_LEN], cut[6];
	MPI_Group g;

	CHECK(!MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n));
	CHECK(n >= 2);
	for (int i = 0; i < n; i++) {
		int len = 0, whole;

		CHECK(!MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, NULL));
		CHECK(len > 1 && len <= (int)sizeof name);
		whole = len;
		CHECK(!MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name));
		CHECK((int)strlen(name) + 1 == len && len == whole);
		len = sizeof cut;
		CHECK(!MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, cut));
		CHECK(len == whole && !strncmp(cut, name, sizeof cut - 1) && !cut[sizeof cut - 1]);
		CHECK(!MPI_Group_from_session_pset(session, name, &g));
		CHECK(g != MPI_GROUP_NULL);
		MPI_Group_size(g, &size);
		MPI_Group_rank(g, &rank);
		CHECK(size == pset_size(name));
		if (!strcmp(name, "mpi://WORLD")) {
			world++;
			np = size;
			me = rank;
		}
		if (!strcmp(name, "mpi://SELF")) {
			self++;
			CHECK(size == 1 && rank == 0);
		}
		MPI_Group_free(&g);
	}
	CHECK(world == 1 && self == 1 && me >= 0 && me < np);
	g = MPI_GROUP_EMPTY;
	CHECK(!MPI_Group_from_session_pset(session, "mpi://NONE", &g));
	CHECK(g == MPI_GROUP_NULL);
}

static void expect(int class)
{
	CHECK(n_session_errors == 1 && last_class == class && last_session == session);
	n_session_errors = 0;
}

static void errors(void)
{
	MPI_Errhandler h, was;
	MPI_Info info;
	MPI_Group g;
	int n;

	n_session_errors = 0;
	CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 1000, &n, NULL)) == MPI_ERR_ARG);
	expect(MPI_ERR_ARG);
	info = MPI_INFO_ENV;
	CHECK(class_of(MPI_Session_get_pset_info(session, "mpi://NONE", &info)) == MPI_ERR_ARG);
	CHECK(info == MPI_INFO_NULL);
	expect(MPI_ERR_ARG);
	CHECK(class_of(MPI_Group_from_session_pset(session, NULL, &g)) == MPI_ERR_ARG);
	CHECK(g == MPI_GROUP_NULL);
	expect(MPI_ERR_ARG);
	CHECK(!MPI_Session_call_errhandler(session, MPI_ERR_TAG));
	expect(MPI_ERR_TAG);
	CHECK(!MPI_Session_get_errhandler(session, &was));
	CHECK(!MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
	CHECK(class_of(MPI_Session_set_errhandler(session, MPI_ERRHANDLER_NULL)) == MPI_ERR_ERRHANDLER);
	CHECK(n_session_errors == 0);
	CHECK(!MPI_Session_get_errhandler(session, &h));
	CHECK(h == MPI_ERRORS_RETURN);
	CHECK(!MPI_Session_set_errhandler(session, was));
	MPI_Errhandler_free(&was);
	CHECK(!MPI_Session_call_errhandler(session, MPI_ERR_COMM));
	expect(MPI_ERR_COMM);
}

/* ---- errors of constructors without a communicator ------------------------------------------------------- */

static int n_comm_errors;

static void on_comm_error(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	n_comm_errors++;
	last_class = class_of(*code);
}

/* The argument errhandler had the error; MPI_COMM_SELF's handler, which is fatal, had not. */
static void refused(int code, int class, MPI_Errhandler handler)
{
	CHECK(class_of(code) == class);
	CHECK(handler == MPI_ERRORS_RETURN || (n_comm_errors == 1 && last_class == class));
	n_comm_errors = 0;
}

/* Section 7.4.2: the argument errhandler is invoked, too, if the constructor itself encounters an error. */
static void constructor_errors(void)
{
	MPI_Errhandler counting, handlers[2];
	MPI_Info none = (MPI_Info)MPI_INT;
	MPI_Group world, self, other;
	MPI_Comm c;

	CHECK(!MPI_Comm_create_errhandler(on_comm_error, &counting));
	MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
	MPI_Group_from_session_pset(session, "mpi://SELF", &self);
	MPI_Group_excl(world, 1, &me, &other);
	handlers[0] = counting;
	handlers[1] = MPI_ERRORS_RETURN;
	for (int i = 0; i < 2; i++) {
		MPI_Errhandler h = handlers[i];

		refused(MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, h, &c), MPI_ERR_GROUP, h);
		if (np > 1)
			refused(MPI_Comm_create_from_group(other, "x", MPI_INFO_NULL, h, &c), MPI_ERR_GROUP, h);
		refused(MPI_Comm_create_from_group(world, NULL, MPI_INFO_NULL, h, &c), MPI_ERR_ARG, h);
		refused(MPI_Comm_create_from_group(world, "x", none, h, &c), MPI_ERR_INFO, h);
		refused(MPI_Comm_create_from_group(world, "x", MPI_INFO_NULL, h, NULL), MPI_ERR_ARG, h);
		refused(MPI_Intercomm_create_from_groups(MPI_GROUP_NULL, 0, other, 0, "x", MPI_INFO_NULL, h, &c), MPI_ERR_GROUP,
			h);
		refused(MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, self, 0, "x", MPI_INFO_NULL, h, &c), MPI_ERR_GROUP,
			h);
		refused(MPI_Intercomm_create_from_groups(self, 1, other, 0, "x", MPI_INFO_NULL, h, &c), MPI_ERR_RANK, h);
		refused(MPI_Intercomm_create_from_groups(self, 0, other, 0, NULL, MPI_INFO_NULL, h, &c), MPI_ERR_ARG, h);
		refused(MPI_Intercomm_create_from_groups(self, 0, other, 0, "x", none, h, &c), MPI_ERR_INFO, h);
		refused(MPI_Intercomm_create_from_groups(self, 0, other, 0, "x", MPI_INFO_NULL, h, NULL), MPI_ERR_ARG, h);
		refused(MPI_Intercomm_create_from_groups(self, 0, MPI_GROUP_NULL, 0, "x", MPI_INFO_NULL, h, &c), MPI_ERR_GROUP,
			h);
		refused(MPI_Intercomm_create_from_groups(self, 0, other, np, "x", MPI_INFO_NULL, h, &c), MPI_ERR_RANK, h);
		refused(MPI_Intercomm_create_from_groups(self, 0, world, 0, "x", MPI_INFO_NULL, h, &c), MPI_ERR_GROUP, h);
	}
	CHECK(c == MPI_COMM_NULL);
	if (other != MPI_GROUP_EMPTY)
		MPI_Group_free(&other);
	MPI_Group_free(&self);
	MPI_Group_free(&world);
	MPI_Errhandler_free(&counting);
}

static void from_groups(void)
{
	MPI_Group world, low, high, both;
	MPI_Comm inter, merged, a, b;
	int size, half = np / 2, got = -1;

	MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
	CHECK(!MPI_Comm_create_from_group(world, "all", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all));
	/* two with different tags, in one order here and in another one there, would wait for each other if tags did not count */
	CHECK(!MPI_Comm_create_from_group(world, "a", MPI_INFO_NULL, MPI_ERRORS_RETURN, &a));
	CHECK(!MPI_Comm_create_from_group(world, "b", MPI_INFO_NULL, MPI_ERRORS_RETURN, &b));
	MPI_Send(&me, 1, MPI_INT, (me + 1) % np, 1, a);
	MPI_Send(&np, 1, MPI_INT, (me + 1) % np, 1, b);
	MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, b, MPI_STATUS_IGNORE);
	CHECK(got == np);
	MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, a, MPI_STATUS_IGNORE);
	CHECK(got == (me + np - 1) % np);
	MPI_Comm_free(&a);
	MPI_Comm_free(&b);
	if (half) {
		MPI_Group_range_incl(world, 1, (int[1][3]){ { 0, half - 1, 1 } }, &low);
		MPI_Group_range_incl(world, 1, (int[1][3]){ { half, np - 1, 1 } }, &high);
		CHECK(!MPI_Intercomm_create_from_groups(me < half ? low : high, 0, me < half ? high : low, 0, "inter",
							MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &inter));
		MPI_Comm_remote_size(inter, &size);
		CHECK(size == (me < half ? np - half : half));
		CHECK(!MPI_Intercomm_merge(inter, me >= half, &merged));
		MPI_Comm_size(merged, &size);
		CHECK(size == np);
		MPI_Comm_group(merged, &both);
		MPI_Group_compare(both, world, &got);
		CHECK(got == MPI_IDENT);
		MPI_Group_free(&both);
		MPI_Comm_free(&merged);
		MPI_Comm_free(&inter);
		MPI_Group_free(&low);
		MPI_Group_free(&high);
	}
	MPI_Group_free(&world);
}

/* Section 3.6: a communicator's own buffer, else its session's. Each send goes to this rank itself. */
static void buffers(void)
{
	static char space[4096 + MPI_BSEND_OVERHEAD], own[512 + MPI_BSEND_OVERHEAD];
	MPI_Request q;
	MPI_Comm dup;
	void *back;
	int size, rank, got = 0;

	MPI_Comm_rank(all, &rank);
	CHECK(!MPI_Comm_dup(all, &dup));	/* of the session, too */
	MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
	CHECK(class_of(MPI_Bsend(&rank, 1, MPI_INT, rank, 0, dup)) == MPI_ERR_BUFFER);
	CHECK(!MPI_Session_attach_buffer(session, space, sizeof space));
	CHECK(class_of(MPI_Session_attach_buffer(session, space, sizeof space)) == MPI_ERR_BUFFER);
	CHECK(n_session_errors == 1 && last_class == MPI_ERR_BUFFER);
	n_session_errors = 0;
	CHECK(!MPI_Bsend(&rank, 1, MPI_INT, rank, 0, dup));
	CHECK(!MPI_Comm_attach_buffer(dup, own, sizeof own));
	{
		char big[2048] = { 0 };		/* too much for the communicator's, which counts */

		CHECK(class_of(MPI_Bsend(big, sizeof big, MPI_CHAR, rank, 1, dup)) == MPI_ERR_BUFFER);
		CHECK(!MPI_Comm_detach_buffer(dup, &back, &size) && back == own && size == (int)sizeof own);
		CHECK(!MPI_Bsend(big, sizeof big, MPI_CHAR, rank, 1, dup));
		CHECK(!MPI_Session_iflush_buffer(session, &q));
		MPI_Recv(&got, 1, MPI_INT, rank, 0, dup, MPI_STATUS_IGNORE);
		CHECK(got == rank);
		MPI_Recv(big, sizeof big, MPI_CHAR, rank, 1, dup, MPI_STATUS_IGNORE);
	}
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	CHECK(!MPI_Session_flush_buffer(session));
	CHECK(!MPI_Session_detach_buffer(session, &back, &size) && back == space && size == (int)sizeof space);
	CHECK(!MPI_Session_attach_buffer_c(session, space, sizeof space));
	MPI_Count large;
	CHECK(!MPI_Session_detach_buffer_c(session, &back, &large) && large == (MPI_Count)sizeof space);
	CHECK(!MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0));
	CHECK(!MPI_Bsend(&rank, 1, MPI_INT, (rank + 1) % np, 2, all));
	MPI_Recv(&got, 1, MPI_INT, (rank + np - 1) % np, 2, all, MPI_STATUS_IGNORE);
	/* MPI_Session_finalize detaches it */
	MPI_Comm_free(&dup);
}

static int attribute_deleted;

static int on_delete(MPI_Comm c, int key, void *value, void *state)
{
	(void)c;
	(void)key;
	(void)state;
	attribute_deleted += *(int *)value;
	return MPI_SUCCESS;
}

/* Further behaviour without the world model: keys, types, operations, the predefined communicators' absence. */
static void without_world(void)
{
	int key, one = 1, flag, *value, rank;
	MPI_Datatype t;

	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
	MPI_Comm_set_attr(all, key, &one);
	MPI_Comm_get_attr(all, key, &value, &flag);
	CHECK(flag && *value == 1);
	MPI_Comm_delete_attr(all, key);
	CHECK(attribute_deleted == 1);
	MPI_Comm_free_keyval(&key);
	MPI_Type_vector(3, 1, 2, MPI_INT, &t);
	MPI_Type_commit(&t);
	int out[6] = { 1, 0, 2, 0, 3, 0 }, in[3];
	MPI_Sendrecv(out, 1, t, (me + 1) % np, 3, in, 3, MPI_INT, (me + np - 1) % np, 3, all, MPI_STATUS_IGNORE);
	CHECK(in[0] == 1 && in[1] == 2 && in[2] == 3);
	MPI_Type_free(&t);
	MPI_Comm_rank(all, &rank);
	CHECK(rank == me);
}

int main(void)
{
	MPI_Session second;
	int rc;

	early();
	psets();
	info();
	errors();
	constructor_errors();
	from_groups();
	buffers();
	without_world();
	CHECK(!MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
	MPI_Barrier(all);
	MPI_Comm_free(&all);
	CHECK(!MPI_Session_finalize(&session));
	CHECK(session == MPI_SESSION_NULL);
	rc = MPI_Session_finalize(&second);
	CHECK(!rc);
	if (!me)
		printf("session_calls: ok, %d ranks\n", np);
	return 0;
}
