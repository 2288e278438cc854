/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files /dev/infiniband/umad*: descriptors, agents, requests under way, and the datagrams that wait to be read.
 *
 * A file's descriptor is an epoll descriptor that watches a socket that is always readable, but only while a datagram waits, and
 * a timer, which expires when the time of the first request without an answer is over. So poll, select and epoll work; a file is
 * always writable for write(), although poll does not say so.
 *
 * A descriptor is found in a table that readers pass through without a lock, because write() may be called in signal handlers.
 * The program may close a descriptor by a system call that libshca-files.so does not see, and use the number for another file:
 * so the kernel compares first. EPOLL_CTL_MOD of that socket succeeds in the file's epoll descriptor only.
 *
 * Files are never freed, only used again: a stale pointer leads to a file, and `umad_file_of`, called under the file's lock,
 * returns another file if the descriptor was reused. After fork the process that opened a file may use it: the child can only
 * close it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "umad/internal.h"

/* <rdma/rdma_user_ioctl.h> */
#define UM_REGISTER _IOWR(0x1b, 0x01, struct ib_user_mad_reg_req)
#define UM_UNREGISTER _IOW(0x1b, 0x02, uint32_t)
#define UM_ENABLE_PKEY _IO(0x1b, 0x03)
#define UM_REGISTER2 _IOWR(0x1b, 0x04, struct ib_user_mad_reg_req2)

#define FDS 1024u		/* descriptors of the process that are such files */
#define AGENTS 32u		/* of a file, as the kernel has them */
#define WAITING 4096u		/* datagrams that wait in a file; further ones are lost */
#define CLASSES 80u		/* classes and versions that can be registered */
#define VERSIONS 8u
#define BROKEN \
	"the device has failed (IBV_EVENT_DEVICE_FATAL): a new one is there when all processes of the fabric have closed it"
#define OLD_HEADER 56u		/* of struct ib_user_mad_hdr, without the P_Key's index */
#define RMPP_HEADER 36u		/* a datagram's bytes with that header */

struct agent {
	bool used, smi, rmpp;		/* smi: of QP 0; rmpp: segments are put together for the program */
};
struct packet {
	struct packet *next;
	struct ib_user_mad_hdr hdr;
	uint64_t due;			/* CLOCK_MONOTONIC ns; of a request under way */
	size_t bytes;
	uint8_t mad[];
};
struct um_file {
	pthread_mutex_t lock;
	struct um_file *next_free;
	pid_t pid;
	uint32_t port;
	unsigned fds;			/* duplicates; guarded by files_lock */
	struct shca_fd always;
	int timer;
	bool readable;			/* `always` is being watched */
	bool pkey_index, used;		/* ENABLE_PKEY was called; the file's header size is fixed */
	struct agent agents[AGENTS];
	struct packet *first, **last;	/* to be read */
	size_t waiting;
	struct packet *pending;		/* requests without an answer, by their time-outs */
};

_Atomic unsigned um_open_fds;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry {
	_Atomic int fd;			/* + 1; 0: free */
	struct um_file *_Atomic file;
} entries[FDS];
static _Atomic unsigned entries_high;
static struct um_file *free_files;

/* Set while this thread is inside: close() and read() of the library's own descriptors come here, too. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

static struct entry *fd_entry_of(int fd)
{
	unsigned n = atomic_load_explicit(&entries_high, memory_order_acquire);

	for (unsigned i = 0; fd >= 0 && i < n; i++)
		if (atomic_load_explicit(&entries[i].fd, memory_order_acquire) == fd + 1)
			return &entries[i];
	return NULL;
}

static struct um_file *umad_file_of(int fd)
{
	struct entry *e = fd_entry_of(fd);

	return e ? atomic_load(&e->file) : NULL;
}

/* Makes fd readable or not. Returns false: fd is not the file's epoll descriptor. */
static bool watch(struct um_file *f, int fd, bool readable)
{
	struct epoll_event e = {.events = readable ? EPOLLIN : 0};

	if (epoll_ctl(fd, EPOLL_CTL_MOD, f->always.n, &e))
		return false;
	f->readable = readable;
	return true;
}

/* Returns the file of a descriptor, locked, or NULL. */
static struct um_file *file_lock(int fd)
{
	struct um_file *f = inside ? NULL : umad_file_of(fd);
	int saved = errno;

