/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs that are functions, not entries of a context's tables: each looks whose context it is given and hands
 * foreign ones to the next library. No lock is held while another library runs, for that calls back in here:
 * the real libibverbs calls its own functions by their public names.
 *
 * Compiled twice. Inside libheddle the names are hidden; "next" is a preloaded libshca if the process has one (then it
 * owns the device, so that the process is one member of the fabric), else the real library. In libshca.so
 * (SHCA_EXPORT) they are exported under the real libraries' versions, and "next" is the real library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shca.h"
#include "shca/control.h"
#include "shca/exp_ops.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#ifdef SHCA_EXPORT
#define EXPORT __attribute__((visibility("default")))
#else
#define EXPORT
#endif

/* of rdma-core's private driver.h; tools import it all the same */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);
/* Of a preloaded libshca, for libheddle. */
bool shca_device_is_software(const struct ibv_device *device);

/* ---- the next library --------------------------------------------------------------------------------------- */

enum next_library { NEXT_VERBS, NEXT_MLX5, NEXT_REAL_VERBS };

struct next {
	enum next_library library;
	const char *name, *version;
	void *_Atomic fn;
};
#define NEXT(lib, symbol, ver) { .library = (lib), .name = (symbol), .version = (ver) }

static void *open_library(const char *soname)
{
	/* not RTLD_NEXT: an extension module may have loaded it RTLD_LOCAL, out of that search's sight */
	void *h = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
	return h ? h : dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
}

/* The libshca.so that serves this process, if it is not this very copy. */
static void *preloaded(void)
{
#ifdef SHCA_EXPORT
	return NULL;
#else
	static void *_Atomic handle;
	static _Atomic bool looked;
	if (!atomic_load(&looked)) {
		void *fn = dlsym(RTLD_DEFAULT, "shca_device_is_software");
		Dl_info info;
		if (fn && dladdr(fn, &info))
			atomic_store(&handle, dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD));
		atomic_store(&looked, true);
	}
	return atomic_load(&handle);
#endif
}

static void *find(struct next *next)
{
	void *fn = atomic_load_explicit(&next->fn, memory_order_acquire);
	if (fn)
		return fn;
	void *h = next->library == NEXT_REAL_VERBS ? NULL : preloaded();
	if (!h)
		h = open_library(next->library == NEXT_MLX5 ? "libmlx5.so.1" : "libibverbs.so.1");
	if (h) {
		fn = dlvsym(h, next->name, next->version);
		if (!fn)	/* private versions carry a number that changes between releases */
			fn = dlsym(h, next->name);
	}
	if (fn)
		atomic_store_explicit(&next->fn, fn, memory_order_release);
	else
		errno = ENOSYS;
	return fn;
}

/* ---- finding devices ---------------------------------------------------------------------------------------- */

EXPORT struct ibv_device **shca_get_device_list(int *num)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_get_device_list", "SHCA_1");
	if (!preloaded())
		return shca_own_device_list(num);
	__typeof__(&shca_get_device_list) f = find(&next);
	return f ? f(num) : NULL;
}

EXPORT void shca_free_device_list(struct ibv_device **list)
{
	free(list);	/* the devices live as long as the library */
}

EXPORT int shca_set_fabric(const char *name)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_set_fabric", "SHCA_1");
	if (!preloaded())
		return shca_name_fabric(name);
	__typeof__(&shca_set_fabric) f = find(&next);
	return f ? f(name) : ENOSYS;
}

EXPORT void *shca_alloc(struct ibv_context *context, size_t bytes)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_alloc", "SHCA_1");
	if (shca_is_ours(context))
		return shca_buf_alloc(context, bytes);
	__typeof__(&shca_alloc) f = preloaded() ? find(&next) : NULL;
	if (f)
		return f(context, bytes);
	errno = EINVAL;
	return NULL;
}

EXPORT int shca_free(struct ibv_context *context, void *p)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_free", "SHCA_1");
	if (shca_is_ours(context))
		return shca_buf_free(context, p);
	__typeof__(&shca_free) f = preloaded() ? find(&next) : NULL;
	return f ? f(context, p) : EINVAL;
}

EXPORT int shca_await_prepare(struct ibv_context *context, uint32_t *seen)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_await_prepare", "SHCA_1");
	if (shca_is_ours(context)) {
		*seen = shca_sleep_prepare(shca_context_of(context)->m);
		return 0;
	}
	__typeof__(&shca_await_prepare) f = preloaded() ? find(&next) : NULL;
	return f ? f(context, seen) : EOPNOTSUPP;
}

