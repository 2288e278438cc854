/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: creation, targets, the end.
 *
 * Creation is collective, in three exchanges over a duplicate of the communicator:
 *
 *     sizes       shared windows only: rank 0 allocates the memory of all members
 *     records     base, size, places in the fabric, key
 *     agreement   whether this process has mapped the state blocks and memories of all members
 *
 * A member without memory takes part in all of them with its error in the record, so that all members fail together.
 */
#include "rma/rma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hdl_pool hdl_wins = HDL_POOL(struct hdl_win, 32);
struct hdl_win *hdl_win_list;
static struct hdl_ep_note never_fails;
const struct hdl_ep_note hdl_rma_gone = { .failed = ECONNRESET };

int hdl_rma_no_memory(const char *what)
{
	hdl_reason_set("out of memory for %s", what);
	return MPI_ERR_NO_MEM;
}

int hdl_rma_dead(const struct hdl_win *w, int rank, const char *what)
{
	char label[MPI_MAX_OBJECT_NAME + 16];

	hdl_reason_set("%s rank %d of %s (%s): that process has failed", what, rank, hdl_win_label(w, label),
		       hdl_proc_text_full(hdl_comm_proc(w->comm, rank)));
	return MPI_ERR_PROC_ABORTED;
}

const char *hdl_win_label(const struct hdl_win *w, char buf[static MPI_MAX_OBJECT_NAME + 16])
{
	if (w->name[0])
		snprintf(buf, MPI_MAX_OBJECT_NAME + 16, "window %s", w->name);
	else
		snprintf(buf, MPI_MAX_OBJECT_NAME + 16, "window #%u", w->comm ? w->comm->context / 2u : 0);
	return buf;
}

/* ---- targets ------------------------------------------------------------------------------------------------------------ */

/* Returns the state block of a member as mapped here; NULL: this process cannot reach it. */
static struct hdl_win_state *state_of(const struct hdl_win *w, int rank)
{
	const struct hdl_win_record *r = &w->record[rank];
	struct hdl_win_state *s;

	if (rank == w->rank)
		return w->state;
	if (!r->state_at || !hdl_proc_is_ours(hdl_comm_proc(w->comm, rank)) || !hdl_is_local(hdl_comm_proc(w->comm, rank)))
		return NULL;
	s = hdl_tp_shared_at(hdl_mpi_tp, r->state_at, sizeof(*s) + (size_t)w->size * sizeof(s->member[0]));
	/* a peer of another fabric: other memory is there */
	return s && __atomic_load_n(&s->nonce, __ATOMIC_ACQUIRE) == r->nonce ? s : NULL;
}

static char *memory_of(const struct hdl_win *w, int rank)
{
	const struct hdl_win_record *r = &w->record[rank];
	void *p;

	if (rank == w->rank)
		return w->base;
	if (!r->memory_at || !state_of(w, rank))
		return NULL;
	p = hdl_tp_shared_at(hdl_mpi_tp, r->memory_at, r->size);
	/* a shared window's memory is rank 0's allocation, which may be this process's own */
	return p;
}

/* Chooses the lane of a target. Returns false without memory. */
static bool choose_lane(struct hdl_win *w, struct hdl_target *t)
{
	const struct hdl_win_record *r = &w->record[t->rank];

	if (t->rank == w->rank || (!w->dynamic && (t->memory || !r->size))) {
		t->lane = HDL_LANE_MAPPED;
	} else if (w->dynamic) {
		t->lane = t->state ? HDL_LANE_DEVICE : HDL_LANE_HANDLER;
	} else if (r->key_len) {
		int err = hdl_rkey_unpack(t->ep, r->key, r->key_len, &t->key);

		if (err)
			return false;
		t->lane = HDL_LANE_DEVICE;
	} else {
		t->lane = HDL_LANE_HANDLER;
	}
	return true;
}

#define GRANULE		10u		/* log2 of the bytes that a hashed lock covers */
#define GRANULE_FAR	15u		/* ... of memory that the device moves, and the most */

