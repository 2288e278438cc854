/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages of the transport: every rank sends every rank (itself included) messages of random sizes, ordered or not, short
 * or announced, with matching messages between the ordered ones; some handlers send an answer. All messages arrive complete,
 * unchanged and once, and ordered ones in order, the matching messages included.
 *
 *     transport_am [messages per pair [largest size [seed [mode]]]]
 *
 * mode: threads   a second thread of each rank sends, too
 *       unknown   rank 0 sends rank 1 messages for a handler that rank 1 does not have: one is refused, and the next ones arrive
 *       dies      rank 1 is killed: all that rank 0 has under way ends, each once, with an error
 *       stops     rank 1 is stopped for a while: nothing fails, and all arrives
 *       stream    many matching messages at a time, without a turn of progress: the handlers run while they are sent
 *       refuses   numbers and lengths that cannot be are refused
 */
#include "transport_test.h"

enum { WINDOW = 24, ASK = 100, ANSWER = 101, NOBODY = 102, MATCHED = 7 };

static unsigned messages = 600, seed = 1, burst;
static size_t largest = 60000;

struct head {
	uint32_t index;
	uint32_t order;		/* among the ordered ones and the matching messages of the pair */
	uint64_t len;
	uint64_t answer;	/* of the asking rank: struct out; 0: no answer is wanted */
	char more[40];		/* the head's length is random */
};
_Static_assert(sizeof(struct head) == HDL_AM_HEAD_MAX, "the longest head");
#define HEAD_LEAST offsetof(struct head, more)

struct out {
	struct hdl_am_send am;
	struct hdl_send matched;
	int peer, left;		/* ends that are awaited: of the send, of the answer */
	char *buf;
};
struct in {
	struct hdl_fetch fetch;
	struct hdl_am_send answer;
	int peer;
	struct head head;
	char *buf;
};

static unsigned *sent_out, *order_out, *order_in, *inflight;
static unsigned char **seen;
static uint64_t received, wanted, open_ins, outs;
static int dead = -1;
static unsigned errors, ended;

static uint64_t key(int src, int dst, unsigned index)
{
	return mix(((uint64_t)src << 48 | (uint64_t)dst << 32 | index) + (uint64_t)seed * 0x9e3779b97f4a7c15ull);
}

static size_t size_of(int src, int dst, unsigned index)
{
	uint64_t k = key(src, dst, index);
	size_t limit = k % 8 == 0 ? largest : k % 8 < 3 ? 3000 : 64;

	if (limit > largest)
		limit = largest;
	return (k >> 8) % (limit + 1);
}

static unsigned flags_of(int src, int dst, unsigned index)
{
	uint64_t k = key(src, dst, index) >> 40;

	return (k & 1 ? HDL_AM_ORDERED : 0) | (k % 16 == 3 ? HDL_AM_ANNOUNCE : 0);
}

static bool matches(int src, int dst, unsigned index)
{
	return (key(src, dst, index) >> 48) % 4 == 0;
}

static size_t head_of(int src, int dst, unsigned index)
{
	return HEAD_LEAST + (key(src, dst, index) >> 20) % (sizeof(struct head) - HEAD_LEAST + 1);
}

static void fill(char *p, size_t n, uint64_t k)
{
	for (size_t i = 0; i < n; i++) {
		if (i % 8 == 0)
			k = mix(k + i);
		p[i] = (char)(k >> (i % 8 * 8));
	}
}

static void check(const char *p, size_t n, uint64_t k, const char *what, unsigned index)
{
	uint64_t first = k;

	for (size_t i = 0; i < n; i++) {
		if (i % 8 == 0)
			k = mix(k + i);
		if (p[i] != (char)(k >> (i % 8 * 8)))
			fail("%s %u of %zu bytes (%#llx) is damaged at byte %zu", what, index, n, (unsigned long long)first, i);
	}
}

static void in_order(int src, unsigned order)
{
	if (order != order_in[src])
		fail("rank %d: number %u comes when %u is expected", src, order, order_in[src]);
	order_in[src]++;
}

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	if (hdr->context != MATCHED || hdr->kind != HDL_EAGER || hdr->len != 2)
		fail("a matching message of context %u with %u bytes", hdr->context, hdr->len);
	in_order(src, (unsigned)hdr->tag);
}

static void peer_failed(void *context, int peer, int err)
{
	(void)context;
	dead = peer;
}

static void over(struct out *o)
{
	if (--o->left)
		return;
	inflight[o->peer]--;
	outs--;
	if (o->buf)
		memset(o->buf, 0x55, o->am.len);	/* ours again: a late read is detected */
	free(o->buf);
	free(o);
}

