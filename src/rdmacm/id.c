/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: handles, life, addresses, options. The states' order is the kernel's (drivers/infiniband/core/cma.c). */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "rdmacm/internal.h"

/* ---- handles: of ids and of multicast groups -------------------------------------------------------------------- */

#define LEVEL 1024u
struct handle {
	_Atomic uintptr_t id;		/* struct rcm_id | enum rcm_kind; 0: free */
	uint32_t next_free;		/* handle + 1 */
};
static struct handle *_Atomic handles[LEVEL];	/* segments of LEVEL, made when needed */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t handles_made, handle_free;	/* guarded by handles_lock */
static struct rcm_id *ids_free;			/* likewise */

int rcm_handle_new(struct rcm_id *id, enum rcm_kind kind, uint32_t *handle)
{
	int err = 0;

	pthread_mutex_lock(&handles_lock);
	if (handle_free) {
		*handle = handle_free - 1;
	} else if (handles_made == LEVEL * LEVEL) {
		err = -EMFILE;		/* said: the caller */
	} else {
		*handle = handles_made;
		struct handle *_Atomic *seg = &handles[*handle / LEVEL];
		if (!atomic_load(seg))
			atomic_store(seg, calloc(LEVEL, sizeof(struct handle)));
		err = atomic_load(seg) ? 0 : -ENOMEM;
		handles_made += !err;
	}
	if (!err) {
		struct handle *h = &atomic_load(&handles[*handle / LEVEL])[*handle % LEVEL];
		if (handle_free)
			handle_free = h->next_free;
		atomic_store(&h->id, (uintptr_t)id | kind);
	}
	pthread_mutex_unlock(&handles_lock);
	return err;
}

static struct handle *handle_at(uint32_t handle)
{
	struct handle *seg = handle < LEVEL * LEVEL ? atomic_load(&handles[handle / LEVEL]) : NULL;

	return seg ? &seg[handle % LEVEL] : NULL;
}

struct rcm_id *rcm_handle_get(uint32_t handle, enum rcm_kind kind)
{
	struct handle *h = handle_at(handle);
	uintptr_t id = h ? atomic_load(&h->id) : 0;

	return (id & 1) == (uintptr_t)kind ? (struct rcm_id *)(id - kind) : NULL;
}

