/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory on the transport's door: every rank puts into, gets from and updates memory of every rank (itself included), at random,
 * some operations at a time, and flushes now and then. What a get brings, and what lies in the memory at the end, is compared with a
 * model byte by byte; the atomic operations of all ranks on the same words with what they must come to.
 *
 *     transport_rma [operations per pair [largest [seed [mode]]]]
 *
 * RMA_ATOMICS=device: the words are updated by the device (HDL_MR_ATOMIC_DEVICE), else by handlers, at odd addresses too.
 * RMA_BREAK=N: after every N operations a rank brings its queues that can be had again into the state of an error.
 *
 * mode: threads   a second thread of each rank operates, too
 *       stops     rank 1 is stopped for a while: nothing fails
 *       dies      rank 1 is killed: all that rank 0 has under way ends, each once, with an error
 *       gone      a region is deregistered, and its key used: that fails, and nothing else
 *       stale     hundreds of operations by such a key, without a flush between
 *       unmapped  what is got into memory that cannot be registered fails, and nothing else
 *       faults    operations on a region whose memory is unmapped or protected, and with such local memory: each fails alone
 *       early     requests by such a key break rank 1's new queues before it may send by them: they fail, and nothing else (RC)
 *       busy      what is under way is not deregistered, nor its key released
 *       flushes   several behind one operation, and behind one that fails (one rank, UD: nothing ends before there is progress)
 *       refuses   what cannot be is refused
 */
#include <sys/mman.h>

#include "transport_test.h"

enum { KEYS = 100, TOTALS, SAY, SLOTS = 24, WINDOW = 12, GUARD = 64 };
#define SLOT_BYTES ((size_t)3000)

static unsigned operations = 400, seed = 1, breaks;
static size_t largest = 150000;
static bool by_device;

/* What is shared by all: words of each width, one for each way to use it. */
enum { ADD, XOR, SWAPS, CAS, BITS, USES };
struct words {
	uint64_t w8[USES];
	uint32_t w4[USES + 1];
};
struct totals {
	uint64_t sum[2][USES];		/* by width: 8, 4 */
	uint64_t may[2];		/* of ADD: what nobody knows of */
	uint64_t hash;			/* of what was put */
};

static char *memory, *odd;
static size_t area;			/* bytes that each origin has of each target's memory: slots, and a long one */
static struct words *words;
static struct hdl_mr *mr_memory, *mr_words;

struct target {
	struct hdl_rkey *memory, *words, *was;
	char *model;			/* of this rank's part of its memory */
	bool used[SLOTS + 1];
	unsigned begun, ended, inflight;
	uint64_t bits[2];		/* of BITS: this rank's bit is set */
	bool bits_busy[2], cas_busy[2];
	uint64_t guess[2];
	uint64_t last_add[2];
	bool flushing, add_busy[2];
	struct hdl_rma flush;
	uint64_t flush_from;
	struct totals totals;
	struct hdl_am_send keys, told;
	char key[2 * HDL_RKEY_MAX + 8];
};
static struct target *targets;
static unsigned have_keys, have_totals, pending_sends;
static struct totals all;
static int dead = -1;
static unsigned said;
static uint64_t rng, inside_now, number;

struct operation {
	struct hdl_rma rma;
	int target;
	unsigned slot;
	size_t at, len;
	char *buf;
	bool get, atomic, over;
	int use, width;			/* width: 0: 8 bytes, 1: 4 */
	uint64_t operand, result;
	uint64_t number;
};
static unsigned errors, ended;
static uint64_t oldest_of[64];

static uint64_t random_bits(void)
{
	rng = rng * 6364136223846793005ull + 1442695040888963407ull;
	return rng >> 24;
}

static void peer_failed(void *context, int peer, int err)
{
	(void)context;
	dead = peer;
}

static struct hdl_mr *region(void *p, size_t n, unsigned access)
{
	struct hdl_mr *mr = NULL;
	int err = hdl_mr_register(tp, p, n, access, &mr);

	if (err)
		fail("a region of %zu bytes: %s", n, strerror(-err));
	return mr;
}

/* ---- keys ----------------------------------------------------------------------------------------------------------- */

static void sent(struct hdl_send *s, int err)
{
	if (err)
		fail("an active message: %s", strerror(-err));
	pending_sends--;
}

static void send_am(int to, unsigned id, const void *data, size_t n, struct hdl_am_send *am)
{
	am->send.done = sent;
	pending_sends++;
	int r = hdl_am_send(hdl_ep(tp, to), id, HDL_AM_ORDERED, NULL, 0, data, n, am);
	if (r < 0)
		fail("an active message to rank %d: %s", to, strerror(-r));
	pending_sends -= (unsigned)r;
}

/* Two keys, each behind its length. */
static size_t pack_keys(char *to, struct hdl_mr *a, struct hdl_mr *b)
{
	char *p = to;

	for (int i = 0; i < 2; i++) {
		uint32_t n = (uint32_t)hdl_mr_pack(i ? b : a, p + 4);
		memcpy(p, &n, 4);
		p += 4 + n;
	}
	return (size_t)(p - to);
}

/* A message whose payload did not come with it (HEDDLE_EAGER_MAX). */
struct late {
	struct hdl_fetch fetch;
	int from;
	void (*take)(int from, const char *data);
	char data[512];
};

static void late(struct hdl_fetch *f, int err)
{
	struct late *l = container_of(f, struct late, fetch);

	if (err)
		fail("a message of rank %d: %s", l->from, strerror(-err));
	l->take(l->from, l->data);
	free(l);
}