EXPORT int shca_await(struct ibv_context *context, uint32_t seen, uint64_t timeout_ns)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_await", "SHCA_1");
	if (shca_is_ours(context))
		return -shca_sleep_commit(shca_context_of(context)->m, seen, timeout_ns);
	__typeof__(&shca_await) f = preloaded() ? find(&next) : NULL;
	return f ? f(context, seen, timeout_ns) : EOPNOTSUPP;
}

EXPORT void shca_await_cancel(struct ibv_context *context)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_await_cancel", "SHCA_1");
	if (shca_is_ours(context)) {
		shca_sleep_cancel(shca_context_of(context)->m);
		return;
	}
	__typeof__(&shca_await_cancel) f = preloaded() ? find(&next) : NULL;
	if (f)
		f(context);
}

EXPORT int shca_await_wake(struct ibv_context *context)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_await_wake", "SHCA_1");
	if (shca_is_ours(context)) {
		shca_sleep_interrupt(shca_context_of(context)->m);
		return 0;
	}
	__typeof__(&shca_await_wake) f = preloaded() ? find(&next) : NULL;
	return f ? f(context) : EOPNOTSUPP;
}

EXPORT const struct shca_exp_ops *shca_exp_ops(struct ibv_context *context)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_exp_ops", "SHCA_PRIVATE_1");
	if (shca_is_ours(context))
		return &shca_own_exp_ops;
	__typeof__(&shca_exp_ops) f = preloaded() ? find(&next) : NULL;
	return f ? f(context) : NULL;
}

EXPORT bool shca_device_is_software(const struct ibv_device *device)
{
	static struct next next = NEXT(NEXT_VERBS, "shca_device_is_software", "SHCA_PRIVATE_1");
	if (shca_is_our_device(device))
		return true;
	__typeof__(&shca_device_is_software) f = preloaded() ? find(&next) : NULL;
	return f && f(device);
}

#ifdef SHCA_EXPORT
static bool env_is_set(const char *name)
{
	const char *v = getenv(name);
	return v && *v && strcmp(v, "0");
}

/* Lists that were put together here, so that they can be told from the real library's own. */
struct joined {
	struct joined *next;
	struct ibv_device **real;
	struct ibv_device *list[];
};
static pthread_mutex_t joined_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct joined *joined;

/* Strangers see the software device only where they were asked to (shcarun sets SHCA_VISIBLE): a program must not
 * find another first device because a library that it loads happens to use this one. */
EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	static struct next next = NEXT(NEXT_REAL_VERBS, "ibv_get_device_list", "IBVERBS_1.1");
	__typeof__(&ibv_get_device_list) f = find(&next);
	int n = 0;
	struct ibv_device **real = f ? f(&n) : NULL;
	if (!env_is_set("SHCA_VISIBLE")) {
		if (num)
			*num = real ? n : 0;
		return real;
	}
	/* the real library without a kernel module fails with ENOSYS: then ours is the only device */
	n = real ? n : 0;
	int own_n = 0;
	struct ibv_device **own = shca_own_device_list(&own_n);
	struct joined *j = own ? calloc(1, sizeof *j + (size_t)(n + own_n + 1) * sizeof *j->list) : NULL;
	if (!j) {
		static struct next free_next = NEXT(NEXT_REAL_VERBS, "ibv_free_device_list", "IBVERBS_1.1");
		__typeof__(&ibv_free_device_list) free_real = find(&free_next);
		if (real && free_real)
			free_real(real);
		free(own);
		errno = ENOMEM;
		return NULL;
	}
	j->real = real;
	memcpy(j->list, own, (size_t)own_n * sizeof *own);
	if (n)
		memcpy(j->list + own_n, real, (size_t)n * sizeof *real);
	free(own);
	pthread_mutex_lock(&joined_mutex);
	j->next = joined;
	joined = j;
	pthread_mutex_unlock(&joined_mutex);
	if (num)
		*num = n + own_n;
	return j->list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	static struct next next = NEXT(NEXT_REAL_VERBS, "ibv_free_device_list", "IBVERBS_1.1");
	__typeof__(&ibv_free_device_list) f = find(&next);
	struct joined *j = NULL;
	pthread_mutex_lock(&joined_mutex);
	for (struct joined **p = &joined; *p; p = &(*p)->next)
		if ((*p)->list == list) {
			j = *p;
			*p = j->next;
			break;
		}
	pthread_mutex_unlock(&joined_mutex);
	struct ibv_device **real = j ? j->real : list;
	free(j);
	if (real && f)
		f(real);
}

