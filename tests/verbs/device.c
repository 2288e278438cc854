/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device seen by programs: its identity, its port, older programs' structures, refusals (by the calls of libibverbs
 * and of mlx5dv, none of which reach the real libraries), the objects that ibv_close_device frees, and the builder of requests.
 */
#include <infiniband/mlx5dv.h>

#include "vt.h"

#undef ibv_query_port		/* the function that older programs call */

#define ROOM 64
#define LONG_LIST 60u

static struct vt t;
static struct ibv_cq *cq;
static char mem[4096];

/* The test closes the device before its objects: leaked handles are expected. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

/* Of a verb that returns an object: 0, or errno. Of one that returns -1 or a number: */
static int made(const void *object)
{
	return object ? 0 : errno;
}
static int done(int rc)
{
	return rc == -1 ? errno : rc;
}

static void refused(const char *what, int err, int expected)
{
	CHECK(err == expected, "%s: %d, expected %d", what, err, expected);
}

/* ---- identity and port ---------------------------------------------------------------------------------------- */

/* As another program of this host sees it: no memory in common, nor addresses. */
static uint64_t guid_elsewhere(void)
{
	uint64_t guid = 0;
	char fd[16];
	int p[2];

	CHECK(!pipe(p), "pipe");
	snprintf(fd, sizeof fd, "%d", p[1]);
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		execl("/proc/self/exe", "device", fd, NULL);
		_exit(1);
	}
	close(p[1]);
	CHECK(read(p[0], &guid, sizeof guid) == sizeof guid && waitpid(pid, NULL, 0) == pid, "the other program");
	close(p[0]);
	return guid;
}

static void identity(void)
{
	struct ibv_device_attr d;
	union ibv_gid gid;
	__be64 guid = ibv_get_device_guid(t.ctx->device);

	CHECK(!ibv_query_device(t.ctx, &d) && d.node_guid == guid && d.sys_image_guid == guid && guid,
	      "one device, several GUIDs");
	CHECK(!ibv_query_gid(t.ctx, 1, 0, &gid), "query_gid");
	/* link-local (IBTA 4.1.1), made of the port's EUI-64 */
	CHECK(be64toh(gid.global.subnet_prefix) == 0xfe80000000000000ull && gid.global.interface_id == guid, "GID %#lx",
	      (unsigned long)be64toh(gid.global.subnet_prefix));
	for (int i = 0; i < 4; i++)
		CHECK(guid_elsewhere() == guid, "another program sees another GUID");
	CHECK(ibv_get_device_index(t.ctx->device) == -1, "a kernel device's index");
}

static void port(void)
{
	struct ibv_gid_entry entry[2];
	union ibv_gid gid;
	__be16 pkey;
	int port_1 = 1;

	CHECK(ibv_query_gid_table(t.ctx, entry, 2, 0) == 1 && entry[0].port_num == 1 && entry[0].gid_type == IBV_GID_TYPE_IB,
	      "GIDs");
	CHECK(!ibv_query_gid(t.ctx, 1, 0, &gid) && !memcmp(&entry[0].gid, &gid, sizeof gid), "the same GID");
	refused("room for no GID", -(int)ibv_query_gid_table(t.ctx, entry, 0, 0), EINVAL);
	refused("flags of a table of GIDs", -(int)ibv_query_gid_table(t.ctx, entry, 1, 1), EINVAL);
	refused("a second GID", ibv_query_gid_ex(t.ctx, 1, 1, entry, 0), EINVAL);
	for (int p = 0; p <= 255; p++) {
		uint8_t n = (uint8_t)p;
		struct ibv_port_attr attr;
		if (p == port_1)
			continue;
		refused("attributes of another port", ___ibv_query_port(t.ctx, n, &attr), EINVAL);
		refused("a GID of another port", done(ibv_query_gid(t.ctx, n, 0, &gid)), EINVAL);
		refused("a GID's entry of another port", ibv_query_gid_ex(t.ctx, n, 0, entry, 0), EINVAL);
		refused("a P_Key of another port", done(ibv_query_pkey(t.ctx, n, 0, &pkey)), EINVAL);
		refused("a P_Key's index of another port", done(ibv_get_pkey_index(t.ctx, n, 0xffff)), EINVAL);
	}
	CHECK(!ibv_query_pkey(t.ctx, 1, 0, &pkey) && ibv_get_pkey_index(t.ctx, 1, pkey) == 0, "the port's P_Key");
}

