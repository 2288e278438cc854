/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolution: the local address that an id is bound to, the destination, the route. */
#include <errno.h>

#include "rdmacm/internal.h"

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

/* Refuses a link-local address whose scope does not name the interface. */
static int scope_check(const char *call, const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;

	if (a->ss_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) || in6->sin6_scope_id)
		return 0;
	return -shca_refuse(EINVAL, "%s: a link-local address without the interface's index in sin6_scope_id", call);
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
		int err = rcm_name_take(id);
		if (!err)
			return 0;
		if (chosen || err != -EADDRINUSE)
			return -shca_refuse(-err, "rdma_bind_addr: port %u", rcm_port(&id->src));
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
	if ((err = scope_check("rdma_bind_addr", &a)))
		return err;
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
	sa_family_t family = id->state == RCM_BOUND ? id->src.ss_family : from.ss_family;
	if (family != AF_UNSPEC && family != to.ss_family)
		return -shca_refuse(EINVAL, "rdma_resolve_addr: the source has address family %d, the destination %d", family,
				    to.ss_family);
	if (id->state == RCM_IDLE && src_size && (err = scope_check("rdma_resolve_addr", &from)))
		return err;
	enum rcm_owner source = id->state == RCM_BOUND ? RCM_OURS : !src_size || rcm_is_any(&from) ? RCM_OURS : rcm_owner(&from);
	enum rcm_owner destination = rcm_is_any(&to) || rcm_is_multicast(&to) ? RCM_OURS : rcm_owner(&to);
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
