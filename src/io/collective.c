/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective accesses (MPI-5.0 sections 14.4.2, 14.4.5): two phases.
 *
 *     all ranks     what of the file they access (struct hdl_extent)                               gather
 *     aggregators   each has a file domain, which goes in windows of cb_buffer_size bytes, one in a round
 *
 *     write, a round                                   read, a round
 *     rank: strips of its data in each window          rank: strips of its data in each window
 *     ── lengths, then strips and data ──▶             ── lengths, then strips ──▶
 *     aggregator: data into the window, which          aggregator: reads the window; data of each rank
 *     it writes, run by run (window.c)                 ◀── data ──
 *
 * A rank that aggregates has its own data from its memory. Up to STRIPS_FIRST strips go with the lengths, and then data that are
 * one run of memory go from there; else strips and data are packed into a message.
 *
 * Where a rank wants an I/O thread (wants_overlap), a window of one round is written or read while the next round's exchange goes
 * on. Then all ranks take the order of the exchanges on the right:
 *
 *     write   exchange 0 │ exchange 1 │ exchange 2 │            read   strips 0 │ strips 1 │ data 0 │ strips 2 │ data 1 │
 *                        └ window 0 ──┴ window 1 ──┴ window 2                     └ window 0 ┴ window 1 ────────┴ window 2
 *
 * One window is under way at a time, so that one buffer serves; strips, messages and answers have two sets (struct turn), by
 * turns. An error of a window is kept (struct hdl_window), and all ranks have it when the last round is over.
 *
 * One state machine for the blocking and the nonblocking forms: a step starts operations, and names the step behind them. In a
 * blocking call the operations are complete when the step ends; in a nonblocking one collective_turn, in progress, goes on when
 * they are.
 *
 * Ranks whose accesses do not interleave gain nothing, nor do those of a file that is nearly empty between them: then each
 * accesses the file for itself. All know that from the extents. So do all in atomic mode: an access is to be one, and rounds are
 * many.
 */
#include "io/io.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "io/domains.h"

#define STRIPS_FIRST	2

/* Lengths of a rank's message to an aggregator in a round. */
struct lengths {
	int64_t strips;			/* number */
	int64_t bytes;			/* of data */
	struct hdl_strip first[STRIPS_FIRST];	/* the strips, if there are no more */
};

/* A buffer, which grows. */
struct room {
	char *at;
	size_t bytes;
};

/* A round's state from its exchange to the end of its window. */
struct turn {
	MPI_Count round;
	struct hdl_portion *portion;	/* by aggregator */
	struct lengths *in;		/* aggregator, by rank */
	struct hdl_window_part *parts;	/* aggregator, by rank */
};

/* The buffers of an access. Pages that a process has not touched cost as much as a copy into them, so the process keeps one
 * set. */
struct buffers {
	struct room window, map;
	struct {
		struct room out, in, answers, answered;
	} turn[2];
};
static struct buffers *kept;		/* not in use */

struct collective {
	struct hdl_access a;
	struct hdl_file *file;
	struct hdl_cb_hints cb;		/* of the file when the access began, so that all ranks make the same plan */
	bool blocking, two_phase;
	enum hdl_cb overlap;		/* of the file when the access began */
	int size, rank;
	struct hdl_extent mine_extent, *extent;	/* this rank's; by rank */
	/* two-phase */
	struct hdl_domains domains;
	MPI_Count round, answered;	/* answered, read: rounds whose data were sent */
	struct turn turn[2];
	int turns;			/* in use: 2 if a rank's windows are written or read in exchanges, else 1 */
	struct lengths *out;		/* by rank */
	struct hdl_vcoll_block *to, *from;	/* by rank */
	struct buffers *buffers;
	char *memory;			/* start of the data in memory, if they are one run; else NULL */
	struct hdl_window win;		/* aggregator; job_runs: an I/O thread has it */
	MPI_Offset short_at;		/* read: position in the view's data at the end of the file; INT64_MAX: not reached */
	int32_t sum, total;		/* the error that all ranks return */
	/* nonblocking */
	void (*next)(struct collective *c);
	struct hdl_req *wait;		/* of the collective under way; NULL: none */
	struct hdl_io_job job;
	bool job_runs, job_awaited;	/* job_awaited: the next step must have the job's result */
	struct hdl_req *req;		/* the program's */
	int error;			/* class */
	char why[256];
	bool done;
	struct collective *link;	/* of the list of those under way */
};

static struct collective *under_way;

