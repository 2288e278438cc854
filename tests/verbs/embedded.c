/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The software HCA linked into a library, as in libheddle: hidden dispatchers. Run alone, its own copy serves; run
 * under shcarun, the preloaded libshca does, so that the process is one member of the fabric. Argument: "own" or
 * "preloaded", the copy that must serve.
 */
#include <dlfcn.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs_exp.h>

#include "vt.h"

int main(int argc, char **argv)
{
	bool preloaded = argc == 2 && !strcmp(argv[1], "preloaded");
	CHECK(argc == 2 && (preloaded || !strcmp(argv[1], "own")), "usage: embedded own|preloaded");
	vt_fabric();

	int n = 0;
	struct ibv_device **list = shca_get_device_list(&n);
	CHECK(list && n == 1, "%d software devices", n);
	struct ibv_device *dev = list[0];
	shca_free_device_list(list);
	Dl_info info;
	bool in_library = dladdr(dev, &info) && strstr(info.dli_fname, "libshca.so");
	CHECK(in_library == preloaded, "the device is in %s", info.dli_fname);
	CHECK(!strcmp(ibv_get_device_name(dev), "shca0"), "name %s", ibv_get_device_name(dev));
	CHECK(mlx5dv_is_supported(dev), "mlx5dv_is_supported");

	/* other users of verbs in this process do not see it through us */
	list = ibv_get_device_list(&n);
	for (int i = 0; list && i < n; i++)
		CHECK(list[i] != dev, "ibv_get_device_list shows the software device");
	if (list)
		ibv_free_device_list(list);

	struct vt t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 64, NULL);
	struct ibv_qp *a = vt_qp(&t, IBV_QPT_RC, cq, NULL), *b = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	char *mem = shca_alloc(t.ctx, 4096);
	CHECK(mem, "shca_alloc");
	struct ibv_mr *mr = vt_mr(&t, mem, 4096, VT_ACCESS);
	vt_connect_pair(a, b);
	CHECK(!vt_recv(b, 1, vt_sge(mr, 0, 8)) && !vt_send(a, 2, vt_sge(mr, 8, 8), 0), "post");
	vt_expect(cq, 1, IBV_WC_SUCCESS);

	struct ibv_exp_device_attr attr = { .comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS };
	int err = ibv_exp_query_device(t.ctx, &attr);
	CHECK(!err && (attr.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL), "ibv_exp_query_device: %d", err);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr), "destroy");
	CHECK(!shca_free(t.ctx, mem), "shca_free");
	vt_close(&t);
	return 0;
}
