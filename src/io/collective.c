/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective accesses (MPI-5.0 sections 14.4.2, 14.4.5): two phases.
 *
 *     all ranks     what of the file they access (struct extent)                                   gather
 *     aggregators   each has a file domain, which goes in windows of cb_buffer_size bytes, one in a round
 *
 *     write, a round                                   read, a round
 *     rank: strips of its data in each window          rank: strips of its data in each window
 *     ── lengths, then strips and data ──▶             ── lengths, then strips ──▶
 *     aggregator: data into the window, which          aggregator: reads the window; data of each rank
 *     it writes, run by run                            ◀── data ──
 *
 * A strip is a number of runs of one length at one distance, so that a vector is one strip however long.
 *
 * One state machine for the blocking and the nonblocking forms: a step starts operations, and names the step behind them. In a
 * blocking call the operations are complete when the step ends; in a nonblocking one collective_turn, in progress, goes on when
 * they are.
 *
 * Ranks whose accesses do not interleave gain nothing, nor do those of a file that is nearly empty between them:
 * then each accesses the file for itself. All know that from the extents. So do all in atomic mode: an access is to
 * be one, and rounds are many.
 */
#include "io/io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the whole range for each byte of data from which on rounds do not pay. */
#define SPARSE		64

/* Bytes of a run from which on a local file system's own copy costs less than the three of two phases. */
#define LONG_RUN	4096

/* Bytes of the range for each byte of a rank's data up to which the rank had better sieve than be sent its data. */
#define SIEVE_SPARSE	4

/* A rank's access, as every rank learns it by the allgather. */
struct extent {
	MPI_Offset first, end;		/* in the file; equal: nothing */
	MPI_Count bytes;
	int64_t error;			/* class with which the rank's arguments were refused */
	int64_t ascends;		/* the view's runs are in the order of the file */
	int64_t alone;			/* the rank's own access costs less than its part of two phases (is_cheap) */
};

/* Runs of `len` bytes, `stride` apart. */
struct strip {
	MPI_Offset at;
	MPI_Count len, stride, count;
};

/* Lengths of a rank's message to an aggregator in a round. */
struct lengths {
	int64_t strips;			/* number */
	int64_t bytes;			/* of data */
};

/* A rank's part of one aggregator's window in this round. */
struct portion {
	MPI_Offset position;		/* in the view's data: of the first byte that no earlier round has had */
	MPI_Count bytes;		/* in this round */
	struct strip *strips;
	int64_t n, room;
	char *message;			/* write: strips and data; read: the aggregator's answer */
};

struct collective {
	struct hdl_access a;
	struct hdl_file *file;
	struct hdl_cb_hints cb;		/* of the file when the access began, so that all ranks make the same plan */
	bool blocking, two_phase;
	int size, rank;
	struct extent mine_extent, *extent;	/* this rank's; by rank */
	/* two-phase */
	int naggregators;
	int *aggregator;		/* ranks */
	int mine;			/* this rank's number among the aggregators; -1 */
	MPI_Offset base, end;		/* of the first file domain; of the last rank's data */
	MPI_Count domain, window;	/* bytes of a domain, and of a window */
	MPI_Count rounds, round;
	struct portion *portion;	/* by aggregator */
	struct lengths *out, *in;	/* by rank */
	struct hdl_vcoll_block *to, *from;	/* by rank */
	char **received;		/* aggregator, by rank: strips and data */
	char *buffer;			/* aggregator: the window */
	uint64_t *map;			/* aggregator, write: a bit for each byte of the window that a rank has written */
	MPI_Offset short_at;		/* read: position in the view's data where the file ended; INT64_MAX: it did not */
	int err;			/* aggregator: errno */
	int32_t sum, total;		/* the error that all ranks return */
	/* nonblocking */
	void (*next)(struct collective *c);
	struct hdl_req *wait;		/* of the collective under way; NULL: none */
	struct hdl_io_job job;
	bool job_runs;
	struct hdl_req *req;		/* the program's */
	int error;			/* class */
	char why[256];
	bool done;
	struct collective *link;	/* of the list of those under way */
};

static struct collective *under_way;

static void *need(size_t n, size_t each)
{
	void *p = calloc(n ? n : 1, each);

	/* without it the other ranks would wait for ever */
	if (!p)
		hdl_out_of_memory("a collective access to a file", n * each);
	return p;
}