/* UCX and others write an mlx5's queues by themselves once this is true, which only a ConnectX survives. */
EXPORT bool mlx5dv_is_supported(struct ibv_device *device)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_is_supported", "MLX5_1.8");
	if (shca_is_our_device(device))
		return env_is_set("SHCA_MLX5DV");
	__typeof__(&mlx5dv_is_supported) f = find(&next);
	return f && f(device);
}
#else
/* libheddle asks for the software device by shca_get_device_list; this is everybody else's. */
struct ibv_device **ibv_get_device_list(int *num)
{
	static struct next next = NEXT(NEXT_REAL_VERBS, "ibv_get_device_list", "IBVERBS_1.1");
	__typeof__(&ibv_get_device_list) f = find(&next);
	return f ? f(num) : NULL;
}

void ibv_free_device_list(struct ibv_device **list)
{
	static struct next next = NEXT(NEXT_REAL_VERBS, "ibv_free_device_list", "IBVERBS_1.1");
	__typeof__(&ibv_free_device_list) f = find(&next);
	if (f)
		f(list);
}

bool mlx5dv_is_supported(struct ibv_device *device)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_is_supported", "MLX5_1.8");
	if (shca_device_is_software(device))
		return true;
	__typeof__(&mlx5dv_is_supported) f = find(&next);
	return f && f(device);
}
#endif

/* A second context on the first one's kernel objects: there are none. */
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_import_device", "IBVERBS_1.10");
	char link[64], name[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", cmd_fd);
	ssize_t n = readlink(link, name, sizeof name - 1);
	name[n < 0 ? 0 : n] = 0;
	if (!strncmp(name, "/memfd:" SHCA_CMD_FD_NAME, strlen("/memfd:" SHCA_CMD_FD_NAME))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&ibv_import_device) f = find(&next);
	return f ? f(cmd_fd) : NULL;
}

/* ---- whose object it is, where that is not plain ------------------------------------------------------------ */

static bool event_is_ours(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return shca_is_ours(event->element.cq->context);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return shca_is_ours(event->element.qp->context);
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return shca_is_ours(event->element.srq->context);
	default:
		return false;
	}
}

/* One call may initialise several objects; a mixture is refused as ours. */
static bool obj_is_ours(const struct mlx5dv_obj *obj, uint64_t type)
{
	return ((type & MLX5DV_OBJ_QP) && shca_is_ours(obj->qp.in->context)) ||
	       ((type & MLX5DV_OBJ_CQ) && shca_is_ours(obj->cq.in->context)) ||
	       ((type & MLX5DV_OBJ_SRQ) && shca_is_ours(obj->srq.in->context)) ||
	       ((type & MLX5DV_OBJ_RWQ) && shca_is_ours(obj->rwq.in->context)) ||
	       ((type & MLX5DV_OBJ_DM) && shca_is_ours(obj->dm.in->context)) ||
	       ((type & MLX5DV_OBJ_AH) && shca_is_ours(obj->ah.in->context)) ||
	       ((type & MLX5DV_OBJ_PD) && shca_is_ours(obj->pd.in->context));
}

/* ---- verbs -------------------------------------------------------------------------------------------------- */

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_get_device_name", "IBVERBS_1.1");
	if (shca_is_our_device(device))
		return device->name;
	__typeof__(&ibv_get_device_name) f = find(&next);
	return f ? f(device) : NULL;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_get_device_guid", "IBVERBS_1.1");
	if (shca_is_our_device(device))
		return htobe64(shca_device_guid());
	__typeof__(&ibv_get_device_guid) f = find(&next);
	return f ? f(device) : 0;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_get_device_index", "IBVERBS_1.9");
	if (shca_is_our_device(device))
		return -1;	/* no kernel device stands behind it */
	__typeof__(&ibv_get_device_index) f = find(&next);
	return f ? f(device) : -1;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_open_device", "IBVERBS_1.1");
	if (shca_is_our_device(device))
		return shca_open_device(device);
	__typeof__(&ibv_open_device) f = find(&next);
	return f ? f(device) : NULL;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_close_device", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_close_device(context);
	__typeof__(&ibv_close_device) f = find(&next);
	return f ? f(context) : -1;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_device", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_query_device(context, attr);
	__typeof__(&ibv_query_device) f = find(&next);
	return f ? f(context, attr) : ENOSYS;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_port", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return context->ops._compat_query_port(context, port, attr);
	__typeof__(&ibv_query_port) f = find(&next);
	return f ? f(context, port, attr) : ENOSYS;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_gid", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_query_gid(context, port, index, gid);
	__typeof__(&ibv_query_gid) f = find(&next);
	return f ? f(context, port, index, gid) : -1;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			     uint32_t flags, size_t size)
{
	static struct next next = NEXT(NEXT_VERBS, "_ibv_query_gid_ex", "IBVERBS_1.11");
	if (shca_is_ours(context))
		return shca_query_gid_ex(context, port, index, entry, flags, size);
	__typeof__(&_ibv_query_gid_ex) f = find(&next);
	return f ? f(context, port, index, entry, flags, size) : ENOSYS;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
				    uint32_t flags, size_t size)
{
	static struct next next = NEXT(NEXT_VERBS, "_ibv_query_gid_table", "IBVERBS_1.11");
	if (shca_is_ours(context))
		return shca_query_gid_table(context, entries, max, flags, size);
	__typeof__(&_ibv_query_gid_table) f = find(&next);
	return f ? f(context, entries, max, flags, size) : -ENOSYS;
}

EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	if (shca_is_ours(context))
		return shca_query_gid_type(context, port, index, type);
	__typeof__(&ibv_query_gid_type) f = find(&next);
	return f ? f(context, port, index, type) : -1;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_pkey", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_query_pkey(context, port, index, pkey);
	__typeof__(&ibv_query_pkey) f = find(&next);
	return f ? f(context, port, index, pkey) : -1;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_get_pkey_index", "IBVERBS_1.5");
	if (shca_is_ours(context))
		return shca_get_pkey_index(context, port, pkey);
	__typeof__(&ibv_get_pkey_index) f = find(&next);
	return f ? f(context, port, pkey) : -1;
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_get_async_event", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_get_async_event(context, event);
	__typeof__(&ibv_get_async_event) f = find(&next);
	return f ? f(context, event) : -1;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_ack_async_event", "IBVERBS_1.1");
	if (event_is_ours(event)) {
		shca_ack_async_event(event);
		return;
	}
	__typeof__(&ibv_ack_async_event) f = find(&next);
	if (f)
		f(event);
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_alloc_pd", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_alloc_pd(context);
	__typeof__(&ibv_alloc_pd) f = find(&next);
	return f ? f(context) : NULL;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_dealloc_pd", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_dealloc_pd(pd);
	__typeof__(&ibv_dealloc_pd) f = find(&next);
	return f ? f(pd) : ENOSYS;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_reg_mr", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
	__typeof__(&ibv_reg_mr) f = find(&next);
	return f ? f(pd, addr, length, access) : NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_reg_mr_iova", "IBVERBS_1.7");
	if (shca_is_ours(pd->context))
		return shca_reg_mr(pd, addr, length, iova, (unsigned int)access);
	__typeof__(&ibv_reg_mr_iova) f = find(&next);
	return f ? f(pd, addr, length, iova, access) : NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_reg_mr_iova2", "IBVERBS_1.8");
	if (shca_is_ours(pd->context))
		return shca_reg_mr(pd, addr, length, iova, access);
	__typeof__(&ibv_reg_mr_iova2) f = find(&next);
	return f ? f(pd, addr, length, iova, access) : NULL;
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					int access)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	if (shca_is_ours(pd->context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&ibv_reg_dmabuf_mr) f = find(&next);
	return f ? f(pd, offset, length, iova, fd, access) : NULL;
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_rereg_mr", "IBVERBS_1.1");
	if (shca_is_ours(mr->context))
		return shca_rereg_mr(mr, flags, pd, addr, length, access);
	__typeof__(&ibv_rereg_mr) f = find(&next);
	return f ? f(mr, flags, pd, addr, length, access) : IBV_REREG_MR_ERR_INPUT;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_dereg_mr", "IBVERBS_1.1");
	if (shca_is_ours(mr->context))
		return shca_dereg_mr(mr);
	__typeof__(&ibv_dereg_mr) f = find(&next);
	return f ? f(mr) : ENOSYS;
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_create_comp_channel", "IBVERBS_1.0");
	if (shca_is_ours(context))
		return shca_create_comp_channel(context);
	__typeof__(&ibv_create_comp_channel) f = find(&next);
	return f ? f(context) : NULL;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_destroy_comp_channel", "IBVERBS_1.0");
	if (shca_is_ours(channel->context))
		return shca_destroy_comp_channel(channel);
	__typeof__(&ibv_destroy_comp_channel) f = find(&next);
	return f ? f(channel) : ENOSYS;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_create_cq", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_create_cq(context, cqe, cq_context, channel, comp_vector);
	__typeof__(&ibv_create_cq) f = find(&next);
	return f ? f(context, cqe, cq_context, channel, comp_vector) : NULL;
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_resize_cq", "IBVERBS_1.1");
	if (shca_is_ours(cq->context))
		return shca_resize_cq(cq, cqe);
	__typeof__(&ibv_resize_cq) f = find(&next);
	return f ? f(cq, cqe) : ENOSYS;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_destroy_cq", "IBVERBS_1.1");
	if (shca_is_ours(cq->context))
		return shca_destroy_cq(cq);
	__typeof__(&ibv_destroy_cq) f = find(&next);
	return f ? f(cq) : ENOSYS;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_get_cq_event", "IBVERBS_1.1");
	if (shca_is_ours(channel->context))
		return shca_get_cq_event(channel, cq, cq_context);
	__typeof__(&ibv_get_cq_event) f = find(&next);
	return f ? f(channel, cq, cq_context) : -1;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_ack_cq_events", "IBVERBS_1.1");
	if (shca_is_ours(cq->context)) {
		shca_ack_cq_events(cq, n);
		return;
	}
	__typeof__(&ibv_ack_cq_events) f = find(&next);
	if (f)
		f(cq, n);
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_create_srq", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_create_srq(pd, attr);
	__typeof__(&ibv_create_srq) f = find(&next);
	return f ? f(pd, attr) : NULL;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_modify_srq", "IBVERBS_1.1");
	if (shca_is_ours(srq->context))
		return shca_modify_srq(srq, attr, mask);
	__typeof__(&ibv_modify_srq) f = find(&next);
	return f ? f(srq, attr, mask) : ENOSYS;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_srq", "IBVERBS_1.1");
	if (shca_is_ours(srq->context))
		return shca_query_srq(srq, attr);
	__typeof__(&ibv_query_srq) f = find(&next);
	return f ? f(srq, attr) : ENOSYS;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_destroy_srq", "IBVERBS_1.1");
	if (shca_is_ours(srq->context))
		return shca_destroy_srq(srq);
	__typeof__(&ibv_destroy_srq) f = find(&next);
	return f ? f(srq) : ENOSYS;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_create_qp", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_create_qp(pd, attr);
	__typeof__(&ibv_create_qp) f = find(&next);
	return f ? f(pd, attr) : NULL;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_qp_to_qp_ex", "IBVERBS_1.6");
	if (shca_is_ours(qp->context))
		return shca_qp_to_qp_ex(qp);
	__typeof__(&ibv_qp_to_qp_ex) f = find(&next);
	return f ? f(qp) : NULL;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_modify_qp", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return shca_modify_qp(qp, attr, mask);
	__typeof__(&ibv_modify_qp) f = find(&next);
	return f ? f(qp, attr, mask) : ENOSYS;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_qp", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return shca_query_qp(qp, attr, mask, init);
	__typeof__(&ibv_query_qp) f = find(&next);
	return f ? f(qp, attr, mask, init) : ENOSYS;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_qp_data_in_order", "IBVERBS_1.14");
	if (shca_is_ours(qp->context))
		return shca_query_qp_data_in_order(qp, op, flags);
	__typeof__(&ibv_query_qp_data_in_order) f = find(&next);
	return f ? f(qp, op, flags) : 0;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_destroy_qp", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return shca_destroy_qp(qp);
	__typeof__(&ibv_destroy_qp) f = find(&next);
	return f ? f(qp) : ENOSYS;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_query_ece", "IBVERBS_1.10");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&ibv_query_ece) f = find(&next);
	return f ? f(qp, ece) : ENOSYS;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_set_ece", "IBVERBS_1.10");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&ibv_set_ece) f = find(&next);
	return f ? f(qp, ece) : ENOSYS;
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_create_ah", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_create_ah(pd, attr);
	__typeof__(&ibv_create_ah) f = find(&next);
	return f ? f(pd, attr) : NULL;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_destroy_ah", "IBVERBS_1.1");
	if (shca_is_ours(ah->context))
		return shca_destroy_ah(ah);
	__typeof__(&ibv_destroy_ah) f = find(&next);
	return f ? f(ah) : ENOSYS;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *attr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_init_ah_from_wc", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_init_ah_from_wc(context, port, wc, grh, attr);
	__typeof__(&ibv_init_ah_from_wc) f = find(&next);
	return f ? f(context, port, wc, grh, attr) : -1;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_create_ah_from_wc", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_create_ah_from_wc(pd, wc, grh, port);
	__typeof__(&ibv_create_ah_from_wc) f = find(&next);
	return f ? f(pd, wc, grh, port) : NULL;
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_attach_mcast", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&ibv_attach_mcast) f = find(&next);
	return f ? f(qp, gid, lid) : ENOSYS;
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_detach_mcast", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&ibv_detach_mcast) f = find(&next);
	return f ? f(qp, gid, lid) : ENOSYS;
}

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				       uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_resolve_eth_l2_from_gid", "IBVERBS_1.1");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return -1;
	}
	__typeof__(&ibv_resolve_eth_l2_from_gid) f = find(&next);
	return f ? f(context, attr, eth_mac, vid) : -1;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_import_pd", "IBVERBS_1.10");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&ibv_import_pd) f = find(&next);
	return f ? f(context, handle) : NULL;
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_unimport_pd", "IBVERBS_1.10");
	if (shca_is_ours(pd->context))
		return;
	__typeof__(&ibv_unimport_pd) f = find(&next);
	if (f)
		f(pd);
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_import_mr", "IBVERBS_1.10");
	if (shca_is_ours(pd->context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&ibv_import_mr) f = find(&next);
	return f ? f(pd, handle) : NULL;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_unimport_mr", "IBVERBS_1.10");
	if (shca_is_ours(mr->context))
		return;
	__typeof__(&ibv_unimport_mr) f = find(&next);
	if (f)
		f(mr);
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_import_dm", "IBVERBS_1.13");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&ibv_import_dm) f = find(&next);
	return f ? f(context, handle) : NULL;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	static struct next next = NEXT(NEXT_VERBS, "ibv_unimport_dm", "IBVERBS_1.13");
	if (shca_is_ours(dm->context))
		return;
	__typeof__(&ibv_unimport_dm) f = find(&next);
	if (f)
		f(dm);
}

