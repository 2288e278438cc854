/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: life, connection's socket, migration, options. The states' order is the kernel's (drivers/infiniband/core/cma.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "rdmacm/internal.h"

static pthread_mutex_t ids_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rcm_id *ids_free;			/* guarded by ids_lock */

/* ---- life ------------------------------------------------------------------------------------------------------- */

static void id_link(struct rcm_channel *ch, struct rcm_id *id)
{
	id->next = ch->ids;
	id->prev = &ch->ids;
	if (ch->ids)
		ch->ids->prev = &id->next;
	ch->ids = id;
	ch->id_destroy = rcm_id_destroy;
	atomic_store(&id->channel, ch);
}

static void id_unlink(struct rcm_id *id)
{
	*id->prev = id->next;
	if (id->next)
		id->next->prev = id->prev;
}

struct rcm_id *rcm_id_new(struct rcm_channel *ch, uint64_t uid, uint16_t ps, uint8_t qp_type)
{
	pthread_mutex_lock(&ids_lock);
	struct rcm_id *id = ids_free;
	if (id)
		ids_free = id->next;
	pthread_mutex_unlock(&ids_lock);
	if (!id && !(id = calloc(1, sizeof(*id)))) {
		errno = shca_no_memory("rdma_create_id");
		return NULL;
	}
	*id = (struct rcm_id){.uid = uid, .ps = ps, .qp_type = qp_type, .conn = {.n = -1}, .name = {.n = -1},
			       .name_mark = {.n = -1}};
	/* the queue's and its groups', as the kernel's cma_set_default_qkey */
	if (qp_type == IBV_QPT_UD)
		id->local.qkey = ps == RDMA_PS_IPOIB ? RCM_IPOIB_QKEY : RCM_UDP_QKEY;
	int err = rcm_handle_new(id, RCM_ID, &id->handle);
	if (!err) {
		id_link(ch, id);
		return id;
	}
	pthread_mutex_lock(&ids_lock);
	id->next = ids_free;
	ids_free = id;
	pthread_mutex_unlock(&ids_lock);
	errno = shca_refuse(-err, "rdma_create_id: no memory, or more than %u ids", RCM_HANDLES);
	return NULL;
}

struct rcm_id *rcm_id_find(struct rcm_channel *ch, uint32_t handle)
{
	struct rcm_id *id = rcm_handle_get(handle, RCM_ID);

	if (id && atomic_load(&id->channel) == ch && id->handle == handle)
		return id;
	errno = id ? EINVAL : ENOENT;
	shca_refuse(errno, "RDMA CM: no id %u on this event channel", handle);
	return NULL;
}

/* ---- the connection's socket ------------------------------------------------------------------------------------ */

int rcm_conn_watch(struct rcm_id *id)
{
	int err = rcm_watch(id, &id->conn);

	id->watched = !err;
	return err;
}

void rcm_conn_unwatch(struct rcm_id *id)
{
	if (id->watched)
		rcm_unwatch(id, &id->conn);
	id->watched = false;
}

void rcm_hang_up(struct rcm_id *id)
{
	if (id->conn.n >= 0 && shca_fd_ours(&id->conn)) {
		rcm_conn_unwatch(id);
		/* the child of a fork may have the socket, too */
		shutdown(id->conn.n, SHUT_RDWR);
		close(id->conn.n);
	}
	id->conn.n = -1;
	id->watched = false;
}

/* ---- the end of an id ------------------------------------------------------------------------------------------- */

void rcm_events_drop(struct rcm_channel *ch, const struct rcm_id *id, const struct rcm_group *group)
{
	for (struct rcm_event **at = &ch->events; *at && id->events_queued;) {
		if ((*at)->id != id || (group && (*at)->group != group)) {
			at = &(*at)->next;
			continue;
		}
		struct rcm_event *ev = rcm_event_unlink(ch, at);
		if (ev->arrived) {
			rcm_id_destroy(ev->arrived);
			at = &ch->events;	/* may have dropped events of its own */
		}
		free(ev);
	}
}

/* Frees the groups that the id has joined. */
static void groups_free(struct rcm_id *id)
{
	for (struct rcm_group *g; (g = id->groups) != NULL;) {
		id->groups = g->next;
		rcm_events_drop(atomic_load(&id->channel), id, g);
		rcm_handle_free(g->handle);
		free(g);
	}
}

