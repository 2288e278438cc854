/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An access of one process: data in memory to or from the data of a view. Runs in any thread without the library's lock.
 *
 *     memory                      staging buffer              file
 *     one run      ───────────────────────────────────────▶  pwrite for each run of the file (runs that touch are one)
 *     with holes   ── pack ──▶ up to STAGING bytes  ───────▶  the same
 *
 * Reads of near runs are sieved: one pread of all from the first to the last, then copies. Writes are never sieved: a
 * read-modify-write would undo another process's writes into the holes meanwhile.
 */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAGING		((size_t)1 << 20)
/* Bytes of the file from one run to the next, on average, up to which one read of all costs less than a call for each run. */
#define NEAR_LOCAL	((MPI_Count)3 << 10)
#define NEAR_REMOTE	((MPI_Count)64 << 10)
/* Bytes of the file in a batch of a write, and most bytes in a batch of a read from a local file system: they stay in the
 * cache. */
#define BATCH_BYTES	((MPI_Count)1 << 20)
#define SIEVE_LOCAL	((MPI_Count)256 << 10)

/* ---- memory ------------------------------------------------------------------------------------------------------------ */

struct memory {
	char *run;			/* the next byte, of memory without holes; else NULL */
	char *staging;			/* with holes */
	struct hdl_stream *stream;
};

static int memory_open(struct memory *m, const struct hdl_access *a)
{
	void *buf = a->args.buf;

	*m = (struct memory){ .run = buf };
	if (hdl_type_is_run(a->args.type, a->args.count))
		return 0;
	if (hdl_type_find_run(a->args.type, a->args.count, &buf)) {
		m->run = buf;
		return 0;
	}
	m->run = NULL;
	m->staging = malloc(a->bytes < (MPI_Count)STAGING ? (size_t)a->bytes : STAGING);
	m->stream = malloc(hdl_stream_bytes(a->args.type));
	if (!m->staging || !m->stream)
		return ENOMEM;
	hdl_stream_open(m->stream, a->args.buf, a->args.count, a->args.type, 0);
	return 0;
}

static void memory_close(struct memory *m)
{
	free(m->staging);
	free(m->stream);
}

/* Returns how many bytes, at most `most`, stand at *data: the next ones to write. */
static MPI_Count memory_take(struct memory *m, MPI_Count most, char **data)
{
	if (!m->run) {
		*data = m->staging;
		return (MPI_Count)hdl_stream_pack(m->stream, m->staging, most < (MPI_Count)STAGING ? (size_t)most : STAGING);
	}
	*data = m->run;
	m->run += most;
	return most;
}

static void memory_put(struct memory *m, const char *data, MPI_Count n)
{
	if (!m->run) {
		hdl_stream_unpack(m->stream, data, (size_t)n);
	} else {
		memcpy(m->run, data, (size_t)n);
		m->run += n;
	}
}

/* ---- batches ----------------------------------------------------------------------------------------------------------- */

/* Returns NULL without memory. */
static struct hdl_batch *batch_new(MPI_Count most)
{
	struct hdl_batch *b = malloc(sizeof(*b));

	if (!b)
		return NULL;
	b->most = most;
	b->next_len = 0;
	b->buffer = NULL;
	return b;
}

static void batch_free(struct hdl_batch *b)
{
	free(b->buffer);
	free(b);
}

/* The next runs, `left` bytes at most. Runs of the file that touch are one. */
static void batch_next(struct hdl_batch *b, struct hdl_view_runs *runs, MPI_Count left)
{
	b->n = 0;
	b->bytes = 0;
	b->end = 0;
	b->ascends = true;
	while (b->bytes < left) {
		if (!b->next_len && !(b->next_len = hdl_view_runs_next(runs, left - b->bytes, &b->next_at)))
			return;
		if (b->n && (b->next_at < b->at[0] || b->next_at + b->next_len > b->at[0] + b->most))
			return;
		if (b->n && b->next_at == b->at[b->n - 1] + b->len[b->n - 1]) {
			b->len[b->n - 1] += b->next_len;
		} else {
			if (b->n == HDL_BATCH_RUNS)
				return;
			b->ascends &= b->next_at >= b->end;
			b->at[b->n] = b->next_at;
			b->len[b->n++] = b->next_len;
		}
		b->bytes += b->next_len;
		if (b->next_at + b->next_len > b->end)
			b->end = b->next_at + b->next_len;
		b->next_len = 0;
	}
}