EXPORT struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_open_device", "MLX5_1.7");
	if (shca_is_our_device(device))
		return shca_dv_open_device(device, attr);
	__typeof__(&mlx5dv_open_device) f = find(&next);
	return f ? f(device, attr) : NULL;
}

EXPORT int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attr)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_query_device", "MLX5_1.0");
	if (shca_is_ours(context))
		return shca_dv_query_device(context, attr);
	__typeof__(&mlx5dv_query_device) f = find(&next);
	return f ? f(context, attr) : ENOSYS;
}

EXPORT struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				       struct mlx5dv_qp_init_attr *dv)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_create_qp", "MLX5_1.3");
	if (shca_is_ours(context))
		return shca_dv_create_qp(context, attr, dv);
	__typeof__(&mlx5dv_create_qp) f = find(&next);
	return f ? f(context, attr, dv) : NULL;
}

EXPORT struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
					  struct mlx5dv_cq_init_attr *dv)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_create_cq", "MLX5_1.1");
	if (shca_is_ours(context))
		return shca_dv_create_cq(context, attr, dv);
	__typeof__(&mlx5dv_create_cq) f = find(&next);
	return f ? f(context, attr, dv) : NULL;
}

EXPORT struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_qp_ex_from_ibv_qp_ex", "MLX5_1.10");
	if (shca_is_ours(qp->qp_base.context))
		return shca_dv_qp_ex(qp);
	__typeof__(&mlx5dv_qp_ex_from_ibv_qp_ex) f = find(&next);
	return f ? f(qp) : NULL;
}