static void sent(struct hdl_send *s, int err)
{
	if (err)
		fail("an active message failed: %s", strerror(-err));
	over(container_of(container_of(s, struct hdl_am_send, send), struct out, am));
}

static void sent_match(struct hdl_send *s, int err)
{
	if (err)
		fail("a matching message failed: %s", strerror(-err));
	over(container_of(s, struct out, matched));
}

static void freed(struct hdl_send *s, int err)
{
	struct in *in = container_of(container_of(s, struct hdl_am_send, send), struct in, answer);

	if (err)
		fail("an answer failed: %s", strerror(-err));
	open_ins--;
	free(in->buf);
	free(in);
}

/* Answers go as they came, ordered or not: the same bytes, the head shortened to its least. */
static void answer(struct hdl_ep *ep, struct in *in)
{
	unsigned index = in->head.index;

	in->answer.send.done = freed;
	int r = hdl_am_send(ep, ANSWER, flags_of(in->peer, hdl_job.rank, index), &in->head, HEAD_LEAST, in->buf, in->head.len,
			    &in->answer);
	if (r < 0)
		fail("an answer to rank %d: %s", in->peer, strerror(-r));
	if (r)
		freed(&in->answer.send, 0);
}

static void complete(struct hdl_ep *ep, struct in *in)
{
	check(in->buf, in->head.len, key(in->peer, hdl_job.rank, in->head.index), "message", in->head.index);
	received++;
	if (in->head.answer)
		answer(ep, in);
	else
		freed(&in->answer.send, 0);
}

static void fetched(struct hdl_fetch *f, int err)
{
	struct in *in = container_of(f, struct in, fetch);

	if (err)
		fail("message %u of rank %d: %s", in->head.index, in->peer, strerror(-err));
	complete(ep_of(tp, in->peer), in);
}

static struct in *take(const struct hdl_am *am)
{
	struct in *in = calloc(1, sizeof(*in));

	in->peer = hdl_ep_note(am->ep)->rank;
	if (am->head_len < HEAD_LEAST)
		fail("a head of %zu bytes", am->head_len);
	memcpy(&in->head, am->head, am->head_len);
	if (am->len != in->head.len)
		fail("message %u has %zu bytes, not %llu", in->head.index, am->len, (unsigned long long)in->head.len);
	in->buf = malloc(am->len + 1);
	open_ins++;
	if (am->data)
		memcpy(in->buf, am->data, am->len);
	return in;
}

static void on_ask(void *context, const struct hdl_am *am)
{
	struct in *in = take(am);
	unsigned index = in->head.index, flags = flags_of(in->peer, hdl_job.rank, index);

	if (context != &seen)
		fail("another context");
	if (am->head_len != head_of(in->peer, hdl_job.rank, index))
		fail("message %u has a head of %zu bytes", index, am->head_len);
	check(in->head.more, am->head_len - HEAD_LEAST, index, "head", index);
	if (seen[in->peer][index]++)
		fail("message %u of rank %d comes twice", index, in->peer);
	if (flags & HDL_AM_ANNOUNCE && !am->rts)
		fail("message %u was not announced", index);
	if (flags & HDL_AM_ORDERED)
		in_order(in->peer, in->head.order);
	if (hdl_tp_progress(tp))
		fail("progress within a handler");
	if (am->data) {
		complete(am->ep, in);
		return;
	}
	in->fetch.done = fetched;
	int err = hdl_ep_fetch(am->ep, am->rts, in->buf, am->len, &in->fetch);
	if (err)
		fail("a fetch from rank %d: %s", in->peer, strerror(-err));
}

static void answered(struct in *in)
{
	struct out *o = (struct out *)(uintptr_t)in->head.answer;

	check(in->buf, in->head.len, key(hdl_job.rank, in->peer, in->head.index), "answer", in->head.index);
	free(in->buf);
	free(in);
	open_ins--;
	over(o);
}

static void fetched_answer(struct hdl_fetch *f, int err)
{
	if (err)
		fail("an answer: %s", strerror(-err));
	answered(container_of(f, struct in, fetch));
}

static void on_answer(void *context, const struct hdl_am *am)
{
	struct in *in = take(am);

	in->fetch.done = fetched_answer;
	if (am->data)
		answered(in);
	else if (hdl_ep_fetch(am->ep, am->rts, in->buf, am->len, &in->fetch))
		fail("an answer cannot be fetched");
}

