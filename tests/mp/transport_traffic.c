/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traffic through the transport's functions: every rank sends messages of random sizes to every rank (itself included), some of
 * them synchronous, some from or to memory that is not one run, and checks that the messages arrive complete, unchanged and in
 * order.
 *
 *     transport_traffic [messages per pair [largest size [seed [late [sparse]]]]]
 *
 * late: a rank with an odd number makes progress only after sending so many messages since the last progress call, or when no
 * more sends are possible; but not at first, while connections are made.
 * sparse: 1: a third of the ordered pairs is silent and another third sends little, so that traffic is one-sided.
 *
 * TRAFFIC_BREAK=N: after every N sends a rank takes those of its queues that can be replaced to ERR; TRAFFIC_BREAKERS is a mask
 * of the ranks that do so (all, if it is not set). With TRAFFIC_SILENT no event reports the error: a sender must notice. With
 * TRAFFIC_EVENTS the device reports the event at the next poll for events, which may be long after the transport noticed the
 * error. TRAFFIC_STOP=N: every rank is stopped by a signal for some milliseconds, up to N times, at any place.
 *
 * Prints "ok" on rank 0 when all is well; HEDDLE_* variables choose kinds, ring sizes and so on.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "transport_test.h"

#define WINDOW 32		/* sends in flight per peer */

static unsigned messages = 2000, seed = 1, late, sparse, breaks, silent, events;
static size_t largest = 100000;

struct out {
	struct hdl_send send;
	int peer;
	char *buf;
};
struct in {
	struct hdl_fetch fetch;
	int peer;
	unsigned index;
	size_t len;
	char *buf;
};

static unsigned *next_in, *sent_out, *inflight;
static uint64_t received, fetching, done_out;

/* Returns zeroed memory; ends the program if the limits under which the test runs leave none. */
static void *new_bytes(size_t n)
{
	void *p = calloc(1, n);

	if (!p)
		fail("out of memory: %zu bytes", n);
	return p;
}

static uint64_t key(int src, int dst, unsigned index)
{
	return mix(((uint64_t)src << 48 | (uint64_t)dst << 32 | index) + (uint64_t)seed * 0x9e3779b97f4a7c15ull);
}

/* Messages from one rank to another. */
static unsigned messages_of(int src, int dst)
{
	static const unsigned few = 3;

	if (!sparse)
		return messages;
	switch (key(src, dst, ~0u) % 3) {
	case 0:
		return 0;
	case 1:
		return few < messages ? few : messages;
	default:
		return messages;
	}
}

/* Mostly small, some eager, a few large; the same on both sides. */
static size_t size_of(int src, int dst, unsigned index)
{
	uint64_t k = key(src, dst, index);
	size_t limit;

	switch (k % 16) {
	case 0:
		return 0;
	case 1: case 2: case 3:
		limit = 10000;
		break;
	case 4:
		limit = largest;
		break;
	case 5: case 6:
		limit = 1500;
		break;
	default:
		limit = 64;
	}
	if (limit > largest)
		limit = largest;
	return limit ? (k >> 8) % (limit + 1) : 0;
}

static bool sync_of(int src, int dst, unsigned index)
{
	/* a rank that looks late must not wait for a receiver */
	return !late && key(src, dst, index) >> 40 & 1 && index % 7 == 0;
}

/* Memory that is not one run: the bytes lie in runs of RUN, with GAPs between them that must not change. */
#define RUN 11
#define GAP 5
#define GAP_BYTE 0x2a
static size_t place(uint64_t i)
{
	return i / RUN * (RUN + GAP) + i % RUN;
}

static bool from_runs(int src, int dst, unsigned index)
{
	return (key(src, dst, index) >> 41) % 3 == 0;
}

static bool to_runs(int src, int dst, unsigned index)
{
	return (key(src, dst, index) >> 45) % 3 == 0;
}

static char *runs_new(size_t n)
{
	return memset(new_bytes(place(n) + 1), GAP_BYTE, place(n) + 1);
}

/* Copies bytes at, at + 1, ... of such memory from (out) or to one run. */
static void copy_runs(char *runs, uint64_t at, char *run, size_t n, bool out)
{
	for (size_t i = 0, k; i < n; i += k) {
		k = RUN - (at + i) % RUN;
		if (k > n - i)
			k = n - i;
		memcpy(out ? run + i : runs + place(at + i), out ? runs + place(at + i) : run + i, k);
	}
}

static void pack(const struct hdl_send *s, uint64_t at, void *to, size_t n)
{
	copy_runs(((const struct out *)s)->buf, at, to, n, true);
}

static void unpack(const struct hdl_fetch *f, uint64_t at, const void *from, size_t n)
{
	if (at > f->len || n > f->len - at)
		fail("%zu bytes at %llu are unpacked, of %zu", n, (unsigned long long)at, f->len);
	copy_runs(((const struct in *)f)->buf, at, (char *)from, n, false);
}