/* Returns log2 of the bytes that a hashed lock of a member covers. All origins must have the same result. */
static uint8_t granule_of(const struct hdl_win *w, const struct hdl_win_record *r)
{
	unsigned far = w->native && r->memory_at ? GRANULE : GRANULE_FAR, hint;

	if (w->granularity < HDL_GRANULE_LEAST)
		return (uint8_t)far;
	hint = r->granule - 1u;
	return (uint8_t)(hint < GRANULE_FAR ? hint : GRANULE_FAR);
}

struct hdl_target *hdl_target_make(struct hdl_win *w, int rank)
{
	const struct hdl_win_record *r = &w->record[rank];
	struct hdl_target *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->rank = rank;
	t->proc = hdl_comm_proc(w->comm, rank);
	t->ep = rank == w->rank ? NULL : hdl_comm_ep(w->comm, rank);
	t->note = t->ep ? hdl_ep_note(t->ep) : &never_fails;
	t->size = w->dynamic ? UINT64_MAX : r->size;
	t->disp_unit = r->disp_unit;
	t->base = w->dynamic ? 0 : r->base;
	t->state = rank == w->rank || w->mapped ? state_of(w, rank) : NULL;
	t->memory = w->dynamic ? NULL : memory_of(w, rank);
	t->native = w->native && r->memory_at && w->granularity < HDL_GRANULE_LEAST;
	t->alone = w->size == 1;
	t->granule = granule_of(w, r);
	if (!choose_lane(w, t)) {
		free(t);
		return NULL;
	}
	w->target[rank] = t;
	return t;
}

static void target_free(struct hdl_target *t)
{
	if (!t)
		return;
	if (t->key)
		hdl_rkey_release(t->key);
	hdl_regions_drop(t);
	hdl_rma_msg_drop(t);
	free(t);
}

/* ---- creation ----------------------------------------------------------------------------------------------------------- */

static uint64_t nonce_new(const struct hdl_win *w)
{
	static uint64_t n;
	uint64_t x = monotonic_ns() ^ (uint64_t)(uintptr_t)w ^ (uint64_t)hdl_job.rank << 48 ^ ++n << 32;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (x ^ x >> 31) | 1;
}

static int state_new(struct hdl_win *w, struct hdl_win_record *r)
{
	size_t bytes = sizeof(*w->state) + (size_t)w->size * sizeof(w->state->member[0]);

	w->state = hdl_tp_share(hdl_mpi_tp, bytes, &r->state_at);
	w->state_shared = w->state != NULL;
	if (!w->state && errno != EOPNOTSUPP)
		return hdl_rma_no_memory("the state of a window");
	if (!w->state && !(w->state = aligned_alloc(64, align_up(bytes, 64))))
		return hdl_rma_no_memory("the state of a window");
	if (!w->state_shared)
		memset(w->state, 0, bytes);
	r->nonce = nonce_new(w);
	__atomic_store_n(&w->state->nonce, r->nonce, __ATOMIC_RELEASE);
	return MPI_SUCCESS;
}

/* Allocates memory of a window: of the fabric, or else of the process. */
static int memory_new(struct hdl_win *w, uint64_t bytes, bool must_share, uint64_t *where)
{
	*where = 0;
	w->memory = hdl_tp_share(hdl_mpi_tp, bytes, where);
	w->memory_shared = w->memory != NULL;
	if (!w->memory && (must_share || errno != EOPNOTSUPP)) {
		hdl_reason_set("%llu bytes of memory that ranks share cannot be had: %s", (unsigned long long)bytes,
			       errno == EOPNOTSUPP ? "the device has no such memory" : "there is not enough memory");
		return errno == EOPNOTSUPP ? MPI_ERR_RMA_SHARED : MPI_ERR_NO_MEM;
	}
	if (!w->memory && !(w->memory = hdl_tp_alloc(hdl_mpi_tp, bytes ? bytes : 1))) {
		hdl_reason_set("%llu bytes cannot be had", (unsigned long long)bytes);
		return MPI_ERR_NO_MEM;
	}
	return MPI_SUCCESS;
}

struct shared_size {
	uint64_t size, memory_at;
	uint32_t error, noncontig;
};

