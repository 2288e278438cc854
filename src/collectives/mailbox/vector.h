/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of vector.c, vector_copy.c and vector_reduce.c: what a collective of pieces has for each peer, and from it. */
#ifndef HDL_COLL_PARCELS_H
#define HDL_COLL_PARCELS_H

#include "collectives/queues/queues.h"
#include "collectives/host/vcoll.h"
#include "collectives/single_copy/single_copy.h"
#include "collectives/select/tuner.h"

/* A piece for a peer, or from one. */
struct vblock {
	struct hdl_vcoll_block piece;
	size_t skip, bytes;		/* of the piece as it is packed: where it begins */
	int peer;
	int edge;			/* its number, of those between the two ranks */
	bool by_line;			/* its length, at least */
	struct hdl_vector_run *of;
	/* as a message, or what lies in memory elsewhere than in the user's buffer */
	char *copy;			/* in `memory`; get: what is copied before it is unpacked */
	struct hdl_scratch memory;
	struct hdl_send send;
	struct hdl_req *req;
	bool sending, withdrawn;
	bool comes;			/* persistent: as a message, as at the start before: it is received from the start on */
	/* copied by its receiver from where the giver has it */
	uint64_t at;			/* at the giver */
	bool opened;			/* the receiver: the line was seen, or it has none */
	bool copies;			/* that is not over, or the giver has not been told that it is; */
	size_t off;			/* ... so far it has come, */
	uint64_t position;		/* ... by this request, which is under way, or 0 */
};

struct hdl_vector_run {
	struct hdl_run *run;
	const struct hdl_coll_prog *prog;	/* by which it was posted */
	struct hdl_vcoll a;		/* for the host executor; its lists are in memory */
	void *memory;
	struct vblock *give, *get;
	uint32_t ngive, nget, room;	/* room: of both together */
	struct vblock *to[HDL_MAILBOX_RANKS];	/* those that go by line */
	uint32_t pending;		/* messages and copies */
	uint32_t ncopies;		/* of these, copies that this rank makes */
	size_t spent;			/* bytes copied in this turn */
	uint32_t hears;			/* a bit per rank: that has to say that it has read what it was shown */
	uint32_t freed;			/* a bit per rank: that reads what was left behind for it, and need not be heard */
	char *left;			/* where the next of this is put; of one that all get: where that is */
	bool opened;			/* all lines were seen */
	bool longs;			/* given: some go otherwise than in a line */
	bool copied;			/* some pieces have copies */
	bool retains;			/* the types of all pieces */
	/* reductions (vector_reduce.c) */
	bool folds;
	struct hdl_reducer reducer;
	char *own;			/* this rank's operand, and behind it the reducer's places */
	size_t own_room, own_bytes, places;
};

/* The address of the bytes, if they are one run, or NULL. */
static inline char *hdl_vblock_run(const struct hdl_vcoll_block *p)
{
	void *buf = (void *)p->buf;

	return hdl_type_is_run(p->type, p->count) || hdl_type_find_run(p->type, p->count, &buf) ? buf : NULL;
}

/* There is room: see prepare in vector.c. edge: of several between the two ranks. */
struct vblock *hdl_vblock_add(struct hdl_vector_run *x, bool give, const struct hdl_vcoll_block *piece, int peer, int edge);

/* ---- what does not go by a line (vector_copy.c) ------------------------------------------------------------------------ */

/* Whether the receiver reads it from where this rank has it. */
static inline bool hdl_vblock_is_shown(const struct hdl_queues *h, const struct hdl_run *run, const struct vblock *p)
{
	return p->by_line && p->bytes > run->plan->key.bytes && p->bytes >= hdl_sc_from((enum hdl_coll)run->plan->key.coll) && h->exposed_rkey &&
	       hdl_cell_area(run->parcels->prog)->done_at;
}
/* Memory for copies of what is shown, that readers need not be waited for, if that pays. Before the first is shown. */
void hdl_vector_leave(struct hdl_queues *h, struct hdl_run *run);
/* Where its receiver reads it: there, or a copy. */
char *hdl_vblock_shown_at(struct hdl_queues *h, struct vblock *p);
/* Memory for p->copy. False: there is none. */
static inline bool hdl_vblock_get_copy(struct vblock *p, size_t bytes)
{
	if (!p->copy && !hdl_scratch_get(&p->memory, bytes))
		p->copy = p->memory.p;
	p->of->copied |= p->copy != NULL;
	return p->copy;
}
void hdl_vblock_send(struct hdl_run *run, struct vblock *p);
void hdl_vblock_receive(struct hdl_run *run, struct vblock *p);
/* Another length than promised: of `came` bytes from that rank. */
void hdl_vblock_refuse(struct hdl_run *run, const struct vblock *p, uint64_t came);
/* The receiver's part of what is shown: it reads what the line, which ends there, has the address of; or it never will. */
void hdl_vblock_copy(struct hdl_run *run, struct vblock *p, const char *line);
void hdl_vblock_leave_unread(struct vblock *p);
/* Goes on with all that this rank copies, and tells their givers when it has. */
void hdl_vector_copy(struct hdl_queues *h, struct hdl_run *run);
/* The giver's: looks who has said so. */
void hdl_vector_hear(struct hdl_queues *h, struct hdl_run *run);

/* ---- reductions (vector_reduce.c) ------------------------------------------------------------------------------------ */

/* What goes to whom, and comes from whom. */
void hdl_vector_add_operands(struct hdl_vector_run *x, const struct hdl_comm *comm, const struct hdl_vcoll *a);
/* The own operand is a copy: the function writes into it, and in place the result comes over it. False: no memory, which there is once it
 * was there. */
bool hdl_vector_copy_operand(struct hdl_vector_run *x, const struct hdl_comm *comm, const struct hdl_vcoll *a);
/* All operands are there: the result goes to its place. */
void hdl_vector_reduce(struct hdl_run *run);

#endif
