/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of /dev/infiniband/rdma_cm: a header, then the command's struct, written at once. */
#include <errno.h>
#include <rdma/ib_user_verbs.h>

#include "rdmacm/internal.h"

/* A command's struct, and its answer, which goes to the address in the struct's field `response`. */
union command {
	struct rdma_ucm_create_id create_id;
	struct rdma_ucm_destroy_id destroy_id;
	struct rdma_ucm_bind_ip bind_ip;
	struct rdma_ucm_bind bind;
	struct rdma_ucm_resolve_ip resolve_ip;
	struct rdma_ucm_resolve_addr resolve_addr;
	struct rdma_ucm_resolve_route resolve_route;
	struct rdma_ucm_query query;
	struct rdma_ucm_connect connect;
	struct rdma_ucm_listen listen;
	struct rdma_ucm_accept accept;
	struct rdma_ucm_reject reject;
	struct rdma_ucm_disconnect disconnect;
	struct rdma_ucm_init_qp_attr init_qp_attr;
	struct rdma_ucm_notify notify;
	struct rdma_ucm_get_event get_event;
	struct rdma_ucm_set_option set_option;
	struct rdma_ucm_migrate_id migrate_id;
	struct rdma_ucm_join_ip_mcast join_ip;
	struct rdma_ucm_join_mcast join;
};
union answer {
	struct rdma_ucm_create_id_resp create_id;
	struct rdma_ucm_destroy_id_resp destroy_id;
	struct rdma_ucm_migrate_resp migrate_id;
	struct ib_uverbs_qp_attr qp_attr;
};

typedef int run_fn(struct rcm_channel *ch, const union command *c, size_t out, union answer *a);

static int run_create_id(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_create_id(ch, &c->create_id, &a->create_id);
}

static int run_destroy_id(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_destroy_id(ch, &c->destroy_id, &a->destroy_id);
}

static int run_bind_ip(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_bind(ch, c->bind_ip.id, &c->bind_ip.addr, sizeof(c->bind_ip.addr));
}

static int run_bind(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_bind(ch, c->bind.id, &c->bind.addr, c->bind.addr_size);
}

static int run_resolve_ip(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	const struct rdma_ucm_resolve_ip *r = &c->resolve_ip;

	return rcm_resolve_addr(ch, r->id, &r->src_addr, r->src_addr.sin6_family ? sizeof(r->src_addr) : 0, &r->dst_addr,
				sizeof(r->dst_addr));
}

static int run_resolve_addr(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	const struct rdma_ucm_resolve_addr *r = &c->resolve_addr;

	return rcm_resolve_addr(ch, r->id, &r->src_addr, r->src_size, &r->dst_addr, r->dst_size);
}

static int run_resolve_route(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_resolve_route(ch, &c->resolve_route);
}

static int run_query_route(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_query_route(ch, &c->query, out);
}

static int run_query(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_query(ch, &c->query, out);
}

static int run_connect(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_connect(ch, &c->connect);
}

static int run_listen(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_listen(ch, &c->listen);
}

static int run_accept(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_accept(ch, &c->accept);
}

static int run_reject(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_reject(ch, &c->reject);
}

static int run_disconnect(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_disconnect(ch, &c->disconnect);
}

static int run_init_qp_attr(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_init_qp_attr(ch, &c->init_qp_attr, &a->qp_attr);
}

static int run_set_option(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_set_option(ch, &c->set_option);
}

static int run_notify(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_notify(ch, &c->notify);
}

static int run_join_ip(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	const struct rdma_ucm_join_ip_mcast *j = &c->join_ip;

	return rcm_join(ch, j->id, j->uid, &j->addr, sizeof(j->addr), RDMA_MC_JOIN_FLAG_FULLMEMBER, &a->create_id);
}

static int run_join(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	const struct rdma_ucm_join_mcast *j = &c->join;

	return rcm_join(ch, j->id, j->uid, &j->addr, j->addr_size, j->join_flags, &a->create_id);
}

static int run_leave(struct rcm_channel *ch, const union command *c, size_t out, union answer *a)
{
	return rcm_leave(ch, &c->destroy_id, &a->destroy_id);
}

