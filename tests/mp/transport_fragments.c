/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are longer than a packet, and not than HEDDLE_EAGER_MAX, where there is nothing but UD: as long as the window has
 * room for all packets of a message, the message is sent unasked, by one call of the device; else the message is announced, as
 * are longer and synchronous ones. All arrive in order, whole.
 *
 *     transport_fragments	2 ranks, HEDDLE_TRANSPORT=ud
 *
 * Uses internal counters of the transport: messages by each way, and calls of the device.
 */
#include "transport_test.h"

enum { CONTEXT = 7, MANY = 200, SENDS = MANY + 64 };

static int expected;
static unsigned waiting, fetching;
static struct hdl_send sends[SENDS];
static unsigned nsends;
static size_t lengths[SENDS];		/* by tag; both ranks compute them */
static int ntags;

static unsigned char byte_of(int tag, size_t i)
{
	return (unsigned char)mix((uint64_t)tag << 32 | i);
}

static void compare(int tag, const unsigned char *data, size_t len)
{
	if (len != lengths[tag])
		fail("message %d has %zu bytes, not %zu", tag, len, lengths[tag]);
	for (size_t i = 0; i < len; i++)
		if (data[i] != byte_of(tag, i))
			fail("byte %zu of message %d is wrong", i, tag);
}

struct fetch {
	struct hdl_fetch f;
	int tag;
	unsigned char data[];
};

static void fetched(struct hdl_fetch *f, int err)
{
	struct fetch *of = container_of(f, struct fetch, f);

	if (err)
		fail("a fetch failed: %s", strerror(-err));
	compare(of->tag, of->data, f->len);
	free(of);
	fetching--;
}

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	if (hdr->tag != expected)
		fail("message %d from rank %d comes when %d is expected", hdr->tag, src, expected);
	expected++;
	if (hdr->kind == HDL_EAGER) {
		compare(hdr->tag, payload, hdr->len);
		return;
	}
	size_t len = lengths[hdr->tag];
	struct fetch *of = calloc(1, sizeof(*of) + len);
	if (!of)
		fail("no memory");
	of->tag = hdr->tag;
	of->f.done = fetched;
	fetching++;
	if (hdl_ep_fetch(ep_of(tp, src), payload, of->data, len, &of->f))
		fail("nothing is fetched");
}

static void done(struct hdl_send *s, int err)
{
	if (err)
		fail("a send failed: %s", strerror(-err));
	waiting--;
}

static unsigned calls, requests;
static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int counted_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	calls++;
	for (struct ibv_send_wr *w = wr; w; w = w->next)
		requests++;
	return post_send(qp, wr, bad);
}

static void pack(const struct hdl_send *s, uint64_t from, void *to, uint64_t n)
{
	int tag = (int)(s - sends);

	for (uint64_t i = 0; i < n; i++)
		((unsigned char *)to)[i] = byte_of(tag, from + i);
}

/* Sends the next message. Returns true if the message was sent at once. The memory and the expected data stay unchanged. */
static bool send_one(struct hdl_ep *ep, size_t len, bool sync, bool runs)
{
	int tag = (int)nsends++, r;
	struct hdl_send *s = &sends[tag];
	unsigned char *data = malloc(len + 1);

	for (size_t i = 0; i < len; i++)
		data[i] = byte_of(tag, i);
	s->done = done;
	s->pack = runs ? pack : NULL;
	r = runs ? hdl_ep_send_runs(ep, tag, CONTEXT, sync, len, s) : hdl_ep_send(ep, tag, CONTEXT, sync, data, len, s);
	if (r < 0)
		fail("a send: %s", strerror(-r));
	waiting += !r;
	if (r) {
		memset(data, 0x77, len);	/* the memory is the caller's again */
		free(data);
	}
	return r;
}

static void settle(struct hdl_ep *ep)
{
	unsigned idle = 0;

	while (waiting || !hdl_rel_idle(ep->rel))
		turn(&idle);
}

static size_t short_ones[8];
static unsigned nshort;

static void compute(uint32_t packet)
{
	size_t of[] = { packet, packet + 1, 2 * packet - 1, 2 * packet, hdl_vars.eager_max, 1, 0 };

	for (unsigned i = 0; i < ARRAY_SIZE(of); i++)
		if (of[i] <= hdl_vars.eager_max)
			short_ones[nshort++] = of[i];
	/* the first; the short ones of one run, and of several; two that are announced; many */
	lengths[ntags++] = 1;
	for (unsigned i = 0; i < 2 * nshort; i++)
		lengths[ntags++] = short_ones[i / 2];
	lengths[ntags++] = hdl_vars.eager_max + 1;
	lengths[ntags++] = hdl_vars.eager_max;
	for (unsigned i = 0; i < MANY; i++)
		lengths[ntags++] = short_ones[i % nshort];
}

static void send_all(struct hdl_ep *ep, uint32_t packet)
{
	unsigned many = 0;

	send_one(ep, lengths[0], false, false);
	settle(ep);
	for (unsigned i = 0; i < 2 * nshort; i++) {
		size_t len = lengths[nsends];
		unsigned n = len ? (unsigned)((len + packet - 1) / packet) : 1;

		calls = requests = 0;
		if (!send_one(ep, len, false, i & 1))
			fail("%zu bytes do not leave at once", len);
		if (calls != 1 || requests != n)
			fail("%zu bytes were %u requests in %u calls, and not %u in one", len, requests, calls, n);
		settle(ep);
	}
	if (ep->out_rndv.msgs || ep->out_ud.msgs != nsends)
		fail("%llu of %u messages went by UD unasked", (unsigned long long)ep->out_ud.msgs, nsends);
	if (send_one(ep, lengths[nsends], false, false) || send_one(ep, lengths[nsends], true, false))
		fail("a message that is longer, or synchronous, was not announced");
	settle(ep);
	if (ep->out_rndv.msgs != 2)
		fail("%llu messages were announced, not 2", (unsigned long long)ep->out_rndv.msgs);
	/* a message without room is announced, or waits */
	while (nsends < (unsigned)ntags)
		many += !send_one(ep, lengths[nsends], false, nsends & 1);
	if (!many)
		fail("%u messages, and all of them left at once", nsends);
	settle(ep);
}

int main(void)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = no_peer_fails };
	unsigned idle = 0;

	start(&up);
	if (hdl_job.size != 2)
		fail("%d ranks: 2 are wanted", hdl_job.size);
	struct hdl_ep *ep = ep_of(tp, !hdl_job.rank);
	struct ibv_context_ops *ops = &ep->dev->port.ctx->ops;
	if (ep->dev->max_ud >= hdl_vars.eager_max)
		fail("a packet carries %u bytes: no eager message is longer", ep->dev->max_ud);
	compute(ep->dev->max_ud);
	post_send = ops->post_send;
	ops->post_send = counted_post;
	if (!hdl_job.rank)
		send_all(ep, ep->dev->max_ud);
	else
		while (expected < ntags || fetching)
			turn(&idle);
	ops->post_send = post_send;
	return finish();
}