static void taken_by(void (*take)(int from, const char *data), const struct hdl_am *am)
{
	int from = hdl_ep_note(am->ep)->rank;

	if (am->data) {
		take(from, am->data);
		return;
	}
	struct late *l = calloc(1, sizeof(*l));
	l->from = from;
	l->take = take;
	l->fetch.done = late;
	if (am->len > sizeof(l->data) || hdl_ep_fetch(am->ep, am->rts, l->data, am->len, &l->fetch))
		fail("a message of rank %d cannot be fetched", from);
}

static void take_keys(int from, const char *p)
{
	struct target *t = &targets[from];
	struct hdl_rkey *k[2];

	for (int i = 0; i < 2; i++) {
		uint32_t n;
		memcpy(&n, p, 4);
		if (hdl_rkey_unpack(hdl_ep(tp, from), p + 4, n, &k[i]))
			fail("a key cannot be unpacked");
		p += 4 + n;
	}
	t->was = t->memory;
	t->memory = k[0];
	t->words = k[1];
	have_keys++;
}

static void on_keys(void *context, const struct hdl_am *am)
{
	taken_by(take_keys, am);
}

static uint64_t hash_of(const char *p)
{
	uint64_t h = 0xcbf29ce484222325u;	/* FNV-1a */

	for (size_t i = 0; i < area; i++)
		h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
	return h;
}

static void take_totals(int from, const char *data)
{
	struct totals t;

	memcpy(&t, data, sizeof(t));
	for (int w = 0; w < 2; w++) {
		for (int u = 0; u < USES; u++)
			all.sum[w][u] = u == XOR ? all.sum[w][u] ^ t.sum[w][u] : all.sum[w][u] + t.sum[w][u];
		all.may[w] += t.may[w];
	}
	/* what was put and flushed lies here */
	if (t.hash != hash_of(memory + (size_t)from * area))
		fail("rank %d has put, and flushed, what is not here", from);
	have_totals++;
}

static void on_totals(void *context, const struct hdl_am *am)
{
	taken_by(take_totals, am);
}

static void on_say(void *context, const struct hdl_am *am)
{
	said++;
}

static void exchange_keys(void)
{
	unsigned idle = 0;

	for (int p = 0; p < hdl_job.size; p++) {
		size_t n = pack_keys(targets[p].key, mr_memory, mr_words);
		send_am(p, KEYS, targets[p].key, n, &targets[p].keys);
	}
	while (have_keys < (unsigned)hdl_job.size || pending_sends)
		turn(&idle);
}

/* ---- operations ----------------------------------------------------------------------------------------------------- */

static void break_queues(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	for (uint32_t i = 0; i < tp->nsqs; i++) {
		struct hdl_sq *sq = tp->sqs[i];
		if (!sq || !sq->qp || !(sq->kind->reset || (sq->kind->renew && sq->ep && sq->ep->sq == sq)))
			continue;
		if (ibv_modify_qp(sq->qp, &a, IBV_QP_STATE))
			fail("queue %u cannot be broken", sq->qp->qp_num);
		if (!sq->ep)
			continue;
		/* as a device reports it */
		sq->ep->queues->event = IBV_EVENT_QP_FATAL;
		hdl_wire_broke(sq->ep, NULL);
	}
}

static void check_get(const struct operation *o, const struct target *t)
{
	const char *want = t->model + (o->slot == SLOTS ? SLOTS * SLOT_BYTES : o->slot * SLOT_BYTES) + o->at;

	for (size_t i = 0; i < o->len; i++)
		if (o->buf[i] != want[i])
			fail("byte %zu of %zu, got from slot %u of rank %d at %zu, is %#x instead of %#x", i, o->len, o->slot, o->target, o->at,
			     (unsigned char)o->buf[i], (unsigned char)want[i]);
}

static void check_atomic(const struct operation *o, struct target *t, int err)
{
	uint64_t bit = 1ull << (hdl_job.rank % 32);

	if (err == -ECONNRESET && breaks) {
		/* once, or not at all */
		if (o->use == ADD)
			t->totals.may[o->width] += o->operand;
		t->add_busy[o->width] &= o->use != ADD;
		t->bits_busy[o->width] &= o->use != BITS;
		t->cas_busy[o->width] &= o->use != CAS;
		return;
	}
	if (err)
		fail("an atomic operation on rank %d: %s", o->target, strerror(-err));
	switch (o->use) {
	case ADD:
		t->add_busy[o->width] = false;
		if (o->result < t->last_add[o->width] && !o->width)
			fail("a sum went from %llu to %llu", (unsigned long long)t->last_add[0], (unsigned long long)o->result);
		t->last_add[o->width] = o->result + o->operand;
		t->totals.sum[o->width][ADD] += o->operand;
		break;
	case XOR:
		t->totals.sum[o->width][XOR] ^= o->operand;
		break;
	case SWAPS:
		t->totals.sum[o->width][SWAPS] += o->operand - o->result;
		break;
	case CAS:
		if (o->result == t->guess[o->width])
			t->totals.sum[o->width][CAS]++;
		t->guess[o->width] = o->result == t->guess[o->width] ? o->result + 1 : o->result;
		t->cas_busy[o->width] = false;
		break;
	case BITS:
		if (!breaks && (o->result & bit) != t->bits[o->width])
			fail("this rank's bit at rank %d is %#llx instead of %#llx", o->target, (unsigned long long)(o->result & bit),
			     (unsigned long long)t->bits[o->width]);
		t->bits[o->width] ^= bit;
		t->bits_busy[o->width] = false;
		break;
	}
}