/* Not zeroed: a message, of which all bytes are written. */
static void *need_bytes(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (!p)
		hdl_out_of_memory("a collective access to a file", n);
	return p;
}

static void fail(struct collective *c, int class)
{
	if (c->error || !class)
		return;
	c->error = class;
	snprintf(c->why, sizeof(c->why), "%s", hdl_reason_take());
}

/* ---- collectives below ------------------------------------------------------------------------------------------------- */

static void run_collective(struct collective *c, const struct hdl_coll_args *args)
{
	int rc = c->blocking ? hdl_coll_run(c->file->comm, args) : hdl_coll_start(c->file->comm, args, &c->wait);

	fail(c, rc);
}

static void run_bytes(struct collective *c, enum hdl_coll coll, const void *send, void *recv, size_t bytes)
{
	const struct hdl_type *byte = hdl_type_get(MPI_BYTE);

	run_collective(c, &(struct hdl_coll_args){ .coll = coll, .sendbuf = send, .recvbuf = recv, .sendcount = (MPI_Count)bytes,
						   .recvcount = (MPI_Count)bytes, .sendtype = byte, .recvtype = byte,
							   .op = MPI_OP_NULL });
}

/* Exchanges the blocks `to` and `from`. */
static void run_exchange(struct collective *c)
{
	struct hdl_vcoll args = {
		.coll = HDL_V_EXCHANGE, .op = MPI_OP_NULL, .nin = c->size, .nout = c->size, .in = c->to, .out = c->from};

	fail(c, hdl_vcoll_start(c->file->comm, &args, c->blocking ? NULL : &c->wait));
}

static void clear_blocks(struct collective *c)
{
	const struct hdl_type *byte = hdl_type_get(MPI_BYTE);

	for (int r = 0; r < c->size; r++)
		c->to[r] = c->from[r] = (struct hdl_vcoll_block){ NULL, 0, byte };
}

/* ---- strips ------------------------------------------------------------------------------------------------------------- */

static void add_run(struct portion *p, MPI_Offset at, MPI_Count len)
{
	struct strip *last = p->n ? &p->strips[p->n - 1] : NULL;

	if (last && last->count == 1 && at == last->at + last->len) {
		last->len += len;
		return;
	}
	if (last && last->len == len && (last->count == 1 || at == last->at + last->count * last->stride)) {
		last->stride = last->count == 1 ? at - last->at : last->stride;
		last->count++;
		return;
	}
	if (p->n == p->room) {
		p->room = p->room ? 2 * p->room : 16;
		p->strips = realloc(p->strips, (size_t)p->room * sizeof(*p->strips));
		if (!p->strips)
			hdl_out_of_memory("a collective access to a file", (size_t)p->room * sizeof(*p->strips));
	}
	p->strips[p->n++] = (struct strip){ at, len, len, 1 };
}

/* Returns where the domain of an aggregator begins, at most c->end. Domains behind may have no offset that
 * MPI_Offset can represent. */
static MPI_Offset domain_at(const struct collective *c, int aggregator)
{
	return aggregator && (c->end - c->base) / aggregator < c->domain ? c->end : c->base + aggregator * c->domain;
}

static MPI_Offset window_at(const struct collective *c, int aggregator)
{
	MPI_Offset at = domain_at(c, aggregator), end = domain_at(c, aggregator + 1), before = c->round * c->window;

	return before < end - at ? at + before : end;
}

static MPI_Offset window_end(const struct collective *c, int aggregator)
{
	MPI_Offset at = window_at(c, aggregator), end = domain_at(c, aggregator + 1);

	return c->window < end - at ? at + c->window : end;
}

/* Names this rank's runs of an aggregator's window in this round. */
static void cut_portion(struct collective *c, int aggregator)
{
	struct portion *p = &c->portion[aggregator];
	MPI_Offset end = window_end(c, aggregator), at;
	MPI_Count left = c->a.args.position + c->a.bytes - p->position, n;
	struct hdl_view_runs *runs;

	p->n = 0;
	p->bytes = 0;
	if (!c->a.bytes || left <= 0 || window_at(c, aggregator) >= end)
		return;
	runs = hdl_view_runs_open(c->a.view, p->position);
	if (!runs)
		hdl_out_of_memory("a position in a view", 0);
	while (left && (n = hdl_view_runs_next(runs, left, &at)) && at < end) {
		n = n < end - at ? n : end - at;
		add_run(p, at, n);
		p->bytes += n;
		left -= n;
		if (at + n == end)
			break;
	}
	free(runs);
}

