/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control path of the software device: functions to which src/shca/interpose dispatches the verbs, and functions that the
 * device's files share. Each returns what the verb documents: a pointer, or NULL with errno; 0 or an errno value; -1 with errno.
 */
#ifndef SHCA_CONTROL_H
#define SHCA_CONTROL_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>

#include <shca.h>

#include "shca/verbs/device.h"

#define SHCA_DEVICE_NAME "shca0"
#define SHCA_VENDOR_ID 0x025348u
#define SHCA_PORT_CAPS (IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_CLIENT_REG_SUP)
/* SHCA_PORTS: how many of the device's ports this process has, 1 or 2. */
uint32_t shca_ports(void);
#define SHCA_MAX_QP_WR 16384		/* CQEs name requests by 15 bits */
#define SHCA_MAX_SRQ_WR 32768
#define SHCA_MAX_SGE 32
#define SHCA_MAX_CQE (1 << 22)
#define SHCA_MAX_INLINE 32768
#define SHCA_MAX_RD_ATOMIC 16
#define SHCA_CMD_FD_NAME "shca-device"
#define SHCA_MAX_DM (1ull << 20)
#define SHCA_MAX_MSG (1u << 30)

/* The part that the contexts of one member share. */
struct shca_node {
	struct shca_member m;
	uint32_t refs;
	struct shca_fd bell;		/* the process's asynchronous event bell: m.proc->async_addr */
	pthread_mutex_t mutex;		/* contexts */
	struct shca_context *contexts;
	struct shca_list qps, cqs, srqs, xrcds, groups, flows;
	struct shca_zombies {
		struct shca_zombie *first, *last;
		uint32_t n;
		uint32_t beside;	/* queues on their lists, when these were emptied last */
	} zombies;
	bool inherited;			/* this is a forked child: the fabric is not mapped here, touch nothing */
	struct shca_counts gone;	/* of queue pairs that were destroyed; under mutex */
};

struct shca_user_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t number;
	_Atomic uint32_t refs;
	/* of a file's: */
	shca_off off;			/* struct shca_xrcd; 0: the domain belongs to no file, or the context was closed */
	struct shca_listed listed;
	struct shca_user_xrcd *next, **prev;	/* of the context */
};
/* Whether other processes can open the domain: its number is an inode's. */
#define SHCA_XRCD_OF_INODE 0x80000000u
static inline bool shca_xrcd_is_common(const struct shca_user_xrcd *xrcd)
{
	return xrcd->number & SHCA_XRCD_OF_INODE;
}

struct shca_user_td {
	struct ibv_td td;
	_Atomic uint32_t refs;
};

/* A DC target of the experimental verbs. */
struct shca_user_dct {
	struct ibv_exp_dct dct;
	struct shca_user_qp *qp;
	struct ibv_exp_dct_attr attr;	/* as given to ibv_exp_create_dct */
};

static inline struct shca_user_dct *shca_user_dct_of(struct ibv_exp_dct *dct)
{
	return (struct shca_user_dct *)dct;
}
static inline struct shca_user_pd *shca_user_pd_of(struct ibv_pd *pd)
{
	return (struct shca_user_pd *)pd;
}
static inline struct shca_user_cq *shca_user_cq_of(struct ibv_cq *cq)
{
	return (struct shca_user_cq *)cq;
}
static inline struct shca_user_qp *shca_user_qp_of(struct ibv_qp *qp)
{
	return (struct shca_user_qp *)qp;
}
static inline struct shca_user_srq *shca_user_srq_of(struct ibv_srq *srq)
{
	return (struct shca_user_srq *)srq;
}

/* ---- refuse.c ----------------------------------------------------------------------------------------------- */

/* Why a verb was refused, on stderr, when SHCA_DEBUG is set. Returns err, for `return shca_refuse(EINVAL, ...)`. */
int shca_refuse(int err, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));
/* As shca_refuse, for a call that destroys, in a thread for which shca_thread_get has just found no slot or no memory. All
 * destroying calls must ask shca_thread_get first: an object taken down by half would stay on lists of other processes, while
 * its memory goes when the device is closed. */