	if (!f)
		return NULL;
	inside = true;
	/* a lock that another thread held when the process forked stays held in the child */
	if (f->pid == getpid()) {
		pthread_mutex_lock(&f->lock);
		if (umad_file_of(fd) == f && watch(f, fd, f->readable)) {
			errno = saved;
			return f;
		}
		pthread_mutex_unlock(&f->lock);
	}
	inside = false;
	errno = saved;
	return NULL;
}

static void file_unlock(struct um_file *f)
{
	pthread_mutex_unlock(&f->lock);
	inside = false;
}

/* A file of the parent, in the child of a fork. */
static bool is_parents(int fd)
{
	struct um_file *f = inside ? NULL : umad_file_of(fd);

	return f && f->pid != getpid();
}

/* ---- datagrams -------------------------------------------------------------------------------------------------- */

static size_t header_bytes(const struct um_file *f)
{
	return f->pkey_index ? sizeof(struct ib_user_mad_hdr) : OLD_HEADER;
}

/* Returns a packet with the first `bytes` of a MAD, or NULL. */
static struct packet *packet_new(const struct ib_user_mad_hdr *hdr, const uint8_t *mad, size_t bytes)
{
	struct packet *p = malloc(sizeof(*p) + bytes);

	if (!p)
		return NULL;
	p->next = NULL;
	p->hdr = *hdr;
	p->hdr.status = 0;
	p->bytes = bytes;
	memcpy(p->mad, mad, bytes);
	return p;
}

static void packet_push(struct um_file *f, int fd, struct packet *p)
{
	if (f->waiting >= WAITING) {
		free(p);
		return;
	}
	f->waiting++;
	*f->last = p;
	f->last = &p->next;
	p->next = NULL;
	if (!f->readable)
		watch(f, fd, true);
}

/* Makes the file's timer, watched by its descriptor fd, unless the timer exists: the program may have closed the timer's
 * descriptor, and use the number. Returns false: no descriptor is left. */
static bool umad_timer_ready(struct um_file *f, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	if (shca_timer_ours(fd, f->timer, &e))
		return true;
	f->timer = fd_raise(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (f->timer >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, f->timer, &e))
		return true;
	if (f->timer >= 0)
		close(f->timer);
	f->timer = -1;
	return false;
}

