/* SPDX-License-Identifier: BSD-3-Clause */
/* RMA operations that must fail: by keys of regions that are gone, on memory that cannot be reached, with dead ranks. */
#include <sys/mman.h>

#include "transport/core/tp.h"
#include "transport_rma.h"

static unsigned errors, ended;

/* ---- modes of two ranks --------------------------------------------------------------------------------------------- */

static void ends(struct hdl_rma *op, int err)
{
	errors += err != 0;
	ended++;
	if (op->len == 0xdead)
		fail("an operation ends twice");
	op->len = 0xdead;
}

void say(int to)
{
	static struct hdl_am_send am[64];
	static unsigned n;

	send_am(to, SAY, NULL, 0, &am[n++ % 64]);
}

void hear(unsigned n)
{
	unsigned idle = 0;

	while (said < n || pending_sends)
		turn(&idle);
}

/* Waits for an operation that was posted with result r. Returns the operation's status. */
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

void dies(void)
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
			pending += !hdl_flush(ep_of(tp, 1), op);
		else
			pending += !(i % 4 == 0 ? hdl_put(t->memory, 0, buf, n, op) :
				     i % 4 == 1 ? hdl_get(t->memory, 0, buf, n, op) :
						  hdl_atomic(t->words, 8, HDL_XOR, 8, i, 0, NULL, op));
		turn(&idle);
	}
	while (ended < pending)
		turn(&idle);
	struct hdl_rma op = { .done = ends };
	int again = hdl_put(t->memory, 0, buf, 8, &op), flush_again = hdl_flush(ep_of(tp, 1), &op);
	fprintf(stderr, "rank %d is dead, %u of %u ended with an error, then %s\n", dead, errors, pending,
		again < 0 && flush_again < 0 ? "refused" : "accepted");
	fflush(NULL);
	_exit(dead == 1 && again < 0 && errors ? 0 : 1);
}

/* Sends the keys of two regions to the peer. Returns when `all` messages with keys have come and this one is sent. */
static void exchange_keys(struct hdl_mr *a, struct hdl_mr *b, unsigned all)
{
	struct target *t = &targets[!hdl_job.rank];
	unsigned idle = 0;

	send_am(!hdl_job.rank, KEYS, t->key, pack_keys(t->key, a, b), &t->keys);
	while (have_keys < all || pending_sends)
		turn(&idle);
}