int shca_no_thread(const char *call) __attribute__((cold));

/* ENOMEM of a call that found no memory of the process's own. (A fabric without memory says so itself: shca_mem_alloc.) */
static inline int shca_no_memory(const char *call)
{
	return shca_refuse(ENOMEM, "%s: the process has no memory left%s", call, shca_limit_of(ENOMEM));
}

/* true in a forked child for a context of the parent: the fabric is not mapped in the child. Sets errno. */
bool shca_inherited(const struct ibv_context *ctx);
/* shca_inherited, or the device has failed (EIO): nothing is made, changed or asked any more. Sets errno. */
bool shca_unusable(const struct ibv_context *ctx);
/* Returns true if SHCA_IDENTITY makes the device a ConnectX, which takes raw work requests (raw.c). */
bool shca_is_connectx(void);
/* SHCA_LINK: whether the port has the attributes of RoCE. The packets of a fabric know no link layer: processes
 * with either reach each other. Entry 0 of the GID table is the only one of InfiniBand, and RoCE v1's; entry 1,
 * the same GID, is RoCE v2's. */
bool shca_is_ethernet(void);
static inline uint32_t shca_gid_entries(void)
{
	return shca_is_ethernet() ? 2 : 1;
}
#define SHCA_NETDEV "lo"	/* the network device that a GID entry of RoCE names */
/* Returns true if the variable by which libmlx5 places objects of this sort ("MLX_CQ_ALLOC_TYPE") insists on huge pages. Queues
 * of this device have none, so the caller refuses, as an mlx5 does on a host without huge pages. Sets errno. */
bool shca_wants_huge(const char *variable);

/* ---- device.c ----------------------------------------------------------------------------------------------- */

/* shca_set_fabric of this copy of the library. */
int shca_name_fabric(const char *name);
/* Returns true if dev is the software device of this copy of the library. */
bool shca_is_our_device(const struct ibv_device *dev);
struct ibv_device **shca_own_device_list(int *num);
struct ibv_context *shca_open_device(struct ibv_device *dev);
/* Tests: a context on a member that the caller joined and keeps. */
struct ibv_context *shca_open_member(struct shca_node *node);
int shca_close_device(struct ibv_context *ctx);
/* Returns true if this thread can close the context now. false: errno has the reason. */
bool shca_can_close(struct ibv_context *ctx);
/* child.c: makes posting and polling in this forked child refuse. */
void shca_context_inherit(struct shca_context *c);
/* A port of this process's fabric; of a new fabric if the process is no member. */
struct shca_port_now {
	bool down;
	uint16_t lid, sm_lid, pkey;
	uint64_t gid_prefix;
};
struct shca_port_now shca_port_now(uint32_t port);
/* Registers the handlers of fork() that take the device's locks. Must: before the handlers of a lock under which a function of
 * the device is called, because fork() calls the handlers that take locks in the reverse order. Returns 0 or an errno. */
int shca_device_fork_handlers(void);
/* Calls f for the member that this process is. Returns false, without a call, if it has not opened the device. f must not open or
 * close the device. */
bool shca_process_member(void (*f)(const struct shca_member *m, void *arg), void *arg);
/* counters.c: the path of counter i, of port 1; NULL: there are no more. The text of the counter's file of a port; returns the
 * length. */
const char *shca_counter_path(size_t i);
#define SHCA_COUNTERS_MAX 64u	/* at most so many */
int shca_counter_print(size_t i, uint32_t port, char *text, size_t size);
/* Adds the counters of these names (IBTA's: of the directory counters) of a port to values[n]. */
void shca_counters_add(uint32_t port, const char *const *names, uint64_t *values, unsigned n);
/* shca_process_member; for a process that is no member: of a mapping of the fabric that it would join. Returns false, without a
 * call, if there is none. */
bool shca_with_fabric(void (*f)(const struct shca_member *m, void *arg), void *arg);
/* shca_is_connectx, and SHCA_EXP_PROVIDER=mlx5 was set when the context was opened: the experimental verbs are those of any
 * mlx5. */