/* A structure of an older version is written up to its end and no further. */
static void older_programs(void)
{
	struct {
		struct ibv_port_attr attr;
		char rest[ROOM];
	} p;
	union {
		struct mlx5dv_context dv;
		char bytes[sizeof(struct mlx5dv_context) + ROOM];
	} q;
	const size_t port_end = offsetof(struct ibv_port_attr, port_cap_flags2),
		     dv_end = offsetof(struct mlx5dv_context, comp_mask) + 8;

	memset(&p, 0x5a, sizeof p);
	CHECK(!ibv_query_port(t.ctx, 1, (struct _compat_ibv_port_attr *)&p.attr) && p.attr.state == IBV_PORT_ACTIVE,
	      "query_port");
	for (size_t i = port_end; i < sizeof p; i++)
		CHECK(((char *)&p)[i] == 0x5a, "byte %zu behind the port's attributes", i);
	memset(&q, 0x5a, sizeof q);
	q.dv.comp_mask = 0;
	CHECK(!mlx5dv_query_device(t.ctx, &q.dv) && q.dv.comp_mask == 0, "mlx5dv_query_device");
	for (size_t i = dv_end; i < sizeof q; i++)
		CHECK(q.bytes[i] == 0x5a, "byte %zu behind mlx5dv's attributes", i);
	q.dv.comp_mask = ~0ull;
	CHECK(!mlx5dv_query_device(t.ctx, &q.dv) && q.dv.comp_mask == MLX5DV_CONTEXT_MASK_DC_ODP_CAPS && q.dv.dc_odp_caps, "DC");
}

/* ---- memory owners, and calls that the device refuses ------------------------------------------------------------- */

/* shca_memory_at: the fabric begins with its tables, memory of shca_alloc is this process's, and the pieces have an end. */
static void memory_owners(struct ibv_context *stranger)
{
	char *mine = shca_alloc(t.ctx, SHCA_MEMORY_PIECE);
	bool seen = false, tables = true;
	enum shca_memory owner;
	void *at;

	CHECK(mine && shca_memory_at(stranger, 0, &at) == SHCA_MEMORY_END, "nobody knows a stranger's memory");
	for (uint64_t off = 0; (owner = shca_memory_at(t.ctx, off, &at)) != SHCA_MEMORY_END; off += SHCA_MEMORY_PIECE) {
		CHECK(tables || owner != SHCA_MEMORY_TABLES, "tables come first");
		tables = owner == SHCA_MEMORY_TABLES;
		CHECK(tables || off, "the first piece is the tables'");
		if (at == (void *)mine)
			seen = owner == SHCA_MEMORY_OWN;
	}
	CHECK(seen && !tables, "memory of shca_alloc is this process's");
	CHECK(!shca_free(t.ctx, mine), "freed");
}