static void fill(char *p, size_t n, uint64_t k)
{
	for (size_t i = 0; i < n; i++) {
		if (i % 8 == 0)
			k = mix(k + i);
		p[i] = (char)(k >> (i % 8 * 8));
	}
}

static void check(const char *p, size_t n, int src, unsigned index)
{
	uint64_t k = key(src, hdl_job.rank, index);

	for (size_t i = 0; i < n; i++) {
		if (i % 8 == 0)
			k = mix(k + i);
		if (p[i] != (char)(k >> (i % 8 * 8)))
			fail("message %u of %zu bytes from rank %d is damaged at byte %zu", index, n, src, i);
	}
}

static void fetched(struct hdl_fetch *f, int err)
{
	struct in *in = (struct in *)f;

	if (err)
		fail("message %u from rank %d cannot be fetched: %s", in->index, in->peer, strerror(-err));
	if (f->unpack) {
		char *run = new_bytes(f->len + 1);
		for (size_t i = 0; i < place(f->len); i++)
			if (i % (RUN + GAP) >= RUN && in->buf[i] != GAP_BYTE)
				fail("message %u of %zu bytes from rank %d: the gap at %zu was written", in->index, f->len,
				     in->peer, i);
		copy_runs(in->buf, 0, run, f->len, true);
		free(in->buf);
		in->buf = run;
	}
	check(in->buf, f->len, in->peer, in->index);
	free(in->buf);
	free(in);
	fetching--;
	received++;
}

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	unsigned index = next_in[src]++;
	size_t want = size_of(src, hdl_job.rank, index), len = hdl_msg_len(hdr, payload);
	bool rts = hdr->kind == HDL_RTS;

	(void)context;
	if (hdr->tag != (int32_t)index || hdr->context != 7)
		fail("message %d from rank %d comes when %u is expected", hdr->tag, src, index);
	if (len != want)
		fail("message %u from rank %d has %zu bytes instead of %zu", index, src, len, want);
	if (!rts) {
		check(payload, len, src, index);
		received++;
		return;
	}
	struct in *in = new_bytes(sizeof(*in));
	/* now and then the receive is shorter than the message */
	size_t cap = index % 5 == 4 ? len / 2 : len;
	bool runs = to_runs(src, hdl_job.rank, index);
	in->buf = runs ? runs_new(cap) : new_bytes(cap + 1);
	in->peer = src;
	in->index = index;
	in->fetch.done = fetched;
	in->fetch.unpack = unpack;
	int err = runs ? hdl_ep_fetch_runs(ep_of(tp, src), payload, cap, &in->fetch)
		       : hdl_ep_fetch(ep_of(tp, src), payload, in->buf, cap, &in->fetch);
	if (err)
		fail("fetch from rank %d: %s", src, strerror(-err));
	fetching++;
}

static void finished(struct out *o)
{
	inflight[o->peer]--;
	done_out++;
	free(o->buf);
	free(o);
}

static void sent(struct hdl_send *s, int err)
{
	struct out *o = (struct out *)s;

	if (err)
		fail("a send to rank %d failed: %s", o->peer, strerror(-err));
	finished(o);
}

/* Events that the device will report at the next poll for events, of a type that the device never reports by itself. */
static struct ibv_qp *untold[64];
static unsigned nuntold;
int __real_ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *e);
int __wrap_ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *e);
void __real_ibv_ack_async_event(struct ibv_async_event *e);
void __wrap_ibv_ack_async_event(struct ibv_async_event *e);

int __wrap_ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *e)
{
	if (!nuntold)
		return __real_ibv_get_async_event(ctx, e);
	*e = (struct ibv_async_event){ .event_type = IBV_EVENT_PATH_MIG_ERR, .element.qp = untold[--nuntold] };
	return 0;
}

void __wrap_ibv_ack_async_event(struct ibv_async_event *e)
{
	if (e->event_type != IBV_EVENT_PATH_MIG_ERR)
		__real_ibv_ack_async_event(e);
}

static void break_queues(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	for (uint32_t i = 0; i < tp->nsqs; i++) {
		struct hdl_sq *sq = tp->sqs[i];
		if (!sq || !sq->qp || !(sq->kind->reset || (sq->kind->renew && sq->ep->sq == sq)))
			continue;
		/* one that has no target yet is in RESET */
		if (hdl_sq_is_broken(sq) && sq->replay_tail == sq->replay_head)
			continue;
		if (ibv_modify_qp(sq->qp, &a, IBV_QP_STATE))
			fail("queue %u cannot be broken", sq->qp->qp_num);
		if (!sq->ep || silent)
			continue;
		if (events) {
			if (nuntold < sizeof(untold) / sizeof(untold[0]))
				untold[nuntold++] = sq->qp;
			continue;
		}
		/* as a device reports an error; else a side with nothing to send does not notice, and the peer's device tries for
		 * some seconds */
		sq->ep->queues->event = IBV_EVENT_QP_FATAL;
		hdl_wire_broke(sq->ep, NULL);
	}
}

