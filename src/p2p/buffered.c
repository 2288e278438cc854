/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffered sends (MPI-5.0 section 3.6). An attached buffer holds the messages that are not sent yet, in the order of their
 * addresses, each behind a struct segment. The order of allocation is that of the standard's model: a new message goes behind the
 * newest one, or else to the buffer's start. Programs compute their buffer sizes from the model, and any other order may split
 * space that the model leaves in one piece. Where the model has no space, a message takes the first gap that fits. struct segment
 * and the alignment together take less than MPI_BSEND_OVERHEAD. With MPI_BUFFER_AUTOMATIC, messages lie in pooled memory.
 */
#include "p2p/request.h"

#include <stdlib.h>

#define ALIGN	16

struct segment {
	struct segment *next;
	struct hdl_bsend_space *space;
	size_t bytes;			/* of struct segment and data, rounded up to ALIGN */
	uint64_t number;		/* sequence number of the send in this buffer */
	char data[] __attribute__((aligned(ALIGN)));
};
_Static_assert(sizeof(struct segment) + 2 * ALIGN <= MPI_BSEND_OVERHEAD, "the user has counted with it");

/* A request of MPI_Buffer_iflush and the like: done when all messages up to a number are sent. */
struct flush {
	struct flush *next;
	uint64_t upto;
	size_t npending;			/* messages up to that number that are not sent yet */
	struct hdl_req *req;
};

struct hdl_bsend_space {
	bool attached, automatic;
	char *buffer;			/* as the program attached it */
	size_t size;
	struct segment *first;
	uintptr_t tail;			/* the end of the newest message, where the next one goes */
	struct flush *flushes;
	uint64_t number;
};

struct hdl_bsend_space *hdl_bsend_process;

bool hdl_bsend_is_attached(const struct hdl_bsend_space *space, size_t *bytes)
{
	*bytes = space->size;
	return space->attached;
}

int hdl_bsend_attach(struct hdl_bsend_space **space, void *buffer, size_t size)
{
	struct hdl_bsend_space *s = *space;

	if (!s)
		*space = s = calloc(1, sizeof(*s));
	if (!s) {
		hdl_reason_set("out of memory");
		return MPI_ERR_NO_MEM;
	}
	if (s->attached) {
		hdl_reason_set("a buffer of %zu bytes is attached already: detach it first", s->size);
		return MPI_ERR_BUFFER;
	}
	s->attached = true;
	s->automatic = buffer == MPI_BUFFER_AUTOMATIC;
	s->buffer = buffer;
	s->size = s->automatic ? 0 : size;
	return MPI_SUCCESS;
}

static bool is_empty(const void *arg)
{
	return !((const struct hdl_bsend_space *)arg)->first;
}

void hdl_bsend_flush(struct hdl_bsend_space *space)
{
	if (space && space->first)
		hdl_wait_until(is_empty, space);
}

