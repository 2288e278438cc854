/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices and contexts: the list, open and close, capabilities, asynchronous events.
 *
 * One fabric member serves all contexts of a process. The member's event bell is one socket, rung by each thread that raises an
 * event. A context's async_fd is an epoll descriptor over that bell and a bell of the context (`told`). The reader of the
 * member's bell rings `told` of all other contexts with unread events, so no wake-up is lost; async_fd may be readable for
 * another context's event, as any shared descriptor may.
 *
 * Danger: the application may have closed any of these descriptors, and use the number for another file. A socket is known by
 * its inode. An epoll descriptor has no inode of its own; it is known by the sockets that it watches. So no descriptor here is
 * an eventfd.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <shca.h>
#include "base/fd.h"
#include "shca/engine/common.h"
#include "shca/verbs/control.h"

/* libibverbs casts an ibv_device to its larger private struct: the bytes that it reads there must be zero. */
static struct {
	struct ibv_device dev;
	char zero[1024];
} our_device = {
	.dev = {
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
		.name = SHCA_DEVICE_NAME,
		.dev_name = SHCA_DEVICE_NAME,
		.dev_path = "/sys/class/infiniband_verbs/" SHCA_DEVICE_NAME,
		.ibdev_path = "/sys/class/infiniband/" SHCA_DEVICE_NAME,
	},
};

static pthread_mutex_t process_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct shca_node *process_node;	/* guarded by process_mutex, as is: */
static char fabric_name[64];

int shca_refuse(int err, const char *fmt, ...)
{
	if (shca_env_bool("SHCA_DEBUG")) {
		char text[512];
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(text, sizeof text, fmt, ap);
		va_end(ap);
		fprintf(stderr, "libshca: %s: %s\n", text, strerror(err));
	}
	return err;
}

int shca_local_set(struct shca_member *m, uint32_t number, enum shca_kind kind, void *obj)
{
	struct shca_local *local = m->local;
	struct shca_tagged *_Atomic *slot = &local->seg[(number >> 8) & (SHCA_QP_SEGS - 1)];
	struct shca_tagged *seg = atomic_load_explicit(slot, memory_order_acquire);
	if (!seg) {
		struct shca_tagged *fresh = calloc(256, sizeof *fresh);
		if (!fresh)
			return -ENOMEM;	/* said: the caller */
		if (atomic_compare_exchange_strong(slot, &seg, fresh))
			seg = fresh;
		else
			free(fresh);
	}
	/* readers learn of the number from a completion, which comes later */
	seg[number & 255].kind = kind;
	__atomic_store_n(&seg[number & 255].qp, obj, __ATOMIC_RELEASE);
	return 0;
}

/* used: segments that any process of the fabric had. */
static void local_free(struct shca_local *local, uint32_t used)
{
	for (uint32_t i = 0; local && i < used; i++)
		free(atomic_load(&local->seg[i]));
	free(local);
}

/* ---- identity ----------------------------------------------------------------------------------------------- */

bool shca_is_connectx(void)
{
	const char *s = getenv("SHCA_IDENTITY");
	static _Atomic bool told;

	if (!s || !*s || !strcmp(s, "shca"))
		return false;
	if (!strcmp(s, "connectx"))
		return true;
	if (!atomic_exchange(&told, true))
		shca_error("SHCA_IDENTITY=%s is neither shca nor connectx: using shca", s);
	return false;
}

static bool wants_provider_mlx5(void)
{
	const char *s = getenv("SHCA_EXP_PROVIDER");
	static _Atomic bool told;

	if (!s || !*s || !strcmp(s, "shca"))
		return false;
	if (!strcmp(s, "mlx5") && shca_is_connectx())
		return true;
	if (!atomic_exchange(&told, true))
		shca_error("SHCA_EXP_PROVIDER=%s: the experimental verbs have the providers shca and, with SHCA_IDENTITY=connectx, mlx5: "
			   "using shca", s);
	return false;
}

bool shca_wants_huge(const char *variable)
{
	const char *s = shca_is_connectx() ? getenv(variable) : NULL;

	if (!s || strcmp(s, "HUGE"))
		return false;
	errno = shca_refuse(ENOMEM, "%s=HUGE: queues lie in the fabric's memory, which has no huge pages; PREFER_HUGE would do", variable);
	return true;
}

bool shca_is_plain_connectx(const struct ibv_context *ctx)
{
	return shca_context_of(ctx)->plain_connectx;
}

/* ---- the device list ---------------------------------------------------------------------------------------- */

