/* SPDX-License-Identifier: BSD-3-Clause */
#include "p2p_mock.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hdl_ep {
	int rank;
	struct hdl_ep_note note;
};

struct later {
	int src, tag;
	uint16_t context;
	const void *data;
	size_t len;
};

struct rts {
	uint64_t len;
	const void *data;
	uint64_t pad[2];
};
_Static_assert(sizeof(struct rts) == HDL_RTS_SIZE, "as the transport's record");

enum mock_mode mock_mode;
struct mock_sent mock_sent[256];
int mock_nsent, mock_fetch_err, mock_fetch_refused, mock_fetches, mock_idles, mock_refused = -1, mock_departed = -1;
bool mock_announced, mock_others, mock_keeps;
char mock_last_warning[1024];
int mock_holds[16], mock_nholds;
enum hdl_eager_off mock_hold;

struct hdl_job hdl_job = { .size = 1, .hostname = "mock" };
struct hdl_vars hdl_vars = { .eager_max = 8192, .unexpected_warn = 1 << 20, .unexpected_max = 1 << 22, .initial_errhandler = "" };

static struct hdl_upcalls upcalls;
static struct hdl_ep eps[1024];
static struct later later[256];
static int nlater, next_later;
static struct hdl_fetch *fetching[256];
static struct rts fetch_rts[256];
static int nfetching;

void mock_job(int rank, int size)
{
	hdl_job.rank = rank;
	hdl_job.size = size;
}

/* ---- the transport -------------------------------------------------------------------------------------- */

int hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance)
{
	*instance = (struct hdl_tp *)eps;	/* its contents are not read */
	upcalls = *up;
	for (int i = 0; i < 1024; i++)
		eps[i] = (struct hdl_ep){ .rank = i, .note.rank = i };
	return 0;
}

int hdl_am_register(struct hdl_tp *tp, unsigned id, hdl_am_fn fn, void *context)
{
	return 0;
}

int hdl_am_send(struct hdl_ep *ep, unsigned id, unsigned flags, const void *head, size_t head_len, const void *data, size_t len,
		struct hdl_am_send *am)
{
	return 1;
}

/* The mock device has no memory that processes share. */
void *hdl_tp_share(struct hdl_tp *tp, size_t bytes, uint64_t *where)
{
	return NULL;
}

void hdl_tp_unshare(struct hdl_tp *tp, void *p)
{
}

void *hdl_tp_shared_at(struct hdl_tp *tp, uint64_t where, size_t bytes)
{
	return NULL;
}

int hdl_mr_register(struct hdl_tp *tp, void *base, size_t len, unsigned access, struct hdl_mr **mr)
{
	return -ENOMEM;
}

int hdl_mr_deregister(struct hdl_mr *mr)
{
	return 0;
}

size_t hdl_mr_pack(const struct hdl_mr *mr, void *key)
{
	return 0;
}

int hdl_rkey_unpack(struct hdl_ep *ep, const void *key, size_t n, struct hdl_rkey **rkey)
{
	return -EINVAL;
}

int hdl_rkey_release(struct hdl_rkey *rkey)
{
	return 0;
}

int hdl_put(struct hdl_rkey *k, uint64_t offset, const void *buf, size_t len, struct hdl_rma *op)
{
	return -EACCES;
}

void hdl_tp_stay(struct hdl_tp *tp)
{
}

void hdl_tp_rest(struct hdl_tp *tp)
{
}

void hdl_tp_leave(struct hdl_tp **instance)
{
	*instance = NULL;
}

int hdl_tp_fini(struct hdl_tp **instance)
{
	*instance = NULL;
	for (int i = 0; i < mock_nsent; i++)
		free(mock_sent[i].data);
	return 0;
}

uint64_t hdl_host_id(void)
{
	return 0;
}

size_t hdl_tp_address(struct hdl_tp *tp, char record[HDL_ADDRESS_MAX])
{
	(void)tp;
	memset(record, 0, HDL_ADDRESS_MAX);
	return 1;
}

int hdl_peer_add(struct hdl_tp *tp, int proc, const void *record, size_t len)
{
	(void)tp;
	(void)proc;
	(void)record;
	(void)len;
	return 0;
}

struct hdl_ep *hdl_ep(struct hdl_tp *tp, int rank)
{
	(void)tp;
	return &eps[rank];
}

