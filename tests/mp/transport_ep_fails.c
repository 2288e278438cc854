/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An endpoint that fails ends all of its operations, each once, and after the end of an operation nothing is written into the
 * operation's buffer. The peer lives, and makes no progress. Argument:
 *     writes   rank 1 writes a large message into rank 0's buffer without progress; rank 0 fails the endpoint in the middle, and
 *              the buffer is the user's again: no byte may land there any more
 *     owns     rank 0 has waiting sends, announced sends and receives by every way, some of memory that is not one run, when rank
 *              0 fails the endpoint of rank 1
 *     shared   ranks 1 and 2 share rank 0's only queue (DC, XRC), and rank 1 is killed: rank 0's messages for rank 2 arrive once
 *              and in order, before, behind and among those that cannot reach rank 1
 *     stopped  rank 0's queue to rank 1 breaks while rank 1 is stopped: the messages before and behind the break arrive when
 *              rank 1 goes on, once and in order (RC)
 *     dies     the same, but rank 1 is killed: the endpoint fails, and the error names queue and status
 *     paused   rank 0 is stopped time and again while its queue is stopped and begins anew: the flush that the device reports
 *              counts, not the clock
 *     twice    the device refuses a request to rank 1, which lives, and the new queue refuses the request,
 *              too: the endpoint fails
 *     thrice   the same, but the first failure is a flush: a flush is no refusal, and does not count
 *     refused  the device refuses single datagrams to rank 1, also some at a time and again seconds later: only these are lost;
 *              in a row: the endpoint of rank 1 fails (UD)
 *     offers   rank 1 offers its ring while rank 0's queue is broken, and rank 0 refuses the ring: that ring counts as offered
 *              (HEDDLE_RING_SIZE=0: there are no other rings)
 *     settles  the peer's report of what it has received decides which requests of a queue are posted again; a device that
 *              reports exactly what it has carried out needs no such report (one rank, no queue)
 *     grows    a pool of buffers for which there was no memory once grows later (one rank, SHCA_BEHAVE=noarena)
 *     rings    rank 0 may give one ring (HEDDLE_RING_PEERS=1) and has given it to rank 1, which fails: rank 2 gets one
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "transport_test.h"

enum { GREETINGS = 100, SMALL = 3000, LARGE = 40, TURNS = 2000000 };
#define BYTES ((size_t)64 << 20)

static unsigned got[3], announced;
static int dead = -1;
static unsigned begun, ended, twice, well;
static unsigned char *buffer;
static bool taken_back;
static char rts[LARGE][HDL_RTS_SIZE];

static void peer_failed(void *context, int peer, int err)
{
	(void)context;
	dead = peer;
}

/* While `paused`, the clock of this process goes ahead by 2 s at each look, as if the process were stopped in between for
 * longer than a device needs. */
static bool paused;
int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	static time_t ahead;
	int r = __real_clock_gettime(id, t);

	ahead += paused ? 2 : 0;
	t->tv_sec += ahead;
	return r;
}

struct operation {
	struct hdl_send send;
	struct hdl_fetch fetch;
	bool over;
	char *data;			/* of an operation that packs or unpacks */
};

static void over(struct operation *o, int err)
{
	twice += o->over;
	o->over = true;
	ended++;
	well += !err;
}

static void sent(struct hdl_send *s, int err)
{
	over(container_of(s, struct operation, send), err);
}

static void fetched(struct hdl_fetch *f, int err)
{
	over(container_of(f, struct operation, fetch), err);
}

static void pack(const struct hdl_send *s, uint64_t at, void *to, size_t n)
{
	const struct operation *o = container_of(s, const struct operation, send);

	if (o->over)
		fail("a message is packed whose send has ended");
	memcpy(to, o->data + at, n);
}

static void unpack(const struct hdl_fetch *f, uint64_t at, const void *from, size_t n)
{
	const struct operation *o = container_of(f, const struct operation, fetch);

	if (o->over)
		fail("a message is unpacked whose receive has ended");
	memcpy(o->data + at, from, n);
}