bool shca_is_our_device(const struct ibv_device *dev)
{
	return dev == &our_device.dev;
}

struct ibv_device **shca_own_device_list(int *num)
{
	struct ibv_device **list = calloc(2, sizeof *list);
	if (!list) {
		errno = shca_no_memory("get_device_list");
		return NULL;
	}
	list[0] = &our_device.dev;
	if (num)
		*num = 1;
	return list;
}

bool shca_address_is_ours(const struct ibv_context *ctx, const struct ibv_ah_attr *attr)
{
	const struct shca_member *m = shca_context_of(ctx)->m;
	union ibv_gid gid;
	if (!attr->is_global)
		return attr->dlid == shca_lid(m);
	shca_gid_of(m, gid.raw);
	return !memcmp(&gid, &attr->grh.dgid, sizeof gid);
}

int shca_address_check(const struct ibv_ah_attr *attr)
{
	if (attr->port_num < 1 || attr->port_num > SHCA_PORTS)
		return shca_refuse(EINVAL, "address: port %u, the device has %d", attr->port_num, SHCA_PORTS);
	if (attr->is_global && attr->grh.sgid_index != 0)
		return shca_refuse(EINVAL, "address: source GID index %u, the table has one entry",
				   attr->grh.sgid_index);
	return 0;
}

/* ---- open and close ----------------------------------------------------------------------------------------- */

int shca_name_fabric(const char *name)
{
	int err = 0;
	pthread_mutex_lock(&process_mutex);
	if (process_node)
		err = shca_refuse(EBUSY, "set_fabric: the device is open; the fabric of a process is chosen before");
	else if (!name || strlen(name) >= sizeof fabric_name)
		err = shca_refuse(EINVAL, "set_fabric: the name is missing, or longer than %zu bytes", sizeof fabric_name - 1);
	else
		strcpy(fabric_name, name);
	pthread_mutex_unlock(&process_mutex);
	return err;
}

/* In a forked child: the descriptors are there, the mapping is not (MADV_DONTFORK). The child may open the device anew. */
static void device_fork_child(void)
{
	if (process_node) {
		process_node->inherited = true;
		for (struct shca_context *c = process_node->contexts; c; c = c->next)
			shca_context_inherit(c);
	}
	process_node = NULL;
	pthread_mutex_init(&process_mutex, NULL);
}

static void device_fork_prepare(void)
{
	pthread_mutex_lock(&process_mutex);
}

static void device_fork_parent(void)
{
	pthread_mutex_unlock(&process_mutex);
}

bool shca_inherited(const struct ibv_context *ctx)
{
	if (!shca_context_of(ctx)->node->inherited)
		return false;
	errno = shca_refuse(ENODEV, "the context was opened before fork(): the child has to open the device itself");
	return true;
}

bool shca_unusable(const struct ibv_context *ctx)
{
	if (shca_inherited(ctx))
		return true;
	if (!shca_device_broken(shca_context_of(ctx)->m))
		return false;
	errno = shca_refuse(EIO, "the device has failed (IBV_EVENT_DEVICE_FATAL): destroy its objects and close it; a new one is there when "
			    "all processes of the fabric have");
	return true;
}

struct shca_port_now shca_port_now(void)
{
	struct shca_port first;
	struct shca_port_now now;

	shca_port_init(&first);
	pthread_mutex_lock(&process_mutex);
	const struct shca_port *p = process_node ? &process_node->m.hdr->port : &first;
	now = (struct shca_port_now){
		.down = atomic_load(&p->down) || atomic_load(&p->broken), .lid = (uint16_t)atomic_load(&p->lid),
		.sm_lid = (uint16_t)atomic_load(&p->sm_lid), .pkey = (uint16_t)atomic_load(&p->pkey),
		.gid_prefix = atomic_load(&p->gid_prefix),
	};
	pthread_mutex_unlock(&process_mutex);
	return now;
}

static void node_put(struct shca_node *node)
{
	pthread_mutex_lock(&process_mutex);
	bool last = --node->refs == 0;
	if (last && node == process_node)
		process_node = NULL;
	if (last) {
		uint32_t used = node->m.forked ? SHCA_QP_SEGS : shca_segments_used(&node->m, false);
		node->m.proc->async_addr[0] = 0;
		shca_fd_close(&node->bell);
		shca_engine_leave(&node->m);
		local_free(node->m.local, used);
		free(node->m.cross);
		pthread_mutex_destroy(&node->mutex);
		free(node);
	}
	pthread_mutex_unlock(&process_mutex);
}