bool shca_is_plain_connectx(const struct ibv_context *ctx);

/* ---- query.c ------------------------------------------------------------------------------------------------ */

int shca_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr);
int shca_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size);
int shca_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t size);
int shca_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid);
int shca_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, int *type);
/* The MAC address that a GID of the port was made of. 0, or -1 with errno. */
int shca_resolve_mac(struct ibv_context *ctx, const struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid);
/* Refused: receive work queues, tables that spread packets over these, and packet pacing. */
int shca_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
struct ibv_wq *shca_create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr);
struct ibv_rwq_ind_table *shca_create_rwq_ind_table(struct ibv_context *ctx, struct ibv_rwq_ind_table_init_attr *attr);
int shca_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t size);
ssize_t shca_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
			     size_t size);
int shca_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey);
int shca_get_pkey_index(struct ibv_context *ctx, uint8_t port, __be16 pkey);
int shca_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values);
/* Returns true if memory that was not registered page by page is reached. */
bool shca_pages_on_demand(struct ibv_context *ctx);
/* The on-demand paging capabilities of DC. */
uint32_t shca_dc_odp_caps(struct ibv_context *ctx);
/* shca_promises. */
int shca_sa_path_record(struct ibv_context *ctx, uint8_t port, const uint8_t dgid[16], uint8_t record[64]);
/* Fills in a PathRecord of the fabric. */
void shca_path_record_fill(uint8_t record[64], const uint8_t dgid[16], const uint8_t sgid[16], uint16_t dlid, uint16_t slid,
			   uint16_t pkey);
uint32_t shca_query_promises(struct ibv_context *ctx);
/* objects/counts.c: shca_counts; and adds the counters of a queue pair that is being destroyed. Must not hold node->mutex. */
int shca_query_counts(struct ibv_context *ctx, struct shca_counts *counts);
void shca_counts_keep(struct shca_node *node, const struct shca_qp *qp);

/* ---- events.c ----------------------------------------------------------------------------------------------- */

/* Returns true if async_fd is still the context's epoll descriptor: an EPOLL_CTL_MOD of the bell succeeds and changes nothing. If
 * the application has closed the bell, no check is possible: then async_fd is left alone. */
bool shca_async_ours(const struct shca_context *c);
int shca_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event);
void shca_ack_async_event(struct ibv_async_event *event);
/* Waits until *unacked, guarded by mutex and cond of an object, is zero. */
void shca_wait_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *unacked);
/* Empties async_fd after an object with an unread event was destroyed or reset: otherwise the descriptor would stay readable
 * without an event. Must hold no lock. */
void shca_events_gone(struct shca_context *c);
/* Gives up the LAST_WQE_REACHED of a queue that is reset or destroyed. */
void shca_last_forget(struct shca_user_qp *qp);

/* ---- files.c: the device's files in sysfs and /dev --------------------------------------------------------------- */

/* PARENT: a directory that the kernel may have, too, with the files of other devices. */
enum shca_file_kind { SHCA_FILE_TEXT, SHCA_FILE_DIRECTORY, SHCA_FILE_CHARACTER, SHCA_FILE_RDMA_CM, SHCA_FILE_UMAD,
		      SHCA_FILE_PARENT };
struct shca_file {
	enum shca_file_kind kind;
	uint32_t port;			/* UMAD */
	unsigned minor;			/* RDMA_CM: of the misc device */
	const char *path;		/* without superfluous slashes */
	size_t length;			/* of the text */
	char text[128];
};
/* 0; -ENOENT: below the device's directories is no such file; -ESRCH: the path is none of the device's. */
int shca_file_find(const char *path, struct shca_file *file);
/* Calls f with each name in a directory of the device, once; of a PARENT with those of this device only. */
void shca_file_names(const char *directory, void (*f)(const char *name, void *arg), void *arg);

/* ---- pd.c --------------------------------------------------------------------------------------------------- */

