/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tool interface (MPI-5.0 chapter 15): a walk over all variables, categories and events; values, errors,
 * events. Ranks: 2 or more.
 *
 *     tools_mpit            all cases but those below
 *     tools_mpit write      writes HEDDLE_REPORT_TRANSPORTS before MPI_Init: the job prints the report
 *     tools_mpit instances  a handle that was made in one instance of the library shows a sum in the next ones
 *     tools_mpit death      the last rank ends by SIGKILL: rank 0 gets the event peer_failed. Must: MPI_ERRORS_RETURN
 */
#include "mpi_test.h"

#include <signal.h>
#include <unistd.h>

#define OK(call) CHECK_EQ(call, MPI_SUCCESS)

static int cvar(const char *name)
{
	int i = -1;

	OK(MPI_T_cvar_get_index(name, &i));
	return i;
}

static int pvar(const char *name, int class)
{
	int i = -1;

	OK(MPI_T_pvar_get_index(name, class, &i));
	return i;
}

/* Section 15.3.3 */
static void strings(void)
{
	char name[64] = "", little[4] = "";
	int len = 0, full, at = cvar("HEDDLE_EAGER_MAX");

	OK(MPI_T_cvar_get_info(at, name, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
	CHECK_EQ(len, sizeof("HEDDLE_EAGER_MAX"));
	CHECK(!*name);
	full = sizeof(name);
	OK(MPI_T_cvar_get_info(at, name, &full, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
	CHECK(!strcmp(name, "HEDDLE_EAGER_MAX"));
	CHECK_EQ(full, len);
	len = sizeof(little);
	OK(MPI_T_cvar_get_info(at, little, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
	CHECK(!strcmp(little, "HED"));
	CHECK_EQ(len, full);
	OK(MPI_T_cvar_get_info(at, NULL, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
	OK(MPI_T_cvar_get_info(at, name, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
}

static void enumeration(MPI_T_enum e)
{
	int n, value, len;
	char name[64];

	len = sizeof(name);
	OK(MPI_T_enum_get_info(e, &n, name, &len));
	CHECK(n > 1 && *name);
	for (int i = 0; i < n; i++) {
		len = sizeof(name);
		OK(MPI_T_enum_get_item(e, i, &value, name, &len));
		CHECK(*name);
	}
	CHECK_EQ(MPI_T_enum_get_item(e, n, &value, name, &len), MPI_T_ERR_INVALID_ITEM);
}

static void cvars(void)
{
	MPI_T_cvar_handle h;
	int n, count, found, no = 0;
	char text[4096];

	OK(MPI_T_cvar_get_num(&n));
	CHECK(n > 40);
	for (int i = 0; i < n; i++) {
		char name[128], desc[2048];
		int name_len = sizeof(name), desc_len = sizeof(desc), verbosity, bind, scope;
		MPI_Datatype type;
		MPI_T_enum e;

		OK(MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &e, desc, &desc_len, &bind, &scope));
		CHECK(*name && *desc && verbosity >= MPI_T_VERBOSITY_USER_BASIC && bind == MPI_T_BIND_NO_OBJECT);
		OK(MPI_T_cvar_get_index(name, &found));
		CHECK_EQ(found, i);
		if (e != MPI_T_ENUM_NULL)
			enumeration(e);
		OK(MPI_T_cvar_handle_alloc(i, NULL, &h, &count));
		CHECK(type == MPI_CHAR ? count <= (int)sizeof(text) : count == 1);
		OK(MPI_T_cvar_read(h, text));
		if (scope == MPI_T_SCOPE_READONLY)
			CHECK_EQ(MPI_T_cvar_write(h, text), MPI_T_ERR_CVAR_SET_NEVER);
		OK(MPI_T_cvar_handle_free(&h));
		CHECK(h == MPI_T_CVAR_HANDLE_NULL);
	}
	CHECK_EQ(MPI_T_cvar_get_info(n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
	CHECK_EQ(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
	CHECK_EQ(MPI_T_cvar_get_index("HEDDLE_NONE", &found), MPI_T_ERR_INVALID_NAME);
	CHECK_EQ(MPI_T_cvar_handle_alloc(n, NULL, &h, &count), MPI_T_ERR_INVALID_INDEX);
	CHECK_EQ(MPI_T_cvar_read(MPI_T_CVAR_HANDLE_NULL, text), MPI_T_ERR_INVALID_HANDLE);
	CHECK_EQ(MPI_T_cvar_read((MPI_T_cvar_handle)text, text), MPI_T_ERR_INVALID_HANDLE);
	/* the library is running: layers have read their variables; some are read at each use */
	OK(MPI_T_cvar_handle_alloc(cvar("HEDDLE_EAGER_MAX"), NULL, &h, &count));
	CHECK_EQ(MPI_T_cvar_write(h, &(unsigned long){ 1024 }), MPI_T_ERR_CVAR_SET_NOT_NOW);
	OK(MPI_T_cvar_handle_free(&h));
	OK(MPI_T_cvar_handle_alloc(cvar("HEDDLE_DEBUG"), NULL, &h, &count));
	OK(MPI_T_cvar_write(h, &no));
	no = 1;
	OK(MPI_T_cvar_read(h, &no));
	CHECK_EQ(no, 0);
	CHECK_EQ(MPI_T_cvar_write(h, &(int){ 17 }), MPI_T_ERR_INVALID);
	OK(MPI_T_cvar_handle_free(&h));
	CHECK_EQ(MPI_T_cvar_handle_free(&h), MPI_T_ERR_INVALID_HANDLE);
}

static unsigned long long value(MPI_T_pvar_session s, MPI_T_pvar_handle h)
{
	unsigned long long v = 77;

	OK(MPI_T_pvar_read(s, h, &v));
	return v;
}

static void pvars(void)
{
	MPI_T_pvar_session s, other;
	MPI_T_pvar_handle h, g, peers, level;
	MPI_Comm world = MPI_COMM_WORLD;
	unsigned long long v, sum, *of;
	int n, count, to = (me + 1) % np, from = (me + np - 1) % np, sent, received, peers_i;
	const int messages = 100;

	OK(MPI_T_pvar_get_num(&n));
	OK(MPI_T_pvar_session_create(&s));
	OK(MPI_T_pvar_session_create(&other));
	for (int i = 0; i < n; i++) {
		char name[128], desc[1024];
		int name_len = sizeof(name), desc_len = sizeof(desc), verbosity, class, bind, readonly, continuous, atomic, found;
		MPI_Datatype type;
		MPI_T_enum e;

		OK(MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &e, desc, &desc_len, &bind, &readonly,
				       &continuous, &atomic));
		CHECK(*name && *desc && type == MPI_UNSIGNED_LONG_LONG);
		OK(MPI_T_pvar_get_index(name, class, &found));
		CHECK_EQ(found, i);
		CHECK_EQ(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_TIMER, &found), MPI_T_ERR_INVALID_NAME);
		OK(MPI_T_pvar_handle_alloc(s, i, &world, &h, &count));
		CHECK_EQ(count, bind == MPI_T_BIND_MPI_COMM ? np : 1);
		of = calloc((size_t)count, sizeof(*of));
		CHECK(of);
		OK(MPI_T_pvar_read(s, h, of));
		CHECK(class != MPI_T_PVAR_CLASS_COUNTER || !of[0]);
		free(of);
		CHECK_EQ(MPI_T_pvar_reset(s, h), readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS);
		CHECK_EQ(MPI_T_pvar_start(s, h), continuous ? MPI_T_ERR_PVAR_NO_STARTSTOP : MPI_SUCCESS);
		CHECK_EQ(MPI_T_pvar_read(other, h, &v), MPI_T_ERR_INVALID_HANDLE);
		OK(MPI_T_pvar_handle_free(s, &h));
		CHECK(h == MPI_T_PVAR_HANDLE_NULL);
	}
	/* a handle counts from its allocation on; two handles are independent */
	sent = -1;
	received = pvar("ring_messages_received", MPI_T_PVAR_CLASS_COUNTER);
	OK(MPI_T_pvar_get_index("ring_messages_sent", MPI_T_PVAR_CLASS_COUNTER, &sent));
	peers_i = pvar("ud_messages_sent_of_peers", MPI_T_PVAR_CLASS_COUNTER);
	(void)received;
	OK(MPI_T_pvar_handle_alloc(s, pvar("requests", MPI_T_PVAR_CLASS_COUNTER), NULL, &h, &count));
	OK(MPI_T_pvar_handle_alloc(other, pvar("requests", MPI_T_PVAR_CLASS_COUNTER), NULL, &g, &count));
	OK(MPI_T_pvar_handle_alloc(s, peers_i, &world, &peers, &count));
	CHECK_EQ(MPI_T_pvar_handle_alloc(s, peers_i, NULL, &level, &count), MPI_T_ERR_INVALID_HANDLE);
	meet(sync_comm);
	OK(MPI_T_pvar_reset(s, MPI_T_PVAR_ALL_HANDLES));
	OK(MPI_T_pvar_start(s, MPI_T_PVAR_ALL_HANDLES));
	for (int i = 0; i < messages; i++) {
		int out = i, in;

		MPI_Sendrecv(&out, 1, MPI_INT, to, 1, &in, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	CHECK(value(s, h) >= (unsigned long long)(messages / 2));
	CHECK(value(other, g) >= value(s, h));
	of = calloc((size_t)np, sizeof(*of));
	CHECK(of);
	OK(MPI_T_pvar_read(s, peers, of));
	sum = 0;
	for (int r = 0; r < np; r++)
		sum += of[r];
	CHECK(of[to] <= sum);
	free(of);
	OK(MPI_T_pvar_readreset(s, h, &v));
	CHECK(v);
	OK(MPI_T_pvar_write(s, h, &(unsigned long long){ 1000000 }));
	CHECK(value(s, h) >= 1000000);
	CHECK_EQ(MPI_T_pvar_read(s, MPI_T_PVAR_ALL_HANDLES, &v), MPI_T_ERR_INVALID_HANDLE);
	/* waiting messages */
	OK(MPI_T_pvar_handle_alloc(s, pvar("unexpected_messages", MPI_T_PVAR_CLASS_LEVEL), NULL, &level, &count));
	CHECK_EQ(MPI_T_pvar_readreset(s, level, &v), MPI_T_ERR_PVAR_NO_ATOMIC);
	CHECK_EQ(MPI_T_pvar_write(s, level, &v), MPI_T_ERR_PVAR_NO_WRITE);
	meet(sync_comm);
	v = value(s, level);
	MPI_Send(&me, 1, MPI_INT, to, 2, MPI_COMM_WORLD);
	MPI_Probe(from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	CHECK(value(s, level) > 0);
	MPI_Recv(&count, 1, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	/* a session takes its handles along */
	OK(MPI_T_pvar_session_free(&s));
	CHECK(s == MPI_T_PVAR_SESSION_NULL);
	CHECK_EQ(MPI_T_pvar_read(other, h, &v), MPI_T_ERR_INVALID_HANDLE);
	CHECK_EQ(MPI_T_pvar_session_free(&s), MPI_T_ERR_INVALID_SESSION);
	OK(MPI_T_pvar_session_free(&other));
}

/* A handle of a communicator that was freed is invalid, also when a later communicator gets the same handle of MPI. */
static void pvar_of_freed(void)
{
	MPI_Comm freed, was, later[64];
	MPI_T_pvar_session s;
	MPI_T_pvar_handle h;
	unsigned long long *of = calloc((size_t)np, sizeof(*of));
	int count, n = 0;

	CHECK(of);
	OK(MPI_T_pvar_session_create(&s));
	MPI_Comm_dup(MPI_COMM_WORLD, &freed);
	was = freed;
	OK(MPI_T_pvar_handle_alloc(s, pvar("ud_messages_sent_of_peers", MPI_T_PVAR_CLASS_COUNTER), &freed, &h, &count));
	OK(MPI_T_pvar_read(s, h, of));
	MPI_Comm_free(&freed);
	do {
		CHECK_EQ(MPI_T_pvar_read(s, h, of), MPI_T_ERR_INVALID_HANDLE);
		MPI_Comm_dup(MPI_COMM_WORLD, &later[n]);
	} while (later[n++] != was && n < 64);
	CHECK_EQ(MPI_T_pvar_read(s, h, of), MPI_T_ERR_INVALID_HANDLE);
	CHECK_EQ(MPI_T_pvar_reset(s, h), MPI_T_ERR_INVALID_HANDLE);
	CHECK_EQ(MPI_T_pvar_write(s, h, of), MPI_T_ERR_INVALID_HANDLE);
	while (n--)
		MPI_Comm_free(&later[n]);
	OK(MPI_T_pvar_session_free(&s));
	free(of);
}

static void collectives(void)
{
	static const char *const names[] = {"collectives_on_host", "collectives_on_mailbox", "collectives_by_single_copy",
					    "collectives_on_tasks"};
	MPI_T_pvar_handle h[4];
	MPI_T_pvar_session s;
	unsigned long long sum = 0;
	MPI_Comm dup;
	int count, x = 1, y;

	OK(MPI_T_pvar_session_create(&s));
	for (int i = 0; i < 4; i++)
		OK(MPI_T_pvar_handle_alloc(s, pvar(names[i], MPI_T_PVAR_CLASS_COUNTER), NULL, &h[i], &count));
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	OK(MPI_T_pvar_reset(s, MPI_T_PVAR_ALL_HANDLES));
	for (int i = 0; i < 50; i++)
		MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, dup);
	MPI_Comm_free(&dup);	/* the counts of its plans stay */
	for (int i = 0; i < 4; i++)
		sum += value(s, h[i]);
	CHECK(sum >= 50);
	OK(MPI_T_pvar_session_free(&s));
}

/* Allreduces by task lists: WAITs, ENABLEs and CALCs as the collectives have posted them, and as the device has executed them. */
static void device(void)
{
	static const char *const names[] = {"collective_waits", "device_waits",      "collective_enables",
					    "device_enables",   "collective_calcs",  "device_calcs",
					    "device_foreign",   "device_for_others", "requests_rc"};
	enum { WAITS, DEVICE_WAITS, ENABLES, DEVICE_ENABLES, CALCS, DEVICE_CALCS, FOREIGN, FOR_OTHERS, RC, N };
	unsigned long long v[N], sum[N];
	MPI_T_pvar_handle h[N];
	MPI_T_pvar_session s;
	int count;
	MPI_Comm dup;

	OK(MPI_T_pvar_session_create(&s));
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	/* queues of the tasks are there */
	for (int i = 0; i < 3; i++) {
		double x = me, y;

		MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, dup);
	}
	meet(sync_comm);
	for (int i = 0; i < N; i++)
		OK(MPI_T_pvar_handle_alloc(s, pvar(names[i], MPI_T_PVAR_CLASS_COUNTER), NULL, &h[i], &count));
	meet(sync_comm);
	for (int i = 0; i < 50; i++) {
		double x = me, y;

		MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, dup);
		CHECK(y == np * (np - 1) / 2.0);
	}
	MPI_Comm_free(&dup);
	/* posted requests are executed, perhaps after this rank has the result, and by any process */
	alarm(100);
	for (int k = WAITS; k <= CALCS; k += 2)
		while (value(s, h[k + 1]) < value(s, h[k]))
			MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, sync_comm, &count, MPI_STATUS_IGNORE);
	alarm(0);
	meet(sync_comm);
	for (int i = 0; i < N; i++)
		v[i] = value(s, h[i]);
	MPI_Allreduce(v, sum, N, MPI_UNSIGNED_LONG_LONG, MPI_SUM, sync_comm);
	CHECK(sum[WAITS] >= 50 && sum[CALCS] >= 50 && sum[RC] > 0);
	OK(MPI_T_pvar_session_free(&s));
}

static void categories(void)
{
	int n, vars = 0, pvs = 0, evs = 0, stamp, all, at;

	OK(MPI_T_category_get_num(&n));
	OK(MPI_T_category_changed(&stamp));
	for (int i = 0; i < n; i++) {
		char name[64], desc[256];
		int name_len = sizeof(name), desc_len = sizeof(desc), nc, np_, ncat, ne, *list;

		OK(MPI_T_category_get_info(i, name, &name_len, desc, &desc_len, &nc, &np_, &ncat));
		OK(MPI_T_category_get_num_events(i, &ne));
		OK(MPI_T_category_get_index(name, &at));
		CHECK_EQ(at, i);
		list = malloc((size_t)(nc + np_ + ne + 1) * sizeof(int));
		CHECK(list);
		OK(MPI_T_category_get_cvars(i, nc, list));
		OK(MPI_T_category_get_pvars(i, np_, list + nc));
		OK(MPI_T_category_get_events(i, ne, list + nc + np_));
		for (int k = 0; k < nc + np_ + ne; k++)
			CHECK(list[k] >= 0 && (k == 0 || k == nc || k == nc + np_ || list[k] > list[k - 1]));
		free(list);
		vars += nc;
		pvs += np_;
		evs += ne;
	}
	OK(MPI_T_cvar_get_num(&all));
	CHECK_EQ(vars, all);
	OK(MPI_T_pvar_get_num(&all));
	CHECK_EQ(pvs, all);
	OK(MPI_T_event_get_num(&all));
	CHECK_EQ(evs, all);
	CHECK_EQ(MPI_T_category_get_index("none", &at), MPI_T_ERR_INVALID_NAME);
	CHECK_EQ(MPI_T_category_get_cvars(n, 0, NULL), MPI_T_ERR_INVALID_INDEX);
}

static int calls, drops, frees;
static int seen_process = -1;

static void on_event(MPI_T_event_instance instance, MPI_T_event_registration r, MPI_T_cb_safety safety, void *arg)
{
	MPI_Count at = -1;
	int source = -1;

	calls++;
	CHECK_EQ(safety, MPI_T_CB_REQUIRE_MPI_RESTRICTED);
	OK(MPI_T_event_read(instance, 0, &seen_process));
	OK(MPI_T_event_get_timestamp(instance, &at));
	OK(MPI_T_event_get_source(instance, &source));
	CHECK(at > 0 && source == 0);
	CHECK_EQ(MPI_T_event_read(instance, 9, &source), MPI_T_ERR_INVALID_INDEX);
	if (arg)
		OK(MPI_T_event_handle_free(r, NULL, NULL));
}

static void on_dropped(MPI_Count count, MPI_T_event_registration r, int source, MPI_T_cb_safety safety, void *arg)
{
	(void)r, (void)source, (void)safety, (void)arg;
	drops += (int)count;
}

static int freed_again = -1;

/* Runs in MPI_T_event_handle_free of r: that call frees r, once. */
static void on_dropped_free(MPI_Count count, MPI_T_event_registration r, int source, MPI_T_cb_safety safety, void *arg)
{
	(void)count, (void)source, (void)safety, (void)arg;
	freed_again = MPI_T_event_handle_free(r, NULL, NULL);
}

static void on_free(MPI_T_event_registration r, MPI_T_cb_safety safety, void *arg)
{
	(void)r, (void)safety;
	frees += arg == &frees;
}

/* Collectives of mailbox and tasks begin on the host executor: the first ones of a communicator. */
static void some_collectives(int n)
{
	MPI_Comm dup;
	int x = 1, y;

	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	for (int i = 0; i < n; i++)
		MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, dup);
	MPI_Comm_free(&dup);
}

static void events(void)
{
	int n, on_host = -1, calls_before, sources;
	MPI_T_event_registration r, once;
	char name[64], desc[256];
	MPI_Info info;

	OK(MPI_T_event_get_num(&n));
	for (int i = 0; i < n; i++) {
		int name_len = sizeof(name), desc_len = sizeof(desc), verbosity, elements = 8, bind;
		MPI_Datatype types[8];
		MPI_Aint at[8];
		MPI_T_enum e;

		OK(MPI_T_event_get_info(i, name, &name_len, &verbosity, types, at, &elements, &e, &info, desc, &desc_len, &bind));
		CHECK(elements >= 1 && elements <= 8 && types[0] == MPI_INT && at[0] == 0);
		if (e != MPI_T_ENUM_NULL)
			enumeration(e);
		MPI_Info_free(&info);
	}
	OK(MPI_T_source_get_num(&sources));
	CHECK_EQ(sources, 1);
	OK(MPI_T_event_get_index("collective_on_host", &on_host));
	CHECK_EQ(MPI_T_event_handle_alloc(n, NULL, MPI_INFO_NULL, &r), MPI_T_ERR_INVALID_INDEX);
	OK(MPI_T_event_handle_alloc(on_host, NULL, MPI_INFO_NULL, &r));
	OK(MPI_T_event_set_dropped_handler(r, on_dropped));
	OK(MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, on_event));
	some_collectives(100);
	CHECK_EQ(calls, 0);	/* a callback that may call anything cannot be called within the library */
	OK(MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL, NULL, on_event));
	OK(MPI_T_event_handle_alloc(on_host, NULL, MPI_INFO_NULL, &once));
	OK(MPI_T_event_register_callback(once, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, &once, on_event));
	some_collectives(100);
	if (np > 1 && getenv("TOOLS_OFFLOADED")) {
		CHECK(calls > 1 && drops > 0 && seen_process >= 0);
		CHECK_EQ(MPI_T_event_handle_set_info(once, MPI_INFO_NULL), MPI_T_ERR_INVALID_HANDLE);
	}
	OK(MPI_T_event_callback_get_info(r, MPI_T_CB_REQUIRE_NONE, &info));
	MPI_Info_free(&info);
	CHECK_EQ(MPI_T_event_callback_get_info(r, MPI_T_CB_REQUIRE_THREAD_SAFE, &info), MPI_T_ERR_INVALID);
	OK(MPI_T_event_handle_free(r, &frees, on_free));
	CHECK_EQ(frees, 1);
	calls_before = calls;
	some_collectives(100);
	CHECK(!getenv("TOOLS_OFFLOADED") || calls == calls_before);
	CHECK_EQ(MPI_T_event_handle_free(r, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
	CHECK_EQ(MPI_T_event_read((MPI_T_event_instance)(void *)&n, 0, &n), MPI_T_ERR_INVALID_HANDLE);
	OK(MPI_T_event_handle_alloc(on_host, NULL, MPI_INFO_NULL, &r));
	OK(MPI_T_event_set_dropped_handler(r, on_dropped_free));
	some_collectives(100);
	OK(MPI_T_event_handle_free(r, &frees, on_free));
	CHECK_EQ(frees, 2);
	CHECK(np == 1 || !getenv("TOOLS_OFFLOADED") || freed_again == MPI_T_ERR_INVALID_HANDLE);
}

static void death(void)
{
	MPI_T_event_registration r;
	int event = -1, x;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	OK(MPI_T_event_get_index("peer_failed", &event));
	OK(MPI_T_event_handle_alloc(event, NULL, MPI_INFO_NULL, &r));
	OK(MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL, NULL, on_event));
	meet(sync_comm);
	if (me == np - 1)
		raise(SIGKILL);
	if (!me) {
		CHECK(MPI_Recv(&x, 1, MPI_INT, np - 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS);
		CHECK_EQ(calls, 1);
		CHECK_EQ(seen_process, np - 1);
		printf("tools_mpit: rank 0 got the event\n");
		fflush(stdout);
	}
	MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Messages that this rank has sent by any lane, as the handles show. */
static unsigned long long messages_sent(MPI_T_pvar_session s, const MPI_T_pvar_handle h[3])
{
	return value(s, h[0]) + value(s, h[1]) + value(s, h[2]);
}

/* Partitions are stored in the receiver's memory, where ranks share some: no message but one at the end. */
static void partitions(void)
{
	static const char *const names[3] = { "ring_messages_sent", "srq_messages_sent", "ud_messages_sent" };
	enum { N = 32, EACH = 256 };
	static int in[N * EACH], out[N * EACH];
	MPI_T_pvar_handle h[3];
	MPI_T_pvar_session s;
	unsigned long long before;
	MPI_Request req;
	int count, flag;

	OK(MPI_T_pvar_session_create(&s));
	for (int i = 0; i < 3; i++)
		OK(MPI_T_pvar_handle_alloc(s, pvar(names[i], MPI_T_PVAR_CLASS_COUNTER), NULL, &h[i], &count));
	for (int i = 0; i < N * EACH; i++)
		out[i] = i;
	if (me == 0)
		MPI_Psend_init(out, N, EACH, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &req);
	if (me == 1)
		MPI_Precv_init(in, N, EACH, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &req);
	for (int e = 0; e < 3; e++) {
		if (me < 2)
			MPI_Start(&req);
		meet(sync_comm);	/* the receiver has started */
		before = messages_sent(s, h);
		for (int i = 0; me == 0 && i < N - 1; i++)
			MPI_Pready(i, req);
		CHECK_EQ(messages_sent(s, h), before);
		meet(sync_comm);
		for (int i = 0; me == 1 && i < N - 1; i++) {
			MPI_Parrived(req, i, &flag);
			CHECK(flag);
			CHECK(!memcmp(in + i * EACH, out + i * EACH, EACH * sizeof(int)));
		}
		if (me == 0)
			MPI_Pready(N - 1, req);
		if (me < 2)
			MPI_Wait(&req, MPI_STATUS_IGNORE);
		if (me == 1)
			CHECK(!memcmp(in, out, sizeof(in)));
		memset(in, 0, sizeof(in));
	}
	if (me < 2)
		MPI_Request_free(&req);
	OK(MPI_T_pvar_session_free(&s));
}

static void around(MPI_Comm comm, int n)
{
	int x = 1;

	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &np);
	for (int i = 0; i < n; i++)
		MPI_Sendrecv_replace(&x, 1, MPI_INT, (me + 1) % np, 0, (me + np - 1) % np, 0, comm, MPI_STATUS_IGNORE);
}

/* MPI_Finalize as the last user ends the library's instance, and a session begins another one. */
static int instances(void)
{
	MPI_T_pvar_handle h, peers;
	unsigned long long v, later, of[16];
	MPI_T_pvar_session t;
	MPI_Session session;
	MPI_Group group;
	MPI_Comm comm = MPI_COMM_WORLD;
	int provided, count;

	OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
	OK(MPI_T_pvar_session_create(&t));
	MPI_Init(NULL, NULL);
	around(comm, 500);
	OK(MPI_T_pvar_handle_alloc(t, pvar("requests", MPI_T_PVAR_CLASS_COUNTER), NULL, &h, &count));
	OK(MPI_T_pvar_handle_alloc(t, pvar("ud_messages_sent_of_peers", MPI_T_PVAR_CLASS_COUNTER), &comm, &peers, &count));
	around(comm, 100);
	v = value(t, h);
	MPI_Finalize();
	later = value(t, h);
	CHECK(v && v < 500 && later >= v && later < v + 400);
	v = later;
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
	MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
	MPI_Comm_create_from_group(group, "tools", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
	around(comm, 20);
	later = value(t, h);
	CHECK(later > v && later < v + 400);
	if (np <= 16 && MPI_T_pvar_read(t, peers, of) == MPI_SUCCESS)
		for (int r = 0; r < np; r++)
			CHECK(of[r] < 10000);
	MPI_Comm_free(&comm);
	MPI_Group_free(&group);
	MPI_Session_finalize(&session);
	OK(MPI_T_pvar_session_free(&t));
	OK(MPI_T_finalize());
	if (!me)
		printf("tools_mpit: ok, instances\n");
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int provided = -1, n = -1, count;
	MPI_T_cvar_handle h;

	if (!strcmp(what, "instances"))
		return instances();
	CHECK_EQ(MPI_T_cvar_get_num(&n), MPI_T_ERR_NOT_INITIALIZED);
	CHECK_EQ(MPI_T_init_thread(12345, &provided), MPI_T_ERR_INVALID);
	OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
	CHECK_EQ(provided, MPI_THREAD_SINGLE);
	OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
	OK(MPI_T_cvar_get_num(&n));
	if (!strcmp(what, "write")) {
		OK(MPI_T_cvar_handle_alloc(cvar("HEDDLE_REPORT_TRANSPORTS"), NULL, &h, &count));
		OK(MPI_T_cvar_write(h, &(int){ 1 }));
		OK(MPI_T_cvar_handle_free(&h));
		OK(MPI_T_cvar_handle_alloc(cvar("HEDDLE_EAGER_MAX"), NULL, &h, &count));
		OK(MPI_T_cvar_write(h, &(unsigned long){ 2048 }));
		OK(MPI_T_cvar_handle_free(&h));
	}
	test_init(&argc, &argv);
	if (!strcmp(what, "death"))
		death();
	strings();
	cvars();
	pvars();
	pvar_of_freed();
	partitions();
	collectives();
	if (!strcmp(what, "device"))
		device();
	categories();
	events();
	OK(MPI_T_finalize());
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	OK(MPI_T_cvar_get_num(&n));
	OK(MPI_T_finalize());
	CHECK_EQ(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
	OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));	/* may be initialized again */
	OK(MPI_T_finalize());
	if (!me)
		printf("tools_mpit: ok, %d ranks\n", np);
	return 0;
}
