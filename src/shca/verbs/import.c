/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Importing: a second context on a device that is open, and its domains and regions there (ibv_import_device(3)). The command
 * descriptor that the first context has, and that a program may send to another process of the fabric, is a memory file with the
 * fabric's name and the identity of the fabric's file. Handles are numbers of the fabric.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shca/engine/access.h"
#include "shca/verbs/control.h"

/* Makes cmd_fd the context's command descriptor, which ibv_close_device closes. A program that passes another context's own
 * descriptor, not a duplicate as the manual demands, keeps that context whole. */
static void own_descriptor(struct shca_context *c, int cmd_fd)
{
	bool taken = false;

	pthread_mutex_lock(&c->node->mutex);
	for (const struct shca_context *o = c->node->contexts; o; o = o->next)
		taken |= o->cmd.n == cmd_fd;
	if (!taken) {
		shca_fd_close(&c->cmd);
		c->cmd = shca_fd_note(cmd_fd);
		c->v.context.cmd_fd = cmd_fd;
	}
	pthread_mutex_unlock(&c->node->mutex);
}

/* Ownership: cmd_fd is the context's on success, the caller's on failure. */
struct ibv_context *shca_import_device(int cmd_fd)
{
	struct shca_cmd_identity id;
	int num;

	if (pread(cmd_fd, &id, sizeof(id), 0) != (ssize_t)sizeof(id) || memchr(id.name, 0, sizeof(id.name)) == NULL) {
		errno = shca_refuse(EINVAL, "import_device: descriptor %d has no fabric's name", cmd_fd);
		return NULL;
	}
	/* a process that has the device open is asked for its fabric below; one that has not joins the fabric of this name */
	int err = shca_name_fabric(id.name);
	if (err && err != EBUSY) {
		errno = err;
		return NULL;
	}
	struct ibv_device **list = shca_own_device_list(&num);
	struct ibv_context *ctx = list ? shca_open_device(list[0]) : NULL;
	free(list);
	if (!ctx)
		return NULL;
	const struct shca_fd *fd = &shca_context_of(ctx)->m->fd;
	if (fd->dev != id.dev || fd->ino != id.ino) {
		shca_close_device(ctx);
		errno = shca_refuse(EXDEV, "import_device: descriptor %d is of another fabric, \"%s\"", cmd_fd, id.name);
		return NULL;
	}
	own_descriptor(shca_context_of(ctx), cmd_fd);
	return ctx;
}

struct ibv_pd *shca_import_pd(struct ibv_context *ctx, uint32_t handle)
{
	struct shca_context *c = shca_context_of(ctx);

	if (shca_unusable(ctx))
		return NULL;
	if (!handle || handle > atomic_load(&c->m->hdr->next_pd)) {
		errno = shca_refuse(ENOENT, "import_pd: no domain of the fabric has the handle %u", handle);
		return NULL;
	}
	struct shca_user_pd *pd = calloc(1, sizeof(*pd));
	if (!pd) {
		errno = shca_no_memory("import_pd");
		return NULL;
	}
	pd->number = handle;
	pd->m = c->m;
	pd->pd = (struct ibv_pd){.context = ctx, .handle = handle};
	return &pd->pd;
}

/* Objects of the imported domain keep it, as they keep any other. */
void shca_unimport_pd(struct ibv_pd *pd)
{
	shca_dealloc_pd(pd);
}

struct ibv_mr *shca_import_mr(struct ibv_pd *ibpd, uint32_t handle)
{
	struct shca_context *c = shca_context_of(ibpd->context);
	struct shca_user_pd *pd = shca_user_pd_of(ibpd);

	if (shca_unusable(ibpd->context))
		return NULL;
	struct shca_mr *sh = shca_mr_entry(c->m, handle);
	uint32_t key = sh ? atomic_load_explicit(&sh->key, memory_order_acquire) : 0;
	if (!key || key >> 8 != handle || sh->pd != pd->number) {
		errno = shca_refuse(ENOENT, "import_mr: no region of domain %u has the handle %u", pd->number, handle);
		return NULL;
	}
	struct shca_user_mr *mr = calloc(1, sizeof(*mr));
	if (!mr) {
		errno = shca_no_memory("import_mr");
		return NULL;
	}
	mr->mr = (struct ibv_mr){
		.context = ibpd->context, .pd = ibpd, .length = sh->length, .handle = handle, .lkey = key, .rkey = key};
	mr->sh = sh;
	mr->pd = pd;
	mr->imported = true;
	atomic_fetch_add(&pd->refs, 1);
	return &mr->mr;
}

void shca_unimport_mr(struct ibv_mr *ibmr)
{
	struct shca_user_mr *mr = (struct shca_user_mr *)ibmr;

	if (!mr->imported) {
		shca_refuse(EINVAL, "unimport_mr: the region of key %#x was registered here", ibmr->lkey);
		return;
	}
	atomic_fetch_sub(&mr->pd->refs, 1);
	free(mr);
}