struct ibv_pd *shca_alloc_pd(struct ibv_context *ctx);
int shca_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *shca_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int shca_dealloc_td(struct ibv_td *td);
struct ibv_pd *shca_alloc_parent_domain(struct ibv_context *ctx, struct ibv_parent_domain_init_attr *attr);
struct ibv_xrcd *shca_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr);
int shca_close_xrcd(struct ibv_xrcd *xrcd);

/* ---- mr.c --------------------------------------------------------------------------------------------------- */

struct ibv_mr *shca_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access);
struct ibv_mr *shca_alloc_null_mr(struct ibv_pd *pd);
int shca_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access);
int shca_dereg_mr(struct ibv_mr *mr);
int shca_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg,
		   uint32_t n);
struct ibv_dm *shca_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr);
int shca_free_dm(struct ibv_dm *dm);
struct ibv_mr *shca_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned int access);
/* shca_alloc, shca_free. */
void *shca_buf_alloc(struct ibv_context *ctx, size_t bytes);
/* shca_alloc_kept, shca_free_kept. */
void *shca_kept_alloc(struct ibv_context *ctx, size_t bytes);
int shca_kept_free(struct ibv_context *ctx, void *p, size_t bytes);
int shca_buf_free(struct ibv_context *ctx, void *p);
/* Frees all memory that shca_buf_alloc gave out and the program did not free. */
void shca_bufs_free(struct shca_context *ctx);

/* ---- mkey.c: indirect memory keys (UMR) ---------------------------------------------------------------------- */

/* remote_inv: SEND_WITH_INV may invalidate the key. */
struct shca_user_mr *shca_mkey_alloc(struct ibv_pd *pd, uint32_t entries, bool remote_inv, const char *call);
int shca_mkey_free(struct shca_user_mr *key);
struct mlx5dv_mkey *shca_dv_create_mkey(struct mlx5dv_mkey_init_attr *attr);
int shca_dv_destroy_mkey(struct mlx5dv_mkey *mkey);
int shca_dv_mkey_check(struct mlx5dv_mkey *mkey, struct mlx5dv_mkey_err *err, size_t size);
/* Returns true if this software device made the key. */
bool shca_mkey_is_ours(const struct mlx5dv_mkey *mkey);
/* The parts of a key that a request sets. */
struct shca_mkey_conf {
	bool access_set, layout_set;
	uint32_t access;		/* IBV_ACCESS_* */
	uint64_t base;			/* address of the first byte */
	uint64_t repeat;
	uint32_t n;
	struct shca_mkey_entry *entry;	/* n; `at` is filled in by shca_fill_mkey */
};
/* Fills in the request that configures a key. The entries stay the caller's, until the request is submitted. seg: one. Returns
 * 0, or EINVAL: refused. */
int shca_fill_mkey(const struct shca_user_qp *q, struct shca_user_mr *key, const struct shca_mkey_conf *conf,
		   struct shca_req *req, struct shca_seg *seg);

/* ---- mw.c --------------------------------------------------------------------------------------------------- */

struct shca_user_mw {
	struct ibv_mw mw;
	struct shca_mr *sh;
	uint32_t gen;			/* of sh, while the window is there */
	struct shca_user_pd *pd;
	struct shca_user_mw *next, **prev;	/* of the context */
};
static inline struct shca_user_mw *shca_user_mw_of(struct ibv_mw *mw)
{
	return (struct shca_user_mw *)mw;
}
struct ibv_mw *shca_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int shca_dealloc_mw(struct ibv_mw *mw);
/* Makes the region take no more binds. Returns 0, EBUSY: a memory window is bound to the region, which takes binds again;
 * or another errno value. */
int shca_windows_close(struct shca_context *c, struct shca_mr *region, const char *call);
/* Ends a memory window or an indirect memory key for good: no request that was posted binds or configures the entry any more,
 * and no thread uses it (I8). call: for the text of an error. Returns 0 or an errno. */
int shca_window_retire(struct shca_context *c, struct shca_mr *sh, const char *call);
/* Ends the windows of type 2 that are bound to this queue pair, which is being destroyed: another queue pair may get its number.
 * Must be called behind the quiesce after which no executor is at work for the queue pair, since requests of the queue pair bind
 * windows and those of its peer invalidate them; and before the number is free. */