static void over(struct operation *o, int err)
{
	struct target *t = &targets[o->target];

	if (o->over)
		fail("an operation ends twice");
	o->over = true;
	t->inflight--;
	t->ended++;
	if (o->atomic) {
		check_atomic(o, t, err);
	} else {
		if (err)
			fail("a %s of %zu bytes, rank %d: %s", o->get ? "get" : "put", o->len, o->target, strerror(-err));
		if (o->get)
			check_get(o, t);
		t->used[o->slot] = false;
		memset(o->buf, 0x55, o->len);
		free(o->buf);
	}
	if (t->flushing && o->number < t->flush_from)
		oldest_of[o->target % 64]--;
	free(o);
}

static void done(struct hdl_rma *op, int err)
{
	if (inside_now)
		fail("done() within the call that begins an operation");
	over(container_of(op, struct operation, rma), err);
}

static void flushed(struct hdl_rma *op, int err)
{
	struct target *t = container_of(op, struct target, flush);

	if (err && !(breaks && err == -ECONNRESET))
		fail("a flush: %s", strerror(-err));
	if (oldest_of[(t - targets) % 64])
		fail("a flush ends before %llu operations that were begun before it", (unsigned long long)oldest_of[(t - targets) % 64]);
	t->flushing = false;
}

static void began(struct operation *o, int r)
{
	struct target *t = &targets[o->target];

	if (r < 0 && !(r == -ECONNRESET && breaks && o->atomic))
		fail("an operation on rank %d: %s", o->target, strerror(-r));
	if (r)
		over(o, r < 0 ? r : 0);
	(void)t;
}

static struct operation *operation(int target)
{
	struct operation *o = calloc(1, sizeof(*o));

	if (!o)
		fail("out of memory");
	o->target = target;
	o->rma.done = done;
	o->number = number++;
	targets[target].begun++;
	targets[target].inflight++;
	return o;
}

static bool copy(int target)
{
	struct target *t = &targets[target];
	unsigned slot = (unsigned)(random_bits() % (SLOTS + (random_bits() % 8 == 0)));
	size_t most = slot == SLOTS ? largest : SLOT_BYTES, at, begin = slot * SLOT_BYTES;

	if (t->used[slot])
		return false;
	struct operation *o = operation(target);
	at = random_bits() % most;
	o->slot = slot;
	o->at = at;
	o->len = random_bits() % 3 ? random_bits() % 64 : random_bits() % (most - at + 1);
	if (o->len > most - at)
		o->len = most - at;
	o->buf = malloc(o->len + 1);
	o->get = random_bits() % 2;
	t->used[slot] = true;
	inside_now++;
	int r;
	if (o->get) {
		memset(o->buf, 0x77, o->len);
		r = hdl_get(t->memory, (size_t)hdl_job.rank * area + begin + at, o->buf, o->len, &o->rma);
	} else {
		for (size_t i = 0; i < o->len; i++)
			o->buf[i] = (char)random_bits();
		memcpy(t->model + begin + at, o->buf, o->len);
		r = hdl_put(t->memory, (size_t)hdl_job.rank * area + begin + at, o->buf, o->len, &o->rma);
	}
	inside_now--;
	began(o, r);
	return true;
}

static bool update(int target)
{
	struct target *t = &targets[target];
	uint64_t bit = 1ull << (hdl_job.rank % 32), compare = 0;
	enum hdl_update what = HDL_FETCH_ADD;
	int use = (int)(random_bits() % USES), w = (int)(random_bits() % 2);
	size_t at = (w ? offsetof(struct words, w4) + 4 * (size_t)use : 8 * (size_t)use) + !by_device;

	if ((use == BITS && t->bits_busy[w]) || (use == CAS && t->cas_busy[w]) || (use == ADD && t->add_busy[w]))
		return false;
	struct operation *o = operation(target);
	o->atomic = true;
	o->use = use;
	o->width = w;
	o->operand = random_bits() & (w ? 0xffff : 0xffffffffff);
	switch (use) {
	case ADD:
		t->add_busy[w] = true;
		break;
	case XOR:
		what = HDL_XOR;
		break;
	case SWAPS:
		what = HDL_SWAP;
		break;
	case CAS:
		what = HDL_COMPARE_SWAP;
		compare = t->guess[w];
		o->operand = compare + 1;
		t->cas_busy[w] = true;
		break;
	case BITS:
		what = t->bits[w] ? HDL_AND : HDL_OR;
		o->operand = t->bits[w] ? ~bit : bit;
		t->bits_busy[w] = true;
		break;
	}
	bool blind = use == XOR && random_bits() % 2;
	inside_now++;
	int r = hdl_atomic(t->words, at, what, w ? 4 : 8, o->operand, compare, blind ? NULL : &o->result, &o->rma);
	inside_now--;
	began(o, r);
	return true;
}

static void flush(int target)
{
	struct target *t = &targets[target];

	t->flushing = true;
	t->flush.done = flushed;
	t->flush_from = number;
	oldest_of[target % 64] = t->inflight;
	int r = hdl_flush(hdl_ep(tp, target), &t->flush);
	if (r == 1 && t->inflight)
		fail("a flush is over at once, and %u operations are under way", t->inflight);
	if (r)
		flushed(&t->flush, r < 0 ? r : 0);
}

static bool some(void)
{
	static unsigned since;
	bool did = false;

	for (int p = 0; p < hdl_job.size; p++) {
		int target = (hdl_job.rank + p) % hdl_job.size;
		struct target *t = &targets[target];
		for (unsigned n = 1 + (unsigned)(random_bits() % 4); n && t->inflight < WINDOW && t->begun < operations; n--) {
			if (random_bits() % 3 ? copy(target) : update(target))
				did = true;
			if (breaks && ++since % breaks == 0)
				break_queues();
		}
		if (!t->flushing && random_bits() % 16 == 0)
			flush(target);
	}
	return did;
}