static void strangers(void)
{
	struct ibv_context stranger = { .abi_compat = NULL };
	struct ibv_ece ece = { .vendor_id = 0 };
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_mr *mr = vt_mr(&t, mem, sizeof mem, VT_ACCESS);
	struct mlx5dv_qp qp_out;
	struct mlx5dv_obj obj = { .qp = { .in = qp, .out = &qp_out } };
	char cmd[16] = "";
	uint32_t seen;

	CHECK(!shca_await_prepare(t.ctx, &seen), "our context can sleep");
	shca_await_cancel(t.ctx);
	CHECK(!shca_promises(&stranger), "nobody speaks for a stranger's device");
	memory_owners(&stranger);
	struct shca_counts counts;
	refused("counts of a stranger's device", shca_counts(&stranger, &counts), EOPNOTSUPP);
	CHECK(!shca_counts(t.ctx, &counts), "ours counts");
	refused("sleeping on a stranger's context", shca_await_prepare(&stranger, &seen), EOPNOTSUPP);
	refused("memory of another device", made(ibv_reg_dmabuf_mr(t.pd, 0, 64, (uintptr_t)mem, 0, IBV_ACCESS_LOCAL_WRITE)),
		EOPNOTSUPP);
	struct ibv_qp strange = { .context = &stranger }, *ud = vt_qp(&t, IBV_QPT_UD, cq, NULL);
	const uint32_t *word;
	refused("what became of a stranger's requests", shca_unfinished(&strange, &word), EOPNOTSUPP);
	refused("what became of datagrams", shca_unfinished(ud, &word), EOPNOTSUPP);
	CHECK(!shca_unfinished(qp, &word) && !*word && !ibv_destroy_qp(ud), "nothing was posted to ours");
	CHECK(!ibv_query_ece(qp, &ece) && ece.vendor_id && !ece.options && !ibv_set_ece(qp, &ece), "no connection options");
	ece.options = 1;
	refused("connection options", ibv_set_ece(qp, &ece), EINVAL);
	ece.vendor_id = 1;
	CHECK(!ibv_set_ece(qp, &ece), "another vendor's options mean nothing here");
	ece.comp_mask = 1;
	refused("fields that do not exist", ibv_set_ece(qp, &ece), EINVAL);
	ece = (struct ibv_ece){0};
	refused("the insides of a queue", mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), EOPNOTSUPP);
	refused("a command to firmware", mlx5dv_devx_general_cmd(t.ctx, cmd, sizeof cmd, cmd, sizeof cmd), EOPNOTSUPP);
	CHECK(!ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) && !vt_init(qp), "a queue in RESET promises nothing");
	CHECK(!ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), "nor one in INIT");
	vt_rtr_rts(qp, qp->qp_num, vt_rts_attr());
	refused("connection options, connected", ibv_set_ece(qp, &ece), EINVAL);
	CHECK(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 1 &&
		      !ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 1) &&
		      !ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_READ, 0) && !ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0),
	      "only writes are in order");
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr), "destroy");
}

static struct ibv_qp_init_attr_ex driver(struct ibv_srq *srq)
{
	return (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq, .srq = srq, .pd = t.pd,
					     .comp_mask = IBV_QP_INIT_ATTR_PD };
}

static int dv_create(struct ibv_qp_init_attr_ex a, struct mlx5dv_qp_init_attr dv)
{
	struct ibv_qp *qp = mlx5dv_create_qp(t.ctx, &a, &dv);
	int err = made(qp);

	CHECK(!qp || !ibv_destroy_qp(qp), "destroy");
	return err;
}

static void mlx5_only(void)
{
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t.pd, &si);
	const struct mlx5dv_qp_init_attr dct = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
						 .dc_init_attr = { .dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = 5 } };
	struct ibv_qp_init_attr_ex a = driver(srq);
	struct mlx5dv_qp_init_attr dv = dct;
	struct mlx5dv_context_attr open = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };

	CHECK(srq && !dv_create(a, dct), "a DC target");
	dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
	refused("streams", dv_create(a, dv), EOPNOTSUPP);
	dv = dct;
	dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	dv.create_flags = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS;
	refused("tunnels", dv_create(a, dv), EOPNOTSUPP);
	dv.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
	CHECK(!dv_create(a, dv), "a hint");
	dv = dct;
	dv.dc_init_attr.dc_type = (enum mlx5dv_dc_type)9;
	refused("an unknown kind of DC queue", dv_create(a, dv), EINVAL);
	a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	refused("a DC target with a list of operations", dv_create(a, dct), EINVAL);
	a.send_ops_flags = IBV_QP_EX_WITH_SEND;
	refused("a DC target that sends", dv_create(a, dct), EINVAL);
	a = driver(srq);
	a.qp_type = IBV_QPT_RC;
	refused("an RC queue with DC's attributes", dv_create(a, dct), EINVAL);
	refused("DevX", made(mlx5dv_open_device(t.ctx->device, &open)), EOPNOTSUPP);
	CHECK(!ibv_destroy_srq(srq), "destroy");
}

/* ---- closing -------------------------------------------------------------------------------------------------- */

