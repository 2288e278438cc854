/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of RDMA CM: channels, ids, names of ports, messages.
 *
 *     device.c      the verbs device under the ids; events of its port
 *     handle.c      handles of ids and of multicast groups
 *     address.c     which addresses are the software HCA's; ports, service ids
 *     port_name.c   names of ports: sockets of listeners and connections
 *     channel.c     event channels: descriptors, sources of events
 *     event.c       a channel's queue of events
 *     timer.c       timers of ids
 *     kernel.c      ids of real devices, whose commands go to the kernel
 *     id.c          ids: create, destroy, migrate, options
 *     attr.c        attributes of queue pairs, path records
 *     resolve.c     bind; resolution of addresses and routes
 *     connect.c     listen, connect, accept, reject, disconnect; messages of peers; deaths
 *     multicast.c   join, leave
 *     port_event.c  events of the port, as events of ids
 *     get_event.c   GET_EVENT
 *     command.c     the table of commands
 *
 * The list is in order, lowest first: a file calls those above it in the list only (tests/unit/layers.sh). A lower file reaches
 * a higher one by a function pointer: rcm_channel.id_destroy, the argument of rcm_timers_run.
 *
 * A connection is a SOCK_SEQPACKET socket between the two ids; a listener is a listening socket whose abstract name has the
 * fabric, the service id and the address. So the kernel decides which id has a port, counts the backlog, and closes the
 * sockets of a process that dies: nothing of RDMA CM lies in the fabric, and nothing has to be reaped.
 *
 *     id ── socket ──────────── socket ── id
 *      \__ channel (epoll)       channel (epoll) __/
 *
 * A channel's descriptor is an epoll descriptor. It watches the sockets of the channel's ids, the channel's timers, the bell of
 * port events, and, while the queue has an event, a descriptor that is always readable. A message is read, and turned into
 * an event, by the thread that asks for an event.
 *
 * Locks: rcm_registry (channels come and go, an id migrates, a port event is delivered, fork) before a channel's lock; only a
 * holder of rcm_registry may hold two channels' locks. handles_lock (handle.c), ids_lock (id.c) and the device's lock are last,
 * and no thread holds two of them. A channel's lock guards the channel and its ids; no thread sleeps under any lock. Channels
 * and ids are never freed, only used again: a stale pointer leads to a channel or an id, and the check of id->channel under the
 * channel's lock tells whether it is the right one.
 */
#ifndef RDMACM_INTERNAL_H
#define RDMACM_INTERNAL_H

#include <linux/types.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/ib_user_sa.h>
#include <rdma/rdma_user_cm.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "rdmacm/rdmacm.h"
#include "shca/verbs/control.h"

/* struct sockaddr_ib, of linux/ib.h, which is no header for programs */
#ifndef AF_IB
#define AF_IB 27
#endif
struct rcm_sockaddr_ib {
	uint16_t family;
	uint16_t pkey;			/* big-endian, as the rest */
	uint32_t flowinfo;
	uint8_t gid[16];
	uint64_t sid, sid_mask;
	uint64_t scope_id;
};

/* enum rdma_cm_event_type of <rdma/rdma_cma.h>, which is no part of the kernel's interface headers */
enum rcm_event_type {
	RCM_ADDR_RESOLVED, RCM_ADDR_ERROR, RCM_ROUTE_RESOLVED, RCM_ROUTE_ERROR, RCM_CONNECT_REQUEST, RCM_CONNECT_RESPONSE,
	RCM_CONNECT_ERROR, RCM_UNREACHABLE, RCM_REJECTED, RCM_ESTABLISHED, RCM_DISCONNECTED, RCM_DEVICE_REMOVAL,
	RCM_MULTICAST_JOIN, RCM_MULTICAST_ERROR, RCM_ADDR_CHANGE, RCM_TIMEWAIT_EXIT,
};

