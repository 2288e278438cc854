/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle_info --devices: the devices as the transport would see them, from the same queries. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <inttypes.h>
#include <shca.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"
#include "tools/info.h"

static const char *yes(bool b)
{
	return b ? "yes" : "no";
}

static int bytes_of_mtu(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << mtu : 0;
}

static void print_port(struct ibv_context *ctx, int num)
{
	struct ibv_port_attr port;
	char gid_text[INET6_ADDRSTRLEN] = "none";
	union ibv_gid gid;
	int err = ibv_query_port(ctx, (uint8_t)num, &port);

	if (err) {
		printf("    port %d: ibv_query_port: %s\n", num, strerror(err));
		return;
	}
	if (port.gid_tbl_len > 0 && !ibv_query_gid(ctx, (uint8_t)num, 0, &gid))
		inet_ntop(AF_INET6, &gid, gid_text, sizeof gid_text);
	printf("    port %d: %s, %s, MTU %d of %d, LID %u, GID 0 of %d %s\n", num, ibv_port_state_str(port.state),
	       port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand", bytes_of_mtu(port.active_mtu),
	       bytes_of_mtu(port.max_mtu), port.lid, port.gid_tbl_len, gid_text);
}

static const char *atomics(enum ibv_atomic_cap cap)
{
	return cap == IBV_ATOMIC_NONE ? "none" : cap == IBV_ATOMIC_HCA ? "among this device's" : "with the CPUs' too";
}

static void print_kinds(const struct ibv_device *dev, const struct ibv_device_attr *attr, uint64_t exp_flags)
{
	bool ib = dev->transport_type == IBV_TRANSPORT_IB;

	printf("    queue kinds: RC%s%s%s%s\n", ib ? " UC" : "", ib ? " UD" : "",
	       attr->device_cap_flags & IBV_DEVICE_XRC ? " XRC" : "", exp_flags & IBV_EXP_DEVICE_DC_TRANSPORT ? " DC" : "");
}

/* Calculation on send: the operations that exist for any type, those of the software HCA alone in brackets. */
static void print_calc(const struct ibv_exp_device_attr *exp)
{
	static const char *const names[] = {
		[IBV_EXP_CALC_OP_ADD] = " ADD", [IBV_EXP_CALC_OP_MAXLOC] = " MAXLOC", [IBV_EXP_CALC_OP_BAND] = " BAND",
		[IBV_EXP_CALC_OP_BXOR] = " BXOR", [IBV_EXP_CALC_OP_BOR] = " BOR",
	};
	const uint64_t ops = exp->calc_cap.int_ops | exp->calc_cap.uint_ops | exp->calc_cap.fp_ops;

	if (!ops) {
		printf("none");
		return;
	}
	printf("CALC");
	for (int op = 0; op < IBV_EXP_CALC_OP_NUMBER; op++)
		if (ops >> op & 1)
			printf("%s", names[op]);
	if (exp->shca_extensions & SHCA_EXP_EXTENSION_CALC_OPS)
		printf(" [MIN MAX PROD MAXLOC]");
	if (exp->shca_extensions & SHCA_EXP_EXTENSION_CALC_VECTOR)
		printf(" [vectors of %u bytes]", exp->shca_calc_vector_max);
}

static void print_exp(const struct ibv_exp_device_attr *exp)
{
	bool ext = exp->exp_device_cap_flags & IBV_EXP_DEVICE_EXT_ATOMICS;

	printf("    cross-channel (collectives by the HCA): %s\n",
	       yes(exp->exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL));
	printf("    extended masked atomics: %s", yes(ext));
	for (int bit = 0; ext && bit < 64; bit++)
		if (exp->ext_atom.atomic_arg_sizes >> bit & 1)
			printf(", %llu bytes", 1ull << bit);
	printf("\n    calculation on send: ");
	print_calc(exp);
	printf("\n    dynamically connected transport: %s", yes(exp->exp_device_cap_flags & IBV_EXP_DEVICE_DC_TRANSPORT));
	if (exp->exp_device_cap_flags & IBV_EXP_DEVICE_DC_TRANSPORT)
		printf(", at most %d targets, %d RDMA READs and atomics outstanding", exp->max_dct, exp->max_dc_req_rd_atom);
	printf("\n");
}

