/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and resource domains by the experimental verbs, included by <infiniband/verbs_exp.h>, whose rules for results hold
 * here: registration, device memory, and the names of UMR.
 */
#ifndef INFINIBAND_VERBS_EXP_H
#error "include <infiniband/verbs_exp.h>"
#endif
#ifndef INFINIBAND_VERBS_EXP_MEMORY_H
#define INFINIBAND_VERBS_EXP_MEMORY_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define IBV_EXP_IMPLICIT_MR_SIZE (~(size_t)0)	/* with IBV_EXP_ACCESS_ON_DEMAND and address 0: all memory of the process */

__extension__ enum ibv_exp_access_flags {
	IBV_EXP_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
	IBV_EXP_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	IBV_EXP_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	IBV_EXP_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
	IBV_EXP_ACCESS_MW_BIND = IBV_ACCESS_MW_BIND,
	IBV_EXP_ACCESS_ALLOCATE_MR = IBV_EXP_START_FLAG << 5,	/* address NULL: the device allocates; ibv_dereg_mr frees */
	IBV_EXP_ACCESS_SHARED_MR_USER_READ = IBV_EXP_START_FLAG << 6,
	IBV_EXP_ACCESS_SHARED_MR_USER_WRITE = IBV_EXP_START_FLAG << 7,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_READ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE = IBV_EXP_START_FLAG << 9,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_READ = IBV_EXP_START_FLAG << 10,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE = IBV_EXP_START_FLAG << 11,
	IBV_EXP_ACCESS_NO_RDMA = IBV_EXP_START_FLAG << 12,
	IBV_EXP_ACCESS_MW_ZERO_BASED = IBV_EXP_START_FLAG << 13,
	IBV_EXP_ACCESS_ON_DEMAND = IBV_EXP_START_FLAG << 14,
	IBV_EXP_ACCESS_RELAXED = IBV_EXP_START_FLAG << 15,
	IBV_EXP_ACCESS_PHYSICAL_ADDR = IBV_EXP_START_FLAG << 16,
	IBV_EXP_ACCESS_RESERVED = IBV_EXP_START_FLAG << 17,
};

/* Device memory, which has no address in the program: registered with ibv_exp_reg_mr, read and written with ibv_exp_memcpy_dm. */
struct ibv_exp_dm {
	struct ibv_context *context;
};
struct ibv_exp_alloc_dm_attr {
	size_t length;
	uint32_t comp_mask;		/* no bits yet */
};
enum ibv_exp_dm_memcpy_dir { IBV_EXP_DM_CPY_TO_DEVICE, IBV_EXP_DM_CPY_TO_HOST };
struct ibv_exp_memcpy_dm_attr {
	enum ibv_exp_dm_memcpy_dir memcpy_dir;
	void *host_addr;
	uint64_t dm_offset;
	size_t length;
	uint32_t comp_mask;		/* no bits yet */
};
/* Allocates at most ibv_exp_device_attr.max_dm_size bytes. The caller frees with ibv_exp_free_dm, after deregistering all regions of the memory. */
struct ibv_exp_dm *ibv_exp_alloc_dm(struct ibv_context *context, struct ibv_exp_alloc_dm_attr *attr);
int ibv_exp_free_dm(struct ibv_exp_dm *dm);
int ibv_exp_memcpy_dm(struct ibv_exp_dm *dm, struct ibv_exp_memcpy_dm_attr *attr);

enum ibv_exp_reg_mr_in_comp_mask {
	IBV_EXP_REG_MR_CREATE_FLAGS = 1 << 0,
	IBV_EXP_REG_MR_DM = 1 << 1,
	IBV_EXP_REG_MR_RESERVED = 1 << 2,
};
enum ibv_exp_reg_mr_create_flags { IBV_EXP_REG_MR_CREATE_CONTIG = 1 << 0 };
struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;
	void *addr;			/* with IBV_EXP_REG_MR_DM: the address of the memory's first byte in requests */
	size_t length;
	uint64_t exp_access;		/* enum ibv_exp_access_flags */
	uint32_t comp_mask;
	uint32_t create_flags;		/* with IBV_EXP_REG_MR_CREATE_FLAGS; CONTIG: a hint */
	struct ibv_exp_dm *dm;		/* with IBV_EXP_REG_MR_DM: the region starts at the beginning of dm */
};
struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in);

enum ibv_exp_rereg_mr_flags {
	IBV_EXP_REREG_MR_CHANGE_TRANSLATION = IBV_REREG_MR_CHANGE_TRANSLATION,
	IBV_EXP_REREG_MR_CHANGE_PD = IBV_REREG_MR_CHANGE_PD,
	IBV_EXP_REREG_MR_CHANGE_ACCESS = IBV_REREG_MR_CHANGE_ACCESS,
	IBV_EXP_REREG_MR_KEEP_VALID = 1 << 3,
	IBV_EXP_REREG_MR_FLAGS_SUPPORTED = (1 << 4) - 1,
};
enum ibv_exp_rereg_mr_attr_mask { IBV_EXP_REREG_MR_ATTR_RESERVED = 1 << 0 };
struct ibv_exp_rereg_mr_attr {
	uint32_t comp_mask;		/* no bits yet */
};
/* As ibv_rereg_mr, but returns an errno value on failure. KEEP_VALID is refused: the key is invalid while the region changes. */
int ibv_exp_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, uint64_t exp_access,
		     struct ibv_exp_rereg_mr_attr *attr);