/* ---- the plan ------------------------------------------------------------------------------------------------------------- */

/* Whether each rank had better access the file for itself. The same on all ranks. */
static bool independent(const struct collective *c, MPI_Offset first, MPI_Offset end, MPI_Count bytes)
{
	const struct hdl_cb_hints *h = &c->cb;
	bool interleaved = false, alone = true;
	int last = -1;

	for (int r = 0; r < c->size; r++)
		if (c->extent[r].bytes && !c->extent[r].ascends)
			return true;
	if (!bytes || (end - first) / SPARSE > bytes || h->buffering == HDL_CB_NEVER)
		return true;
	if (h->buffering == HDL_CB_ALWAYS)
		return false;
	for (int r = 0; r < c->size; r++) {
		if (!c->extent[r].bytes)
			continue;
		alone &= c->extent[r].alone;
		interleaved |= last >= 0 && c->extent[r].first < c->extent[last].end;
		last = r;
	}
	return !interleaved || alone;
}

/* NULL: one host, or not known. */
static const struct hdl_hosts *hosts_of(struct hdl_file *f)
{
	const struct hdl_hosts *hosts = NULL;

	return hdl_group_hosts(f->comm->group, &hosts) ? NULL : hosts;
}

/* nodes: the hint cb_nodes; 0: not given. */
static int count_aggregators(struct hdl_file *f, int nodes)
{
	const struct hdl_hosts *hosts = hosts_of(f);
	int n = nodes ? nodes : 2 * (hosts ? hosts->n : 1);

	return n < f->comm->size ? n : f->comm->size;
}

int hdl_file_aggregators(struct hdl_file *f)
{
	return count_aggregators(f, f->hints.cb.nodes);
}

/* Ranks that aggregate: one after the other of each host, the lowest first. */
static void choose_aggregators(struct collective *c)
{
	const struct hdl_hosts *hosts = hosts_of(c->file);
	int n = count_aggregators(c->file, c->cb.nodes), k = 0;

	c->aggregator = need((size_t)n, sizeof(*c->aggregator));
	c->naggregators = n;
	c->mine = -1;
	for (int i = 0; k < n; i++) {
		if (!hosts) {
			c->aggregator[k++] = i;
			continue;
		}
		for (int h = 0; h < hosts->n && k < n; h++)
			if (i < hdl_hosts_ranks_of(hosts, h))
				c->aggregator[k++] = hdl_hosts_rank(hosts, hosts->first[h] + i);
	}
	for (int i = 0; i < n; i++)
		if (c->aggregator[i] == c->rank)
			c->mine = i;
}

static void plan_domains(struct collective *c, MPI_Offset first, MPI_Offset end)
{
	MPI_Count align = c->cb.striping_unit, bytes;

	choose_aggregators(c);
	c->base = first / align * align;
	c->end = end;
	bytes = (end - c->base + c->naggregators - 1) / c->naggregators;
	c->domain = (bytes + align - 1) / align * align;
	/* a long striping unit makes the domain longer than the range of the data */
	bytes = end - c->base < c->domain ? end - c->base : c->domain;
	c->window = c->cb.buffer_size < bytes ? c->cb.buffer_size : bytes;
	c->rounds = (bytes + c->window - 1) / c->window;
	c->portion = need((size_t)c->naggregators, sizeof(*c->portion));
	c->out = need((size_t)c->size, sizeof(*c->out));
	c->in = need((size_t)c->size, sizeof(*c->in));
	c->to = need((size_t)c->size, sizeof(*c->to));
	c->from = need((size_t)c->size, sizeof(*c->from));
	for (int i = 0; i < c->naggregators && c->a.bytes; i++) {
		MPI_Offset p = hdl_view_bytes_before(c->a.view, domain_at(c, i)), last = c->a.args.position + c->a.bytes;

		c->portion[i].position = p < c->a.args.position ? c->a.args.position : p > last ? last : p;
	}
	if (c->mine < 0)
		return;
	c->received = need((size_t)c->size, sizeof(*c->received));
	c->buffer = malloc((size_t)c->window);
	if (c->a.args.write)
		c->map = malloc(((size_t)c->window + 63) / 64 * sizeof(*c->map));
	if (!c->buffer || (c->a.args.write && !c->map))
		hdl_out_of_memory("the window of an aggregator (cb_buffer_size)", (size_t)c->window);
}