/* Status of a REJECTED event: IBTA 12.6.7.2. */
enum rcm_reason { RCM_REJ_TIMEOUT = 4, RCM_REJ_INVALID_SERVICE_ID = 8, RCM_REJ_CONSUMER = 28 };
/* Status of an UNREACHABLE event of a UD id: IBTA 12.11.2. */
enum rcm_sidr { RCM_SIDR_SUCCESS = 0, RCM_SIDR_UNSUPPORTED = 1, RCM_SIDR_REJECT = 2 };

/* Bytes of private data that a message has. A REQ and a SIDR_REQ for an IP address have RCM_IP_HEADER bytes less. */
enum { RCM_REQ_PRIVATE = 92, RCM_REP_PRIVATE = 196, RCM_REJ_PRIVATE = 148, RCM_SIDR_REQ_PRIVATE = 216, RCM_SIDR_REP_PRIVATE = 136,
       RCM_IP_HEADER = 36 };

#define RCM_UDP_QKEY 0x01234567u	/* of UD ids of RDMA_PS_UDP and _IB: RDMA_UDP_QKEY */
#define RCM_IPOIB_QKEY 0x0b1bu		/* of RDMA_PS_IPOIB: of IPoIB's broadcast group */
#define RCM_LIFE 14u			/* packet life time of every path: 4.096 us << 14 */
#define RCM_TIMEWAIT_NS (4096ull << RCM_LIFE)

enum rcm_state {
	RCM_IDLE,
	RCM_BOUND,		/* has a local address */
	RCM_ADDR,		/* the destination is known: resolve_addr */
	RCM_ROUTE,		/* the path is known: resolve_route */
	RCM_LISTEN,
	RCM_ARRIVING,		/* accepted socket whose REQ has not been read; no program knows the id */
	RCM_REQ_RECEIVED,	/* CONNECT_REQUEST */
	RCM_REQ_SENT,
	RCM_REP_RECEIVED,	/* CONNECT_RESPONSE; the RTU is sent by ACCEPT */
	RCM_REP_SENT,		/* by ACCEPT; the RTU makes it CONNECTED */
	RCM_CONNECTED,
	RCM_UD_DONE,		/* UD: the SIDR exchange is over */
	RCM_CLOSED,		/* disconnected, rejected, unreachable, or the device is gone: can only be destroyed */
	RCM_KERNEL,		/* a real device's: the kernel has the state (kernel.c) */
};

/* A timer's kind. All timers of a kind run equally long, so each channel keeps a kind's ids in the order of their ends. */
enum rcm_timer { RCM_NO_TIMER, RCM_RESPONSE, RCM_TIMEWAIT, RCM_TIMERS };

/* The attributes of a connection that each side tells the other. */
struct rcm_side {
	uint32_t qpn, psn, qkey;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count, flow_control, srq;
	uint8_t port;			/* of the device; 0: not bound to it yet */
};

struct rcm_id;
struct rcm_channel;

/* A multicast group that an id has joined, or is joining. */
struct rcm_group {
	struct rcm_group *next;		/* of the id */
	uint64_t uid;			/* librdmacm's pointer */
	uint32_t handle;
	uint32_t events_reported;
	uint8_t gid[16];
};

