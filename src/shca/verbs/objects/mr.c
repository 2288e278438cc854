/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions, memory of the fabric that programs ask for, device memory. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "shca/verbs/control.h"
#include "shca/verbs/objects/mr.h"

/* ---- memory regions ----------------------------------------------------------------------------------------- */

#define ACCESS_KNOWN                                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |       \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB)

static int access_check(struct ibv_context *ctx, unsigned int access)
{
	/* optional flags that a device does not know are ignored by definition */
	unsigned int a = access & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
	if (a & ~(unsigned int)ACCESS_KNOWN)
		return shca_refuse(EINVAL, "reg_mr: access %#x: unknown flags", access);
	if ((a & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(a & IBV_ACCESS_LOCAL_WRITE))
		return shca_refuse(EINVAL, "reg_mr: access %#x: remote write and atomic need local write", access);
	if (a & IBV_ACCESS_ON_DEMAND && !shca_pages_on_demand(ctx))
		return shca_refuse(EOPNOTSUPP, "reg_mr: IBV_ACCESS_ON_DEMAND: SHCA_BEHAVE=noodp takes paging on demand away");
	return 0;
}

static int fill_translation(struct shca_context *c, struct shca_mr *sh, void *addr, size_t length, uint64_t iova,
			    unsigned int access)
{
	bool implicit = (access & IBV_ACCESS_ON_DEMAND) && !addr && length == SIZE_MAX;
	bool arena = !implicit && shca_in_arena(c->m, addr, length);
	if (!implicit) {
		int err = 0;
		/* memory on demand is checked when a request uses it; memory of the arena is always mapped */
		if (!(access & IBV_ACCESS_ON_DEMAND) && !arena)
			err = shca_memory_check(addr, length, access);
		if (!err && iova + length < iova)
			err = shca_refuse(EINVAL, "reg_mr: addresses from %#lx on, %zu bytes, wrap around", (unsigned long)iova,
					  length);
		if (err)
			return err;
	}
	sh->implicit = implicit;
	sh->iova = implicit ? 0 : iova;
	sh->length = implicit ? UINT64_MAX : length;
	if (arena) {
		sh->lane = SHCA_LANE_ARENA;
		sh->where = shca_off_of(c->m, addr);
	} else {
		sh->lane = c->m->proc->cma ? SHCA_LANE_CMA : SHCA_LANE_PROXY;
		sh->where = implicit ? 0 : (uintptr_t)addr;
	}
	return 0;
}

/* null: a null region, with any address. */
static struct ibv_mr *mr_make(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova, unsigned int access, bool null)
{
	struct shca_context *c = shca_context_of(ibpd->context);
	struct shca_user_pd *pd = shca_user_pd_of(ibpd);
	uint32_t key;

	if (shca_unusable(ibpd->context))
		return NULL;
	int err = access_check(ibpd->context, access);
	if (err) {
		errno = err;
		return NULL;
	}
	struct shca_user_mr *mr = calloc(1, sizeof *mr);
	if (!mr) {
		errno = shca_no_memory("reg_mr");
		return NULL;
	}
	struct shca_mr *sh = shca_mr_alloc(c->m, &key);
	if (!sh) {
		free(mr);
		return NULL;
	}
	if (null) {
		sh->implicit = 0;
		sh->iova = 0;
		sh->length = SHCA_NULL_BYTES;
		sh->lane = SHCA_LANE_CMA;
		sh->where = SHCA_NULL_AT;
	} else {
		err = fill_translation(c, sh, addr, length, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
	}
	if (err) {
		shca_mr_free(c->m, sh);
		free(mr);
		errno = err;
		return NULL;
	}
	sh->pd = pd->number;
	sh->access = access;
	sh->proc = (uint16_t)c->m->slot;
	mr->mr = (struct ibv_mr){
		.context = ibpd->context, .pd = ibpd, .addr = addr, .length = length, .handle = key >> 8,
		.lkey = key, .rkey = key,
	};
	mr->sh = sh;
	mr->pd = pd;
	atomic_fetch_add(&pd->refs, 1);
	shca_mr_list(c, mr);
	atomic_store_explicit(&sh->key, key, memory_order_release);
	return &mr->mr;
}

struct ibv_mr *shca_reg_mr(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return mr_make(ibpd, addr, length, iova, access, false);
}

struct ibv_mr *shca_alloc_null_mr(struct ibv_pd *ibpd)
{
	return mr_make(ibpd, NULL, SIZE_MAX, 0, IBV_ACCESS_LOCAL_WRITE, true);
}

/* Ends the region's key, and waits until no thread uses the region (I8). */
static int mr_close(struct shca_context *c, struct shca_mr *sh)
{
	struct shca_thread *thr = shca_thread_get(c->m);
	if (!thr)
		return errno;
	atomic_store(&sh->key, 0);
	/* behind the key's end (shca_resolve_local): receives posted into the region fail the message that lands in them */
	atomic_fetch_add(&sh->version, 1);
	SHCA_FAILPOINT(thr, "dereg-closed", NULL, 0);
	shca_revoke(c->m, c->m->slot);
	shca_quiesce(thr, thr->m->slot);
	SHCA_FAILPOINT(thr, "dereg-quiesced", NULL, 0);
	return 0;
}

int shca_dereg_mr(struct ibv_mr *ibmr)
{
	struct shca_user_mr *mr = (struct shca_user_mr *)ibmr;
	struct shca_context *c = shca_context_of(ibmr->context);

	if (mr->entries)
		return shca_mkey_free(mr);
	if (mr->imported)
		return shca_refuse(EINVAL, "dereg_mr: the region of key %#x was imported: ibv_unimport_mr", ibmr->lkey);
	if (!shca_inherited(ibmr->context)) {
		int err = shca_windows_close(c, mr->sh, "dereg_mr");
		if (!err)
			err = mr_close(c, mr->sh);
		if (err)
			return err;
		atomic_store(&mr->sh->window, SHCA_WINDOW_NONE);
		shca_mr_free(c->m, mr->sh);
		shca_mr_unlist(c, mr);
	}
	atomic_fetch_sub(&mr->pd->refs, 1);
	if (mr->own)
		shca_buf_free(ibmr->context, mr->own);
	if (mr->dm_regions)
		atomic_fetch_sub(mr->dm_regions, 1);
	free(mr);
	return 0;
}

/* ibv_rereg_mr. The key stays. While this runs, peers get access errors, as on a device that unmaps during the change. */
int shca_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length, int access)
{
	struct shca_user_mr *mr = (struct shca_user_mr *)ibmr;
	struct shca_context *c = shca_context_of(ibmr->context);
	if (shca_unusable(ibmr->context))
		return IBV_REREG_MR_ERR_INPUT;
	unsigned int acc = flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned int)access : mr->sh->access;
	int err = 0;

	/* of device memory: as the kernel refuses it, because the program has no address for that memory */
	if (!flags || mr->imported || mr->entries || mr->dm_regions || SHCA_IS_NULL(mr->sh->where) ||
	    (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && !ibpd) ||
	    ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length)))
		err = shca_refuse(EINVAL, "rereg_mr: flags %#x (of %#x), with domain %p, memory %p + %zu", (unsigned int)flags,
				  IBV_REREG_MR_FLAGS_SUPPORTED, (void *)ibpd, addr, length);
	else if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		err = access_check(ibmr->context, acc);
	struct shca_mr fresh = { .key = 0 };
	/* the region gets rights that the memory was not checked for */
	if (!err && !(flags & IBV_REREG_MR_CHANGE_TRANSLATION) && acc & ~mr->sh->access && !(acc & IBV_ACCESS_ON_DEMAND) &&
	    mr->sh->lane != SHCA_LANE_ARENA)
		err = shca_memory_check((const void *)(uintptr_t)mr->sh->where, mr->sh->length, acc);
	if (!err && (flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		err = fill_translation(c, &fresh, addr, length, acc & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr,
				       acc);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	uint32_t key = ibmr->lkey;
	err = shca_windows_close(c, mr->sh, "rereg_mr");
	if (!err)
		err = mr_close(c, mr->sh);
	atomic_store(&mr->sh->window, SHCA_WINDOW_NONE);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->sh->lane = fresh.lane;
		mr->sh->implicit = fresh.implicit;
		mr->sh->iova = fresh.iova;
		mr->sh->length = fresh.length;
		mr->sh->where = fresh.where;
		ibmr->addr = addr;
		ibmr->length = length;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		atomic_fetch_add(&shca_user_pd_of(ibpd)->refs, 1);
		atomic_fetch_sub(&mr->pd->refs, 1);
		mr->pd = shca_user_pd_of(ibpd);
		mr->sh->pd = mr->pd->number;
		ibmr->pd = ibpd;
	}
	mr->sh->access = acc;
	atomic_store_explicit(&mr->sh->key, key, memory_order_release);
	return 0;
}