static void step_round(struct collective *c);
static void step_end(struct collective *c);

static void job_run(struct hdl_io_job *job)
{
	hdl_access_run(&container_of(job, struct collective, job)->a);
}

static void job_ended(struct hdl_io_job *job)
{
	container_of(job, struct collective, job)->job_runs = false;
}

/* Has `run` done: here, with the lock open, or by an I/O thread. */
static void run_io(struct collective *c, void (*run)(struct hdl_io_job *job))
{
	unsigned depth;

	c->job = (struct hdl_io_job){ .run = run, .ended = job_ended };
	if (c->blocking) {
		depth = hdl_lock_open();
		run(&c->job);
		hdl_lock_close(depth);
	} else {
		c->job_runs = true;
		hdl_pool_submit(&c->job);
	}
}

/* All extents are known. */
static void step_plan(struct collective *c)
{
	MPI_Offset first = INT64_MAX, end = 0;
	MPI_Count bytes = 0;

	for (int r = 0; r < c->size && !c->error; r++) {
		const struct extent *e = &c->extent[r];

		if (e->error) {
			hdl_reason_set("the arguments of rank %d were refused", r);
			fail(c, (int)e->error);
		}
		if (!e->bytes)
			continue;
		first = e->first < first ? e->first : first;
		end = e->end > end ? e->end : end;
		bytes += e->bytes;
	}
	c->next = step_end;
	if (c->error)
		return;
	if (independent(c, first, end, bytes)) {
		run_io(c, job_run);
		return;
	}
	c->two_phase = true;
	plan_domains(c, first, end);
	c->next = step_round;
}

/* ---- rounds -------------------------------------------------------------------------------------------------------- */

static void free_received(struct collective *c)
{
	for (int r = 0; c->received && r < c->size; r++) {
		free(c->received[r]);
		c->received[r] = NULL;
	}
	for (int i = 0; i < c->naggregators; i++) {
		free(c->portion[i].message);
		c->portion[i].message = NULL;
	}
}

static void step_send(struct collective *c);
static void step_window(struct collective *c);
static void step_windowed(struct collective *c);
static void step_answered(struct collective *c);
static void step_errors(struct collective *c);

static void step_round(struct collective *c)
{
	if (c->error) {
		c->next = step_end;
		return;
	}
	if (c->round == c->rounds) {
		/* Allreduce of the aggregators' errors: every rank returns the same class, and behind the last write. */
		c->sum = c->err;
		c->total = 0;
		c->next = step_errors;
		run_collective(c, &(struct hdl_coll_args){ .coll = HDL_ALLREDUCE, .sendbuf = &c->sum, .recvbuf = &c->total,
							   .sendcount = 1, .recvcount = 1, .sendtype = hdl_type_get(MPI_INT32_T),
							   .recvtype = hdl_type_get(MPI_INT32_T), .op = MPI_MAX });
		return;
	}
	memset(c->out, 0, (size_t)c->size * sizeof(*c->out));
	for (int i = 0; i < c->naggregators; i++) {
		cut_portion(c, i);
		c->out[c->aggregator[i]] = (struct lengths){ c->portion[i].n, c->portion[i].bytes };
	}
	c->next = step_send;
	run_bytes(c, HDL_ALLTOALL, c->out, c->in, sizeof(*c->out));
}

/* The lengths are known: strips go, and data to write. */
static void step_send(struct collective *c)
{
	clear_blocks(c);
	for (int i = 0; i < c->naggregators && !c->error; i++) {
		struct portion *p = &c->portion[i];
		size_t strips = (size_t)p->n * sizeof(*p->strips), data = c->a.args.write ? (size_t)p->bytes : 0;

		if (!p->n)
			continue;
		p->message = need_bytes(strips + data);
		memcpy(p->message, p->strips, strips);
		if (data)
			hdl_pack(p->message + strips, c->a.args.buf, c->a.args.count, c->a.args.type,
				 p->position - c->a.args.position, data);
		c->to[c->aggregator[i]].buf = p->message;
		c->to[c->aggregator[i]].count = (MPI_Count)(strips + data);
	}
	for (int r = 0; r < c->size && c->mine >= 0 && !c->error; r++) {
		size_t n = (size_t)c->in[r].strips * sizeof(struct strip) + (c->a.args.write ? (size_t)c->in[r].bytes : 0);

		if (!n)
			continue;
		c->received[r] = need_bytes(n);
		c->from[r].buf = c->received[r];
		c->from[r].count = (MPI_Count)n;
	}
	c->next = step_window;
	if (!c->error)
		run_exchange(c);
}