void rcm_handle_free(uint32_t handle)
{
	struct handle *h = handle_at(handle);

	pthread_mutex_lock(&handles_lock);
	atomic_store(&h->id, 0);
	h->next_free = handle_free;
	handle_free = handle + 1;
	pthread_mutex_unlock(&handles_lock);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

static void id_link(struct rcm_channel *ch, struct rcm_id *id)
{
	id->next = ch->ids;
	id->prev = &ch->ids;
	if (ch->ids)
		ch->ids->prev = &id->next;
	ch->ids = id;
	atomic_store(&id->channel, ch);
}

static void id_unlink(struct rcm_id *id)
{
	*id->prev = id->next;
	if (id->next)
		id->next->prev = id->prev;
}

void rcm_id_relink(struct rcm_id *id, struct rcm_channel *to)
{
	id_unlink(id);
	id_link(to, id);
}

struct rcm_id *rcm_id_new(struct rcm_channel *ch, uint64_t uid, uint16_t ps, uint8_t qp_type)
{
	pthread_mutex_lock(&handles_lock);
	struct rcm_id *id = ids_free;
	if (id)
		ids_free = id->next;
	pthread_mutex_unlock(&handles_lock);
	if (!id && !(id = calloc(1, sizeof(*id)))) {
		errno = shca_no_memory("rdma_create_id");
		return NULL;
	}
	*id = (struct rcm_id){.uid = uid, .ps = ps, .qp_type = qp_type, .conn = {.n = -1}, .name = {.n = -1}};
	id->local.qkey = ps == RDMA_PS_UDP ? RCM_UDP_QKEY : 0;
	int err = rcm_handle_new(id, RCM_ID, &id->handle);
	if (!err) {
		id_link(ch, id);
		return id;
	}
	pthread_mutex_lock(&handles_lock);
	id->next = ids_free;
	ids_free = id;
	pthread_mutex_unlock(&handles_lock);
	errno = shca_refuse(-err, "rdma_create_id: no memory, or more than %u ids", LEVEL * LEVEL);
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

void rcm_id_destroy(struct rcm_id *id)
{
	struct rcm_channel *ch = atomic_load(&id->channel);

	if (id->state == RCM_LISTEN) {
		rcm_unwatch(id, id->name.n);
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
	shca_fd_close(&id->name);
	id->name.n = -1;
	rcm_timer_clear(id);
	rcm_groups_free(id);
	rcm_events_drop(ch, id, NULL);
	rcm_handle_free(id->handle);
	id_unlink(id);
	atomic_store(&id->channel, NULL);
	pthread_mutex_lock(&handles_lock);
	id->next = ids_free;
	ids_free = id;
	pthread_mutex_unlock(&handles_lock);
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

/* Moves a watched descriptor of the id to another epoll descriptor. Returns 0 or -errno: the descriptor is not watched. */
static int id_rewatch(struct rcm_id *id, struct rcm_channel *to, int fd)
{
	struct rcm_channel *from = atomic_load(&id->channel);

	rcm_unwatch(id, fd);
	atomic_store(&id->channel, to);
	int err = rcm_watch(id, fd);
	atomic_store(&id->channel, from);
	return err;
}

static int id_move(struct rcm_id *id, struct rcm_channel *from, struct rcm_channel *to, uint32_t *kernels_reported)
{
	int err = id->has_companion ? rcm_kernel_migrate(id, to, kernels_reported) : 0;
	enum rcm_timer timer = id->timer;

	if (!err && id->watched)
		err = id_rewatch(id, to, id->conn.n);
	if (!err && id->state == RCM_LISTEN)
		err = id_rewatch(id, to, id->name.n);
	if (err)
		return err;
	rcm_timer_clear(id);
	/* the new ids that a listener has accepted and not reported go with the listener */
	for (struct rcm_id *i = from->ids, *next; i; i = next) {
		next = i->next;
		if (i->listener == id && i->state == RCM_ARRIVING && !id_rewatch(i, to, i->conn.n))
			rcm_id_relink(i, to);
	}
	rcm_events_move(from, to, id);
	rcm_id_relink(id, to);
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
	if (!id)
		err = -errno;
	/* another descriptor of the same channel: nothing moves */
	struct rcm_channel *to = id && !rcm_same_channel(fd, from) ? rcm_channel_lock(fd) : NULL;
	if (id && to)
		err = id_move(id, from, to, &kernels_reported);
	if (id && !err)
		out->events_reported = id->events_reported + kernels_reported;
	if (to)
		rcm_channel_unlock(to);
	if (from)
		rcm_channel_unlock(from);
	pthread_mutex_unlock(&rcm_registry);
	return err;
}

/* ---- addresses -------------------------------------------------------------------------------------------------- */

/* Copies an address of a command. Returns 0 or -EINVAL. */
static int address_get(struct sockaddr_storage *to, const void *addr, size_t size)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, addr, size < sizeof(*to) ? size : sizeof(*to));
	size_t needs = rcm_address_size(to);
	if (needs && size >= needs)
		return 0;
	return -shca_refuse(EINVAL, "RDMA CM: an address of family %d and %zu bytes", to->ss_family, size);
}

/* The software HCA has no way to other hosts. */
static int address_refuse(const char *call, int err)
{
	return -shca_refuse(err, "%s: the address is neither loopback nor one of this host's; the software HCA reaches no "
			    "other host, and there is no real RDMA device", call);
}

/* Takes a port. The address is in id->src. */
static int port_take(struct rcm_id *id)
{
	bool chosen = rcm_port(&id->src) != 0;

	/* of several ids with RDMA_OPTION_ID_REUSEADDR one may listen, and takes the name then */
	if (chosen && id->reuse_address)
		return 0;
	for (int tries = 0; tries < 1000; tries++) {
		if (!chosen)
			rcm_set_port(&id->src, rcm_free_port());
		int fd = rcm_name_take(id);
		if (fd >= 0) {
			id->name = shca_fd_note(fd);
			return 0;
		}
		if (chosen || fd != -EADDRINUSE)
			return -shca_refuse(-fd, "rdma_bind_addr: port %u", rcm_port(&id->src));
	}
	return -shca_refuse(EADDRINUSE, "rdma_bind_addr: no port is free");
}

int rcm_bind_any(struct rcm_id *id, int family)
{
	memset(&id->src, 0, sizeof(id->src));
	id->src.ss_family = (sa_family_t)family;
	int err = port_take(id);
	if (!err)
		id->state = RCM_BOUND;
	return err;
}

int rcm_bind(struct rcm_channel *ch, uint32_t handle, const void *addr, size_t size)
{
	struct rcm_id *id = rcm_id_find(ch, handle);
	struct sockaddr_storage a;
	int err = id ? address_get(&a, addr, size) : -errno;

	if (err)
		return err;
	if (id->state != RCM_IDLE)
		return -shca_refuse(EINVAL, "rdma_bind_addr: the id has an address");
	enum rcm_owner owner = rcm_is_any(&a) ? RCM_OURS : rcm_owner(&a);
	if (owner == RCM_KERNELS)
		return rcm_kernel_adopt(id, "rdma_bind_addr");
	if (owner != RCM_OURS)
		return address_refuse("rdma_bind_addr", ENODEV);
	id->src = a;
	if (a.ss_family == AF_INET6 && !id->af_chosen)
		id->af_only = rcm_v6_only();
	/* librdmacm asks by such a bind, once, whether AF_IB is known */
	err = a.ss_family == AF_IB && !rcm_port(&a) ? 0 : port_take(id);
	if (err)
		return err;
	id->on_device = !rcm_is_any(&a);
	if (id->on_device)
		id->local.port = (uint8_t)rcm_port_for(&a);
	id->state = RCM_BOUND;
	return 0;
}

/* The source for a destination, where the program has given none. */
static void source_for(struct rcm_id *id)
{
	uint16_t port = id->src.ss_family ? rcm_port(&id->src) : 0;

	if (!id->src.ss_family || rcm_is_any(&id->src)) {
		id->src = id->dst;
		/* the kernel's source for every address of the loopback network */
		if (id->dst.ss_family == AF_INET && rcm_is_loopback(&id->dst))
			((struct sockaddr_in *)&id->src)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		rcm_set_port(&id->src, port);
	}
	/* no one connects to this port, so no name is needed */
	if (!rcm_port(&id->src))
		rcm_set_port(&id->src, rcm_free_port());
}

/* A destination of all zeroes is the loopback address, as for the kernel. */
static void destination_any(struct sockaddr_storage *dst)
{
	if (!rcm_is_any(dst))
		return;
	if (dst->ss_family == AF_INET)
		((struct sockaddr_in *)dst)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (dst->ss_family == AF_INET6)
		((struct sockaddr_in6 *)dst)->sin6_addr = in6addr_loopback;
	else
		shca_port_gid(shca_port_now(1).gid_prefix, 1, ((struct rcm_sockaddr_ib *)dst)->gid);
}

int rcm_resolve_addr(struct rcm_channel *ch, uint32_t handle, const void *src, size_t src_size, const void *dst, size_t dst_size)
{
	struct rcm_id *id = rcm_id_find(ch, handle);
	struct sockaddr_storage from = {.ss_family = AF_UNSPEC}, to;
	int err = id ? address_get(&to, dst, dst_size) : -errno;

	if (!err && src_size)
		err = address_get(&from, src, src_size);
	if (err)
		return err;
	if (id->state != RCM_IDLE && id->state != RCM_BOUND)
		return -shca_refuse(EINVAL, "rdma_resolve_addr: the id has a destination, or listens");
	enum rcm_owner source = id->state == RCM_BOUND ? RCM_OURS : !src_size || rcm_is_any(&from) ? RCM_OURS : rcm_owner(&from);
	enum rcm_owner destination = rcm_is_any(&to) ? RCM_OURS : rcm_owner(&to);
	if (source == RCM_KERNELS || (destination == RCM_KERNELS && !id->on_device && (!src_size || rcm_is_any(&from))))
		return rcm_kernel_adopt(id, "rdma_resolve_addr");
	if (id->state == RCM_IDLE && src_size) {
		err = source == RCM_OURS ? 0 : address_refuse("rdma_resolve_addr", ENODEV);
		id->src = from;
		if (!err && rcm_port(&from))
			err = port_take(id);
		if (err)
			return err;
	}
	destination_any(&to);
	id->dst = to;
	id->state = RCM_ADDR;
	if (destination != RCM_OURS || rcm_device_broken()) {
		id->state = RCM_BOUND;
		return rcm_report(id, RCM_ADDR_ERROR, destination == RCM_KERNELS ?
				  -shca_refuse(ENODEV,
					       "rdma_resolve_addr: from an address of the software HCA to a real device's, or to "
					       "another host") :
				  address_refuse("rdma_resolve_addr", ENODEV));
	}
	source_for(id);
	if (!id->on_device)
		id->local.port = (uint8_t)rcm_port_for(&id->src);
	id->on_device = true;
	return rcm_report(id, RCM_ADDR_RESOLVED, 0);
}

int rcm_resolve_route(struct rcm_channel *ch, const struct rdma_ucm_resolve_route *c)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);

	if (!id)
		return -errno;
	if (id->state != RCM_ADDR)
		return -shca_refuse(EINVAL, "rdma_resolve_route: the address has not been resolved");
	/* no subnet administrator answers over a port that is down */
	if (shca_port_now(rcm_id_port(id)).down)
		return rcm_report(id, RCM_ROUTE_ERROR, -ETIMEDOUT);
	id->state = RCM_ROUTE;
	return rcm_report(id, RCM_ROUTE_RESOLVED, 0);
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
		/* 5 bits; 0: for ever */
		if (v > 31 || id->qp_type == IBV_QPT_UD)
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