EXPORT struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_create_mkey", "MLX5_1.10");
	if (shca_is_ours(attr->pd->context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_create_mkey) f = find(&next);
	return f ? f(attr) : NULL;
}

EXPORT int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_init_obj", "MLX5_1.2");
	if (obj_is_ours(obj, type))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_init_obj) f = find(&next);
	return f ? f(obj, type) : ENOSYS;
}

EXPORT struct ibv_dm *mlx5dv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr,
				      struct mlx5dv_alloc_dm_attr *dv)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_alloc_dm", "MLX5_1.10");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_alloc_dm) f = find(&next);
	return f ? f(context, attr, dv) : NULL;
}

EXPORT void *mlx5dv_dm_map_op_addr(struct ibv_dm *dm, uint8_t op)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_dm_map_op_addr", "MLX5_1.19");
	if (shca_is_ours(dm->context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_dm_map_op_addr) f = find(&next);
	return f ? f(dm, op) : NULL;
}

EXPORT int mlx5dv_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream_id)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_dci_stream_id_reset", "MLX5_1.21");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_dci_stream_id_reset) f = find(&next);
	return f ? f(qp, stream_id) : ENOSYS;
}

EXPORT int mlx5dv_map_ah_to_qp(struct ibv_ah *ah, uint32_t qp_num)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_map_ah_to_qp", "MLX5_1.20");
	if (shca_is_ours(ah->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_map_ah_to_qp) f = find(&next);
	return f ? f(ah, qp_num) : ENOSYS;
}

