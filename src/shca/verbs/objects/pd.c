/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection, thread, parent and XRC domains. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "shca/verbs/control.h"

struct ibv_pd *shca_alloc_pd(struct ibv_context *ctx)
{
	struct shca_context *c = shca_context_of(ctx);
	if (shca_unusable(ctx))
		return NULL;
	struct shca_user_pd *pd = calloc(1, sizeof *pd);
	if (!pd) {
		errno = shca_no_memory("alloc_pd");
		return NULL;
	}
	/* 0 is no domain: keys and queues that were never set up match nothing */
	do
		pd->number = atomic_fetch_add(&c->m->hdr->next_pd, 1) + 1;
	while (!pd->number);
	pd->pd.context = ctx;
	pd->m = shca_context_of(ctx)->m;
	pd->pd.handle = pd->number;
	return &pd->pd;
}

int shca_dealloc_pd(struct ibv_pd *ibpd)
{
	struct shca_user_pd *pd = shca_user_pd_of(ibpd);
	if (atomic_load(&pd->refs))
		return shca_refuse(EBUSY, "dealloc_pd: %u objects still use domain %u", atomic_load(&pd->refs),
				   pd->number);
	if (pd->parent)
		atomic_fetch_sub(&pd->parent->refs, 1);
	if (pd->ltd)
		atomic_fetch_sub(&pd->ltd->refs, 1);
	free(pd);
	return 0;
}

struct ibv_td *shca_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr)
{
	if (shca_unusable(ctx))
		return NULL;
	if (attr->comp_mask) {
		errno = shca_refuse(EINVAL, "alloc_td: comp_mask %#x", attr->comp_mask);
		return NULL;
	}
	struct shca_user_td *td = calloc(1, sizeof *td);
	if (!td) {
		errno = shca_no_memory("alloc_td");
		return NULL;
	}
	td->td.context = ctx;
	return &td->td;
}

int shca_dealloc_td(struct ibv_td *ibtd)
{
	struct shca_user_td *td = (struct shca_user_td *)ibtd;
	if (atomic_load(&td->refs))
		return shca_refuse(EBUSY, "dealloc_td: %u parent domains still use the thread domain", atomic_load(&td->refs));
	free(td);
	return 0;
}

/* Custom allocators are for rings that this device keeps in the fabric: they are accepted and not called. */
struct ibv_pd *shca_alloc_parent_domain(struct ibv_context *ctx, struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	if (shca_unusable(ctx))
		return NULL;
	if (!attr->pd || (attr->comp_mask & ~known)) {
		errno = shca_refuse(EINVAL, "alloc_parent_domain: pd %p, comp_mask %#x", (void *)attr->pd,
				    attr->comp_mask);
		return NULL;
	}
	struct shca_user_pd *parent = shca_user_pd_of(attr->pd);
	struct shca_user_pd *pd = calloc(1, sizeof *pd);
	if (!pd) {
		errno = shca_no_memory("alloc_parent_domain");
		return NULL;
	}
	pd->pd.context = ctx;
	pd->m = shca_context_of(ctx)->m;
	pd->pd.handle = parent->number;
	pd->number = parent->number;
	pd->parent = parent;
	atomic_fetch_add(&parent->refs, 1);
	pd->td = attr->td != NULL || parent->td;
	if (attr->td) {
		pd->ltd = (struct shca_user_td *)attr->td;
		atomic_fetch_add(&pd->ltd->refs, 1);
	}
	return &pd->pd;
}

/* Processes that name the same inode share the domain. The number is a hash of (device, inode): no table to keep,
 * none to lose when a process dies. A collision of two inodes' hashes would only join two domains of one user. */
static uint32_t inode_domain(const struct stat *st)
{
	uint64_t h = (uint64_t)st->st_dev * 0x9e3779b97f4a7c15ull ^ (uint64_t)st->st_ino;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ull;
	h ^= h >> 29;
	return (uint32_t)h | SHCA_XRCD_OF_INODE;
}

struct ibv_xrcd *shca_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t need = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct shca_context *c = shca_context_of(ctx);
	uint32_t number;

	if (shca_unusable(ctx))
		return NULL;
	if ((attr->comp_mask & need) != need || (attr->comp_mask & ~need)) {
		errno = shca_refuse(EINVAL, "open_xrcd: comp_mask %#x: FD and OFLAGS are needed", attr->comp_mask);
		return NULL;
	}
	if (attr->fd == -1) {
		do
			number = (atomic_fetch_add(&c->m->hdr->next_xrcd, 1) + 1) & ~SHCA_XRCD_OF_INODE;
		while (!number);
	} else {
		struct stat st;
		if (fstat(attr->fd, &st)) {
			errno = shca_refuse(errno, "open_xrcd: descriptor %d, whose file would name the domain", attr->fd);
			return NULL;
		}
		number = inode_domain(&st);
	}
	struct shca_user_xrcd *xrcd = calloc(1, sizeof *xrcd);
	if (!xrcd) {
		errno = shca_no_memory("open_xrcd");
		return NULL;
	}
	xrcd->xrcd.context = ctx;
	xrcd->number = number;
	if (shca_xrcd_is_common(xrcd)) {
		int err = shca_xrcd_enter(c, xrcd, attr->oflags);
		if (err) {
			free(xrcd);
			errno = err;
			return NULL;
		}
	}
	return &xrcd->xrcd;
}

int shca_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct shca_user_xrcd *xrcd = (struct shca_user_xrcd *)ibxrcd;
	if (atomic_load(&xrcd->refs))
		return shca_refuse(EBUSY, "close_xrcd: %u objects still use the domain", atomic_load(&xrcd->refs));
	if (xrcd->off && !shca_inherited(ibxrcd->context)) {
		int err = shca_xrcd_leave(shca_context_of(ibxrcd->context), xrcd);
		if (err)
			return err;
	}
	free(xrcd);
	return 0;
}
