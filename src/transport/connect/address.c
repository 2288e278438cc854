/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses. A process publishes its own through the runtime. The runtime gives the addresses of this job's ranks, and of
 * processes of other jobs that the same server knows, when they are first needed. hdl_peer_add gives all further addresses, which
 * wait here for the first message to or from the process. An unpublished instance gets all addresses by hdl_peer_add. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/jobs.h"
#include "transport/core/tp.h"

_Static_assert(sizeof(struct hdl_addr_head) + HDL_DEVICES * sizeof(struct hdl_addr) <= HDL_ADDRESS_MAX, "the door says so");

struct given {
	int proc;
	uint32_t len;
	char data[];
};

static int address_compare(const void *a, const void *b)
{
	int x = ((const struct given *)a)->proc, y = ((const struct given *)b)->proc;

	return x < y ? -1 : x > y;
}

struct address_range {
	int first, n;
};

/* For tfind: any address of the range is found. */
static int address_in_range(const void *range, const void *address)
{
	const struct address_range *r = range;
	int proc = ((const struct given *)address)->proc;

	return proc < r->first ? 1 : proc - r->first >= r->n ? -1 : 0;
}

/* Returns true if the runtime has the address without waiting for a process that may never publish one: the addresses of this
 * job. */
static bool runtime_knows(const struct hdl_tp *tp, int proc)
{
	return hdl_proc_is_ours(proc) && !tp->up.unpublished;
}

static struct given *address_find(struct hdl_tp *tp, int proc)
{
	struct given key = { .proc = proc }, **found = tfind(&key, &tp->addresses, address_compare);

	return found ? *found : NULL;
}

void hdl_addresses_fini(struct hdl_tp *tp)
{
	tdestroy(tp->addresses, free);
	tp->addresses = NULL;
}

/* ---- one's own ----------------------------------------------------------------------------------------- */

int hdl_wire_find_alike(struct hdl_tp *tp)
{
	char *text = hdl_vars_alike();

	if (!text)
		return hdl_no_memory("the variables that must be the same on all ranks", 1);
	tp->config_hash = hdl_job_id(text);
	free(text);
	return 0;
}

size_t hdl_tp_address(struct hdl_tp *tp, char blob[HDL_ADDRESS_MAX])
{
	struct hdl_addr_head h = { .version = HDL_ADDR_VERSION, .count = (uint32_t)tp->ndev, .name = tp->self,
				   .alike = tp->config_hash, .machine = hdl_host_id(),
				   .cores = (uint32_t)hdl_job.ncores, .oversubscribed = hdl_job.oversubscribed };
	size_t n = sizeof(h);

	hdl_proc_self(&h.proc);
	snprintf(h.host, sizeof(h.host), "%.*s", (int)sizeof(h.host) - 1, hdl_job.hostname);
	memcpy(blob, &h, sizeof(h));
	for (int i = 0; i < tp->ndev; i++, n += sizeof(struct hdl_addr))
		memcpy(blob + n, &tp->dev[i]->addr, sizeof(struct hdl_addr));
	return n;
}

int hdl_wire_publish(struct hdl_tp *tp)
{
	char blob[HDL_ADDRESS_MAX];
	size_t n = hdl_tp_address(tp, blob);
	int err = hdl_rt_put(hdl_rt_address_key(), blob, n);

	return err ? err : hdl_rt_commit();
}

/* ---- addresses of other processes --------------------------------------------------------------------- */

/* Checks the version of a record and reads the head. Returns 0 or a negative errno, reported. */
static int read_head(int proc, const void *data, size_t len, struct hdl_addr_head *h)
{
	if (len < sizeof(*h)) {
		hdl_error("%s published an address of %zu bytes: is it another version of the library?", hdl_proc_text(proc),
			  len);
		return -EPROTO;
	}
	memcpy(h, data, sizeof(*h));
	if (h->version != HDL_ADDR_VERSION || h->count > HDL_DEVICES || len != sizeof(*h) + h->count * sizeof(struct hdl_addr)) {
		hdl_error("%s published an address of version %u (%zu bytes), this library knows version %u: all ranks must use "
			  "the same library", hdl_proc_text(proc), h->version, len, HDL_ADDR_VERSION);
		return -EPROTO;
	}
	h->host[sizeof(h->host) - 1] = '\0';
	return 0;
}

