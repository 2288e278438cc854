/* SPDX-License-Identifier: BSD-3-Clause */
/* The rank's side of runtime/ask.h. */
#include <pmix.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ask.h"
#include "runtime/runtime.h"

static _Atomic(hdl_ask_fn) answerer;

static void asked(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
		  pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *arg)
{
	hdl_ask_fn fn = atomic_load(&answerer);

	if (fn)
		fn(status == HDL_ASK_NOW);
	else if (status == HDL_ASK_NOW)
		hdl_rt_answer("0\nis in MPI_Init\n");
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

static void registered(pmix_status_t status, size_t id, void *arg)
{
	if (status != PMIX_SUCCESS)
		hdl_debug("PMIx_Register_event_handler: %s; heddlerun cannot ask this rank what it waits for",
			  PMIx_Error_string(status));
}

void hdl_rt_listen(void)
{
	pmix_status_t codes[] = { HDL_ASK, HDL_ASK_NOW };

	PMIx_Register_event_handler(codes, 2, NULL, 0, asked, registered, NULL);
}

void hdl_rt_on_ask(hdl_ask_fn fn)
{
	atomic_store(&answerer, fn);
}

static void answer_free(pmix_info_t *info)
{
	PMIX_INFO_DESTRUCT(info);
	free(info);
}

static void answered(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *arg, pmix_release_cbfunc_t release,
		     void *release_arg)
{
	answer_free(arg);
	if (release)
		release(release_arg);
}

void hdl_rt_answer(const char *text)
{
	pmix_info_t *info = calloc(1, sizeof *info);

	if (!info)
		return;		/* heddlerun says that this rank does not answer */
	PMIX_INFO_LOAD(info, HDL_ANSWER, text, PMIX_STRING);
	if (PMIx_Job_control_nb(NULL, 0, info, 1, answered, info) != PMIX_SUCCESS)
		answer_free(info);	/* the callback will not come */
}