static const struct strip *strips_of(const struct collective *c, int r)
{
	return (const struct strip *)c->received[r];
}

/* ---- the aggregator's window: write -------------------------------------------------------------------------------- */

static void map_set(uint64_t *map, size_t from, size_t n)
{
	size_t w = from / 64, bit = from % 64;

	while (n) {
		size_t here = 64 - bit < n ? 64 - bit : n;

		map[w++] |= (here == 64 ? UINT64_MAX : ((uint64_t)1 << here) - 1) << bit;
		n -= here;
		bit = 0;
	}
}

/* Returns the first bit from `at` on, below `end`, that is `set`; end: none. */
static size_t map_find(const uint64_t *map, size_t at, size_t end, bool set)
{
	while (at < end) {
		uint64_t w = (set ? map[at / 64] : ~map[at / 64]) >> at % 64;

		if (w) {
			at += (size_t)__builtin_ctzll(w);
			break;
		}
		at = (at / 64 + 1) * 64;
	}
	return at < end ? at : end;
}

/* Copies the data of all ranks into the window, in the order of ranks. */
static void fill_window(struct collective *c, MPI_Offset from)
{
	for (int r = 0; r < c->size; r++) {
		const struct strip *s = strips_of(c, r);
		const char *data = c->received[r] ? c->received[r] + c->in[r].strips * (int64_t)sizeof(*s) : NULL;

		for (int64_t i = 0; c->received[r] && i < c->in[r].strips; i++)
			for (MPI_Count k = 0; k < s[i].count; k++, data += s[i].len) {
				size_t at = (size_t)(s[i].at + k * s[i].stride - from);

				memcpy(c->buffer + at, data, (size_t)s[i].len);
				map_set(c->map, at, (size_t)s[i].len);
			}
	}
}

static void write_window(struct hdl_io_job *job)
{
	struct collective *c = container_of(job, struct collective, job);
	MPI_Offset from = window_at(c, c->mine);
	size_t bytes = (size_t)(window_end(c, c->mine) - from), at = 0, end;
	MPI_Count done = 0;

	memset(c->map, 0, (bytes + 63) / 64 * sizeof(*c->map));
	fill_window(c, from);
	while (!c->err && (at = map_find(c->map, at, bytes, true)) < bytes) {
		end = map_find(c->map, at, bytes, false);
		c->err = hdl_write_run(c->file->fd, c->buffer + at, (MPI_Count)(end - at), from + (MPI_Offset)at, &done);
		at = end;
	}
}

/* ---- the aggregator's window: read --------------------------------------------------------------------------------- */

/* The range of the window that a rank wants. Returns false if no rank wants any. */
static bool wanted(const struct collective *c, MPI_Offset *first, MPI_Offset *end)
{
	*first = INT64_MAX;
	*end = 0;
	for (int r = 0; r < c->size; r++) {
		const struct strip *s = strips_of(c, r), *last;

		if (!c->received[r] || !c->in[r].strips)
			continue;
		last = &s[c->in[r].strips - 1];
		*first = s->at < *first ? s->at : *first;
		if (last->at + (last->count - 1) * last->stride + last->len > *end)
			*end = last->at + (last->count - 1) * last->stride + last->len;
	}
	return *end > *first;
}

/* An answer: how many of the bytes are there, or an errno as a negative number, and the bytes. */
struct answer {
	int64_t bytes;
	char data[];
};

/* Replaces what a rank has asked for by the answer. have: the file's bytes end here. */
static char *answer_of(const struct collective *c, int r, MPI_Offset from, MPI_Offset have)
{
	const struct strip *s = strips_of(c, r);
	struct answer *answer = malloc(sizeof(*answer) + (size_t)c->in[r].bytes);

	if (!answer)
		return NULL;
	answer->bytes = -c->err;
	for (int64_t i = 0; !c->err && i < c->in[r].strips; i++)
		for (MPI_Count k = 0; k < s[i].count; k++) {
			MPI_Offset at = s[i].at + k * s[i].stride;
			MPI_Count n = have - at < s[i].len ? have - at : s[i].len;

			if (n > 0) {
				memcpy(answer->data + answer->bytes, c->buffer + (at - from), (size_t)n);
				answer->bytes += n;
			}
			if (n < s[i].len)
				return (char *)answer;
		}
	return (char *)answer;
}

