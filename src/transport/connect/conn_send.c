/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages about connections that this process sends: datagrams, which may be lost. */
#include "transport/core/tp.h"

void hdl_wire_send(struct hdl_ep *ep, struct hdl_conn_msg *m)
{
	m->nonce = ep->tp->self.incarnation;
	m->to = ep->name.incarnation;
	hdl_ud_raw(ep, HDL_UD_CONN, m, sizeof(*m));	/* without room the message is not sent: the sender of the message repeats
							 * it */
}

void hdl_wire_refuse(struct hdl_ep *ep, uint32_t number, enum hdl_queue kind, int reason)
{
	struct hdl_conn_msg m = { .what = HDL_CONN_REJ, .kind = (uint8_t)kind, .number = number, .reason = reason };

	ep->tp->refused++;
	hdl_wire_send(ep, &m);
}

void hdl_wire_announce(struct hdl_ep *ep)
{
	hdl_wire_refuse(ep, ep->conn.number, HDL_QUEUE_NONE, ECONNABORTED);
}
