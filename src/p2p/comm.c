/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators (MPI-5.0 chapter 7): world and self, dup, split, free, and the agreement on context ids.
 *
 * A context id is two 16-bit contexts: 2 * id for point-to-point, 2 * id + 1 for collectives. Each rank keeps a
 * bitmap of the ids that it uses. A constructor ors the bitmaps of all ranks of the parent at rank 0, which takes the
 * lowest id that is free everywhere. Disjoint communicators may share an id: messages are told apart by their source.
 * A rank gives an id back when its last use is over; the next agreement sees it free only when every member has done
 * so.
 *
 * Several threads of a rank may be in constructors of different parents at a time (MPI_THREAD_MULTIPLE). The bitmap is
 * one's at a time; who does not get it says so instead, and all ranks of its parent try again. Nobody holds it while it
 * waits for a rank to come: if any rank has threads, the first round only makes sure that all are there. From then on,
 * where several threads meet, the parent with the lowest context goes first: so the lowest of all that are under way
 * gets the bitmap on each of its ranks, sooner or later.
 */
#include "p2p/match.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define IDS	(1u << 15)
#define WORDS	(IDS / 64)

struct hdl_comm hdl_world, hdl_self;
void (*hdl_comm_on_free)(struct hdl_comm *comm);

static struct hdl_comm *alive;		/* but MPI_COMM_WORLD and _SELF */
static uint64_t used[WORDS];
static bool used_is_taken;
static int self_world[1];

/* Threads of this rank that are in a constructor all of whose ranks are in it. */
struct agreeing {
	struct agreeing *next;
	unsigned context;		/* the parent's */
};
static struct agreeing *agreeing;

/* What travels up: whether the bitmap was not to be had on some rank, then the bitmap. */
#define MASK	(1 + WORDS)
#define AGAIN	(-2)

/* ---- context ids --------------------------------------------------------------------------------------- */

static void id_take(unsigned id)
{
	used[id / 64] |= (uint64_t)1 << id % 64;
}

static void id_give(unsigned id)
{
	used[id / 64] &= ~((uint64_t)1 << id % 64);
}

static bool take_used(unsigned context)
{
	bool first = !used_is_taken;

	for (const struct agreeing *a = agreeing; a; a = a->next)
		first &= context <= a->context;
	used_is_taken |= first;
	return first;
}

static int id_lowest_free(const uint64_t *mask)
{
	for (int w = 0; w < (int)WORDS; w++)
		if (~mask[w])
			return w * 64 + __builtin_ctzl(~mask[w]);
	return -1;
}

/* ---- a binomial tree over the parent ------------------------------------------------------------------- */

static int tree_send(struct hdl_comm *comm, const void *data, size_t bytes, int dest)
{
	return hdl_send(data, bytes, hdl_type_get(MPI_BYTE), dest, HDL_TAG_AGREE, comm, comm->context + 1, false);
}

static int tree_recv(struct hdl_comm *comm, void *data, size_t bytes, int src, size_t *got)
{
	MPI_Status status;
	int rc = hdl_recv(data, bytes, hdl_type_get(MPI_BYTE), src, HDL_TAG_AGREE, comm, comm->context + 1, &status);

	if (!rc && got)
		*got = hdl_status_bytes(&status);
	return rc;
}

/* Collects at rank 0: each rank's `each` bytes at table + rank * each, and the or of all masks. */
static int tree_up(struct hdl_comm *comm, char *table, size_t each, uint64_t *mask)
{
	uint64_t other[MASK];
	size_t got;
	int rc = 0, n;

	for (int bit = 1; bit < comm->size && !rc; bit <<= 1) {
		if (comm->rank & bit) {
			n = bit < comm->size - comm->rank ? bit : comm->size - comm->rank;
			/* Words above the last one in use need not travel. */
			for (got = MASK; got && !mask[got - 1]; got--)
				;
			rc = tree_send(comm, mask, got * sizeof(*mask), comm->rank - bit);
			if (!rc && each)
				rc = tree_send(comm, table + comm->rank * each, n * each, comm->rank - bit);
			break;
		}
		if (comm->rank + bit >= comm->size)
			continue;
		n = bit < comm->size - comm->rank - bit ? bit : comm->size - comm->rank - bit;
		rc = tree_recv(comm, other, sizeof(other), comm->rank + bit, &got);
		if (!rc && each)
			rc = tree_recv(comm, table + (comm->rank + bit) * each, n * each, comm->rank + bit, NULL);
		for (size_t w = 0; !rc && w < got / sizeof(*mask); w++)
			mask[w] |= other[w];
	}
	return rc;
}