static void send_match(struct hdl_ep *ep, struct out *o)
{
	for (unsigned n = burst; n && hdl_ep_send_now(ep, (int32_t)order_out[o->peer], MATCHED, "a", 2); n--)
		order_out[o->peer]++;
	o->matched.done = sent_match;
	int r = hdl_ep_send(ep, (int32_t)order_out[o->peer]++, MATCHED, false, "a", 2, &o->matched);
	if (r < 0)
		fail("a matching message: %s", strerror(-r));
	if (r)
		over(o);
}

static void send_one(int peer)
{
	unsigned index = sent_out[peer]++, flags = flags_of(hdl_job.rank, peer, index);
	struct out *o = calloc(1, sizeof(*o));
	struct head h = { .index = index, .len = size_of(hdl_job.rank, peer, index) };
	struct hdl_ep *ep = ep_of(tp, peer);
	bool ask = key(hdl_job.rank, peer, index) >> 60 & 1, match = matches(hdl_job.rank, peer, index);

	o->peer = peer;
	o->left = 1 + ask + match;
	o->buf = malloc(h.len + 1);
	fill(o->buf, h.len, key(hdl_job.rank, peer, index));
	fill(h.more, sizeof(h.more), index);
	h.answer = ask ? (uintptr_t)o : 0;
	if (flags & HDL_AM_ORDERED)
		h.order = order_out[peer]++;
	inflight[peer]++;
	outs++;
	o->am.send.done = sent;
	int r = hdl_am_send(ep, ASK, flags, &h, head_of(hdl_job.rank, peer, index), o->buf, h.len, &o->am);
	if (r < 0)
		fail("an active message to rank %d: %s", peer, strerror(-r));
	if (match)
		send_match(ep, o);
	if (r)
		over(o);
}

static bool some(void)
{
	bool did = false;

	for (int p = 0; p < hdl_job.size; p++) {
		int peer = (hdl_job.rank + p) % hdl_job.size;
		for (unsigned n = 1 + (unsigned)(mix(received + (uint64_t)p) % 6);
		     n && inflight[peer] < WINDOW && sent_out[peer] < messages; n--, did = true)
			send_one(peer);
	}
	return did;
}

static bool all(void)
{
	for (int p = 0; p < hdl_job.size; p++)
		if (sent_out[p] < messages)
			return false;
	return !outs && received == wanted && !open_ins;
}

static const struct traffic traffic = { some, all };

/* ---- modes of two ranks ------------------------------------------------------------------------------------------- */

static void ends(struct hdl_send *s, int err)
{
	errors += err != 0;
	ended++;
	if (s->priv[5] == 0xdead)
		fail("a send ends twice");
	s->priv[5] = 0xdead;	/* no operation of these keeps anything there */
}

static unsigned nobody(unsigned flags, unsigned id, size_t n)
{
	static char data[100000];
	struct hdl_am_send *am = calloc(1, sizeof(*am));	/* kept: one that ends twice is seen */

	am->send.done = ends;
	int r = hdl_am_send(ep_of(tp, 1), id, flags, NULL, 0, data, n, am);
	return r == 0;
}

static void unknown(void)
{
	unsigned idle = 0, pending = 0;

	if (hdl_job.rank == 0) {
		pending += nobody(HDL_AM_ORDERED, NOBODY, 10);
		pending += nobody(HDL_AM_ANNOUNCE, NOBODY + 1, 20);
		pending += nobody(0, NOBODY + 2, 100000);
		while (ended < pending)
			turn(&idle);
		if (errors != 2)
			fail("%u announced messages were refused, not 2", errors);
	}
	run(&traffic, false);
}

static void dies(void)
{
	unsigned idle = 0, pending = 0;

	run(&traffic, false);
	if (hdl_job.rank == 1) {
		kill(getpid(), SIGKILL);
		pause();
	}
	for (unsigned i = 0; dead < 0; i++) {
		/* some of each sort, and then enough to detect the death */
		if (i < 200 || i % 64 == 0)
			pending += nobody(i % 4, ASK, i % 5 == 4 ? 100000 : i % 1000);
		turn(&idle);
	}
	while (ended < pending)
		turn(&idle);
	struct hdl_am_send am = { .send.done = ends };
	int again = hdl_am_send(ep_of(tp, 1), ASK, 0, NULL, 0, NULL, 0, &am);
	fprintf(stderr, "rank %d is dead, %u of %u ended with an error, then %s\n", dead, errors, pending,
		again < 0 ? "refused" : "accepted");
	fflush(NULL);
	_exit(dead == 1 && again < 0 && errors ? 0 : 1);
}