/* Memory of a shared window: of rank 0 for all, or of each member. *places: of all members, malloc'd; the caller's. */
static int shared_memory(struct hdl_win *w, const struct hdl_win_args *args, int error, struct shared_size **places)
{
	struct shared_size *s = calloc((size_t)w->size, sizeof(*s)), *mine;
	uint64_t sum = 0;
	bool together;
	int rc;

	*places = s;
	if (!s)
		hdl_out_of_memory("the sizes of a shared window", (size_t)w->size * sizeof(*s));
	mine = &s[w->rank];
	*mine = (struct shared_size){ .size = (uint64_t)args->size, .error = (uint32_t)error,
				      .noncontig = (args->hints & HDL_WIN_NONCONTIG) != 0 };
	rc = hdl_comm_exchange(w->comm, s, sizeof(*s));
	if (rc)
		return rc;
	together = !s[0].noncontig;
	for (int r = 0; r < w->size; r++)
		if (__builtin_add_overflow(sum, s[r].size, &sum) || sum > INT64_MAX)
			mine->error = MPI_ERR_SIZE;
	if (!mine->error && (!together || !w->rank))
		mine->error = (uint32_t)memory_new(w, together ? sum : (uint64_t)args->size, true, &mine->memory_at);
	return hdl_comm_exchange(w->comm, s, sizeof(*s));
}

/* Sets base and places of a shared window's members. */
static int shared_place(struct hdl_win *w, const struct shared_size *s)
{
	bool together = !s[0].noncontig;
	uint64_t at = s[0].memory_at, mine = 0;

	for (int r = 0; r < w->size; r++) {
		if (s[r].error) {
			if (r != w->rank || (int)s[r].error == MPI_ERR_SIZE)
				hdl_reason_set("rank %d could not allocate its part of the window", r);
			return (int)s[r].error;
		}
		if (!together)
			at = s[r].memory_at;
		w->record[r].memory_at = at;
		if (r == w->rank)
			mine = at;
		at += s[r].size;
	}
	if (w->memory) {
		w->base = (char *)w->memory + (mine - s[w->rank].memory_at);
		return MPI_SUCCESS;
	}
	w->base = hdl_tp_shared_at(hdl_mpi_tp, mine, s[w->rank].size);
	if (!w->base) {
		hdl_reason_set("the memory that rank 0 has allocated is not in the fabric of this process: are all ranks on one host?");
		return MPI_ERR_RMA_SHARED;
	}
	return MPI_SUCCESS;
}

/* Fills in this process's record. Returns an error class, which the record gets. */
static int record_mine(struct hdl_win *w, const struct hdl_win_args *args, struct hdl_win_record *r)
{
	int rc = state_new(w, r);

	if (!rc && args->flavor == MPI_WIN_FLAVOR_ALLOCATE) {
		rc = memory_new(w, (uint64_t)args->size, false, &r->memory_at);
		w->base = w->memory;
	}
	r->size = (uint64_t)args->size;
	r->disp_unit = args->disp_unit;
	r->window = (uintptr_t)w;
	if (args->granularity > 0)
		r->granule = (uint8_t)(64 - __builtin_clzll((unsigned long long)args->granularity));
	return rc;
}

/* Registers memory that peers reach by the device. */
static int record_key(struct hdl_win *w, struct hdl_win_record *r)
{
	int err;

	r->base = (uintptr_t)w->base;
	if (w->dynamic || !r->size || r->memory_at)
		return MPI_SUCCESS;
	err = hdl_mr_register(hdl_mpi_tp, w->base, r->size, HDL_MR_READ | HDL_MR_WRITE, &w->mr);
	if (err)
		return hdl_rma_no_memory("the region of a window");
	r->key_len = (uint16_t)hdl_mr_pack(w->mr, r->key);
	return MPI_SUCCESS;
}

#define CONNECT_MOST 64		/* ranks of a window whose queues are connected at creation */

static bool all_connected(const void *arg)
{
	const struct hdl_win *w = arg;

	for (int r = 0; r < w->size; r++) {
		const struct hdl_ep *ep = r == w->rank ? NULL : hdl_comm_ep_met(w->comm, r);

		if (ep && hdl_rma_connecting(ep))
			return false;
	}
	return true;
}

/* Connects the queues to members of this host whose memory the device moves, while all members make progress: the first operation
 * could else wait for a target that computes. */
