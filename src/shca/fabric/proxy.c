/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proxy: a thread of a process that copies to and from that process's private memory, where the kernel forbids
 * process_vm_readv and process_vm_writev (cma.c).
 *
 *     requester                      slot in the owner's mailbox           owner's proxy thread
 *     claims a slot                  FREE -> CLAIMED
 *     fills in request (and data)    CLAIMED -> PENDING, calls++  ------>  PENDING -> RUNNING
 *     sleeps on the slot                                                   copies
 *     takes the result (and data)    DONE -> FREE                 <------  RUNNING -> DONE
 *
 * Slots and data lie in the owner's chunks: the death of a requester leaves a complete request, which the proxy would carry out
 * at the next look. So a thread that is about to take a dead requester for one that stores no more must cancel the request
 * first (shca_proxy_cancel): the reaper, before it decides the outcome of the requester's work; the thread that takes over the
 * lock of the requester's atomic; and the owner of the memory, when it waits until no thread stores there (shca_quiesce).
 * Several may cancel at once: state, requester and number of a request are one word, changed by compare-and-swap, so that a
 * late canceller finds another number and cancels no newer request.
 *
 * The proxy only copies and never enters the engine, so two processes may each wait for the other's proxy.
 *
 * A process starts the proxy when joining without CMA, or when a requester asks:
 *
 *     requester (open_mailbox)                  owner (shca_proxy_serve)
 *     proxy_wanted = WANTED, helper called ->   its helper thread, or any of its threads that waits inside the engine,
 *     sleeps on proxy_wanted               <-   starts the proxy, stores `mailbox`, then proxy_wanted = NONE or FAILED
 *
 * Any waiting thread, since the helper alone would not do: 1. A thread of P holds the lock of an atomic and asks Q for its
 * proxy. 2. Q's helper thread waits for that lock. So every loop in which a thread waits inside the engine for another process
 * must call shca_proxy_serve.
 *
 * The proxy copies by pread and pwrite on the fabric's file: then an address that is not mapped is an error, not a signal. For
 * that reason a thread copies to and from its own process's private memory in the same way, through its mailbox's `own`.
 *
 * A stopped owner delays its requesters, and every thread that waits for these to leave the engine: this lane's price. There is
 * no time limit, since to stop a process in a debugger must not fail its peers' requests.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "shca/fabric/mailbox.h"
#include "shca/fabric/memcheck.h"

/* interval at which a waiting requester checks whether the owner lives, and whether its own proxy is wanted */
#define LOOK_NS 100000000u
/* the same while a requester waits for a proxy to be started: two processes may wait for each other */
#define SERVE_NS 10000000u

struct shca_proxy {
	pthread_t thread;
	shca_off off;
	pthread_mutex_t own;		/* of the mailbox's `own`; no thread waits for an event under it */
};

/* ---- the owner ------------------------------------------------------------------------------------------------- */

