/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of operations: a request completes when the last part of its operation has ended. */
#include "rma/operation.h"

#include <stdlib.h>

static void group_part_done(struct hdl_rma_group *g, int class)
{
	if (class && !g->error)
		g->error = class;
	if (--g->parts)
		return;
	hdl_req_complete(g->req, g->error);
	free(g);
}

struct hdl_rma_group *hdl_rma_group_new(struct hdl_win *w)
{
	struct hdl_rma_group *g = calloc(1, sizeof(*g));

	if (g && !(g->req = hdl_req_new_access(w->comm))) {
		free(g);
		g = NULL;
	}
	if (g)
		g->parts = 1;	/* of hdl_rma_group_seal */
	return g;
}

int hdl_rma_group_seal(struct hdl_rma_group *g, int rc, struct hdl_req **req)
{
	*req = g->req;
	if (rc && g->parts == 1) {
		*req = NULL;
		g->req->done = 1;
		hdl_req_free(g->req);
		free(g);
		return rc;
	}
	/* an operation of which a part is under way fails by its request */
	group_part_done(g, rc);
	return MPI_SUCCESS;
}

void hdl_rma_part_ended(struct hdl_target *t, struct hdl_rma_group *g, int class)
{
	t->pending--;
	if (class && !t->error && !g)
		t->error = class;
	if (g)
		group_part_done(g, class);
}
