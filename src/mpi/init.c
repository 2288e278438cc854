/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Initialization and finalization (MPI-5.0 sections 11.2, 11.6), of the world model and, for session.c, of the library itself.
 *
 * The library has users: the world model (from MPI_Init to MPI_Finalize) and each session. The first user brings the library up.
 *
 *     down ── MPI_Init: waits for other ranks ─────────▶ up ── MPI_Finalize as the last user: with all ranks ──▶ down
 *     down ── MPI_Session_init: needs no other rank ───▶ up ── last MPI_Session_finalize ──▶ resting ── exit ──▶ down
 *                                                        ▲                                     │
 *                                                        └───────────── next user ─────────────┘
 *
 * Sessions are local, so the last one cannot close the library. Scenario of a close by the last MPI_Session_finalize:
 *     1. Ranks 0 and 1 make sessions A for themselves; rank 0 finalizes its session and would close: it waits for rank 1.
 *     2. Rank 1, in MPI_Comm_create_from_group for a session B of both, waits for rank 0.
 * The library rests instead: connections stay, the state is HDL_AFTER_FINALIZE. The process leaves at exit, without other ranks.
 *
 * MPI_Finalize while sessions are open closes nothing, and enters the fence in which other ranks close (hdl_tp_stay).
 */
#include "base/stack.h"
#include "mpi/attr.h"
#include "mpi/dynamic.h"
#include "mpi/file.h"
#include "mpi/leaks.h"
#include "mpi/session.h"
#include "mpi/tool.h"
#include "mpi/win.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static enum hdl_mpi_state world;	/* of the world model alone */
static int thread_level;		/* the world model's */
static pthread_t main_thread;

/* Held while users come and go. Must be taken ahead of the lock of runtime/threads.h: until the first user with threads has come,
 * there is none. No function of the program may run under it. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
/* Under `turn`: */
static bool up;
static pid_t up_in;		/* the process: a child of fork has a copy of this memory, and no library */
static int sessions;		/* open */

void hdl_users_lock(void)
{
	pthread_mutex_lock(&turn);
}

void hdl_users_unlock(void)
{
	pthread_mutex_unlock(&turn);
}

/* ---- up and down -------------------------------------------------------------------------------------------- */

/* Returns 0 or a negative errno, reported; the library is down then. all: waits for other ranks, and fails where their settings
 * differ. */
static int world_bring_up(bool all)
{
	int err;

	hdl_tp_prepare();
	err = hdl_vars_load();
	if (err)
		return err;
	hdl_ledger_phase(HDL_LEDGER_START);
	err = hdl_rt_init(all);
	if (err)
		return err;
	hdl_ledger_phase(HDL_LEDGER_JOINED);
	err = hdl_p2p_init();
	if (err) {
		hdl_rt_quit();
		return err;
	}
	err = hdl_coll_init();
	if (!err) {
		err = hdl_rma_init();
		if (err)
			hdl_coll_fini();
	}
	if (err) {
		hdl_p2p_fini(true);
		hdl_rt_quit();
		return err;
	}
	hdl_ledger_phase(HDL_LEDGER_OPENED);
	hdl_world_open(false);
	up = true;
	up_in = getpid();
	return 0;
}

static void drop_attrs(struct hdl_comm *comm)
{
	hdl_attrs_drop(&comm->attrs);
}

static void drop_type_attrs(struct hdl_type *type)
{
	hdl_attrs_drop(&type->attrs);
}

/* leave: without the other ranks. */
static void bring_down(bool leave)
{
	if (hdl_vars.report_leaks)
		hdl_leaks_note();
	if (hdl_vars.report_memory)
		hdl_p2p_memory();
	hdl_tool_pvar_keep();
	hdl_comm_each(drop_attrs);
	hdl_type_each(drop_type_attrs);
	hdl_win_drop_attrs();
	hdl_keyval_fini();
	hdl_io_fini();
	hdl_rma_fini();
	if (hdl_coll_fini() || hdl_p2p_fini(leave))
		hdl_rt_abort(EXIT_FAILURE, "MPI_Finalize failed; the program ends");
	hdl_leaks_print();
	hdl_rt_fini(false);		/* without a fence: the transport has been closed together with the peers, or alone */
	up = false;
}