/* Joins on first use. NULL with errno. */
static struct shca_node *node_get(void)
{
	static bool fork_handlers;
	struct shca_node *node = NULL;
	int err = 0;

	pthread_mutex_lock(&process_mutex);
	if (process_node) {
		node = process_node;
		node->refs++;
		goto out;
	}
	if (!fork_handlers) {
		err = pthread_atfork(device_fork_prepare, device_fork_parent, device_fork_child);
		if (err)
			goto out;
		fork_handlers = true;
	}
	node = calloc(1, sizeof *node);
	if (!node) {
		err = shca_no_memory("open_device");
		goto out;
	}
	err = -shca_engine_join(&node->m, fabric_name[0] ? fabric_name : NULL);
	if (err)
		goto free_node;
	pthread_mutex_init(&node->mutex, NULL);
	node->bell = shca_fd_note(shca_bell_open(&node->m, node->m.proc->async_addr));
	if (node->bell.n < 0) {
		err = -node->bell.n;
		goto leave;
	}
	node->m.local = calloc(1, sizeof(struct shca_local));
	if (!node->m.local) {
		err = shca_no_memory("open_device");
		shca_fd_close(&node->bell);
		goto leave;
	}
	node->refs = 1;
	process_node = node;
	goto out;
leave:
	pthread_mutex_destroy(&node->mutex);
	shca_engine_leave(&node->m);
free_node:
	free(node);
	node = NULL;
out:
	pthread_mutex_unlock(&process_mutex);
	if (err)
		errno = err;
	return node;
}

bool shca_is_ours(const struct ibv_context *ctx)
{
	if (!ctx || ctx->abi_compat != __VERBS_ABI_IS_EXTENDED)
		return false;
	const struct verbs_context *v = container_of(ctx, struct verbs_context, context);
	return v->sz >= sizeof(*v) - offsetof(struct verbs_context, query_device_ex) &&
	       v->query_device_ex == shca_query_device_ex;
}

static int compat_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	/* the old struct ends before port_cap_flags2 */
	return shca_query_port(ctx, port, (struct ibv_port_attr *)attr,
			       offsetof(struct ibv_port_attr, port_cap_flags2));
}

static void fill_ops(struct verbs_context *v)
{
	v->sz = sizeof *v;
	v->query_port = shca_query_port;
	v->advise_mr = shca_advise_mr;
	v->reg_dm_mr = shca_reg_dm_mr;
	v->alloc_dm = shca_alloc_dm;
	v->free_dm = shca_free_dm;
	v->alloc_parent_domain = shca_alloc_parent_domain;
	v->dealloc_td = shca_dealloc_td;
	v->alloc_td = shca_alloc_td;
	v->modify_cq = shca_modify_cq;
	v->query_rt_values = shca_query_rt_values;
	v->create_cq_ex = shca_create_cq_ex;
	v->query_device_ex = shca_query_device_ex;
	v->create_qp_ex = shca_create_qp_ex;
	v->open_qp = shca_open_qp;
	v->get_srq_num = shca_get_srq_num;
	v->create_srq_ex = shca_create_srq_ex;
	v->open_xrcd = shca_open_xrcd;
	v->close_xrcd = shca_close_xrcd;
	v->context.ops._compat_query_device = shca_query_device;
	v->context.ops._compat_query_port = compat_query_port;
	v->context.ops.poll_cq = shca_poll_cq;
	v->context.ops.req_notify_cq = shca_req_notify_cq;
	v->context.ops.post_send = shca_post_send;
	v->context.ops.post_recv = shca_post_recv;
	v->context.ops.post_srq_recv = shca_post_srq_recv;
}

/* Whether async_fd is still the context's epoll descriptor: an EPOLL_CTL_MOD of the bell succeeds and changes nothing. If the
 * application has closed the bell, no check is possible: then async_fd is left alone. */
static bool async_ours(const struct shca_context *c)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return c->async.n >= 0 && shca_fd_ours(&c->node->bell) && !epoll_ctl(c->async.n, EPOLL_CTL_MOD, c->node->bell.n, &ev);
}

struct ibv_context *shca_open_member(struct shca_node *node)
{
	struct shca_context *c = calloc(1, sizeof *c);
	struct epoll_event ev = { .events = EPOLLIN };
	int err = ENOMEM;	/* said: below */

