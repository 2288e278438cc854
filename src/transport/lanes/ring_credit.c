/* SPDX-License-Identifier: BSD-3-Clause */
/* Credits of eager rings: the receiver reports how many lines of a ring were read, by RDMA WRITE into a struct hdl_credit of the
 * sender. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define SLAB 64u
struct hdl_credits {
	struct hdl_credits *next;
	struct hdl_mem mem;
	unsigned used;
};

int hdl_credit_get(struct hdl_dev *dev, struct hdl_credit **credit, uint32_t *rkey)
{
	struct hdl_credits *s = dev->credits;

	if (dev->nspare_credits) {
		struct hdl_spare_credit *spare = &dev->spare_credits[--dev->nspare_credits];

		*credit = spare->credit;
		*rkey = spare->rkey;
		memset(*credit, 0, sizeof(**credit));
		return 0;
	}
	if (!s || s->used == SLAB) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return hdl_no_memory("a slab of ring credits", sizeof(*s));
		int err = hdl_mem_alloc(dev, "rings' credits", SLAB * sizeof(struct hdl_credit),
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &s->mem);
		if (err) {
			free(s);
			return err;
		}
		s->next = dev->credits;
		dev->credits = s;
	}
	*credit = (struct hdl_credit *)s->mem.p + s->used++;
	memset(*credit, 0, sizeof(**credit));
	*rkey = s->mem.mr->rkey;
	return 0;
}

void hdl_credit_put(struct hdl_ep *ep)
{
	struct hdl_dev *dev = ep->dev;
	void *more;

	if (!ep->ring_credit)
		return;
	/* without memory for the list the credit is not used again */
	more = realloc(dev->spare_credits, (dev->nspare_credits + 1) * sizeof(*dev->spare_credits));
	if (more) {
		dev->spare_credits = more;
		dev->spare_credits[dev->nspare_credits++] = (struct hdl_spare_credit){ ep->ring_credit, ep->credit_rkey };
	}
	ep->ring_credit = NULL;
}

void hdl_credits_fini(struct hdl_dev *dev)
{
	struct hdl_credits *s;

	free(dev->spare_credits);
	dev->spare_credits = NULL;
	dev->nspare_credits = 0;
	while ((s = dev->credits)) {
		dev->credits = s->next;
		hdl_mem_free(&s->mem);
		free(s);
	}
}

void hdl_ring_give_credit(struct hdl_ep *ep)
{
	struct hdl_sq *sq = ep->sq;
	int err;

	ep->credit_owed = hdl_ep_replaced(ep);
	if (!sq || ep->failed || ep->rx_state < HDL_RX_ACTIVE)
		return;
	/* A message, where an RDMA WRITE would not wake the peer, or an older credit could land on a newer one and stay (no
	 * `sequence`). */
	if (ep->wake_mode || !ep->dev->promises.sequence) {
		struct hdl_credit_rec c = { .consumed = ep->rx.consumed };
		ep->rx.reported = ep->rx.consumed;
		hdl_ep_ctl(ep, HDL_CTL_CREDIT, &c, sizeof(c), false);
		return;
	}
	if (!hdl_sq_room(sq, 1)) {
		ep->credit_owed = true;
		hdl_ep_busy(ep);
		return;
	}
	char *head = hdl_sq_head(sq);
	memcpy(head, &ep->rx.consumed, 8);
	struct ibv_sge sge = { .addr = (uintptr_t)head, .length = 8, .lkey = sq->head_lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = sq->max_inline >= 8 ? IBV_SEND_INLINE : 0 };
	wr.wr.rdma.remote_addr = ep->peer_credit + offsetof(struct hdl_credit, consumed);
	wr.wr.rdma.rkey = ep->peer_credit_rkey;
	ep->rx.reported = ep->rx.consumed;
	if ((err = hdl_sq_post(sq, ep, &wr, HDL_SLOT_NONE, NULL, false, 8)))
		hdl_debug("%s: credit not posted (%s)", hdl_proc_text(ep->rank), strerror(-err));
}
