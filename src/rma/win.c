/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: creation, the end.
 *
 * Creation is collective, in three exchanges over a duplicate of the communicator:
 *
 *     sizes       shared windows only: rank 0 allocates the memory of all members. Where the members share no fabric (a device
 *                 without an arena), rank 0 makes a file in memory for the state blocks and the memory of all, which the others
 *                 map, and creation begins again with that (enum shared_how)
 *     records     base, size, places in the fabric, key
 *     agreement   whether this process has mapped the state blocks and memories of all members
 *
 * A member without memory takes part in all of them with its error in the record, so that all members fail together.
 */
#include "rma/operation.h"
#include "rma/reach.h"
#include "rma/sync.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t nonce_new(const struct hdl_win *w)
{
	static uint64_t n;
	uint64_t x = monotonic_ns() ^ (uint64_t)(uintptr_t)w ^ (uint64_t)hdl_job.rank << 48 ^ ++n << 32;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (x ^ x >> 31) | 1;
}

/* Bytes of a state block, in whole lines. */
static size_t state_bytes(const struct hdl_win *w)
{
	return align_up(sizeof(*w->state) + (size_t)w->size * sizeof(w->state->member[0]), 64);
}

static void state_free(struct hdl_win *w)
{
	bool in_segment = w->segment && (char *)w->state >= w->segment && (char *)w->state < w->segment + w->segment_bytes;

	if (in_segment)
		;
	else if (w->state && w->state_shared)
		hdl_tp_unshare(hdl_mpi_tp, w->state);
	else
		free(w->state);
	w->state = NULL;
	w->state_shared = false;
}

static int state_new(struct hdl_win *w, struct hdl_win_record *r)
{
	size_t bytes = state_bytes(w);

	w->state = hdl_tp_share(hdl_mpi_tp, bytes, &r->state_at);
	w->state_shared = w->state != NULL;
	if (!w->state && errno != EOPNOTSUPP)
		return hdl_rma_no_memory("the state of a window");
	if (!w->state && !(w->state = aligned_alloc(64, bytes)))
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

/* How the members of a shared window share memory; each is tried if the members cannot by the one before. */
enum shared_how { BY_FABRIC, BY_SEGMENT, BY_NAMED_SEGMENT };
struct shared_size {
	uint64_t size, memory_at;
	uint32_t error, noncontig;
	struct hdl_segment segment;	/* of rank 0 */
};

#define SEGMENT_ALIGN 4096u

/* Bytes of a member's part of a segment, with those up to the next part. */
static uint64_t part_bytes(const struct shared_size *s, int rank)
{
	return s[0].noncontig ? align_up(s[rank].size, SEGMENT_ALIGN) : s[rank].size;
}

/* Rank 0: makes a segment of the state blocks and memories of all members. */
static int segment_new(struct hdl_win *w, enum shared_how how, uint64_t bytes, struct hdl_segment *s)
{
	bytes += align_up((uint64_t)w->size * state_bytes(w), SEGMENT_ALIGN);
	w->segment = hdl_segment_make(how == BY_SEGMENT ? HDL_SEGMENT_ANONYMOUS : HDL_SEGMENT_NAMED,
				      align_up(bytes, SEGMENT_ALIGN), s);
	w->segment_bytes = s->bytes;
	if (w->segment)
		return MPI_SUCCESS;
	hdl_reason_set("%llu bytes of memory that ranks share cannot be had: %s", (unsigned long long)bytes, strerror(errno));
	return errno == ENOMEM ? MPI_ERR_NO_MEM : MPI_ERR_RMA_SHARED;
}

/* Checks the address of memory that the window has allocated for this member. */
static int check_alignment(const struct hdl_win *w, const struct hdl_win_args *args)
{
	if (!args->size || !args->align || !((uintptr_t)w->base & (uintptr_t)(args->align - 1)))
		return MPI_SUCCESS;
	hdl_reason_set("memory aligned to %ld bytes (mpi_minimum_memory_alignment) cannot be had: only that of a page, %ld, is "
		       "certain", args->align, sysconf(_SC_PAGESIZE));
	return MPI_ERR_NO_MEM;
}

/* Memory of a shared window, by shared_how: of rank 0 for all, or of each member. *places: of all members,
 * malloc'd; the caller's. */
static int shared_memory(struct hdl_win *w, const struct hdl_win_args *args, enum shared_how how, int error,
			 struct shared_size **places)
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
	together = how != BY_FABRIC || !s[0].noncontig;
	w->hints = (w->hints & ~(unsigned)HDL_WIN_NONCONTIG) | (s[0].noncontig ? HDL_WIN_NONCONTIG : 0);
	for (int r = 0; r < w->size; r++)
		if (__builtin_add_overflow(sum, part_bytes(s, r), &sum) || sum > INT64_MAX)
			mine->error = MPI_ERR_SIZE;
	if (!mine->error && how != BY_FABRIC && !w->rank)
		mine->error = (uint32_t)segment_new(w, how, sum, &mine->segment);
	else if (!mine->error && how == BY_FABRIC && (!together || !w->rank))
		mine->error = (uint32_t)memory_new(w, together ? sum : (uint64_t)args->size, true, &mine->memory_at);
	return hdl_comm_exchange(w->comm, s, sizeof(*s));
}