struct rcm_id {
	struct rcm_channel *_Atomic channel;	/* NULL: the id is free */
	struct rcm_id *next, **prev;	/* of the channel; free: next */
	uint64_t uid;			/* librdmacm's pointer; 0: a CONNECT_REQUEST's id before ACCEPT */
	uint32_t handle;
	enum rcm_state state;
	uint16_t ps;
	uint8_t qp_type;		/* enum ibv_qp_type */
	bool ip;			/* REQ: has an IP header: addresses are not AF_IB */
	bool on_device;			/* bound to shca0 */
	bool removed;			/* DEVICE_REMOVAL was reported */
	bool reuse_address, af_only;
	bool af_chosen;			/* by RDMA_OPTION_ID_AFONLY; else the sysctl net.ipv6.bindv6only decides */
	uint8_t tos, ack_timeout;
	bool has_ack_timeout;
	bool active;			/* sent the REQ */
	bool has_companion;		/* the kernel has an id with handle kernel_id: RCM_KERNEL, and listeners
					 * to every address */
	uint32_t kernel_id;
	struct shca_fd name;		/* holds the name of the bound port; a listener listens on it */
	struct shca_fd name_mark;	/* by which other ids see the name (port_name.c) */
	struct shca_fd conn;		/* connection */
	bool watched;			/* the channel's epoll watches conn */
	struct sockaddr_storage src, dst;
	struct rcm_side local, remote;
	struct rcm_id *listener;	/* ARRIVING: reports the CONNECT_REQUEST */
	uint32_t events_reported, events_queued;
	struct rcm_group *groups;
	enum rcm_timer timer;
	uint64_t due;			/* CLOCK_MONOTONIC ns */
	struct rcm_id *timer_next, **timer_prev;
};

struct rcm_event {
	struct rcm_event *next;
	struct rcm_id *id;		/* counts the event in events_reported */
	struct rcm_group *group;	/* MULTICAST_*; NULL: another event */
	struct rcm_id *arrived;		/* CONNECT_REQUEST: the new id */
	struct rdma_ucm_event_resp resp;
};

struct rcm_channel {
	pthread_mutex_t lock;
	struct rcm_channel *next, **prev;	/* of the registry; free: next */
	unsigned fds;			/* duplicates of the descriptor; 0: the channel is free */
	uint64_t uses;			/* of this struct: tells one channel from the next one in the same place */
	int epoll;			/* one of the descriptors */
	bool signaled;			/* the always readable descriptor is being watched */
	struct rcm_event *events, **events_last;
	struct rcm_id *ids;
	int timer_fd;			/* -1: none so far */
	struct shca_fd kernel;		/* the kernel's file; n -1: no id is a real device's */
	struct rcm_id *timers[RCM_TIMERS], **timers_last[RCM_TIMERS];
	void (*id_destroy)(struct rcm_id *id);	/* destroys one of `ids`, with its events; set by id.c with the first id */
};

/* ---- device.c --------------------------------------------------------------------------------------------------- */

/* Opens the software device once for the process: joins the fabric. Returns 0 or -errno. *opened: this call has opened it, and
 * the caller must call rcm_watch_port. Must hold no lock. */
int rcm_device_open(bool *opened);
/* The last channel is gone: closes the device. */
void rcm_device_close(void);
/* Hash of the fabric's name; "" before rcm_device_open. */
const char *rcm_fabric(void);
/* Bell of port events, for epoll; -1: the device is not open. */
int rcm_port_bell(void);
bool rcm_device_broken(void);
/* Takes the rings that have come so far. Must hold rcm_registry. */
void rcm_port_bell_drain(void);
/* Takes the next event of a port, or of the device: port 0. Returns false: there is none. */
bool rcm_port_event_take(enum ibv_event_type *type, uint32_t *port);

/* ---- handle.c --------------------------------------------------------------------------------------------------- */

/* A group's handle leads to the id that has joined. */
enum rcm_kind { RCM_ID, RCM_GROUP };
#define RCM_HANDLES (1024u * 1024)	/* the most ids and groups */
/* Returns 0 or -errno. Any lock may be held. */
int rcm_handle_new(struct rcm_id *id, enum rcm_kind kind, uint32_t *handle);
/* Returns the id, or NULL. The caller must check id->channel. */
struct rcm_id *rcm_handle_get(uint32_t handle, enum rcm_kind kind);
void rcm_handle_free(uint32_t handle);

/* ---- address.c -------------------------------------------------------------------------------------------------- */