static bool all_done(void)
{
	for (int p = 0; p < hdl_job.size; p++)
		if (targets[p].begun < operations || targets[p].inflight || targets[p].flushing)
			return false;
	return true;
}

static const struct traffic traffic = { some, all_done };

/* Everybody tells everybody what was put and added there; then each looks at its own memory. */
static void compare_all(void)
{
	unsigned idle = 0;

	for (int p = 0; p < hdl_job.size; p++) {
		targets[p].totals.hash = hash_of(targets[p].model);
		send_am(p, TOTALS, &targets[p].totals, sizeof(targets[p].totals), &targets[p].told);
	}
	while (have_totals < (unsigned)hdl_job.size || pending_sends)
		turn(&idle);
	struct words w;
	memcpy(&w, (char *)words + !by_device, sizeof(w));
	for (int i = 0; i < 2; i++)
		for (int u = 0; u < USES; u++) {
			uint64_t is = i ? w.w4[u] : w.w8[u], want = all.sum[i][u], mask = i ? 0xffffffff : ~0ull;
			if (u == BITS || (breaks && u != ADD))
				continue;
			if (((is - want) & mask) > all.may[i])
				fail("word %d of width %d is %#llx instead of %#llx (and up to %#llx)", u, i ? 4 : 8, (unsigned long long)is,
				     (unsigned long long)want, (unsigned long long)all.may[i]);
		}
	for (size_t i = 0; i < GUARD; i++)
		if (odd[i] != 0x3c || memory[area * (size_t)hdl_job.size + i] != 0x3c)
			fail("memory beside the region was written");
}

/* ---- modes of two ranks --------------------------------------------------------------------------------------------- */

static void ends(struct hdl_rma *op, int err)
{
	errors += err != 0;
	ended++;
	if (op->len == 0xdead)
		fail("an operation ends twice");
	op->len = 0xdead;
}

static void say(int to)
{
	static struct hdl_am_send am[64];
	static unsigned n;

	send_am(to, SAY, NULL, 0, &am[n++ % 64]);
}

static void hear(unsigned n)
{
	unsigned idle = 0;

	while (said < n || pending_sends)
		turn(&idle);
}

/* Returns what one comes to. */
static int result(int r, struct hdl_rma *op)
{
	unsigned idle = 0, before = ended, failed = errors;

	if (r)
		return r < 0 ? r : 0;
	while (ended == before)
		turn(&idle);
	(void)op;
	return errors == failed ? 0 : -1;
}

static int last_err;
static void ends_with(struct hdl_rma *op, int err)
{
	last_err = err;
	ends(op, err);
}

static int one(struct hdl_rkey *k, int what, size_t n)
{
	static char buf[200000];
	static uint64_t old;
	struct hdl_rma *op = calloc(1, sizeof(*op));

	op->done = ends_with;
	last_err = 0;
	int r = what == 0 ? hdl_put(k, 0, buf, n, op) : what == 1 ? hdl_get(k, 0, buf, n, op)
							      : hdl_atomic(k, 0, HDL_FETCH_ADD, 8, 1, 0, &old, op);
	r = result(r, op);
	return r < 0 && last_err ? last_err : r;
}

static void dies(void)
{
	static char buf[100000];
	unsigned idle = 0, pending = 0, i;
	struct target *t = &targets[1];

	if (hdl_job.rank == 0)
		say(1);
	else
		hear(1);
	if (hdl_job.rank == 1) {
		kill(getpid(), SIGKILL);
		pause();
	}
	for (i = 0; dead < 0; i++) {
		struct hdl_rma *op = calloc(1, sizeof(*op));	/* kept: one that ends twice is seen */
		size_t n = i % 7 == 6 ? 100000 : 1 + i % 1000;
		op->done = ends;
		if (i >= 200 && i % 64)
			free(op);
		else if (i % 4 == 3)
			pending += !hdl_flush(hdl_ep(tp, 1), op);
		else
			pending += !(i % 4 == 0 ? hdl_put(t->memory, 0, buf, n, op) : i % 4 == 1 ? hdl_get(t->memory, 0, buf, n, op)
					 : hdl_atomic(t->words, 8, HDL_XOR, 8, i, 0, NULL, op));
		turn(&idle);
	}
	while (ended < pending)
		turn(&idle);
	struct hdl_rma op = { .done = ends };
	int again = hdl_put(t->memory, 0, buf, 8, &op), flush_again = hdl_flush(hdl_ep(tp, 1), &op);
	fprintf(stderr, "rank %d is dead, %u of %u ended with an error, then %s\n", dead, errors, pending,
		again < 0 && flush_again < 0 ? "refused" : "accepted");
	fflush(NULL);
	_exit(dead == 1 && again < 0 && errors ? 0 : 1);
}