/* Sets the timer to the end of the first request under way. */
static void timer_set(struct um_file *f, int fd)
{
	struct itimerspec at = {0};

	if (f->pending) {
		at.it_value.tv_sec = (time_t)(f->pending->due / 1000000000u);
		at.it_value.tv_nsec = (long)(f->pending->due % 1000000000u) | 1;
	}
	if (umad_timer_ready(f, fd))
		timerfd_settime(f->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Returns timed-out requests to the program: the header of each, with the status ETIMEDOUT. */
static void expire(struct um_file *f, int fd)
{
	struct packet *p = f->pending;

	if (!p || p->due > monotonic_ns())
		return;
	while ((p = f->pending) != NULL && p->due <= monotonic_ns()) {
		f->pending = p->next;
		p->hdr.status = ETIMEDOUT;
		p->bytes = UM_HEADER_BYTES;
		packet_push(f, fd, p);
	}
	timer_set(f, fd);
}

static void pending_add(struct um_file *f, int fd, struct packet *p)
{
	struct packet **at = &f->pending;

	while (*at && (*at)->due <= p->due)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
	timer_set(f, fd);
}

static bool is_pending(const struct um_file *f, const uint8_t *mad)
{
	for (const struct packet *p = f->pending; p; p = p->next)
		if (!memcmp(p->mad + UM_TID, mad + UM_TID, 8) && p->mad[UM_CLASS] == mad[UM_CLASS])
			return true;
	return false;
}

/* Queues the answer to a request. */
static void answer_push(struct um_file *f, int fd, const struct ib_user_mad_hdr *asked, const struct um_answer *a)
{
	bool assembled = f->agents[asked->id].rmpp;
	struct ib_user_mad_hdr hdr = {.id = asked->id, .qpn = asked->qpn, .lid = htobe16(a->lid), .sl = asked->sl};
	size_t bytes = a->bytes > UM_MAD_BYTES && !assembled ? UM_MAD_BYTES : a->bytes;
	struct packet *p;

	/* a table without RMPP is a whole datagram, however many records */
	if (bytes < UM_MAD_BYTES && !assembled)
		bytes = UM_MAD_BYTES;
	p = packet_new(&hdr, a->mad, bytes);
	if (p)
		packet_push(f, fd, p);
}

/* Sends a datagram of the program. */
static int send_mad(struct um_file *f, int fd, const struct ib_user_mad_hdr *hdr, uint8_t mad[UM_MAD_BYTES])
{
	struct um_answer a = {0};
	struct um_subnet s;

	/* as the kernel: the upper half of a request's transaction id names the agent */
	if (!(mad[UM_METHOD] & UM_RESPONSE))
		um_put32(mad + UM_TID, (uint64_t)(uint32_t)fd << 8 | hdr->id | 1u << 31);
	if (is_pending(f, mad))
		return shca_refuse(EINVAL, "umad: write: agent %u has a request with transaction id %#llx under way: each needs "
				   "an id of its own until its answer or its timeout is read",
				   hdr->id, (unsigned long long)um_64(mad + UM_TID));
	um_subnet_look(&s);
	if (s.broken)
		return shca_refuse(EIO, "umad: write: " BROKEN);
	bool answered = um_ask(&s, f->port, hdr, mad, &a);
	if (!hdr->timeout_ms || mad[UM_METHOD] & UM_RESPONSE) {
		free(a.mad);	/* no agent of the program waits */
		return 0;
	}
	if (answered) {
		answer_push(f, fd, hdr, &a);
	} else {
		if (!umad_timer_ready(f, fd))
			return shca_refuse(EMFILE, "umad: write: the program has closed the timer of the file, and no descriptor "
					   "is left for another one (ulimit -n)");
		struct packet *p = packet_new(hdr, mad, UM_MAD_BYTES);
		if (!p)
			return shca_no_memory("umad: a request");
		p->due = monotonic_ns() + (uint64_t)hdr->timeout_ms * 1000000u * ((uint64_t)hdr->retries + 1);
		pending_add(f, fd, p);
	}
	free(a.mad);
	return 0;
}

static int umad_write_locked(struct um_file *f, int fd, const uint8_t *buf, size_t n)
{
	struct ib_user_mad_hdr hdr = {0};
	uint8_t mad[UM_MAD_BYTES] = "";
	size_t head = header_bytes(f);

	f->used = true;
	if (n < head + RMPP_HEADER || n > head + UM_MAD_BYTES)
		return shca_refuse(EINVAL, "umad: write of %zu bytes: a header has %zu (with IB_USER_MAD_ENABLE_PKEY %zu), a "
				   "datagram %u to %u",
				   n, head, sizeof(hdr), RMPP_HEADER, UM_MAD_BYTES);
	if (!buf)
		return EFAULT;
	memcpy(&hdr, buf, head);
	memcpy(mad, buf + head, n - head);
	if (hdr.id >= AGENTS || !f->agents[hdr.id].used)
		return shca_refuse(EINVAL, "umad: write by agent %u, which is not registered with this file (umad_register)",
				   hdr.id);
	if (hdr.pkey_index)
		return shca_refuse(EINVAL, "umad: write by agent %u with P_Key index %u: the port's table has one entry, index 0",
				   hdr.id, hdr.pkey_index);
	if (f->agents[hdr.id].smi != !be32toh(hdr.qpn))
		return shca_refuse(EINVAL, "umad: write to QP %u by agent %u, which is registered for QP %u: subnet management "
				   "goes to QP 0, all else to QP 1",
				   be32toh(hdr.qpn), hdr.id, !f->agents[hdr.id].smi);
	return send_mad(f, fd, &hdr, mad);
}

/* Returns the length, or -errno. -EAGAIN: nothing waits. */
static ssize_t read_locked(struct um_file *f, int fd, uint8_t *buf, size_t n)
{
	struct packet *p;
	size_t head = header_bytes(f);

	f->used = true;
	if (n < head)
		return -shca_refuse(EINVAL, "umad: read into %zu bytes: the header alone has %zu", n, head);
	expire(f, fd);
	p = f->first;
	if (!p)
		return -EAGAIN;
	/* of segments put together at least the first one has to fit */
	if (n < head + (p->bytes < UM_MAD_BYTES ? p->bytes : UM_MAD_BYTES))
		return -shca_refuse(EINVAL, "umad: read into %zu bytes: the first datagram has %zu with its header, and waits "
				    "for a larger buffer",
				    n, head + p->bytes);
	if (!buf)
		return -EFAULT;
	p->hdr.length = (uint32_t)(head + p->bytes);
	memcpy(buf, &p->hdr, head);
	memcpy(buf + head, p->mad, p->bytes < n - head ? p->bytes : n - head);
	/* the header says the length; the datagram stays */
	if (n < head + p->bytes)
		return -ENOSPC;
	ssize_t got = (ssize_t)(head + p->bytes);
	f->first = p->next;
	if (!f->first) {
		f->last = &f->first;
		watch(f, fd, false);
	}
	f->waiting--;
	free(p);
	return got;
}

/* The answer to a call for a descriptor without a locked file. Returns false: the descriptor is the kernel's. */
static bool refuse_parents(int fd, ssize_t *result)
{
	if (!is_parents(fd))
		return false;
	errno = shca_refuse(EIO, "umad: descriptor %d was opened before fork(): the child has to open the file itself", fd);
	*result = -1;
	return true;
}

bool um_write(int fd, const void *buf, size_t n, ssize_t *result)
{
	struct um_file *f = file_lock(fd);
	int saved = errno;

	if (!f)
		return refuse_parents(fd, result);
	int err = umad_write_locked(f, fd, buf, n);
	file_unlock(f);
	*result = err ? -1 : (ssize_t)n;
	errno = err ? err : saved;
	return true;
}

bool um_read(int fd, void *buf, size_t n, ssize_t *result)
{
	struct um_file *f = file_lock(fd);
	int saved = errno;

	if (!f)
		return refuse_parents(fd, result);
	for (;;) {
		ssize_t got = read_locked(f, fd, buf, n);
		int flags = fcntl(fd, F_GETFL);
		file_unlock(f);
		*result = got < 0 ? -1 : got;
		errno = got < 0 ? (int)-got : saved;
		if (got != -EAGAIN || flags & O_NONBLOCK)
			return true;
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		if (poll(&wait, 1, -1) < 0)
			return true;	/* EINTR */
		f = file_lock(fd);
		if (!f) {
			errno = EBADF;
			return true;
		}
	}
}

/* ---- agents ----------------------------------------------------------------------------------------------------- */

struct registration {
	uint32_t qpn, flags, oui;
	uint8_t class, version, rmpp;
	bool any_method;		/* unsolicited datagrams are wanted */
};

/* Stores the agent's id. Returns 0 or an errno, as the kernel has them. */
static int register_agent(struct um_file *f, const struct registration *r, uint32_t *id)
{
	bool smi = r->class == UM_SUBN_LID || r->class == UM_SUBN_DIRECTED;
	uint8_t class = r->class == UM_SUBN_DIRECTED ? UM_SUBN_LID : r->class;

	f->used = true;
	if (r->qpn > 1 || r->oui >> 24)
		return shca_refuse(EINVAL, "umad: an agent for QP %u, OUI %#x: agents are for QP 0 or 1, and an OUI has 24 bits",
				   r->qpn, r->oui);
	if (r->class && (class >= CLASSES || r->version >= VERSIONS || smi != !r->qpn))
		return shca_refuse(EINVAL, "umad: an agent for class %#x, version %u, on QP %u: classes are below %#x, versions "
				   "below %u; subnet management (%#x, %#x) is on QP 0, and nothing else",
				   r->class, r->version, r->qpn, CLASSES, VERSIONS, UM_SUBN_LID, UM_SUBN_DIRECTED);
	if (!r->qpn && shca_is_ethernet())
		return shca_refuse(EPROTONOSUPPORT, "umad: an agent for QP 0: ports of RoCE have no subnet management "
				   "(SHCA_LINK=ethernet)");
	for (uint32_t i = 0; i < AGENTS; i++)
		if (!f->agents[i].used) {
			f->agents[i] = (struct agent){.used = true, .smi = !r->qpn,
						      .rmpp = r->rmpp && !(r->flags & IB_USER_MAD_USER_RMPP)};
			*id = i;
			return 0;
		}
	return shca_refuse(ENOMEM, "umad: the file has %u agents, as many as it can: unregister one, or open another file",
			   AGENTS);
}

static int register_1(struct um_file *f, struct ib_user_mad_reg_req *req)
{
	struct registration r = {.qpn = req->qpn, .class = req->mgmt_class, .version = req->mgmt_class_version,
				 .rmpp = req->rmpp_version};

	return register_agent(f, &r, &req->id);
}

static int register_2(struct um_file *f, struct ib_user_mad_reg_req2 *req)
{
	struct registration r = {.qpn = req->qpn, .flags = req->flags, .oui = req->oui, .class = req->mgmt_class,
				 .version = req->mgmt_class_version, .rmpp = req->rmpp_version};

	if (req->flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP) {
		uint32_t flags = req->flags;
		req->flags = IB_USER_MAD_REG_FLAGS_CAP;
		return shca_refuse(EINVAL, "umad: an agent with flags %#x: known are those of %#x", flags,
				   (unsigned)IB_USER_MAD_REG_FLAGS_CAP);
	}
	return register_agent(f, &r, &req->id);
}

/* The agent's requests under way are given up. */
static int unregister(struct um_file *f, int fd, uint32_t id)
{
	if (id >= AGENTS || !f->agents[id].used)
		return shca_refuse(EINVAL, "umad: agent %u is to be unregistered, and is not registered with this file", id);
	f->agents[id].used = false;
	for (struct packet **at = &f->pending, *p; (p = *at) != NULL;) {
		if (p->hdr.id != id) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		free(p);
	}
	timer_set(f, fd);
	return 0;
}

static int enable_pkey(struct um_file *f)
{
	if (f->used)
		return shca_refuse(EINVAL, "umad: IB_USER_MAD_ENABLE_PKEY must come before all other calls of the file, whose "
				   "header it changes");
	f->pkey_index = true;
	return 0;
}

bool um_ioctl(int fd, unsigned long request, void *arg, int *result)
{
	struct um_file *f = file_lock(fd);
	int err, saved = errno;

	if (!f)
		return false;
	switch (request) {
	case UM_REGISTER:
		err = arg ? register_1(f, arg) : EFAULT;
		break;
	case UM_REGISTER2:
		err = arg ? register_2(f, arg) : EFAULT;
		break;
	case UM_UNREGISTER:
		err = arg ? unregister(f, fd, *(const uint32_t *)arg) : EFAULT;
		break;
	case UM_ENABLE_PKEY:
		err = enable_pkey(f);
		break;
	default:
		err = ENOTTY;
	}
	file_unlock(f);
	*result = err ? -1 : 0;
	errno = err ? err : saved;
	return true;
}

bool um_is_file(int fd)
{
	struct um_file *f = file_lock(fd);

	if (f)
		file_unlock(f);
	return f;
}

/* ---- coming and going ------------------------------------------------------------------------------------------- */

/* Frees a packet list. */
static void umad_packets_free(struct packet **list)
{
	for (struct packet *p; (p = *list) != NULL;) {
		*list = p->next;
		free(p);
	}
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&files_lock);
}

static void fork_done(void)
{
	pthread_mutex_unlock(&files_lock);
}

/* Returns a descriptor that is always readable: a socket whose peer has sent a byte. Unlike an eventfd's, its file has an inode
 * of its own. */
static struct shca_fd always_new(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return (struct shca_fd){.n = -1};
	ssize_t n = write(pair[1], "", 1);
	close(pair[1]);
	struct shca_fd fd = shca_fd_note(fd_raise(pair[0]));
	if (n != 1)
		shca_fd_close(&fd);
	return fd;
}

/* Returns a file of the port, or NULL with errno. Must hold files_lock. */
static struct um_file *file_new(uint32_t port)
{
	static bool fork_handlers;
	struct um_file *f = free_files;
	int err;

	if (!fork_handlers && (err = pthread_atfork(fork_prepare, fork_done, fork_done)) != 0) {
		errno = err;
		return NULL;
	}
	fork_handlers = true;
	if (f) {
		free_files = f->next_free;
	} else {
		f = calloc(1, sizeof(*f));
		if (!f)
			return NULL;
		pthread_mutex_init(&f->lock, NULL);
	}
	f->pid = getpid();
	f->port = port;
	f->fds = 0;
	f->readable = f->pkey_index = f->used = false;
	memset(f->agents, 0, sizeof(f->agents));
	f->last = &f->first;
	f->waiting = 0;
	f->always = always_new();
	f->timer = fd_raise(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	return f;
}

/* Must hold files_lock, no descriptor has the file. epoll: its last descriptor. The program may have closed that, and the timer:
 * a timer that is not in the epoll descriptor stays open, because its number may be another file's. */
static void file_free(struct um_file *f, int epoll)
{
	bool ours = f->pid == getpid();

	if (ours)
		pthread_mutex_lock(&f->lock);
	struct epoll_event e = {.events = 0};
	if (epoll >= 0 && shca_timer_ours(epoll, f->timer, &e))
		close(f->timer);
	f->timer = -1;
	shca_fd_close(&f->always);
	/* of the parent's file the lock and the lists may be in any state */
	if (!ours)
		return;
	umad_packets_free(&f->first);
	umad_packets_free(&f->pending);
	f->next_free = free_files;
	free_files = f;
	pthread_mutex_unlock(&f->lock);
}

/* Enters a descriptor of the file. Returns false: the table is full. Must hold files_lock. */
static bool enter(int fd, struct um_file *f)
{
	unsigned high = atomic_load(&entries_high), i = 0;

	while (i < high && atomic_load(&entries[i].fd))
		i++;
	if (i == FDS)
		return false;
	atomic_store(&entries[i].file, f);
	atomic_store_explicit(&entries[i].fd, fd + 1, memory_order_release);
	if (i == high)
		atomic_store_explicit(&entries_high, i + 1, memory_order_release);
	f->fds++;
	atomic_fetch_add(&um_open_fds, 1);
	return true;
}

/* Removes a descriptor; the last removal frees the file. epoll: fd, if that is still the file's descriptor. Must hold
 * files_lock. */
static void forget(int fd, int epoll)
{
	struct entry *e = fd_entry_of(fd);

	if (!e)
		return;
	struct um_file *f = atomic_load(&e->file);
	atomic_store(&e->fd, 0);
	atomic_fetch_sub(&um_open_fds, 1);
	if (!--f->fds)
		file_free(f, epoll);
}

/* Watches the file's timer and `always` by a new epoll descriptor. Returns it, or -1 with errno. */
static int epoll_new(const struct um_file *f, int flags)
{
	struct epoll_event always = {.events = 0}, timer = {.events = EPOLLIN};
	int fd = f->always.n < 0 || f->timer < 0 ? -1 : fd_raise(epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0));

	if (fd < 0 || (!epoll_ctl(fd, EPOLL_CTL_ADD, f->always.n, &always) && !epoll_ctl(fd, EPOLL_CTL_ADD, f->timer, &timer) &&
		       !(flags & O_NONBLOCK && fcntl(fd, F_SETFL, O_NONBLOCK))))
		return fd;
	int err = errno;
	close(fd);
	errno = err;
	return -1;
}

int um_open(uint32_t port, int flags)
{
	int fd = -1, err = 0;
	struct um_subnet s;

	um_subnet_look(&s);
	if (s.broken) {
		errno = shca_refuse(ENXIO, "umad: open: " BROKEN);
		return -1;
	}
	inside = true;
	pthread_mutex_lock(&files_lock);
	struct um_file *f = file_new(port);
	if (f) {
		fd = epoll_new(f, flags);
		err = fd < 0 ? errno : 0;
		if (!err) {
			forget(fd, -1);		/* closed without um_closing */
			err = enter(fd, f) ? 0 : EMFILE;
		}
		/* without an epoll descriptor file_free cannot check the timer's number; here the number is this file's */
		if (fd < 0 && f->timer >= 0) {
			close(f->timer);
			f->timer = -1;
		}
		if (err)
			file_free(f, fd);
	} else {
		err = errno;
	}
	pthread_mutex_unlock(&files_lock);
	if (err && fd >= 0)
		close(fd);
	inside = false;
	if (!err)
		return fd;
	errno = shca_refuse(err, "umad: open: no descriptor or no memory is left%s", shca_limit_of(err));
	return -1;
}

void um_closing(int fd)
{
	int saved = errno;

	if (inside || !fd_entry_of(fd))
		return;
	inside = true;
	pthread_mutex_lock(&files_lock);
	forget(fd, fd);
	pthread_mutex_unlock(&files_lock);
	inside = false;
	errno = saved;
}

/* Returns true if `copy`, made of a descriptor that has the file by now, is the file's: another thread may have closed the
 * descriptor in between, and opened the file under its number. */
static bool is_copy(struct um_file *f, int copy)
{
	if (f->pid != getpid())
		return true;
	pthread_mutex_lock(&f->lock);
	bool is = watch(f, copy, f->readable);
	pthread_mutex_unlock(&f->lock);
	return is;
}

void um_duplicated(int fd, int copy)
{
	int saved = errno;

	if (inside || fd == copy || (!fd_entry_of(fd) && !fd_entry_of(copy)))
		return;
	inside = true;
	pthread_mutex_lock(&files_lock);
	struct um_file *f = umad_file_of(fd);
	forget(copy, -1);
	if (f && is_copy(f, copy) && !enter(copy, f))
		shca_refuse(EMFILE, "umad: dup: the process has %u descriptors of such files, as many as it can: close one", FDS);
	pthread_mutex_unlock(&files_lock);
	inside = false;
	errno = saved;
}