	if (!c)
		goto fail;
	c->m = &node->m;
	c->node = node;
	c->port_events = atomic_load(&node->m.hdr->port.events);
	c->plain_connectx = wants_provider_mlx5();
	c->async.n = c->cmd.n = -1;
	c->told = shca_fd_note(shca_bell_open(&node->m, c->told_addr));
	if (c->told.n < 0) {
		err = -c->told.n;
		goto fail;
	}
	c->async.n = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	if (c->async.n < 0 || epoll_ctl(c->async.n, EPOLL_CTL_ADD, node->bell.n, &ev) ||
	    epoll_ctl(c->async.n, EPOLL_CTL_ADD, c->told.n, &ev)) {
		err = errno;
		goto fail;
	}
	fill_ops(&c->v);
	c->v.context.device = &our_device.dev;
	/* programs copy this descriptor; no call uses it, and ibv_import_device knows it by the file's name */
	c->cmd = shca_fd_note(fd_raise(memfd_create(SHCA_CMD_FD_NAME, MFD_CLOEXEC)));
	if (c->cmd.n < 0) {
		err = errno;
		goto fail;
	}
	c->v.context.cmd_fd = c->cmd.n;
	c->v.context.async_fd = c->async.n;
	c->v.context.num_comp_vectors = 1;
	c->v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&c->v.context.mutex, NULL);
	pthread_mutex_init(&c->mutex, NULL);
	pthread_mutex_init(&c->cross, NULL);
	pthread_mutex_lock(&node->mutex);
	c->next = node->contexts;
	node->contexts = c;
	pthread_mutex_unlock(&node->mutex);
	return &c->v.context;
fail:
	if (c && c->async.n >= 0)
		close(c->async.n);
	if (c)
		shca_fd_close(&c->told);
	free(c);
	errno = shca_refuse(err, "open_device: no descriptor or no memory is left (limit on descriptors: ulimit -n)");
	return NULL;
}

struct ibv_context *shca_open_device(struct ibv_device *dev)
{
	int before = errno;
	struct shca_node *node = node_get();
	if (!node)
		return NULL;
	bool broken = shca_device_broken(&node->m);
	struct ibv_context *ctx = broken ? NULL : shca_open_member(node);
	int after = ctx ? before : errno;	/* looking for the fabric was refused this and that on the way */
	if (broken)
		after = shca_refuse(EIO, "open_device: the device has failed (IBV_EVENT_DEVICE_FATAL), and other processes of the fabric \"%s\" "
				    "have it open: a new one is there when these have closed it", node->m.hdr->name);
	if (!ctx)
		node_put(node);
	errno = after;
	return ctx;
}

int shca_no_thread(const char *call)
{
	int err = errno;	/* of shca_thread_get */

	return shca_refuse(err, "%s: this thread has no slot in the fabric, and cannot wait for the object's users. Nothing was "
			   "changed; end other threads, or call from a thread that has posted or polled before", call);
}

bool shca_can_close(struct ibv_context *ctx)
{
	struct shca_node *node = shca_context_of(ctx)->node;

	/* all or nothing: an object that could not be taken down would be freed with the process's memory, while other processes
	 * have it in their lists */
	if (node->inherited || shca_thread_get(&node->m))
		return true;
	errno = shca_no_thread("close_device");
	return false;
}

/* ibv_close_device. Takes down the objects that the program did not destroy, as a kernel device does; otherwise peers would go
 * on using them. The structs stay allocated, since the program still has pointers to them. */
int shca_close_device(struct ibv_context *ctx)
{
	struct shca_context *c = shca_context_of(ctx);
	struct shca_node *node = c->node;

	if (!shca_can_close(ctx))
		return -1;
	shca_fd_close(&c->cmd);
	if (async_ours(c))
		close(c->async.n);
	shca_fd_close(&c->told);
	if (node->inherited)
		return 0;
	pthread_mutex_lock(&node->mutex);
	struct shca_context **p = &node->contexts;
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	pthread_mutex_unlock(&node->mutex);
	while (c->qps)
		shca_qp_unmap(c->qps);
	while (c->srqs)
		shca_srq_unmap(c->srqs);
	while (c->cqs)
		shca_cq_unmap(c->cqs);
	while (c->mrs)
		shca_dereg_mr(&c->mrs->mr);
	for (struct shca_user_xrcd *x; (x = c->xrcds) && !shca_xrcd_leave(c, x);)
		free(x);
	shca_bufs_free(c);
	pthread_mutex_lock(&node->mutex);
	bool last = !node->contexts;
	pthread_mutex_unlock(&node->mutex);
	/* Here, behind the code that makes zombies: of contexts that are closed at the same time, the last one sees all zombies.
	 * A zombie on another process's list must not outlive this process's memory: it would be taken off as a queue. */
	if (last)
		shca_zombies_clear(shca_thread_get(&node->m), node);
	pthread_mutex_destroy(&c->mutex);
	pthread_mutex_destroy(&c->cross);
	pthread_mutex_destroy(&ctx->mutex);
	free(c);
	node_put(node);
	return 0;
}