static void leave_at_exit(void)
{
	HDL_LOCKED;

	if (up && !sessions && world != HDL_ACTIVE && up_in == getpid()) {
		hdl_call = "exit";
		bring_down(true);
	}
}

/* A user has come. level: the threads that may call on its behalf. */
static void user_begins(int level)
{
	if (level == MPI_THREAD_MULTIPLE)
		hdl_threads = true;
	hdl_call = "";	/* before other threads may call: afterwards the holder of the lock writes it */
	hdl_mpi_state_set(HDL_ACTIVE);
}

int hdl_session_begins(int level)
{
	static bool watches;
	int err = up ? 0 : world_bring_up(false);

	if (err)
		return err;
	if (!watches && atexit(leave_at_exit)) {
		hdl_error("out of memory for a function that runs at exit");
		if (!sessions && world != HDL_ACTIVE)
			bring_down(true);
		return -ENOMEM;
	}
	watches = true;
	sessions++;
	user_begins(level);
	return 0;
}

void hdl_session_ends(void)
{
	if (--sessions || world == HDL_ACTIVE)
		return;
	hdl_tp_rest(hdl_mpi_tp);
	hdl_mpi_state_set(HDL_AFTER_FINALIZE);
}

/* ---- the world model ---------------------------------------------------------------------------------------- */

/* The layer that failed has reported why, with values. The program cannot run without its peers. */
static _Noreturn void init_failed(const char *call)
{
	char text[128];

	snprintf(text, sizeof(text), "%s failed; the program ends", call);
	hdl_rt_abort(EXIT_FAILURE, text);
}

static _Noreturn void not_world(const char *call, enum hdl_mpi_state state)
{
	fflush(stdout);
	hdl_error("%s was called %s; the program ends", call,
		  state == HDL_BEFORE_INIT ? "before MPI_Init or MPI_Init_thread" : "after MPI_Finalize");
	_Exit(MPI_ERR_OTHER);
}

static __attribute__((noinline)) void world_begins(const char *call, int required)
{
	HDL_LOCKED;

	hdl_call = call;
	if (up ? hdl_rt_compare(NULL, NULL) : world_bring_up(true))
		init_failed(call);
	hdl_world_open(true);
	thread_level = required;
	main_thread = pthread_self();
	__atomic_store_n(&world, HDL_ACTIVE, __ATOMIC_RELEASE);
	user_begins(required);
}

/* Connects a spawned job with its parents. Must: called behind world_begins, whose HDL_LOCKED takes no lock, since
 * MPI_THREAD_MULTIPLE begins in there: waits would give back a lock that this thread does not have. */
static __attribute__((noinline)) void world_joins(const char *call)
{
	HDL_LOCKED;

	if (hdl_spawn_join())
		init_failed(call);
}

static int init_init(const char *call, int required)
{
	enum hdl_mpi_state before;

	hdl_users_lock();
	before = world;
	if (before == HDL_BEFORE_INIT) {
		world_begins(call, required);
		world_joins(call);
	}
	hdl_users_unlock();
	if (before == HDL_ACTIVE)
		return hdl_raise(NULL, MPI_ERR_OTHER, call, "MPI is initialized already: it can be initialized once");
	if (before == HDL_AFTER_FINALIZE)
		not_world(call, before);
	return MPI_SUCCESS;
}

int PMPI_Init(int *argc, char ***argv)
{
	HDL_NO_LOCK;
	(void)argc;
	(void)argv;
	if (stack_is_small("heddle: MPI_Init"))
		_Exit(EXIT_FAILURE);
	return init_init("MPI_Init", MPI_THREAD_SINGLE);
}
HDL_PROFILED(Init);

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Init_thread";
	int rc;

	(void)argc;
	(void)argv;
	if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED && required != MPI_THREAD_SERIALIZED &&
	    required != MPI_THREAD_MULTIPLE) {
		/* There is no error handler yet. */
		hdl_error("%s: invalid required %d: it is no thread level of the MPI ABI (was the program compiled "
			  "with another library's mpi.h?); the program ends", call, required);
		_Exit(MPI_ERR_ARG);
	}
	if (stack_is_small("heddle: MPI_Init_thread"))
		_Exit(EXIT_FAILURE);
	rc = init_init(call, required);
	if (!rc && provided)
		*provided = thread_level;
	return rc;
}
HDL_PROFILED(Init_thread);