static int copy_file(struct shca_member *m, enum shca_copy_dir dir, uint64_t addr, uint64_t off, uint64_t len)
{
	/* where the proxy shares the application's descriptors, the number may be another file's */
	if (!shca_fd_ours(&m->fd))
		return -EBADF;
	while (len) {
		ssize_t n = dir == SHCA_COPY_WRITE ? pread(m->fd.n, (void *)(uintptr_t)addr, len, (off_t)off) :
						     pwrite(m->fd.n, (const void *)(uintptr_t)addr, len, (off_t)off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EFAULT;
		addr += (uint64_t)n;
		off += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* Copies a piece. Returns 0, -EFAULT, or -EBADF: this thread has no descriptor of the fabric's file. */
static int copy_piece(struct shca_member *m, enum shca_copy_dir dir, uint64_t addr, const char *data, uint64_t len,
		      enum shca_order order)
{
	shca_off off = shca_off_of(m, data);
	uint64_t tail = dir == SHCA_COPY_WRITE && order == SHCA_LAST_LINE_LAST && len > 64 ? 64 : 0;
	int err = copy_file(m, dir, addr, off, len - tail);

	return err || !tail ? err : copy_file(m, SHCA_COPY_WRITE, addr + len - tail, off + len - tail, tail);
}

/* copy_piece for any thread of the owner, to or from `local`, which may be loaded and stored. */
static int proxy_copy_own(struct shca_member *m, enum shca_copy_dir dir, uint64_t addr, char *local, uint64_t n,
			  enum shca_order order)
{
	struct shca_mailbox *box = shca_at(m->base, m->proxy->off);

	if (shca_in_arena(m, local, n))
		return copy_piece(m, dir, addr, local, n, order);
	pthread_mutex_lock(&m->proxy->own);
	if (dir == SHCA_COPY_WRITE)
		memcpy(box->own, local, n);
	int err = copy_piece(m, dir, addr, box->own, n, order);
	if (dir == SHCA_COPY_READ && !err)
		memcpy(local, box->own, n);
	pthread_mutex_unlock(&m->proxy->own);
	return err;
}

static void serve(struct shca_member *m, struct mail_slot *s, const char *data)
{
	uint64_t w = atomic_load(&s->word);
	if (STATE(w) != MAIL_PENDING)
		return;
	SHCA_FAILPOINT(NULL, "mail-found", NULL, 0);
	/* meanwhile a dead requester's request may have been cancelled, and another requester's stand there */
	if (!atomic_compare_exchange_strong(&s->word, &w, in_state(w, MAIL_RUNNING)))
		return;
	SHCA_FAILPOINT(NULL, "mail-running", NULL, 0);
	/* I7: a copy of the length, since the requester can change the shared word between check and use */
	uint64_t len = *(volatile uint64_t *)&s->len;
	s->err = len > SHCA_MAIL_PIECE ? -EINVAL : copy_piece(m, s->dir, s->addr, data, len, s->order);
	atomic_store(&s->word, in_state(w, MAIL_DONE));
	shca_futex_wake(futex_of(s));
}

struct start {
	struct shca_member *m;
	struct shca_mailbox *box;
};

static void *proxy_main(void *arg)
{
	struct start s = *(struct start *)arg;
	free(arg);
	pthread_setname_np(pthread_self(), "shca-proxy");
	/* If the kernel refuses, changes by the application to its descriptors affect this thread's, too. */
	if (!s.m->virtual_process && shca_fd_ours(&s.m->fd))
		shca_own_descriptors(&s.m->fd.n, 1);
	for (;;) {
		uint32_t seen = atomic_load(&s.box->calls);
		if (atomic_load(&s.box->stop))
			return NULL;
		for (uint32_t i = 0; i < SHCA_MAIL_SLOTS; i++)
			serve(s.m, &s.box->slot[i], s.box->data[i]);
		shca_futex_wait(&s.box->calls, seen, UINT64_MAX);
	}
}

int shca_proxy_start(struct shca_member *m)
{
	int err = 0;
	static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&starting);
	if (m->proxy)
		goto out;
	struct shca_proxy *r = calloc(1, sizeof(*r));
	struct start *s = malloc(sizeof(*s));
	shca_off off = r && s ? shca_mem_alloc(m, sizeof(struct shca_mailbox)) : 0;
	if (!off) {
		err = -ENOMEM;
	} else {
		*s = (struct start){ m, shca_at(m->base, off) };
		r->off = off;
		pthread_mutex_init(&r->own, NULL);
		if ((err = shca_start_thread(&r->thread, 32 * 1024, proxy_main, s)))
			pthread_mutex_destroy(&r->own);
	}
	if (err) {
		shca_error("cannot start the proxy thread: %s (limit on processes: ulimit -u). Peers would not reach this "
			   "process's private memory, since the kernel forbids process_vm_readv or process_vm_writev",
			   strerror(-err));
		shca_mem_free(m, off, sizeof(struct shca_mailbox));
		free(s);
		free(r);
		goto out;
	}
	m->proxy = r;
	atomic_store(&m->proc->mailbox, off);
out:
	pthread_mutex_unlock(&starting);
	return err;
}

void shca_proxy_serve(struct shca_member *m)
{
	_Atomic uint32_t *wanted = &m->proc->proxy_wanted;
	uint32_t w = SHCA_PROXY_WANTED;

	if (likely(atomic_load_explicit(wanted, memory_order_acquire) != SHCA_PROXY_WANTED))
		return;
	/* Stored after the mailbox: a requester that reads NONE or FAILED and finds no mailbox gives up. */
	int err = shca_proxy_start(m);
	if (atomic_compare_exchange_strong(wanted, &w, err ? SHCA_PROXY_FAILED : SHCA_PROXY_NONE))
		shca_futex_wake(wanted);
}

/* Must: every process that could still ask has destroyed its queues, or sees this process as gone. */
void shca_proxy_stop(struct shca_member *m)
{
	struct shca_proxy *r = m->proxy;
	if (!r)
		return;
	if (!m->forked) {
		struct shca_mailbox *box = shca_at(m->base, r->off);
		atomic_store(&m->proc->mailbox, 0);
		shca_quiesce_all(m, NULL, m->slot);
		atomic_store(&box->stop, 1);
		atomic_fetch_add(&box->calls, 1);
		shca_futex_wake(&box->calls);
		pthread_join(r->thread, NULL);
		shca_mem_free(m, r->off, sizeof(*box));
		pthread_mutex_destroy(&r->own);		/* not in a forked child: a thread of the parent may have held it */
	}
	m->proxy = NULL;
	free(r);
}

/* ---- the requester --------------------------------------------------------------------------------------------- */

void shca_proxy_ask(struct shca_member *m, uint32_t proc)
{
	if (shca_mailbox_of(m, proc))
		return;
	atomic_store(&m->procs[proc].proxy_wanted, SHCA_PROXY_WANTED);
	shca_helper_call(m, proc);
}

/*
 * Returns the mailbox of a process; if no proxy runs there, asks for one and waits. NULL, with *err: -ESRCH: the process died;
 * -EPERM: the process cannot start the proxy. A stopped process delays the caller, as it would with a running proxy.
 */
static struct shca_mailbox *open_mailbox(const struct shca_thread *thr, uint32_t proc, int *err)
{
	_Atomic uint32_t *wanted = &thr->m->procs[proc].proxy_wanted;
	struct shca_mailbox *box = shca_mailbox_of(thr->m, proc);

	if (likely(box))
		return box;
	SHCA_FAILPOINT(NULL, "mail-asks", NULL, 0);
	shca_proxy_ask(thr->m, proc);
	for (;;) {
		uint32_t w = atomic_load(wanted);
		if ((box = shca_mailbox_of(thr->m, proc)))
			return box;
		if (w != SHCA_PROXY_WANTED || shca_futex_wait(wanted, w, SERVE_NS) == -ETIMEDOUT) {
			bool gone = shca_proc_gone(thr->m, proc);
			if (gone || w != SHCA_PROXY_WANTED) {
				*err = gone ? -ESRCH : -EPERM;
				return NULL;
			}
		}
		shca_proxy_serve(thr->m);
	}
}

/* Claims a free slot. Returns NULL with *err. */
static struct mail_slot *claim_slot(const struct shca_thread *thr, uint32_t proc, struct shca_mailbox *box, int *err)
{
	for (uint32_t round = 1;; round++) {
		bool look = round % 256 == 0;
		if (look)
			shca_proxy_serve(thr->m);
		if (look && shca_proc_gone(thr->m, proc)) {
			*err = -ESRCH;
			return NULL;
		}
		for (uint32_t k = 0; k < SHCA_MAIL_SLOTS; k++) {
			struct mail_slot *s = &box->slot[(thr->slot + k) % SHCA_MAIL_SLOTS];
			uint64_t w = atomic_load(&s->word);
			/* A dead requester's slot is claimed, too, and not waited for: its reaper may be this very thread,
			 * later. A request that the proxy is running is left to the proxy. */
			if ((STATE(w) == MAIL_FREE || (look && STATE(w) != MAIL_RUNNING && shca_mail_died(thr->m, w))) &&
			    atomic_compare_exchange_strong(&s->word, &w, next_request(w, thr->slot + 1)))
				return s;
		}
		sched_yield();
	}
}

static int one_piece(const struct shca_thread *thr, enum shca_copy_dir dir, uint32_t proc, uint64_t addr, char *local,
		     uint64_t n, enum shca_order order)
{
	int err = 0;
	if (proc == thr->m->slot) {
		/* the kernel has come to forbid process_vm_* since the process joined */
		if (!thr->m->proxy && (err = shca_proxy_start(thr->m)))
			return err;
		err = proxy_copy_own(thr->m, dir, addr, local, n, order);
		if (err != -EBADF)
			return err;
	}
	struct shca_mailbox *box = open_mailbox(thr, proc, &err);
	if (!box)
		return err;
	/* another process's chunk, in which this thread loads, stores and sleeps */
	shca_memcheck_own((char *)box, sizeof(*box));
	struct mail_slot *s = claim_slot(thr, proc, box, &err);
	if (!s)
		return err;
	char *data = box->data[s - box->slot];
	s->dir = dir;
	s->order = order;
	s->addr = addr;
	s->len = n;
	if (dir == SHCA_COPY_WRITE)
		memcpy(data, local, n);
	SHCA_FAILPOINT(NULL, "mail-claimed", NULL, 0);
	/* While the requester lives, only the requester changes a CLAIMED slot, and only the proxy a PENDING one. */
	uint64_t w = atomic_load(&s->word);
	atomic_store(&s->word, in_state(w, MAIL_PENDING));
	SHCA_FAILPOINT(NULL, "mail-pending", NULL, 0);
	atomic_fetch_add(&box->calls, 1);
	shca_futex_wake(&box->calls);
	while (STATE(w = atomic_load(&s->word)) != MAIL_DONE) {
		if (shca_futex_wait(futex_of(s), (uint32_t)w, LOOK_NS) == -ETIMEDOUT && shca_proc_gone(thr->m, proc))
			return -ESRCH;	/* all memory of the process is gone, the slot included */
		shca_proxy_serve(thr->m);
	}
	/* I7: `err` must be 0 or a negative errno */
	err = s->err > 0 ? -EIO : s->err;
	if (dir == SHCA_COPY_READ && !err)
		memcpy(local, data, n);
	SHCA_FAILPOINT(NULL, "mail-done", NULL, 0);
	atomic_store(&s->word, nobodys(w));
	return err;
}

int shca_proxy_copy(const struct shca_thread *thr, enum shca_copy_dir dir, uint32_t proc, uint64_t remote, char *local,
		    uint64_t n, enum shca_order order)
{
	while (n) {
		uint64_t k = n < SHCA_MAIL_PIECE ? n : SHCA_MAIL_PIECE;
		int err = one_piece(thr, dir, proc, remote, local, k, k == n ? order : SHCA_ANY_ORDER);
		if (err == -EPERM) {
			static _Atomic uint32_t reported;
			if (!atomic_exchange(&reported, 1))
				shca_error("the private memory of process %d (%.16s) is out of reach: the kernel forbids "
					   "process_vm_readv or process_vm_writev, and it cannot start a proxy thread (its "
					   "output says why: no memory, or ulimit -u)",
					   thr->m->procs[proc].pid, thr->m->procs[proc].comm);
		}
		if (err)
			return err;
		remote += k;
		local += k;
		n -= k;
	}
	return 0;
}
