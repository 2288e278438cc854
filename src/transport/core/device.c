/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a device and probes the device's capabilities. No code here or above asks which device is open: the attributes decide,
 * and which objects the device creates when asked. */
#include <fcntl.h>
#include <shca.h>
#include <stdlib.h>
#include <string.h>

#include "transport/core/active.h"
#include "transport/core/tp.h"

struct device_list {
	struct ibv_device **list;
	int n;
	bool soft;		/* the list of the software HCA */
};

static void device_list_free(struct device_list *l)
{
	if (l->list && l->soft)
		shca_free_device_list(l->list);
	else if (l->list)
		ibv_free_device_list(l->list);
	l->list = NULL;
}

static void list_get(struct device_list *l, bool soft)
{
	*l = (struct device_list){ .soft = soft };
	l->list = soft ? shca_get_device_list(&l->n) : ibv_get_device_list(&l->n);
	if (!l->list)
		l->n = 0;
}

/* "name" or "name:port". */
static bool name_matches(const char *want, const char *have, int *port)
{
	size_t n = strcspn(want, ":");

	if (strlen(have) != n || strncmp(want, have, n))
		return false;
	if (want[n] == ':')
		*port = atoi(want + n + 1);
	return true;
}

static struct ibv_device *device_find(struct device_list *l, const char *name, int *port)
{
	for (int i = 0; i < l->n; i++)
		if (name_matches(name, ibv_get_device_name(l->list[i]), port))
			return l->list[i];
	return NULL;
}

static void refuse_name(const char *name)
{
	struct device_list lists[2];
	const char *known[64];
	char all[512] = "";
	int n = 0;

	for (int s = 0; s < 2; s++) {
		list_get(&lists[s], s == 0);
		for (int i = 0; i < lists[s].n && n < 63; i++) {
			known[n] = ibv_get_device_name(lists[s].list[i]);
			snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", n ? ", " : "", known[n]);
			n++;
		}
	}
	known[n] = NULL;
	const char *near = hdl_nearest(name, known);
	hdl_error("HEDDLE_DEVICE=%s: there is no such verbs device%s%s%s; there are: %s", name,
		  near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "", *all ? all : "none");
	device_list_free(&lists[0]);
	device_list_free(&lists[1]);
}

void hdl_tp_prepare(void)
{
	shca_prepare();
}

/* The name of ranks that no launcher gave a fabric is a hash of the job's name (FNV-1a, 128 bits), since that name may be any
 * text, and not every user may read it. */
void hdl_tp_fabric(char name[HDL_FABRIC_NAME])
{
	unsigned __int128 h = (unsigned __int128)0x6c62272e07bb0142u << 64 | 0x62b821756295c58du;
	const char *given = getenv("SHCA_FABRIC");

	if (given && *given) {
		snprintf(name, HDL_FABRIC_NAME, "%s", given);
		return;
	}
	for (const char *p = hdl_job.nspace; *p; p++)
		h = (h ^ (uint8_t)*p) * ((unsigned __int128)1 << 88 | 0x13b);
	snprintf(name, HDL_FABRIC_NAME, "job-%016llx%016llx", (unsigned long long)(h >> 64), (unsigned long long)h);
}

static void device_set_fabric(void)
{
	char name[HDL_FABRIC_NAME];

	hdl_tp_fabric(name);
	shca_set_fabric(name); /* EBUSY: the process is in its fabric already */
}

/* Hash of the fabric's name: the ports of all fabrics are alike. */
static uint32_t fabric_id(void)
{
	char name[HDL_FABRIC_NAME];
	uint64_t id;
	uint32_t half;

	hdl_tp_fabric(name);
	id = hdl_job_id(name);
	half = (uint32_t)(id ^ id >> 32);
	return half ? half : 1;
}