void rcm_id_destroy(struct rcm_id *id)
{
	struct rcm_channel *ch = atomic_load(&id->channel);

	if (id->state == RCM_LISTEN) {
		rcm_unwatch(id, &id->name);
		/* requests that were accepted and not read yet */
		for (struct rcm_id *i = ch->ids, *next; i; i = next) {
			next = i->next;
			if (i->listener == id && i->state == RCM_ARRIVING) {
				rcm_id_destroy(i);
				next = ch->ids;
			}
		}
	}
	rcm_hang_up(id);
	rcm_name_free(id);
	rcm_timer_clear(id);
	groups_free(id);
	rcm_events_drop(ch, id, NULL);
	rcm_handle_free(id->handle);
	id_unlink(id);
	atomic_store(&id->channel, NULL);
	pthread_mutex_lock(&ids_lock);
	id->next = ids_free;
	ids_free = id;
	pthread_mutex_unlock(&ids_lock);
}

int rcm_create_id(struct rcm_channel *ch, const struct rdma_ucm_create_id *c, struct rdma_ucm_create_id_resp *out)
{
	uint8_t type = c->qp_type;

	switch (c->ps) {
	case RDMA_PS_TCP:
		type = IBV_QPT_RC;
		break;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		type = IBV_QPT_UD;
		break;
	case RDMA_PS_IB:
		break;
	default:
		return -shca_refuse(EINVAL, "rdma_create_id: no port space 0x%x", c->ps);
	}
	/* the program chooses the type of its queue by rdma_addrinfo, which librdmacm hands on for every port space */
	if (c->qp_type == IBV_QPT_XRC_SEND || c->qp_type == IBV_QPT_XRC_RECV ||
	    (c->ps == RDMA_PS_TCP && c->qp_type == IBV_QPT_UC))
		type = c->qp_type;
	struct rcm_id *id = rcm_id_new(ch, c->uid, c->ps, type);
	if (!id)
		return -errno;
	out->id = id->handle;
	return 0;
}

int rcm_destroy_id(struct rcm_channel *ch, const struct rdma_ucm_destroy_id *c, struct rdma_ucm_destroy_id_resp *out)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);

	if (!id)
		return -errno;
	out->events_reported = id->events_reported + rcm_kernel_destroy(id);
	rcm_id_destroy(id);
	return 0;
}

/* ---- migration -------------------------------------------------------------------------------------------------- */

/* Moves an id to another channel's list. Both locks are held. */
static void id_relink(struct rcm_id *id, struct rcm_channel *to)
{
	id_unlink(id);
	id_link(to, id);
}

/* Moves the queued events of an id to another channel, with the new ids of CONNECT_REQUESTs. Both locks are held. */
static void events_move(struct rcm_channel *from, struct rcm_channel *to, const struct rcm_id *id)
{
	for (struct rcm_event **at = &from->events; *at && id->events_queued;) {
		if ((*at)->id != id) {
			at = &(*at)->next;
			continue;
		}
		struct rcm_event *ev = rcm_event_unlink(from, at);
		if (ev->arrived)
			id_relink(ev->arrived, to);
		rcm_push(to, ev);
	}
}

/* Has one channel's epoll descriptor watch a descriptor of the id instead of another's. Returns 0 or -errno: `from` watches, as
 * before. */
static int id_rewatch(struct rcm_id *id, struct rcm_channel *from, struct rcm_channel *to, const struct shca_fd *fd)
{
	struct rcm_channel *is = atomic_load(&id->channel);

	atomic_store(&id->channel, from);
	rcm_unwatch(id, fd);
	atomic_store(&id->channel, to);
	int err = rcm_watch(id, fd);
	if (err) {
		atomic_store(&id->channel, from);
		rcm_watch(id, fd);
	}
	atomic_store(&id->channel, is);
	return err;
}

/* Returns 0 or -errno: nothing has moved. */
static int id_move(struct rcm_id *id, struct rcm_channel *from, struct rcm_channel *to, uint32_t *kernels_reported)
{
	const struct shca_fd *fd = id->watched ? &id->conn : id->state == RCM_LISTEN ? &id->name : NULL;
	enum rcm_timer timer = id->timer;
	int err = fd ? id_rewatch(id, from, to, fd) : 0;

	if (!err && id->has_companion) {
		err = rcm_kernel_migrate(id, to, kernels_reported);
		if (err && fd)
			id_rewatch(id, to, from, fd);
	}
	if (err)
		return err;
	rcm_timer_clear(id);
	/* the new ids that a listener has accepted and not reported go with the listener; what cannot go is refused */
	for (struct rcm_id *i = from->ids, *next; i; i = next) {
		next = i->next;
		if (i->listener != id || i->state != RCM_ARRIVING)
			continue;
		if (id_rewatch(i, from, to, &i->conn))
			rcm_id_destroy(i);
		else
			id_relink(i, to);
	}
	events_move(from, to, id);
	id_relink(id, to);
	if (timer != RCM_NO_TIMER)
		rcm_timer_set(id, timer);
	return 0;
}

