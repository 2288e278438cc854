/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids of real devices: their commands go on to the kernel's /dev/infiniband/rdma_cm.
 *
 * An id is the kernel's from when its address turns out to be a real device's, or another host's (rcm_owner). Then the channel
 * opens the kernel's file, and the id gets a companion there, whose handle replaces the id's own in every command. The kernel
 * writes answers to where librdmacm wants them. An event is asked for when the channel has none of its own, and goes to
 * librdmacm at once: an event that waited here would be one that the kernel counts as reported.
 *
 *     channel ── epoll ─┬─ sockets of the software HCA's ids
 *                       └─ ch->kernel: /dev/infiniband/rdma_cm, non-blocking
 *
 * A listener to every address listens in both.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "rdmacm/internal.h"

#define KERNELS_FILE "/dev/infiniband/rdma_cm"

/* Writes a command. Returns 0 or -errno. */
static int command(const struct rcm_channel *ch, uint32_t cmd, const void *body, size_t in, size_t out)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		uint8_t body[1024];
	} c = {.hdr = {.cmd = cmd, .in = (uint16_t)in, .out = (uint16_t)out}};
	size_t n = sizeof(c.hdr) + in;

	if (in > sizeof(c.body))
		return -EINVAL;
	if (!shca_fd_ours(&ch->kernel))
		return -EBADF;
	memcpy(c.body, body, in);
	return syscall(SYS_write, ch->kernel.n, &c, n) == (ssize_t)n ? 0 : -errno;
}

/* Opens the kernel's file for a channel, and watches it. Returns 0 or -errno. */
static int channel_open(struct rcm_channel *ch)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = RCM_SOURCE_KERNEL};

	if (ch->kernel.n >= 0)
		return 0;
	/* the system call: open() of this path is the software HCA's */
	int fd = (int)syscall(SYS_openat, AT_FDCWD, KERNELS_FILE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	fd = fd_raise_over_select(fd_raise(fd));
	if (fd < 0)
		return -errno;
	if (epoll_ctl(ch->epoll, EPOLL_CTL_ADD, fd, &e)) {
		int err = -errno;
		close(fd);
		return err;
	}
	ch->kernel = shca_fd_note(fd);
	return 0;
}

static int option_set(const struct rcm_id *id, uint32_t name, const void *value, uint32_t size)
{
	struct rdma_ucm_set_option c = {.optval = (uintptr_t)value, .id = id->kernel_id, .level = RDMA_OPTION_ID, .optname = name,
					.optlen = size};

	return command(atomic_load(&id->channel), RDMA_USER_CM_CMD_SET_OPTION, &c, sizeof(c), 0);
}

/* Sets the options that the program has set before the address was known. */
static int options_set(const struct rcm_id *id)
{
	int yes = 1, only = id->af_only, err = 0;

	if (id->reuse_address)
		err = option_set(id, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes));
	if (!err && id->af_chosen)
		err = option_set(id, RDMA_OPTION_ID_AFONLY, &only, sizeof(only));
	if (!err && id->tos)
		err = option_set(id, RDMA_OPTION_ID_TOS, &id->tos, sizeof(id->tos));
	if (!err && id->has_ack_timeout)
		err = option_set(id, RDMA_OPTION_ID_ACK_TIMEOUT, &id->ack_timeout, sizeof(id->ack_timeout));
	return err;
}

/* Binds the companion to the id's address. */
static int companion_bind(const struct rcm_id *id)
{
	struct rdma_ucm_bind c = {.id = id->kernel_id, .addr_size = (uint16_t)rcm_address_size(&id->src)};

	memcpy(&c.addr, &id->src, sizeof(id->src));
	return command(atomic_load(&id->channel), RDMA_USER_CM_CMD_BIND, &c, sizeof(c), 0);
}