/* Maps rank 0's segment and sets base and places: the state blocks, then the memory. */
static int segment_place(struct hdl_win *w, const struct shared_size *s)
{
	uint64_t at = align_up((uint64_t)w->size * state_bytes(w), SEGMENT_ALIGN);
	uint64_t nonce = w->record[w->rank].nonce;

	w->segment_bytes = s[0].segment.bytes;
	if (!w->segment && !(w->segment = hdl_segment_open(&s[0].segment))) {
		hdl_reason_set("the memory that rank 0 has allocated cannot be mapped here (%s): are all ranks on one host?",
			       strerror(errno));
		return MPI_ERR_RMA_SHARED;
	}
	for (int r = 0; r < w->size; r++) {
		w->record[r].state_at = (uint64_t)r * state_bytes(w);
		w->record[r].memory_at = at;
		at += part_bytes(s, r);
	}
	state_free(w);
	w->state = (struct hdl_win_state *)(void *)(w->segment + w->record[w->rank].state_at);
	__atomic_store_n(&w->state->nonce, nonce, __ATOMIC_RELEASE);
	w->base = w->segment + w->record[w->rank].memory_at;
	return MPI_SUCCESS;
}

/* Sets base and places of a shared window's members. */
static int shared_place(struct hdl_win *w, enum shared_how how, const struct shared_size *s)
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
	if (how != BY_FABRIC)
		return segment_place(w, s);
	if (w->memory) {
		w->base = (char *)w->memory + (mine - s[w->rank].memory_at);
		return MPI_SUCCESS;
	}
	w->base = hdl_tp_shared_at(hdl_mpi_tp, mine, s[w->rank].size);
	if (!w->base) {
		hdl_reason_set(
			"the memory that rank 0 has allocated is not in the fabric of this process: are all ranks on one host?");
		return MPI_ERR_RMA_SHARED;
	}
	return MPI_SUCCESS;
}

/* Returns true if the alignment that the program asks for holds for this member of a shared window. In one segment, which begins
 * with the first member that has memory, the parts of all others follow without a gap (section 12.2.3): there the sizes
 * decide. */
static bool is_aligned_member(const struct hdl_win *w, const struct shared_size *s)
{
	for (int r = 0; r < w->rank && !s[0].noncontig; r++)
		if (s[r].size)
			return false;
	return true;
}

/* Fills in this process's record. Returns an error class, which the record gets. */
static int record_mine(struct hdl_win *w, const struct hdl_win_args *args, struct hdl_win_record *r)
{
	int rc = args->error ? args->error : state_new(w, r);

	if (!rc && args->flavor == MPI_WIN_FLAVOR_ALLOCATE) {
		rc = memory_new(w, (uint64_t)args->size, false, &r->memory_at);
		w->base = w->memory;
		rc = rc ? rc : check_alignment(w, args);
	}
	if (!rc && args->flavor == MPI_WIN_FLAVOR_CREATE && args->size)
		hdl_tp_place_of(hdl_mpi_tp, args->base, (size_t)args->size, &r->memory_at);
	r->size = (uint64_t)args->size;
	r->disp_unit = args->disp_unit;
	r->window = (uintptr_t)w;
	r->hints = (uint8_t)args->hints;
	if (args->granularity > 0)
		r->granule = (uint8_t)(64 - __builtin_clzll((unsigned long long)args->granularity));
	return rc;
}

/* Returns true if a member's hint asks for the agent device. */
static bool asks_atomics(const struct hdl_win_record *r)
{
	return r->granule && 1u << (r->granule - 1) <= HDL_GRANULE_ATOMIC;
}