/* ---- writing ----------------------------------------------------------------------------------------------------------- */

/* Writes the runs of a batch but the first `skip` bytes. */
static int write_runs(struct hdl_access *a, const struct hdl_batch *b, const char *data, MPI_Count skip)
{
	MPI_Count part;
	int err = 0;

	for (int i = 0; i < b->n && !err; i++, data += b->len[i - 1]) {
		part = skip < b->len[i] ? skip : b->len[i];
		err = hdl_write_run(a->file->fd, data + part, b->len[i] - part, b->at[i] + part, &a->moved);
		skip -= part;
	}
	return err;
}

/* Writes n bytes at `data` to the next runs. */
static int write_part(struct hdl_access *a, struct hdl_view_runs *runs, struct hdl_batch *b, const char *data, MPI_Count n)
{
	int err = 0;

	for (MPI_Count done; n && !err; n -= b->bytes, data += b->bytes) {
		batch_next(b, runs, n);
		if (!b->n)
			return EFBIG;	/* the view ends at the largest offset */
		done = hdl_scatter_pays(a, b) ? hdl_scatter(a, b, data) : 0;
		a->moved += done;
		if (done < b->bytes)
			err = write_runs(a, b, data, done);
	}
	return err;
}

static int access_write(struct hdl_access *a, struct memory *m, struct hdl_view_runs *runs)
{
	MPI_Offset at = a->view->contiguous ? hdl_view_offset(a->view, a->args.position) : 0;
	struct hdl_batch *b = NULL;
	char *data;
	int err = 0;

	if (!a->view->contiguous && !(b = batch_new(BATCH_BYTES)))
		return ENOMEM;
	for (MPI_Count left = a->bytes, n; left && !err; left -= n, at += n) {
		n = memory_take(m, left, &data);
		err = b ? write_part(a, runs, b, data, n) : hdl_write_run(a->file->fd, data, n, at, &a->moved);
	}
	if (b)
		batch_free(b);
	return err;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

/* Reads one run. *end: the end of the file came first. */
static int read_one(struct hdl_access *a, struct memory *m, MPI_Offset at, MPI_Count n, bool *end)
{
	MPI_Count got, part;
	int err;

	for (; n && !*end; n -= part) {
		part = m->run || n < (MPI_Count)STAGING ? n : (MPI_Count)STAGING;
		err = hdl_read_run(a->file->fd, m->run ? m->run : m->staging, part, at, &got);
		if (err)
			return err;
		if (m->run)
			m->run += got;
		else
			memory_put(m, m->staging, got);
		at += got;
		a->moved += got;
		*end = got < part;
	}
	return 0;
}

/* Returns true if one read of the whole piece costs less than one of each run. */
static bool batch_is_near(const struct hdl_access *a, const struct hdl_batch *b)
{
	MPI_Count near = a->file->fs == HDL_FS_LOCAL ? NEAR_LOCAL : NEAR_REMOTE;

	return b->n > 1 && b->end - b->at[0] <= b->most && (b->end - b->at[0]) / b->n < near;
}

static int read_sieved(struct hdl_access *a, struct memory *m, struct hdl_batch *b, bool *end)
{
	MPI_Count got, here;
	int err;

	if (!b->buffer && !(b->buffer = malloc((size_t)b->most)))
		return ENOMEM;
	err = hdl_read_run(a->file->fd, b->buffer, b->end - b->at[0], b->at[0], &got);
	for (int i = 0; i < b->n && !err && !*end; i++) {
		here = b->at[0] + got - b->at[i];
		here = here < 0 ? 0 : here < b->len[i] ? here : b->len[i];
		memory_put(m, b->buffer + (b->at[i] - b->at[0]), here);
		a->moved += here;
		*end = here < b->len[i];
	}
	return err;
}

static int access_read(struct hdl_access *a, struct memory *m, struct hdl_view_runs *runs)
{
	struct hdl_batch *b;
	bool end = false;
	int err = 0;

	if (a->view->contiguous)
		return read_one(a, m, hdl_view_offset(a->view, a->args.position), a->bytes, &end);
	b = batch_new(a->file->fs == HDL_FS_LOCAL && a->sieve > SIEVE_LOCAL ? SIEVE_LOCAL : a->sieve);
	if (!b)
		return ENOMEM;
	for (MPI_Count left = a->bytes; left && !err && !end; left -= b->bytes) {
		batch_next(b, runs, left);
		if (!b->n)
			break;
		if (batch_is_near(a, b))
			err = read_sieved(a, m, b, &end);
		else
			for (int i = 0; i < b->n && !err && !end; i++)
				err = read_one(a, m, b->at[i], b->len[i], &end);
	}
	batch_free(b);
	return err;
}

/* ---- atomic mode --------------------------------------------------------------------------------------------------------- */

/* Locks or unlocks [first, end) of the file for all processes. Returns an errno. */
static int range_lock(const struct hdl_access *a, short type, MPI_Offset first, MPI_Offset end)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = end - first };

	struct hdl_syscall *s = type == F_UNLCK ? NULL : hdl_io_blocks_lock(a->file->fd, type, first, end - first);
	int err;

	do
		err = fcntl(a->file->fd, F_OFD_SETLKW, &l) ? errno : 0;
	while (err == EINTR);
	hdl_syscall_end(s);
	return err;
}

