/* SPDX-License-Identifier: BSD-3-Clause */
/* A device and its capabilities. */
#ifndef HDL_TP_DEV_H
#define HDL_TP_DEV_H

#include "transport/queue/rx.h"
#include "transport/queue/sq.h"
#include "transport/connect/wire.h"

/* Promises of a device beyond the verbs' attributes. device.c asks for each when the device is opened, and each is used for
 * itself alone: a device may have any of them without the others, and SHCA_BEHAVE takes them from the software HCA one by one.
 * Ascending order of a request's bytes is asked of each queue: hdl_dev_in_order. */
struct hdl_promises {
	bool sequence;			/* the bytes of a write are visible no later than those of the next write of its queue */
	bool wakes;			/* a sleeping process is woken by any write into its memory (shca_await) */
	bool at_once;			/* a write to a connected peer has landed when its post has returned */
	bool tells_end;			/* connected queues fail when the peer's process ends, also with nothing in flight */
	bool arena;			/* memory that the processes of this host reach by loads and stores (shca_alloc) */
	bool pages;			/* implicit paging on demand: sends gather from memory that was not registered */
	bool pages_written;		/* peers write to such memory */
	bool pages_read;		/* peers read such memory */
	bool can_expose;		/* the device can expose all memory, and HEDDLE_ODP allows that; the device may still have
					 * refused this process (refused) */
	int refused;			/* errno of registering all memory, though the attributes say that the device pages; 0:
					 * none */
};

#define HDL_REFUSED_PAGES "pages on demand, but did not register all memory (%s): messages' memory is registered, or copied, " \
			  "and collectives do not copy between the ranks' buffers"

struct hdl_dev {
	struct hdl_tp *tp;
	struct hdl_port port;
	enum hdl_role role;
	char name[64];
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port_attr;
	struct ibv_pd *root_pd;		/* when the device has thread domains, port.pd is a parent domain of root_pd */
	struct ibv_td *td;
	unsigned caps;			/* bit per kind that the device can do */
	unsigned possible;		/* bit per kind that may be selected in this job */
	bool srq;			/* has shared receive queues */
	struct hdl_promises promises;
	struct ibv_mr *all;		/* promises.pages: the whole address space; else NULL */
	struct ibv_mr *vouched;		/* the same with SHCA_ACCESS_VOUCHED; NULL: the device refused it */
	uint32_t vouched_lkey;		/* lkey of `vouched`, else of `all`: for buffers of which this process loads or stores
					 * parts itself, so that a bad buffer is a signal in any case */
	uint32_t max_inline, max_ud;	/* bytes of inline data; UD: payload of one packet behind hdl_hdr */
	uint32_t max_msg;
	struct ibv_comp_channel *chan;
	struct ibv_cq *rcq;
	uint32_t rcq_unacked;
	struct hdl_scq *scqs;
	struct ibv_srq *basic_srq, *xrc_srq;
	struct hdl_rxpool rx[HDL_POOLS];
	struct hdl_bufpool bounce, pkt, pkt_small;
	struct hdl_mem zeros;		/* HDL_ZEROS bytes */
	struct hdl_credits *credits;	/* slabs of struct hdl_credit */
	/* credits of peers that have ended, to be used again */
	struct hdl_spare_credit { struct hdl_credit *credit; uint32_t rkey; } *spare_credits;
	uint32_t nspare_credits;
	/* UD */
	struct hdl_sq ud;
	struct ibv_send_wr ud_wr;	/* template of a small packet */
	struct ibv_sge ud_sge;
	struct hdl_ep *gather;		/* endpoint whose messages are gathered, several in a packet, or NULL; the packet being
					 * filled, or NULL */
	struct hdl_txbuf *gather_pkt;
	struct hdl_txbuf *filled[HDL_SQ_PACKETS];	/* full packets of `gather`, which have sequence numbers, to be posted
							 * together */
	uint32_t nfilled;
	uint32_t qkey;
	/* XRC */
	struct ibv_xrcd *xrcd;
	uint32_t xrc_srqn;
	uint32_t xrc_asking;		/* number of xrc_hosts that wait for a target */
	uint64_t xrc_domain;		/* number of the domain among processes: see kinds/xrc.c */
	struct hdl_xrc_host *xrc_hosts;
	struct hdl_xrc_target *xrc_targets;
	/* DC */
	struct ibv_qp *dct;
	uint64_t dc_key;
	struct hdl_sq *dci;
	int ndci;
	struct hdl_addr addr;
	struct hdl_sq gone[HDL_QUEUES];	/* counters of queues that were destroyed, by kind */
};
#define HDL_ZEROS 128u

int hdl_dev_open(struct hdl_dev *dev, const char *name, enum hdl_role role, unsigned allowed);
/* Stops the send queues that peers share, while the peers' address handles still exist; hdl_dev_close does the rest. */
void hdl_dev_stop(struct hdl_dev *dev);
void hdl_dev_close(struct hdl_dev *dev);
/* Returns true if the bytes of an RDMA write that is posted to this queue, or arrives by it, land in ascending order. Must: the
 * queue is in RTS, since drivers answer no before. The answer for one queue is not another's. May ask the adapter. */
bool hdl_dev_in_order(struct ibv_qp *qp);
/* Fills ah for a peer's address on this device. */
void hdl_dev_ah(const struct hdl_dev *dev, const union ibv_gid *gid, uint16_t lid, struct ibv_ah_attr *ah);

#endif
