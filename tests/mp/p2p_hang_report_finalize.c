/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hang report is asked for while the rank goes through MPI_Finalize: the asking thread wakes the transport, which must still
 * exist. A thread of this program calls the handler that the launcher's event would call on PMIx's thread, and the wake-up is
 * made slow (--wrap=hdl_tp_wake). Must run under heddlerun.
 */
#include <mpi.h>
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/ask.h"
#include "transport/transport.h"

static pmix_notification_fn_t handler;
static atomic_bool is_asking, is_closed;
static atomic_uint early, late;

__typeof__(PMIx_Register_event_handler) __real_PMIx_Register_event_handler, __wrap_PMIx_Register_event_handler;
__typeof__(hdl_tp_wake) __real_hdl_tp_wake, __wrap_hdl_tp_wake;
__typeof__(hdl_tp_fini) __real_hdl_tp_fini, __wrap_hdl_tp_fini;

pmix_status_t __wrap_PMIx_Register_event_handler(pmix_status_t codes[], size_t ncodes, pmix_info_t info[], size_t ninfo,
						 pmix_notification_fn_t fn, pmix_hdlr_reg_cbfunc_t done, void *arg)
{
	handler = fn;
	return __real_PMIx_Register_event_handler(codes, ncodes, info, ninfo, fn, done, arg);
}

/* Long enough for the rank to get through MPI_Finalize, if nothing keeps it: then the instance is no more. */
void __wrap_hdl_tp_wake(struct hdl_tp *tp)
{
	if (!is_asking)
		is_asking = true;
	for (int i = 0; i < 300 && !is_closed; i++)
		usleep(1000);
	if (is_closed) {
		late++;
		return;
	}
	early++;
	__real_hdl_tp_wake(tp);
}

int __wrap_hdl_tp_fini(struct hdl_tp **tp)
{
	int err = __real_hdl_tp_fini(tp);

	is_closed = true;
	return err;
}

static void *ask(void *arg)
{
	(void)arg;
	handler(0, HDL_ASK, NULL, NULL, 0, NULL, 0, NULL, NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	MPI_Init(&argc, &argv);
	if (!handler || pthread_create(&thread, NULL, ask, NULL)) {
		fprintf(stderr, "p2p_hang_report_finalize: nothing is registered that could be asked\n");
		return 2;
	}
	while (!is_asking)
		usleep(100);
	MPI_Finalize();
	pthread_join(thread, NULL);
	if (late || !early) {
		printf("FAILED: %u questions reach a transport that is closed, %u one that is not\n", late, early);
		return 1;
	}
	printf("the transport is there while the rank is asked\n");
	return 0;
}