static void refuses(void)
{
	struct hdl_am_send am = { .send.done = ends };
	char head[HDL_AM_HEAD_MAX + 1] = "";

	if (hdl_am_register(tp, HDL_AM_IDS, on_ask, NULL) != -EINVAL || hdl_am_register(tp, ASK, on_answer, NULL) != -EEXIST)
		fail("a number is given that cannot be");
	if (hdl_am_send(ep_of(tp, 0), HDL_AM_IDS, 0, NULL, 0, NULL, 0, &am) != -EINVAL ||
	    hdl_am_send(ep_of(tp, 0), ASK, 0, head, sizeof(head), NULL, 0, &am) != -EINVAL)
		fail("a message is sent that cannot be");
	run(&traffic, false);
}

static uint64_t counter(const char *name, const struct hdl_ep *ep)
{
	const struct hdl_counter *c;

	for (unsigned i = 0; (c = hdl_counter(i)); i++)
		if (!strcmp(c->name, name))
			return hdl_counter_read(tp, i, ep);
	fail("there is no counter %s", name);
}

/* Checks the counters against the messages sent: of each peer, of all peers, and by the ways of the rendezvous. */
static void counters(void)
{
	static const char *const lanes[] = { "ring", "srq", "ud" };
	const struct hdl_counter *c;
	uint64_t out = 0, in = 0, of_peers = 0, fetched = 0;
	char name[64];

	for (unsigned i = 0; (c = hdl_counter(i)); i++) {
		for (const char *p = c->name; *p; p++)
			if (!strchr("abcdefghijklmnopqrstuvwxyz_", *p))
				fail("a counter has the name %s", c->name);
		for (unsigned k = 0; k < i; k++)
			if (!strcmp(hdl_counter(k)->name, c->name))
				fail("two counters have the name %s", c->name);
		if (!c->per_peer && hdl_counter_read(tp, i, ep_of(tp, 0)))
			fail("%s is not per peer, and rank 0 has it", c->name);
	}
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "%s_messages_sent", lanes[i]);
		out += counter(name, NULL);
		for (struct hdl_ep *ep = hdl_ep_next(tp, NULL); ep; ep = hdl_ep_next(tp, ep))
			of_peers += counter(name, ep);
		snprintf(name, sizeof(name), "%s_messages_received", lanes[i]);
		in += counter(name, NULL);
	}
	fetched = counter("rendezvous_read", NULL) + counter("rendezvous_split", NULL) + counter("rendezvous_written", NULL);
	if (of_peers != out || counter("peers", NULL) != (uint64_t)hdl_job.size)
		fail("%llu messages to all peers, %llu to each", (unsigned long long)out, (unsigned long long)of_peers);
	if (in < wanted || out < wanted || fetched < counter("rendezvous_received", NULL) ||
	    !counter("rendezvous_received", NULL))
		fail("%llu messages counted as sent, %llu as received, %llu fetched", (unsigned long long)out,
		     (unsigned long long)in, (unsigned long long)fetched);
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = peer_failed };
	const char *mode = argc > 4 ? argv[4] : "";

	if (argc > 1)
		messages = (unsigned)atoi(argv[1]);
	if (argc > 2)
		largest = (size_t)atol(argv[2]);
	if (argc > 3)
		seed = (unsigned)atoi(argv[3]);
	if (!strcmp(mode, "dies"))
		signal(SIGTERM, SIG_IGN);
	start(&up);
	size_t n = (size_t)hdl_job.size;
	if (hdl_am_register(tp, ASK, on_ask, &seen) || hdl_am_register(tp, ANSWER, on_answer, NULL))
		return 1;
	sent_out = calloc(n, sizeof(*sent_out));
	order_out = calloc(n, sizeof(*order_out));
	order_in = calloc(n, sizeof(*order_in));
	inflight = calloc(n, sizeof(*inflight));
	seen = calloc(n, sizeof(*seen));
	for (size_t i = 0; i < n; i++)
		seen[i] = calloc(messages + 1, 1);
	wanted = (uint64_t)messages * n;
	burst = strcmp(mode, "stream") ? 0 : 100;
	if (!strcmp(mode, "unknown"))
		unknown();
	else if (!strcmp(mode, "dies"))
		dies();
	else if (!strcmp(mode, "stops"))
		run_while_stopped(&traffic);
	else if (!strcmp(mode, "refuses"))
		refuses();
	else
		run(&traffic, !strcmp(mode, "threads"));
	if (!*mode)
		counters();
	return finish();
}
