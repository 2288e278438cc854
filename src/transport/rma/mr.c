/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of remote memory and their keys.
 *
 * A packed key has the region's number, for handlers, and for each device of the owner the rkey by which queues of that device
 * reach the region, under the device's role. A peer picks the rkey of the role by which the peer reaches the owner.
 *
 * One device at most, the region's agent, has the right to atomic requests: of two devices each may carry out such requests
 * between the two halves of the other one's. The key marks that device's entry.
 *
 * A region is registered for itself also on a device with paging on demand: the rkey of the whole address space would still be
 * valid after hdl_mr_deregister.
 */
#include <stdlib.h>
#include <string.h>

#include "shca.h"
#include "transport/core/tp.h"

#define ALL (HDL_MR_READ | HDL_MR_WRITE | HDL_MR_ATOMIC | HDL_MR_ATOMIC_DEVICE | HDL_MR_ATOMIC_OF_HOST)

struct key_head {
	uint32_t magic, number;
	uint64_t base, len;
	uint64_t incarnation;		/* of the owner */
	uint8_t access, count;
	uint8_t reserved[6];
};
struct key_entry {
	uint32_t rkey;
	uint8_t role;			/* enum hdl_role of the owner's device */
	uint8_t agent;			/* 1: this device carries out atomic operations */
	uint8_t reserved[2];
};
#define MAGIC 0x48644b32u		/* "HdK2": version of the packed form */
_Static_assert(sizeof(struct key_head) + HDL_DEVICES * sizeof(struct key_entry) <= HDL_RKEY_MAX, "the door says so");

static bool has_queues(const struct hdl_dev *dev)
{
	return dev->possible & HDL_QUEUE_CONNECTED;
}

static struct ibv_mr *reg(struct hdl_dev *dev, const struct hdl_mr *mr)
{
	int rights = 0;
	struct ibv_mr *m;

	if (mr->access & HDL_MR_READ)
		rights |= IBV_ACCESS_REMOTE_READ;
	if (mr->access & HDL_MR_WRITE)
		rights |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
	if (dev == mr->agent)
		rights |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
	if (!rights || !mr->len || !has_queues(dev))
		return NULL;
	/* the owner polls no region: a waiting owner is woken by messages */
	rights |= (int)SHCA_ACCESS_UNPOLLED;
	m = ibv_reg_mr(dev->port.pd, mr->base, mr->len, rights);
	if (!m && errno == ENOMEM && hdl_regcache_evict(dev->tp))
		m = ibv_reg_mr(dev->port.pd, mr->base, mr->len, rights);
	if (!m)
		hdl_debug("%s: %llu bytes at %p cannot be registered (%s): peers reach them by messages", dev->name,
			  (unsigned long long)mr->len, (void *)mr->base, strerror(errno));
	return m;
}

static void dereg(struct hdl_mr *mr)
{
	for (unsigned i = 0; i < ARRAY_SIZE(mr->mr); i++) {
		int err = mr->mr[i] ? ibv_dereg_mr(mr->mr[i]) : 0;
		if (err)
			hdl_warn("ibv_dereg_mr of a region at %p failed (%s)", (void *)mr->base, strerror(err));
	}
	free(mr->self);
	free(mr);
}

bool hdl_mr_has_atomics(struct hdl_tp *tp, bool of_host)
{
	return hdl_agent_dev(tp, of_host);
}

bool hdl_mr_has_agent_queues(const struct hdl_mr *mr)
{
	return mr->agent && mr->agent != mr->tp->dev[0];
}

/* Finds the device that is to carry out atomic operations on the region. Returns 0 or -EOPNOTSUPP. */
static int choose_agent(struct hdl_mr *mr)
{
	mr->agent = hdl_agent_dev(mr->tp, mr->access & HDL_MR_ATOMIC_OF_HOST);
	if (!mr->agent || (hdl_mr_has_agent_queues(mr) && hdl_agent_to_self(mr->tp)))
		return -EOPNOTSUPP;
	return 0;
}