/* Opens the first device with an active port, for peers on other hosts. 0 or a negative errno, reported. */
static int open_any(struct hdl_dev *dev)
{
	struct device_list l;
	int err = 0;

	list_get(&l, false);
	dev->port.ctx = hdl_open_active(l.list, l.n);
	if (dev->port.ctx)
		snprintf(dev->name, sizeof(dev->name), "%s", ibv_get_device_name(dev->port.ctx->device));
	else if ((err = -errno) == -ENODEV)
		hdl_error("this job spans several hosts and there is no verbs device to reach them: without an HCA, "
			  "Soft-RoCE makes one "
			  "of any Ethernet port (rdma link add rxe0 type rxe netdev eth0)");
	device_list_free(&l);
	return err;
}

/* Opens the device of this name; without a name the software HCA for the peers of this host, else any with an active port. 0 or a
 * negative errno, reported. */
static int open_context(struct hdl_dev *dev, const char *name, int *port)
{
	int err = -ENODEV;

	if (!name && dev->role != HDL_ROLE_LOCAL)
		return open_any(dev);
	for (int s = 0; s < (name ? 2 : 1); s++) {
		struct device_list l;
		bool soft = s == 0;
		list_get(&l, soft);
		struct ibv_device *d = name ? device_find(&l, name, port) : l.n ? l.list[0] : NULL;
		if (d) {
			if (soft && !getenv("SHCA_FABRIC") && !getenv("SHCA_FABRIC_FD"))
				device_set_fabric();
			dev->addr.fabric = soft ? fabric_id() : 0;
			snprintf(dev->name, sizeof(dev->name), "%s", ibv_get_device_name(d));
			dev->port.ctx = ibv_open_device(d);
			if (!dev->port.ctx) {
				char limits[160] = "";

				err = -errno;
				hdl_error("cannot open the verbs device %s (%s)%s", dev->name, strerror(-err),
					  err == -ENOMEM || err == -EAGAIN ? hdl_memory_limits(limits, sizeof(limits)) : "");
			}
		}
		device_list_free(&l);
		if (d)
			return dev->port.ctx ? 0 : err;
	}
	if (name)
		refuse_name(name);
	else
		hdl_error("the software HCA of this host has no device: the fabric cannot be joined");
	return err;
}

