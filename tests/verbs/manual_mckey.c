/* SPDX-License-Identifier: BSD-3-Clause */
/* Manual 7.4, mckey: ids of one event channel join a multicast group; each of the sender's ids sends to the group, and each of
 * the receiver's gets as many messages as it has receives. Port spaces UDP and IPoIB; a group by its IP address, and by its GID
 * with a bound source (-M). */
#include "cm.h"
#include "manual.h"

enum { CONNECTIONS = 3, MESSAGES = 10, SIZE = 100, GRH = sizeof(struct ibv_grh) };

struct node {
	struct rdma_cm_id *id;
	bool connected;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint32_t remote_qpn, remote_qkey;
	char *mem;
};
static struct node nodes[CONNECTIONS];
static int connects_left;
static bool is_sender, unmapped;
static enum rdma_port_space space;
static const char *group;
static struct sockaddr_storage dst, src;

static void init_node(struct node *n)
{
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(n->id->verbs, n->id->port_num, &port) && SIZE <= 1 << (port.active_mtu + 7), "MTU");
	n->pd = ibv_alloc_pd(n->id->verbs);
	n->cq = ibv_create_cq(n->id->verbs, MESSAGES * 2, n, NULL, 0);
	CHECK(n->pd && n->cq, "ibv_alloc_pd, ibv_create_cq");
	struct ibv_qp_init_attr a = {.qp_context = n, .send_cq = n->cq, .recv_cq = n->cq, .qp_type = IBV_QPT_UD,
				     .cap = {MESSAGES, MESSAGES, 1, 1, 0}};
	CHECK(!rdma_create_qp(n->id, n->pd, &a), "rdma_create_qp");
	n->mem = malloc(SIZE + GRH);
	n->mr = ibv_reg_mr(n->pd, n->mem, SIZE + GRH, IBV_ACCESS_LOCAL_WRITE);
	CHECK(n->mr, "ibv_reg_mr");
}

static void post_recvs(struct node *n)
{
	struct ibv_sge sge = {(uintptr_t)n->mem, SIZE + GRH, n->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1, .wr_id = (uintptr_t)n}, *bad;
	for (int i = 0; i < MESSAGES; i++)
		CHECK(!ibv_post_recv(n->id->qp, &wr, &bad), "ibv_post_recv");
}

static void post_sends(struct node *n)
{
	struct ibv_sge sge = {(uintptr_t)n->mem, SIZE, n->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .wr_id = (uintptr_t)n,
				 .imm_data = htonl(n->id->qp->qp_num)}, *bad;
	wr.wr.ud.ah = n->ah;
	wr.wr.ud.remote_qpn = n->remote_qpn;
	wr.wr.ud.remote_qkey = n->remote_qkey;
	memset(n->mem, 'm', SIZE);
	for (int i = 0; i < MESSAGES; i++)
		CHECK(!ibv_post_send(n->id->qp, &wr, &bad), "ibv_post_send");
}

static void addr_handler(struct node *n)
{
	init_node(n);
	if (!is_sender)
		post_recvs(n);
	CHECK(!rdma_join_multicast(n->id, SA(dst), n), "rdma_join_multicast");
}

static void join_handler(struct node *n, struct rdma_ud_param *param)
{
	CHECK(param->ah_attr.grh.dgid.raw[0] == 0xff && param->private_data == n, "the group's GID");
	n->remote_qpn = param->qp_num;
	n->remote_qkey = param->qkey;
	n->ah = ibv_create_ah(n->pd, &param->ah_attr);
	CHECK(n->ah, "ibv_create_ah");
	n->connected = true;
	connects_left--;
}

static void poll_cq(struct node *n)
{
	struct ibv_wc wc[8];
	int got;

	for (int done = 0; done < MESSAGES; done += got) {
		got = ibv_poll_cq(n->cq, 8, wc);
		CHECK(got >= 0, "ibv_poll_cq");
		for (int i = 0; i < got; i++)
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == (uintptr_t)n && wc[i].byte_len == SIZE + GRH &&
			      wc[i].wc_flags & IBV_WC_WITH_IMM && wc[i].wc_flags & IBV_WC_GRH &&
			      ntohl(wc[i].imm_data) == wc[i].src_qp && n->mem[GRH + SIZE - 1] == 'm',
			      "completion: %s, %u bytes", ibv_wc_status_str(wc[i].status), wc[i].byte_len);
	}
}

static void role(bool server)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_event *ev;

	is_sender = !server;
	src = cm_addr(unmapped ? "::1" : "127.0.0.1", 0);
	dst = cm_addr(group, 0);
	memset(nodes, 0, sizeof(nodes));
	connects_left = CONNECTIONS;
	for (int i = 0; i < CONNECTIONS; i++)
		CHECK(!rdma_create_id(ch, &nodes[i].id, &nodes[i], space), "rdma_create_id");
	for (int i = 0; i < CONNECTIONS; i++) {
		CHECK(!rdma_bind_addr(nodes[i].id, SA(src)), "rdma_bind_addr");
		if (unmapped)
			addr_handler(&nodes[i]);
		else
			CHECK(!rdma_resolve_addr(nodes[i].id, SA(src), SA(dst), 2000), "rdma_resolve_addr");
	}
	while (connects_left) {
		CHECK(!rdma_get_cm_event(ch, &ev) && !ev->status, "rdma_get_cm_event");
		if (ev->event == RDMA_CM_EVENT_ADDR_RESOLVED)
			addr_handler(ev->id->context);
		else if (ev->event == RDMA_CM_EVENT_MULTICAST_JOIN)
			join_handler(ev->id->context, &ev->param.ud);
		else
			CHECK(false, "%s", rdma_event_str(ev->event));
		CHECK(!rdma_ack_cm_event(ev), "rdma_ack_cm_event");
	}
	manual_barrier();	/* sleep(3) */
	for (int i = 0; i < CONNECTIONS; i++)
		if (is_sender)
			post_sends(&nodes[i]);
		else
			poll_cq(&nodes[i]);
	manual_barrier();
	for (int i = 0; i < CONNECTIONS; i++)
		CHECK(!rdma_leave_multicast(nodes[i].id, SA(dst)), "rdma_leave_multicast");
	for (int i = 0; i < CONNECTIONS; i++) {
		struct node *n = &nodes[i];
		CHECK(!ibv_destroy_ah(n->ah), "ibv_destroy_ah");
		rdma_destroy_qp(n->id);
		CHECK(!ibv_destroy_cq(n->cq) && !ibv_dereg_mr(n->mr) && !ibv_dealloc_pd(n->pd) && !rdma_destroy_id(n->id),
		      "destroy_node");
		free(n->mem);
	}
	rdma_destroy_event_channel(ch);
}

int main(void)
{
	static const struct {
		enum rdma_port_space space;
		const char *group;
		bool unmapped;
	} c[] = {{RDMA_PS_UDP, "239.1.1.1", false}, {RDMA_PS_IPOIB, "239.1.1.2", false}, {RDMA_PS_UDP, "ff15:a01b::5", true}};

	cm_start();
	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		space = c[i].space;
		group = c[i].group;
		unmapped = c[i].unmapped;
		manual_run(role);
	}
	return 0;
}