static void read_window(struct hdl_io_job *job)
{
	struct collective *c = container_of(job, struct collective, job);
	MPI_Offset from = window_at(c, c->mine), first, end;
	MPI_Count got = 0;

	if (!wanted(c, &first, &end))
		return;
	if (!c->err)
		c->err = hdl_read_run(c->file->fd, c->buffer + (first - from), end - first, first, &got);
	for (int r = 0; r < c->size; r++) {
		char *answer = c->received[r] ? answer_of(c, r, from, first + got) : NULL;

		if (c->received[r] && !answer)
			hdl_out_of_memory("the answer of an aggregator", (size_t)c->in[r].bytes);
		free(c->received[r]);
		c->received[r] = answer;
	}
}

/* Strips, and data to write, are here. */
static void step_window(struct collective *c)
{
	c->next = step_windowed;
	if (c->mine >= 0 && !c->error)
		run_io(c, c->a.args.write ? write_window : read_window);
}

static void next_round(struct collective *c)
{
	for (int i = 0; i < c->naggregators; i++)
		c->portion[i].position += c->portion[i].bytes;
	free_received(c);
	c->round++;
	c->next = step_round;
}

/* The window has been written or read. */
static void step_windowed(struct collective *c)
{
	if (c->a.args.write || c->error) {
		next_round(c);
		return;
	}
	clear_blocks(c);
	for (int r = 0; r < c->size && c->mine >= 0; r++)
		if (c->received[r]) {
			c->to[r].buf = c->received[r];
			c->to[r].count = (MPI_Count)sizeof(struct answer) + c->in[r].bytes;
		}
	for (int i = 0; i < c->naggregators; i++) {
		struct portion *p = &c->portion[i];

		free(p->message);
		p->message = NULL;
		if (!p->n)
			continue;
		p->message = need_bytes(sizeof(struct answer) + (size_t)p->bytes);
		c->from[c->aggregator[i]].buf = p->message;
		c->from[c->aggregator[i]].count = (MPI_Count)sizeof(struct answer) + p->bytes;
	}
	c->next = step_answered;
	run_exchange(c);
}

static void step_answered(struct collective *c)
{
	for (int i = 0; i < c->naggregators && !c->error; i++) {
		struct portion *p = &c->portion[i];
		const struct answer *answer = (const struct answer *)p->message;

		if (!answer)
			continue;
		if (answer->bytes > 0)
			hdl_unpack(c->a.args.buf, answer->data, c->a.args.count, c->a.args.type,
				   p->position - c->a.args.position, (size_t)answer->bytes);
		if (answer->bytes < p->bytes && p->position + (answer->bytes > 0 ? answer->bytes : 0) < c->short_at)
			c->short_at = p->position + (answer->bytes > 0 ? answer->bytes : 0);
	}
	next_round(c);
}

/* ---- the end ------------------------------------------------------------------------------------------------------- */

static void step_errors(struct collective *c)
{
	c->next = step_end;
	if (c->total && !c->error)
		fail(c, hdl_io_class(c->total, c->a.args.write ? "write" : "read", c->file->path));
}

static void collective_free(struct collective *c)
{
	free_received(c);
	for (int i = 0; c->portion && i < c->naggregators; i++)
		free(c->portion[i].strips);
	free(c->extent);
	free(c->aggregator);
	free(c->portion);
	free(c->out);
	free(c->in);
	free(c->to);
	free(c->from);
	free(c->received);
	free(c->buffer);
	free(c->map);
	free(c);
}

static void step_end(struct collective *c)
{
	int rc;

	if (c->two_phase)
		c->a.moved = c->error ? 0 : c->short_at == INT64_MAX ? c->a.bytes : c->short_at - c->a.args.position;
	rc = hdl_access_end(&c->a);
	fail(c, rc);
	c->done = true;
}

/* Runs steps until one has to wait. */
static void advance(struct collective *c)
{
	while (!c->done && !c->job_runs) {
		if (c->wait) {
			if (!c->wait->done)
				return;
			if (c->wait->error) {
				hdl_req_explain(c->wait);
				fail(c, c->wait->error);
			}
			hdl_req_free(c->wait);
			c->wait = NULL;
		}
		c->next(c);
	}
}