/* Returns the length of an address of this family; 0: not supported. */
size_t rcm_address_size(const struct sockaddr_storage *a);
/* Returns the address without port: the 4 bytes of IPv4, the 16 of IPv6 or of the GID. */
const uint8_t *rcm_address_bytes(const struct sockaddr_storage *a);
bool rcm_is_any(const struct sockaddr_storage *a);
bool rcm_is_loopback(const struct sockaddr_storage *a);
bool rcm_is_multicast(const struct sockaddr_storage *a);
/* Returns the port for an id with this local address: the port with that GID; else the first port that is up, or port 1. */
uint32_t rcm_port_for(const struct sockaddr_storage *a);
/* Which RDMA CM has an address: the software HCA's (loopback, and addresses of this host that no real device has), the kernel's
 * (of real devices, and of other hosts if there is a real device), or none. */
enum rcm_owner { RCM_NOBODYS, RCM_OURS, RCM_KERNELS };
enum rcm_owner rcm_owner(const struct sockaddr_storage *a);
/* Returns true if the host has real RDMA devices. */
bool rcm_real_devices(void);
/* Returns true if a listener to every IPv6 address gets no IPv4 connections: sysctl net.ipv6.bindv6only. */
bool rcm_v6_only(void);
/* The port, or for AF_IB the low 16 bits of the service id. */
uint16_t rcm_port(const struct sockaddr_storage *a);
void rcm_set_port(struct sockaddr_storage *a, uint16_t port);
/* Returns a port for an id that binds or connects without a choice of its own. */
uint16_t rcm_free_port(void);
uint64_t rcm_service_id(const struct rcm_id *id, const struct sockaddr_storage *a);

/* ---- port_name.c ------------------------------------------------------------------------------------------------ */

/* Takes the name of the id's address and port: sets id->name, id->name_mark. Returns 0 or -errno: -EADDRINUSE. */
int rcm_name_take(struct rcm_id *id);
void rcm_name_free(struct rcm_id *id);
/* Connects to the listener of an address. Returns a socket or -errno: -ECONNREFUSED: there is none; -EAGAIN: its backlog is
 * full. */
int rcm_name_connect(const struct rcm_id *id);
/* Returns true if the other end of a socket is of this user. */
bool rcm_same_user(int fd);

/* ---- channel.c -------------------------------------------------------------------------------------------------- */

extern pthread_mutex_t rcm_registry;
/* Every open channel. Must hold rcm_registry. */
struct rcm_channel *rcm_channels(void);
/* Returns the channel of a descriptor, locked; NULL with errno EBADF: none, or the program has closed the descriptor behind
 * the library's back. */
struct rcm_channel *rcm_channel_lock(int fd);
void rcm_channel_unlock(struct rcm_channel *ch);
/* Notes whether this thread is inside; returns whether it was. */
bool rcm_enter(bool in);
bool rcm_same_channel(int fd, const struct rcm_channel *ch);
/* Adds the bell of port events to every channel. Must: the device is open; no lock is held. */
void rcm_watch_port(void);
/* Must, for all functions from here on, of all files: the caller holds the lock of the channel, or of the id's channel, unless
 * the function's comment differs. */
/* Makes the channel's descriptor readable or not. Returns false: `fd` is not the channel's epoll descriptor. */
bool rcm_channel_signal(struct rcm_channel *ch, int fd, bool readable);
/* Watches a socket of the id for reading. Returns 0 or -errno. */
int rcm_watch(struct rcm_id *id, const struct shca_fd *fd);
/* Ends that. The program may have closed the descriptor. */
void rcm_unwatch(struct rcm_id *id, const struct shca_fd *fd);
/* The epoll events of a channel that name no id. */
enum rcm_source { RCM_SOURCE_QUEUE, RCM_SOURCE_TIMER, RCM_SOURCE_PORT, RCM_SOURCE_KERNEL, RCM_SOURCES };

/* ---- event.c ---------------------------------------------------------------------------------------------------- */