int rcm_migrate_id(int fd, const struct rdma_ucm_migrate_id *c, struct rdma_ucm_migrate_resp *out)
{
	uint32_t kernels_reported = 0;
	int err = 0;

	pthread_mutex_lock(&rcm_registry);
	struct rcm_channel *from = rcm_channel_lock((int)c->fd);
	struct rcm_id *id = from ? rcm_id_find(from, c->id) : NULL;
	if (!from)
		err = fcntl((int)c->fd, F_GETFD) < 0 ? -ENOENT : -EINVAL;	/* as ucma_migrate_id */
	else if (!id)
		err = -errno;
	/* another descriptor of the same channel: nothing moves */
	bool moves = id && !rcm_same_channel(fd, from);
	struct rcm_channel *to = moves ? rcm_channel_lock(fd) : NULL;
	if (to)
		err = id_move(id, from, to, &kernels_reported);
	else if (moves)
		err = -errno;	/* the program has closed fd since the command began */
	if (id && !err)
		out->events_reported = id->events_reported + kernels_reported;
	if (to)
		rcm_channel_unlock(to);
	if (from)
		rcm_channel_unlock(from);
	pthread_mutex_unlock(&rcm_registry);
	return err;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

/* A flag or number of an option, of `size` bytes. */
static int option_value(const struct rdma_ucm_set_option *c, size_t size, int *v)
{
	if (c->optlen != size)
		return -shca_refuse(EINVAL, "rdma_set_option: option %u has %u bytes", c->optname, c->optlen);
	if (!c->optval)
		return -shca_refuse(EFAULT, "rdma_set_option: option %u without a value", c->optname);
	*v = size == 1 ? *(const uint8_t *)(uintptr_t)c->optval : *(const int *)(uintptr_t)c->optval;
	return 0;
}

static int option_id(struct rcm_id *id, const struct rdma_ucm_set_option *c)
{
	bool byte = c->optname == RDMA_OPTION_ID_TOS || c->optname == RDMA_OPTION_ID_ACK_TIMEOUT;
	int v = 0, err = option_value(c, byte ? 1 : sizeof(int), &v);

	if (err)
		return err;
	switch (c->optname) {
	case RDMA_OPTION_ID_TOS:
		id->tos = (uint8_t)v;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (id->state != RCM_IDLE && !v)
			break;
		id->reuse_address = v;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (id->state != RCM_IDLE)
			break;
		id->af_only = v;
		id->af_chosen = true;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		/* 5 bits; 0: for ever. Only of queues whose requests wait for an ACK. */
		if (v > 31 || (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND))
			break;
		id->ack_timeout = (uint8_t)v;
		id->has_ack_timeout = true;
		return 0;
	default:
		return -shca_refuse(ENOSYS, "rdma_set_option: no option %u", c->optname);
	}
	return -shca_refuse(EINVAL, "rdma_set_option: option %u, value %d, in this state", c->optname, v);
}

int rcm_set_option(struct rcm_channel *ch, const struct rdma_ucm_set_option *c)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);

	if (!id)
		return -errno;
	if (c->level == RDMA_OPTION_ID)
		return option_id(id, c);
	if (c->level != RDMA_OPTION_IB || c->optname != RDMA_OPTION_IB_PATH)
		return -shca_refuse(ENOSYS, "rdma_set_option: no option %u of level %u", c->optname, c->level);
	/* there is one path, whatever the program has found out */
	if (!c->optlen || c->optlen % sizeof(struct ib_path_rec_data) || id->state != RCM_ADDR)
		return -shca_refuse(EINVAL, "rdma_set_option: path records of %u bytes, or the address has not been resolved",
				    c->optlen);
	id->state = RCM_ROUTE;
	return rcm_report(id, RCM_ROUTE_RESOLVED, 0);
}