/* ibv_advise_mr: prefetching has no effect here. The arguments are checked as documented, so that a program tested on this
 * device does not fail on another. */
int shca_advise_mr(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg,
		   uint32_t n)
{
	struct shca_context *c = shca_context_of(ibpd->context);
	if (shca_unusable(ibpd->context))
		return errno;
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return shca_refuse(EOPNOTSUPP, "advise_mr: advice %u", advice);
	if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || (n && !sg))
		return shca_refuse(EINVAL, "advise_mr: flags %#x, %u segments at %p", flags, n, (void *)sg);
	for (uint32_t i = 0; i < n; i++) {
		struct shca_mr *mr = shca_mr_get(c->m, sg[i].lkey);
		if (!mr || mr->proc != c->m->slot)
			return shca_refuse(ENOENT, "advise_mr: key %#x", sg[i].lkey);
		if (!(mr->access & IBV_ACCESS_ON_DEMAND))
			return shca_refuse(EINVAL, "advise_mr: key %#x was not registered on demand", sg[i].lkey);
		if (mr->pd != shca_user_pd_of(ibpd)->number)
			return shca_refuse(EPERM, "advise_mr: key %#x is of another domain", sg[i].lkey);
		if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
			return shca_refuse(EPERM, "advise_mr: key %#x is read-only", sg[i].lkey);
		if (sg[i].addr < mr->iova || sg[i].addr - mr->iova > mr->length ||
		    sg[i].length > mr->length - (sg[i].addr - mr->iova))
			return shca_refuse(EFAULT, "advise_mr: %#lx + %u is outside key %#x",
					   (unsigned long)sg[i].addr, sg[i].length, sg[i].lkey);
	}
	return 0;
}

