/* SPDX-License-Identifier: BSD-3-Clause */
/* Brings point-to-point communication and the transport up and down. */
#include "p2p/comm/ids.h"
#include "p2p/comm/leader_link.h"
#include "p2p/dpm/handshake.h"
#include "p2p/fault/fault.h"
#include "p2p/partitioned.h"
#include "p2p/unexpected.h"

#include <errno.h>

static void init_wake(void)
{
	hdl_tp_wake(hdl_mpi_tp);
}

static void init_req_ops(void)
{
	static const struct hdl_req_ops none;

	for (int kind = 0; kind < HDL_REQ_KINDS; kind++)
		hdl_req_ops[kind] = &none;
	hdl_req_ops[HDL_REQ_SEND] = &hdl_send_ops;
	hdl_req_ops[HDL_REQ_RECV] = &hdl_recv_ops;
	hdl_req_ops[HDL_REQ_PERSISTENT] = &hdl_persistent_ops;
	hdl_req_ops[HDL_REQ_GENERALIZED] = &hdl_generalized_ops;
}

int hdl_p2p_init(void)
{
	struct hdl_upcalls up = hdl_p2p_upcalls;
	int rc;

	hdl_mpi_matching = up.context = hdl_matching_new();
	if (!hdl_mpi_matching) {
		hdl_error("out of memory for the matching table");
		return -ENOMEM;
	}
	init_req_ops();
	hdl_ft_records_reset();
	hdl_ft_notify_reset();
	hdl_cid_reset();
	rc = hdl_comm_init();
	if (rc) {
		hdl_error("out of memory for MPI_COMM_WORLD of %d ranks", hdl_job.size);
		goto fail_match;
	}
	rc = hdl_report_init();
	if (rc) {
		hdl_error("HEDDLE_REPORT_HANG: cannot catch SIGUSR1");
		goto fail_comm;
	}
	/* Messages may arrive from here on. */
	rc = hdl_tp_init(&up, &hdl_mpi_tp);
	if (rc)
		goto fail_report;
	hdl_mpi_matching->tp = hdl_mpi_tp;	/* before the first turn of progress, in which messages arrive */
	hdl_device_wake = init_wake;
	rc = hdl_partitioned_open(hdl_mpi_tp);
	if (!rc)
		rc = hdl_report_start();
	if (rc)
		goto fail_report;	/* MPI_Init ends the job */
	return 0;
fail_report:
	hdl_report_fini();
fail_comm:
	hdl_comm_fini();
fail_match:
	hdl_matching_free(hdl_mpi_matching);
	hdl_mpi_matching = NULL;
	return rc;
}

static bool init_nothing_pending(const void *arg)
{
	(void)arg;
	return !hdl_pending;
}

void hdl_p2p_memory(void)
{
	hdl_ledger_heap("heap: unexpected messages", 0, hdl_mpi_matching->unexpected_bytes);
	hdl_tp_memory(hdl_mpi_tp);
	hdl_ledger_print(stderr);
}

void hdl_p2p_finish(void)
{
	hdl_report_finalizing(true);
	hdl_wait_until(init_nothing_pending, NULL);
	hdl_report_finalizing(false);
}

int hdl_p2p_fini(bool leave)
{
	struct hdl_matching *m = hdl_mpi_matching;
	int rc = 0;

	hdl_leader_links_fini();
	/* Sends whose request was freed, or was not waited for, must leave (section 11.2.2). */
	hdl_p2p_finish();
	hdl_report_leaving();
	hdl_ports_fini();
	if (leave)
		hdl_tp_leave(&hdl_mpi_tp);
	else
		rc = hdl_tp_fini(&hdl_mpi_tp);
	hdl_partitioned_close();
	if (hdl_vars.report_leaks)
		hdl_match_each_unexpected(m, hdl_leaked_message, NULL);
	hdl_unexpected_close(m);
	hdl_report_fini();
	if (m->nunexpected)
		hdl_debug("%zu messages were never received", m->nunexpected);
	hdl_comm_fini();
	hdl_matching_free(m);
	hdl_mpi_matching = NULL;
	hdl_bsend_fini();
	hdl_req_fini();
	hdl_buf_fini();
	return rc;
}