struct hdl_ep *hdl_ep_find(struct hdl_tp *tp, int rank)
{
	(void)tp;
	return &eps[rank];
}

bool hdl_ep_has_departed(struct hdl_tp *tp, int proc)
{
	(void)tp;
	return proc == mock_departed;
}

bool hdl_tp_forget(struct hdl_tp *tp, int first, int n)
{
	(void)tp;
	(void)first;
	(void)n;
	return !mock_keeps;
}

enum hdl_proc_state hdl_ep_process(struct hdl_tp *tp, int rank)
{
	return HDL_PROC_LIVES;
}

struct hdl_ep *hdl_ep_next(struct hdl_tp *tp, const struct hdl_ep *ep)
{
	int next = ep ? ep->rank + 1 : 0;

	(void)tp;
	return next < hdl_job.size ? &eps[next] : NULL;
}

struct hdl_ep_note *hdl_ep_note(struct hdl_ep *ep)
{
	return &ep->note;
}

int hdl_ep_send(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, const void *buf, size_t len,
		struct hdl_send *send)
{
	struct mock_sent *s = &mock_sent[mock_nsent];

	if (mock_mode == MOCK_REFUSE)
		return -ECONNRESET;
	if (mock_nsent == 256)
		abort();
	mock_nsent++;
	*s = (struct mock_sent){ .dest = ep->rank, .tag = tag, .context = context, .sync = sync, .len = len,
				 .data = malloc(len + 1) };
	if (len)
		memcpy(s->data, buf, len);
	if (mock_mode == MOCK_LATER) {
		s->send = send;
		return 0;
	}
	return 1;
}

int hdl_ep_send_runs(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, size_t len, struct hdl_send *send)
{
	char *packed = malloc(len + 1);
	int r;

	/* in two parts, the second one first */
	send->pack(send, len / 2, packed + len / 2, len - len / 2);
	send->pack(send, 0, packed, len / 2);
	r = hdl_ep_send(ep, tag, context, sync, packed, len, send);
	free(packed);
	return r;
}

int hdl_ep_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len)
{
	/* a short message that the transport takes at once */
	return mock_mode == MOCK_NOW && len <= 48 ? hdl_ep_send(ep, tag, context, false, buf, len, NULL) : 0;
}

/* Fetches in flight are not complete. */
int hdl_ep_withdraw(struct hdl_ep *ep, struct hdl_send *send, uint32_t *number)
{
	(void)ep;
	for (int i = 0; i < mock_nsent; i++)
		if (mock_sent[i].send == send) {
			*number = (uint32_t)i;
			if (mock_announced)
				return 0;
			mock_complete(i, -ECANCELED);
			return 1;
		}
	return -EBUSY;
}

uint32_t hdl_rts_number(const void *rts)
{
	struct rts r;

	memcpy(&r, rts, sizeof(r));
	return (uint32_t)r.pad[0];
}

void hdl_ep_refuse(struct hdl_ep *ep, const void *rts)
{
	(void)ep;
	mock_refused = (int)hdl_rts_number(rts);
}

void hdl_ep_eager_off(struct hdl_ep *ep, enum hdl_eager_off off)
{
	mock_holds[mock_nholds % 16] = off ? ep->rank : -ep->rank;
	mock_hold = off;
	mock_nholds++;
}

void mock_complete(int i, int err)
{
	struct hdl_send *send = mock_sent[i].send;

	mock_sent[i].send = NULL;
	send->done(send, err);
}

int hdl_ep_fetch(struct hdl_ep *ep, const void *rts, void *buf, size_t cap, struct hdl_fetch *fetch)
{
	(void)ep;
	if (mock_fetch_refused)
		return mock_fetch_refused;
	memcpy(&fetch_rts[nfetching], rts, HDL_RTS_SIZE);
	fetch->unpack = NULL;
	fetch->buf = buf;
	fetch->len = cap;
	fetching[nfetching++] = fetch;
	mock_fetches++;
	return 0;
}

int hdl_ep_fetch_runs(struct hdl_ep *ep, const void *rts, size_t cap, struct hdl_fetch *fetch)
{
	__typeof__(fetch->unpack) unpack = fetch->unpack;
	int r = hdl_ep_fetch(ep, rts, NULL, cap, fetch);

	fetch->unpack = unpack;
	return r;
}