void shca_windows_leave(struct shca_context *c, uint32_t qpn);
/* Ends the windows of other contexts that are bound to regions of c (which those contexts have imported), and lets none be bound
 * any more. Must: c is being closed and off the list of contexts; its regions are deregistered next. */
void shca_windows_end(struct shca_context *c);

/* rights.c: whether memory is mapped with the protection that these access flags need. 0; EFAULT; EINVAL: no such range. */
int shca_memory_check(const void *addr, size_t length, unsigned int access);

/* ---- ah.c --------------------------------------------------------------------------------------------------- */

/* The port of this fabric that an address names; 0: none, packets are lost on the way. */
uint32_t shca_address_port(const struct ibv_context *ctx, const struct ibv_ah_attr *attr);
/* 0 or EINVAL: port and source GID index. */
int shca_address_check(const struct ibv_ah_attr *attr);
struct ibv_ah *shca_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int shca_destroy_ah(struct ibv_ah *ah);
int shca_init_ah_from_wc(struct ibv_context *ctx, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			 struct ibv_ah_attr *attr);
struct ibv_ah *shca_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port);

/* ---- cq.c -------------------------------------------------------------------------------------------------- */

struct ibv_comp_channel *shca_create_comp_channel(struct ibv_context *ctx);
int shca_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *shca_create_cq(struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			      int comp_vector);
struct ibv_cq_ex *shca_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
int shca_resize_cq(struct ibv_cq *cq, int cqe);
int shca_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int shca_destroy_cq(struct ibv_cq *cq);
/* The part of destroying that other processes see; the object stays. */
void shca_cq_unmap(struct shca_user_cq *cq);
int shca_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void shca_ack_cq_events(struct ibv_cq *cq, unsigned int n);
/* Removes the completions of a queue that is being destroyed or reset, and gives an SRQ's receives back to the SRQ. */
void shca_cq_clean(struct shca_user_cq *cq, uint32_t qpn, struct shca_user_srq *srq);

/* ---- srq.c ------------------------------------------------------------------------------------------------- */

struct ibv_srq *shca_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *shca_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int shca_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int shca_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int shca_get_srq_num(struct ibv_srq *srq, uint32_t *number);
int shca_destroy_srq(struct ibv_srq *srq);
void shca_srq_unmap(struct shca_user_srq *srq);
/* srq_resize.c: gives the SRQ room for max_wr requests. Returns 0, or EINVAL: more are posted, ENOMEM: then nothing has changed.
 * Must: srq->resizing is held; outside of the engine. */
int shca_srq_resize(struct shca_thread *thr, struct shca_user_srq *srq, uint32_t max_wr);

/* ---- qp.c -------------------------------------------------------------------------------------------------- */

/* The arguments of all ways to create a queue pair. */
struct shca_qp_create {
	struct ibv_qp_init_attr_ex attr;
	uint8_t type;			/* as struct shca_qp */
	uint8_t flags;			/* SHCA_QP_* */
	uint8_t raw;			/* RAW_PACKET: SHCA_RAW_* */
	uint64_t dv_send_ops;
	uint64_t dc_key;
};
struct shca_user_qp *shca_qp_new(struct ibv_context *ctx, struct shca_qp_create *create);
/* Checks a plain (not DC) request and fills in cr. 0 or an errno value. */
int shca_qp_create_check(const struct ibv_qp_init_attr_ex *attr, struct shca_qp_create *cr);
struct ibv_qp *shca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *shca_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp_ex *shca_qp_to_qp_ex(struct ibv_qp *qp);
/* qp_modify.c: *attr is the attributes as they are, after a migration too. Must hold qp->modifying, and a
 * common queue pair's lock. */
void shca_qp_query_path(struct shca_user_qp *qp, struct ibv_qp_attr *attr);
int shca_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init);
int shca_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
int shca_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int shca_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int shca_destroy_qp(struct ibv_qp *qp);
void shca_qp_unmap(struct shca_user_qp *qp);

