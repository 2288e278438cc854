/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The next library, the lists of devices, and the functions of <shca.h>. interpose.h says how the interposition works; the
 * verbs are in verbs.c, those of mlx5dv in mlx5.c.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs_exp/provider.h"
#include "shca/interpose/interpose.h"

/* ---- the next library --------------------------------------------------------------------------------------- */

static void *open_library(const char *soname)
{
	/* not RTLD_NEXT: an extension module may have loaded the library RTLD_LOCAL, out of that search's sight */
	void *h = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
	return h ? h : dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
}

void *shca_preloaded(void)
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

void *shca_next_find(struct shca_next *next)
{
	void *fn = atomic_load_explicit(&next->fn, memory_order_acquire);
	if (fn)
		return fn;
	void *h = next->library == NEXT_REAL_VERBS ? NULL : shca_preloaded();
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

const struct exp_watch *_Atomic exp_watch;

/* ---- finding devices ---------------------------------------------------------------------------------------- */

EXPORT struct ibv_device **shca_get_device_list(int *num)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_get_device_list", "SHCA_1");
	if (!shca_preloaded())
		return shca_own_device_list(num);
	__typeof__(&shca_get_device_list) f = shca_next_find(&next);
	return f ? f(num) : NULL;
}

EXPORT void shca_free_device_list(struct ibv_device **list)
{
	free(list);	/* the devices live as long as the library */
}

EXPORT int shca_set_fabric(const char *name)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_set_fabric", "SHCA_1");
	if (!shca_preloaded())
		return shca_name_fabric(name);
	__typeof__(&shca_set_fabric) f = shca_next_find(&next);
	return f ? f(name) : ENOSYS;
}

static bool does_without(struct ibv_context *context, enum shca_behave what)
{
	return shca_context_of(context)->m->behave & what;
}

EXPORT void *shca_alloc(struct ibv_context *context, size_t bytes)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_alloc", "SHCA_1");
	if (shca_is_ours(context) && does_without(context, SHCA_BEHAVE_NOARENA)) {
		errno = shca_refuse(EOPNOTSUPP, "shca_alloc: SHCA_BEHAVE=noarena takes memory that peers reach away");
		return NULL;
	}
	if (shca_is_ours(context))
		return shca_buf_alloc(context, bytes);
	__typeof__(&shca_alloc) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	if (f)
		return f(context, bytes);
	errno = shca_refuse(EINVAL, "shca_alloc: the context is of no software device");
	return NULL;
}

EXPORT int shca_free(struct ibv_context *context, void *p)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_free", "SHCA_1");
	if (shca_is_ours(context))
		return shca_buf_free(context, p);
	__typeof__(&shca_free) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context, p) : shca_refuse(EINVAL, "shca_free: the context is of no software device");
}

EXPORT void *shca_alloc_kept(struct ibv_context *context, size_t bytes)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_alloc_kept", "SHCA_1");
	if (shca_is_ours(context) && does_without(context, SHCA_BEHAVE_NOARENA)) {
		errno = shca_refuse(EOPNOTSUPP, "shca_alloc_kept: SHCA_BEHAVE=noarena takes memory that peers reach away");
		return NULL;
	}
	if (shca_is_ours(context))
		return shca_kept_alloc(context, bytes);
	__typeof__(&shca_alloc_kept) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	if (f)
		return f(context, bytes);
	errno = shca_refuse(EINVAL, "shca_alloc_kept: the context is of no software device");
	return NULL;
}

EXPORT int shca_free_kept(struct ibv_context *context, void *p, size_t bytes)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_free_kept", "SHCA_1");
	if (shca_is_ours(context))
		return shca_kept_free(context, p, bytes);
	__typeof__(&shca_free_kept) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context, p, bytes) : shca_refuse(EINVAL, "shca_free_kept: the context is of no software device");
}

EXPORT enum shca_memory shca_memory_at(struct ibv_context *context, uint64_t offset, void **at)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_memory_at", "SHCA_1");
	if (shca_is_ours(context)) {
		const struct shca_member *m = shca_context_of(context)->m;
		uint32_t owner;

		if (!shca_mem_owner(m, offset, &owner))
			return SHCA_MEMORY_END;
		*at = m->base + offset;
		return owner == SHCA_OWNER_TABLES ? SHCA_MEMORY_TABLES : !owner ? SHCA_MEMORY_FREE :
		       owner == m->slot + 1 ? SHCA_MEMORY_OWN : SHCA_MEMORY_PEERS;
	}
	__typeof__(&shca_memory_at) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context, offset, at) : SHCA_MEMORY_END;
}

