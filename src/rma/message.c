/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages of windows: sending, and the window that a message names (message.h). */
#include "rma/message.h"

#include <stdlib.h>

_Static_assert(sizeof(struct hdl_acc_head) <= HDL_AM_HEAD_MAX && sizeof(struct hdl_result_head) <= HDL_AM_HEAD_MAX,
	       "fits a head");

static void msg_done(struct hdl_send *s, int err)
{
	(void)err;	/* the peer has failed: waits for it end by that */
	free(container_of(container_of(s, struct hdl_am_send, send), struct hdl_msg, am));
}

struct hdl_msg *hdl_msg_new(size_t bytes)
{
	struct hdl_msg *m = malloc(sizeof(*m) + bytes);

	if (m)
		m->am.send.done = msg_done;
	return m;
}

int hdl_msg_send(struct hdl_msg *m, struct hdl_ep *ep, unsigned id, unsigned flags, const void *head, size_t head_len,
		 size_t bytes)
{
	int r = hdl_am_send(ep, id, flags, head, head_len, bytes ? m->data : NULL, bytes, &m->am);

	if (r)
		free(m);
	return r < 0 ? r : 0;
}

struct hdl_win *hdl_msg_window(uint64_t window, int member, const struct hdl_am *am)
{
	struct hdl_win *w = hdl_win_get((MPI_Win)(uintptr_t)window);

	if (w && member >= 0 && member < w->size && hdl_comm_proc(w->comm, member) == hdl_ep_note(am->ep)->rank)
		return w;
	hdl_error("%s sent a message for a window that does not exist here: was it freed while an operation was under way?",
		  hdl_proc_text(hdl_ep_note(am->ep)->rank));
	return NULL;
}
