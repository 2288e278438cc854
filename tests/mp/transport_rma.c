/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations of the transport: every rank puts into, gets from and updates memory of every rank (itself included), at
 * random, some operations at a time, and flushes now and then. The bytes of gets, and the memory at the end, are compared with a
 * model; the words that all ranks update by atomics, with the sum of all updates.
 *
 *     transport_rma [operations per pair [largest [seed [mode]]]]
 *
 * RMA_AGENTS in the environment: agent queues are connected, and there must be some.
 * RMA_ATOMICS=device: the device updates the words (HDL_MR_ATOMIC_DEVICE), else handlers do, at odd addresses too. RMA_BREAK=N:
 * after every N operations a rank takes its queues that can be replaced to the error state. mode:
 *
 *     threads   a second thread of each rank operates, too
 *     stops     rank 1 is stopped for a while: no operation fails
 *     dies      rank 1 is killed: each operation that rank 0 has under way ends once, with an error
 *     gone      a region is deregistered, and the key used: that operation alone fails
 *     stale     hundreds of operations by such a key, without a flush between
 *     unmapped  a get into memory that cannot be registered fails alone
 *     faults    operations on a region with unmapped or protected memory, and with such local memory: each fails alone
 *     early     requests by such a key break rank 1's new queues before rank 1 may send by them: they fail alone (RC)
 *     busy      a key in use is not released, nor, where operations are messages, the key's region deregistered
 *     flushes   several flushes behind one operation, and behind one that fails (one rank, UD: no operation ends before there is
 *               progress)
 *     refuses   invalid arguments are refused
 *     again     agent queues that break are connected again, and updates keep their order (two ranks of one host)
 *     behind    updates by such a key fail alone: those that are under way behind them add once each
 */
#include "transport_rma.h"

static unsigned operations = 400, seed = 1, breaks;
size_t largest = 150000;
bool by_device;
char *memory;
static char *odd;			/* the allocation; `memory` begins GUARD bytes behind */
size_t area;			/* bytes of each target's memory that belong to an origin: slots, and a long one */
struct words *words;
struct hdl_mr *mr_memory, *mr_words;
struct target *targets;
static unsigned have_totals;
unsigned have_keys;
unsigned pending_sends;
static struct totals all;
int dead = -1;
unsigned said;
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
static uint64_t oldest_of[64];

uint64_t random_bits(void)
{
	rng = rng * 6364136223846793005ull + 1442695040888963407ull;
	return rng >> 24;
}

static void peer_failed(void *context, int peer, int err)
{
	(void)context;
	dead = peer;
}

struct hdl_mr *region(void *p, size_t n, unsigned access)
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

void send_am(int to, unsigned id, const void *data, size_t n, struct hdl_am_send *am)
{
	am->send.done = sent;
	pending_sends++;
	int r = hdl_am_send(ep_of(tp, to), id, HDL_AM_ORDERED, NULL, 0, data, n, am);
	if (r < 0)
		fail("an active message to rank %d: %s", to, strerror(-r));
	pending_sends -= (unsigned)r;
}

size_t pack_keys(char *to, struct hdl_mr *a, struct hdl_mr *b)
{
	char *p = to;

	for (int i = 0; i < 2; i++) {
		uint32_t n = (uint32_t)hdl_mr_pack(i ? b : a, p + 4);
		memcpy(p, &n, 4);
		p += 4 + n;
	}
	return (size_t)(p - to);
}

/* An active message with a payload that must be fetched (HEDDLE_EAGER_MAX). */
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
		if (hdl_rkey_unpack(ep_of(tp, from), p + 4, n, &k[i]))
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
	/* the bytes of the flushed puts are here */
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

/* ---- agent queues --------------------------------------------------------------------------------------------------- */