EXPORT int shca_path_record(struct ibv_context *context, uint8_t port, const uint8_t dgid[16], uint8_t record[64])
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_path_record", "SHCA_1");
	if (context ? shca_is_ours(context) : !shca_preloaded())
		return context && shca_inherited(context) ? errno : shca_sa_path_record(context, port, dgid, record);
	__typeof__(&shca_path_record) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context, port, dgid, record) :
		   shca_refuse(EOPNOTSUPP, "shca_path_record: the context is of no software device");
}

EXPORT int shca_counts(struct ibv_context *context, struct shca_counts *counts)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_counts", "SHCA_1");
	if (shca_is_ours(context))
		return shca_query_counts(context, counts);
	__typeof__(&shca_counts) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context, counts) : shca_refuse(EOPNOTSUPP, "shca_counts: the context is of no software device");
}

EXPORT uint32_t shca_promises(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_promises", "SHCA_1");
	if (shca_is_ours(context))
		return shca_query_promises(context);
	__typeof__(&shca_promises) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context) : 0;
}

EXPORT int shca_unfinished(struct ibv_qp *qp, const uint32_t **word)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_unfinished", "SHCA_1");
	if (shca_is_ours(qp->context))
		return shca_query_unfinished(qp, word);
	__typeof__(&shca_unfinished) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(qp, word) : shca_refuse(EOPNOTSUPP, "shca_unfinished: the queue pair is of no software device");
}

EXPORT int shca_await_prepare(struct ibv_context *context, uint32_t *seen)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_await_prepare", "SHCA_1");
	if (shca_is_ours(context)) {
		if (shca_inherited(context))
			return errno;
		if (does_without(context, SHCA_BEHAVE_NOWAKE))
			return shca_refuse(EOPNOTSUPP, "shca_await_prepare: SHCA_BEHAVE=nowake takes waking by writes away");
		*seen = shca_sleep_prepare(shca_context_of(context)->m);
		return 0;
	}
	__typeof__(&shca_await_prepare) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context, seen) : shca_refuse(EOPNOTSUPP, "shca_await_prepare: the context is of no software device");
}

EXPORT int shca_await(struct ibv_context *context, uint32_t seen, uint64_t timeout_ns)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_await", "SHCA_1");
	if (shca_is_ours(context))
		return shca_inherited(context) ? errno : -shca_sleep_commit(shca_context_of(context)->m, seen, timeout_ns);
	__typeof__(&shca_await) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context, seen, timeout_ns) : shca_refuse(EOPNOTSUPP, "shca_await: the context is of no software device");
}

EXPORT void shca_await_cancel(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_await_cancel", "SHCA_1");
	if (shca_is_ours(context)) {
		if (!shca_inherited(context))
			shca_sleep_cancel(shca_context_of(context)->m);
		return;
	}
	__typeof__(&shca_await_cancel) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	if (f)
		f(context);
}

EXPORT int shca_await_wake(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_await_wake", "SHCA_1");
	if (shca_is_ours(context)) {
		if (shca_inherited(context))
			return errno;
		if (does_without(context, SHCA_BEHAVE_NOWAKE))
			return shca_refuse(EOPNOTSUPP, "shca_await_wake: SHCA_BEHAVE=nowake takes waking by writes away");
		shca_sleep_interrupt(shca_context_of(context)->m);
		return 0;
	}
	__typeof__(&shca_await_wake) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context) : shca_refuse(EOPNOTSUPP, "shca_await_wake: the context is of no software device");
}

EXPORT const struct ibv_exp_provider *shca_exp_provider(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_exp_provider", "SHCA_PRIVATE_1");
	if (shca_is_ours(context))
		return shca_is_plain_connectx(context) ? NULL : &shca_own_exp_provider;
	__typeof__(&shca_exp_provider) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f ? f(context) : NULL;
}

EXPORT bool shca_device_is_software(const struct ibv_device *device)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "shca_device_is_software", "SHCA_PRIVATE_1");
	if (shca_is_our_device(device))
		return true;
	__typeof__(&shca_device_is_software) f = shca_preloaded() ? shca_next_find(&next) : NULL;
	return f && f(device);
}

#ifdef SHCA_EXPORT
EXPORT int shca_device_file(const char *path, struct shca_file *file)
{
	return shca_file_find(path, file);
}