/* Returns true if an address is of a process of this host. */
static bool address_is_here(int proc, const struct hdl_addr_head *h)
{
	if (hdl_proc_is_ours(proc))
		return hdl_is_local(proc);
	return h->machine && h->machine == hdl_host_id();
}

static struct hdl_dev *device_for(struct hdl_tp *tp, enum hdl_role want)
{
	struct hdl_dev *dev = NULL;

	for (int i = 0; i < tp->ndev; i++)
		if (tp->dev[i]->role == want || tp->dev[i]->role == HDL_ROLE_ANY)
			dev = tp->dev[i];
	return dev;
}

static bool address_for(enum hdl_role want, const void *data, uint32_t count, struct hdl_addr *addr)
{
	bool found = false;
	struct hdl_addr a;

	for (uint32_t i = 0; i < count; i++) {
		memcpy(&a, (const char *)data + sizeof(struct hdl_addr_head) + i * sizeof(a), sizeof(a));
		if (a.role == want || a.role == HDL_ROLE_ANY) {
			*addr = a;
			found = true;
		}
	}
	return found;
}

/* Returns true if the process has the same values of the variables that must be equal; reported. */
static bool is_alike(const struct hdl_tp *tp, int proc, const struct hdl_addr_head *h)
{
	if (h->alike == tp->config_hash)
		return true;
	hdl_error("%s has other values of the variables that must be the same on all ranks (heddle_info --vars names them)",
		  hdl_proc_text(proc));
	return false;
}

/* Chooses the device that reaches one of the process's addresses. 0 or a negative errno, reported. */
static int address_join(struct hdl_ep *ep, const void *data, size_t len)
{
	struct hdl_addr_head h;
	enum hdl_role want;
	int err = read_head(ep->rank, data, len, &h);

	if (err)
		return err;
	want = address_is_here(ep->rank, &h) ? HDL_ROLE_LOCAL : HDL_ROLE_REMOTE;
	ep->dev = device_for(ep->tp, want);
	if (!ep->dev) {
		hdl_error("no device reaches %s, which is on %s: set HEDDLE_DEVICE to a device that does",
			  hdl_proc_text(ep->rank), want == HDL_ROLE_LOCAL ? "this host" : "another host");
		return -EHOSTUNREACH;
	}
	/* the device's fabric is memory of this host, and its ports are alike in all fabrics: a message would reach another
	 * process, or none */
	if (want == HDL_ROLE_REMOTE && ep->dev->addr.fabric && h.machine && hdl_host_id() && h.machine != hdl_host_id()) {
		hdl_error("%s is on another host, and %s is the software HCA, which reaches processes of this one only: name a "
			  "device for others, too (HEDDLE_DEVICE=%s,NAME), or none",
			  hdl_proc_text(ep->rank), ep->dev->name, ep->dev->name);
		return -EHOSTUNREACH;
	}
	if (!address_for(want, data, h.count, &ep->addr)) {
		hdl_error("%s has no device towards %s: HEDDLE_DEVICE must name devices that reach each other",
			  hdl_proc_text(ep->rank), want == HDL_ROLE_LOCAL ? "its own host" : "other hosts");
		return -EPROTO;
	}
	if (!hdl_proc_is_ours(ep->rank) && ep->addr.fabric != ep->dev->addr.fabric) {
		hdl_error("%s is in another fabric of the software HCA, which leads nowhere from here: give both jobs the same "
			  "one (heddlerun -x SHCA_FABRIC=NAME)", hdl_proc_text(ep->rank));
		return -ENETUNREACH;
	}
	if (!is_alike(ep->tp, ep->rank, &h))
		return -EINVAL;
	ep->name = h.name;
	ep->same_kernel = h.machine && h.machine == hdl_host_id();
	ep->oversubscribed = h.oversubscribed;
	ep->cores = (uint8_t)(h.cores < UINT8_MAX ? h.cores : UINT8_MAX);
	if (want == HDL_ROLE_LOCAL)
		ep->proc = h.proc;
	else if (!(ep->host = strdup(h.host)))
		return hdl_no_memory("a host's name", sizeof(h.host));
	return 0;
}