/* The fetch has ended: the user overwrites the buffer. */
static void take_back(struct hdl_fetch *f, int err)
{
	memset(buffer, 0xa5, BYTES);
	taken_back = true;
}

static struct operation *operation(void)
{
	struct operation *o = calloc(1, sizeof(*o));	/* never freed, so that a second end is seen */

	if (!o)
		fail("out of memory");
	o->send.done = sent;
	o->fetch.done = fetched;
	o->send.pack = pack;
	o->fetch.unpack = unpack;
	return o;
}

static void fetch_now(int src, const void *announcement)
{
	static char data[100000];

	begun++;
	if (hdl_ep_fetch(ep_of(tp, src), announcement, data, sizeof(data), &operation()->fetch))
		fail("a message is not fetched");
}

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	got[src]++;
	if (hdr->tag > 1 && (unsigned)hdr->tag != got[src])
		fail("a message is lost or doubled");
	if (hdr->kind == HDL_RTS && hdr->tag > 1)
		fetch_now(src, payload);
	else if (hdr->kind == HDL_RTS && announced < LARGE)
		memcpy(rts[announced++], payload, HDL_RTS_SIZE);
}

static void send_to(int peer, const void *buf, size_t n)
{
	if (!hdl_ep_send(ep_of(tp, peer), 1, 2, false, buf, n, &operation()->send))
		begun++;
}

static void send_some(int peer, bool runs, void *buf, size_t n)
{
	struct operation *o = operation();

	o->data = buf;
	begun += !(runs ? hdl_ep_send_runs(ep_of(tp, peer), 1, 2, false, n, &o->send)
			: hdl_ep_send(ep_of(tp, peer), 1, 2, false, buf, n, &o->send));
}

static int fetch_into(int peer, const void *announcement, bool runs, void *buf, size_t n)
{
	struct operation *o = operation();

	o->data = buf;
	begun++;
	return runs ? hdl_ep_fetch_runs(ep_of(tp, peer), announcement, n, &o->fetch)
		    : hdl_ep_fetch(ep_of(tp, peer), announcement, buf, n, &o->fetch);
}

static void greet(int peer)
{
	unsigned idle = 0;

	for (unsigned i = 0; i < GREETINGS; i++) {
		send_to(peer, &begun, 8);
		while (got[peer] < i + 1)
			turn(&idle);
	}
}

static _Noreturn void leave(const char *text)
{
	fprintf(stderr, "%s\n", text);
	fflush(NULL);
	_exit(0);
}

/* The launcher ends this rank when rank 0 has left. */
static _Noreturn void stay(void)
{
	for (unsigned idle = 0;;)
		turn(&idle);
}

/* Whether the buffer holds the user's bytes. */
static bool stays(void)
{
	for (size_t i = 0; i < BYTES; i += 64)
		if (buffer[i] != 0xa5)
			return false;
	return true;
}

/* Events that both ranks, of one host, see without the transport: files, named after the job. */
enum { PART_WRITTEN, TAKEN_BACK, WRITTEN };

static const char *event_file(int event)
{
	static char path[256];

	snprintf(path, sizeof(path), "/tmp/transport_ep_fails.%.200s.%d", hdl_job.nspace, event);
	return path;
}

static void event_happens(int event)
{
	int fd = open(event_file(event), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0)
		fail("no file for an event");
	close(fd);
}

/* Returns whether the event has happened; once true. */
static bool event_happened(int event)
{
	return !unlink(event_file(event));
}

static void event_await(int event)
{
	for (int i = 0; !event_happened(event); i++, usleep(1000))
		if (i > 30000)
			fail("event %d does not happen", event);
}