static int print_context(struct ibv_context *ctx)
{
	struct ibv_exp_device_attr exp = {.comp_mask = (IBV_EXP_DEVICE_ATTR_RESERVED - 1) | SHCA_EXP_DEVICE_ATTR_EXTENSIONS};
	struct ibv_device_attr_ex ex;
	const struct ibv_device_attr *attr = &ex.orig_attr;
	int err = ibv_query_device_ex(ctx, NULL, &ex), exp_err;

	if (err) {
		printf("    ibv_query_device_ex: %s\n", strerror(err));
		return 1;
	}
	exp_err = ibv_exp_query_device(ctx, &exp);
	if (exp_err)
		memset(&exp, 0, sizeof exp);
	printf("    firmware %.*s, vendor 0x%06x part %u, node GUID %016" PRIx64 "\n", (int)sizeof attr->fw_ver, attr->fw_ver,
	       attr->vendor_id, attr->vendor_part_id, be64toh(attr->node_guid));
	print_kinds(ctx->device, attr, exp.exp_device_cap_flags);
	if (exp_err && exp_err != EOPNOTSUPP)
		printf("    ibv_exp_query_device: %s\n", strerror(exp_err));
	else
		print_exp(&exp);
	printf("    shared receive queues: %d, of %d requests\n", attr->max_srq, attr->max_srq_wr);
	printf("    64-bit atomics: %s\n", atomics(attr->atomic_cap));
	printf("    at most %d queue pairs of %d requests with %d pieces, %d completion queues of %d entries, %d memory "
	       "regions\n",
	       attr->max_qp, attr->max_qp_wr, attr->max_sge, attr->max_cq, attr->max_cqe, attr->max_mr);
	for (int p = 1; p <= attr->phys_port_cnt; p++)
		print_port(ctx, p);
	return 0;
}

static int print_device(struct ibv_device *dev, const char *what)
{
	struct ibv_context *ctx;
	int code;

	printf("%s (%s)\n", ibv_get_device_name(dev), what);
	ctx = ibv_open_device(dev);
	if (!ctx) {
		printf("    cannot be opened: %s%s\n", strerror(errno),
		       errno == EACCES || errno == EPERM ? " (access to /dev/infiniband/uverbs*)" : "");
		return 1;
	}
	code = print_context(ctx);
	ibv_close_device(ctx);
	return code;
}

/* A preloaded libshca may show the software HCA's devices in the system's list as well. */
static bool listed(struct ibv_device **list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return true;
	return false;
}

int info_devices(void)
{
	int nsoft = 0, nsystem = 0, code = 0;
	struct ibv_device **soft, **system_list;

	soft = shca_get_device_list(&nsoft);
	if (!soft) {
		hdl_error("the software HCA offers no device: %s", strerror(errno));
		code = 1;
	}
	for (int i = 0; soft && i < nsoft; i++)
		code |= print_device(soft[i], "software HCA, within this host");
	system_list = ibv_get_device_list(&nsystem);
	for (int i = 0; system_list && i < nsystem; i++) {
		if (soft && listed(soft, nsoft, ibv_get_device_name(system_list[i])))
			continue;
		code |= print_device(system_list[i], "of the kernel, between hosts");
	}
	if (!system_list && errno != ENOSYS)	/* ENOSYS: the kernel's RDMA support is not loaded */
		printf("kernel devices: %s\n", strerror(errno));
	else if (!nsystem)
		printf("kernel devices: none (rdma link add rxe0 type rxe netdev eth0 makes an Ethernet port one)\n");
	if (system_list)
		ibv_free_device_list(system_list);
	if (soft)
		shca_free_device_list(soft);
	return code;
}