enum ibv_exp_prefetch_attr_comp_mask { IBV_EXP_PREFETCH_MR_RESERVED = 1 << 0 };
enum ibv_exp_prefetch_attr_flags { IBV_EXP_PREFETCH_WRITE_ACCESS = 1 << 0 };
struct ibv_exp_prefetch_attr {
	uint32_t flags;
	void *addr;
	size_t length;
	uint32_t comp_mask;		/* no bits yet */
};
/* Must: the region was registered with IBV_EXP_ACCESS_ON_DEMAND. EFAULT: the range lies outside the region. */
int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr);

/* Regions shared between processes by a handle: refused. */
enum ibv_exp_reg_shared_mr_comp_mask { IBV_EXP_REG_SHARED_MR_RESERVED = 1 << 0 };
struct ibv_exp_reg_shared_mr_in {
	uint32_t mr_handle;
	struct ibv_pd *pd;
	void *addr;
	uint64_t exp_access;
	uint32_t comp_mask;
};
struct ibv_mr *ibv_exp_reg_shared_mr(struct ibv_exp_reg_shared_mr_in *in);

/* Memory windows: refused. */
struct ibv_exp_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr, length, exp_mw_access_flags;
};
enum ibv_exp_bind_mw_comp_mask { IBV_EXP_BIND_MW_RESERVED = 1 << 0 };
struct ibv_exp_mw_bind {
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	uint64_t wr_id, exp_send_flags;
	struct ibv_exp_mw_bind_info bind_info;
	uint32_t comp_mask;
};
int ibv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind);

/* Memory keys that requests configure (appendix C). */
enum ibv_exp_mr_create_flags { IBV_EXP_MR_SIGNATURE_EN = 1 << 0, IBV_EXP_MR_INDIRECT_KLMS = 1 << 1 };
struct ibv_exp_mr_init_attr {
	uint32_t max_klm_list_size, create_flags;
	uint64_t exp_access_flags;
};
enum ibv_exp_create_mr_in_comp_mask { IBV_EXP_CREATE_MR_IN_RESERVED = 1 << 0 };
struct ibv_exp_create_mr_in {
	struct ibv_pd *pd;
	struct ibv_exp_mr_init_attr attr;
	uint32_t comp_mask;
};
enum ibv_exp_mkey_attr_comp_mask { IBV_EXP_MKEY_ATTR_RESERVED = 1 << 0 };
struct ibv_exp_mkey_attr {
	uint32_t max_klm_list_size, comp_mask;
};
struct ibv_exp_mkey_list_container {
	uint32_t max_klm_list_size;
	struct ibv_context *context;
};
enum ibv_exp_mkey_list_type { IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR };
enum ibv_exp_alloc_mkey_list_comp_mask { IBV_EXP_MKEY_LIST_CONTAINER_RESERVED = 1 << 0 };
struct ibv_exp_mkey_list_container_attr {
	struct ibv_pd *pd;
	uint32_t mkey_list_type, max_klm_list_size, comp_mask;
};
struct ibv_exp_mem_region {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t length;
};
struct ibv_exp_mem_repeat_block {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t *byte_count, *stride;
};
enum ibv_exp_umr_wr_type { IBV_EXP_UMR_MR_LIST, IBV_EXP_UMR_REPEAT };
struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in);
int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr);
struct ibv_exp_mkey_list_container *ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr);
int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *mem);

/* ---- resource domains ---------------------------------------------------------------------------------------------- */

enum ibv_exp_thread_model { IBV_EXP_THREAD_SAFE, IBV_EXP_THREAD_UNSAFE, IBV_EXP_THREAD_SINGLE };
enum ibv_exp_msg_model {
	IBV_EXP_MSG_DEFAULT,
	IBV_EXP_MSG_LOW_LATENCY,
	IBV_EXP_MSG_HIGH_BW,
	IBV_EXP_MSG_FORCE_LOW_LATENCY,
};
enum ibv_exp_res_domain_init_attr_comp_mask {
	IBV_EXP_RES_DOMAIN_THREAD_MODEL = 1 << 0,
	IBV_EXP_RES_DOMAIN_MSG_MODEL = 1 << 1,
	IBV_EXP_RES_DOMAIN_RESERVED = 1 << 2,
};
struct ibv_exp_res_domain_init_attr {
	uint32_t comp_mask;
	enum ibv_exp_thread_model thread_model;	/* but SAFE: the program lets one thread at a time use the objects */
	enum ibv_exp_msg_model msg_model;	/* a hint */
};
struct ibv_exp_res_domain {
	struct ibv_context *context;
};
enum ibv_exp_destroy_res_domain_comp_mask { IBV_EXP_DESTROY_RES_DOMAIN_RESERVED = 1 << 0 };
struct ibv_exp_destroy_res_domain_attr {
	uint32_t comp_mask;
};
/* Thread guarantees that the program gives for the queue pairs and completion queues of a domain. A domain may be destroyed before its queues. */
struct ibv_exp_res_domain *ibv_exp_create_res_domain(struct ibv_context *context, struct ibv_exp_res_domain_init_attr *attr);
int ibv_exp_destroy_res_domain(struct ibv_context *context, struct ibv_exp_res_domain *res_dom,
			       struct ibv_exp_destroy_res_domain_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