/* The range that an access in atomic mode has locked. */
struct range {
	bool locked;
	MPI_Offset first, end;
};

static int atomic_begin(struct hdl_access *a, struct range *r)
{
	int err;

	/* threads of this process share the descriptor, and its locks do not exclude them */
	pthread_mutex_lock(&a->file->atomic_lock);
	hdl_view_hull(a->view, a->args.position, a->bytes, &r->first, &r->end);
	err = range_lock(a, a->args.write ? F_WRLCK : F_RDLCK, r->first, r->end);
	r->locked = !err;
	return err;
}

static void atomic_end(struct hdl_access *a, const struct range *r)
{
	if (r->locked)
		range_lock(a, F_UNLCK, r->first, r->end);
	pthread_mutex_unlock(&a->file->atomic_lock);
}

/* ---- the access ---------------------------------------------------------------------------------------------------------- */

void hdl_access_run(struct hdl_access *a)
{
	struct hdl_view_runs *runs = NULL;
	struct memory m = { 0 };
	struct range range = { 0 };

	a->moved = 0;
	a->err = 0;
	if (!a->bytes)
		return;
	a->err = a->atomic ? atomic_begin(a, &range) : 0;
	if (!a->err)
		a->err = memory_open(&m, a);
	if (!a->err && !a->view->contiguous && !(runs = hdl_view_runs_open(a->view, a->args.position)))
		a->err = ENOMEM;
	if (!a->err)
		a->err = a->args.write ? access_write(a, &m, runs) : access_read(a, &m, runs);
	free(runs);
	memory_close(&m);
	if (a->atomic)
		atomic_end(a, &range);
}

/* Replaces memory by a buffer in the file's representation, and for a write converts. */
static int begin_conversion(struct hdl_access *a)
{
	const struct hdl_datarep *rep = a->view->rep;
	int rc = hdl_datarep_size(rep, a->args.type, a->args.count, &a->bytes);

	if (rc || !a->bytes)
		return rc;
	a->packed = malloc((size_t)a->bytes);
	if (!a->packed) {
		hdl_reason_set("out of memory for %lld bytes in the representation %s", (long long)a->bytes, rep->name);
		return MPI_ERR_NO_MEM;
	}
	a->memory = a->args;
	if (a->args.write)
		rc = hdl_datarep_pack(rep, a->packed, a->args.buf, a->args.count, a->args.type);
	a->args.buf = a->packed;
	a->args.count = a->bytes;
	a->args.type = hdl_type_get(MPI_BYTE);
	return rc;
}

/* Gives memory back its place, and for a read converts. */
static int end_conversion(struct hdl_access *a)
{
	const struct hdl_datarep *rep = a->view->rep;
	MPI_Count moved = a->moved;
	int rc = MPI_SUCCESS;

	a->args = a->memory;
	if (a->args.write)
		a->moved = moved && moved == a->bytes ? a->args.count * a->args.type->size :
							moved / a->view->esize * a->view->etype->size;
	else
		rc = hdl_datarep_unpack(rep, a->args.buf, a->packed, moved, a->args.count, a->args.type, &a->moved);
	free(a->packed);
	return rc;
}