/* Makes the id's companion. Returns 0 or -errno. */
static int companion_new(struct rcm_id *id, const char *call)
{
	struct rcm_channel *ch = atomic_load(&id->channel);
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id c = {.uid = id->uid, .response = (uintptr_t)&resp, .ps = id->ps, .qp_type = id->qp_type};
	int err = channel_open(ch);

	if (err)
		return -shca_refuse(ENODEV, "%s: the address is that of a real RDMA device, or of another host, and %s cannot be "
				    "opened (%s)", call, KERNELS_FILE, strerror(-err));
	err = command(ch, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof(c), sizeof(resp));
	if (err)
		return -shca_refuse(-err, "%s: the kernel's RDMA CM makes no id", call);
	id->kernel_id = resp.id;
	id->has_companion = true;
	err = options_set(id);
	if (err)
		rcm_kernel_destroy(id);
	return err;
}

int rcm_kernel_adopt(struct rcm_id *id, const char *call)
{
	int err = companion_new(id, call);

	/* the id has a port of every address: the kernel's has to be the same */
	if (!err && id->state == RCM_BOUND) {
		err = companion_bind(id);
		if (err)
			rcm_kernel_destroy(id);
	}
	if (err)
		return err;
	rcm_name_free(id);
	id->state = RCM_KERNEL;
	return RCM_TO_KERNEL;
}

int rcm_kernel_listen(struct rcm_id *id, uint32_t backlog)
{
	struct rdma_ucm_listen c = {.backlog = backlog};
	int err;

	/* a device, and no RDMA CM of the kernel: the listener hears of the software HCA alone */
	if (channel_open(atomic_load(&id->channel)))
		return 0;
	err = companion_new(id, "rdma_listen");
	if (err)
		return err;
	c.id = id->kernel_id;
	err = companion_bind(id);
	if (!err)
		err = command(atomic_load(&id->channel), RDMA_USER_CM_CMD_LISTEN, &c, sizeof(c), 0);
	if (err) {
		rcm_kernel_destroy(id);
		return -shca_refuse(-err, "rdma_listen: port %u of the kernel's RDMA CM", rcm_port(&id->src));
	}
	return 0;
}

uint32_t rcm_kernel_destroy(struct rcm_id *id)
{
	struct rdma_ucm_destroy_id_resp resp = {0};
	struct rdma_ucm_destroy_id c = {.response = (uintptr_t)&resp, .id = id->kernel_id};

	if (!id->has_companion)
		return 0;
	id->has_companion = false;
	command(atomic_load(&id->channel), RDMA_USER_CM_CMD_DESTROY_ID, &c, sizeof(c), sizeof(resp));
	return resp.events_reported;
}

int rcm_kernel_migrate(struct rcm_id *id, struct rcm_channel *to, uint32_t *events_reported)
{
	struct rcm_channel *from = atomic_load(&id->channel);
	struct rdma_ucm_migrate_resp resp = {0};
	struct rdma_ucm_migrate_id c = {.response = (uintptr_t)&resp, .id = id->kernel_id, .fd = (uint32_t)from->kernel.n};
	int err = channel_open(to);

	if (!err)
		err = command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &c, sizeof(c), sizeof(resp));
	*events_reported = resp.events_reported;
	return err;
}

int rcm_kernel_command(struct rcm_id *id, const struct rdma_ucm_cmd_hdr *hdr, void *body, size_t in, size_t id_at)
{
	if (hdr->cmd == RDMA_USER_CM_CMD_JOIN_IP_MCAST || hdr->cmd == RDMA_USER_CM_CMD_JOIN_MCAST)
		return -shca_refuse(EOPNOTSUPP, "rdma_join_multicast: groups of real devices are served with SHCA_CM=no only");
	memcpy((char *)body + id_at, &id->kernel_id, sizeof(id->kernel_id));
	if (hdr->cmd == RDMA_USER_CM_CMD_ACCEPT)
		id->uid = ((const struct rdma_ucm_accept *)body)->uid;
	return command(atomic_load(&id->channel), hdr->cmd, body, in, hdr->out);
}

int rcm_kernel_event(struct rcm_channel *ch, struct rdma_ucm_event_resp *resp)
{
	struct rdma_ucm_get_event c = {.response = (uintptr_t)resp};

	return command(ch, RDMA_USER_CM_CMD_GET_EVENT, &c, sizeof(c), sizeof(*resp));
}