/* GET_EVENT and MIGRATE_ID have no function here: their functions take the locks themselves. */
#define NO_ANSWER 0, 0
#define ID(cmd) (offsetof(struct rdma_ucm_##cmd, id) + 1)
#define ANSWER(cmd, member) offsetof(struct rdma_ucm_##cmd, response), sizeof(((union answer *)0)->member)
static const struct {
	run_fn *run;
	size_t in;			/* bytes of the struct */
	size_t response, out;		/* offset of the answer's address, bytes of the answer; 0: none, or copied by `run` */
	bool device;			/* gives the id an address: the process becomes a member of the fabric */
	size_t id;			/* offset of the id + 1; 0: none, or a group's handle */
} commands[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] = {run_create_id, sizeof(struct rdma_ucm_create_id), ANSWER(create_id, create_id), false,
					0},
	[RDMA_USER_CM_CMD_DESTROY_ID] = {run_destroy_id, sizeof(struct rdma_ucm_destroy_id), ANSWER(destroy_id, destroy_id),
					 false, 0},
	[RDMA_USER_CM_CMD_BIND_IP] = {run_bind_ip, sizeof(struct rdma_ucm_bind_ip), NO_ANSWER, true, ID(bind_ip)},
	[RDMA_USER_CM_CMD_RESOLVE_IP] = {run_resolve_ip, sizeof(struct rdma_ucm_resolve_ip), NO_ANSWER, true, ID(resolve_ip)},
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {run_resolve_route, sizeof(struct rdma_ucm_resolve_route), NO_ANSWER, false,
					    ID(resolve_route)},
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = {run_query_route, sizeof(struct rdma_ucm_query), NO_ANSWER, false, ID(query)},
	[RDMA_USER_CM_CMD_CONNECT] = {run_connect, offsetof(struct rdma_ucm_connect, ece), NO_ANSWER, false, ID(connect)},
	[RDMA_USER_CM_CMD_LISTEN] = {run_listen, sizeof(struct rdma_ucm_listen), NO_ANSWER, true, ID(listen)},
	[RDMA_USER_CM_CMD_ACCEPT] = {run_accept, offsetof(struct rdma_ucm_accept, ece), NO_ANSWER, false, ID(accept)},
	[RDMA_USER_CM_CMD_REJECT] = {run_reject, sizeof(struct rdma_ucm_reject), NO_ANSWER, false, ID(reject)},
	[RDMA_USER_CM_CMD_DISCONNECT] = {run_disconnect, sizeof(struct rdma_ucm_disconnect), NO_ANSWER, false, ID(disconnect)},
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = {run_init_qp_attr, sizeof(struct rdma_ucm_init_qp_attr),
					   ANSWER(init_qp_attr, qp_attr), false, ID(init_qp_attr)},
	[RDMA_USER_CM_CMD_GET_EVENT] = {NULL, sizeof(struct rdma_ucm_get_event), NO_ANSWER, false, 0},
	[RDMA_USER_CM_CMD_SET_OPTION] = {run_set_option, sizeof(struct rdma_ucm_set_option), NO_ANSWER, false, ID(set_option)},
	[RDMA_USER_CM_CMD_NOTIFY] = {run_notify, sizeof(struct rdma_ucm_notify), NO_ANSWER, false, ID(notify)},
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {run_join_ip, sizeof(struct rdma_ucm_join_ip_mcast),
					    ANSWER(join_ip_mcast, create_id), false, ID(join_ip_mcast)},
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = {run_leave, sizeof(struct rdma_ucm_destroy_id), ANSWER(destroy_id, destroy_id), false,
					  0},
	[RDMA_USER_CM_CMD_MIGRATE_ID] = {NULL, sizeof(struct rdma_ucm_migrate_id), ANSWER(migrate_id, migrate_id), false, 0},
	[RDMA_USER_CM_CMD_QUERY] = {run_query, sizeof(struct rdma_ucm_query), NO_ANSWER, false, ID(query)},
	[RDMA_USER_CM_CMD_BIND] = {run_bind, sizeof(struct rdma_ucm_bind), NO_ANSWER, true, ID(bind)},
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = {run_resolve_addr, sizeof(struct rdma_ucm_resolve_addr), NO_ANSWER, true,
					   ID(resolve_addr)},
	[RDMA_USER_CM_CMD_JOIN_MCAST] = {run_join, sizeof(struct rdma_ucm_join_mcast), ANSWER(join_mcast, create_id), false,
					 ID(join_mcast)},
};