/* Section 11.2.3: deletes MPI_COMM_SELF's attributes first, in the reverse order of setting, while all functions still work.
 * An error of a delete function is raised; MPI_Finalize goes on. */
static int delete_attributes(const char *call)
{
	HDL_LOCKED;
	int rc;

	hdl_check_active(call);
	if (world != HDL_ACTIVE)
		not_world(call, world);
	hdl_call = call;
	rc = hdl_attrs_delete(HDL_ATTR_COMM, MPI_COMM_SELF, &hdl_self.attrs);
	return rc ? hdl_raise_code(&hdl_self, rc, call) : MPI_SUCCESS;
}

/* The ranks without a session close behind this fence. They wait for this rank here, not for its sessions. */
static void pass_fence(const char *call)
{
	HDL_LOCKED;
	enum { PAUSE_US = 200 };
	unsigned depth;
	int fenced;

	hdl_call = call;
	hdl_p2p_finish();
	hdl_tp_stay(hdl_mpi_tp);
	fenced = hdl_rt_fence_begin();
	while (!fenced) {
		hdl_progress();
		depth = hdl_lock_open();
		fenced = hdl_rt_fence_wait(PAUSE_US);
		hdl_lock_close(depth);
	}
}

static void world_ends(const char *call)
{
	HDL_LOCKED;

	hdl_call = call;
	if (sessions) {
		drop_attrs(&hdl_world);
		hdl_world_open(false);
	} else {
		bring_down(false);
		hdl_mpi_state_set(HDL_AFTER_FINALIZE);
	}
	__atomic_store_n(&world, HDL_AFTER_FINALIZE, __ATOMIC_RELEASE);
	if (sessions)
		hdl_session_ends();
}

int PMPI_Finalize(void)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Finalize";
	int rc = delete_attributes(call);

	hdl_users_lock();
	/* The world counts as a session while it waits: other threads may begin and end sessions, on which a rank may depend
	 * before it enters the fence. */
	if (sessions) {
		sessions++;
		hdl_users_unlock();
		pass_fence(call);
		hdl_users_lock();
	}
	world_ends(call);
	hdl_users_unlock();
	return rc;
}
HDL_PROFILED(Finalize);

int PMPI_Initialized(int *flag)
{
	HDL_NO_LOCK;
	if (!flag)
		return hdl_null_arg(NULL, "MPI_Initialized", "flag");
	*flag = __atomic_load_n(&world, __ATOMIC_ACQUIRE) != HDL_BEFORE_INIT;
	return MPI_SUCCESS;
}
HDL_PROFILED(Initialized);

int PMPI_Finalized(int *flag)
{
	HDL_NO_LOCK;
	if (!flag)
		return hdl_null_arg(NULL, "MPI_Finalized", "flag");
	*flag = __atomic_load_n(&world, __ATOMIC_ACQUIRE) == HDL_AFTER_FINALIZE;
	return MPI_SUCCESS;
}
HDL_PROFILED(Finalized);

int PMPI_Query_thread(int *provided)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Query_thread";

	hdl_check_active(call);
	if (!provided)
		return hdl_null_arg(NULL, call, "provided");
	*provided = thread_level;
	return MPI_SUCCESS;
}
HDL_PROFILED(Query_thread);

int PMPI_Is_thread_main(int *flag)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Is_thread_main";

	hdl_check_active(call);
	if (!flag)
		return hdl_null_arg(NULL, call, "flag");
	*flag = pthread_equal(pthread_self(), main_thread) != 0;
	return MPI_SUCCESS;
}
HDL_PROFILED(Is_thread_main);

/* Ends the whole job for any communicator, as section 9.6 allows. */
int PMPI_Abort(MPI_Comm comm, int errorcode)
{
	HDL_NO_LOCK;
	struct hdl_comm *c = hdl_comm_get(comm);
	char text[MPI_MAX_OBJECT_NAME + 64];

	hdl_check_active("MPI_Abort");
	snprintf(text, sizeof(text), "MPI_Abort(%s, %d) was called", c && c->name[0] ? c->name : "a communicator",
		 errorcode);
	fflush(stdout);
	hdl_rt_abort(errorcode, text);
}
HDL_PROFILED(Abort);