static void connect_members(struct hdl_win *w)
{
	for (int r = 0; r < w->size && w->size <= CONNECT_MOST; r++) {
		const struct hdl_win_record *m = &w->record[r];
		int proc = hdl_comm_proc(w->comm, r);

		if (r != w->rank && hdl_proc_is_ours(proc) && hdl_is_local(proc) && (w->dynamic || (m->size && !m->memory_at)))
			hdl_rma_connect(hdl_comm_ep(w->comm, r));	/* a refusal is no error: messages do */
	}
	hdl_wait_until(all_connected, w);
}

enum { HAS_STATES = 1, HAS_MEMORIES = 2 };

/* Exchanges what each member has mapped. *common: what all have. */
static int agree(struct hdl_win *w, unsigned *common)
{
	uint8_t *has = calloc((size_t)w->size, 1);
	int rc;

	if (!has)
		hdl_out_of_memory("agreement on a window", (size_t)w->size);
	connect_members(w);
	has[w->rank] = HAS_STATES | HAS_MEMORIES;
	for (int r = 0; r < w->size; r++) {
		if (!state_of(w, r))
			has[w->rank] = 0;
		else if (w->record[r].memory_at && w->record[r].size && !memory_of(w, r))
			has[w->rank] &= (uint8_t)~HAS_MEMORIES;
	}
	rc = hdl_comm_exchange(w->comm, has, 1);
	*common = HAS_STATES | HAS_MEMORIES;
	for (int r = 0; r < w->size && !rc; r++)
		*common &= has[r];
	free(has);
	return rc;
}

static int win_exchange(struct hdl_win *w, const struct hdl_win_args *args)
{
	struct hdl_win_record *mine = &w->record[w->rank];
	struct shared_size *shared = NULL;
	int error = record_mine(w, args, mine), rc = MPI_SUCCESS;
	unsigned common = 0;
	char why[256] = "";

	if (error)
		snprintf(why, sizeof(why), "%s", hdl_reason_take());
	if (args->flavor == MPI_WIN_FLAVOR_SHARED) {
		rc = shared_memory(w, args, error, &shared);
		error = rc ? rc : shared_place(w, shared);
		if (error && !rc && !why[0])
			snprintf(why, sizeof(why), "%s", hdl_reason_take());
		mine->memory_at = error ? 0 : w->record[w->rank].memory_at;
		free(shared);
		if (rc)
			return rc;
	}
	if (!error)
		error = record_key(w, mine);
	mine->error = (uint32_t)error;
	rc = hdl_comm_exchange(w->comm, w->record, sizeof(*w->record));
	for (int r = 0; r < w->size && !rc; r++)
		if (w->record[r].error) {
			rc = (int)w->record[r].error;
			if (error && why[0])
				hdl_reason_set("%s", why);
			else if (!error)
				hdl_reason_set("rank %d has failed to make its part of the window; look at its output", r);
		}
	if (!rc)
		rc = agree(w, &common);
	if (rc)
		return rc;
	w->granularity = args->granularity;
	for (int r = 0; r < w->size; r++)
		if (w->record[r].granule != mine->granule)	/* section 12.2.1: all give the same */
			w->granularity = 0;
	w->mapped = common & HAS_STATES;
	w->native = w->mapped && common & HAS_MEMORIES &&
		    (args->flavor == MPI_WIN_FLAVOR_ALLOCATE || args->flavor == MPI_WIN_FLAVOR_SHARED);
	if (args->flavor == MPI_WIN_FLAVOR_SHARED && !w->native) {
		hdl_reason_set("the ranks of the communicator cannot share memory: some are on another host or in another fabric "
			       "(MPI_Comm_split_type with MPI_COMM_TYPE_SHARED)");
		return MPI_ERR_RMA_SHARED;
	}
	return MPI_SUCCESS;
}

static void win_unlink(struct hdl_win *w)
{
	if (!w->link)
		return;
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
}