static int tree_down(struct hdl_comm *comm, void *data, size_t bytes)
{
	int bit = 1, rc = 0;

	for (; bit < comm->size; bit <<= 1)
		if (comm->rank & bit) {
			rc = tree_recv(comm, data, bytes, comm->rank - bit, NULL);
			break;
		}
	for (bit >>= 1; bit && !rc; bit >>= 1)
		if (comm->rank + bit < comm->size)
			rc = tree_send(comm, data, bytes, comm->rank + bit);
	return rc;
}

static int agree_once(struct hdl_comm *comm, bool may_take, void *table, size_t each, int *id)
{
	bool mine = may_take && take_used(comm->context);
	uint64_t mask[MASK] = { !mine };
	int rc;

	if (mine)
		memcpy(mask + 1, used, sizeof(used));
	rc = tree_up(comm, table, each, mask);
	*id = mask[0] ? AGAIN : id_lowest_free(mask + 1);
	if (!rc)
		rc = tree_down(comm, id, sizeof(*id));
	if (!rc && *id >= 0)
		id_take(*id);
	if (mine)
		used_is_taken = false;
	return rc;
}

static int agree_again(struct hdl_comm *comm, void *table, size_t each, int *id)
{
	struct agreeing me = { agreeing, comm->context }, **link = &agreeing;
	int rc;

	agreeing = &me;
	do {
		unsigned depth = hdl_lock_open();

		sched_yield();
		hdl_lock_close(depth);
		rc = agree_once(comm, true, table, each, id);
	} while (!rc && *id == AGAIN);
	while (*link != &me)
		link = &(*link)->next;
	*link = me.next;
	return rc;
}

/* All ranks of comm agree on an id, which is then in use; table (may be NULL) of `each` bytes a rank is complete
 * everywhere afterwards. */
static int agree(struct hdl_comm *comm, void *table, size_t each, int *id)
{
	int rc = agree_once(comm, !hdl_threads, table, each, id);

	if (!rc && *id == AGAIN)
		rc = agree_again(comm, table, each, id);
	if (!rc && *id >= 0 && each && (rc = tree_down(comm, table, comm->size * each)))
		id_give(*id);
	if (!rc && *id < 0) {
		hdl_reason_set("no context id is left: of %u communicators that may exist at a time, every one is in "
			       "use on some rank; free what is not needed with MPI_Comm_free", IDS);
		rc = MPI_ERR_OTHER;
	}
	return rc;
}

/* ---- objects ------------------------------------------------------------------------------------------- */

static struct hdl_comm *comm_new(int size)
{
	struct hdl_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->obj = (struct hdl_object){ HDL_MAGIC_COMM, 1 };
	comm->size = size;
	comm->world = calloc(size, sizeof(*comm->world));
	comm->ep = calloc(size, sizeof(*comm->ep));
	if (!comm->world || !comm->ep) {
		free(comm->world);
		free(comm->ep);
		free(comm);
		return NULL;
	}
	return comm;
}

/* It exists from here on. */
static void comm_begin(struct hdl_comm *comm, const struct hdl_comm *parent, int id)
{
	comm->next = alive;
	comm->link = &alive;
	if (alive)
		alive->link = &comm->next;
	alive = comm;
	comm->context = 2 * id;
	comm->errhandler = parent->errhandler;
	if (hdl_handle_is_address(comm->errhandler))
		((struct hdl_object *)comm->errhandler)->refs++;
}

int hdl_comm_dup(struct hdl_comm *comm, struct hdl_comm **out)
{
	struct hdl_comm *c = comm_new(comm->size);
	int id, rc;

	*out = NULL;
	if (!c)
		hdl_out_of_memory("a communicator", comm->size * (sizeof(int) + sizeof(void *)));
	rc = agree(comm, NULL, 0, &id);
	if (rc) {
		free(c->world);
		free(c->ep);
		free(c);
		return rc;
	}
	c->rank = comm->rank;
	if (comm->world) {
		memcpy(c->world, comm->world, comm->size * sizeof(*c->world));
	} else {
		free(c->world);
		c->world = NULL;
	}
	comm_begin(c, comm, id);
	*out = c;
	return MPI_SUCCESS;
}

struct split {
	int color, key, rank;
};