/* A key of a region that is no more: small and long, whatever carries it; and what other keys do goes on. */
static void gone(void)
{
	static char extra[200000];
	struct hdl_mr *mr;
	struct target *t = &targets[!hdl_job.rank];

	run(&traffic, false);
	say(!hdl_job.rank);
	hear(1);
	for (unsigned round = 1; round <= 3; round++) {
		mr = region(extra, sizeof(extra) / 8 * 8, HDL_MR_READ | HDL_MR_WRITE | (by_device ? HDL_MR_ATOMIC_DEVICE : HDL_MR_ATOMIC));
		send_am(!hdl_job.rank, KEYS, t->key, pack_keys(t->key, mr_memory, mr), &t->keys);
		unsigned idle = 0;
		while (have_keys < 2 + round || pending_sends)
			turn(&idle);
		hdl_rkey_release(t->was);
		/* the next ones may come before this round is over */
		struct hdl_rkey *bad = t->words, *good = t->memory;
		for (int what = 0; what < 3; what++)
			if (one(bad, what, 5000))
				fail("operation %d of round %u", what, round);
		say(!hdl_job.rank);
		hear(3 * round - 1);
		if (hdl_job.rank == 1 && hdl_mr_deregister(mr))
			fail("it is not deregistered");
		say(!hdl_job.rank);
		hear(3 * round);
		for (int i = 0; i < 6 && hdl_job.rank == 0; i++) {
			int err = one(bad, i % 3, i < 3 ? 100 : sizeof(extra));
			if (err != -EACCES)
				fail("operation %d by a key that is no more: %s", i, err ? strerror(-err) : "it is done");
			if ((err = one(good, i % 2, 30000)))
				fail("then an operation by a good key: %s", strerror(-err));
		}
		say(!hdl_job.rank);
		hear(3 * round + 1);
		if (hdl_job.rank == 0 && hdl_mr_deregister(mr))
			fail("it is not deregistered, either");
		hdl_rkey_release(bad);
	}
	if (dead >= 0)
		fail("rank %d has failed", dead);
}

/* Rank 0 uses the key of a region that is no more again and again: each of them fails, and the ranks do not. */
static void stale(void)
{
	enum { PUTS = 300 };
	static char extra[4096];
	struct hdl_mr *mr = region(extra, sizeof(extra), HDL_MR_READ | HDL_MR_WRITE);
	struct target *t = &targets[!hdl_job.rank];
	struct hdl_rma *op = calloc(PUTS, sizeof(*op));
	unsigned idle = 0, pending = 0;

	send_am(!hdl_job.rank, KEYS, t->key, pack_keys(t->key, mr, mr), &t->keys);
	while (have_keys < 3 || pending_sends)
		turn(&idle);
	if (one(t->memory, 0, 100))
		fail("a put by a good key");
	say(!hdl_job.rank);
	hear(1);
	if (hdl_mr_deregister(mr))
		fail("it is not deregistered");
	say(!hdl_job.rank);
	hear(2);
	for (unsigned i = 0; i < PUTS && hdl_job.rank == 0; i++) {
		op[i].done = ends_with;
		pending += !hdl_put(t->memory, 0, extra, 100, &op[i]);
	}
	errors = ended = 0;
	while (ended < pending)
		turn(&idle);
	if (errors != pending || (pending && last_err != -EACCES) || dead >= 0)
		fail("%u of %u puts by a key that is no more were refused: %s", errors, pending, strerror(-last_err));
	if (one(t->was, hdl_job.rank, 30000))
		fail("then an operation by a good key");
	say(!hdl_job.rank);
	hear(3);
}

/* Rank 0 gets into addresses where it has no memory, which its device does not register: that operation fails, and rank 1 ends. */
static void unmapped(void)
{
	struct target *t = &targets[!hdl_job.rank];
	struct hdl_rma op = { .done = ends_with };
	void *p = mmap(NULL, largest, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || munmap(p, largest))
		fail("no addresses");
	if (hdl_job.rank == 0 && !result(hdl_get(t->memory, 0, p, largest, &op), &op))
		fail("something was got to nowhere");
	say(!hdl_job.rank);
	hear(1);
	if (one(t->memory, 1, 30000) || dead >= 0)
		fail("then another one");
}

/* ---- memory that cannot be reached ---------------------------------------------------------------------------------- */

enum { FAULT_BYTES = 400000 };
enum fault { UNMAPPED, NO_ACCESS, HALF_MAPPED, TRUNCATED, FAULTS };
static const char *const fault_names[] = { "unmapped", "protected", "half mapped", "truncated" };
static int mapped_fd;			/* the file of the latest map_pages */

/* Makes the memory unreachable: all of it, or its second half. */
static void make_fault(char *p, enum fault fault)
{
	size_t half = FAULT_BYTES / 2 & ~4095ul;

	if (fault == UNMAPPED ? munmap(p, FAULT_BYTES) : fault == NO_ACCESS ? mprotect(p, FAULT_BYTES, PROT_NONE)
	    : fault == HALF_MAPPED ? munmap(p + half, FAULT_BYTES - half) : ftruncate(mapped_fd, (off_t)half))
		fail("%s memory cannot be made", fault_names[fault]);
}

static char *map_pages(void)
{
	char *p;

	if (mapped_fd > 0)
		close(mapped_fd);
	mapped_fd = memfd_create("pages", MFD_CLOEXEC);
	if (mapped_fd < 0 || ftruncate(mapped_fd, FAULT_BYTES))
		fail("no file in memory");
	p = mmap(NULL, FAULT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mapped_fd, 0);
	if (p == MAP_FAILED)
		fail("no memory");
	memset(p, 7, FAULT_BYTES);
	return p;
}

static void must_fail(const char *what, enum fault fault, size_t n, int r, struct hdl_rma *op, int want)
{
	last_err = 0;
	r = result(r, op);
	if (r < 0 && last_err)
		r = last_err;
	if (r != want)
		fail("%s of %zu bytes, %s memory: %s instead of %s", what, n, fault_names[fault], r ? strerror(-r) : "done",
		     strerror(-want));
}