/* ibv_close_device deregisters the context's regions: their table entries are used again. */
static void closed_with_regions(void)
{
	uint32_t highest = 0;

	for (int round = 0; round < 400; round++) {
		struct ibv_context *ctx = vt_context();
		struct ibv_pd *pd = ibv_alloc_pd(ctx);
		CHECK(pd, "alloc_pd");
		for (int i = 0; i < 16; i++) {
			struct ibv_mr *mr = ibv_reg_mr(pd, mem, sizeof mem, VT_ACCESS);
			CHECK(mr, "region %d of round %d", i, round);
			highest = mr->handle > highest ? mr->handle : highest;
		}
		CHECK(!ibv_close_device(ctx), "close");
	}
	CHECK(highest < 400 * 8, "%u regions for 16 at a time", highest);
}

/* ---- the builder of requests ---------------------------------------------------------------------------------- */

static struct ibv_qp *builder(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = { .send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = t.pd,
					 .cap = { .max_send_wr = LONG_LIST, .max_send_sge = 4, .max_recv_wr = 4,
						  .max_recv_sge = 1, .max_inline_data = 512 },
					 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
						 .send_ops_flags = ops };

	return ibv_create_qp_ex(t.ctx, &a);
}

static void operations(void)
{
	const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
			    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
	const uint64_t rc = uc | IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	const struct { enum ibv_qp_type type; uint64_t can; } kinds[] = { { IBV_QPT_UD, ud }, { IBV_QPT_UC, uc },
									  { IBV_QPT_RC, rc } };

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct ibv_qp *qp = builder(kinds[i].type, kinds[i].can);
		CHECK(qp && !ibv_destroy_qp(qp), "what type %d can do", kinds[i].type);
		for (int bit = 0; bit < 64; bit++)
			if (!(kinds[i].can >> bit & 1))
				refused("what it cannot do", made(builder(kinds[i].type, kinds[i].can | 1ull << bit)),
					EOPNOTSUPP);
	}
}

static void list(struct ibv_qp_ex *ex, struct ibv_mr *mr, uint32_t n)
{
	char data[512];

	ibv_wr_start(ex);
	for (uint32_t i = 0; i < n; i++) {
		memset(data, 'a' + (int)i, sizeof data);
		ex->wr_id = i;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)mem + 8 * i);
		/* long enough to lie far behind the list's first size, short enough to see each */
		ibv_wr_set_inline_data(ex, data, i + 1 < n ? 8 : sizeof data);
	}
}

static void lists(void)
{
	struct ibv_mr *mr = vt_mr(&t, mem, sizeof mem, VT_ACCESS);
	struct ibv_qp *a = builder(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE), *b = vt_qp(&t, IBV_QPT_RC, cq, NULL);

	CHECK(a, "create");
	vt_connect_pair(a, b);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a);
	/* one that was given up leaves nothing, and no lock */
	memset(mem, 0, sizeof mem);
	list(ex, mr, 3);
	ibv_wr_abort(ex);
	vt_none(cq);
	CHECK(!mem[0], "a list that was given up");
	/* memory behind the list's first four requests is not the list's */
	void *behind[8];
	list(ex, mr, 1);
	ibv_wr_abort(ex);
	for (int i = 0; i < 8; i++) {
		behind[i] = malloc(2048);
		CHECK(behind[i], "memory");
		memset(behind[i], 0x77, 2048);
	}
	list(ex, mr, LONG_LIST);
	CHECK(!ibv_wr_complete(ex), "a long list");
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < 2048; k++)
			CHECK(((char *)behind[i])[k] == 0x77, "memory that is not the list's");
		free(behind[i]);
	}
	for (uint32_t i = 0; i < LONG_LIST; i++)
		vt_expect(cq, i, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < LONG_LIST; i++)
		CHECK(mem[8 * i] == (char)('a' + (int)i), "request %u of a long list", i);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_dereg_mr(mr), "destroy");
}

int main(int argc, char **argv)
{
	vt_fabric();
	if (argc > 1) {		/* see guid_elsewhere */
		struct ibv_context *ctx = vt_context();
		__be64 guid = ibv_get_device_guid(ctx->device);
		CHECK(write(atoi(argv[1]), &guid, sizeof guid) == sizeof guid && !ibv_close_device(ctx), "tell");
		return 0;
	}
	t = vt_open();
	cq = vt_cq(&t, 256, NULL);
	identity();
	port();
	older_programs();
	strangers();
	mlx5_only();
	closed_with_regions();
	operations();
	lists();
	CHECK(!ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	return 0;
}