void hdl_bsend_detach(struct hdl_bsend_space **space, void **buffer, size_t *size)
{
	struct hdl_bsend_space *s = *space;

	*buffer = NULL;
	*size = 0;
	if (!s || !s->attached)
		return;
	s->attached = false;		/* so that sends of other threads fail from here on */
	hdl_bsend_flush(s);
	*buffer = s->buffer;
	*size = s->size;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

/* Returns the bytes from `at` to the next segment, or to the buffer's end. */
static size_t gap_at(const struct hdl_bsend_space *s, uintptr_t at, const struct segment *next)
{
	uintptr_t end = next ? (uintptr_t)next : (uintptr_t)s->buffer + s->size;

	return end > at ? end - at : 0;
}

/* *largest: the largest gap, for the explanation of an error. */
static struct segment *buffered_take(struct hdl_bsend_space *s, size_t bytes, size_t *largest)
{
	uintptr_t start = ((uintptr_t)s->buffer + ALIGN - 1) & -(uintptr_t)ALIGN, at = s->first ? s->tail : start;
	struct segment **link = &s->first, *seg;
	size_t gap;

	while (*link && (uintptr_t)*link < at)
		link = &(*link)->next;
	*largest = 0;
	if (gap_at(s, at, *link) < bytes) {
		for (link = &s->first, at = start; (gap = gap_at(s, at, *link)) < bytes; link = &(*link)->next) {
			if (gap > *largest)
				*largest = gap;
			if (!*link)
				return NULL;
			at = (uintptr_t)*link + (*link)->bytes;
		}
	}
	seg = (struct segment *)at;
	seg->next = *link;
	*link = seg;
	s->tail = at + bytes;
	return seg;
}

static struct segment *take_pooled(struct hdl_bsend_space *s, size_t bytes)
{
	struct segment *seg = hdl_buf_get(bytes);

	if (seg) {
		seg->next = s->first;
		s->first = seg;
	}
	return seg;
}

static void buffered_give(struct segment *seg)
{
	struct hdl_bsend_space *s = seg->space;
	struct segment **link = &s->first;
	uint64_t number = seg->number;

	while (*link != seg)
		link = &(*link)->next;
	*link = seg->next;
	if (s->automatic)
		hdl_buf_put(seg);
	for (struct flush **f = &s->flushes, *done; (done = *f);) {
		if (number > done->upto || --done->npending) {
			f = &done->next;
			continue;
		}
		*f = done->next;
		hdl_req_complete(done->req, MPI_SUCCESS);
		free(done);
	}
}

static void buffered_sent(struct hdl_req *req)
{
	struct segment *seg = req->notify_arg;

	if (req->error)
		hdl_req_orphan_failed(req);
	buffered_give(seg);
	hdl_req_free(req);	/* may drop the last reference to the communicator, which has the buffer */
}

static int buffered_no_space(const struct hdl_bsend_space *s, size_t bytes, size_t largest)
{
	if (!s || !s->attached)
		hdl_reason_set("no buffer is attached, and %zu bytes are to be buffered: attach one with MPI_Buffer_attach, "
			       "MPI_Comm_attach_buffer or MPI_Session_attach_buffer (MPI_BUFFER_AUTOMATIC grows as needed)",
			       bytes);
	else if (s->automatic)
		hdl_reason_set("out of memory: %zu bytes for a buffered message", bytes);
	else
		hdl_reason_set("the attached buffer of %zu bytes has no room for a message of %zu bytes: the largest gap has %zu "
			       "bytes; a message takes its packed size and up to MPI_BSEND_OVERHEAD (%d) bytes", s->size, bytes,
			       largest, MPI_BSEND_OVERHEAD);
	return s && s->attached && s->automatic ? MPI_ERR_NO_MEM : MPI_ERR_BUFFER;
}

static struct segment *segment_for(struct hdl_bsend_space *s, size_t bytes, size_t *largest)
{
	size_t need = (sizeof(struct segment) + bytes + ALIGN - 1) & -(size_t)ALIGN;
	struct segment *seg;

	*largest = 0;
	if (!s || !s->attached || need < bytes)
		return NULL;
	if (s->automatic) {
		seg = take_pooled(s, need);
	} else {
		if (s->first)
			hdl_progress();	/* the standard's model also removes sent messages before each search for space */
		do
			seg = buffered_take(s, need, largest);
		while (!seg && need <= s->size && hdl_progress());
	}
	if (!seg)
		return NULL;
	seg->space = s;
	seg->bytes = need;
	seg->number = ++s->number;
	return seg;
}

/* Section 3.6: the communicator's buffer, else its session's, else the process's. */
static struct hdl_bsend_space *bsend_space(const struct hdl_comm *comm)
{
	if (comm->bsend && comm->bsend->attached)
		return comm->bsend;
	if (comm->session && comm->session->bsend && comm->session->bsend->attached)
		return comm->session->bsend;
	return hdl_bsend_process;
}

int hdl_bsend(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm)
{
	struct hdl_bsend_space *s = bsend_space(comm);
	struct segment *seg;
	struct hdl_req *req;
	size_t bytes, largest;
	int rc;

	if (dest == MPI_PROC_NULL)
		return MPI_SUCCESS;
	if (__builtin_mul_overflow((size_t)count, (size_t)t->size, &bytes)) {
		hdl_reason_set("%lld elements of %lld bytes do not fit the address space", (long long)count, (long long)t->size);
		return MPI_ERR_COUNT;
	}
	seg = segment_for(s, bytes, &largest);
	if (!seg)
		return buffered_no_space(s, bytes, largest);
	hdl_pack(seg->data, buf, count, t, 0, bytes);
	rc = hdl_isend(seg->data, (MPI_Count)bytes, hdl_type_get(MPI_BYTE), dest, tag, comm, comm->context, false, &req);
	if (rc) {
		buffered_give(seg);
		return rc;
	}
	hdl_req_follow(req, buffered_sent, seg);
	return MPI_SUCCESS;
}

int hdl_bsend_iflush(struct hdl_bsend_space *space, struct hdl_comm *comm, struct hdl_req **req)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_NONE);
	struct flush *f = NULL;

	*req = NULL;
	if (op && space && space->first)
		f = calloc(1, sizeof(*f));
	if (!op || (space && space->first && !f)) {
		if (op) {
			op->req.done = 1;
			hdl_req_free(&op->req);
		}
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	hdl_status_empty(&op->req.status, MPI_ANY_SOURCE);
	*req = &op->req;
	if (!f) {
		op->req.done = 1;
		return MPI_SUCCESS;
	}
	f->upto = space->number;
	f->req = &op->req;
	for (struct segment *seg = space->first; seg; seg = seg->next)
		f->npending++;
	f->next = space->flushes;
	space->flushes = f;
	return MPI_SUCCESS;
}

void hdl_bsend_fini(void)
{
	free(hdl_bsend_process);
	hdl_bsend_process = NULL;
}