/* Leaves nothing to run, and nothing for hdl_access_end to convert: the reason that is set stays. */
static void access_refuse(struct hdl_access *a)
{
	if (a->packed)
		a->args = a->memory;
	free(a->packed);
	a->packed = NULL;
	a->bytes = 0;
}

int hdl_access_begin(struct hdl_access *a, struct hdl_file *f, const struct hdl_access_args *args)
{
	int rc = MPI_SUCCESS;

	*a = (struct hdl_access){ .args = *args, .file = f, .view = hdl_view_retain(f->view), .atomic = f->atomic,
				  .sieve = f->hints.ind_rd_buffer_size, .bytes = args->count * args->type->size };
	hdl_type_retain(args->type);
	f->active++;
	if (a->bytes && !f->view->tile->size) {
		hdl_reason_set("the view of %s has no data: its filetype is empty", f->name);
		rc = MPI_ERR_ARG;
	} else if (a->bytes && !hdl_view_has(f->view, args->position, hdl_view_bytes(f->view, a->bytes))) {
		hdl_reason_set("the access to %s leads beyond the largest offset of a file", f->name);
		rc = MPI_ERR_ARG;
	} else if (a->bytes && f->view->rep) {
		rc = begin_conversion(a);
	}
	if (rc)
		access_refuse(a);
	return rc;
}

int hdl_access_end(struct hdl_access *a)
{
	struct hdl_file *f = a->file;
	int rc = a->packed ? end_conversion(a) : MPI_SUCCESS;

	f->active--;
	hdl_type_release(a->args.type);
	hdl_view_release(a->view);
	return a->err ? hdl_io_class(a->err, a->args.write ? "write" : "read", f->path) : rc;
}

int hdl_file_access(struct hdl_file *f, const struct hdl_access_args *args, MPI_Count *moved)
{
	struct hdl_access a;
	unsigned depth;
	int rc = hdl_access_begin(&a, f, args), end;

	if (!rc) {
		hdl_io_call = hdl_call;
		depth = hdl_lock_open();
		hdl_access_run(&a);
		hdl_lock_close(depth);
		hdl_io_call = NULL;
	}
	end = hdl_access_end(&a);
	*moved = a.moved;
	return rc ? rc : end;
}

static void job_run(struct hdl_io_job *job)
{
	hdl_access_run(container_of(job, struct hdl_access, job));
}

static void job_ended(struct hdl_io_job *job)
{
	struct hdl_access *a = container_of(job, struct hdl_access, job);
	struct hdl_req *req = a->req;
	int rc;

	rc = hdl_access_end(a);
	hdl_status_set_bytes(&req->status, a->moved, false);
	if (rc)
		hdl_req_reason(req, hdl_reason_take());
	free(a);
	hdl_req_complete(req, rc);
}

int hdl_file_iaccess(struct hdl_file *f, const struct hdl_access_args *args, struct hdl_req **req)
{
	struct hdl_access *a = malloc(sizeof(*a));
	int rc;

	*req = a ? hdl_req_new_access(f->comm) : NULL;
	if (!*req) {
		free(a);
		hdl_reason_set("out of memory for an access to %s", f->name);
		return MPI_ERR_NO_MEM;
	}
	rc = hdl_access_begin(a, f, args);
	if (rc) {
		hdl_access_end(a);
		free(a);
		(*req)->done = 1;
		hdl_req_free(*req);
		*req = NULL;
		return rc;
	}
	a->req = *req;
	a->job = (struct hdl_io_job){ .run = job_run, .ended = job_ended };
	if (a->bytes)
		hdl_pool_submit(&a->job);
	else
		job_ended(&a->job);
	return MPI_SUCCESS;
}

static bool is_quiet(const void *arg)
{
	return !((const struct hdl_file *)arg)->active;
}

void hdl_file_quiet(struct hdl_file *f)
{
	hdl_wait_until(is_quiet, f);
}