/* ---- qp_modify.c -------------------------------------------------------------------------------------------- */

int shca_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
/* Stops the queue: when this returns, no request runs for qp or into qp, and posting is refused. The engine's lock is kept. Must
 * be called before the number goes: reapers still have to find the queue by number, as do threads that walk the list of
 * requesters waiting for its receives. If qp itself waits for a receive, it stays on that list: a thread that takes qp off finds
 * nothing to run, and goes on to the next queue. */
void shca_qp_stop(struct shca_thread *thr, struct shca_user_qp *qp);
/* Removes the queue's unpolled completions; receives of an SRQ go back to the SRQ. Send and receive completions may share one
 * CQ. */
void shca_qp_clean_cqs(struct shca_user_qp *qp);
/* The state as the engine left the queue: a queue whose request failed is in error. */
static inline enum ibv_qp_state shca_qp_state(const struct shca_user_qp *qp)
{
	return (enum ibv_qp_state)atomic_load(&qp->sh->qp_state);
}
/* Returns true if queue pairs of this type (struct shca_qp.type) have a send queue. */
static inline bool shca_type_sends(uint8_t type)
{
	return type != IBV_QPT_XRC_RECV && type != SHCA_QPT_DCT;
}
/* The path MTU of a queue in RESET; 0: a message is one packet of any length. */
static inline uint32_t shca_reset_mtu(uint8_t type)
{
	return type == IBV_QPT_RAW_PACKET ? 0 : 4096;
}

/* ---- qp_handle.c -------------------------------------------------------------------------------------------- */

/* Sets the fields of libibverbs. */
void shca_qp_fill_verbs(struct shca_user_qp *qp, struct ibv_context *ctx, struct shca_qp_create *create);
/* Puts the queue on the context's list, and counts it as a user of the objects that it names. */
void shca_qp_enter(struct shca_context *c, struct shca_user_qp *qp);
/* Takes the queue off the context's list. */
void shca_qp_leave(struct shca_context *c, struct shca_user_qp *qp);
/* Adds n to the reference counts of the PD, CQs, SRQ and XRC domain that the queue names: 1, or -1 when
 * the queue is destroyed. */
void shca_qp_refs(struct shca_user_qp *qp, int n);

/* ---- xrc.c: receiving queue pairs ---------------------------------------------------------------------------- */

struct shca_user_qp *shca_xrc_new(struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *shca_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);
/* Enters a file's domain among the open ones, according to open(2)'s flags in oflags; takes a domain out. 0 or an errno value. */
int shca_xrcd_enter(struct shca_context *c, struct shca_user_xrcd *xrcd, int oflags);
int shca_xrcd_leave(struct shca_context *c, struct shca_user_xrcd *xrcd);
/* Lock of an XRC_RECV queue over a modify or query: under the lock, qp->attr has the attributes that all holders share. Must be
 * called outside of the engine. shca_xrc_applied publishes qp->attr. */
void shca_xrc_lock(struct shca_thread *thr, struct shca_user_qp *qp);
void shca_xrc_unlock(struct shca_thread *thr, struct shca_user_qp *qp);
void shca_xrc_applied(struct shca_user_qp *qp);
void shca_xrc_to_error(struct shca_thread *thr, struct shca_user_qp *qp);
/* Resets the queue. Returns whether this handle had unread events. */
bool shca_xrc_to_reset(struct shca_thread *thr, struct shca_user_qp *qp);
/* The handle goes, and with the last one the queue pair. */
void shca_xrc_unmap(struct shca_user_qp *qp);

/* mcast.c. The verbs, and the end of all memberships of a queue that is being destroyed: behind this call no datagram finds the
 * queue by a group once the threads that are inside the engine have left. */
int shca_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int shca_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
void shca_groups_leave(struct shca_thread *thr, struct shca_user_qp *qp);
/* Returns true if the queue is attached to a group. Must not hold the node's mutex. */
bool shca_is_group_member(const struct shca_user_qp *qp);