/* A put, a get and an update of the peer's region: short and long. */
static void remote_faults(struct hdl_rkey *k, enum fault fault)
{
	static char buf[FAULT_BYTES];
	static uint64_t old;
	/* the first byte is in the part that cannot be reached */
	size_t at = fault >= HALF_MAPPED ? FAULT_BYTES / 2 & ~4095ul : 0;

	for (int i = 0; i < 2; i++) {
		size_t n = i ? FAULT_BYTES : 100, from = i ? 0 : at;
		struct hdl_rma put = { .done = ends_with }, get = { .done = ends_with }, flush = { .done = ends_with };
		must_fail("a put", fault, n, hdl_put(k, from, buf, n, &put), &put, -EREMOTEIO);
		must_fail("a flush behind a put", fault, n, hdl_flush(k->ep, &flush), &flush, -EREMOTEIO);
		must_fail("a get", fault, n, hdl_get(k, from, buf, n, &get), &get, -EREMOTEIO);
	}
	struct hdl_rma add = { .done = ends_with };
	must_fail("an update", fault, 8, hdl_atomic(k, at, HDL_FETCH_ADD, 8, 1, 0, &old, &add), &add, -EREMOTEIO);
}

/* Puts from such local memory, longer than the CPU copies into a request, and gets into it. by_packets: a short put, too. */
static void local_faults(struct hdl_rkey *k, enum fault fault, bool by_packets)
{
	char *p = map_pages();
	size_t half = FAULT_BYTES / 2 & ~4095ul, at = fault >= HALF_MAPPED ? half : 0;

	make_fault(p, fault);
	for (int i = 0; i < 3; i++) {
		size_t n = i == 0 ? 100 : i == 1 ? 3000 : FAULT_BYTES;
		char *buf = i == 2 ? p : p + at;
		struct hdl_rma put = { .done = ends_with }, get = { .done = ends_with };
		if (i || by_packets)
			must_fail("a put from", fault, n, hdl_put(k, 0, buf, n, &put), &put, -EFAULT);
		must_fail("a get to", fault, n, hdl_get(k, 0, buf, n, &get), &get, -EFAULT);
	}
	if (fault != UNMAPPED)
		munmap(p, fault == HALF_MAPPED ? half : FAULT_BYTES);
}

struct checked {
	struct hdl_rma rma;
	int err, ended;
};

static void checked_ends(struct hdl_rma *op, int err)
{
	struct checked *c = container_of(op, struct checked, rma);

	c->err = err;
	c->ended++;
}

/* One put that fails between two operations that do not, all of them under way at a time: what these bring is right. */
static void beside(struct hdl_rkey *bad, struct hdl_rkey *good, enum fault fault)
{
	static char out[FAULT_BYTES], in[FAULT_BYTES];
	struct checked c[3] = { 0 };
	int r[3];
	unsigned idle = 0;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)random_bits();
	for (int i = 0; i < 3; i++)
		c[i].rma.done = checked_ends;
	r[0] = hdl_put(good, 0, out, sizeof(out), &c[0].rma);
	r[1] = hdl_put(bad, 0, out, sizeof(out), &c[1].rma);
	r[2] = hdl_put(good, sizeof(out), out, sizeof(out), &c[2].rma);
	for (int i = 0; i < 3; i++) {
		while (!r[i] && !c[i].ended)
			turn(&idle);
		c[i].err = r[i] < 0 ? r[i] : c[i].err;
	}
	if (c[0].err || c[1].err != -EREMOTEIO || c[2].err)
		fail("operations beside a put to %s memory: %d %d %d", fault_names[fault], c[0].err, c[1].err, c[2].err);
	for (int i = 0; i < 2; i++) {
		struct hdl_rma get = { .done = ends_with };
		memset(in, 0, sizeof(in));
		if (result(hdl_get(good, (size_t)i * sizeof(out), in, sizeof(in), &get), &get) || memcmp(in, out, sizeof(in)))
			fail("what was put beside a put to %s memory is not there", fault_names[fault]);
	}
}

/* Rank 0 puts into, gets from and updates a region of rank 1 whose memory is not there, and puts from and gets into such
 * memory of its own: each operation fails, and no other. */
static void faults(void)
{
	const char *kinds = getenv("HEDDLE_TRANSPORT");
	bool by_packets = kinds && !strcmp(kinds, "ud");
	struct target *t = &targets[!hdl_job.rank];

	if (area * (size_t)hdl_job.size < 2 * FAULT_BYTES)
		fail("the region is too short");
	for (unsigned round = 1; round <= FAULTS; round++) {
		enum fault fault = round - 1;
		char *p = map_pages();
		struct hdl_mr *mr = region(p, FAULT_BYTES, HDL_MR_READ | HDL_MR_WRITE |
					   (by_device ? HDL_MR_ATOMIC_DEVICE : HDL_MR_ATOMIC));
		unsigned idle = 0;
		send_am(!hdl_job.rank, KEYS, t->key, pack_keys(t->key, mr_memory, mr), &t->keys);
		while (have_keys < 2 + round || pending_sends)
			turn(&idle);
		hdl_rkey_release(t->was);
		struct hdl_rkey *bad = t->words, *good = t->memory;
		for (int what = 0; what < 3; what++)
			if (one(bad, what, 5000))
				fail("operation %d of round %u", what, round);
		say(!hdl_job.rank);
		hear(3 * round - 2);
		if (hdl_job.rank == 1)
			make_fault(p, fault);
		say(!hdl_job.rank);
		hear(3 * round - 1);
		for (int i = 0; i < 2 && hdl_job.rank == 0; i++) {
			if (i)
				local_faults(good, fault, by_packets);
			else
				remote_faults(bad, fault);
			if (!i)
				beside(bad, good, fault);
			for (int what = 0; what < 2; what++)
				if (one(good, what, 30000))
					fail("then operation %d on memory that is there: %s", what, strerror(-last_err));
		}
		say(!hdl_job.rank);
		hear(3 * round);
		if (hdl_mr_deregister(mr))
			fail("it is not deregistered");
		hdl_rkey_release(bad);
	}
	if (dead >= 0)
		fail("rank %d has failed", dead);
}