/* ---- memory of the fabric ----------------------------------------------------------------------------------- */

struct buf {
	const char *p;
	uint64_t bytes;
};

static int buf_cmp(const void *a, const void *b)
{
	const char *x = ((const struct buf *)a)->p, *y = ((const struct buf *)b)->p;
	return x < y ? -1 : x > y;
}

void *shca_buf_alloc(struct ibv_context *ctx, size_t bytes)
{
	if (!bytes || bytes > SIZE_MAX / 2) {
		errno = shca_refuse(EINVAL, "shca_alloc: %zu bytes", bytes);
		return NULL;
	}
	struct shca_context *c = shca_context_of(ctx);
	if (shca_unusable(ctx))
		return NULL;
	struct buf *b = malloc(sizeof *b);
	if (!b) {
		errno = shca_no_memory("shca_alloc");
		return NULL;
	}
	b->bytes = (bytes + 4095) & ~(size_t)4095;
	shca_off off = shca_mem_alloc(c->m, b->bytes);
	if (!off) {
		free(b);
		return NULL;
	}
	b->p = shca_at(c->m->base, off);
	pthread_mutex_lock(&c->mutex);
	bool kept = tsearch(b, &c->bufs, buf_cmp) != NULL;
	pthread_mutex_unlock(&c->mutex);
	if (!kept) {
		shca_mem_free(c->m, off, b->bytes);
		free(b);
		errno = shca_no_memory("shca_alloc");
		return NULL;
	}
	return (void *)b->p;
}

int shca_buf_free(struct ibv_context *ctx, void *p)
{
	if (shca_inherited(ctx))
		return 0;
	if (!p)
		return 0;
	struct shca_context *c = shca_context_of(ctx);
	struct buf want = { .p = p }, *b = NULL;
	pthread_mutex_lock(&c->mutex);
	struct buf **found = tfind(&want, &c->bufs, buf_cmp);
	if (found) {
		b = *found;
		tdelete(&want, &c->bufs, buf_cmp);
	}
	pthread_mutex_unlock(&c->mutex);
	if (!b)
		return shca_refuse(EINVAL, "shca_free: %p was not allocated here", p);
	shca_mem_free(c->m, shca_off_of(c->m, b->p), b->bytes);
	free(b);
	return 0;
}

void shca_bufs_free(struct shca_context *c)
{
	while (c->bufs) {
		struct buf *b = *(struct buf **)c->bufs;
		tdelete(b, &c->bufs, buf_cmp);
		shca_mem_free(c->m, shca_off_of(c->m, b->p), b->bytes);
		free(b);
	}
}

void *shca_kept_alloc(struct ibv_context *ctx, size_t bytes)
{
	if (!bytes || bytes > SIZE_MAX / 2) {
		errno = shca_refuse(EINVAL, "shca_alloc_kept: %zu bytes", bytes);
		return NULL;
	}
	if (shca_unusable(ctx))
		return NULL;
	struct shca_member *m = shca_context_of(ctx)->m;
	shca_off off = shca_mem_alloc_kept(m, bytes);
	return off ? shca_at(m->base, off) : NULL;
}