static int split_order(const void *a, const void *b)
{
	const struct split *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

int hdl_comm_split(struct hdl_comm *comm, int color, int key, struct hdl_comm **out)
{
	struct split *table = malloc(comm->size * sizeof(*table));
	struct hdl_comm *c;
	int id, rc, n = 0;

	*out = NULL;
	if (!table)
		hdl_out_of_memory("MPI_Comm_split's table", comm->size * sizeof(*table));
	table[comm->rank] = (struct split){ color, key, comm->rank };
	rc = agree(comm, table, sizeof(*table), &id);
	if (!rc && color == MPI_UNDEFINED)
		id_give(id);
	if (rc || color == MPI_UNDEFINED)
		goto out;
	for (int r = 0; r < comm->size; r++)
		if (table[r].color == color)
			table[n++] = table[r];
	qsort(table, n, sizeof(*table), split_order);
	c = comm_new(n);
	if (!c)
		hdl_out_of_memory("a communicator", n * (sizeof(int) + sizeof(void *)));
	for (int r = 0; r < n; r++) {
		c->world[r] = hdl_comm_world_rank(comm, table[r].rank);
		if (table[r].rank == comm->rank)
			c->rank = r;
	}
	comm_begin(c, comm, id);
	*out = c;
out:
	free(table);
	return rc;
}

static void comm_clear(struct hdl_comm *comm)
{
	unsigned lost;

	if (hdl_comm_on_free)
		hdl_comm_on_free(comm);
	lost = hdl_unexpected_purge(comm->context) + hdl_unexpected_purge(comm->context + 1);
	if (lost)
		hdl_debug("communicator #%u was freed with %u messages that nobody received", comm->context / 2, lost);
	if (hdl_handle_is_address(comm->errhandler) && !--((struct hdl_object *)comm->errhandler)->refs)
		free(comm->errhandler);
	id_give(comm->context / 2);
	free(comm->rank_of);
	free(comm->ep);
	comm->rank_of = NULL;
	comm->ep = NULL;
	comm->obj.magic = 0;
}

static void comm_free(struct hdl_comm *comm)
{
	*comm->link = comm->next;
	if (comm->next)
		comm->next->link = comm->link;
	free(comm->world);
	free(comm);
}

void hdl_comm_release(struct hdl_comm *comm)
{
	if (--comm->obj.refs)
		return;
	comm_clear(comm);
	comm_free(comm);
}

void hdl_comm_each(void (*fn)(struct hdl_comm *comm))
{
	fn(&hdl_world);
	fn(&hdl_self);
	for (struct hdl_comm *c = alive; c; c = c->next)
		fn(c);
}

static _Noreturn void no_endpoint(int world)
{
	char text[160];

	snprintf(text, sizeof(text), "rank %d cannot be reached: %s", world, strerror(errno));
	hdl_rt_abort(MPI_ERR_OTHER, text);
}

struct hdl_ep *hdl_comm_ep_make(struct hdl_comm *comm, int rank)
{
	if (!comm->ep[rank] && rank != comm->rank) {
		comm->ep[rank] = hdl_ep(hdl_comm_world_rank(comm, rank));
		if (!comm->ep[rank])
			no_endpoint(hdl_comm_world_rank(comm, rank));
	}
	return comm->ep[rank];
}


int hdl_comm_rank_of(struct hdl_comm *comm, int world)
{
	if (!comm->world)
		return world;
	if (!comm->rank_of && comm->size > 16) {
		comm->rank_of = malloc(hdl_job.size * sizeof(*comm->rank_of));
		if (comm->rank_of) {
			for (int r = 0; r < hdl_job.size; r++)
				comm->rank_of[r] = MPI_UNDEFINED;
			for (int r = 0; r < comm->size; r++)
				comm->rank_of[comm->world[r]] = r;
		}
	}
	if (comm->rank_of)
		return comm->rank_of[world];
	for (int r = 0; r < comm->size; r++)
		if (comm->world[r] == world)
			return r;
	return MPI_UNDEFINED;
}

const char *hdl_comm_label(const struct hdl_comm *comm, char buf[static MPI_MAX_OBJECT_NAME])
{
	if (comm->name[0])
		return memcpy(buf, comm->name, sizeof(comm->name));
	snprintf(buf, MPI_MAX_OBJECT_NAME, "communicator #%u", comm->context / 2u);
	return buf;
}

int hdl_comm_init(void)
{
	hdl_world = (struct hdl_comm){
		.obj = { HDL_MAGIC_COMM, 1 }, .context = 0, .rank = hdl_job.rank, .size = hdl_job.size,
		.errhandler = MPI_ERRORS_ARE_FATAL, .name = "MPI_COMM_WORLD",
	};
	self_world[0] = hdl_job.rank;
	hdl_self = (struct hdl_comm){
		.obj = { HDL_MAGIC_COMM, 1 }, .context = 2, .rank = 0, .size = 1, .world = self_world,
		.errhandler = MPI_ERRORS_ARE_FATAL, .name = "MPI_COMM_SELF",
	};
	hdl_world.ep = calloc(hdl_world.size, sizeof(*hdl_world.ep));
	hdl_self.ep = calloc(1, sizeof(*hdl_self.ep));
	if (!hdl_world.ep || !hdl_self.ep)
		return -ENOMEM;
	memset(used, 0, sizeof(used));
	id_take(0);
	id_take(1);
	return 0;
}

void hdl_comm_fini(void)
{
	struct hdl_comm *c;

	/* communicators need not be freed before MPI_Finalize */
	while ((c = alive)) {
		comm_clear(c);
		comm_free(c);
	}
	comm_clear(&hdl_self);
	comm_clear(&hdl_world);
}
