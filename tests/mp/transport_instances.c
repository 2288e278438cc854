/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two instances of the transport in each process. The second one is not published: the addresses of the second travel in messages
 * of the first. Ranks exchange numbered messages of random lengths by both; an instance must deliver only messages of the same
 * instance of its peers. Then one instance ends with messages of the other under way, and the other goes on.
 *
 *     transport_instances MESSAGES SEED WHAT [threads]
 *
 * WHAT: the instance that ends first, 0 or 1. threads: each instance has a thread, which waits in that instance.
 */
#include "transport_test.h"

#define PEERS 8
#define CONTEXT 2
#define ADDRESS 4			/* the context of messages that carry one */
#define MOST 100000u			/* bytes of a message */

struct message {
	uint32_t instance, src, number, len;	/* len: with this head */
};

struct side {
	struct hdl_tp *tp;
	unsigned which;
	uint32_t rng;
	uint32_t came[PEERS], whole[PEERS];	/* messages from each; those with all data here */
	uint32_t begun, ended;
	uint32_t until[PEERS];		/* messages to each, so far */
};
static struct side side[2];
static int given;			/* addresses of the second instances of other ranks */

struct send {
	struct hdl_send send;
	struct side *side;
	char data[];
};
struct fetch {
	struct hdl_fetch fetch;
	struct side *side;
	int src;
	uint32_t number;
	char data[];
};

static _Noreturn void wrong(const char *what, long a, long b)
{
	fail("%s (%ld, %ld)", what, a, b);
}

static uint32_t random_bits(uint32_t *rng)
{
	*rng = *rng * 1664525u + 1013904223u;
	return *rng >> 8;
}

static uint8_t byte_of(const struct message *m, uint32_t i)
{
	return (uint8_t)(i * 7 + m->number * 13 + m->src * 31 + m->instance * 101);
}

/* An instance must get the messages of the same instance only, in their order. */
static void check(const struct side *s, int src, uint32_t number, const char *data, size_t len)
{
	struct message m;

	if (len < sizeof(m))
		wrong("a message is too short", (long)len, src);
	memcpy(&m, data, sizeof(m));
	if (m.instance != s->which)
		wrong("an instance has got a message of another one", m.instance, s->which);
	if (m.src != (uint32_t)src || m.len != len)
		wrong("a message says that it is from another rank, or is cut", (long)m.src, (long)len);
	if (m.number != number)
		wrong("a message is not the next one", m.number, number);
	for (uint32_t i = sizeof(m); i < len; i += i < 256 ? 1 : 97)
		if ((uint8_t)data[i] != byte_of(&m, i))
			wrong("a byte is wrong", i, (long)len);
}

static void fetched(struct hdl_fetch *f, int err)
{
	struct fetch *g = container_of(f, struct fetch, fetch);

	if (err)
		wrong("a fetch has failed", err, g->src);
	check(g->side, g->src, g->number, g->data, f->len);
	g->side->whole[g->src]++;
	free(g);
}

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	struct side *s = context;
	uint64_t len = hdl_msg_len(hdr, payload);
	struct fetch *f;

	if (hdr->context == ADDRESS) {
		int err = hdl_peer_add(side[1].tp, src, payload, (size_t)len);
		if (err || s->which)
			wrong("an address is not taken", err, src);
		given++;
		return;
	}
	if (hdr->kind != HDL_RTS) {
		check(s, src, s->came[src]++, payload, (size_t)len);
		s->whole[src]++;
		return;
	}
	f = malloc(sizeof(*f) + len);
	f->fetch.done = fetched;
	f->side = s;
	f->src = src;
	f->number = s->came[src]++;
	if (hdl_ep_fetch(ep_of(s->tp, src), payload, f->data, (size_t)len, &f->fetch))
		wrong("a message cannot be fetched", src, (long)len);
}

static void peer_failed(void *context, int peer, int err)
{
	const struct side *s = context;

	if (!hdl_ep_has_departed(s->tp, peer))
		wrong("a peer has failed", peer, err);
}

static void sent(struct hdl_send *send, int err)
{
	struct send *s = container_of(send, struct send, send);

	if (err)
		wrong("a send has failed", err, 0);
	s->side->ended++;
	free(s);
}

static void begin(struct side *s, int peer)
{
	uint32_t most = random_bits(&s->rng) % 16 ? 2000 : MOST;
	struct message m = { .instance = s->which, .src = (uint32_t)hdl_job.rank, .number = s->until[peer]++,
			     .len = (uint32_t)sizeof(m) + random_bits(&s->rng) % most };
	struct send *send = malloc(sizeof(*send) + m.len);
	int r;

	*send = (struct send){ .send.done = sent, .side = s };
	memcpy(send->data, &m, sizeof(m));
	for (uint32_t i = sizeof(m); i < m.len; i++)
		send->data[i] = (char)byte_of(&m, i);
	s->begun++;
	r = hdl_ep_send(ep_of(s->tp, peer), 1, CONTEXT, random_bits(&s->rng) % 8 == 0, send->data, m.len, &send->send);
	if (r < 0)
		wrong("a message cannot be sent", r, peer);
	if (r)
		sent(&send->send, 0);
}

