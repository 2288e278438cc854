/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast: which queues are attached to which group (struct shca_group). engine/exec.c delivers. */
#include <stdlib.h>

#include "shca/verbs/control.h"

#define PERMISSIVE_LID 0xffffu

static struct shca_group *mcast_group_of(const struct shca_member *m, const struct shca_user_group *g)
{
	return shca_at(m->base, g->off);
}

/* Returns the link to the queue's membership in the group; NULL: not attached. Must hold the node's mutex. */
static struct shca_user_group **membership(struct shca_user_qp *q, const union ibv_gid *gid)
{
	for (struct shca_user_group **at = &q->groups; *at; at = &(*at)->next)
		if (!memcmp(mcast_group_of(q->m, *at)->gid, gid->raw, sizeof(gid->raw)))
			return at;
	return NULL;
}

static int mcast_check(const char *call, const struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	if (shca_unusable(qp->context))
		return errno;
	if (qp->qp_type != IBV_QPT_UD)
		return shca_refuse(EINVAL, "%s: the queue is not UD", call);
	if (gid->raw[0] != 0xff)
		return shca_refuse(EINVAL, "%s: the GID is no multicast GID", call);
	/* as the kernel checks it: no LID of a group, though no switch needs the LID here */
	if (!shca_is_ethernet() && (lid < SHCA_MULTICAST_LID || lid == PERMISSIVE_LID))
		return shca_refuse(EINVAL, "%s: LID %#x is no multicast LID (%#x to %#x)", call, lid, SHCA_MULTICAST_LID,
				   PERMISSIVE_LID - 1);
	return 0;
}

int shca_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct shca_user_qp *q = shca_user_qp_of(qp);
	struct shca_context *c = shca_context_of(qp->context);
	int err = mcast_check("attach_mcast", qp, gid, lid);

	if (err)
		return err;
	struct shca_user_group *g = calloc(1, sizeof(*g));
	shca_off off = g ? shca_mem_alloc(c->m, sizeof(struct shca_group)) : 0;
	if (!off) {
		free(g);
		return shca_no_memory("attach_mcast");
	}
	g->off = off;
	struct shca_group *sh = mcast_group_of(c->m, g);
	memcpy(sh->gid, gid->raw, sizeof(sh->gid));
	sh->qpn = qp->qp_num;
	pthread_mutex_lock(&c->node->mutex);
	bool attached = membership(q, gid);
	if (!attached) {
		shca_list_add(&c->node->groups, &c->m->proc->group_list, &g->listed, off, &sh->next);
		g->next = q->groups;
		q->groups = g;
	}
	pthread_mutex_unlock(&c->node->mutex);
	if (attached) {		/* as the kernel has it */
		shca_mem_free(c->m, off, sizeof(struct shca_group));
		free(g);
	}
	return 0;
}

/* Takes *at out. The caller must quiesce before it frees the membership. Must hold the node's mutex. */
static struct shca_user_group *leave(struct shca_context *c, struct shca_user_group **at)
{
	struct shca_user_group *g = *at;

	*at = g->next;
	shca_list_remove(&c->node->groups, &c->m->proc->group_list, &g->listed);
	return g;
}

static void membership_free(struct shca_context *c, struct shca_user_group *g)
{
	shca_mem_free(c->m, g->off, sizeof(struct shca_group));
	free(g);
}

int shca_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct shca_user_qp *q = shca_user_qp_of(qp);
	struct shca_context *c = shca_context_of(qp->context);
	int err = mcast_check("detach_mcast", qp, gid, lid);

	if (err)
		return err;
	struct shca_thread *thr = shca_thread_get(c->m);
	if (!thr)
		return shca_no_thread("detach_mcast");
	pthread_mutex_lock(&c->node->mutex);
	struct shca_user_group **at = membership(q, gid), *g = at ? leave(c, at) : NULL;
	pthread_mutex_unlock(&c->node->mutex);
	if (!g)
		return shca_refuse(EINVAL, "detach_mcast: the queue is not attached to this group");
	shca_quiesce(thr, thr->m->slot);
	membership_free(c, g);
	return 0;
}

bool shca_is_group_member(const struct shca_user_qp *q)
{
	struct shca_node *node = shca_context_of(q->qp.context)->node;

	pthread_mutex_lock(&node->mutex);
	bool member = q->groups != NULL;
	pthread_mutex_unlock(&node->mutex);
	return member;
}

void shca_groups_leave(struct shca_thread *thr, struct shca_user_qp *q)
{
	struct shca_context *c = shca_context_of(q->qp.context);
	struct shca_user_group *first = NULL;

	if (likely(!q->groups))
		return;
	pthread_mutex_lock(&c->node->mutex);
	while (q->groups) {
		struct shca_user_group *g = leave(c, &q->groups);
		g->next = first;
		first = g;
	}
	pthread_mutex_unlock(&c->node->mutex);
	shca_quiesce(thr, thr->m->slot);
	for (struct shca_user_group *g; (g = first) != NULL;) {
		first = g->next;
		membership_free(c, g);
	}
}