static void arrive(int src, int tag, uint16_t context, const void *data, size_t len)
{
	/* Memory of its own, freed after the call: a late read of the payload is seen by the sanitizer. */
	char *copy = malloc(len + 1);
	struct hdl_hdr hdr = { .tag = tag, .context = context, .len = (uint32_t)len, .kind = HDL_EAGER };

	if (len)
		memcpy(copy, data, len);
	upcalls.arrived(upcalls.context, src, &hdr, copy);
	free(copy);
}

void mock_eager(int src, int tag, uint16_t context, const void *data, size_t len)
{
	arrive(src, tag, context, data, len);
}

void mock_rts(int src, int tag, uint16_t context, const void *data, size_t len)
{
	struct rts *rts = malloc(sizeof(*rts));
	struct hdl_hdr hdr = { .tag = tag, .context = context, .len = sizeof(*rts), .kind = HDL_RTS };

	*rts = (struct rts){ .len = len, .data = data, .pad = { (uint64_t)tag } };
	upcalls.arrived(upcalls.context, src, &hdr, rts);
	free(rts);
}

void mock_later(int src, int tag, uint16_t context, const void *data, size_t len)
{
	later[nlater++] = (struct later){ src, tag, context, data, len };
}

void mock_peer_failed(int peer, int err)
{
	upcalls.peer_failed(upcalls.context, peer, err);
}

static struct {
	hdl_progress_fn fn;
	void *arg;
} extra[4];
static int nextra;

static int run_extra(void)
{
	int n = 0;

	for (int i = 0; i < nextra; i++)
		n += extra[i].fn(extra[i].arg);
	return n;
}

static int one_event(void)
{
	if (nfetching) {
		struct hdl_fetch *f = fetching[0];
		struct rts rts = fetch_rts[0];

		nfetching--;
		memmove(fetching, fetching + 1, nfetching * sizeof(*fetching));
		memmove(fetch_rts, fetch_rts + 1, nfetching * sizeof(*fetch_rts));
		size_t n = f->len < rts.len ? f->len : rts.len;
		if (!mock_fetch_err && n && f->unpack) {	/* as it came: the second half first */
			f->unpack(f, n / 2, (const char *)rts.data + n / 2, n - n / 2);
			f->unpack(f, 0, rts.data, n / 2);
		} else if (!mock_fetch_err && n) {
			memcpy(f->buf, rts.data, n);
		}
		f->done(f, mock_fetch_err);
		return 1;
	}
	if (next_later < nlater) {
		struct later *l = &later[next_later++];

		arrive(l->src, l->tag, l->context, l->data, l->len);
		return 1;
	}
	return 0;
}

int hdl_tp_progress(struct hdl_tp *tp)
{
	int n = one_event();

	(void)tp;
	return n + run_extra();
}

int hdl_tp_progress_peer(struct hdl_ep *ep)
{
	(void)ep;
	return hdl_tp_progress(NULL);
}

void hdl_tp_idle(struct hdl_tp *tp, unsigned *idle)
{
	(void)tp;
	++*idle;
	if (mock_others) {
		sched_yield();
		return;
	}
	if (++mock_idles > 100000) {
		fprintf(stderr, "mock: waits for what will never come\n");
		hdl_p2p_dump(stderr);
		abort();
	}
}

void hdl_tp_wake(struct hdl_tp *tp)
{
	(void)tp;
}

void hdl_tp_on_p2p_timers(struct hdl_tp *tp, uint64_t (*timers)(uint64_t now))
{
}

int hdl_tp_progress_add(struct hdl_tp *tp, hdl_progress_fn fn, void *arg)
{
	(void)tp;
	if (nextra == sizeof(extra) / sizeof(*extra))
		return -ENOMEM;
	extra[nextra].fn = fn;
	extra[nextra++].arg = arg;
	return 0;
}

void hdl_tp_progress_remove(struct hdl_tp *tp, hdl_progress_fn fn, void *arg)
{
	(void)tp;
	for (int i = 0; i < nextra; i++)
		if (extra[i].fn == fn && extra[i].arg == arg) {
			extra[i] = extra[--nextra];
			return;
		}
}

void hdl_tp_dump(struct hdl_tp *tp, FILE *out)
{
	(void)tp;
	fprintf(out, "mock transport\n");
}