/* Registers memory that peers reach by the device. */
static int record_key(struct hdl_win *w, struct hdl_win_record *r)
{
	bool asks = asks_atomics(r) && !w->dynamic && w->size > 1;
	unsigned atomics = HDL_MR_ATOMIC_DEVICE;
	int err;

	r->base = (uintptr_t)w->base;
	w->asks_atomics = asks && !r->size;
	if (hdl_win_is_of_host(w))
		atomics |= HDL_MR_ATOMIC_OF_HOST;
	if (w->dynamic || !r->size || (r->memory_at && hdl_win_is_of_host(w) && !asks))
		return MPI_SUCCESS;
	err = -EOPNOTSUPP;
	if (asks)
		err = hdl_mr_register(hdl_mpi_tp, w->base, r->size, HDL_MR_READ | HDL_MR_WRITE | atomics, &w->mr);
	w->asks_atomics |= !err;
	if (!err && hdl_mr_has_agent_queues(w->mr))
		r->hints |= HDL_WIN_AGENT_QUEUES;
	if (err)
		err = hdl_mr_register(hdl_mpi_tp, w->base, r->size, HDL_MR_READ | HDL_MR_WRITE, &w->mr);
	if (err)
		return hdl_rma_no_memory("the region of a window");
	r->key_len = (uint16_t)hdl_mr_pack(w->mr, r->key);
	return MPI_SUCCESS;
}

static bool all_connected(const void *arg)
{
	const struct hdl_win *w = arg;

	for (int r = 0; r < w->size; r++) {
		const struct hdl_ep *ep = r == w->rank ? NULL : hdl_comm_ep_met(w->comm, r);

		if (ep && (hdl_rma_connecting(ep) || hdl_agent_connecting(ep)))
			return false;
	}
	return true;
}

/* Returns true if the device moves the memory of another member, of this host, or updates that of any other member. */
static bool is_moved(const struct hdl_win *w, int rank)
{
	const struct hdl_win_record *m = &w->record[rank];

	return rank != w->rank && (hdl_win_is_local(w, rank) || w->asks_atomics) && (w->dynamic || (m->size && !m->memory_at));
}

/* Connects the queues to members whose memory the device moves or updates, agent queues included, while all members make
 * progress: otherwise the first operation could wait for a target that computes. Returns whether operations on such memory are,
 * or begin with, messages; updates without an agent queue do not count: members on several hosts have helper threads in any
 * case. */
static bool connect_members(struct hdl_win *w)
{
	bool messages = false, connects = hdl_win_connects(w->size);

	for (int r = 0; r < w->size; r++)
		if (is_moved(w, r)) {
			messages |= !connects;
			if (connects)
				hdl_rma_connect(hdl_comm_ep(w->comm, r));
		}
	if (!connects)
		return messages;
	for (int r = 0; r < w->size; r++)
		if (hdl_win_is_agent_peer(w, r))
			hdl_agent_connect(hdl_comm_ep(w->comm, r));
	hdl_wait_until(all_connected, w);
	/* behind the wait: a queue that cannot be had leaves messages */
	for (int r = 0; r < w->size; r++)
		messages |= is_moved(w, r) && hdl_rma_connect(hdl_comm_ep(w->comm, r)) == -EOPNOTSUPP;
	return messages;
}

/* Exchanges the members' findings (reach.h). *all: findings of all members; *any: findings of some member. */
static int agree(struct hdl_win *w, unsigned *all, unsigned *any)
{
	uint8_t *has = calloc((size_t)w->size, 1);
	bool messages = connect_members(w);
	int rc;

	if (!has)
		hdl_out_of_memory("agreement on a window", (size_t)w->size);
	*all = *any = 0;
	has[w->rank] = HDL_HAS_STATES | HDL_HAS_MEMORIES;
	for (int r = 0; r < w->size; r++) {
		if (!hdl_win_state_of(w, r))
			has[w->rank] = 0;
		else if (w->record[r].memory_at && w->record[r].size && !hdl_win_memory_of(w, r))
			has[w->rank] &= (uint8_t)~HDL_HAS_MEMORIES;
	}
	if (messages)
		has[w->rank] |= HDL_BY_MESSAGES;
	if (w->asks_atomics)
		has[w->rank] |= HDL_HAS_ATOMICS;
	rc = hdl_comm_exchange(w->comm, has, 1);
	*all = HDL_HAS_STATES | HDL_HAS_MEMORIES | HDL_HAS_ATOMICS;
	for (int r = 0; r < w->size && !rc; r++) {
		*all &= has[r];
		*any |= has[r];
	}
	free(has);
	return rc;
}

