/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the manual that its programs do not use: chapter 5, each function of rdma_verbs.h; rdma_get_devices (4.5); and of
 * chapter 3 those that the real libibverbs answers. */
#include <rdma/rdma_verbs.h>

#include "cm.h"

static struct rdma_event_channel *c, *s;
static char from[4][64], to[4][64];

static void completed(struct rdma_cm_id *id, bool sent, void *context, enum ibv_wc_opcode opcode, uint32_t bytes)
{
	struct ibv_wc wc;

	CHECK((sent ? rdma_get_send_comp(id, &wc) : rdma_get_recv_comp(id, &wc)) == 1, "no completion");
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == opcode && wc.wr_id == (uintptr_t)context, "%s, opcode %d",
	      ibv_wc_status_str(wc.status), wc.opcode);
	CHECK(sent || wc.byte_len == bytes, "%u bytes", wc.byte_len);
}

static void fill_all(char byte)
{
	memset(from, byte, sizeof(from));
	memset(to, 0, sizeof(to));
}

/* 5.2.1 to 5.2.9, on a connection. Regions: of messages, for READs and for WRITEs. */
static void connected(void)
{
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 4);
	struct rdma_cm_id *a = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(l)));
	struct ibv_qp_init_attr attr = {.cap = {8, 8, 2, 2, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1}, other = attr;
	int mark[4];

	CHECK(!rdma_create_qp(a, NULL, &attr), "rdma_create_qp");
	cm_connect(a);
	struct rdma_cm_id *b = cm_request(s);
	CHECK(!rdma_create_qp(b, NULL, &other), "rdma_create_qp");
	cm_accept(b);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	struct ibv_mr *mf = rdma_reg_msgs(a, from, sizeof(from)), *mt = rdma_reg_msgs(b, to, sizeof(to));
	struct ibv_mr *readable = rdma_reg_read(b, from, sizeof(from)), *writable = rdma_reg_write(b, to, sizeof(to));
	struct ibv_mr *sink = rdma_reg_msgs(a, to, sizeof(to));
	CHECK(mf && mt && readable && writable && sink, "rdma_reg_msgs, rdma_reg_read, rdma_reg_write");
	struct ibv_sge source[2] = {{(uintptr_t)from[0], 64, mf->lkey}, {(uintptr_t)from[2], 64, mf->lkey}};
	struct ibv_sge target[2] = {{(uintptr_t)to[1], 64, mt->lkey}, {(uintptr_t)to[3], 64, mt->lkey}};
	struct ibv_sge read[2] = {{(uintptr_t)to[0], 64, sink->lkey}, {(uintptr_t)to[2], 64, sink->lkey}};

	fill_all('v');
	CHECK(!rdma_post_recvv(b, &mark[0], target, 2) && !rdma_post_sendv(a, &mark[1], source, 2, 0), "rdma_post_sendv");
	completed(a, true, &mark[1], IBV_WC_SEND, 0);
	completed(b, false, &mark[0], IBV_WC_RECV, 128);
	CHECK(to[1][63] == 'v' && to[3][63] == 'v' && !to[0][0] && !to[2][0], "rdma_post_sendv, rdma_post_recvv");

	fill_all('r');
	CHECK(!rdma_post_read(a, &mark[0], to[1], 64, sink, 0, (uintptr_t)from[1], readable->rkey), "rdma_post_read");
	completed(a, true, &mark[0], IBV_WC_RDMA_READ, 0);
	CHECK(!rdma_post_readv(a, &mark[1], read, 2, 0, (uintptr_t)from[0], readable->rkey), "rdma_post_readv");
	completed(a, true, &mark[1], IBV_WC_RDMA_READ, 0);
	CHECK(to[0][0] == 'r' && to[1][0] == 'r' && to[2][63] == 'r' && !to[3][0], "rdma_post_read, rdma_post_readv");

	fill_all('w');
	CHECK(!rdma_post_write(a, &mark[0], from[0], 64, mf, 0, (uintptr_t)to[0], writable->rkey), "rdma_post_write");
	completed(a, true, &mark[0], IBV_WC_RDMA_WRITE, 0);
	CHECK(!rdma_post_writev(a, &mark[1], source, 2, 0, (uintptr_t)to[2], writable->rkey), "rdma_post_writev");
	completed(a, true, &mark[1], IBV_WC_RDMA_WRITE, 0);
	CHECK(to[0][63] == 'w' && !to[1][0] && to[2][0] == 'w' && to[3][63] == 'w', "rdma_post_write, rdma_post_writev");

	/* the rights of the regions are those that their names say */
	struct ibv_wc wc;
	CHECK(!rdma_post_write(a, &mark[2], from[0], 64, mf, 0, (uintptr_t)from[1], readable->rkey), "rdma_post_write");
	CHECK(rdma_get_send_comp(a, &wc) == 1 && wc.status == IBV_WC_REM_ACCESS_ERR, "a write into a region of rdma_reg_read: %s",
	      ibv_wc_status_str(wc.status));
	struct ibv_mr *all[] = {mf, mt, readable, writable, sink};
	for (int i = 0; i < 5; i++)
		CHECK(!rdma_dereg_mr(all[i]), "rdma_dereg_mr");
	struct rdma_cm_id *ids[] = {a, b, l};
	for (int i = 0; i < 3; i++)
		cm_destroy(ids[i]);
}