/* ---- capabilities ------------------------------------------------------------------------------------------- */

static void device_attr(struct ibv_device_attr *a)
{
	*a = (struct ibv_device_attr){
		.node_guid = htobe64(shca_device_guid()),
		.sys_image_guid = htobe64(shca_device_guid()),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffffffffffff000ull,
		.vendor_id = 0x025348,
		.vendor_part_id = 1,
		.hw_ver = SHCA_LAYOUT_VERSION,
		.max_qp = 1 << 20,
		.max_qp_wr = SHCA_MAX_QP_WR,
		.device_cap_flags = IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_XRC,
		.max_sge = SHCA_MAX_SGE,
		.max_sge_rd = SHCA_MAX_SGE,
		.max_cq = 1 << 20,
		.max_cqe = SHCA_MAX_CQE,
		.max_mr = SHCA_MR_SEG * SHCA_MR_SEGS - 1,
		.max_pd = 1 << 24,
		.max_qp_rd_atom = SHCA_MAX_RD_ATOMIC,
		.max_res_rd_atom = SHCA_MAX_RD_ATOMIC * (1 << 20),
		.max_qp_init_rd_atom = SHCA_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = INT32_MAX,
		.max_srq = 1 << 20,
		.max_srq_wr = SHCA_MAX_SRQ_WR,
		.max_srq_sge = SHCA_MAX_SGE,
		.max_mcast_grp = 1 << 16,
		.max_mcast_qp_attach = 1 << 20,
		.max_total_mcast_qp_attach = 1 << 20,
		.max_pkeys = 1,
		.local_ca_ack_delay = 0,
		.phys_port_cnt = SHCA_PORTS,
	};
	if (shca_is_connectx()) {
		a->vendor_id = 0x02c9;	/* Mellanox's OUI */
		a->vendor_part_id = 4123;	/* ConnectX-6 */
	}
	snprintf(a->fw_ver, sizeof a->fw_ver, "%u.0", SHCA_LAYOUT_VERSION);
}

int shca_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	device_attr(attr);
	return 0;
}

bool shca_pages_on_demand(struct ibv_context *ctx)
{
	return !(shca_context_of(ctx)->m->behave & SHCA_BEHAVE_NOODP);
}

uint32_t shca_query_promises(struct ibv_context *ctx)
{
	uint32_t behave = shca_context_of(ctx)->m->behave;

	return SHCA_PROMISE_TELLS_END | (behave & SHCA_BEHAVE_ASYNC ? 0 : SHCA_PROMISE_AT_ONCE) |
	       (behave & SHCA_BEHAVE_NOSEQUENCE ? 0 : SHCA_PROMISE_SEQUENCE);
}

int shca_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size)
{
	const uint32_t every = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t reliable = every | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	struct ibv_device_attr_ex a = {
		/* private memory is reached by its address at the time of the transfer: the device pins no memory */
		.odp_caps = {
			.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
			.per_transport_caps = { .rc_odp_caps = reliable, .uc_odp_caps = 0, .ud_odp_caps = every },
		},
		.hca_core_clock = 1000000,	/* kHz: ibv_query_rt_values_ex counts nanoseconds */
		.max_dm_size = SHCA_MAX_DM,
		.xrc_odp_caps = reliable,
		.phys_port_cnt_ex = SHCA_PORTS,
	};

	if (input && input->comp_mask)
		return shca_refuse(EINVAL, "query_device_ex: comp_mask %#x of the input has no bits", input->comp_mask);
	if (size < sizeof attr->orig_attr)
		return shca_refuse(EINVAL, "query_device_ex: room for %zu bytes, at least %zu", size, sizeof attr->orig_attr);
	if (!shca_pages_on_demand(ctx)) {
		memset(&a.odp_caps, 0, sizeof a.odp_caps);
		a.xrc_odp_caps = 0;
	}
	device_attr(&a.orig_attr);
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
	if (size > sizeof a)
		memset((char *)attr + sizeof a, 0, size - sizeof a);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

static bool port_ok(uint32_t port)
{
	return port >= 1 && port <= SHCA_PORTS;
}

int shca_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	const struct shca_port *now = &shca_context_of(ctx)->m->hdr->port;
	struct ibv_port_attr a = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.port_cap_flags = SHCA_PORT_CAPS,
		.max_msg_sz = SHCA_MAX_MSG,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = 2,	/* 4X */
		.active_speed = 32,	/* 25 Gbit/s a lane */
		.phys_state = 5,	/* LinkUp */
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};

	if (!port_ok(port))
		return shca_refuse(EINVAL, "query_port: port %u, the device has %d", port, SHCA_PORTS);
	if (shca_unusable(ctx))
		return errno;
	a.lid = (uint16_t)atomic_load(&now->lid);
	a.sm_lid = (uint16_t)atomic_load(&now->sm_lid);
	if (atomic_load(&now->down)) {
		a.state = IBV_PORT_DOWN;
		a.phys_state = 2;	/* Polling: the port looks for another end */
	}
	if (size > sizeof a)
		memset((char *)attr + sizeof a, 0, size - sizeof a);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