/* Returns an event for `id`, with its uid and handle, the rest zero; NULL with errno. rcm_push queues the event. */
struct rcm_event *rcm_event_new(struct rcm_id *id, enum rcm_event_type type, int status);
void rcm_push(struct rcm_channel *ch, struct rcm_event *ev);
/* rcm_event_new and rcm_push of an event without parameters. An event for an id that the program does not know yet (uid 0) is
 * dropped. Returns 0 or -ENOMEM. */
int rcm_report(struct rcm_id *id, enum rcm_event_type type, int status);
/* Takes *at, one of the channel's events, out of the queue, and returns it. */
struct rcm_event *rcm_event_unlink(struct rcm_channel *ch, struct rcm_event **at);

/* ---- timer.c ---------------------------------------------------------------------------------------------------- */

/* Makes the timer of the id's channel. Returns 0, or -errno with the reason; `call` names the function in it. */
int rcm_timer_ready(const struct rcm_id *id, const char *call);
void rcm_timer_set(struct rcm_id *id, enum rcm_timer kind);
void rcm_timer_clear(struct rcm_id *id);
/* The channel's timerfd is readable: clears the timerfd, and calls `expired` for each id whose timer has expired. */
void rcm_timers_run(struct rcm_channel *ch, void (*expired)(struct rcm_id *id, enum rcm_timer kind));

/* ---- kernel.c --------------------------------------------------------------------------------------------------- */

/* Result of rcm_bind and rcm_resolve_addr: the id belongs to the kernel, which must execute the command, too. */
#define RCM_TO_KERNEL 1
/* Makes the id the kernel's. Returns RCM_TO_KERNEL or -errno. `call` names the function in the reason. */
int rcm_kernel_adopt(struct rcm_id *id, const char *call);
/* Lets the kernel listen, too, on the port of a listener to every address. Returns 0 or -errno. */
int rcm_kernel_listen(struct rcm_id *id, uint32_t backlog);
/* Destroys the companion. Returns the number of its events that were reported. */
uint32_t rcm_kernel_destroy(struct rcm_id *id);
/* Moves the companion to another channel. Both locks are held. Returns 0 or -errno. */
int rcm_kernel_migrate(struct rcm_id *id, struct rcm_channel *to, uint32_t *events_reported);
/* Executes a command of `in` bytes, whose id is at `id_at`, on the companion. Returns 0 or -errno. */
int rcm_kernel_command(struct rcm_id *id, const struct rdma_ucm_cmd_hdr *hdr, void *body, size_t in, size_t id_at);
/* Gets the kernel's next event. Returns 0, or -errno: -EAGAIN: there is none. */
int rcm_kernel_event(struct rcm_channel *ch, struct rdma_ucm_event_resp *resp);

/* ---- id.c ------------------------------------------------------------------------------------------------------- */

/* Returns an id of the channel, or NULL with errno. */
struct rcm_id *rcm_id_new(struct rcm_channel *ch, uint64_t uid, uint16_t ps, uint8_t qp_type);
/* Returns the id with this handle; NULL with errno ENOENT: none; EINVAL: of another channel. */
struct rcm_id *rcm_id_find(struct rcm_channel *ch, uint32_t handle);
/* Closes the connection, drops events, frees the handle. */
void rcm_id_destroy(struct rcm_id *id);
/* Watches the id's connection. Returns 0 or -errno. */
int rcm_conn_watch(struct rcm_id *id);
void rcm_conn_unwatch(struct rcm_id *id);
/* Closes the connection's socket; the peer gets the end of the stream. */
void rcm_hang_up(struct rcm_id *id);
/* Removes the queued events of an id, or of one group; a new id in a CONNECT_REQUEST is destroyed. */
void rcm_events_drop(struct rcm_channel *ch, const struct rcm_id *id, const struct rcm_group *group);
/* Commands, here and in the files below: each returns 0 or -errno, and stores the answer in out. rcm_migrate_id and rcm_get_event
 * take the locks themselves. */