/* 5.2.8, rdma_post_ud_send: the Q_Key is that of RDMA_PS_UDP. */
static void datagrams(void)
{
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_UDP, "127.0.0.1", 4);
	struct rdma_cm_id *a = cm_resolved(c, RDMA_PS_UDP, "127.0.0.1", ntohs(rdma_get_src_port(l)));
	struct ibv_qp_init_attr attr = {.cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_UD, .sq_sig_all = 1}, other = attr;
	int mark[2];

	CHECK(!rdma_create_qp(a, NULL, &attr), "rdma_create_qp");
	cm_connect(a);
	struct rdma_cm_id *b = cm_request(s);
	CHECK(!rdma_create_qp(b, NULL, &other), "rdma_create_qp");
	struct ibv_mr *mt = rdma_reg_msgs(b, to, sizeof(to)), *mf = rdma_reg_msgs(a, from, sizeof(from));
	CHECK(mt && mf && !rdma_post_recv(b, &mark[0], to, 40 + 64, mt), "rdma_post_recv");
	cm_accept(b);
	struct rdma_cm_event *ev = cm_expect(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	struct ibv_ah *ah = ibv_create_ah(a->pd, &ev->param.ud.ah_attr);
	CHECK(ah, "ibv_create_ah");
	fill_all('d');
	CHECK(!rdma_post_ud_send(a, &mark[1], from[0], 64, mf, 0, ah, ev->param.ud.qp_num), "rdma_post_ud_send");
	completed(a, true, &mark[1], IBV_WC_SEND, 0);
	completed(b, false, &mark[0], IBV_WC_RECV, 40 + 64);
	CHECK(((char *)to)[40] == 'd' && ((char *)to)[103] == 'd', "the datagram");
	CHECK(!rdma_ack_cm_event(ev) && !ibv_destroy_ah(ah) && !rdma_dereg_mr(mt) && !rdma_dereg_mr(mf), "ibv_destroy_ah");
	struct rdma_cm_id *ids[] = {a, b, l};
	for (int i = 0; i < 3; i++)
		cm_destroy(ids[i]);
}

static void devices(void)
{
	int n = 0;
	struct ibv_context **list = rdma_get_devices(&n);

	CHECK(list && n > 0 && list[0] && !strcmp(ibv_get_device_name(list[0]->device), "shca0"), "%d devices", n);
	/* librdmacm's ids are of the same context */
	struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", 1);
	CHECK(id->verbs == list[0], "another context");
	CHECK(!strcmp(ibv_node_type_str(list[0]->device->node_type), "InfiniBand channel adapter"), "%s",
	      ibv_node_type_str(list[0]->device->node_type));
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(list[0], 1, &port) && !strcmp(ibv_port_state_str(port.state), "active"), "%s",
	      ibv_port_state_str(port.state));
	CHECK(!strcmp(ibv_event_type_str(IBV_EVENT_PATH_MIG), "path migrated"), "%s", ibv_event_type_str(IBV_EVENT_PATH_MIG));
	CHECK(ibv_get_device_guid(list[0]->device), "ibv_get_device_guid");
	cm_destroy(id);
	rdma_free_devices(list);
}

int main(void)
{
	CHECK(!ibv_fork_init(), "ibv_fork_init");
	cm_start();
	c = cm_channel();
	s = cm_channel();
	devices();
	connected();
	datagrams();
	rdma_destroy_event_channel(c);
	rdma_destroy_event_channel(s);
	return 0;
}