EXPORT int _mlx5dv_query_port(struct ibv_context *context, uint32_t port, struct mlx5dv_port *info, size_t len)
{
	static struct next next = NEXT(NEXT_MLX5, "_mlx5dv_query_port", "MLX5_1.19");
	if (shca_is_ours(context))
		return EOPNOTSUPP;
	__typeof__(&_mlx5dv_query_port) f = find(&next);
	return f ? f(context, port, info, len) : ENOSYS;
}

EXPORT int mlx5dv_get_clock_info(struct ibv_context *context, struct mlx5dv_clock_info *info)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_get_clock_info", "MLX5_1.4");
	if (shca_is_ours(context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_get_clock_info) f = find(&next);
	return f ? f(context, info) : ENOSYS;
}

EXPORT int mlx5dv_set_context_attr(struct ibv_context *context, enum mlx5dv_set_ctx_attr_type type, void *attr)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_set_context_attr", "MLX5_1.2");
	if (shca_is_ours(context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_set_context_attr) f = find(&next);
	return f ? f(context, type, attr) : ENOSYS;
}

EXPORT struct ibv_wq *mlx5dv_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr,
				       struct mlx5dv_wq_init_attr *dv)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_create_wq", "MLX5_1.3");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_create_wq) f = find(&next);
	return f ? f(context, attr, dv) : NULL;
}

EXPORT int mlx5dv_modify_qp_lag_port(struct ibv_qp *qp, uint8_t port)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_modify_qp_lag_port", "MLX5_1.14");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_modify_qp_lag_port) f = find(&next);
	return f ? f(qp, port) : ENOSYS;
}

EXPORT int mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port, uint8_t *active)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_query_qp_lag_port", "MLX5_1.14");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_query_qp_lag_port) f = find(&next);
	return f ? f(qp, port, active) : ENOSYS;
}

EXPORT int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_modify_qp_udp_sport", "MLX5_1.17");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_modify_qp_udp_sport) f = find(&next);
	return f ? f(qp, udp_sport) : ENOSYS;
}

EXPORT int mlx5dv_modify_qp_sched_elem(struct ibv_qp *qp, const struct mlx5dv_sched_leaf *requestor,
				       const struct mlx5dv_sched_leaf *responder)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_modify_qp_sched_elem", "MLX5_1.17");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_modify_qp_sched_elem) f = find(&next);
	return f ? f(qp, requestor, responder) : ENOSYS;
}

/* Ways to an mlx5's firmware: there is none behind this device. */

EXPORT int mlx5dv_crypto_login(struct ibv_context *context, struct mlx5dv_crypto_login_attr *attr)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_crypto_login", "MLX5_1.21");
	if (shca_is_ours(context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_crypto_login) f = find(&next);
	return f ? f(context, attr) : ENOSYS;
}

EXPORT int mlx5dv_crypto_logout(struct ibv_context *context)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_crypto_logout", "MLX5_1.21");
	if (shca_is_ours(context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_crypto_logout) f = find(&next);
	return f ? f(context) : ENOSYS;
}

EXPORT struct mlx5dv_dek *mlx5dv_dek_create(struct ibv_context *context, struct mlx5dv_dek_init_attr *attr)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_dek_create", "MLX5_1.21");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_dek_create) f = find(&next);
	return f ? f(context, attr) : NULL;
}

EXPORT int mlx5dv_devx_general_cmd(struct ibv_context *context, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_general_cmd", "MLX5_1.7");
	if (shca_is_ours(context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_devx_general_cmd) f = find(&next);
	return f ? f(context, in, inlen, out, outlen) : ENOSYS;
}

EXPORT struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in, size_t inlen,
						      void *out, size_t outlen)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_obj_create", "MLX5_1.7");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_devx_obj_create) f = find(&next);
	return f ? f(context, in, inlen, out, outlen) : NULL;
}

EXPORT struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *addr, size_t size,
						     uint32_t access)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_umem_reg", "MLX5_1.7");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_devx_umem_reg) f = find(&next);
	return f ? f(context, addr, size, access) : NULL;
}

EXPORT struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context, struct mlx5dv_devx_umem_in *in)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_umem_reg_ex", "MLX5_1.19");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_devx_umem_reg_ex) f = find(&next);
	return f ? f(context, in) : NULL;
}