/* Returns true if some member's memory lies in the fabric. */
static bool has_shared_memory(const struct hdl_win *w)
{
	for (int r = 0; r < w->size; r++)
		if (w->record[r].memory_at)
			return true;
	return w->flavor == MPI_WIN_FLAVOR_ALLOCATE || w->flavor == MPI_WIN_FLAVOR_SHARED;
}

/* Checks that the members keep the promises of the info keys same_size and same_disp_unit; all members get the same result.
 * Returns MPI_ERR_SIZE or MPI_ERR_DISP. */
static int check_promises(const struct hdl_win *w)
{
	const struct hdl_win_record *first = &w->record[0];
	unsigned promised = 0;

	for (int r = 0; r < w->size; r++)
		promised |= w->record[r].hints;
	for (int r = 1; r < w->size; r++) {
		const struct hdl_win_record *m = &w->record[r];

		if (promised & HDL_WIN_SAME_SIZE && m->size != first->size) {
			hdl_reason_set(
				"a rank gave the info key same_size, and the window has %llu bytes at rank 0 and %llu at rank %d",
				(unsigned long long)first->size, (unsigned long long)m->size, r);
			return MPI_ERR_SIZE;
		}
		if (promised & HDL_WIN_SAME_DISP_UNIT && m->disp_unit != first->disp_unit) {
			hdl_reason_set(
				"a rank gave the info key same_disp_unit, and the displacement unit is %lld at rank 0 and %lld "
				"at rank %d",
				(long long)first->disp_unit, (long long)m->disp_unit, r);
			return MPI_ERR_DISP;
		}
	}
	return MPI_SUCCESS;
}

/* The memory of a member, by its record. */
static enum hdl_win_memory memory_kind(const struct hdl_win *w, const struct hdl_win_record *r)
{
	if (w->dynamic)
		return HDL_MEMORY_DYNAMIC;
	if (!r->size)
		return HDL_MEMORY_NONE;
	return r->memory_at ? HDL_MEMORY_ARENA : HDL_MEMORY_PRIVATE;
}