/* Chooses the GID. RoCE: best is a routable address of version 2; else the first that is set. */
static int choose_gid(struct hdl_dev *dev)
{
	struct ibv_context *ctx = dev->port.ctx;
	int best = -1, best_score = -1;

	for (int i = 0; i < dev->port_attr.gid_tbl_len; i++) {
		union ibv_gid gid;
		struct ibv_gid_entry e;
		int score = 1;
		if (ibv_query_gid(ctx, dev->port.port_num, i, &gid))
			continue;
		if (!gid.global.interface_id && !gid.global.subnet_prefix)
			continue;
		if (dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET &&
		    !ibv_query_gid_ex(ctx, dev->port.port_num, (uint32_t)i, &e, 0)) {
			static const uint8_t v4[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
			if (e.gid_type == IBV_GID_TYPE_ROCE_V2)
				score += 2;
			if (!memcmp(gid.raw, v4, sizeof(v4)))
				score++;
		}
		if (score > best_score) {
			best = i;
			best_score = score;
			dev->port.gid = gid;
		}
	}
	if (best < 0 && dev->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
		hdl_error("%s port %u has no usable GID: does its network interface have an address?", dev->name,
			  dev->port.port_num);
		return -EADDRNOTAVAIL;
	}
	dev->port.gid_index = best < 0 ? 0 : best;
	return 0;
}

static int choose_port(struct hdl_dev *dev, int want)
{
	int n = dev->attr.orig_attr.phys_port_cnt, err;

	if (want > n || want < 0) {
		hdl_error("HEDDLE_DEVICE=%s: %s has %d ports, counted from 1", hdl_vars.device, dev->name, n);
		return -EINVAL;
	}
	for (int p = want ? want : 1; p <= (want ? want : n); p++) {
		if ((err = ibv_query_port(dev->port.ctx, (uint8_t)p, &dev->port_attr))) {
			hdl_error("%s: ibv_query_port(%d) failed (%s)", dev->name, p, strerror(err));
			return -err;
		}
		if (dev->port_attr.state != IBV_PORT_ACTIVE)
			continue;
		dev->port.port_num = (uint8_t)p;
		dev->port.lid = dev->port_attr.lid;
		dev->port.mtu = dev->port_attr.active_mtu;
		return choose_gid(dev);
	}
	hdl_error("%s: %s is active: check the cable and the subnet manager (`heddle_info --devices`)", dev->name,
		  want ? "the port that HEDDLE_DEVICE names is not one that" : "no port");
	return -ENETDOWN;
}

static int make_pd(struct hdl_dev *dev)
{
	struct ibv_td_init_attr t = { 0 };

	dev->root_pd = ibv_alloc_pd(dev->port.ctx);
	if (!dev->root_pd) {
		int err = errno;
		hdl_error("%s: ibv_alloc_pd failed (%s)", dev->name, strerror(err));
		return -err;
	}
	dev->port.pd = dev->root_pd;
	/* one thread at a time is inside an instance: devices with thread domains need no locks */
	dev->td = ibv_alloc_td(dev->port.ctx, &t);
	if (dev->td) {
		struct ibv_parent_domain_init_attr p = { .pd = dev->root_pd, .td = dev->td };
		struct ibv_pd *parent = ibv_alloc_parent_domain(dev->port.ctx, &p);
		if (parent)
			dev->port.pd = parent;
	}
	return 0;
}

bool hdl_tp_in_order(struct ibv_qp *qp)
{
	return hdl_dev_in_order(qp);
}

/* Implicit paging on demand: registers the whole address space with the most rights that the device grants. */
static void ask_for_pages(struct hdl_dev *dev)
{
	const struct ibv_odp_caps *odp = &dev->attr.odp_caps;
	const uint64_t implicit = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	const uint32_t rc = odp->per_transport_caps.rc_odp_caps;
	const int access = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE;
	const struct { uint32_t needs; int access; bool written, read; } tries[] = {
		{ IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ,
		  access | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, true, true },
		{ IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE, access | IBV_ACCESS_REMOTE_WRITE, true, false },
		{ IBV_ODP_SUPPORT_SEND, access, false, false },
	};

	if (!hdl_vars.odp || (odp->general_caps & implicit) != implicit)
		return;
	dev->promises.can_expose = (rc & tries[0].needs) == tries[0].needs;
	for (unsigned i = 0; i < ARRAY_SIZE(tries) && !dev->all; i++) {
		if ((rc & tries[i].needs) != tries[i].needs)
			continue;
		dev->all = ibv_reg_mr(dev->port.pd, NULL, SIZE_MAX, tries[i].access);
		dev->promises.refused = dev->all ? 0 : errno;
		dev->promises.pages = dev->all != NULL;
		dev->promises.pages_written = dev->all && tries[i].written;
		dev->promises.pages_read = dev->all && tries[i].read;
	}
	if (dev->all) {
		dev->vouched = ibv_reg_mr(dev->port.pd, NULL, SIZE_MAX, access | (int)SHCA_ACCESS_VOUCHED);
		dev->vouched_lkey = (dev->vouched ? dev->vouched : dev->all)->lkey;
	}
	if (dev->promises.refused)
		hdl_debug("%s " HDL_REFUSED_PAGES, dev->name, strerror(dev->promises.refused));
}

static void ask_for_promises(struct hdl_dev *dev)
{
	struct ibv_context *ctx = dev->port.ctx;
	uint32_t said = shca_promises(ctx), seen;

	dev->promises.sequence = said & SHCA_PROMISE_SEQUENCE;
	dev->promises.at_once = said & SHCA_PROMISE_AT_ONCE;
	dev->promises.tells_end = said & SHCA_PROMISE_TELLS_END;
	dev->promises.wakes = !shca_await_prepare(ctx, &seen);
	if (dev->promises.wakes)
		shca_await_cancel(ctx);
	void *p = shca_alloc(ctx, 4096);
	dev->promises.arena = p != NULL;
	if (p)
		shca_free(ctx, p);
	ask_for_pages(dev);
}

/* Asks the device for kinds and promises. Returns 0 or a negative errno. */
static int device_probe(struct hdl_dev *dev)
{
	dev->srq = dev->attr.orig_attr.max_srq > 0;
	for (int q = 1; q < HDL_QUEUES; q++) {
		int can = hdl_kinds[q]->probe(dev);
		if (can < 0)
			return can;
		if (can)
			dev->caps |= HDL_QUEUE_BIT(q);
	}
	dev->max_msg = dev->port_attr.max_msg_sz ? dev->port_attr.max_msg_sz : 1u << 30;
	ask_for_promises(dev);
	return 0;
}

/* Reports an allowed kind that the device cannot do, and the missing capability. Returns 0 or a negative errno. */
static int check_allowed(struct hdl_dev *dev, unsigned allowed)
{
	/* without HEDDLE_TRANSPORT every kind is allowed, and none is required */
	for (int q = 1; q < HDL_QUEUES && *hdl_vars.transport; q++)
		if (allowed & HDL_QUEUE_BIT(q) && !(dev->caps & HDL_QUEUE_BIT(q))) {
			hdl_error("HEDDLE_TRANSPORT=%s: %s cannot do %s: it lacks %s; leave %s out, or choose another "
				  "device with HEDDLE_DEVICE",
				  hdl_vars.transport, dev->name, hdl_queue_name(q), hdl_kinds[q]->needs,
				  hdl_queue_name(q));
			return -EOPNOTSUPP;
		}
	return 0;
}

/* Returns true if the resources of a kind are made. Packets always: connections are made over them. */
static bool device_is_wanted(const struct hdl_dev *dev, enum hdl_queue queue)
{
	return HDL_QUEUE_IN(dev->possible | HDL_QUEUE_PACKETS, queue);
}

/* Receives that all pools together may have posted. */
static uint32_t all_receives(const struct hdl_dev *dev)
{
	uint32_t n = 0;
	unsigned counted = 0;

	for (int q = 1; q < HDL_QUEUES; q++) {
		const struct hdl_tp_kind *kind = hdl_kinds[q];
		if (!device_is_wanted(dev, q) || counted & 1u << kind->pool)
			continue;
		counted |= 1u << kind->pool;
		n += kind->receives(dev);
	}
	return n;
}

static int make_rcq(struct hdl_dev *dev)
{
	uint32_t depth = all_receives(dev);
	int err;

	dev->chan = ibv_create_comp_channel(dev->port.ctx);
	if (!dev->chan) {
		err = errno;
		hdl_error("%s: ibv_create_comp_channel failed (%s)", dev->name, strerror(err));
		return -err;
	}
	struct ibv_cq_init_attr_ex a = {
		.cqe = depth, .channel = dev->chan, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(dev->port.ctx, &a);
	/* each receive completes at most once: there are entries for all that are posted */
	dev->rcq = ex ? ibv_cq_ex_to_cq(ex) : ibv_create_cq(dev->port.ctx, (int)depth, NULL, dev->chan, 0);
	if (!dev->rcq) {
		err = errno;
		hdl_error("%s: ibv_create_cq of %u entries failed (%s): lower HEDDLE_SRQ_DEPTH", dev->name, depth,
			  strerror(err));
		return -err;
	}
	int fds[] = { dev->chan->fd, dev->port.ctx->async_fd };
	for (int i = 0; i < 2; i++) {
		int fl = fcntl(fds[i], F_GETFL);
		if (fl < 0 || fcntl(fds[i], F_SETFL, fl | O_NONBLOCK)) {
			err = errno;
			hdl_error("%s: cannot make an event descriptor non-blocking (%s)", dev->name, strerror(err));
			return -err;
		}
	}
	return 0;
}

/* Promises by which several processes have to choose alike. */
static uint8_t published(const struct hdl_promises *p)
{
	return (p->wakes ? HDL_PROMISES_WAKES : 0) | (p->at_once && p->sequence ? HDL_PROMISES_AT_ONCE : 0) |
	       (p->can_expose ? HDL_PROMISES_EXPOSES : 0);
}

static void fill_addr(struct hdl_dev *dev)
{
	struct hdl_addr *a = &dev->addr;

	*a = (struct hdl_addr){ .role = (uint8_t)(dev->role & 15), .mtu = (uint8_t)(dev->port.mtu & 15),
				.link_layer = dev->port_attr.link_layer, .caps = (uint8_t)dev->possible, .qkey = dev->qkey,
				.ud_qpn = dev->ud.qp->qp_num, .xrc_srqn = dev->xrc_srqn,
				.xrc_domain = (uint32_t)dev->xrc_domain, .xrc_domain_high = (uint16_t)(dev->xrc_domain >> 32),
				.dctn = dev->dct ? dev->dct->qp_num : 0, .dc_key = dev->dc_key, .lid = dev->port.lid,
				.fabric = a->fabric, .promises = published(&dev->promises) };
	memcpy(a->gid, dev->port.gid.raw, 16);
}

static void debug_device(const struct hdl_dev *dev)
{
	const struct hdl_promises *p = &dev->promises;
	char kinds[HDL_KINDS_TEXT];

	hdl_debug("%s port %u: kinds%s, inline %u, %s; promises:%s%s%s%s%s", dev->name, dev->port.port_num,
		  hdl_kinds_text(dev->caps, kinds), dev->max_inline,
		  p->pages_written ? "no registration needed" :
		  p->pages         ? "no registration needed to send" :
				     "memory is registered",
		  p->sequence ? " sequence" : "", p->wakes ? " wakes" : "", p->at_once ? " at-once" : "",
		  p->tells_end ? " tells-end" : "", p->arena ? " arena" : "");
}

int hdl_dev_open(struct hdl_dev *dev, const char *name, enum hdl_role role, unsigned allowed)
{
	struct hdl_tp *tp = dev->tp;
	int err, port = 0;

	dev->role = role;
	if ((err = open_context(dev, name, &port)))
		return err;
	if ((err = ibv_query_device_ex(dev->port.ctx, NULL, &dev->attr))) {
		hdl_error("%s: ibv_query_device_ex failed (%s)", dev->name, strerror(err));
		return -err;
	}
	if ((err = choose_port(dev, port)) || (err = make_pd(dev)) || (err = device_probe(dev)) ||
	    (err = check_allowed(dev, allowed)))
		return err;
	dev->possible = hdl_select_possible(dev->caps, allowed, hdl_job.size, hdl_job.ppn, hdl_vars.rc_peers);
	if ((err = hdl_mem_alloc(dev, "zeros for terminators", HDL_ZEROS, IBV_ACCESS_LOCAL_WRITE, &dev->zeros)) ||
	    (err = make_rcq(dev)))
		return err;
	/* the longest request that is copied: a pooled receive's bytes, or a frame with its terminator */
	size_t most = hdl_srq_bytes() > tp->ring_max ? hdl_srq_bytes() : tp->ring_max;
	hdl_bufpool_init(&dev->bounce, dev, (uint32_t)most + HDL_BOUNCE_AROUND, 8, 1u << 16);
	for (int q = 1; q < HDL_QUEUES; q++)
		if (device_is_wanted(dev, q) && (err = hdl_kinds[q]->open(dev)))
			return err;
	fill_addr(dev);
	debug_device(dev);
	return 0;
}

static void close_one(struct hdl_dev *dev, int err, const char *what)
{
	if (err)
		hdl_warn("%s: %s failed (%s)", dev->name, what, strerror(err));
}

void hdl_dev_stop(struct hdl_dev *dev)
{
	for (int q = 1; q < HDL_QUEUES; q++)
		if (hdl_kinds[q]->stop)
			hdl_kinds[q]->stop(dev);
}

void hdl_dev_close(struct hdl_dev *dev)
{
	struct hdl_scq *s;

	if (!dev->port.ctx)
		return;
	/* last to first: a DC target uses RC's receive queue */
	for (int q = HDL_QUEUES - 1; q; q--)
		hdl_kinds[q]->close(dev);
	hdl_bufpool_fini(&dev->bounce);
	hdl_credits_fini(dev);
	hdl_mem_free(&dev->zeros);
	if (dev->vouched)
		close_one(dev, ibv_dereg_mr(dev->vouched), "ibv_dereg_mr of the address space");
	if (dev->all)
		close_one(dev, ibv_dereg_mr(dev->all), "ibv_dereg_mr of the address space");
	while ((s = dev->scqs)) {
		dev->scqs = s->next;
		close_one(dev, ibv_destroy_cq(s->cq), "ibv_destroy_cq");
		free(s);
	}
	if (dev->rcq)
		close_one(dev, ibv_destroy_cq(dev->rcq), "ibv_destroy_cq");
	if (dev->chan)
		close_one(dev, ibv_destroy_comp_channel(dev->chan), "ibv_destroy_comp_channel");
	if (dev->port.pd && dev->port.pd != dev->root_pd)
		close_one(dev, ibv_dealloc_pd(dev->port.pd), "ibv_dealloc_pd of the parent domain");
	if (dev->td)
		close_one(dev, ibv_dealloc_td(dev->td), "ibv_dealloc_td");
	if (dev->root_pd)
		close_one(dev, ibv_dealloc_pd(dev->root_pd), "ibv_dealloc_pd");
	close_one(dev, ibv_close_device(dev->port.ctx) ? errno : 0, "ibv_close_device");
	dev->port.ctx = NULL;
}

static const struct hdl_dev *local_dev(struct hdl_tp *tp)
{
	for (int i = 0; i < tp->ndev; i++)
		if (tp->dev[i]->role != HDL_ROLE_REMOTE)
			return tp->dev[i];
	return NULL;
}

const struct hdl_port *hdl_tp_local_port(struct hdl_tp *tp)
{
	const struct hdl_dev *dev = local_dev(tp);

	return dev ? &dev->port : NULL;
}

bool hdl_tp_can_expose(struct hdl_tp *tp)
{
	const struct hdl_dev *dev = local_dev(tp);

	return dev && dev->promises.can_expose;
}

int hdl_tp_promises(struct hdl_tp *tp, int proc)
{
	const struct hdl_ep *ep = hdl_ep(tp, proc);

	if (ep && ep == tp->departed)
		return ep->fail_err;
	return ep ? (int)(ep->dev->addr.promises & ep->addr.promises) : -errno;
}

int hdl_tp_place(struct hdl_tp *tp, int proc, struct hdl_place *out)
{
	const struct hdl_ep *ep = hdl_ep(tp, proc);
	bool ours = hdl_proc_is_ours(proc);

	if (!ep)
		return -errno;
	*out = (struct hdl_place){ .here = ep->same_kernel && ep->dev->role != HDL_ROLE_REMOTE,
				   .oversubscribed = ours ? hdl_job.oversubscribed : ep->oversubscribed,
				   .cores = ours && hdl_job.ncores < UINT8_MAX ? hdl_job.ncores : ours ? UINT8_MAX : ep->cores };
	return 0;
}

bool hdl_tp_exposes(struct hdl_tp *tp, uint32_t *lkey, uint32_t *rkey)
{
	const struct hdl_dev *dev = local_dev(tp);

	if (!dev || !dev->promises.pages_read || !dev->promises.pages_written)
		return false;
	if (lkey)
		*lkey = dev->vouched_lkey;
	if (rkey)
		*rkey = dev->all->rkey;
	return true;
}

struct ibv_comp_channel *hdl_tp_local_channel(struct hdl_tp *tp)
{
	const struct hdl_dev *dev = local_dev(tp);

	return dev ? dev->chan : NULL;
}
