/* SPDX-License-Identifier: BSD-3-Clause */
/* Initialization and finalization (MPI-5.0 sections 11.2, 11.6). */
#include "base/stack.h"
#include "mpi/attr.h"
#include "mpi/leaks.h"
#include "mpi/win.h"

#include <pthread.h>
#include <stdlib.h>

enum hdl_mpi_state hdl_mpi_state;
static int thread_level;
static pthread_t main_thread;

/* The layer that failed has reported why, with values. The program cannot run without its peers. */
static _Noreturn void init_failed(const char *call)
{
	char text[128];

	snprintf(text, sizeof(text), "%s failed; the program ends", call);
	hdl_rt_abort(EXIT_FAILURE, text);
}

static __attribute__((noinline)) int init_init(const char *call, int required)
{
	if (hdl_mpi_state != HDL_BEFORE_INIT) {
		if (hdl_mpi_state == HDL_ACTIVE)
			return hdl_raise(NULL, MPI_ERR_OTHER, call,
					 "MPI is initialized already: it can be initialized once");
		hdl_not_active(call);
	}
	hdl_call = call;
	hdl_tp_prepare();
	if (hdl_vars_load())
		init_failed(call);
	hdl_ledger_phase(HDL_LEDGER_START);
	if (hdl_rt_init())
		init_failed(call);
	hdl_ledger_phase(HDL_LEDGER_JOINED);
	if (hdl_p2p_init() || hdl_coll_init() || hdl_rma_init())
		init_failed(call);
	hdl_ledger_phase(HDL_LEDGER_OPENED);
	thread_level = required;
	hdl_threads = required == MPI_THREAD_MULTIPLE;
	main_thread = pthread_self();
	hdl_call = "";	/* before other threads may call: afterwards the holder of the lock writes it */
	hdl_mpi_state_set(HDL_ACTIVE);
	return MPI_SUCCESS;
}

int PMPI_Init(int *argc, char ***argv)
{
	HDL_LOCKED;
	(void)argc;
	(void)argv;
	if (stack_is_small("heddle: MPI_Init"))
		_Exit(EXIT_FAILURE);
	return init_init("MPI_Init", MPI_THREAD_SINGLE);
}
HDL_PROFILED(Init);

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	HDL_LOCKED;
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

static void drop_attrs(struct hdl_comm *comm)
{
	hdl_attrs_drop(&comm->attrs);
}

static void drop_type_attrs(struct hdl_type *type)
{
	hdl_attrs_drop(&type->attrs);
}

/* Section 11.2.3: deletes MPI_COMM_SELF's attributes first, in the reverse order of setting, while all functions still work.
 * An error of a delete function is raised; MPI_Finalize goes on. */
static int delete_attributes(const char *call)
{
	int rc = hdl_attrs_delete(HDL_ATTR_COMM, MPI_COMM_SELF, &hdl_self.attrs);

	if (rc)
		rc = hdl_raise_code(&hdl_self, rc, call);
	if (hdl_vars.report_leaks)
		hdl_leaks_note();
	if (hdl_vars.report_memory)
		hdl_p2p_memory();
	hdl_comm_each(drop_attrs);
	hdl_type_each(drop_type_attrs);
	hdl_win_drop_attrs();
	hdl_keyval_fini();
	return rc;
}

int PMPI_Finalize(void)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Finalize";
	int rc;

	hdl_check_active(call);
	hdl_call = call;
	rc = delete_attributes(call);
	hdl_rma_fini();
	if (hdl_coll_fini() || hdl_p2p_fini())
		hdl_rt_abort(EXIT_FAILURE, "MPI_Finalize failed; the program ends");
	hdl_leaks_print();
	hdl_rt_fini(false);		/* without a fence: the transport has been closed together with the peers */
	hdl_mpi_state_set(HDL_AFTER_FINALIZE);
	return rc;
}
HDL_PROFILED(Finalize);

int PMPI_Initialized(int *flag)
{
	HDL_NO_LOCK;
	if (!flag)
		return hdl_null_arg(NULL, "MPI_Initialized", "flag");
	*flag = hdl_mpi_state_now() != HDL_BEFORE_INIT;
	return MPI_SUCCESS;
}
HDL_PROFILED(Initialized);

int PMPI_Finalized(int *flag)
{
	HDL_NO_LOCK;
	if (!flag)
		return hdl_null_arg(NULL, "MPI_Finalized", "flag");
	*flag = hdl_mpi_state_now() == HDL_AFTER_FINALIZE;
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