static int win_exchange(struct hdl_win *w, const struct hdl_win_args *args, enum shared_how how)
{
	struct hdl_win_record *mine = &w->record[w->rank];
	struct hdl_segment segment = { 0 };	/* rank 0: the segment that rank 0 has made */
	struct shared_size *shared = NULL;
	int error = record_mine(w, args, mine), rc = MPI_SUCCESS;
	unsigned all = 0, any = 0;
	char why[256] = "";

	if (error)
		snprintf(why, sizeof(why), "%s", hdl_reason_take());
	if (args->flavor == MPI_WIN_FLAVOR_SHARED) {
		rc = shared_memory(w, args, how, error, &shared);
		error = rc ? rc : shared_place(w, how, shared);
		if (!error && is_aligned_member(w, shared))
			error = check_alignment(w, args);
		if (error && !rc && !why[0])
			snprintf(why, sizeof(why), "%s", hdl_reason_take());
		mine->memory_at = error ? 0 : w->record[w->rank].memory_at;
		segment = shared[w->rank].segment;
		free(shared);
	}
	if (!error)
		error = record_key(w, mine);
	mine->error = (uint32_t)error;
	if (!rc)
		rc = hdl_comm_exchange(w->comm, w->record, sizeof(*w->record));
	if (segment.bytes)
		hdl_segment_opened(&segment);
	for (int r = 0; r < w->size && !rc; r++)
		if (w->record[r].error) {
			rc = (int)w->record[r].error;
			if (error && why[0])
				hdl_reason_set("%s", why);
			else if (!error)
				hdl_reason_set("rank %d has failed to make its part of the window; look at its output", r);
		}
	if (!rc && hdl_vars.check)
		rc = check_promises(w);
	if (!rc)
		rc = agree(w, &all, &any);
	if (rc)
		return rc;
	w->granularity = args->granularity;
	for (int r = 0; r < w->size; r++)
		if (w->record[r].granule != mine->granule)	/* section 12.2.1: all give the same */
			w->granularity = 0;
	w->mapped = all & HDL_HAS_STATES;
	w->native = w->mapped && all & HDL_HAS_MEMORIES && has_shared_memory(w);
	w->atomics = hdl_win_atomics(w->size, w->granularity > 0, all);
	w->helped = hdl_win_helped(w->size, hdl_win_is_far(memory_kind(w, mine), all), all, any);
	if (args->flavor == MPI_WIN_FLAVOR_SHARED && !w->native) {
		hdl_reason_set("the ranks of the communicator cannot share memory: some are on another host or in another fabric "
			       "(MPI_Comm_split_type with MPI_COMM_TYPE_SHARED)");
		return MPI_ERR_RMA_SHARED;
	}
	for (int r = 0; r < w->size; r++)
		if (w->target[r] && !hdl_target_settle(w, w->target[r]))
			return hdl_rma_no_memory("a window");
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

/* Frees the memory and the state block, and forgets the records of a creation that has failed. */
static void parts_free(struct hdl_win *w)
{
	if (w->memory && w->memory_shared)
		hdl_tp_unshare(hdl_mpi_tp, w->memory);
	else if (w->memory)
		hdl_tp_free(hdl_mpi_tp, w->memory);
	w->memory = NULL;
	state_free(w);
	if (w->segment)
		hdl_segment_unmap(w->segment, w->segment_bytes);
	w->segment = NULL;
	memset(w->record, 0, (size_t)w->size * sizeof(*w->record));
}

static void target_free(struct hdl_target *t)
{
	if (!t)
		return;
	if (t->key)
		hdl_rkey_release(t->key);
	hdl_regions_drop(t);
	hdl_acc_origin_drop(t);
	hdl_acc_target_drop(t);
	free(t);
}

/* Frees the object. kept: memory that peers may still write to stays. */
static void win_free(struct hdl_win *w, bool kept)
{
	if (w->begun)
		hdl_rma_helper_end();
	for (int r = 0; w->target && r < w->size; r++)
		target_free(w->target[r]);
	if (!w->dynamic && w->mr)
		hdl_mr_deregister(w->mr);
	hdl_regions_free(w);
	if (!kept)
		parts_free(w);
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
	char why[256] = "";
	int rc;

	*out = NULL;
	if (args->error)
		snprintf(why, sizeof(why), "%s", hdl_reason_take());
	/* without these the other members would wait for ever */
	if (!w)
		hdl_out_of_memory("a window", sizeof(*w));
	*w = (struct hdl_win){ .obj = { HDL_MAGIC_WIN, 1 }, .size = comm->size, .rank = comm->rank, .flavor = args->flavor,
			       .model = MPI_WIN_UNIFIED, .base = args->base, .bytes = args->size,
			       .disp_unit = (int)args->disp_unit, .disp_unit_c = args->disp_unit,
			       .dynamic = args->flavor == MPI_WIN_FLAVOR_DYNAMIC, .hints = args->hints,
			       .errhandler = args->errhandler, .made_ticks = ticks(), .made_ns = monotonic_ns() };
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
		if (args->error)
			hdl_reason_set("%s", why);
		rc = win_exchange(w, args, BY_FABRIC);
		/* all members have the same result */
		for (int how = BY_SEGMENT; rc == MPI_ERR_RMA_SHARED && how <= BY_NAMED_SEGMENT; how++) {
			if (w->mr)	/* of memory that goes */
				hdl_mr_deregister(w->mr);
			w->mr = NULL;
			parts_free(w);
			rc = win_exchange(w, args, (enum shared_how)how);
		}
	}
	if (!rc && !hdl_target_make(w, w->rank))
		rc = hdl_rma_no_memory("a window");
	if (rc) {
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
	if (barrier) {
		hdl_lock_gone(w);
		hdl_acc_target_gone(w);
	}
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
		hdl_acc_origin_fail(w->target[r]);
		hdl_lock_lost(w, w->target[r]);
	}
}

int hdl_rma_init(void)
{
	int err;

	hdl_p2p_on_failed = on_failed;
	hdl_p2p_on_dump = hdl_rma_dump;
	err = hdl_control_init(&hdl_lock_owner);
	if (!err)
		err = hdl_acc_origin_init();
	return err ? err : hdl_acc_target_init();
}

void hdl_rma_begun(struct hdl_win *w)
{
	if (w->helped) {
		w->begun = true;
		hdl_rma_helper_begin();
	}
}

void hdl_rma_fini(void)
{
	hdl_p2p_on_failed = NULL;
	hdl_p2p_on_dump = NULL;
	while (hdl_win_list)
		win_free(hdl_win_list, true);
	hdl_pool_fini(&hdl_wins);
}
