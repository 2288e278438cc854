/* SPDX-License-Identifier: BSD-3-Clause */
/* What a leader that has given up leaves behind for one that comes late: see leader_link.h. */
#include "p2p/comm/leader_link.h"
#include "p2p/match.h"

#include <stdlib.h>

enum { WORDS_IN, WORDS_OUT, SIGN_IN, SIGN_OUT, REQUESTS };

struct left {
	struct left *next;
	struct hdl_leader_link *bridge;
	struct hdl_req *of[REQUESTS];	/* under way, or NULL */
	int users;
};
static struct left *lefts;

static void leader_link_put(struct left *l)
{
	struct left **link = &lefts;

	if (--l->users)
		return;
	while (*link != l)
		link = &(*link)->next;
	*link = l->next;
	free(l->bridge);
	free(l);
}

/* Maybe within the transport. An error is nothing to anybody any more. */
static void leader_link_request_done(struct hdl_req *req)
{
	struct left *l = req->notify_arg;

	for (int i = 0; i < REQUESTS; i++)
		if (l->of[i] == req)
			l->of[i] = NULL;
	hdl_req_free(req);
	leader_link_put(l);
}

static void leader_link_watch(struct left *l, int i, struct hdl_req *req)
{
	if (!req)
		return;
	l->of[i] = req;
	l->users++;
	hdl_req_follow(req, leader_link_request_done, l);
}

void hdl_leader_link_leave(struct hdl_cid_agreement *a, struct hdl_req *words_in, struct hdl_req *words_out, bool says)
{
	const struct hdl_type *byte = hdl_type_get(MPI_BYTE);
	struct hdl_leader_link *b = a->bridges;
	struct left *l = calloc(1, sizeof(*l));
	struct hdl_req *req;

	if (!l)
		hdl_out_of_memory("giving up an intercommunicator", sizeof(*l));
	*l = (struct left){ .next = lefts, .bridge = b, .users = 1 };
	lefts = l;
	a->bridges = NULL;
	leader_link_watch(l, WORDS_IN, words_in);
	leader_link_watch(l, WORDS_OUT, words_out);
	/* before anybody else can wait for what comes this way; words that have not come, and are not waited for, ended with an error */
	if ((words_in || b->theirs.n) &&
	    !hdl_irecv(&b->their_sign, sizeof(b->their_sign), byte, a->bridge_rank, a->bridge_tag, a->bridge, a->bridge_context, &req))
		leader_link_watch(l, SIGN_IN, req);
	if (says && !hdl_isend(&b->our_sign, sizeof(b->our_sign), byte, a->bridge_rank, a->bridge_tag, a->bridge, a->bridge_context, false, &req))
		leader_link_watch(l, SIGN_OUT, req);
	leader_link_put(l);
}

static bool none_is_left(const void *arg)
{
	(void)arg;
	return !lefts;
}

void hdl_leader_links_fini(void)
{
	struct left *next;

	for (struct left *l = lefts; l; l = next) {
		l->users++;
		for (int i = 0; i < REQUESTS; i++)
			if (l->of[i])
				hdl_req_cancel(l->of[i]);
		next = l->next;
		leader_link_put(l);
	}
	hdl_wait_until(none_is_left, NULL);
}