/* Operations by the key of a deregistered region, small and long, by every lane, fail; operations by other keys go on. */
void gone(void)
{
	static char extra[200000];
	struct hdl_mr *mr;
	struct target *t = &targets[!hdl_job.rank];

	run(&traffic, false);
	say(!hdl_job.rank);
	hear(1);
	for (unsigned round = 1; round <= 3; round++) {
		mr = region(extra, sizeof(extra) / 8 * 8,
			    HDL_MR_READ | HDL_MR_WRITE | (by_device ? HDL_MR_ATOMIC_DEVICE : HDL_MR_ATOMIC));
		exchange_keys(mr_memory, mr, 2 + round);
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
void stale(void)
{
	enum { PUTS = 300 };
	static char extra[4096];
	struct hdl_mr *mr = region(extra, sizeof(extra), HDL_MR_READ | HDL_MR_WRITE);
	struct target *t = &targets[!hdl_job.rank];
	struct hdl_rma *op = calloc(PUTS, sizeof(*op));
	unsigned idle = 0, pending = 0;

	exchange_keys(mr, mr, 3);
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

/* Rank 0 gets into addresses without memory, which the device of rank 0 does not register: that operation fails, and rank 1
 * ends. */
void unmapped(void)
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

/* Puts from such local memory, longer than the CPU copies into a request, and gets into such memory. by_packets: a short put,
 * too. */
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

/* One put that fails between two operations that do not, all of them under way at a time: the data of these two is right. */
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

/* Rank 0 puts into, gets from and updates a region of rank 1 without memory, and puts from and gets into such memory of rank 0:
 * each of these operations fails, and no other. */
void faults(void)
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
		exchange_keys(mr_memory, mr, 2 + round);
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

/* Each flush ends; the first flush behind an error returns the error, and no later flush. */
void flushes(void)
{
	static char buf[100];
	struct hdl_rma put = {.done = ends_with}, flush[3] = {{.done = ends_with}, {.done = ends_with}, {.done = ends_with}};
	struct hdl_mr *mr = region(buf, sizeof(buf), HDL_MR_WRITE);
	char key[HDL_RKEY_MAX];
	struct hdl_rkey *k;
	unsigned idle = 0;

	if (hdl_rkey_unpack(ep_of(tp, 0), key, hdl_mr_pack(mr, key), &k))
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

/* In each round rank 0 has one request refused, and begins the next while the queues are replaced: that request stands right
 * behind the first message of the new connection, and rank 1, which can receive by then, takes that message when the queue of
 * rank 1 is broken again. In a round in which rank 1 has proposed the new queues, since rank 1 saw the event first, the case does
 * not occur: hence several rounds. */
void early(void)
{
	static char extra[4096];
	struct hdl_mr *mr = region(extra, sizeof(extra), HDL_MR_READ | HDL_MR_WRITE);
	struct target *t = &targets[!hdl_job.rank];
	struct hdl_ep *ep = ep_of(tp, !hdl_job.rank);

	exchange_keys(mr_memory, mr, 3);
	say(!hdl_job.rank);
	hear(1);
	if (hdl_mr_deregister(mr))
		fail("it is not deregistered");
	memory[0] = 1;		/* each round's last put stores 0 */
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
void busy(void)
{
	static char buf[4 << 20];
	struct hdl_mr *mr = region(buf, sizeof(buf), HDL_MR_WRITE | HDL_MR_READ);
	struct target *t = &targets[!hdl_job.rank];
	struct hdl_rma op = { .done = ends };
	unsigned idle = 0, refused = 0;
	/* the owner does not see RDMA; the owner sees operations that are messages */
	bool messages = hdl_rma_connect(ep_of(tp, !hdl_job.rank)) == -EOPNOTSUPP;

	exchange_keys(mr, mr, 3);
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
		if (messages && !refused)
			fail("nothing was seen to be under way");
	}
	if (hdl_rkey_release(t->memory) || hdl_mr_deregister(mr))
		fail("nothing is under way");
}

void refuses(void)
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
	if (hdl_atomic(t->words, 0, HDL_SWAP, 2, 1, 0, buf, &op) != -EINVAL ||
	    hdl_atomic(t->words, 0, HDL_XOR + 1, 8, 1, 0, buf, &op) != -EINVAL)
		fail("an update that there is not");
	if (by_device && hdl_atomic(t->words, 4, HDL_SWAP, 8, 1, 0, buf, &op) != -EINVAL)
		fail("a misaligned update by the device");
	if (hdl_mr_register(tp, buf, 16, 16, &mr) != -EINVAL ||
	    hdl_mr_register(tp, buf, 16, HDL_MR_ATOMIC | HDL_MR_ATOMIC_DEVICE, &mr) != -EINVAL ||
	    hdl_mr_register(tp, memory + 1, 16, HDL_MR_ATOMIC_DEVICE, &mr) != -EINVAL)
		fail("a region that cannot be");
	if (hdl_rkey_unpack(ep_of(tp, 0), key, n - 1, &k) != -EINVAL)
		fail("half a key");
	key[24] ^= 1;
	if (hdl_rkey_unpack(ep_of(tp, 0), key, n, &k) != -ESTALE)
		fail("a key of another life");
	if (hdl_put(t->memory, whole, buf, 0, &op) != 1 || hdl_get(t->memory, 0, buf, 0, &op) != 1)
		fail("nothing takes time");
	run(&traffic, false);
}

/* Each rank, on its own memory: an update by a key of a region that is gone, and updates of a word behind it. An agent queue is
 * kept from its turn until it has them all: so it posts them all before it takes the first completion, whichever thread carries
 * them out. */
void behind(void)
{
	enum { ROUNDS = 40, BEHIND = 8 };
	static uint64_t extra[2];
	struct target *t = &targets[hdl_job.rank];
	struct hdl_ep *self = ep_of(tp, hdl_job.rank);
	uint64_t sum = 0, was = words->w8[ADD];
	struct hdl_agent_queue *q = hdl_agent_of(self);
	char key[HDL_RKEY_MAX];
	struct hdl_rkey *gone;

	for (unsigned round = 0, idle = 0; round < ROUNDS; round++) {
		struct hdl_mr *mr = region(extra, sizeof(extra), by_device ? HDL_MR_ATOMIC_DEVICE : HDL_MR_ATOMIC);
		struct hdl_rma op[1 + BEHIND] = { { .done = ends } };
		uint64_t old[1 + BEHIND] = { 0 };
		unsigned n = 0;
		int r;

		if (hdl_rkey_unpack(self, key, hdl_mr_pack(mr, key), &gone) || hdl_mr_deregister(mr))
			fail("no key");
		ended = errors = 0;
		if (q)
			q->running = true;
		for (unsigned i = 0; i <= BEHIND; i++) {
			op[i].done = ends;
			r = hdl_atomic(i ? t->words : gone, 0, HDL_FETCH_ADD, 8, 1 + i, 0, &old[i], &op[i]);
			n += r == 0;
			if (i ? r < 0 : r == 1)
				fail("update %u behind a refused one: %s", i, r < 0 ? strerror(-r) : "it is not refused");
			errors += r < 0;
			sum += i ? 1 + i : 0;
		}
		if (q)
			q->running = false;
		while (ended < n)
			turn(&idle);
		if (errors != 1)
			fail("%u updates have failed instead of 1", errors);
		for (unsigned i = 2; i <= BEHIND; i++)
			if (old[i] != old[i - 1] + i)
				fail("update %u finds %llu, the one before %llu", i, (unsigned long long)old[i],
				     (unsigned long long)old[i - 1]);
		hdl_rkey_release(gone);
	}
	if (words->w8[ADD] != was + sum)
		fail("the word is %llu instead of %llu", (unsigned long long)words->w8[ADD], (unsigned long long)(was + sum));
}

struct addition {
	struct hdl_rma rma;
	uint64_t old;
	int err;
	bool over;
};

static void added(struct hdl_rma *rma, int err)
{
	struct addition *a = container_of(rma, struct addition, rma);

	a->err = err;
	a->over = true;
}

/* Begins the addition of 1 to rank 1's word. */
static void add(struct addition *a)
{
	int r;

	*a = (struct addition){ .rma.done = added };
	r = hdl_atomic(targets[1].words, 0, HDL_FETCH_ADD, 8, 1, 0, &a->old, &a->rma);
	if (r)
		added(&a->rma, r < 0 ? r : 0);
}

enum { MOST = 4000, BEHIND = 8, UNDER_WAY = 40 };

/* Adds until the queue, which is broken, stands again and BEHIND additions have gone by it; or, without a queue to come,
 * 4 * BEHIND times. The results are in the order in which the additions were begun. Returns how many have failed. */
static unsigned additions(bool comes)
{
	static struct addition a[MOST];
	static uint64_t next;
	struct hdl_ep *peer = ep_of(tp, 1);
	unsigned idle = 0, n = 0, failed = 0;

	for (unsigned behind = 0; n < (comes ? MOST : 4 * BEHIND) && behind < BEHIND; n++) {
		add(&a[n]);
		hdl_tp_progress(tp);
		behind += a[0].over && hdl_agent_stands(peer);
		while (n >= UNDER_WAY && !a[n - UNDER_WAY].over)
			turn(&idle);
	}
	if (hdl_agent_stands(peer) != comes)
		fail("the agent queue %s", comes ? "is not connected again" : "that fails at once is connected again");
	for (unsigned i = 0; i < n; i++) {
		while (!a[i].over)
			turn(&idle);
		failed += a[i].err != 0;
		if (a[i].err && a[i].err != -ECONNRESET)
			fail("addition %u: %s", i, strerror(-a[i].err));
		if (!a[i].err && a[i].old < next)
			fail("addition %u finds %llu, an earlier one has left %llu", i, (unsigned long long)a[i].old,
			     (unsigned long long)next);
		next = a[i].err ? next : a[i].old + 1;
	}
	return failed;
}

/* Makes turns until the agent queue is connected again, or is not being connected. */
static void connected_again(struct hdl_ep *peer)
{
	unsigned idle = 0;

	while (hdl_agent_connecting(peer))
		turn(&idle);
}

/* An ASK or an ANSWER that comes twice changes nothing. */
static void late_messages(struct hdl_ep *peer)
{
	struct hdl_agent_queue *q = hdl_agent_of(peer);
	struct hdl_agent_rec ask = { .qpn = q->in->qp_num, .turn = q->turn_in }, answer = { .turn = q->turn };
	struct ibv_qp_attr was, is;
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(q->in, &was, IBV_QP_DEST_QPN, &init))
		fail("ibv_query_qp");
	hdl_agent_on_ask(peer, &ask);
	hdl_agent_on_answer(peer, &answer);
	if (ibv_query_qp(q->in, &is, IBV_QP_DEST_QPN, &init) || is.dest_qp_num != was.dest_qp_num)
		fail("a late HDL_CTL_AGENT_ASK has connected the queue again");
	if (!hdl_agent_stands(peer))
		fail("a late HDL_CTL_AGENT_ANSWER has disconnected the queue");
}

/* Rank 0's agent queue to rank 1 breaks: the first addition behind the break fails, those until the peer's answer are messages,
 * the others are requests. A queue that breaks before its first success is given up until hdl_agent_connect. Rank 1 makes
 * progress seldom, so that answers overtake messages. */
void again(void)
{
	struct hdl_ep *peer = ep_of(tp, !hdl_job.rank);
	struct addition a;
	uint64_t asked;
	unsigned idle = 0;

	while (hdl_job.rank && said < 1) {
		usleep(50);
		hdl_tp_progress(tp);
	}
	if (hdl_job.rank)
		return;
	add(&a);
	for (unsigned round = 0; round < 30; round++) {
		while (!a.over)
			turn(&idle);
		break_agents(1);
		if (!additions(true))
			fail("round %u: no addition by a broken queue has failed", round);
	}
	for (unsigned fails = 0; fails < 2; fails++) {
		break_agents(1);
		add(&a);
		while (!a.over)
			turn(&idle);
		connected_again(peer);
	}
	if (additions(false))
		fail("an addition by message has failed");
	if (hdl_agent_connect(peer))
		fail("the agent queue cannot be connected again");
	connected_again(peer);
	asked = tp->rma_asked;
	add(&a);
	while (!a.over)
		turn(&idle);
	if (a.err || tp->rma_asked != asked || !hdl_agent_stands(peer))
		fail("the addition behind hdl_agent_connect is not by the queue (%d)", a.err);
	late_messages(peer);
	say(1);
	while (pending_sends)
		turn(&idle);
}