/* Returns the room's buffer, of `bytes` at least, which may have any contents. */
static char *room_of(struct room *room, size_t bytes)
{
	if (room->bytes < bytes) {
		free(room->at);
		room->at = malloc(bytes);
		room->bytes = bytes;
		if (!room->at)
			hdl_out_of_memory("a collective access to a file (cb_buffer_size)", bytes);
	}
	return room->at;
}

static void buffers_free(struct buffers *b)
{
	if (!b)
		return;
	for (int i = 0; i < 2; i++) {
		free(b->turn[i].out.at);
		free(b->turn[i].in.at);
		free(b->turn[i].answers.at);
		free(b->turn[i].answered.at);
	}
	free(b->window.at);
	free(b->map.at);
	free(b);
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

/* ---- the plan ------------------------------------------------------------------------------------------------------------- */

/* Returns the start of the data in memory, or NULL if they are not one run. */
static char *one_run_of(const struct hdl_access *a)
{
	void *buf = a->args.buf;

	return hdl_type_is_run(a->args.type, a->args.count) || hdl_type_find_run(a->args.type, a->args.count, &buf) ? buf : NULL;
}

static void plan_domains(struct collective *c, MPI_Offset first, MPI_Offset end)
{
	struct hdl_domains *d = &c->domains;

	hdl_domains_make(d, c->file, &c->cb, &c->a, first, end);
	c->turns = 1;
	/* The order of a read's exchanges depends on this, so all ranks have two turns where one has. */
	for (int r = 0; r < c->size && d->rounds > 1; r++)
		if (c->extent[r].overlaps)
			c->turns = 2;
	for (int i = 0; i < c->turns; i++) {
		c->turn[i].portion = hdl_collective_need((size_t)d->n, sizeof(*c->turn[i].portion));
		c->turn[i].in = hdl_collective_need((size_t)c->size, sizeof(*c->turn[i].in));
		c->turn[i].parts = hdl_collective_need((size_t)c->size, sizeof(*c->turn[i].parts));
	}
	c->out = hdl_collective_need((size_t)c->size, sizeof(*c->out));
	c->to = hdl_collective_need((size_t)c->size, sizeof(*c->to));
	c->from = hdl_collective_need((size_t)c->size, sizeof(*c->from));
	c->buffers = kept ? kept : hdl_collective_need(1, sizeof(*kept));
	kept = NULL;
	c->memory = one_run_of(&c->a);
	if (d->mine < 0)
		return;
	c->win = (struct hdl_window){ .fd = c->file->fd, .nparts = c->size,
				      .buffer = room_of(&c->buffers->window, (size_t)d->window) };
	if (c->a.args.write)
		c->win.map = (uint64_t *)room_of(&c->buffers->map, ((size_t)d->window + 63) / 64 * sizeof(uint64_t));
}

static void step_round(struct collective *c);
static void step_end(struct collective *c);

static void independent_run(struct hdl_io_job *job)
{
	hdl_access_run(&container_of(job, struct collective, job)->a);
}

static void collective_job_ended(struct hdl_io_job *job)
{
	container_of(job, struct collective, job)->job_runs = false;
}

/* Has `run` done: here, with the lock open, or by an I/O thread. Must: no job runs. */
static void run_io(struct collective *c, void (*run)(struct hdl_io_job *job))
{
	unsigned depth;

	c->job = (struct hdl_io_job){ .run = run, .ended = collective_job_ended };
	if (c->blocking && (c->turns < 2 || !c->mine_extent.overlaps)) {
		depth = hdl_lock_open();
		run(&c->job);
		hdl_lock_close(depth);
	} else {
		c->job_runs = true;
		hdl_pool_submit(&c->job);
	}
}

/* The step begins when no job runs. */
static void await_job(struct collective *c, void (*step)(struct collective *c))
{
	c->next = step;
	c->job_awaited = true;
}

/* All extents are known. */
static void step_plan(struct collective *c)
{
	MPI_Offset first = INT64_MAX, end = 0;
	MPI_Count bytes = 0;

	for (int r = 0; r < c->size && !c->error; r++) {
		const struct hdl_extent *e = &c->extent[r];

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
	await_job(c, step_end);
	if (c->error)
		return;
	if (c->a.atomic || hdl_extents_independent(c->extent, c->size, &c->cb, first, end, bytes)) {
		run_io(c, independent_run);
		return;
	}
	c->two_phase = true;
	plan_domains(c, first, end);
	c->job_awaited = false;
	c->next = step_round;
}

/* ---- rounds -------------------------------------------------------------------------------------------------------- */

static void step_send(struct collective *c);
static void step_window(struct collective *c);
static void step_run(struct collective *c);
static void step_answer(struct collective *c);
static void step_answered(struct collective *c);
static void step_sum(struct collective *c);
static void step_errors(struct collective *c);

static struct turn *turn_of(struct collective *c, MPI_Count round)
{
	return &c->turn[round % c->turns];
}

static void step_round(struct collective *c)
{
	struct turn *t = turn_of(c, c->round);

	if (c->error) {
		await_job(c, step_end);
		return;
	}
	if (c->round == c->domains.rounds) {
		await_job(c, c->answered < c->domains.rounds && !c->a.args.write ? step_answer : step_sum);
		return;
	}
	t->round = c->round;
	memset(c->out, 0, (size_t)c->size * sizeof(*c->out));
	for (int i = 0; i < c->domains.n; i++) {
		struct hdl_portion *p = &t->portion[i];
		struct lengths *out = &c->out[c->domains.rank[i]];

		hdl_portion_cut(p, &c->domains, &c->a, i, c->round);
		out->strips = p->n;
		out->bytes = p->bytes;
		if (p->n && p->n <= STRIPS_FIRST)
			memcpy(out->first, p->strips, (size_t)p->n * sizeof(*p->strips));
	}
	c->next = step_send;
	run_bytes(c, HDL_ALLTOALL, c->out, t->in, sizeof(*c->out));
}

/* Bytes of strips in a message. */
static size_t strips_bytes(int64_t strips)
{
	return strips > STRIPS_FIRST ? (size_t)strips * sizeof(struct hdl_strip) : 0;
}

/* Bytes of a message, a multiple of the alignment of its strips. */
static size_t message_bytes(const struct collective *c, int64_t strips, MPI_Count data)
{
	size_t n = strips_bytes(strips) + (c->a.args.write ? (size_t)data : 0);

	return (n + sizeof(int64_t) - 1) & ~(sizeof(int64_t) - 1);
}

/* Sets the message of a portion: the data in place, or strips and data packed at `room`. Returns the bytes of the room
 * in use. */
static size_t send_portion(struct collective *c, struct hdl_portion *p, int aggregator, char *room)
{
	size_t strips = strips_bytes(p->n), data = c->a.args.write ? (size_t)p->bytes : 0;
	bool itself = aggregator == c->domains.mine;
	MPI_Offset at = p->position - c->a.args.position;
	struct hdl_vcoll_block *to = &c->to[c->domains.rank[aggregator]];

	if (data && c->memory && (itself || !strips)) {
		p->data = c->memory + at;
		if (!itself) {
			to->buf = p->data;
			to->count = (MPI_Count)data;
		}
		return 0;
	}
	if (itself)
		strips = 0;
	if (strips)
		memcpy(room, p->strips, strips);
	if (data)
		hdl_pack(room + strips, c->a.args.buf, c->a.args.count, c->a.args.type, at, data);
	p->data = room + strips;
	if (!itself) {
		to->buf = room;
		to->count = (MPI_Count)(strips + data);
	}
	return message_bytes(c, itself ? 0 : p->n, p->bytes);
}

/* The lengths are known: strips go, and data to write. */
static void step_send(struct collective *c)
{
	struct turn *t = turn_of(c, c->round);
	int k = (int)(t - c->turn);
	size_t n = 0, each;
	char *at;

	c->next = step_window;
	if (c->error)
		return;
	clear_blocks(c);
	for (int i = 0; i < c->domains.n; i++)
		n += message_bytes(c, t->portion[i].n, t->portion[i].bytes);
	at = room_of(&c->buffers->turn[k].out, n);
	for (int i = 0; i < c->domains.n; i++)
		if (t->portion[i].n)
			at += send_portion(c, &t->portion[i], i, at);
	n = 0;
	for (int r = 0; r < c->size && c->domains.mine >= 0; r++)
		n += r == c->rank ? 0 : message_bytes(c, t->in[r].strips, t->in[r].bytes);
	at = room_of(&c->buffers->turn[k].in, n);
	for (int r = 0; r < c->size && c->domains.mine >= 0; r++) {
		const struct lengths *in = &t->in[r];
		struct hdl_portion *own = &t->portion[c->domains.mine];
		size_t strips = strips_bytes(in->strips);

		each = strips + (c->a.args.write ? (size_t)in->bytes : 0);
		if (r == c->rank) {
			t->parts[r] = (struct hdl_window_part){ .strips = own->strips, .n = own->n, .bytes = own->bytes,
								.data = own->data };
			continue;
		}
		t->parts[r] = (struct hdl_window_part){ .strips = strips ? (struct hdl_strip *)at : in->first, .n = in->strips,
							.bytes = in->bytes, .data = at + strips };
		if (each) {
			c->from[r].buf = at;
			c->from[r].count = (MPI_Count)each;
		}
		at += message_bytes(c, in->strips, in->bytes);
	}
	run_exchange(c);
}

/* ---- the aggregator's window ------------------------------------------------------------------------------------------- */

static void run_window(struct hdl_io_job *job)
{
	struct collective *c = container_of(job, struct collective, job);

	if (c->a.args.write)
		hdl_window_write(&c->win);
	else
		hdl_window_read(&c->win);
}

/* Bytes of an answer in a room of several. */
static size_t answer_bytes(MPI_Count data)
{
	return (sizeof(struct hdl_answer) + (size_t)data + sizeof(int64_t) - 1) & ~(sizeof(int64_t) - 1);
}

/* Gives the answers of a round their room. */
static void place_answers(struct collective *c, struct turn *t)
{
	size_t n = 0;
	char *at;

	for (int r = 0; r < c->size; r++)
		n += t->parts[r].n ? answer_bytes(t->parts[r].bytes) : 0;
	at = room_of(&c->buffers->turn[t - c->turn].answers, n);
	for (int r = 0; r < c->size; r++) {
		t->parts[r].answer = (struct hdl_answer *)at;
		at += t->parts[r].n ? answer_bytes(t->parts[r].bytes) : 0;
	}
}

/* Strips, and data to write, are here. The window of the round before may be under way. */
static void step_window(struct collective *c)
{
	await_job(c, step_run);
}

static void step_run(struct collective *c)
{
	struct turn *t = turn_of(c, c->round);

	if (c->domains.mine >= 0 && !c->error) {
		if (!c->a.args.write)
			place_answers(c, t);
		c->win.parts = t->parts;
		c->win.from = hdl_domains_window_at(&c->domains, c->domains.mine, c->round);
		c->win.bytes = (size_t)(hdl_domains_window_end(&c->domains, c->domains.mine, c->round) - c->win.from);
		run_io(c, run_window);
	}
	c->round++;
	if (c->error || (c->a.args.write && c->turns > 1))
		c->next = step_round;
	else if (c->a.args.write)
		await_job(c, step_round);
	else if (c->turns < 2)
		await_job(c, step_answer);
	else
		c->next = c->round > 1 ? step_answer : step_round;
}

/* ---- the answers ------------------------------------------------------------------------------------------------------- */

/* Returns the turn whose window has been read and whose data are sent next. With two turns: that of the round before the one
 * whose window is being read. */
static struct turn *answered_turn(struct collective *c)
{
	return turn_of(c, c->turns < 2 ? c->round - 1 : c->answered);
}

static void step_answer(struct collective *c)
{
	struct turn *t = answered_turn(c);
	struct room *room = &c->buffers->turn[t - c->turn].answered;
	size_t n = 0;
	char *at;

	c->next = step_answered;
	if (c->error)
		return;
	clear_blocks(c);
	for (int r = 0; r < c->size && c->domains.mine >= 0; r++)
		if (t->parts[r].n && r != c->rank) {
			c->to[r].buf = t->parts[r].answer;
			c->to[r].count = (MPI_Count)sizeof(struct hdl_answer) + t->parts[r].bytes;
		}
	for (int i = 0; i < c->domains.n; i++)
		n += t->portion[i].n ? answer_bytes(t->portion[i].bytes) : 0;
	at = room_of(room, n);
	for (int i = 0; i < c->domains.n; i++) {
		struct hdl_portion *p = &t->portion[i];

		p->answer = NULL;
		if (!p->n)
			continue;
		if (i == c->domains.mine) {
			p->answer = t->parts[c->rank].answer;
			continue;
		}
		p->answer = (struct hdl_answer *)at;
		c->from[c->domains.rank[i]].buf = at;
		c->from[c->domains.rank[i]].count = (MPI_Count)sizeof(struct hdl_answer) + p->bytes;
		at += answer_bytes(p->bytes);
	}
	run_exchange(c);
}

static void step_answered(struct collective *c)
{
	struct turn *t = answered_turn(c);

	for (int i = 0; i < c->domains.n && !c->error; i++) {
		struct hdl_portion *p = &t->portion[i];
		const struct hdl_answer *answer = p->answer;
		MPI_Offset end;

		if (!answer)
			continue;
		end = p->position + (answer->bytes > 0 ? answer->bytes : 0);
		if (answer->bytes > 0)
			hdl_unpack(c->a.args.buf, answer->data, c->a.args.count, c->a.args.type,
				   p->position - c->a.args.position, (size_t)answer->bytes);
		if (answer->bytes < p->bytes && end < c->short_at)
			c->short_at = end;
	}
	c->answered++;
	c->next = c->answered == c->domains.rounds ? step_sum : step_round;
}

/* ---- the end ------------------------------------------------------------------------------------------------------- */

/* Allreduce of the aggregators' errors: every rank returns the same class, and behind the last write. */
static void step_sum(struct collective *c)
{
	if (c->error) {
		c->next = step_end;
		return;
	}
	c->sum = c->win.err;
	c->total = 0;
	c->next = step_errors;
	run_collective(c, &(struct hdl_coll_args){ .coll = HDL_ALLREDUCE, .sendbuf = &c->sum, .recvbuf = &c->total,
						   .sendcount = 1, .recvcount = 1, .sendtype = hdl_type_get(MPI_INT32_T),
						   .recvtype = hdl_type_get(MPI_INT32_T), .op = MPI_MAX });
}

static void step_errors(struct collective *c)
{
	c->next = step_end;
	if (c->total && !c->error)
		fail(c, hdl_io_class(c->total, c->a.args.write ? "write" : "read", c->file->path));
}

static void collective_free(struct collective *c)
{
	for (int k = 0; k < c->turns; k++) {
		for (int i = 0; c->turn[k].portion && i < c->domains.n; i++)
			free(c->turn[k].portion[i].strips);
		free(c->turn[k].portion);
		free(c->turn[k].in);
		free(c->turn[k].parts);
	}
	if (kept)
		buffers_free(c->buffers);
	else
		kept = c->buffers;
	free(c->extent);
	hdl_domains_free(&c->domains);
	free(c->out);
	free(c->to);
	free(c->from);
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

static bool job_is_over(const void *arg)
{
	return !((const struct collective *)arg)->job_runs;
}

/* Runs steps until one has to wait. */
static void advance(struct collective *c)
{
	while (!c->done) {
		if (c->job_runs && c->job_awaited) {
			if (!c->blocking)
				return;
			hdl_wait_until(job_is_over, c);
		}
		c->job_awaited = false;
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

/* Returns true if an I/O thread is to write or read this rank's windows in the exchanges of the next ones. On a local file system
 * a window costs CPU time, so there must be a CPU for the thread, which may use those of this rank. */
static bool wants_overlap(const struct collective *c)
{
	cpu_set_t cpus;

	if (c->overlap != HDL_CB_AUTOMATIC)
		return c->overlap == HDL_CB_ALWAYS;
	return c->file->fs != HDL_FS_LOCAL ||
	       (hdl_job.ncores > hdl_job.local_size && !sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) > 1);
}

static void step_begin(struct collective *c)
{
	if (c->size == 1 && c->cb.buffering != HDL_CB_ALWAYS) {
		await_job(c, step_end);
		if (!c->error)
			run_io(c, independent_run);
		return;
	}
	c->mine_extent = hdl_extent_of(c->file, &c->a, c->error, wants_overlap(c));
	c->extent = hdl_collective_need((size_t)c->size, sizeof(*c->extent));
	c->next = step_plan;
	run_bytes(c, HDL_ALLGATHER, &c->mine_extent, c->extent, sizeof(*c->extent));
}

static struct collective *collective_make(struct hdl_file *f, const struct hdl_access_args *args, int error, bool blocking)
{
	const struct hdl_access_args none = { .write = args->write, .type = hdl_type_get(MPI_BYTE) };
	struct collective *c = hdl_collective_need(1, sizeof(*c));

	*c = (struct collective){ .file = f, .cb = f->hints.cb, .overlap = f->hints.overlap, .blocking = blocking,
				  .size = f->comm->size, .rank = f->comm->rank, .domains.mine = -1,
				  .short_at = INT64_MAX, .next = step_begin };
	fail(c, error);
	fail(c, hdl_access_begin(&c->a, f, error ? &none : args));
	return c;
}

/* Returns true if no nonblocking access of the file ahead of `end` is under way. The collectives of two accesses use one
 * communicator, on which all ranks must start them in one order; so an access waits for the one before. */
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
	buffers_free(kept);
	kept = NULL;
}
