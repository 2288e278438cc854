/* SPDX-License-Identifier: BSD-3-Clause */
/* A leader link after hdl_leader_link_leave: requests stay posted for a leader that comes late (scenario: leader_link.h). */
#include "p2p/comm/leader_link.h"
#include "p2p/match.h"

#include <stdlib.h>

enum link_request { BITMAP_RECV, BITMAP_SEND, COMMIT_RECV, COMMIT_SEND, LINK_REQUESTS };

struct detached_link {
	struct detached_link *next;
	struct hdl_leader_link *link;	/* the memory of the requests' data */
	struct hdl_req *req[LINK_REQUESTS];	/* under way, or NULL */
	int users;			/* requests under way, and functions that use the struct */
};
static struct detached_link *detached;

static void link_put(struct detached_link *l)
{
	struct detached_link **link = &detached;

	if (--l->users)
		return;
	while (*link != l)
		link = &(*link)->next;
	*link = l->next;
	free(l->link);
	free(l);
}

/* May be called inside of the transport. An error of the request is ignored: the constructor has already returned an error. */
static void link_request_done(struct hdl_req *req)
{
	struct detached_link *l = req->notify_arg;

	for (int i = 0; i < LINK_REQUESTS; i++)
		if (l->req[i] == req)
			l->req[i] = NULL;
	hdl_req_free(req);
	link_put(l);
}

static void link_watch(struct detached_link *l, enum link_request i, struct hdl_req *req)
{
	if (!req)
		return;
	l->req[i] = req;
	l->users++;
	hdl_req_follow(req, link_request_done, l);
}

void hdl_leader_link_leave(struct hdl_cid_agreement *a, struct hdl_req *bitmap_recv, struct hdl_req *bitmap_send,
			   bool with_commit)
{
	const struct hdl_type *byte = hdl_type_get(MPI_BYTE);
	struct hdl_leader_link *b = a->link;
	struct detached_link *l = calloc(1, sizeof(*l));
	struct hdl_req *req;

	if (!l)
		hdl_out_of_memory("giving up an intercommunicator", sizeof(*l));
	*l = (struct detached_link){ .next = detached, .link = b, .users = 1 };
	detached = l;
	a->link = NULL;
	link_watch(l, BITMAP_RECV, bitmap_recv);
	link_watch(l, BITMAP_SEND, bitmap_send);
	/* Posted now, before a later constructor posts a receive for the same messages. Not if the receive of the bitmap ended
	 * with an error: then the other leader has failed and sends none. */
	if ((bitmap_recv || b->theirs.n) && !hdl_irecv(&b->their_commit, sizeof(b->their_commit), byte, a->link_rank,
						       a->link_tag, a->link_comm, a->link_context, &req))
		link_watch(l, COMMIT_RECV, req);
	if (with_commit && !hdl_isend(&b->our_commit, sizeof(b->our_commit), byte, a->link_rank, a->link_tag, a->link_comm,
				      a->link_context, false, &req))
		link_watch(l, COMMIT_SEND, req);
	link_put(l);
}

static bool link_none_detached(const void *arg)
{
	(void)arg;
	return !detached;
}

void hdl_leader_links_fini(void)
{
	struct detached_link *next;

	for (struct detached_link *l = detached; l; l = next) {
		l->users++;
		for (int i = 0; i < LINK_REQUESTS; i++)
			if (l->req[i])
				hdl_req_cancel(l->req[i]);
		next = l->next;
		link_put(l);
	}
	hdl_wait_until(link_none_detached, NULL);
}