/* flow.c. The verbs; and the end of all flows to a queue whose context is being closed. Must: the thread has a slot. */
struct ibv_flow *shca_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int shca_destroy_flow(struct ibv_flow *flow);
void shca_flows_end(struct shca_thread *thr, struct shca_user_qp *q);

/* zombie.c. Takes a stopped queue away from look-ups by number. Must hold the queue's lock. Returns true if the queue stands on
 * the list of a receive queue: then the caller must call shca_zombie_end instead of freeing, behind a quiesce and behind freeing
 * the queue's parts. */
bool shca_zombie_begin(struct shca_thread *thr, struct shca_node *node, struct shca_zombie *zombie);
void shca_zombie_end(struct shca_thread *thr, struct shca_node *node, struct shca_zombie *zombie);
/* Some that stand nowhere any more: a quiesce later they may be freed. */
struct shca_zombie *shca_zombies_done(struct shca_thread *thr, struct shca_node *node);
void shca_zombies_free(struct shca_thread *thr, struct shca_zombie *zombies);
/* All of them go. Linear in the queues that wait where they stand. */
void shca_zombies_clear(struct shca_thread *thr, struct shca_node *node);

/* qpstate.c: whether mask is right for this transition of this type (struct shca_qp.type). 0 or EINVAL. */
int shca_qp_transition(uint8_t type, enum ibv_qp_state from, enum ibv_qp_state to, int mask);

/* ---- dv.c --------------------------------------------------------------------------------------------------- */

/* shca_unfinished (post.c). */
int shca_query_unfinished(struct ibv_qp *qp, const uint32_t **word);
int shca_dv_query_device(struct ibv_context *ctx, struct mlx5dv_context *attr);
struct ibv_qp *shca_dv_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				 struct mlx5dv_qp_init_attr *dv);
struct ibv_cq_ex *shca_dv_create_cq(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr,
				    struct mlx5dv_cq_init_attr *dv);
struct mlx5dv_qp_ex *shca_dv_qp_ex(struct ibv_qp_ex *qp);
struct ibv_context *shca_dv_open_device(struct ibv_device *dev, struct mlx5dv_context_attr *attr);
int shca_dv_init_obj(struct mlx5dv_obj *obj, uint64_t type);

/* ---- import.c ----------------------------------------------------------------------------------------------- */

/* The contents of a context's command descriptor: the fabric's file, and name. */
struct shca_cmd_identity {
	uint64_t dev, ino;
	char name[64];
};
struct ibv_context *shca_import_device(int cmd_fd);
struct ibv_pd *shca_import_pd(struct ibv_context *ctx, uint32_t handle);
void shca_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *shca_import_mr(struct ibv_pd *pd, uint32_t handle);
void shca_unimport_mr(struct ibv_mr *mr);

/* ---- devx.c ------------------------------------------------------------------------------------------------- */

/* mlx5dv_get_clock_info: how times of completions become times of the host (mlx5dv_ts_to_ns). */
struct mlx5dv_clock_info;
int shca_clock_info(struct ibv_context *ctx, struct mlx5dv_clock_info *info);
int shca_devx_general_cmd(struct ibv_context *ctx, const void *in, size_t in_bytes, void *out, size_t out_bytes);

/* ---- dct.c ------------------------------------------------------------------------------------------------------ */

struct ibv_exp_dct *shca_create_dct(struct ibv_context *ctx, struct ibv_exp_dct_init_attr *attr);
int shca_query_dct(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr);
int shca_arm_dct(struct ibv_exp_dct *dct);
int shca_destroy_dct(struct ibv_exp_dct *dct);

/* ---- exp.c: the provider of the experimental verbs (verbs_exp/provider.h) ------------------------------------ */

extern const struct ibv_exp_provider shca_own_exp_provider;
/* Must be called before the first queue whose atomics may be wider than the CPU's. 0 or ENOMEM. */
int shca_widen_atomics(struct ibv_context *ctx);
/* SHCA_QP_* of IBV_EXP_QP_CREATE_*. */
uint8_t shca_qp_flags_of(uint32_t create_flags);

#endif