EXPORT void shca_device_names(const char *directory, void (*f)(const char *name, void *arg), void *arg)
{
	shca_file_names(directory, f, arg);
}

/*
 * Device lists that this library put together, so that they can be told from the real library's own. A list is an allocation
 * separate from its entry here: programs free lists by free(3), as they could the first libraries' lists. An entry stays until
 * a later list comes to lie at the same address.
 */
struct joined {
	struct joined *next;
	struct ibv_device **list, **real;
};
static pthread_mutex_t joined_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct joined *joined;

/* Removes and returns the entry of a list; NULL: the real library's list. Must: joined_mutex is held. */
static struct joined *joined_take(struct ibv_device **list)
{
	struct joined **p = &joined;

	while (*p && (*p)->list != list)
		p = &(*p)->next;
	struct joined *j = *p;
	if (j)
		*p = j->next;
	return j;
}

static void free_real(struct ibv_device **real)
{
	static struct shca_next next = NEXT(NEXT_REAL_VERBS, "ibv_free_device_list", "IBVERBS_1.1");
	__typeof__(&ibv_free_device_list) f = shca_next_find(&next);
	if (real && f)
		f(real);
}

/* The software device is listed only if SHCA_VISIBLE is set (by shcarun): a program must not find another first device because
 * a library that it loads happens to use this one. */
EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	static struct shca_next next = NEXT(NEXT_REAL_VERBS, "ibv_get_device_list", "IBVERBS_1.1");
	int before = errno;
	__typeof__(&ibv_get_device_list) f = shca_next_find(&next);
	int n = 0;
	struct ibv_device **real = f ? f(&n) : NULL;
	if (!shca_env_bool("SHCA_VISIBLE")) {
		if (num)
			*num = real ? n : 0;
		return real;
	}
	/* the real library without a kernel module fails with ENOSYS: then ours is the only device */
	n = real ? n : 0;
	int own_n = 0;
	struct ibv_device **own = shca_own_device_list(&own_n);
	struct ibv_device **list = own ? calloc((size_t)(n + own_n + 1), sizeof *list) : NULL;
	struct joined *j = list ? malloc(sizeof *j) : NULL;
	if (!j) {
		free_real(real);
		free(list);
		free(own);
		errno = shca_no_memory("ibv_get_device_list");
		return NULL;
	}
	memcpy(list, own, (size_t)own_n * sizeof *own);
	if (n)
		memcpy(list + own_n, real, (size_t)n * sizeof *real);
	free(own);
	*j = (struct joined){ .list = list, .real = real };
	pthread_mutex_lock(&joined_mutex);
	struct joined *stale = joined_take(list);
	j->next = joined;
	joined = j;
	pthread_mutex_unlock(&joined_mutex);
	if (stale)
		free_real(stale->real);
	free(stale);
	if (num)
		*num = n + own_n;
	errno = before;		/* an error of the real library, which has no device, is no failure of this call */
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	pthread_mutex_lock(&joined_mutex);
	struct joined *j = joined_take(list);
	pthread_mutex_unlock(&joined_mutex);
	if (j)
		free(list);
	free_real(j ? j->real : list);
	free(j);
}
#else
/* libheddle asks for the software device by shca_get_device_list; this function serves all other callers. */
struct ibv_device **ibv_get_device_list(int *num)
{
	static struct shca_next next = NEXT(NEXT_REAL_VERBS, "ibv_get_device_list", "IBVERBS_1.1");
	__typeof__(&ibv_get_device_list) f = shca_next_find(&next);
	return f ? f(num) : NULL;
}

void ibv_free_device_list(struct ibv_device **list)
{
	static struct shca_next next = NEXT(NEXT_REAL_VERBS, "ibv_free_device_list", "IBVERBS_1.1");
	__typeof__(&ibv_free_device_list) f = shca_next_find(&next);
	if (f)
		f(list);
}
#endif

/* A second context on the device of the first one. */
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_import_device", "IBVERBS_1.10");
	char link[64], name[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", cmd_fd);
	ssize_t n = readlink(link, name, sizeof name - 1);
	name[n < 0 ? 0 : n] = 0;
	/* where a libshca.so is preloaded, that has the device open */
	if (!shca_preloaded() && !strncmp(name, "/memfd:" SHCA_CMD_FD_NAME, strlen("/memfd:" SHCA_CMD_FD_NAME)))
		return shca_import_device(cmd_fd);
	__typeof__(&ibv_import_device) f = shca_next_find(&next);
	return f ? f(cmd_fd) : NULL;
}