static void send_one(int peer)
{
	static unsigned sends;

	if (breaks && ++sends % breaks == 0)
		break_queues();
	unsigned index = sent_out[peer]++;
	size_t n = size_of(hdl_job.rank, peer, index);
	struct out *o = new_bytes(sizeof(*o));

	o->peer = peer;
	o->buf = new_bytes(n + 1);
	o->send.done = sent;
	fill(o->buf, n, key(hdl_job.rank, peer, index));
	bool runs = from_runs(hdl_job.rank, peer, index);
	if (runs) {
		char *run = o->buf;
		o->buf = runs_new(n);
		copy_runs(o->buf, 0, run, n, false);
		free(run);
		o->send.pack = pack;
	}
	inflight[peer]++;
	struct hdl_ep *ep = ep_of(tp, peer);
	if (!ep)
		fail("rank %d cannot be reached: %s", peer, strerror(errno));
	bool sync = sync_of(hdl_job.rank, peer, index);
	int r = runs ? hdl_ep_send_runs(ep, (int32_t)index, 7, sync, n, &o->send)
		     : hdl_ep_send(ep, (int32_t)index, 7, sync, o->buf, n, &o->send);
	if (r < 0)
		fail("send to rank %d: %s", peer, strerror(-r));
	if (r == 1) {
		memset(o->buf, 0x55, n);	/* the user's again: a late read of the buffer shows */
		finished(o);
	}
}

/* Read by the stopping process between two stops: if killed in the middle of a stop, the stopping process would leave this one
 * stopped. */
static bool *stop_no_more;

/* Forks a process that stops this one now and then, and ends with this one. */
static pid_t stopped_by(int times)
{
	pid_t rank = getpid(), pid;

	stop_no_more = mmap(NULL, sizeof *stop_no_more, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (stop_no_more == MAP_FAILED)
		return -1;
	if ((pid = fork()))
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t x = (uint64_t)rank; times-- && getppid() == rank && !__atomic_load_n(stop_no_more, __ATOMIC_ACQUIRE);
	     x = mix(x + 1)) {
		usleep(1000 + x % 20000);
		kill(rank, SIGSTOP);
		usleep(1000 + x % 7000);
		kill(rank, SIGCONT);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	pid_t stopper = 0;

	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = no_peer_fails };
	unsigned idle = 0, unlooked = 0;

	if (argc > 1)
		messages = (unsigned)atoi(argv[1]);
	if (argc > 2)
		largest = (size_t)atol(argv[2]);
	if (argc > 3)
		seed = (unsigned)atoi(argv[3]);
	if (argc > 4)
		late = (unsigned)atoi(argv[4]);
	if (argc > 5)
		sparse = (unsigned)atoi(argv[5]);
	if (getenv("TRAFFIC_BREAK"))
		breaks = (unsigned)atoi(getenv("TRAFFIC_BREAK"));
	if (getenv("TRAFFIC_STOP"))
		stopper = stopped_by(atoi(getenv("TRAFFIC_STOP")));
	if (stopper < 0) {
		perror("transport_traffic: no process to stop this one");
		return 1;
	}
	start(&up);
	silent = getenv("TRAFFIC_SILENT") != NULL;
	events = getenv("TRAFFIC_EVENTS") != NULL;
	if (getenv("TRAFFIC_BREAKERS") && !(strtoul(getenv("TRAFFIC_BREAKERS"), NULL, 0) >> hdl_job.rank & 1))
		breaks = 0;
	int n = hdl_job.size;
	uint64_t all_in = 0, all_out = 0;

	for (int p = 0; p < n; p++) {
		all_in += messages_of(p, hdl_job.rank);
		all_out += messages_of(hdl_job.rank, p);
	}

	next_in = calloc((size_t)n, sizeof(*next_in));
	sent_out = calloc((size_t)n, sizeof(*sent_out));
	inflight = calloc((size_t)n, sizeof(*inflight));
	while (received < all_in || done_out < all_out) {
		bool did = false;
		for (int p = 0; p < n; p++) {
			int peer = (hdl_job.rank + p) % n;
			unsigned burst = 1 + (unsigned)(mix(done_out + (uint64_t)p) % 8);
			while (burst-- && inflight[peer] < WINDOW && sent_out[peer] < messages_of(hdl_job.rank, peer)) {
				send_one(peer);
				did = true;
				unlooked++;
			}
		}
		if (did && hdl_job.rank % 2 && unlooked < late && sent_out[0] > messages / 4)
			continue;
		unlooked = 0;
		turn_after(did, &idle);
	}
	if (fetching)
		fail("%llu fetches are left", (unsigned long long)fetching);
	if (stopper > 0) {
		__atomic_store_n(stop_no_more, true, __ATOMIC_RELEASE);
		waitpid(stopper, NULL, 0);
	}
	free(next_in);
	free(sent_out);
	free(inflight);
	return finish();
}