void hdl_tp_prepare(void)
{
}

static void *allocated;		/* the latest */

void *hdl_tp_alloc(struct hdl_tp *tp, size_t bytes)
{
	(void)tp;
	return allocated = malloc(bytes);
}

void *hdl_tp_alloc_shared(struct hdl_tp *tp, size_t bytes)
{
	return hdl_tp_alloc(tp, bytes);
}

bool hdl_tp_free(struct hdl_tp *tp, void *p)
{
	(void)tp;
	if (p != allocated)
		return !p;
	free(p);
	allocated = NULL;
	return true;
}

/* ---- the runtime ---------------------------------------------------------------------------------------- */

/* On one host. */
int hdl_rt_node(int rank)
{
	return 0;
}

int hdl_rt_init(bool compare)
{
	return 0;
}

int hdl_rt_compare(bool (*may_wait)(const void *arg, int rank), const void *arg)
{
	return 0;
}

int hdl_rt_psets(char ***names)
{
	*names = NULL;
	return 0;
}

int hdl_rt_pset_members(const char *name, int **ranks)
{
	return -ENOENT;
}

int hdl_rt_attach(char *why, size_t size)
{
	snprintf(why, size, "there is no launcher");
	return -ENOSYS;
}

int hdl_rt_spawn(const struct hdl_spawn_app *apps, int napps, const struct hdl_spawn_how *how, void (*wake)(void),
		 struct hdl_spawn **out, char *why, size_t size)
{
	return -ENOSYS;
}

bool hdl_rt_spawn_answered(const struct hdl_spawn *s)
{
	return true;
}

bool hdl_rt_spawn_failed(const struct hdl_spawn *s)
{
	return true;
}

const char *hdl_rt_spawn_why(const struct hdl_spawn *s)
{
	return "";
}

int hdl_rt_spawn_ranks(const struct hdl_spawn *s, int app)
{
	return 0;
}

void hdl_rt_spawn_give_up(const struct hdl_spawn *s)
{
}

void hdl_rt_spawn_end(struct hdl_spawn *s)
{
}

int hdl_rt_publish(const char *name, const char *value, char *why, size_t size)
{
	return -ENOSYS;
}

int hdl_rt_unpublish(const char *name, char *why, size_t size)
{
	return -ENOSYS;
}

int hdl_rt_lookup(const char *name, char *value, size_t room, char *why, size_t size)
{
	return -ENOSYS;
}

void hdl_tp_fabric(char name[HDL_FABRIC_NAME])
{
	name[0] = 0;
}

void hdl_rt_quit(void)
{
}

int hdl_rt_fence_begin(void)
{
	return 1;
}

int hdl_rt_fence_wait(uint64_t timeout_us)
{
	return 1;
}

int hdl_rt_fini(bool fence)
{
	return 0;
}

int hdl_vars_load(void)
{
	return 0;
}

void hdl_rt_abort(int code, const char *text)
{
	fprintf(stderr, "abort %d: %s\n", code, text ? text : "");
	_Exit(code);
}

#define SAY(name, prefix) \
void name(const char *fmt, ...) \
{ \
	va_list ap; \
 \
	va_start(ap, fmt); \
	vsnprintf(mock_last_warning, sizeof(mock_last_warning), fmt, ap); \
	va_end(ap); \
	fprintf(stderr, prefix "%s\n", mock_last_warning); \
}
SAY(hdl_error, "error: ")
SAY(hdl_warn, "warning: ")
SAY(hdl_report, "")

void hdl_debug(const char *fmt, ...)
{
	(void)fmt;
}

void hdl_ledger_phase(enum hdl_ledger_phase phase)
{
	(void)phase;
}

void hdl_ledger_heap(const char *what, uint64_t predicted, uint64_t bytes)
{
	(void)what, (void)predicted, (void)bytes;
}

void hdl_ledger_print(FILE *out)
{
	(void)out;
}

void hdl_tp_memory(struct hdl_tp *tp)
{
	(void)tp;
}

void hdl_rt_on_ask(hdl_ask_fn fn)
{
	(void)fn;
}

void hdl_rt_answer(const char *text)
{
	(void)text;
}

void hdl_rt_note_ended(int proc)
{
	(void)proc;
}