int shca_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	if (!port_ok(port) || index != 0) {
		errno = shca_refuse(EINVAL, "query_gid: port %u index %d", port, index);
		return -1;
	}
	if (shca_unusable(ctx))
		return -1;
	shca_gid_of(shca_context_of(ctx)->m, gid->raw);
	return 0;
}

int shca_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, int *type)
{
	if (!port_ok(port) || index != 0) {
		errno = shca_refuse(EINVAL, "query_gid_type: port %u index %u", port, index);
		return -1;
	}
	*type = 0;	/* InfiniBand */
	return 0;
}

int shca_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t size)
{
	struct ibv_gid_entry e = { .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_IB };
	if (flags || !port_ok(port) || index != 0)
		return shca_refuse(EINVAL, "query_gid_ex: port %u index %u flags %#x", port, index, flags);
	if (shca_unusable(ctx))
		return errno;
	shca_gid_of(shca_context_of(ctx)->m, e.gid.raw);
	if (size > sizeof e)
		memset((char *)entry + sizeof e, 0, size - sizeof e);
	memcpy(entry, &e, size < sizeof e ? size : sizeof e);
	return 0;
}

ssize_t shca_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
			     size_t size)
{
	if (flags)
		return -shca_refuse(EINVAL, "query_gid_table: flags %#x", flags);
	if (max < SHCA_PORTS)
		return -shca_refuse(EINVAL, "query_gid_table: room for %zu of %d entries", max, SHCA_PORTS);
	ssize_t n = 0;
	for (uint32_t port = 1; port <= SHCA_PORTS; port++, n++) {
		struct ibv_gid_entry *e = (struct ibv_gid_entry *)((char *)entries + (size_t)n * size);
		int err = shca_query_gid_ex(ctx, port, 0, e, 0, size);
		if (err)
			return -err;
	}
	return n;
}

int shca_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	if (!port_ok(port) || index != 0) {
		errno = shca_refuse(EINVAL, "query_pkey: port %u index %d", port, index);
		return -1;
	}
	if (shca_unusable(ctx))
		return -1;
	*pkey = htobe16((uint16_t)atomic_load(&shca_context_of(ctx)->m->hdr->port.pkey));
	return 0;
}

int shca_get_pkey_index(struct ibv_context *ctx, uint8_t port, __be16 pkey)
{
	if (shca_unusable(ctx))
		return -1;
	if (!port_ok(port) || pkey != htobe16((uint16_t)atomic_load(&shca_context_of(ctx)->m->hdr->port.pkey))) {
		errno = shca_refuse(EINVAL, "get_pkey_index: port %u P_Key %#x", port, be16toh(pkey));
		return -1;
	}
	return 0;
}