/* Frees the object. kept: memory that peers may still write to stays. */
static void win_free(struct hdl_win *w, bool kept)
{
	for (int r = 0; w->target && r < w->size; r++)
		target_free(w->target[r]);
	if (!w->dynamic && w->mr)
		hdl_mr_deregister(w->mr);
	hdl_regions_free(w);
	if (!kept) {
		if (w->memory && w->memory_shared)
			hdl_tp_unshare(hdl_mpi_tp, w->memory);
		else if (w->memory)
			hdl_tp_free(hdl_mpi_tp, w->memory);
		if (w->state && w->state_shared)
			hdl_tp_unshare(hdl_mpi_tp, w->state);
		else
			free(w->state);
	}
	if (w->comm)
		hdl_comm_release(w->comm);
	if (w->start)
		hdl_group_release(w->start);
	if (w->post)
		hdl_group_release(w->post);
	hdl_errhandler_release(w->errhandler);
	free(w->target);
	free(w->record);
	free(w->bounce);
	win_unlink(w);
	hdl_pool_put(&hdl_wins, w);
}

int hdl_win_make(struct hdl_comm *comm, const struct hdl_win_args *args, struct hdl_win **out)
{
	struct hdl_win *w = hdl_pool_take(&hdl_wins);
	int rc;

	*out = NULL;
	/* without these the other members would wait for ever */
	if (!w)
		hdl_out_of_memory("a window", sizeof(*w));
	*w = (struct hdl_win){ .obj = { HDL_MAGIC_WIN, 1 }, .size = comm->size, .rank = comm->rank, .flavor = args->flavor,
			       .model = MPI_WIN_UNIFIED, .base = args->base, .bytes = args->size, .disp_unit = (int)args->disp_unit,
			       .disp_unit_c = args->disp_unit, .dynamic = args->flavor == MPI_WIN_FLAVOR_DYNAMIC,
			       .hints = args->hints, .errhandler = args->errhandler, .made_ticks = ticks(),
			       .made_ns = monotonic_ns() };
	hdl_errhandler_retain(w->errhandler);
	w->target = calloc((size_t)w->size, sizeof(*w->target));
	w->record = calloc((size_t)w->size, sizeof(*w->record));
	if (!w->target || !w->record)
		hdl_out_of_memory("the members of a window", (size_t)w->size * sizeof(*w->record));
	rc = hdl_comm_dup(comm, &w->comm);
	if (!rc) {
		/* no program has a handle of it */
		w->comm->obj.magic = 0;
		snprintf(w->comm->name, sizeof(w->comm->name), "window #%u", w->comm->context / 2u);
		hdl_errhandler_release(w->comm->errhandler);
		w->comm->errhandler = args->errhandler;	/* for requests; a predefined one */
		rc = win_exchange(w, args);
	}
	if (!rc && !hdl_target_make(w, w->rank))
		rc = hdl_rma_no_memory("a window");
	if (rc) {
		char why[256];

		snprintf(why, sizeof(why), "%s", hdl_reason_take());
		/* a member that has the record of this process may have mapped its memory, but none writes: all have failed */
		win_free(w, false);
		hdl_reason_set("%s", why);
		return rc;
	}
	w->next = hdl_win_list;
	w->link = &hdl_win_list;
	if (w->next)
		w->next->link = &w->next;
	hdl_win_list = w;
	hdl_win_report(w);
	*out = w;
	return MPI_SUCCESS;
}

int hdl_win_end(struct hdl_win *w)
{
	int rc = hdl_rma_flush_all(w), barrier = hdl_win_barrier(w);
	char why[256];

	snprintf(why, sizeof(why), "%s", hdl_reason_take());
	w->obj.magic = 0;
	win_free(w, barrier != MPI_SUCCESS);
	hdl_reason_set("%s", why);
	return rc ? rc : barrier;
}

static void on_failed(int proc)
{
	for (struct hdl_win *w = hdl_win_list; w; w = w->next) {
		int r = hdl_comm_rank_of(w->comm, proc);

		if (r == MPI_UNDEFINED || !w->target[r])
			continue;
		hdl_rma_msg_fail(w->target[r]);
		hdl_lock_lost(w, w->target[r]);
	}
}

int hdl_rma_init(void)
{
	hdl_p2p_on_failed = on_failed;
	hdl_p2p_on_dump = hdl_rma_dump;
	return hdl_rma_msg_init();
}

void hdl_rma_fini(void)
{
	hdl_p2p_on_failed = NULL;
	hdl_p2p_on_dump = NULL;
	while (hdl_win_list)
		win_free(hdl_win_list, true);
	hdl_pool_fini(&hdl_wins);
}