int rcm_create_id(struct rcm_channel *ch, const struct rdma_ucm_create_id *c, struct rdma_ucm_create_id_resp *out);
int rcm_destroy_id(struct rcm_channel *ch, const struct rdma_ucm_destroy_id *c, struct rdma_ucm_destroy_id_resp *out);
int rcm_migrate_id(int fd, const struct rdma_ucm_migrate_id *c, struct rdma_ucm_migrate_resp *out);
int rcm_set_option(struct rcm_channel *ch, const struct rdma_ucm_set_option *c);

/* ---- attr.c ----------------------------------------------------------------------------------------------------- */

struct ib_uverbs_qp_attr;
struct ib_uverbs_ah_attr;
int rcm_init_qp_attr(struct rcm_channel *ch, const struct rdma_ucm_init_qp_attr *c, struct ib_uverbs_qp_attr *out);
int rcm_query(struct rcm_channel *ch, const struct rdma_ucm_query *c, size_t out);
int rcm_query_route(struct rcm_channel *ch, const struct rdma_ucm_query *c, size_t out);
/* The address of the peer's port, and the id's own; of its own port if there is no peer. */
void rcm_address_vector(const struct rcm_id *id, struct ib_uverbs_ah_attr *ah);

/* The port that the id is bound to. */
static inline uint32_t rcm_id_port(const struct rcm_id *id)
{
	return id->local.port ? id->local.port : 1;
}

/* ---- resolve.c -------------------------------------------------------------------------------------------------- */

int rcm_bind(struct rcm_channel *ch, uint32_t handle, const void *addr, size_t size);
/* src_size 0: no source. */
int rcm_resolve_addr(struct rcm_channel *ch, uint32_t handle, const void *src, size_t src_size, const void *dst, size_t dst_size);
int rcm_resolve_route(struct rcm_channel *ch, const struct rdma_ucm_resolve_route *c);
/* Binds an idle id to any address and a free port. */
int rcm_bind_any(struct rcm_id *id, int family);

/* ---- connect.c -------------------------------------------------------------------------------------------------- */

int rcm_listen(struct rcm_channel *ch, const struct rdma_ucm_listen *c);
int rcm_connect(struct rcm_channel *ch, const struct rdma_ucm_connect *c);
int rcm_accept(struct rcm_channel *ch, const struct rdma_ucm_accept *c);
int rcm_reject(struct rcm_channel *ch, const struct rdma_ucm_reject *c);
int rcm_disconnect(struct rcm_channel *ch, const struct rdma_ucm_disconnect *c);
int rcm_notify(struct rcm_channel *ch, const struct rdma_ucm_notify *c);
/* The id's socket is readable. Returns false: a connection waits, and no descriptor or memory is left for it. */
bool rcm_readable(struct rcm_id *id);
/* The id's timer has expired. */
void rcm_expired(struct rcm_id *id, enum rcm_timer kind);

/* ---- multicast.c ------------------------------------------------------------------------------------------------ */

int rcm_join(struct rcm_channel *ch, uint32_t handle, uint64_t uid, const void *addr, size_t size, unsigned flags,
	     struct rdma_ucm_create_id_resp *out);
int rcm_leave(struct rcm_channel *ch, const struct rdma_ucm_destroy_id *c, struct rdma_ucm_destroy_id_resp *out);
/* The memberships are lost: MULTICAST_ERROR for each. */
void rcm_groups_lost(struct rcm_id *id);

/* ---- port_event.c ----------------------------------------------------------------------------------------------- */

/* The bell has rung: reports port events to all ids. Must hold no channel's lock. */
void rcm_port_events(void);

/* ---- get_event.c ------------------------------------------------------------------------------------------------ */

int rcm_get_event(int fd, const struct rdma_ucm_get_event *cmd, size_t out);

#endif