int shca_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values)
{
	uint32_t want = values->comp_mask;
	if (want & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return shca_refuse(EINVAL, "query_rt_values: comp_mask %#x: the raw clock is all there is", want);
	if (want & IBV_VALUES_MASK_RAW_CLOCK)
		clock_gettime(CLOCK_MONOTONIC_RAW, &values->raw_clock);
	return 0;
}

/* ---- asynchronous events ------------------------------------------------------------------------------------ */

/* Takes the next event of the port, in the order in which the events came. Must hold c->mutex. A late reader has lost the oldest
 * events, as on a device whose event queue is full. */
static bool find_port_event(struct shca_context *c, struct ibv_async_event *event)
{
	const struct shca_port *p = &c->m->hdr->port;
	uint64_t n = atomic_load(&p->events), e;

	if (c->port_events == n)
		return false;
	if (!event)
		return true;
	if (n - c->port_events > SHCA_PORT_EVENTS)
		c->port_events = n - SHCA_PORT_EVENTS;
	/* one that is overwritten just now is behind those that are left */
	while ((e = atomic_load(&p->event[c->port_events % SHCA_PORT_EVENTS])) >> 8 != c->port_events + 1)
		c->port_events++;
	c->port_events++;
	*event = (struct ibv_async_event){ .event_type = (enum ibv_event_type)(e & 255) };
	if (event->event_type != IBV_EVENT_DEVICE_FATAL)
		event->element.port_num = 1;
	return true;
}

/*
 * Whether LAST_WQE_REACHED may be given out: every message that was under way to the queue has completed, or never will. The
 * sender may be a stopped process, so no thread waits here: the first look notes the threads that are inside, and the helper
 * thread has the process look again. Must hold c->mutex.
 */
static bool last_has_come(struct shca_context *c, struct shca_user_qp *qp)
{
	struct shca_thread *thr = shca_thread_get(c->m);

	if (!thr)
		return true;
	if (!qp->last_seen)
		qp->last_seen = shca_quiesce_begin(thr, &qp->last, c->m->slot);
	if (qp->last_seen && shca_quiesced(thr, &qp->last))
		return true;
	if (!shca_events_again(c->m))
		return false;
	/* there is no helper thread, nor can one be started */
	shca_quiesce(thr, c->m->slot);
	return true;
}

void shca_last_forget(struct shca_user_qp *qp)
{
	struct shca_context *c = shca_context_of(qp->qp.context);

	pthread_mutex_lock(&c->mutex);
	shca_quiesce_end(&qp->last);
	qp->last_seen = false;
	pthread_mutex_unlock(&c->mutex);
}

/* Finds an unread event of c, and takes it unless event is NULL. *late: an event will come as soon as all noted threads have
 * left (last_has_come). */
static bool find_event(struct shca_context *c, struct ibv_async_event *event, bool *late)
{
	const uint32_t last = 1u << IBV_EVENT_QP_LAST_WQE_REACHED;

	pthread_mutex_lock(&c->mutex);
	bool found = find_port_event(c, event);
	for (struct shca_user_qp *qp = c->qps; qp && !found; qp = qp->next) {
		uint32_t bits = qp->common ? shca_common_unread(qp->holder) : shca_qp_unread(qp->sh);
		if (bits & last && !last_has_come(c, qp)) {
			*late = true;
			bits &= ~last;
		}
		if (!bits)
			continue;
		found = true;
		if (event) {
			uint32_t bit = (uint32_t)__builtin_ctz(bits);
			if (qp->common)
				atomic_fetch_and(qp->holder, ~(1ull << bit << 32));
			else
				atomic_fetch_and(&qp->sh->events, ~(1u << bit));
			if (1u << bit == last)
				qp->last_seen = false;
			event->event_type = (enum ibv_event_type)bit;
			event->element.qp = &qp->qp;
			if (qp->dct)
				shca_dct_event(qp, event);
			pthread_mutex_lock(&qp->qp.mutex);
			qp->events_unacked++;
			pthread_mutex_unlock(&qp->qp.mutex);
		}
	}
	for (struct shca_user_cq *cq = c->cqs; cq && !found; cq = cq->next) {
		if (!(atomic_load(&cq->sh->error) & SHCA_ERROR_EVENT))
			continue;
		found = true;
		if (event) {
			atomic_fetch_and(&cq->sh->error, ~SHCA_ERROR_EVENT);
			event->event_type = IBV_EVENT_CQ_ERR;
			event->element.cq = &cq->cq;
			pthread_mutex_lock(&cq->cq.mutex);
			cq->async_unacked++;
			pthread_mutex_unlock(&cq->cq.mutex);
		}
	}
	for (struct shca_user_srq *srq = c->srqs; srq && !found; srq = srq->next) {
		bool error = atomic_load(&srq->rq.sh->error) & SHCA_ERROR_EVENT;
		if (!error && !(atomic_load(&srq->rq.sh->limit) & SHCA_LIMIT_EVENT))
			continue;
		found = true;
		if (event) {
			if (error)
				atomic_fetch_and(&srq->rq.sh->error, ~SHCA_ERROR_EVENT);
			else
				atomic_fetch_and(&srq->rq.sh->limit, ~SHCA_LIMIT_EVENT);
			event->event_type = error ? IBV_EVENT_SRQ_ERR : IBV_EVENT_SRQ_LIMIT_REACHED;
			event->element.srq = &srq->srq;
			pthread_mutex_lock(&srq->srq.mutex);
			srq->events_unacked++;
			pthread_mutex_unlock(&srq->srq.mutex);
		}
	}
	pthread_mutex_unlock(&c->mutex);
	return found;
}

#define LATE_ROUNDS 50u

static void silence(const struct shca_fd *bell)
{
	struct shca_ring r;

	while (shca_fd_ours(bell) && shca_ring_read(bell->n, false, &r) > 0)
		;
}

/* Makes c's async_fd readable exactly when c has unread events. Must hold node->mutex. */
static void device_tell(struct shca_context *c)
{
	bool late;

	silence(&c->told);
	if (find_event(c, NULL, &late))
		shca_bell_ring(c->m, c->told_addr);
}

/* Empties the member's bell, then rings `told` of every context with an unread event. An event raised after the bell was emptied
 * rings it again, since async_pending is cleared before the objects are looked at. */
static void dispatch_events(struct shca_node *node)
{
	pthread_mutex_lock(&node->mutex);
	silence(&node->bell);
	atomic_store(&node->m.proc->async_pending, 0);
	for (struct shca_context *c = node->contexts; c; c = c->next)
		device_tell(c);
	pthread_mutex_unlock(&node->mutex);
}

/* Empties async_fd after an object with an unread event was destroyed or reset: otherwise the descriptor would stay readable
 * without an event. Must hold no lock. */
void shca_events_gone(struct shca_context *c)
{
	dispatch_events(c->node);
}

int shca_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct shca_context *c = shca_context_of(ctx);
	struct shca_thread *thr;
	if (shca_inherited(ctx))
		return -1;
	for (unsigned round = 0;; round++) {
		bool late = false;

		dispatch_events(c->node);
		if (find_event(c, event, &late)) {
			pthread_mutex_lock(&c->node->mutex);
			device_tell(c);
			pthread_mutex_unlock(&c->node->mutex);
			/* a process that no peer can reach has no helper thread that would fail its queues */
			if (event->event_type == IBV_EVENT_DEVICE_FATAL && (thr = shca_thread_get(c->m)) != NULL)
				shca_fail_all(thr);
			return 0;
		}
		/* a message takes microseconds, unless its sender is stopped or has lost its CPU */
		if (late && round < LATE_ROUNDS) {
			sched_yield();
			continue;
		}
		int fl = async_ours(c) ? fcntl(c->async.n, F_GETFL) : -1;
		if (fl < 0) {
			errno = shca_refuse(EBADF, "get_async_event: the application has closed descriptor %d", c->async.n);
			return -1;
		}
		if (fl & O_NONBLOCK) {
			errno = EAGAIN;	/* said: nothing is refused, there is no event */
			return -1;
		}
		struct pollfd p = { .fd = c->async.n, .events = POLLIN };
		if (poll(&p, 1, -1) < 0)
			return -1;
	}
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *unacked, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	if (*unacked)
		--*unacked;
	++*completed;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

void shca_ack_async_event(struct ibv_async_event *event)
{
	if (event->event_type >= IBV_EXP_EVENT_DCT_KEY_VIOLATION) {
		struct ibv_exp_dct *dct = ibv_exp_event_dct(event);
		struct shca_user_qp *qp = shca_user_qp_of_dct(dct);
		ack(&qp->qp.mutex, &qp->qp.cond, &qp->events_unacked, &dct->events_completed);
		return;
	}
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct shca_user_cq *cq = shca_user_cq_of(event->element.cq);
		ack(&cq->cq.mutex, &cq->cq.cond, &cq->async_unacked, &cq->cq.async_events_completed);
		return;
	}
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct shca_user_qp *qp = shca_user_qp_of(event->element.qp);
		ack(&qp->qp.mutex, &qp->qp.cond, &qp->events_unacked, &qp->qp.events_completed);
		return;
	}
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct shca_user_srq *srq = shca_user_srq_of(event->element.srq);
		ack(&srq->srq.mutex, &srq->srq.cond, &srq->events_unacked, &srq->srq.events_completed);
		return;
	}
	default:
		return;	/* events of ports and the device need no acknowledgement */
	}
}

void shca_wait_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *unacked)
{
	pthread_mutex_lock(mutex);
	while (*unacked)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}