/* Rank 1 has written the beginning when rank 0 gives up and its user has the buffer back; then rank 1 writes the rest. */
static void writes(int peer)
{
	unsigned idle = 0;

	buffer = calloc(1, BYTES);
	if (!buffer)
		fail("out of memory");
	if (hdl_job.rank == 1) {
		struct hdl_ep *ep = ep_of(tp, peer);
		memset(buffer, 1, BYTES);
		send_to(peer, buffer, BYTES);
		while (!ep->rdma_wait)
			turn(&idle);
		event_happens(PART_WRITTEN);
		event_await(TAKEN_BACK);
		/* pushes the rest of the message, and looks at no control message */
		for (int i = 0; i < 1000 && ep->rdma_wait && !hdl_sq_is_dead(ep->sq); i++, usleep(100)) {
			hdl_tp_reap(tp);
			hdl_rndv_push(ep);
		}
		event_happens(WRITTEN);
		stay();
	}
	struct hdl_fetch f = { .done = take_back };
	while (!announced)
		turn(&idle);
	if (hdl_ep_fetch(ep_of(tp, peer), rts[0], buffer, BYTES, &f))
		fail("the message is not fetched");
	while (!event_happened(PART_WRITTEN))
		turn(&idle);
	if (!buffer[0] || buffer[BYTES - 1])
		fail("not a part of the message has been written");
	hdl_ep_fail(ep_of(tp, peer), -EIO);
	while (!taken_back)
		turn(&idle);
	event_happens(TAKEN_BACK);
	event_await(WRITTEN);
	if (!stays())
		fail("what the peer wrote has landed in a buffer that was its user's again");
	/* rank 1 gets the refusal again as an answer to a datagram, at the next progress call */
	leave("nothing has landed");
}

static void owns(int peer)
{
	static char data[LARGE][100000], small[8];
	unsigned idle = 0;

	if (hdl_job.rank == 1) {
		for (int i = 0; i < LARGE; i++)
			send_some(peer, i % 3 == 0, data[i], sizeof(data[i]));
		for (int i = 0; i < 1000; i++)
			hdl_tp_progress(tp);
		usleep(1500000);	/* without progress */
		stay();
	}
	while (announced < LARGE)
		turn(&idle);
	usleep(200000);		/* rank 1 makes no progress any more, or soon */
	for (int i = 0; i < LARGE / 2; i++) {
		if (fetch_into(peer, rts[i], i % 2, data[i], sizeof(data[i])))
			fail("a message is not fetched");
		send_some(peer, i % 3 == 0, data[LARGE / 2 + i], sizeof(data[0]));
	}
	for (int i = 0; i < SMALL; i++)
		send_some(peer, i % 2, small, sizeof(small));
	for (int i = 0; i < LARGE; i++)
		hdl_ep_refuse(ep_of(tp, peer), rts[LARGE - 1]);	/* control messages */
	unsigned open = begun - ended;
	hdl_ep_fail(ep_of(tp, peer), -EIO);
	for (int i = 0; i < TURNS && (ended < begun || dead < 0); i++)
		hdl_tp_progress(tp);
	fprintf(stderr, "%u operations were open; %u of %u have ended, %u twice, %u well\n", open, ended, begun, twice, well);
	if (!open || ended != begun || twice || dead != peer)
		fail("not every operation has ended, once");
	if (tp->sends.used || tp->fetches.used || ep_of(tp, peer)->pend || ep_of(tp, peer)->ctl[0].head ||
	    ep_of(tp, peer)->ctl[1].head)
		fail("the failed endpoint owns something");
	leave("all has ended");
}

static _Noreturn void rings(void)
{
	unsigned idle = 0;

	if (hdl_job.rank == 1)
		greet(0);
	if (hdl_job.rank == 0) {
		greet(1);
		for (int i = 0; i < TURNS && ep_of(tp, 1)->rx_state != HDL_RX_ACTIVE; i++)
			turn(&idle);
		hdl_ep_fail(ep_of(tp, 1), -EIO);
		while (dead < 0)
			turn(&idle);
		if (tp->rings_given)
			fail("the failed endpoint keeps its ring");
		greet(2);
		for (int i = 0; i < TURNS && ep_of(tp, 2)->rx_state != HDL_RX_ACTIVE; i++)
			turn(&idle);
		if (ep_of(tp, 2)->rx_state != HDL_RX_ACTIVE)
			fail("nobody else got the ring");
		send_to(2, &begun, 8);
		leave("another got the ring");
	}
	if (hdl_job.rank == 2)
		greet(0);
	stay();
}