/* At its first use librdmacm binds an id to an AF_IB address without port, as a probe for AF_IB: no reason to join a fabric. */
static bool is_question(uint32_t cmd, const union command *c)
{
	const struct rcm_sockaddr_ib *sib = (const struct rcm_sockaddr_ib *)&c->bind.addr;

	return cmd == RDMA_USER_CM_CMD_BIND && sib->family == AF_IB && !(uint16_t)be64toh(sib->sid);
}

/* Executes a command on the channel, or has the kernel execute it. Returns 0 or -errno; *answered: the kernel
 * has stored the answer. */
static int channel_run(struct rcm_channel *ch, const struct rdma_ucm_cmd_hdr *hdr, union command *c, union answer *a,
		       bool *answered)
{
	size_t at = commands[hdr->cmd].id - 1;
	struct rcm_id *id = NULL;
	uint32_t handle;
	int err = RCM_TO_KERNEL;

	if (commands[hdr->cmd].id) {
		memcpy(&handle, (const char *)c + at, sizeof(handle));
		id = rcm_id_find(ch, handle);
	}
	if (!id || id->state != RCM_KERNEL)
		err = commands[hdr->cmd].run(ch, c, hdr->out, a);
	*answered = err == RCM_TO_KERNEL;
	return *answered ? rcm_kernel_command(id, hdr, c, hdr->in < sizeof(*c) ? hdr->in : sizeof(*c), at) : err;
}

/* Opens the device for the first command that needs it; every channel watches the bell of port events from then on. Returns 0 or
 * -errno. */
static int command_device_open(void)
{
	bool opened;
	int err = rcm_device_open(&opened);

	if (opened)
		rcm_watch_port();
	return err;
}

/* Returns 0 or -errno. */
static int command_run(int fd, const struct rdma_ucm_cmd_hdr *hdr, union command *c)
{
	union answer a;
	int err = 0;
	bool answered = false;

	if (hdr->out < commands[hdr->cmd].out)
		return -shca_refuse(ENOSPC, "RDMA CM: command %u with room for %u bytes", hdr->cmd, hdr->out);
	if (hdr->cmd == RDMA_USER_CM_CMD_GET_EVENT)
		return rcm_get_event(fd, &c->get_event, hdr->out);
	if (hdr->cmd == RDMA_USER_CM_CMD_MIGRATE_ID) {
		err = rcm_migrate_id(fd, &c->migrate_id, &a.migrate_id);
	} else {
		if (commands[hdr->cmd].device && !is_question(hdr->cmd, c))
			err = command_device_open();
		struct rcm_channel *ch = err ? NULL : rcm_channel_lock(fd);
		if (!ch)
			return err ? err : -errno;
		err = channel_run(ch, hdr, c, &a, &answered);
		rcm_channel_unlock(ch);
	}
	if (!err && !answered && commands[hdr->cmd].out) {
		uint64_t to;
		memcpy(&to, (const char *)c + commands[hdr->cmd].response, sizeof(to));
		memcpy((void *)(uintptr_t)to, &a, commands[hdr->cmd].out);
	}
	return err;
}

bool rcm_write(int fd, const void *command, size_t n, ssize_t *result)
{
	struct rdma_ucm_cmd_hdr hdr;
	union command c;
	int err, saved = errno;

	if (!rcm_is_channel(fd))
		return false;
	*result = -1;
	if (n < sizeof(hdr)) {
		errno = shca_refuse(EINVAL, "RDMA CM: a command of %zu bytes", n);
		return true;
	}
	if (!command) {
		errno = EFAULT;
		return true;
	}
	memcpy(&hdr, command, sizeof(hdr));
	if (hdr.in + sizeof(hdr) > n || hdr.cmd >= ARRAY_SIZE(commands) || !commands[hdr.cmd].in ||
	    hdr.in < commands[hdr.cmd].in) {
		errno = shca_refuse(hdr.cmd == RDMA_USER_CM_CMD_GET_OPTION ? ENOSYS : EINVAL, "RDMA CM: command %u of %u bytes",
				    hdr.cmd, hdr.in);
		return true;
	}
	/* fields that an older librdmacm does not have are zero */
	memset(&c, 0, sizeof(c));
	memcpy(&c, (const char *)command + sizeof(hdr), hdr.in < sizeof(c) ? hdr.in : sizeof(c));
	bool outer = rcm_enter(true);
	err = command_run(fd, &hdr, &c);
	rcm_enter(outer);
	if (err) {
		errno = -err;
		return true;
	}
	errno = saved;
	*result = (ssize_t)n;
	return true;
}