int hdl_mr_register(struct hdl_tp *tp, void *base, size_t len, unsigned access, struct hdl_mr **out)
{
	bool device = access & HDL_MR_ATOMIC_DEVICE, refused = false;
	struct hdl_mr *mr;
	int err;

	if (access & ~ALL || (!device && access & HDL_MR_ATOMIC_OF_HOST))
		return -EINVAL;
	if ((device && access & HDL_MR_ATOMIC) || (device && ((uintptr_t)base | len) % 8))
		return -EINVAL;
	if (!(mr = calloc(1, sizeof(*mr))))
		return hdl_no_memory("a region that peers reach", sizeof(*mr));
	mr->base = base;
	mr->tp = tp;
	mr->len = len;
	mr->access = access;
	if (device && (err = choose_agent(mr))) {
		free(mr);
		return err;
	}
	if ((err = hdl_id_new(&tp->mrs, mr, &mr->number))) {
		free(mr);
		return hdl_no_memory("the table of regions", 2 * tp->mrs.n * sizeof(*tp->mrs.e));
	}
	for (int i = 0; i < tp->ndev; i++) {
		mr->mr[i] = reg(tp->dev[i], mr);
		refused |= device && len && tp->dev[i] == mr->agent && !mr->mr[i];
	}
	if (refused) {
		hdl_id_free(&tp->mrs, mr->number);
		dereg(mr);
		return -EOPNOTSUPP;
	}
	*out = mr;
	return 0;
}

int hdl_mr_deregister(struct hdl_mr *mr)
{
	if (mr->refs) {
		hdl_error("a region of %llu bytes at %p cannot be deregistered: %u operations of other ranks on it are under "
			  "way; they must be complete (flushed) before", (unsigned long long)mr->len, (void *)mr->base, mr->refs);
		return -EBUSY;
	}
	hdl_id_free(&mr->tp->mrs, mr->number);
	dereg(mr);
	return 0;
}

void hdl_mr_close(struct hdl_tp *tp)
{
	for (uint32_t i = 0; i < tp->mrs.n; i++)
		if (tp->mrs.e[i].p)
			dereg(tp->mrs.e[i].p);
}

size_t hdl_mr_pack(const struct hdl_mr *mr, void *key)
{
	struct hdl_tp *tp = mr->tp;
	struct key_head h = { .magic = MAGIC, .number = mr->number, .base = (uintptr_t)mr->base, .len = mr->len,
			      .incarnation = tp->self.incarnation, .access = (uint8_t)mr->access };
	char *to = (char *)key + sizeof(h);

	for (int i = 0; i < tp->ndev; i++) {
		struct key_entry e = { .role = (uint8_t)tp->dev[i]->role, .agent = tp->dev[i] == mr->agent };
		if (!mr->mr[i])
			continue;
		e.rkey = mr->mr[i]->rkey;
		to = mempcpy(to, &e, sizeof(e));
		h.count++;
	}
	memcpy(key, &h, sizeof(h));
	return (size_t)(to - (char *)key);
}

int hdl_rkey_unpack(struct hdl_ep *ep, const void *key, size_t n, struct hdl_rkey **rkey)
{
	struct key_head h = { 0 };
	struct hdl_rkey *k;

	if (n >= sizeof(h))
		memcpy(&h, key, sizeof(h));
	if (h.magic != MAGIC || n != sizeof(h) + h.count * sizeof(struct key_entry)) {
		hdl_error("%zu bytes are no packed key of a region of rank %d", n, ep->rank);
		return -EINVAL;
	}
	if (h.incarnation != ep->name.incarnation) {
		hdl_error("the key of a region belongs to another process than rank %d, or to an earlier process of that rank",
			  ep->rank);
		return -ESTALE;
	}
	if (!(k = calloc(1, sizeof(*k))))
		return hdl_no_memory("a handle of a peer's region", sizeof(*k));
	*k = (struct hdl_rkey){ .ep = ep, .base = h.base, .len = h.len, .number = h.number, .access = h.access };
	for (unsigned i = 0; i < h.count; i++) {
		struct key_entry e;
		memcpy(&e, (const char *)key + sizeof(h) + i * sizeof(e), sizeof(e));
		/* hdl_wire_lookup chose one address of the peer, and with that one role */
		if (e.role == ep->addr.role) {
			k->has_rkey = true;
			k->rkey = e.rkey;
			k->agent_is_lane = e.agent;
		} else if (e.agent) {
			k->agent_rkey = e.rkey;
		}
	}
	*rkey = k;
	return 0;
}

int hdl_rkey_release(struct hdl_rkey *rkey)
{
	if (rkey->refs) {
		hdl_error("the handle of a region of rank %d cannot be released: %u operations that use it are under way",
			  rkey->ep->rank, rkey->refs);
		return -EBUSY;
	}
	free(rkey);
	return 0;
}