EXPORT struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_alloc_uar", "MLX5_1.7");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_devx_alloc_uar) f = find(&next);
	return f ? f(context, flags) : NULL;
}

EXPORT int mlx5dv_devx_query_eqn(struct ibv_context *context, uint32_t vector, uint32_t *eqn)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_query_eqn", "MLX5_1.7");
	if (shca_is_ours(context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_devx_query_eqn) f = find(&next);
	return f ? f(context, vector, eqn) : ENOSYS;
}

EXPORT struct mlx5dv_devx_event_channel *
mlx5dv_devx_create_event_channel(struct ibv_context *context, enum mlx5dv_devx_create_event_channel_flags flags)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_create_event_channel", "MLX5_1.11");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_devx_create_event_channel) f = find(&next);
	return f ? f(context, flags) : NULL;
}

EXPORT struct mlx5dv_devx_cmd_comp *mlx5dv_devx_create_cmd_comp(struct ibv_context *context)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_create_cmd_comp", "MLX5_1.9");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_devx_create_cmd_comp) f = find(&next);
	return f ? f(context) : NULL;
}

EXPORT int mlx5dv_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_qp_query", "MLX5_1.8");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_devx_qp_query) f = find(&next);
	return f ? f(qp, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_qp_modify(struct ibv_qp *qp, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_qp_modify", "MLX5_1.8");
	if (shca_is_ours(qp->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_devx_qp_modify) f = find(&next);
	return f ? f(qp, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_cq_query(struct ibv_cq *cq, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_cq_query", "MLX5_1.8");
	if (shca_is_ours(cq->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_devx_cq_query) f = find(&next);
	return f ? f(cq, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_cq_modify(struct ibv_cq *cq, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_cq_modify", "MLX5_1.8");
	if (shca_is_ours(cq->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_devx_cq_modify) f = find(&next);
	return f ? f(cq, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_srq_query(struct ibv_srq *srq, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_srq_query", "MLX5_1.8");
	if (shca_is_ours(srq->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_devx_srq_query) f = find(&next);
	return f ? f(srq, in, inlen, out, outlen) : ENOSYS;
}

EXPORT int mlx5dv_devx_srq_modify(struct ibv_srq *srq, const void *in, size_t inlen, void *out, size_t outlen)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_devx_srq_modify", "MLX5_1.8");
	if (shca_is_ours(srq->context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_devx_srq_modify) f = find(&next);
	return f ? f(srq, in, inlen, out, outlen) : ENOSYS;
}

EXPORT struct mlx5dv_var *mlx5dv_alloc_var(struct ibv_context *context, uint32_t flags)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_alloc_var", "MLX5_1.12");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_alloc_var) f = find(&next);
	return f ? f(context, flags) : NULL;
}

EXPORT struct mlx5dv_pp *mlx5dv_pp_alloc(struct ibv_context *context, size_t size, const void *context_data,
					 uint32_t flags)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_pp_alloc", "MLX5_1.13");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_pp_alloc) f = find(&next);
	return f ? f(context, size, context_data, flags) : NULL;
}

EXPORT int mlx5dv_reserved_qpn_alloc(struct ibv_context *context, uint32_t *qpn)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_reserved_qpn_alloc", "MLX5_1.18");
	if (shca_is_ours(context))
		return EOPNOTSUPP;
	__typeof__(&mlx5dv_reserved_qpn_alloc) f = find(&next);
	return f ? f(context, qpn) : ENOSYS;
}

EXPORT struct mlx5dv_flow_matcher *mlx5dv_create_flow_matcher(struct ibv_context *context,
							      struct mlx5dv_flow_matcher_attr *attr)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_create_flow_matcher", "MLX5_1.6");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_create_flow_matcher) f = find(&next);
	return f ? f(context, attr) : NULL;
}

EXPORT struct mlx5dv_sched_node *mlx5dv_sched_node_create(struct ibv_context *context,
							  const struct mlx5dv_sched_attr *attr)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_sched_node_create", "MLX5_1.17");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_sched_node_create) f = find(&next);
	return f ? f(context, attr) : NULL;
}

EXPORT struct mlx5dv_dr_domain *mlx5dv_dr_domain_create(struct ibv_context *context, enum mlx5dv_dr_domain_type type)
{
	static struct next next = NEXT(NEXT_MLX5, "mlx5dv_dr_domain_create", "MLX5_1.10");
	if (shca_is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	__typeof__(&mlx5dv_dr_domain_create) f = find(&next);
	return f ? f(context, type) : NULL;
}
