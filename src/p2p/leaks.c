/* SPDX-License-Identifier: BSD-3-Clause */
/* HEDDLE_REPORT_LEAKS: requests, matched messages and buffers that the program did not free, and messages that were never
 * received. */
#include "p2p/match.h"

static const char *leaks_number(char buf[static 16], int value, int any, const char *name)
{
	if (value == any)
		return name;
	snprintf(buf, 16, "%d", value);
	return buf;
}

/* Writes "receive from rank 1, tag 7, 8 bytes, MPI_COMM_WORLD" and the like. */
static void leaks_describe(const struct hdl_op *op, char *text, size_t size)
{
	static const char *const send[] = { "send", "synchronous send", "buffered send", "ready send" };
	const struct hdl_persistent *p = op->kind == HDL_REQ_PERSISTENT ? &op->persistent : NULL;
	bool sends = p ? hdl_persistent_sends(op) : op->kind == HDL_REQ_SEND;
	char label[MPI_MAX_OBJECT_NAME], rank[16], tag[16];

	hdl_comm_label(op->req.comm, label);
	if (p && p->begin)
		snprintf(text, size, "a collective of %.64s", label);
	else if (op->kind == HDL_REQ_OTHER)
		snprintf(text, size, "a nonblocking collective of %.64s", label);
	else if (op->kind == HDL_REQ_GENERALIZED)
		snprintf(text, size, "MPI_Grequest_start");
	else if (op->kind == HDL_REQ_PAIR)
		snprintf(text, size, "MPI_Isendrecv");
	else if (op->kind == HDL_REQ_ACCESS)
		snprintf(text, size, "an access to %.64s", label);
	else if (op->kind == HDL_REQ_NONE)
		snprintf(text, size, "an operation with MPI_PROC_NULL");
	else
		snprintf(text, size, "%s rank %s, tag %s, %.64s", sends ? "" : "receive from",
			 leaks_number(rank, op->peer, MPI_ANY_SOURCE, "any"), leaks_number(tag, op->tag, MPI_ANY_TAG, "any"),
			 label);
	if (sends)
		snprintf(text, size, "%s to rank %s, tag %d, %.64s",
			 send[p        ? (int)p->mode :
			      op->sync ? HDL_SYNCHRONOUS :
					 HDL_STANDARD],
			 leaks_number(rank, op->peer, MPI_ANY_SOURCE, "any"), op->tag, label);
}

static void leaked_op(void *object, void *arg)
{
	const struct hdl_op *op = object;
	char text[128];

	(void)arg;
	if (op->req.obj.magic == HDL_MAGIC_MESSAGE) {
		hdl_comm_label(op->req.comm, text);
		hdl_leak("messages matched by MPI_Mprobe or MPI_Improbe and not received",
			 "from rank %d, tag %d, %zu bytes, %.64s", op->peer, op->tag, op->message->len, text);
		return;
	}
	/* parts of other requests, and of collectives; only sends and receives have a context */
	if (op->req.notify || ((op->kind == HDL_REQ_SEND || op->kind == HDL_REQ_RECV) && op->context & 1))
		return;
	if (op->req.obj.magic != HDL_MAGIC_REQ && !op->posted)
		return;
	leaks_describe(op, text, sizeof(text));
	if (op->kind == HDL_REQ_PERSISTENT)
		hdl_leak(op->req.inactive ? "persistent requests, inactive, not freed" :
					    "persistent requests, started, not completed",
			 "%s", text);
	else if (op->posted)
		hdl_leak("receives that no message matched", "%s%s", text,
			 op->req.obj.magic == HDL_MAGIC_REQ ? "" : ", freed by MPI_Request_free");
	else
		hdl_leak(op->req.done ? "requests not completed by a wait or test, though they are done" :
					"requests not completed",
			 "%s", text);
}

static void leaked_buffer(const struct hdl_bsend_space *space, const char *of)
{
	size_t bytes;

	if (!space || !hdl_bsend_is_attached(space, &bytes))
		return;
	if (bytes)
		hdl_leak("buffers for MPI_Bsend not detached", "%zu bytes of %s", bytes, of);
	else
		hdl_leak("buffers for MPI_Bsend not detached", "MPI_BUFFER_AUTOMATIC of %s", of);
}

static void leaked_buffer_of(struct hdl_comm *comm)
{
	char label[MPI_MAX_OBJECT_NAME];

	leaked_buffer(comm->bsend, hdl_comm_label(comm, label));
}

void hdl_p2p_leaks(void)
{
	hdl_pool_each(&hdl_reqs, leaked_op, NULL);
	leaked_buffer(hdl_bsend_process, "the process");
	hdl_comm_each(leaked_buffer_of);
}

struct labelled {
	uint16_t context;
	const struct hdl_comm *comm;
};

static struct labelled wanted;

static void is_of_context(struct hdl_comm *comm)
{
	if (comm->context == wanted.context && !comm->part)
		wanted.comm = comm;
}

void hdl_leaked_message(const struct hdl_unexpected *u, void *arg)
{
	char label[MPI_MAX_OBJECT_NAME] = "a communicator that was freed";
	char member[16];
	const char *from = hdl_proc_text(u->src);
	int rank = MPI_UNDEFINED;

	(void)arg;
	if (u->context & 1 || u->context == HDL_CONTEXT_CANCEL)
		return;
	wanted = (struct labelled){ .context = u->context };
	hdl_comm_each(is_of_context);
	if (wanted.comm) {
		hdl_comm_label(wanted.comm, label);
		rank = hdl_comm_rank_of((struct hdl_comm *)wanted.comm, u->src);
	}
	if (rank != MPI_UNDEFINED) {
		snprintf(member, sizeof(member), "rank %d", rank);
		from = member;
	}
	hdl_leak("messages that were never received", "from %s, tag %d, %zu bytes, %.64s", from, u->tag, u->len, label);
}