static void begin_all(struct side *s)
{
	for (int p = 0; p < hdl_job.size; p++)
		begin(s, p);
}

/* Whether all messages have come: each rank sends as many to each. (Other ranks may be ahead; their messages may wait for a rank
 * that is in hdl_tp_fini of the other instance.) */
static bool is_over(const struct side *s)
{
	bool over = s->ended == s->begun;

	for (int p = 0; p < hdl_job.size; p++)
		over &= s->whole[p] >= s->until[p];
	return over;
}

static void settle(struct side *s)
{
	unsigned idle = 0;

	while (!is_over(s))
		turn_of(s->tp, false, &idle);
}

/* By one thread: the instances in turns, without sleeping, since a message for one instance need not
 * wake a sleep in the other. */
static void interleaved(unsigned messages)
{
	for (unsigned i = 0; i < messages; i++) {
		begin_all(&side[i % 2]);
		begin_all(&side[!(i % 2)]);
		hdl_tp_progress(side[0].tp);
		hdl_tp_progress(side[1].tp);
	}
	while (!is_over(&side[0]) || !is_over(&side[1]))
		if (!(hdl_tp_progress(side[0].tp) + hdl_tp_progress(side[1].tp)))
			sched_yield();
}

static unsigned wanted;

static void *one_of_two(void *arg)
{
	for (unsigned i = 0; i < wanted; i++) {
		begin_all(arg);
		if (i % 4 == 3)
			settle(arg);
	}
	settle(arg);
	return NULL;
}

static void at_once(unsigned messages)
{
	pthread_t thread[2];

	wanted = messages;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, one_of_two, &side[i]))
			wrong("there is no thread", i, 0);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
}

/* Each process sends the address of its second instance to all other ranks. */
static void exchange_addresses(void)
{
	unsigned idle = 0;

	for (int p = 0; p < hdl_job.size; p++) {
		struct send *s = p == hdl_job.rank ? NULL : malloc(sizeof(*s) + HDL_ADDRESS_MAX);
		size_t n;
		if (!s)
			continue;
		*s = (struct send){ .send.done = sent, .side = &side[0] };
		n = hdl_tp_address(side[1].tp, s->data);
		side[0].begun++;
		if (hdl_ep_send(ep_of(side[0].tp, p), 1, ADDRESS, false, s->data, n, &s->send) == 1)
			sent(&s->send, 0);
	}
	while (given < hdl_job.size - 1 || side[0].ended < side[0].begun)
		turn_of(side[0].tp, false, &idle);
}

/* A barrier ahead of hdl_tp_fini: a process that ends one instance makes no progress in the other, so lost messages would not be
 * sent again, and the ranks that wait for them would not come to the end. */
static void come_together(void)
{
	int fenced = hdl_rt_fence_begin();

	while (!fenced) {
		hdl_tp_progress(side[0].tp);
		hdl_tp_progress(side[1].tp);
		fenced = hdl_rt_fence_wait(1);
	}
}

int main(int argc, char **argv)
{
	unsigned messages = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	uint32_t seed = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
	int first = argc > 3 && atoi(argv[3]);
	bool threads = argc > 4;
	struct side *last = &side[!first];

	if (hdl_vars_load() || hdl_rt_init(true))
		return 1;
	if (hdl_job.size > PEERS)
		wrong("too many ranks", hdl_job.size, PEERS);
	for (unsigned i = 0; i < 2; i++) {
		struct hdl_upcalls up = { .arrived = arrived, .peer_failed = peer_failed, .context = &side[i], .unpublished = i };
		side[i] = (struct side){ .which = i, .rng = seed * 77 + i * 13 + (uint32_t)hdl_job.rank };
		if (hdl_tp_init(&up, &side[i].tp))
			return 1;
	}
	tp = last->tp;
	exchange_addresses();
	(threads ? at_once : interleaved)(messages);
	come_together();

	/* one instance ends, with messages of the other under way */
	for (unsigned i = 0; i < 8; i++)
		begin_all(last);
	if (hdl_tp_fini(&side[first].tp) || side[first].tp)
		wrong("an instance does not end", first, 0);
	settle(last);
	for (unsigned i = 0; i < messages; i++) {
		begin_all(last);
		if (i % 8 == 7)
			settle(last);
	}
	settle(last);
	if (hdl_tp_fini(&tp))
		return 1;
	for (int i = 0; i < 2; i++)
		for (int p = 0; p < hdl_job.size; p++)
			if (side[i].came[p] != side[i].until[p] || side[i].whole[p] != side[i].until[p])
				wrong("not as many messages have come as were sent", i, p);
	return finish();
}
