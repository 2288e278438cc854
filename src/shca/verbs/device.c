/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices and contexts: the list, open and close. A context gets the functions of all other files here, and the hooks that lower
 * files need (struct shca_queue_ops).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <shca.h>
#include "base/fd.h"
#include "base/memory.h"
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

/* ---- identity ----------------------------------------------------------------------------------------------- */

static bool wants_provider_mlx5(void)
{
	const char *s = getenv("SHCA_EXP_PROVIDER");
	static _Atomic bool reported;

	if (!s || !*s || !strcmp(s, "shca"))
		return false;
	if (!strcmp(s, "mlx5") && shca_is_connectx())
		return true;
	if (!atomic_exchange(&reported, true))
		shca_error("SHCA_EXP_PROVIDER=%s: the experimental verbs have the providers shca and, with "
			   "SHCA_IDENTITY=connectx, mlx5: using shca", s);
	return false;
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
static void shca_device_fork_child(void)
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

struct shca_port_now shca_port_now(uint32_t port)
{
	struct shca_ports first;
	struct shca_port_now now;

	shca_port_init(&first);
	pthread_mutex_lock(&process_mutex);
	const struct shca_ports *all = process_node ? &process_node->m.hdr->ports : &first;
	const struct shca_port *p = &all->port[port == 2];
	now = (struct shca_port_now){
		.down = atomic_load(&p->down) || atomic_load(&all->broken), .lid = (uint16_t)atomic_load(&p->lid),
		.sm_lid = (uint16_t)atomic_load(&p->sm_lid), .pkey = (uint16_t)atomic_load(&p->pkey),
		.gid_prefix = atomic_load(&p->gid_prefix),
	};
	pthread_mutex_unlock(&process_mutex);
	return now;
}

bool shca_process_member(void (*f)(const struct shca_member *m, void *arg), void *arg)
{
	pthread_mutex_lock(&process_mutex);
	bool any = process_node != NULL;
	if (any)
		f(&process_node->m, arg);
	pthread_mutex_unlock(&process_mutex);
	return any;
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
		shca_local_free(node->m.local, used);
		free(node->m.cross);
		pthread_mutex_destroy(&node->mutex);
		free(node);
	}
	pthread_mutex_unlock(&process_mutex);
}

/* Must hold process_mutex. Returns 0 or an errno. */
static int handlers_locked(void)
{
	static bool registered;
	int err = registered ? 0 : -shca_member_fork_handlers();

	if (!registered && !err)
		err = pthread_atfork(device_fork_prepare, device_fork_parent, shca_device_fork_child);
	registered = registered || !err;
	return err;
}

int shca_device_fork_handlers(void)
{
	pthread_mutex_lock(&process_mutex);
	int err = handlers_locked();
	pthread_mutex_unlock(&process_mutex);
	return err;
}

/* Joins on first use. NULL with errno. */
static struct shca_node *node_get(void)
{
	struct shca_node *node = NULL;
	int err = 0;

	pthread_mutex_lock(&process_mutex);
	if (process_node) {
		node = process_node;
		node->refs++;
		goto out;
	}
	err = handlers_locked();
	if (err)
		goto out;
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
	if (shca_ports() == 2)
		shca_ports_are_two(&node->m);
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

static const struct shca_queue_ops queue_ops = {.fill_qp = shca_wr_ops, .fill_cq = shca_cq_ex_ops};

static void fill_ops(struct verbs_context *v)
{
	v->sz = sizeof *v;
	v->query_port = shca_query_port;
	v->ibv_create_flow = shca_create_flow;
	v->ibv_destroy_flow = shca_destroy_flow;
	v->modify_qp_rate_limit = shca_modify_qp_rate_limit;
	v->create_wq = shca_create_wq;
	v->create_rwq_ind_table = shca_create_rwq_ind_table;
	v->advise_mr = shca_advise_mr;
	v->alloc_null_mr = shca_alloc_null_mr;
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
	v->context.ops.poll_cq = shca_ports() == 2 ? shca_poll_cq_of_ports : shca_poll_cq;
	v->context.ops.req_notify_cq = shca_req_notify_cq;
	v->context.ops.alloc_mw = shca_alloc_mw;
	v->context.ops.bind_mw = shca_bind_mw;
	v->context.ops.dealloc_mw = shca_dealloc_mw;
	v->context.ops.post_send = shca_post_send;
	v->context.ops.post_recv = shca_post_recv;
	v->context.ops.post_srq_recv = shca_post_srq_recv;
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
	c->queue_ops = &queue_ops;
	c->port_events = atomic_load(&node->m.hdr->ports.events);
	c->plain_connectx = wants_provider_mlx5();
	c->async.n = c->cmd.n = -1;
	c->bell = shca_fd_note(shca_bell_open(&node->m, c->bell_addr));
	if (c->bell.n < 0) {
		err = -c->bell.n;
		goto fail;
	}
	c->async.n = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	if (c->async.n < 0 || epoll_ctl(c->async.n, EPOLL_CTL_ADD, node->bell.n, &ev) ||
	    epoll_ctl(c->async.n, EPOLL_CTL_ADD, c->bell.n, &ev)) {
		err = errno;
		goto fail;
	}
	fill_ops(&c->v);
	c->v.context.device = &our_device.dev;
	/* programs copy this descriptor; ibv_import_device alone uses it (import.c), and knows it by the file's name */
	c->cmd = shca_fd_note(fd_raise(memfd_create(SHCA_CMD_FD_NAME, MFD_CLOEXEC)));
	struct shca_cmd_identity id = {.dev = c->m->fd.dev, .ino = c->m->fd.ino};
	memcpy(id.name, c->m->hdr->name, sizeof(id.name));
	if (memory_file_limit() < sizeof(id)) {
		/* the kernel would send SIGXFSZ */
		err = EFBIG;	/* said: below */
		goto fail;
	}
	if (c->cmd.n < 0 || pwrite(c->cmd.n, &id, sizeof(id), 0) != (ssize_t)sizeof(id)) {
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
	if (c) {
		shca_fd_close(&c->bell);
		shca_fd_close(&c->cmd);
	}
	free(c);
	errno = shca_refuse(err, "open_device: no descriptor or no memory is left%s", shca_limit_of(err));
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
		after = shca_refuse(EIO, "open_device: the device has failed (IBV_EVENT_DEVICE_FATAL), and other processes of "
					 "the fabric \"%s\" "
				    "have it open: a new one is there when these have closed it", node->m.hdr->name);
	if (!ctx)
		node_put(node);
	errno = after;
	return ctx;
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
	if (shca_async_ours(c))
		close(c->async.n);
	shca_fd_close(&c->bell);
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
	while (c->mws)
		shca_dealloc_mw(&c->mws->mw);
	shca_windows_end(c);
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