static void send_number(int peer, int number, size_t n)
{
	static char data[100000];

	if (!hdl_ep_send(ep_of(tp, peer), number, 2, false, data, n, &operation()->send))
		begun++;
}

static _Noreturn void shared(void)
{
	enum { MESSAGES = 300 };
	static const size_t size[] = { 8, 40, 2000, 8, 100000, 300, 8, 30000 };
	unsigned idle = 0;

	signal(SIGTERM, SIG_IGN);	/* the launcher ends a job of which a rank was killed */
	if (hdl_job.rank)
		greet(0);
	if (hdl_job.rank == 1) {
		while (got[0] == GREETINGS)
			turn(&idle);
		kill(getpid(), SIGKILL);
		pause();
	}
	if (hdl_job.rank == 2) {
		for (unsigned round = 1; round <= 2; round++) {
			while (got[0] < GREETINGS + round * MESSAGES)
				turn(&idle);
			send_to(0, &begun, 8);
		}
		for (;;)
			turn(&idle);
	}
	greet(1);
	greet(2);
	send_to(1, &begun, 8);
	while (hdl_proc_state(&ep_of(tp, 1)->proc) == HDL_PROC_LIVES)
		hdl_tp_progress(tp);
	for (unsigned i = 0; i < MESSAGES; i++) {
		/* the first message for rank 2 from the message's own memory waits behind three for the dead rank, and moves up
		 * when those have failed */
		for (int n = i == 2 ? 3 : i > 2 && i % 3 == 1; n; n--)
			send_number(1, 1, i == 2 ? 8 : size[i % 7]);
		send_number(2, (int)(GREETINGS + i + 1), size[i % 8]);
		if (i % 100 == 50 || i == 2)
			hdl_tp_progress(tp);
	}
	while (got[2] == GREETINGS && !ep_of(tp, 2)->failed)
		turn(&idle);
	if (ep_of(tp, 2)->failed)
		fail("one peer's end has failed another");
	while (dead < 0)
		turn(&idle);
	/* small messages use every slot of the queue: a slot that belonged to a failed request must not end that request again */
	for (unsigned i = 0; i < MESSAGES; i++)
		send_number(2, (int)(GREETINGS + MESSAGES + i + 1), 8);
	while (got[2] < GREETINGS + 2 && !ep_of(tp, 2)->failed)
		turn(&idle);
	for (int i = 0; i < TURNS && ended < begun; i++)
		hdl_tp_progress(tp);
	if (ended != begun || twice)
		fail("not every operation has ended, once");
	leave("the others go on");
}

/* Waits until rank 1 has stopped itself. */
static void await_stop(pid_t pid)
{
	char name[64], state;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	for (int i = 0; i < 10000; i++, usleep(1000)) {
		state = 0;
		if ((f = fopen(name, "r")) && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'T') {
			fclose(f);
			return;
		}
		if (f)
			fclose(f);
	}
	fail("rank 1 does not stop");
}