/* Each flush ends; and an error is told by the first one behind it, and by no other. */
static void flushes(void)
{
	static char buf[100];
	struct hdl_rma put = { .done = ends_with }, flush[3] = { { .done = ends_with }, { .done = ends_with }, { .done = ends_with } };
	struct hdl_mr *mr = region(buf, sizeof(buf), HDL_MR_WRITE);
	char key[HDL_RKEY_MAX];
	struct hdl_rkey *k;
	unsigned idle = 0;

	if (hdl_rkey_unpack(hdl_ep(tp, 0), key, hdl_mr_pack(mr, key), &k))
		fail("no key");
	for (int bad = 0; bad < 2; bad++) {
		ended = errors = 0;
		put.len = flush[0].len = flush[1].len = flush[2].len = 0;
		if (bad && hdl_mr_deregister(mr))
			fail("it is not deregistered");
		if (hdl_put(k, 0, buf, 8, &put) || hdl_flush(k->ep, &flush[0]) || hdl_flush(k->ep, &flush[1]))
			fail("something has ended at once");
		for (int i = 0; i < 100000 && ended < 3; i++)
			turn(&idle);
		if (ended != 3 || errors != 2 * (unsigned)bad)
			fail("%u of 3 have ended, %u with an error", ended, errors);
		if (hdl_flush(k->ep, &flush[2]) != 1)
			fail("an error is told twice");
	}
	hdl_rkey_release(k);
}