int hdl_wire_lookup(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	const struct hdl_other_job *job = hdl_job_of(ep->rank);
	struct given *g = address_find(tp, ep->rank);
	void *data = NULL;
	size_t len = 0;
	int err;

	if (ep->rank == hdl_job.rank) {
		ep->dev = tp->dev[0];
		ep->addr = ep->dev->addr;
		ep->name = tp->self;
		ep->same_kernel = hdl_host_id();
		return 0;
	}
	if (g)
		return address_join(ep, g->data, g->len);
	if (tp->up.unpublished) {
		hdl_error("no address of %s was given (hdl_peer_add), and the runtime knows none of an instance that is not "
			  "published", hdl_proc_text(ep->rank));
		return -EHOSTUNREACH;
	}
	err = hdl_rt_get_of(job ? job->nspace : NULL, hdl_proc_rank(ep->rank), job ? HDL_ADDRESS : hdl_rt_address_key(), &data,
			    &len);
	if (!err)
		err = address_join(ep, data, len);
	free(data);
	return err;
}

void hdl_wire_forget(struct hdl_tp *tp, int first, int n)
{
	const struct address_range range = { first, n };

	for (struct given **found; (found = tfind(&range, &tp->addresses, address_in_range));) {
		struct given *g = *found;

		tdelete(g, &tp->addresses, address_compare);
		free(g);
	}
}

bool hdl_wire_is_known(struct hdl_tp *tp, int proc)
{
	return runtime_knows(tp, proc) || hdl_peers_find(&tp->peers, proc) || address_find(tp, proc);
}

/* Refuses an address with which no lane is possible, already when the address is given rather than at the first message. */
static int is_reachable(struct hdl_tp *tp, int proc, const void *address, size_t len)
{
	struct hdl_ep *ep = calloc(1, sizeof(*ep));
	int err;

	if (!ep)
		return hdl_no_memory("a peer's address", sizeof(*ep));
	ep->tp = tp;
	ep->rank = proc;
	err = address_join(ep, address, len);
	if (!err && !hdl_ep_kinds(ep))
		err = -EOPNOTSUPP;
	free(ep->host);
	free(ep);
	return err;
}

int hdl_peer_add(struct hdl_tp *tp, int proc, const void *address, size_t len)
{
	const struct hdl_ep *ep = hdl_peers_find(&tp->peers, proc);
	struct hdl_addr_head h;
	struct given *g;
	int err;

	if (runtime_knows(tp, proc))
		return 0;
	if ((err = read_head(proc, address, len, &h)))
		return err;
	if (hdl_proc_of(h.name.job, h.name.rank) != proc) {
		hdl_error("an address that was given for %s is another process's", hdl_proc_text(proc));
		return -EPROTO;
	}
	if (!is_alike(tp, proc, &h))
		return -EINVAL;
	if (ep && ep == tp->departed) {
		hdl_error("%s has ended: a process that connects by its address comes too late", hdl_proc_text(proc));
		return -ECONNRESET;
	}
	if (ep && ep->name.incarnation != h.name.incarnation) {
		hdl_error("%s is not the process that this one has known by that name: has its job been started again under the "
			  "same name?", hdl_proc_text(proc));
		return -ESTALE;
	}
	if (ep)
		return 0;
	if ((err = is_reachable(tp, proc, address, len)))
		return err;
	hdl_wire_forget(tp, proc, 1);
	g = malloc(sizeof(*g) + len);
	if (!g)
		return hdl_no_memory("a peer's address", sizeof(*g) + len);
	*g = (struct given){ .proc = proc, .len = (uint32_t)len };
	memcpy(g->data, address, len);
	if (tsearch(g, &tp->addresses, address_compare))
		return 0;
	free(g);
	return hdl_no_memory("a peer's address", sizeof(void *));
}

unsigned hdl_ep_kinds(const struct hdl_ep *ep)
{
	unsigned can = ep->tp->allowed & ep->addr.caps & ep->dev->addr.caps;
	char here[HDL_KINDS_TEXT], there[HDL_KINDS_TEXT];

	if (!can)
		hdl_error("no queue kind of HEDDLE_TRANSPORT=%s is possible between this rank (%s:%s) and %s (its device:%s)",
			  hdl_vars.transport, ep->dev->name, hdl_kinds_text(ep->dev->addr.caps, here), hdl_proc_text(ep->rank),
			  hdl_kinds_text(ep->addr.caps, there));
	return can;
}