static _Noreturn void breaks_alone(bool dies)
{
	enum { MESSAGES = 200, BEFORE = GREETINGS + 1 };
	static const size_t size[] = { 8, 40, 2000, 8, 100000, 300, 8, 30000, 9000, 0 };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	unsigned idle = 0;

	if (hdl_job.rank == 1) {
		/* rank 0 has received all messages by now: posted requests may be queued in the device only, which stops,
		 * or dies, with rank 1 */
		while (got[0] < BEFORE)
			turn(&idle);
		kill(getpid(), SIGSTOP);
		while (got[0] < BEFORE + MESSAGES)
			turn(&idle);
		send_to(0, &begun, 8);
		stay();
	}
	struct hdl_ep *ep = ep_of(tp, 1);
	signal(SIGTERM, SIG_IGN);	/* the launcher ends a job of which a rank was killed */
	send_to(1, &begun, 8);
	await_stop((pid_t)ep->proc.pid);
	for (unsigned i = 0; i < MESSAGES; i++) {
		if (i == MESSAGES / 4 && ibv_modify_qp(ep->sq->qp, &a, IBV_QP_STATE))
			fail("the queue cannot be broken");
		send_number(1, (int)(BEFORE + i + 1), size[i % 10]);
	}
	/* Without a ring at most as many messages are posted as the peer has granted, fewer than stand before the break, and a
	 * ring may have been full by then. The waiting messages are not posted, so no flush shows the break: the probe does. */
	if (!ep->ring || ep->pend)
		hdl_sq_probe(ep->sq, ep);
	for (int i = 0; i < TURNS && ep->conn.state != HDL_CONN_ASKED; i++)
		hdl_tp_progress(tp);
	if (ep->conn.state != HDL_CONN_ASKED || !ep->conn.replacing || ep->failed)
		fail("the queue is not being replaced");
	kill((pid_t)ep->proc.pid, dies ? SIGKILL : SIGCONT);
	while (dead < 0 && got[1] == GREETINGS)
		turn(&idle);
	for (int i = 0; i < TURNS && ended < begun; i++)
		hdl_tp_progress(tp);
	if (ended != begun || twice || (dead == 1) != dies)
		fail("not every operation has ended, once");
	leave(dies ? "the dead one has failed" : "all has come");
}

static _Noreturn void pauses(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	unsigned idle = 0;

	if (hdl_job.rank == 1) {
		while (got[0] < GREETINGS + 1)
			turn(&idle);
		send_to(0, &begun, 8);
		stay();
	}
	struct hdl_ep *ep = ep_of(tp, 1);
	struct hdl_sq *sq = ep->sq ? ep->sq : &ep->dev->ud;
	if (sq->kind->renew) {
		ep->queues->event = IBV_EVENT_QP_FATAL;
		paused = true;
		hdl_wire_replace(ep);
	} else {
		if (ibv_modify_qp(sq->qp, &a, IBV_QP_STATE))
			fail("the queue cannot be broken");
		/* the flush of this message shows that the queue is broken */
		send_to(1, &begun, 8);
		if (sq->kind->repeats)
			hdl_sq_broken(sq);
		while (!hdl_sq_is_broken(sq))
			hdl_sq_reap(tp, sq->scq);
		paused = true;
		hdl_sq_reset(sq);
	}
	paused = false;
	if (ep->failed || hdl_sq_is_dead(sq))
		fail("a queue that was flushed is given up");
	if (sq->kind->renew)
		send_to(1, &begun, 8);
	while (dead < 0 && got[1] == GREETINGS)
		turn(&idle);
	if (dead >= 0)
		fail("a peer has failed");
	leave("all has come");
}

/* Requests 6 to 13 of a queue are in the replay log; they carry 5 messages. The peer reports `messages` received messages and
 * `lines` of the ring. want: for each request 'o' if the peer has it, '.' if it is posted again. */