/* run: bytes of a run, on average. A file system that is not local gains by few long accesses. */
static bool is_cheap(const struct collective *c, const struct extent *mine, MPI_Count run)
{
	if (c->file->fs != HDL_FS_LOCAL)
		return false;
	if (run >= LONG_RUN || (!c->a.args.write && (mine->end - mine->first) / SIEVE_SPARSE <= mine->bytes))
		return true;
	return c->file->in_memory && c->file->maps && (mine->end - mine->first) / SIEVE_SPARSE <= mine->bytes;
}

static void step_begin(struct collective *c)
{
	struct extent *mine = &c->mine_extent;
	MPI_Count run;

	if (c->a.atomic || (c->size == 1 && c->cb.buffering != HDL_CB_ALWAYS)) {
		c->next = step_end;
		if (!c->error)
			run_io(c, job_run);
		return;
	}
	*mine = (struct extent){ .error = c->error, .ascends = true };
	if (c->a.bytes) {
		mine->bytes = c->a.bytes;
		mine->ascends = hdl_view_ascends(c->a.view, &run);
		hdl_view_hull(c->a.view, c->a.args.position, c->a.bytes, &mine->first, &mine->end);
		mine->alone = is_cheap(c, mine, run);
	}
	c->extent = need((size_t)c->size, sizeof(*c->extent));
	c->next = step_plan;
	run_bytes(c, HDL_ALLGATHER, mine, c->extent, sizeof(*mine));
}

static struct collective *collective_make(struct hdl_file *f, const struct hdl_access_args *args, int error, bool blocking)
{
	const struct hdl_access_args none = { .write = args->write, .type = hdl_type_get(MPI_BYTE) };
	struct collective *c = need(1, sizeof(*c));

	*c = (struct collective){ .file = f, .cb = f->hints.cb, .blocking = blocking, .size = f->comm->size,
				  .rank = f->comm->rank, .mine = -1, .short_at = INT64_MAX, .next = step_begin };
	fail(c, error);
	fail(c, hdl_access_begin(&c->a, f, error ? &none : args));
	return c;
}

/* Whether no nonblocking access of the file ahead of `end` is under way. The collectives of two accesses use one communicator,
 * on which all ranks must start them in one order; so an access waits for the one before. */
static bool is_first(const struct hdl_file *f, const struct collective *end)
{
	const struct collective *c = under_way;

	while (c != end && c->file != f)
		c = c->link;
	return c == end;
}

static bool none_under_way(const void *file)
{
	return is_first(file, NULL);
}

int hdl_file_access_all(struct hdl_file *f, const struct hdl_access_args *args, int error, MPI_Count *moved)
{
	struct collective *c = collective_make(f, args, error, true);
	int rc;

	if (!none_under_way(f))
		hdl_wait_until(none_under_way, f);
	advance(c);
	*moved = c->a.moved;
	rc = c->error;
	if (rc)
		hdl_reason_set("%s", c->why);
	collective_free(c);
	return rc;
}

/* Goes on with the nonblocking accesses. Called by progress. Returns the number of those that have ended. */
static int collective_turn(void *arg)
{
	struct collective **link = &under_way, *c;
	int n = 0;

	(void)arg;
	while ((c = *link)) {
		if (is_first(c->file, c))
			advance(c);
		if (!c->done) {
			link = &c->link;
			continue;
		}
		*link = c->link;
		n++;
		hdl_status_set_bytes(&c->req->status, c->a.moved, false);
		if (c->error)
			hdl_req_reason(c->req, c->why);
		hdl_req_complete(c->req, c->error);
		collective_free(c);
	}
	return n;
}

static bool attached;

void hdl_file_iaccess_all(struct hdl_file *f, const struct hdl_access_args *args, int error, struct hdl_req **req)
{
	struct collective *c, **link = &under_way;

	if (!attached && hdl_tp_progress_add(hdl_mpi_tp, collective_turn, NULL))
		hdl_out_of_memory("nonblocking collective accesses", sizeof(*c));
	attached = true;
	*req = hdl_req_new(f->comm);
	if (!*req)
		hdl_out_of_memory("a request", sizeof(**req));
	c = collective_make(f, args, error, false);
	c->req = *req;
	while (*link)
		link = &(*link)->link;
	*link = c;
}

void hdl_collective_fini(void)
{
	if (attached)
		hdl_tp_progress_remove(hdl_mpi_tp, collective_turn, NULL);
	attached = false;
}