/* Connects agent queues to all ranks of this host. */
static void connect_agents(void)
{
	unsigned idle = 0;

	for (int p = 0; p < hdl_job.size; p++)
		if (p != hdl_job.rank && hdl_is_local(p) && hdl_agent_connect(ep_of(tp, p)))
			fail("no agent queue to rank %d", p);
	for (int p = 0; p < hdl_job.size; p++) {
		while (hdl_is_local(p) && hdl_agent_connecting(ep_of(tp, p)))
			turn(&idle);
		if (p != hdl_job.rank && hdl_is_local(p) && !hdl_agent_stands(ep_of(tp, p)))
			fail("the agent queue to rank %d cannot be connected", p);
	}
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

void break_agents(int rank)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	for (struct hdl_agent_queue *q = tp->agents; q; q = q->next)
		if ((rank < 0 || q->ep->rank == rank) && q->state == HDL_AGENT_UP && ibv_modify_qp(q->out, &a, IBV_QP_STATE))
			fail("agent queue %u cannot be broken", q->out->qp_num);
}

static void break_queues(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	break_agents(-1);
	for (uint32_t i = 0; i < tp->nsqs; i++) {
		struct hdl_sq *sq = tp->sqs[i];
		if (!sq || !sq->qp || !(sq->kind->reset || (sq->kind->renew && sq->ep && sq->ep->sq == sq)))
			continue;
		if (ibv_modify_qp(sq->qp, &a, IBV_QP_STATE))
			fail("queue %u cannot be broken", sq->qp->qp_num);
		if (!sq->ep)
			continue;
		/* as a device reports a failed queue */
		sq->ep->queues->event = IBV_EVENT_QP_FATAL;
		hdl_wire_broke(sq->ep, NULL);
	}
}

static void check_get(const struct operation *o, const struct target *t)
{
	const char *want = t->model + (o->slot == SLOTS ? SLOTS * SLOT_BYTES : o->slot * SLOT_BYTES) + o->at;

	for (size_t i = 0; i < o->len; i++)
		if (o->buf[i] != want[i])
			fail("byte %zu of %zu, got from slot %u of rank %d at %zu, is %#x instead of %#x", i, o->len, o->slot,
			     o->target, o->at, (unsigned char)o->buf[i], (unsigned char)want[i]);
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
			fail("this rank's bit at rank %d is %#llx instead of %#llx", o->target,
			     (unsigned long long)(o->result & bit), (unsigned long long)t->bits[o->width]);
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
		fail("a flush ends before %llu operations that were begun before it",
		     (unsigned long long)oldest_of[(t - targets) % 64]);
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
	int r = hdl_flush(ep_of(tp, target), &t->flush);
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

const struct traffic traffic = { some, all_done };

/* Each rank sends each target the sums and hashes of its puts and additions there; then each rank compares the memory with
 * them. */
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
				fail("word %d of width %d is %#llx instead of %#llx (and up to %#llx)", u, i ? 4 : 8,
				     (unsigned long long)is, (unsigned long long)want, (unsigned long long)all.may[i]);
		}
	for (size_t i = 0; i < GUARD; i++)
		if (odd[i] != 0x3c || memory[area * (size_t)hdl_job.size + i] != 0x3c)
			fail("memory beside the region was written");
}

/* Rank 1's key has arrived before rank 1 stops: a message that is only queued in the device would stop with the process of rank
 * 1. */
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
		      { "early", early }, { "busy", busy }, { "flushes", flushes }, { "refuses", refuses },
		      { "behind", behind }, { "again", again } };

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
	if (hdl_am_register(tp, KEYS, on_keys, NULL) || hdl_am_register(tp, TOTALS, on_totals, NULL) ||
	    hdl_am_register(tp, SAY, on_say, NULL))
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
	by_device = atomics && !strcmp(atomics, "device") &&
		    !hdl_mr_register(tp, words, sizeof(*words), HDL_MR_ATOMIC_DEVICE, &mr_words);
	if (!by_device)
		mr_words = region(words, sizeof(*words) + 8, HDL_MR_ATOMIC);
	exchange_keys();
	if (getenv("RMA_AGENTS")) {
		if (!by_device || !hdl_mr_has_agent_queues(mr_words))
			fail("no agent queues");
		connect_agents();
	}
	run_mode(mode);
	if (!strcmp(mode, "") || !strcmp(mode, "threads") || !strcmp(mode, "stops") || !strcmp(mode, "refuses"))
		compare_all();
	return finish();
}