static void settle(uint32_t messages, bool ring, uint64_t lines, const char *want)
{
	static const enum ibv_wr_opcode opcode[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND,      IBV_WR_RDMA_WRITE,
						    IBV_WR_RDMA_READ,  IBV_WR_SEND,      IBV_WR_RDMA_WRITE_WITH_IMM,
						    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE};
	struct hdl_replay again[16] = { 0 };
	struct hdl_slot slot[16] = { 0 };
	struct hdl_sq sq = { .dev = tp->dev[0], .replay = again, .slot = slot, .depth = 16, .mask = 15, .state = HDL_SQ_BROKEN,
			     .replay_tail = 6, .replay_head = 14, .recorded_from = 6, .recorded_to = 14, .messages = 5 };
	char got_text[9] = "";

	for (int i = 0; i < 8; i++)
		again[6 + i].opcode = (uint8_t)opcode[i];
	again[6].end = 7;
	again[8].end = 9;
	again[12].end = 10;
	hdl_replay_settle(&sq, messages, ring, lines);
	for (int i = 0; i < 8; i++)
		got_text[i] = again[6 + i].over ? 'o' : '.';
	if (strcmp(got_text, want)) {
		fprintf(stderr, "%u messages, %d, %u lines: %s instead of %s\n", messages, ring, (unsigned)lines, got_text, want);
		fail("not what goes again");
	}
}

/* A pool that found no memory once does not grow for a while (-EAGAIN), and then grows. */
static _Noreturn void grows(void)
{
	enum { SIZE = 64, CHUNK = 1 << 20 };
	struct hdl_bufpool pool;

	hdl_bufpool_init(&pool, tp->dev[0], SIZE, CHUNK, CHUNK);
	if (hdl_bufpool_grow(&pool))
		fail("there are no buffers");
	uint32_t first = pool.total;
	pool.size = 1u << 31;		/* of 2^18 buffers: 2^49 bytes, which no process has */
	if (!hdl_bufpool_grow(&pool))
		fail("there is memory beyond all limits");
	pool.size = SIZE;
	if (hdl_bufpool_grow(&pool) != -EAGAIN)
		fail("who has got no memory asks again at once");
	for (int i = 0; i < 1000 && hdl_bufpool_grow(&pool); i++)
		usleep(10000);
	if (pool.total <= first)
		fail("who has got no memory once gets none any more");
	hdl_bufpool_fini(&pool);
	leave("grown");
}

/* The replay log has every request from the queue's first one on. The numbers of requests wrap around 2^32, and the requests
 * behind the break are found in the log all the same. */
static void kept_round(void)
{
	struct hdl_replay again[16] = { 0 };
	struct hdl_slot slot[16] = { 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct hdl_sq sq = { .dev = tp->dev[0], .replay = again, .slot = slot, .depth = 16, .mask = 15, .head = UINT32_MAX - 7,
			     .recorded_to = UINT32_MAX - 7 };

	for (int i = 0; i < 12; i++) {
		sq.head++;
		hdl_replay_record_now(&sq, &wr, 0);
	}
	sq.state = HDL_SQ_BROKEN;
	sq.replay_head = sq.head;
	sq.replay_tail = sq.head - 15;
	hdl_replay_settle(&sq, 0, false, 0);
	if (sq.state != HDL_SQ_SETTLED)
		fail("requests that were kept are not known to be when their numbers have gone round");
}

static _Noreturn void settles(void)
{
	settle(2, true, 0, "........");
	settle(2, true, 7, "o.......");
	settle(2, false, 7, "........");	/* the lines are of another ring */
	settle(3, true, 0, "oo......");
	settle(3, true, 9, "ooo.....");
	settle(4, true, 0, "ooo.o...");	/* the bytes of a read may be lost */
	settle(5, true, 9, "ooo.oo..");
	settle(5, true, 10, "ooo.ooo.");
	kept_round();
	leave("settled");
}

static _Noreturn void fails_twice(bool flushed)
{
	static uint64_t word;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	unsigned idle = 0;

	if (hdl_job.rank == 1) {
		while (dead < 0)
			turn(&idle);
		stay();
	}
	struct hdl_ep *ep = ep_of(tp, 1);
	struct ibv_sge sge = { .addr = (uintptr_t)&word, .length = 8 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE };

	wr.wr.rdma.rkey = 0xdead00;
	if (flushed && ibv_modify_qp(ep->sq->qp, &error, IBV_QP_STATE))
		fail("the queue cannot be broken");
	uint32_t first = ep->conn.number, last = first;
	if (hdl_sq_post(ep->sq, ep, &wr, HDL_SLOT_NONE, NULL, true, 8))
		fail("nothing is posted");
	while (dead < 0) {
		turn(&idle);
		last = ep->conn.number > last ? ep->conn.number : last;
	}
	if (last - first != 1u + flushed)
		fail("the queue is not replaced as often as that");
	leave("it has failed");
}

static void datagram_is_refused(struct hdl_ep *ep)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rts, .length = 8, .lkey = 0xdead00 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	while (hdl_sq_is_broken(&ep->dev->ud))
		hdl_tp_progress(tp);
	if (hdl_sq_post(&ep->dev->ud, ep, &wr, HDL_SLOT_NONE, NULL, true, 8))
		fail("nothing is posted");
}