int shca_kept_free(struct ibv_context *ctx, void *p, size_t bytes)
{
	if (shca_inherited(ctx) || !p)
		return 0;
	struct shca_member *m = shca_context_of(ctx)->m;
	shca_off off = shca_off_of(m, p);
	if (off % SHCA_CHUNK || !shca_fits(m, off, bytes) || !shca_owned(m, p, SHCA_COMMON))
		return shca_refuse(EINVAL, "shca_free_kept: %p was not allocated by shca_alloc_kept", p);
	shca_mem_free_kept(m, off, bytes);
	return 0;
}

/* Device memory is memory of the fabric: a region of device memory is addressed from zero. */
struct ldm {
	struct ibv_dm dm;
	char *p;
	size_t length;
	_Atomic unsigned regions;	/* that are registered: shca_user_mr.dm_regions */
};

/* Whole words, as devices that are reached by register access demand. */
static int dm_check(const struct ldm *dm, uint64_t offset, size_t length)
{
	if (shca_inherited(dm->dm.context))
		return errno;
	if ((offset | length) & 3)
		return shca_refuse(EINVAL, "memcpy_dm: offset %#lx, %zu bytes: both have to be multiples of 4",
				   (unsigned long)offset, length);
	return offset > dm->length || length > dm->length - offset ?
		       shca_refuse(EFAULT, "memcpy_dm: offset %#lx, %zu bytes, of %zu", (unsigned long)offset, length,
				   dm->length) :
		       0;
}

static int dm_write(struct ibv_dm *ibdm, uint64_t offset, const void *from, size_t length)
{
	struct ldm *dm = (struct ldm *)ibdm;
	int err = dm_check(dm, offset, length);
	if (err)
		return err;
	memcpy(dm->p + offset, from, length);
	return 0;
}

static int dm_read(void *to, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	struct ldm *dm = (struct ldm *)ibdm;
	int err = dm_check(dm, offset, length);
	if (err)
		return err;
	memcpy(to, dm->p + offset, length);
	return 0;
}

struct ibv_dm *shca_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr)
{
	if (attr->comp_mask || !attr->length || attr->log_align_req > 12) {
		errno = shca_refuse(EINVAL, "alloc_dm: length %zu, alignment 2^%u (at most 2^12), comp_mask %#x",
				    attr->length, attr->log_align_req, attr->comp_mask);
		return NULL;
	}
	if (attr->length > SHCA_MAX_DM) {
		errno = shca_refuse(ENOMEM, "alloc_dm: length %zu, at most %llu", attr->length, SHCA_MAX_DM);
		return NULL;
	}
	struct ldm *dm = calloc(1, sizeof *dm);
	if (!dm) {
		errno = shca_no_memory("alloc_dm");
		return NULL;
	}
	dm->p = shca_buf_alloc(ctx, attr->length);
	if (!dm->p) {
		free(dm);
		return NULL;
	}
	dm->length = attr->length;
	dm->dm.context = ctx;
	dm->dm.memcpy_to_dm = dm_write;
	dm->dm.memcpy_from_dm = dm_read;
	return &dm->dm;
}

int shca_free_dm(struct ibv_dm *ibdm)
{
	struct ldm *dm = (struct ldm *)ibdm;
	unsigned regions = atomic_load(&dm->regions);
	if (regions)
		return shca_refuse(EBUSY, "free_dm: %u memory regions are registered in it", regions);
	int err = shca_buf_free(ibdm->context, dm->p);
	if (!err)
		free(dm);
	return err;
}

struct ibv_mr *shca_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm, uint64_t offset, size_t length,
			      unsigned int access)
{
	struct ldm *dm = (struct ldm *)ibdm;
	if (!(access & IBV_ACCESS_ZERO_BASED) || offset > dm->length || length > dm->length - offset) {
		errno = shca_refuse(EINVAL, "reg_dm_mr: access %#x (must be zero-based), %#lx + %zu of %zu", access,
				    (unsigned long)offset, length, dm->length);
		return NULL;
	}
	struct ibv_mr *mr = shca_reg_mr(pd, dm->p + offset, length, 0, access);
	if (!mr)
		return NULL;
	mr->addr = NULL;	/* the program has no address for it */
	((struct shca_user_mr *)mr)->dm_regions = &dm->regions;
	atomic_fetch_add(&dm->regions, 1);
	return mr;
}