/* Whether this queue is refused a request by a bad key, before the next put by a good one has come. */
static bool is_broken_first(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	for (uint64_t until = monotonic_ns() + 10000000000ull; monotonic_ns() < until; sched_yield()) {
		if (!ibv_query_qp(qp, &a, IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_ERR)
			return true;
		if (!__atomic_load_n(memory, __ATOMIC_ACQUIRE))
			return false;
	}
	return false;
}

/* In each round rank 0 has one request refused, and begins the next while the queues are replaced: that stands right behind the first
 * message of the new connection, and rank 1, which can receive by then, takes that message when its queue is broken again. In a round in which
 * rank 1 has proposed the new queues, since it saw the event first, that is not so: hence several. */
static void early(void)
{
	static char extra[4096];
	struct hdl_mr *mr = region(extra, sizeof(extra), HDL_MR_READ | HDL_MR_WRITE);
	struct target *t = &targets[!hdl_job.rank];
	struct hdl_ep *ep = hdl_ep(tp, !hdl_job.rank);
	unsigned idle = 0;

	send_am(!hdl_job.rank, KEYS, t->key, pack_keys(t->key, mr_memory, mr), &t->keys);
	while (have_keys < 3 || pending_sends)
		turn(&idle);
	say(!hdl_job.rank);
	hear(1);
	if (hdl_mr_deregister(mr))
		fail("it is not deregistered");
	memory[0] = 1;		/* each round's last put makes it 0 */
	say(!hdl_job.rank);
	hear(2);
	for (unsigned round = 1; round <= 10; round++) {
		for (int i = 0; i < 2 && hdl_job.rank == 0; i++) {
			int err = one(t->words, i, 100);
			if (err != -EACCES)
				fail("operation %d by a key that is no more: %s", i, err ? strerror(-err) : "it is done");
		}
		if (hdl_job.rank == 0 && one(t->memory, 0, 30000))
			fail("then an operation by a good key");
		for (bool met = false; hdl_job.rank == 1 && said < 2 + round; hdl_tp_progress(tp)) {
			if (met || ep->conn.state != HDL_CONN_ANSWERED)
				continue;
			met = true;
			if (!is_broken_first(ep->queues->sq.qp))
				continue;
			/* as where a request of ours had failed and gone again before, and had been flushed then */
			ep->queues->sq.replay_failed = true;
			ep->queues->sq.replay_first = ep->queues->sq.replay_tail;
		}
		memory[0] = 1;
		say(!hdl_job.rank);
		hear(2 + round);
	}
	if (dead >= 0)
		fail("rank %d has failed", dead);
}

/* Rank 0 puts a long message into rank 1's memory, which comes by a handler's help (HEDDLE_TRANSPORT=ud). */
static void busy(void)
{
	static char buf[4 << 20];
	struct hdl_mr *mr = region(buf, sizeof(buf), HDL_MR_WRITE | HDL_MR_READ);
	struct target *t = &targets[!hdl_job.rank];
	struct hdl_rma op = { .done = ends };
	unsigned idle = 0, refused = 0;

	send_am(!hdl_job.rank, KEYS, t->key, pack_keys(t->key, mr, mr), &t->keys);
	while (have_keys < 3 || pending_sends)
		turn(&idle);
	if (hdl_job.rank == 0) {
		int r = hdl_put(t->memory, 0, buf, sizeof(buf), &op);
		if (r < 0 || (r == 0 && hdl_rkey_release(t->memory) != -EBUSY))
			fail("the key of a put that is under way is released");
		while (!r && !ended)
			turn(&idle);
		if (errors)
			fail("the put fails");
		say(1);
	} else {
		while (!said) {
			turn(&idle);
			if (mr->refs && !refused++ && hdl_mr_deregister(mr) != -EBUSY)
				fail("a region is deregistered while it is being put into");
		}
		if (!refused)
			fail("nothing was seen to be under way");
	}
	if (hdl_rkey_release(t->memory) || hdl_mr_deregister(mr))
		fail("nothing is under way");
}

static void refuses(void)
{
	struct target *t = &targets[0];
	struct hdl_rma op = { .done = ends };
	struct hdl_mr *mr;
	struct hdl_rkey *k;
	char key[HDL_RKEY_MAX], buf[16];
	size_t n = hdl_mr_pack(mr_memory, key), whole = area * (size_t)hdl_job.size;

	if (hdl_put(t->memory, whole - 8, buf, 9, &op) != -ERANGE || hdl_get(t->memory, whole + 1, buf, 0, &op) != -ERANGE ||
	    hdl_put(t->memory, UINT64_MAX, buf, 2, &op) != -ERANGE)
		fail("an operation beyond the region");
	if (hdl_put(t->words, 0, buf, 8, &op) != -EACCES || hdl_atomic(t->memory, 0, HDL_SWAP, 8, 1, 0, buf, &op) != -EACCES)
		fail("an operation that is not granted");
	if (hdl_atomic(t->words, 0, HDL_SWAP, 2, 1, 0, buf, &op) != -EINVAL || hdl_atomic(t->words, 0, HDL_XOR + 1, 8, 1, 0, buf, &op) != -EINVAL)
		fail("an update that there is not");
	if (by_device && hdl_atomic(t->words, 4, HDL_SWAP, 8, 1, 0, buf, &op) != -EINVAL)
		fail("a misaligned update by the device");
	if (hdl_mr_register(tp, buf, 16, 16, &mr) != -EINVAL || hdl_mr_register(tp, buf, 16, HDL_MR_ATOMIC | HDL_MR_ATOMIC_DEVICE, &mr) != -EINVAL ||
	    hdl_mr_register(tp, memory + 1, 16, HDL_MR_ATOMIC_DEVICE, &mr) != -EINVAL)
		fail("a region that cannot be");
	if (hdl_rkey_unpack(hdl_ep(tp, 0), key, n - 1, &k) != -EINVAL)
		fail("half a key");
	key[24] ^= 1;
	if (hdl_rkey_unpack(hdl_ep(tp, 0), key, n, &k) != -ESTALE)
		fail("a key of another life");
	if (hdl_put(t->memory, whole, buf, 0, &op) != 1 || hdl_get(t->memory, 0, buf, 0, &op) != 1)
		fail("nothing takes time");
	run(&traffic, false);
}

/* Rank 1's key is there before it stops: what a device has only queued stops with its process. */
static void stops(void)
{
	if (hdl_job.rank == 0)
		say(1);
	else if (hdl_job.rank == 1)
		hear(1);
	run_while_stopped(&traffic);
}

static void run_mode(const char *mode)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "stops", stops }, { "dies", dies }, { "gone", gone }, { "stale", stale }, { "unmapped", unmapped },
		      { "faults", faults },
		      { "early", early }, { "busy", busy }, { "flushes", flushes }, { "refuses", refuses } };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(mode, modes[i].name)) {
			modes[i].run();
			return;
		}
	run(&traffic, !strcmp(mode, "threads"));
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .peer_failed = peer_failed };
	const char *mode = argc > 4 ? argv[4] : "", *atomics = getenv("RMA_ATOMICS");

	if (argc > 1)
		operations = (unsigned)atoi(argv[1]);
	if (argc > 2)
		largest = (size_t)atol(argv[2]);
	if (argc > 3)
		seed = (unsigned)atoi(argv[3]);
	if (getenv("RMA_BREAK"))
		breaks = (unsigned)atoi(getenv("RMA_BREAK"));
	if (!strcmp(mode, "dies"))
		signal(SIGTERM, SIG_IGN);
	start(&up);
	if (hdl_am_register(tp, KEYS, on_keys, NULL) || hdl_am_register(tp, TOTALS, on_totals, NULL) || hdl_am_register(tp, SAY, on_say, NULL))
		return 1;
	size_t n = (size_t)hdl_job.size;
	rng = seed * 0x9e3779b97f4a7c15ull + (uint64_t)hdl_job.rank;
	area = SLOTS * SLOT_BYTES + largest;
	odd = malloc(area * n + 2 * GUARD);
	memset(odd, 0x3c, area * n + 2 * GUARD);
	memory = odd + GUARD;
	memset(memory, 0, area * n);
	targets = calloc(n, sizeof(*targets));
	for (size_t i = 0; i < n; i++)
		targets[i].model = calloc(1, area);
	words = hdl_tp_alloc(tp, sizeof(*words) + 8);
	memset(words, 0, sizeof(*words) + 8);
	mr_memory = region(memory, area * n, HDL_MR_READ | HDL_MR_WRITE);
	by_device = atomics && !strcmp(atomics, "device") && !hdl_mr_register(tp, words, sizeof(*words), HDL_MR_ATOMIC_DEVICE, &mr_words);
	if (!by_device)
		mr_words = region(words, sizeof(*words) + 8, HDL_MR_ATOMIC);
	exchange_keys();
	run_mode(mode);
	if (!strcmp(mode, "") || !strcmp(mode, "threads") || !strcmp(mode, "stops") || !strcmp(mode, "refuses"))
		compare_all();
	return finish();
}