static void are_refused(struct hdl_ep *ep, int n)
{
	for (int i = 0; i < n && dead < 0; i++) {
		datagram_is_refused(ep);
		for (int turns = 0; turns < TURNS && !hdl_sq_is_broken(&ep->dev->ud) && dead < 0; turns++)
			hdl_tp_progress(tp);
	}
}

static _Noreturn void refused(void)
{
	enum { ROUNDS = 30, SOME = 5, MANY = 100 };
	unsigned idle = 0;

	if (hdl_job.rank == 1) {
		for (unsigned i = 1; i <= ROUNDS; i++) {
			while (got[0] < GREETINGS + i)
				turn(&idle);
			send_to(0, &begun, 8);
		}
		stay();
	}
	struct hdl_ep *ep = ep_of(tp, 1);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		datagram_is_refused(ep);
		send_to(1, &begun, 8);
		while (got[1] < GREETINGS + i && dead < 0)
			turn(&idle);
		if (dead >= 0)
			fail("a peer fails for a datagram that its device has refused once");
	}
	/* a link may flap now and then throughout the job */
	for (int flaps = 0; flaps < 2; flaps++) {
		are_refused(ep, SOME);
		sleep(2);
		if (dead >= 0)
			fail("a peer fails for datagrams that were refused with time in between");
	}
	are_refused(ep, MANY);
	for (int i = 0; i < TURNS && dead < 0; i++)
		hdl_tp_progress(tp);
	if (dead != 1)
		fail("what is refused again and again fails nobody");
	leave("what is refused once is lost, and no more");
}

static _Noreturn void offers(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct hdl_ring_offer m = { .addr = (uintptr_t)rts, .lines = 64, .number = 1 };

	if (hdl_job.rank == 1)
		stay();
	struct hdl_ep *ep = ep_of(tp, 1);
	if (ibv_modify_qp(ep->sq->qp, &a, IBV_QP_STATE))
		fail("the queue cannot be broken");
	hdl_ring_on_offer(ep, &m);
	if (ep->ring)
		fail("a queue that is broken takes a ring");
	/* rank 1 counts the refused ring: the count identifies the ring of which rank 1 reports lines */
	if (ep->rings_in != 1)
		fail("a ring that was refused is not counted");
	leave("a refused ring counts");
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = peer_failed };
	const char *mode = argc > 1 ? argv[1] : "";

	start(&up);
	if (!strcmp(mode, "settles"))
		settles();
	if (!strcmp(mode, "grows"))
		grows();
	if (!strcmp(mode, "rings"))
		rings();
	if (!strcmp(mode, "shared"))
		shared();
	greet(!hdl_job.rank);
	if (!strcmp(mode, "stopped") || !strcmp(mode, "dies"))
		breaks_alone(!strcmp(mode, "dies"));
	if (!strcmp(mode, "paused"))
		pauses();
	if (!strcmp(mode, "offers"))
		offers();
	if (!strcmp(mode, "refused"))
		refused();
	if (!strcmp(mode, "twice"))
		fails_twice(false);
	if (!strcmp(mode, "thrice"))
		fails_twice(true);
	if (!strcmp(mode, "writes"))
		writes(!hdl_job.rank);
	else
		owns(!hdl_job.rank);
	return 0;
}
