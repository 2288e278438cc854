/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric: one sealed memory file that the processes of one user share, its members, its allocator, the detection of dead
 * processes, sleeping and waking. Files call downwards (tests/unit/layers.sh), from the lowest:
 *
 *     descriptors.c  descriptors, error texts      env.c     variables
 *     port.c         the port                      map.c     the mapping         fence.c  the heavy fence
 *     tap.c          the tap: trace, and faults of queues
 *     life.c         witnesses of a process's life           wake.c   sleeping and waking
 *     member.c       processes and threads         mailbox.c requests to proxies
 *     quiesce.c      quiescence
 *     alloc.c        memory, numbers, keys         common.c  memory that belongs to no process
 *     proxy.c        the proxy thread              cma.c     whether a proxy is needed
 *     file.c         the file    find.c   finding it by name    inject.c   events of shcactl inject
 *     fabric.c       a process joins and leaves
 *
 * Nothing here is global: a process (or, in tests, a virtual process) is a struct shca_member, and each of its threads a struct
 * shca_thread. Internal functions return 0 or a negative errno.
 */
#ifndef SHCA_FABRIC_H
#define SHCA_FABRIC_H

#include <errno.h>
#include <stdio.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "shca/fabric/layout.h"

/* Under sanitizers threads need larger stacks, and the mapping's bookkeeping must stay small. gcc and clang announce a
 * sanitizer differently. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHCA_TSAN 1
#elif __has_feature(address_sanitizer)
#define SHCA_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(SHCA_TSAN)
#define SHCA_TSAN 1
#endif
#if (defined(__SANITIZE_ADDRESS__) || defined(SHCA_TSAN)) && !defined(SHCA_SANITIZED)
#define SHCA_SANITIZED 1
#endif

/* Functions of shca.h of which one copy in the process is enough: exported where SHCA_EXPORT is defined (libshca). */
#ifdef SHCA_EXPORT
#define SHCA_PUBLIC __attribute__((visibility("default")))
#else
#define SHCA_PUBLIC
#endif

struct shca_thread;

/* A descriptor that the application may have closed, so that the number may belong to another file. */
struct shca_fd {
	int n;				/* -1: none */
	uint64_t dev, ino;
};

/* Abilities that this process's device lacks (SHCA_BEHAVE). Each lack is real: programs that must not count on the ability can
 * be tried. */
enum shca_behave {
	SHCA_BEHAVE_ASYNC = 1 << 0,	/* a post only writes the request: the helper thread runs it */
	SHCA_BEHAVE_NOARENA = 1 << 1,	/* no memory is given out that peers reach */
	SHCA_BEHAVE_NOODP = 1 << 2,	/* only registered memory is reached */
	SHCA_BEHAVE_NOORDER = 1 << 3,	/* the end of a write lands before the rest */
	SHCA_BEHAVE_NOSEQUENCE = 1 << 4,	/* of two writes that wait in a queue the second lands first; includes ASYNC */
	SHCA_BEHAVE_NOWAKE = 1 << 5,	/* a write wakes no process */
};

struct shca_member {
	char *base;			/* where the fabric is mapped here */
	struct shca_header *hdr;
	uint64_t bytes;			/* length of the mapping */
	/* end of the usable part of the mapping: the file's length when last read; the file may have grown since */
	_Atomic uint64_t end;
	struct shca_fd fd;		/* of the fabric file */
	uint32_t slot;			/* of this process */
	struct shca_proc_slot *proc;
	struct shca_proc_slot *procs;
	struct shca_thread_slot *threads;
	_Atomic uint64_t *qp_segs, *mr_segs;
	uint32_t behave;		/* bits of enum shca_behave */
	bool lenient;			/* SHCA_LENIENT: receives are taken in RESET */
	bool copies_alone;		/* SHCA_SHARE=no: long copies are not divided (engine/share.c) */
	bool virtual_process;		/* tests: several members in one address space, no record locks */
	bool fences;			/* copy of hdr->fences */
	bool forked;			/* this is the child of a fork: the fabric is not mapped here, no field may be used */
	uint64_t id;			/* unique in this process; 0 once the member may not be used (left, or after fork) */
	void *life_page;		/* life.c: holds the life lock */
	struct shca_heap *heap;		/* alloc.c; with a lock inside */
	struct shca_helper *_Atomic helper;	/* engine/helper.c: the helper thread, started when first needed */
	int (*helper_start)(struct shca_member *m);	/* starts the helper thread, if not running; set by shca_engine_attach */
	struct shca_sockets *sockets;	/* wake.c */
	struct shca_proxy *proxy;	/* proxy.c; NULL while the kernel lets peers in */
	/* cma.c: by process slot, the generation of the slot's user to whose private memory the kernel refused this process
	 * access; NULL: no refusal so far. Written by any thread. */
	_Atomic uint32_t *_Atomic denied;
	_Atomic uint32_t proxied;	/* cma.c: copies by peers' proxies since the first refusal */
	struct shca_fd name_fd;		/* the socket whose name has this member's pid and the fabric's descriptor */
	struct shca_mapping *mapping;	/* fabric.c: shared by the virtual processes of one address space */
	struct shca_thread *thrs;	/* threads of this member; member.c's lock */
	struct shca_member *next;	/* members of this process; member.c's lock */
	pthread_mutex_t mutex;		/* of the device's lists (verbs); the fabric and the engine never take it */
	void *local;			/* numbers to verbs objects of this process */
	_Atomic bool awaits;		/* wake.c: the process has prepared to sleep until a peer writes to it */
	_Atomic bool events_again;	/* engine/helper.c: the process must look at the events again */
	_Atomic uint64_t shares;	/* share.c: list of jobs whose threads have ended */
	_Atomic uint32_t looks;		/* share.c: looks at other processes' copies since this process's last own copy */
	shca_off *cross;		/* this process's cross-channel queues, which pollers may steal */
	uint32_t cross_n, cross_cap;
};

/* A thread of a member, as seen by the engine. */
struct shca_thread {
	struct shca_member *m;
	char *base;			/* copy of m->base */
	uint32_t slot;			/* thread slot */
	uint32_t depth;			/* nesting of enter: only the outermost is visible */
	uint64_t where;			/* inside whose objects the thread is: as in the slot's `active` */
	struct shca_thread_slot *t;
	shca_off todo;			/* queues that this thread locked TODO, linked by the private array below */
	struct shca_todo *todo_items;
	uint32_t todo_n, todo_cap;
	uint32_t budget;		/* requests that shca_drain may still run */
	struct shca_wakeup *wakeups;	/* wake-ups to be delivered on leave */
	uint32_t wake_n, wake_cap;
	uint64_t rng;			/* state of the random numbers of fault injection */
	struct shca_late *late;		/* fault injection: a delayed datagram; NULL until the first */
	uint32_t *members;		/* queues to which the datagram or frame that is being run goes */
	uint32_t members_cap;
	const uint64_t *group;		/* GID of that group while a copy is being delivered; else NULL */
	bool sharing;			/* in a divided copy: no second one is begun inside */
	bool tapped;			/* inside exec_tapped (engine/exec.c): the look-up goes past the tap */
	uint64_t again;			/* the tap: when a request that is held back is looked at again; 0:
					 * nothing is held back */
	char *bounce;			/* 64 KiB, for copies from private to private memory, and to the arena (shca_fetch) */
	char *calc;			/* operands and results of CALC; NULL until the first */
	char *frame;			/* the Ethernet frame that is being run; NULL until the first */
	struct shca_reaping *reaping;	/* reap.c: dead processes that this thread cleans up after */
	bool in_reap, helper;		/* in_reap: inside shca_reap_on; helper: the helper thread */
	struct shca_thread *next;		/* of the member */
};

/* ---- failpoints: compiled in for tests only ----------------------------------------------------------------- */
#ifdef SHCA_FAILPOINTS
void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op);
#define SHCA_FAILPOINT(thr, name, qp, op) shca_failpoint(thr, name, qp, op)
#else
#define SHCA_FAILPOINT(thr, name, qp, op) ((void)0)
#endif

struct shca_todo {
	shca_off qp;
};
enum shca_wake_kind { SHCA_WAKE_CHANNEL, SHCA_WAKE_ASYNC, SHCA_WAKE_FUTEX };
struct shca_wakeup {
	uint32_t kind;
	shca_off obj;			/* CQ offset (CHANNEL), process slot (ASYNC, FUTEX) */
};

/* "shca: <text>" on standard error, one line. */
void shca_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- fabric.c --------------------------------------------------------------------------------------------- */

/* Joins the named fabric; creates the fabric if there is none. name NULL: SHCA_FABRIC_FD, SHCA_FABRIC, else "default". A name
 * belongs to a user: 1 to 63 of [A-Za-z0-9._+:-]. Returns 0; -EACCES: a fabric of another user; -EPROTO: another layout
 * version; -EXDEV: the members are in another PID or network namespace; -EBUSY: this process is a member already; -ETIMEDOUT:
 * another process is stuck in the middle of joining. Each with text on stderr. *m is overwritten. */
int shca_fabric_join(struct shca_member *m, const char *name);
/* Makes a fabric without being a member of it; the name must be unique. Returns the fabric's descriptor (close-on-exec) or
 * -errno. Launchers call shca_create_fabric (shca.h). */
int shca_fabric_create(const char *name);
/* For tests: a fabric in this address space, without a name; members that share it. */
int shca_fabric_anonymous(struct shca_member *m);
int shca_fabric_attach(struct shca_member *m, const struct shca_member *first);
/* For tests: a virtual process counts as dead from now on; the objects are left to the reaper. */
void shca_fabric_kill(struct shca_member *m);
/* Leaves in good order. Must: everything of this member is destroyed, the helper thread has ended. For a killed virtual
 * process, and in the child of a fork: frees only private memory. */
void shca_fabric_leave(struct shca_member *m);
/* For shcactl, which is no member: lists the fabrics of this user (free(*list)), or maps one by the descriptor of one
 * of its members. shca_fabric_unmap undoes the mapping. */
enum shca_map_flags {
	SHCA_MAP_READ_ONLY = 0,
	SHCA_MAP_WRITABLE = 1,
	SHCA_MAP_QUIET = 2,		/* no text about a file that is no fabric, or of another layout version */
};
struct shca_fabric_info { char name[64]; int pid; int fd; };
int shca_fabric_list(struct shca_fabric_info **list, size_t *n);
/* Returns true if another user has a fabric of this name; stores the user and a member. */
bool shca_fabric_of_others(const char *name, unsigned *uid, int *pid);
int shca_fabric_map(struct shca_member *m, const struct shca_fabric_info *info, enum shca_map_flags flags);
void shca_fabric_unmap(struct shca_member *m);
/* Maps the file at its present length, at another address: pointers into the old mapping end. Returns 0 or -errno. */
int shca_fabric_remap(struct shca_member *m);
/* Fault injection: "ud_drop=0.01,ud_dup=P,ud_reorder=P,seed=N". -EINVAL with text. */
int shca_fault_set(struct shca_header *h, const char *spec);

/* ---- tap.c ------------------------------------------------------------------------------------------------ */

static inline struct shca_tap *shca_tap_of(const struct shca_member *m)
{
	return (struct shca_tap *)(m->base + m->hdr->tap);
}
/* Returns true if the tap is on. Must: not on a hot path, where SHCA_TAPPED tells (layout.h). */
static inline bool shca_tap_on(const struct shca_member *m)
{
	return atomic_load_explicit(&shca_tap_of(m)->on, memory_order_acquire) != 0;
}
/* Stores SHCA_TAPPED of a slot: of a process that joins. */
void shca_tap_mark(struct shca_member *m, uint32_t slot);
/* The tracer, which is no member. shca_trace_start: traces the queues of a list that ends with 0 (NULL: all), with the first
 * `keep` bytes of each message. Returns 0; -EBUSY: another tracer is at work; -ENOSPC, -ENOMEM: no memory for the ring. */
int shca_trace_start(struct shca_member *m, const uint32_t *queues, uint32_t keep);
void shca_trace_stop(struct shca_member *m);
/* Renews the tracer's lease. Returns false if the trace has ended: the tracer was stopped for too long. */
bool shca_trace_renew(struct shca_member *m);
/* Takes the next record. Returns false if there is none. patient: false: passes over records whose writer is not done. */
bool shca_trace_take(struct shca_member *m, struct shca_trace_record *r, bool patient);
/* Must: called by an executor, which has found the lease over. */
void shca_trace_end(struct shca_member *m);
/* Faults of queues, by shcactl: "NAME=VALUE,..." with drop, dup, delay, rnr (probabilities), delay_us, seed. qpn: or
 * SHCA_FAULT_ALL. An entry without probabilities is freed. Returns 0; -EINVAL with text; -ENOSPC with text. */
int shca_fault_queue(struct shca_member *m, uint32_t qpn, const char *spec);
/* "drop" and so on; SHCA_FATE_NONE: "". */
const char *shca_fate_name(unsigned fate);

/* ---- port.c ---------------------------------------------------------------------------------------------- */

/* The ports of a new fabric. */
void shca_port_init(struct shca_ports *p);
/* Marks a slot of a process that joins: whether requests to it check their path. */
void shca_port_mark(struct shca_member *m, uint32_t slot);
/* Makes the change of a port known to executors: marks all slots, and ends remembered look-ups. Must: the change is stored. */
void shca_ports_changed(struct shca_member *m);
/* From here on port 2 is an address of the fabric: a process with two ports has joined. */
void shca_ports_are_two(struct shca_member *m);
/* Returns whether packets get from port a to port b (numbers from 1; others: no). */
bool shca_ports_connect(const struct shca_ports *p, uint32_t a, uint32_t b);
/* Leaves with port `from` what qp, which counts on port `to` from here on, has sent in this many packets. */
void shca_port_moved(const struct shca_member *m, const struct shca_qp *qp, uint32_t from, uint32_t to, uint64_t packets);
/* For shcactl, which is no member: injects an event of a port (1 or 2), and notifies every process of the fabric. value: NULL, or
 * the new value in text. Returns 0; -EINVAL with text. */
int shca_port_inject(struct shca_member *m, uint32_t port, const char *event, const char *value);
/* Prints a line for each event that shca_port_inject knows. */
void shca_port_help(FILE *out);
static inline bool shca_device_broken(const struct shca_member *m)
{
	return unlikely(atomic_load_explicit(&m->hdr->ports.broken, memory_order_acquire) != 0);
}
/* I7: number may be wrong. */
static inline struct shca_port *shca_port_of(const struct shca_member *m, uint32_t number)
{
	return &m->hdr->ports.port[number == 2];
}
static inline uint16_t shca_lid(const struct shca_member *m, uint32_t port)
{
	return (uint16_t)atomic_load_explicit(&shca_port_of(m, port)->lid, memory_order_relaxed);
}
/* The packets in which an adapter would have sent the messages of a queue. */
static inline uint64_t shca_packets_of(const struct shca_qp *qp)
{
	return atomic_load(&qp->n_msgs) + (qp->mtu >= 256 ? atomic_load(&qp->n_bytes) / qp->mtu : 0);
}

/* Reports, once, an offset that lies beyond this member's mapping: under a small RLIMIT_AS a member maps only the fabric's
 * front. */
void shca_off_refused(const struct shca_member *m, shca_off off) __attribute__((cold));

static inline void *shca_at(const char *base, shca_off off)
{
	return (void *)(base + off);
}
/* shca_fits for an offset beyond m->end: reads the file's length again. */
bool shca_fits_by_now(const struct shca_member *m, shca_off off, uint64_t size) __attribute__((cold));
/* I7: an offset read from shared memory need not be right. Returns whether [off, off + size) can be accessed: it is mapped
 * here, and the file reaches that far. */
static inline bool shca_fits_seen(const struct shca_member *m, shca_off off, uint64_t size)
{
	uint64_t end = atomic_load_explicit(&m->end, memory_order_relaxed);

	/* Offset 0 is none: off - 1 is then beyond everything. Every member maps at least a chunk. */
	return likely(((__builtin_constant_p(size) && size <= SHCA_CHUNK) || size <= end) && off - 1 < end - size);
}
static inline bool shca_fits(const struct shca_member *m, shca_off off, uint64_t size)
{
	return shca_fits_seen(m, off, size) || shca_fits_by_now(m, off, size);
}
/* Returns the object at an offset from shared memory; NULL if there can be none: outside, or not on a line. */
static inline void *shca_at_checked(const struct shca_member *m, shca_off off, uint64_t size)
{
	return shca_fits(m, off, size) && !(off & (SHCA_LINE - 1)) ? m->base + off : NULL;
}
/* Returns the owner of the chunk in which an object lies, without reading the object: process slot + 1; 0: none. */
static inline uint32_t shca_owner(const struct shca_member *m, const void *obj)
{
	const _Atomic uint32_t *owner = (const _Atomic uint32_t *)(m->base + m->hdr->chunks);

	return atomic_load_explicit(&owner[(uint64_t)((const char *)obj - m->base) / SHCA_CHUNK], memory_order_relaxed);
}
/* Returns whether an object lies in a chunk of process `proc`, which the object names. Without this check an overwritten
 * process number would have the object's private addresses looked up in another process, perhaps in this one. */
static inline bool shca_owned(const struct shca_member *m, const void *obj, uint32_t proc)
{
	return shca_owner(m, obj) == proc + 1;
}
/* I7: returns the process of a thread number that was read from shared memory: process slot + 1; 0: none, or no such number. */
static inline uint32_t shca_thread_owner(const struct shca_member *m, uint64_t thread)
{
	return thread < SHCA_MAX_THREADS ? atomic_load(&m->threads[thread].owner) : 0;
}
/*
 * I7: a walk along a list of one process's objects, from the head in its slot and by links in the objects, in another process.
 * Every object must lie wholly in that process's chunks, so that no link leads into a third process's objects. A circular list
 * ends by Brent's method: the walk remembers the object at a power of two, and stops when it meets that object again.
 */
struct shca_list_walk {
	char *at;			/* NULL: before the first */
	const char *mark;
	shca_off first;
	uint64_t seen, lap;
	uint32_t slot;
};
/* Steps to the next object, of `size` bytes and with its link at offset `link`. Returns false at the end. */
static inline bool shca_list_next(const struct shca_member *m, struct shca_list_walk *w, uint64_t size, size_t link)
{
	shca_off off = w->at ? __atomic_load_n((const shca_off *)(w->at + link), __ATOMIC_ACQUIRE) : w->first;

	w->at = shca_at_checked(m, off, size);
	if (!w->at || w->at == w->mark || !shca_owned(m, w->at, w->slot) || !shca_owned(m, w->at + size - 1, w->slot))
		return false;
	if (w->seen++ == w->lap) {
		w->mark = w->at;
		w->lap = 2 * w->seen;
	}
	return true;
}
/* Visits the objects. head: the slot's word; type: the object's. The body must not break. */
#define shca_for_each_listed(m, type, var, of, head)                                                                         \
	for (struct shca_list_walk walk_##var = {.slot = (of), .first =                                                      \
			     __atomic_load_n((const shca_off *)&(m)->procs[(of)].head, __ATOMIC_SEQ_CST)};                  \
	     shca_list_next(m, &walk_##var, sizeof(struct type), offsetof(struct type, next));)                              \
		for (struct type *var = (struct type *)(void *)walk_##var.at; var; var = NULL)
/* Returns whether an offset in one of the fabric's tables, which are trusted, lies in this member's mapping. The offset was
 * made by another member. */
static inline bool shca_off_here(const struct shca_member *m, shca_off off)
{
	if (likely(off < m->bytes))
		return true;
	shca_off_refused(m, off);
	return false;
}
static inline shca_off shca_off_of(const struct shca_member *m, const void *p)
{
	return (shca_off)((const char *)p - m->base);
}
static inline bool shca_in_arena(const struct shca_member *m, const void *p, uint64_t len)
{
	return (const char *)p >= m->base && (uint64_t)((const char *)p - m->base) < m->bytes &&
	       len <= m->bytes - (uint64_t)((const char *)p - m->base);
}

/* ---- alloc.c ---------------------------------------------------------------------------------------------- */

/* Allocates zeroed memory of this member in the fabric, 64-byte aligned (page-aligned from 4096 bytes on), backed by real pages
 * before the call returns (no SIGBUS later). Returns 0 with errno ENOMEM. */
shca_off shca_mem_alloc(struct shca_member *m, uint64_t bytes);
/* Returns whether anything was ever allocated at this offset or beyond. *owner: of the chunk there: process slot + 1; 0: the
 * chunk is free; or SHCA_OWNER_TABLES: the header and the tables are there. */
#define SHCA_OWNER_TABLES UINT32_MAX
bool shca_mem_owner(const struct shca_member *m, uint64_t offset, uint32_t *owner);
/* bytes: as given to shca_mem_alloc. off 0: does nothing. */
void shca_mem_free(struct shca_member *m, shca_off off, uint64_t bytes);
/* Whole chunks of SHCA_COMMON, for shca_alloc_kept: no reaper frees them. Returns 0 with errno without memory. */
shca_off shca_mem_alloc_kept(struct shca_member *m, uint64_t bytes);
void shca_mem_free_kept(struct shca_member *m, shca_off off, uint64_t bytes);
/* shca_mem_hide takes the number and region segments of a dead process out of the tables. After a quiesce for that process
 * shca_mem_reap gives back the thread slots and chunks (holes are punched). Must: the caller is the process's only reaper.
 * Restartable. */
void shca_mem_hide(struct shca_member *m, uint32_t slot);
void shca_mem_reap(struct shca_member *m, uint32_t slot);
/* Adds a queue's counters to the fabric's totals, when the queue is destroyed (a dead process's queues: shca_mem_hide). */
void shca_account(struct shca_member *m, const struct shca_qp *qp);

/* Allocate and free queue numbers (24 bits; QP, SRQ, CQ share them) and region keys. Numbers of a process are reused first-in
 * first-out. Return 0 with errno ENOMEM. */
uint32_t shca_number_alloc(struct shca_member *m);
void shca_number_free(struct shca_member *m, uint32_t number);
void shca_number_set(struct shca_member *m, uint32_t number, enum shca_kind kind, shca_off obj);
/* Returns a free region entry. The key (index << 8 | generation) is in *key but not yet in the entry: set fields, then key. */
struct shca_mr *shca_mr_alloc(struct shca_member *m, uint32_t *key);
void shca_mr_free(struct shca_member *m, struct shca_mr *mr);

/* Returns the object that is entered under this number; NULL: there is none. I7: the object must name the same number, so that
 * an overwritten entry leads to no object, and never to one of another kind. */
static inline void *shca_number_get(const struct shca_member *m, uint32_t number, enum shca_kind kind)
{
	const size_t said = kind == SHCA_KIND_CQ ? offsetof(struct shca_cq, cqn) :
			    kind == SHCA_KIND_SRQ ? offsetof(struct shca_rq, number) : offsetof(struct shca_qp, qpn);
	const size_t size = kind == SHCA_KIND_CQ ? sizeof(struct shca_cq) :
			    kind == SHCA_KIND_SRQ ? sizeof(struct shca_rq) : sizeof(struct shca_qp);
	shca_off seg = atomic_load_explicit(&m->qp_segs[(number >> 8) & (SHCA_QP_SEGS - 1)], memory_order_acquire);

	if (unlikely(seg - 1 >= m->bytes)) {
		(void)(seg && shca_off_here(m, seg));
		return NULL;
	}
	uint64_t e = atomic_load_explicit((shca_dirent *)(m->base + seg) + (number & (SHCA_QP_SEG - 1)),
					  memory_order_acquire);
	/* as numbers: of an entry that is 0 the sum lies before the base, and is not used */
	char *p = (char *)((uintptr_t)m->base + (e - kind));
	/* the kind is less than the distance of two objects */
	if (unlikely(e >= atomic_load_explicit(&m->end, memory_order_relaxed) - (size - 8)) &&
	    !shca_fits_by_now(m, e - kind, size))
		return NULL;
	return (e & (SHCA_LINE - 1)) == kind && *(const uint32_t *)(const void *)(p + said) == number ? p : NULL;
}
/* Returns the segment of numbers at this index of the table if process `proc` owns it, else NULL. */
static inline struct shca_numbers *shca_numbers_of(const struct shca_member *m, uint32_t index, uint32_t proc)
{
	shca_off seg = atomic_load_explicit(&m->qp_segs[index & (SHCA_QP_SEGS - 1)], memory_order_acquire);
	struct shca_numbers *n = seg ? shca_at_checked(m, seg, sizeof(*n)) : NULL;

	/* a segment of common queue pairs has entries only */
	return n && proc != SHCA_COMMON && shca_owned(m, n, proc) ? n : NULL;
}
/* Returns the entry of a region, by its key's index; NULL: there is none, or none mapped here. */
static inline struct shca_mr *shca_mr_entry(const struct shca_member *m, uint32_t index)
{
	shca_off seg = atomic_load_explicit(&m->mr_segs[(index / SHCA_MR_SEG) & (SHCA_MR_SEGS - 1)], memory_order_acquire);
	if (!seg || !shca_off_here(m, seg))
		return NULL;
	return (struct shca_mr *)(m->base + seg) + (index & (SHCA_MR_SEG - 1));
}
/* Returns the region of a key, or NULL. The caller checks domain, access and bounds. */
static inline struct shca_mr *shca_mr_get(const struct shca_member *m, uint32_t key)
{
	struct shca_mr *mr = shca_mr_entry(m, key >> 8);

	return mr && atomic_load_explicit(&mr->key, memory_order_acquire) == key ? mr : NULL;
}

/* ---- common.c --------------------------------------------------------------------------------------------- */

/* Places of common queue pairs. shca_common_take returns a free place, locked by this thread (SHCA_JOB_MAKE), zeroed, with a
 * number under which nothing is entered; NULL: no memory, reported. shca_common_put frees the place and gives up the lock. */
struct shca_common_qp *shca_common_take(struct shca_thread *thr);
void shca_common_put(struct shca_common_qp *c);
/* Returns the next place, free ones included; NULL: that was the last. *w begins as {0}. */
struct shca_common_walk {
	uint32_t segment, place;
};
struct shca_common_qp *shca_common_next(const struct shca_member *m, struct shca_common_walk *w);

/* ---- member.c --------------------------------------------------------------------------------------------- */

/* The member, and its thread, that the calling thread used last. Initial-exec: no call to find the variable, even in a dlopened
 * library. */
struct shca_tls {
	uint64_t id;			/* of the member */
	struct shca_thread *thr;
};
extern __thread struct shca_tls shca_tls __attribute__((tls_model("initial-exec"), visibility("hidden")));
struct shca_thread *shca_thread_get_slow(struct shca_member *m);
/* Starts a thread of the library, in which no signal of the program is handled. stack: bytes that it needs beyond the least of a
 * thread, and beyond sanitizers' need. */
int shca_start_thread(pthread_t *thread, size_t stack, void *(*run)(void *), void *arg);
/* Returns the struct shca_thread of the calling thread in this member, made on first use and released when the thread ends.
 * NULL with errno (ESTALE: the member belongs to the parent of a fork, or was left). */
static inline struct shca_thread *shca_thread_get(struct shca_member *m)
{
	if (likely(shca_tls.id == m->id && m->id))
		return shca_tls.thr;
	return shca_thread_get_slow(m);
}
/* For virtual processes and tests: thread structures made and freed explicitly. */
struct shca_thread *shca_thread_new(struct shca_member *m);
void shca_thread_free(struct shca_thread *thr);

/* Returns whether the process in a slot can still store. One system call. Where this thread cannot look (the application has
 * closed the descriptor), every process counts as alive: the helper thread can look. */
bool shca_proc_alive(struct shca_member *m, uint32_t slot);
/* Returns whether a look-up that ends at the process needs a second look: the process is dying (shca_proc_dying), reached
 * by a path that has to be checked (SHCA_BY_PATH), or tapped (SHCA_TAPPED). One load. */
static inline bool shca_proc_unwell(const struct shca_member *m, uint32_t slot)
{
	const union {
		struct {
			uint32_t revoke_epoch, life;
		};
		uint64_t valid_word;
	} bad = {{.revoke_epoch = SHCA_BY_PATH | SHCA_TAPPED, .life = FUTEX_OWNER_DIED}};

	return unlikely((atomic_load_explicit(&m->procs[slot].valid_word, memory_order_relaxed) & bad.valid_word) != 0);
}
/* Returns whether the process has begun to die, so that waiting for an action of it is vain. Its threads may still store. One
 * load. */
static inline bool shca_proc_dying(const struct shca_member *m, uint32_t slot)
{
	return unlikely((atomic_load_explicit(&m->procs[slot].life, memory_order_relaxed) & FUTEX_OWNER_DIED) != 0);
}
/* The name of a process's job, if it has a rank. */
static inline char *shca_job_of(const struct shca_member *m, uint32_t slot)
{
	return m->base + m->hdr->jobs + (uint64_t)slot * SHCA_JOB_NAME;
}
static inline bool shca_proc_by_path(const struct shca_member *m, uint32_t slot)
{
	return atomic_load_explicit(&m->procs[slot].revoke_epoch, memory_order_relaxed) & SHCA_BY_PATH;
}
static inline bool shca_proc_tapped(const struct shca_member *m, uint32_t slot)
{
	return atomic_load_explicit(&m->procs[slot].revoke_epoch, memory_order_relaxed) & SHCA_TAPPED;
}
/* For a thread that waits for a thread of that process: returns whether the process can store no more, or its slot has another
 * user. */
static inline bool shca_proc_gone(struct shca_member *m, uint32_t slot)
{
	return (atomic_load(&m->procs[slot].state) & 255) != SHCA_PROC_LIVE || !shca_proc_alive(m, slot);
}
/* Makes this process the reaper of a dead process. Returns true: this process is now the reaper (also in place of a reaper that
 * died); false: the process in the slot is not dead, or a living process is reaping it. */
bool shca_proc_reap_begin(struct shca_member *m, uint32_t slot);
/* Ends the reaping: the slot is free for a next process. Must: the caller is the reaper (shca_proc_reap_begin). */
void shca_proc_reap_end(struct shca_member *m, uint32_t slot);
/* Stops the reaping before the end: another reaper begins again. */
void shca_proc_reap_give_up(struct shca_member *m, uint32_t slot);
/* Waits until every thread that was inside the engine, in objects of process `whose`, when the gate was closed, has left them
 * or died (I8). During the wait the caller itself counts as outside, so that two quiescing threads cannot wait for each other.
 * Must: the caller holds no pointers into other processes' objects across the call. */
void shca_quiesce(struct shca_thread *thr, uint32_t whose);
/* shca_quiesce in steps, for a caller that does other work meanwhile. shca_quiesce_begin: false: no memory, begin again later.
 * shca_quiesced: true, once: the wait is over. shca_quiesce_end gives the wait up. SHCA_NOBODY: only threads that may be inside
 * objects of any process. */
#define SHCA_NOBODY UINT32_MAX
#define SHCA_EVERYBODY (UINT32_MAX - 1)	/* as `whose`: all threads that are inside the engine */
struct shca_quiesce {
	struct shca_epoch_of {
		uint32_t thread;
		uint64_t seen;
	} *inside;
	uint32_t n, whose;
};
bool shca_quiesce_begin(struct shca_thread *thr, struct shca_quiesce *q, uint32_t whose);
bool shca_quiesced(struct shca_thread *thr, struct shca_quiesce *q);
void shca_quiesce_end(struct shca_quiesce *q);
/* shca_quiesce by a thread inside the engine, which gives up after some microseconds, because the thread that it waits for may
 * wait for it; another thread may continue. *at, *seen: how far the wait has come: slots of threads below *at are done, *seen is
 * the `active` word of the thread in slot *at, 0: not read so far. Both begin with 0. Must: a heavy fence precedes the first
 * call. Returns false: call again later. */
bool shca_quiesce_on(struct shca_thread *thr, uint32_t whose, uint32_t *at, uint64_t *seen);
static inline void shca_full_fence(void)
{
#if defined(SHCA_TSAN)
	/* The thread sanitizer's compilers refuse thread fences; its model follows the acquire and release operations around
	 * this fence. */
#if defined(__x86_64__)
	__asm__ volatile("mfence" ::: "memory");
#else
	__asm__ volatile("dmb ish" ::: "memory");
#endif
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}
/* The heavy side of an asymmetric fence: after the call, every other thread of the fabric has either seen this thread's earlier
 * stores or ordered its own before this thread's. Partner: shca_light_fence. */
void shca_heavy_fence(struct shca_member *m);
static inline void shca_light_fence(const struct shca_member *m)
{
	if (unlikely(m->fences))
		shca_full_fence();
	else
		atomic_signal_fence(memory_order_seq_cst);
}

/* Calls the helper thread (engine/helper.c) of any process. */
void shca_helper_call(struct shca_member *m, uint32_t slot);
/* Makes this process's helper thread, if there is one, look for dead processes now. */
void shca_helper_look(struct shca_member *m);

/* ---- proxy.c --------------------------------------------------------------------------------------------- */

/* Direction of a copy, as the caller sees the other memory. */
enum shca_copy_dir { SHCA_COPY_READ, SHCA_COPY_WRITE };
/* Order in which a copy's bytes appear. */
enum shca_order {
	SHCA_ANY_ORDER,			/* no reader looks at the data before the completion */
	SHCA_LAST_LINE_LAST,		/* data before its last 64 bytes, those before their last 8 (I5) */
};
/* Copies between memory mapped here and private memory of a process by that process's proxy thread, for pairs of which the
 * kernel forbids process_vm_*. Must be called inside the engine. Returns 0; -EFAULT; -ESRCH: the process died; -EPERM: that
 * process cannot start a proxy thread. */
int shca_proxy_copy(const struct shca_thread *thr, enum shca_copy_dir dir, uint32_t proc, uint64_t remote, char *local,
		    uint64_t n, enum shca_order order);
/* Asks a process to start a proxy thread, without waiting. */
void shca_proxy_ask(struct shca_member *m, uint32_t proc);
/* Starts this process's proxy thread if a requester has asked for it; otherwise one load. Must be called in every loop in which
 * a thread inside the engine waits for another process. */
void shca_proxy_serve(struct shca_member *m);
/* Cancels the requests of the dead process `dead` in all proxies' mailboxes (shca_proxy_cancel_at: in that of process `proc`).
 * Returns false if a proxy still runs one of them: call again. Any number of threads may call it. */
bool shca_proxy_cancel(struct shca_thread *thr, uint32_t dead);
bool shca_proxy_cancel_at(struct shca_member *m, uint32_t proc, uint32_t dead);

/* ---- cma.c ----------------------------------------------------------------------------------------------- */

/* Returns whether process_vm_* may be tried on the private memory of a process. Loads only. */
static inline bool shca_cma_permitted(const struct shca_member *m, uint32_t proc)
{
	const _Atomic uint32_t *denied = atomic_load_explicit(&m->denied, memory_order_acquire);

	proc &= SHCA_MAX_PROCS - 1;
	return m->proc->cma && m->procs[proc].cma &&
	       (likely(!denied) || atomic_load_explicit(&denied[proc], memory_order_relaxed) != atomic_load(&m->procs[proc].gen));
}
/* Returns whether process_vm_* failed with this errno because the kernel forbids it. */
static inline bool shca_cma_refused(int err)
{
	return err == EPERM || err == EACCES || err == ENOSYS;
}
/* Notes that the kernel refused process_vm_readv (SHCA_COPY_READ) or process_vm_writev of this process, with this errno: later
 * copies in either direction use its proxy. Reports once per fabric. */
void shca_cma_deny(struct shca_member *m, uint32_t proc, enum shca_copy_dir dir, int err);
/* Asks the kernel whether process_vm_* is permitted; if not, asks that process to start its proxy. Called for each process to
 * which this process connects. */
void shca_cma_probe(struct shca_member *m, uint32_t proc);
/* Counts a copy by the process's proxy; every so often forgets the refusal, so that the next copy asks the kernel again. */
void shca_cma_proxied(struct shca_member *m, uint32_t proc);

/* ---- wake.c ----------------------------------------------------------------------------------------------- */

/* Opens a datagram socket under an abstract name: the descriptor of a completion channel or of asynchronous events. Returns the
 * descriptor or -errno. */
int shca_bell_open(struct shca_member *m, char addr[32]);
/* Rings the bell at addr: makes the descriptor readable. Never blocks; a socket whose queue is full is readable anyway. */
void shca_bell_ring(struct shca_member *m, const char addr[32]);
/* Contents of a completion channel's ring: the event of CQ `cqn` with this sequence number, rung by thread `by`. */
struct shca_ring {
	uint32_t cqn, seq, by;
};
/* Reads one ring. Returns 1: read; 0: would block (O_NONBLOCK); negative errno. cqn 0: not a completion channel's ring. wait
 * false: does not block, with any flags of the descriptor. */
int shca_ring_read(int fd, bool wait, struct shca_ring *ring);
/* Sends the ring of a CQ's event, if this thread owes the ring. Must be called inside the engine. */
void shca_ring_event(struct shca_thread *thr, struct shca_cq *cq);
/* Makes this thread owe the ring of the event in `seen`. Returns false if the event has been read, or has another ringer. */
bool shca_ring_adopt(struct shca_thread *thr, struct shca_cq *cq, uint64_t seen);
/* Notes a wake-up, to be delivered before the outermost shca_leave is passed; the same wake-up twice counts once. */
void shca_wake_note(struct shca_thread *thr, uint32_t kind, shca_off obj);
/* Delivers the noted wake-ups; called on leave. */
void shca_wake_deliver(struct shca_thread *thr);
void shca_futex_wake(_Atomic uint32_t *word);
/* Returns 0: woken, or the word is not `seen` any more; -ETIMEDOUT; -EINTR. timeout_ns UINT64_MAX: for ever. */
int shca_futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);

/*
 * Sleeping until a peer writes to this process. The sleeper:
 *     seen = shca_sleep_prepare(m);
 *     look again; if there is something: shca_sleep_cancel(m), else shca_sleep_commit(m, seen, timeout)
 * The writer, a thread that stores into another process's memory, inside the engine:
 *     store; shca_note_write(thr, slot);
 * Fences: prepare's heavy fence pairs with the light one in shca_note_write: either the sleeper's second look sees the store,
 * or the writer sees `sleepers`.
 */
uint32_t shca_sleep_prepare(struct shca_member *m);
/* Returns 0: woken; -ETIMEDOUT; -EINTR. */
int shca_sleep_commit(struct shca_member *m, uint32_t seen, uint64_t timeout_ns);
void shca_sleep_cancel(struct shca_member *m);
void shca_sleep_interrupt(struct shca_member *m);	/* ends the sleeps of this process; async-signal-safe */
static inline void shca_note_write_to(struct shca_thread *thr, uint32_t slot)
{
	shca_light_fence(thr->m);
	if (unlikely(atomic_load_explicit(&thr->m->procs[slot].sleepers, memory_order_relaxed) != 0))
		shca_wake_note(thr, SHCA_WAKE_FUTEX, slot);
}
/* I7: for a slot that another process's object names. */
static inline void shca_note_write(struct shca_thread *thr, uint32_t slot)
{
	shca_note_write_to(thr, slot & (SHCA_MAX_PROCS - 1));
}

/* ---- the way in and out of the engine ---------------------------------------------------------------------- */

/*
 * A thread publishes whose objects it is inside of, so that a process that takes something away waits only for threads that may
 * be using that. SHCA_ANYWHERE is always true. A narrower value is a promise: of other processes' objects only those of the
 * named processes are touched, or read in the belief that they are still there. The process's own objects need not be named.
 * Widen before looking further, narrow once the processes are known (during a look-up the thread is in SHCA_ANYWHERE).
 */
#define SHCA_ANYWHERE 0ull
static inline uint64_t shca_epoch_of(uint32_t slot)
{
	return (uint64_t)(slot + 1) << 32;
}
static inline uint64_t shca_epoch_of_two(uint32_t a, uint32_t b)
{
	return (uint64_t)(a + 1) << 32 | (uint64_t)(b + 1) << 48;
}
static inline void shca_enter_in(struct shca_thread *thr, uint64_t where)
{
	if (thr->depth++ == 0) {
		uint32_t a = (uint32_t)atomic_load_explicit(&thr->t->active, memory_order_relaxed);
		atomic_store_explicit(&thr->t->active, (a + 1) | where, memory_order_relaxed);
		thr->where = where;
		/* pairs with the heavy fence of shca_quiesce */
		shca_light_fence(thr->m);
	} else if (thr->where != where && thr->where != SHCA_ANYWHERE) {
		atomic_store_explicit(&thr->t->active, (uint32_t)atomic_load_explicit(&thr->t->active, memory_order_relaxed),
				      memory_order_relaxed);
		thr->where = SHCA_ANYWHERE;
		shca_light_fence(thr->m);
	}
}
static inline void shca_enter(struct shca_thread *thr)
{
	shca_enter_in(thr, SHCA_ANYWHERE);
}
/* Widens the thread's section to SHCA_ANYWHERE; at a deeper nesting the outer sections with it. */
static inline void shca_epoch_widen(struct shca_thread *thr)
{
	if (thr->where == SHCA_ANYWHERE)
		return;
	atomic_store_explicit(&thr->t->active, (uint32_t)atomic_load_explicit(&thr->t->active, memory_order_relaxed),
			      memory_order_relaxed);
	thr->where = SHCA_ANYWHERE;
	shca_light_fence(thr->m);
}
static inline void shca_epoch_narrow(struct shca_thread *thr, uint64_t where)
{
	thr->where = where;
	uint32_t a = (uint32_t)atomic_load_explicit(&thr->t->active, memory_order_relaxed);
	atomic_store_explicit(&thr->t->active, a | where, memory_order_release);
}
static inline void shca_leave(struct shca_thread *thr)
{
	if (--thr->depth == 0) {
		/* Still inside: objects that are woken must not be freed before, and no ring may come after its CQ is gone. */
		if (unlikely(thr->wake_n != 0))
			shca_wake_deliver(thr);
		uint32_t a = (uint32_t)atomic_load_explicit(&thr->t->active, memory_order_relaxed);
		atomic_store_explicit(&thr->t->active, a + 1, memory_order_release);
	}
}

/* Enter and leave for a thread that is known to be outside and notes no wake-ups. shca_leave_first takes the return value of
 * shca_enter_first. */
static inline uint32_t shca_enter_first(struct shca_thread *thr, uint64_t where)
{
	uint32_t a = (uint32_t)atomic_load_explicit(&thr->t->active, memory_order_relaxed);
	atomic_store_explicit(&thr->t->active, (a + 1) | where, memory_order_relaxed);
	/* pairs with the heavy fence of shca_quiesce */
	shca_light_fence(thr->m);
	return a;
}
static inline void shca_leave_first(struct shca_thread *thr, uint32_t a)
{
	atomic_store_explicit(&thr->t->active, a + 2, memory_order_release);
}

/* ---- between the files of the fabric only ---------------------------------------------------------------------- */

struct stat;
/* Paths of the memory cgroup files; tests set other trees. */
extern const char *shca_cgroup_self, *shca_cgroup_v1, *shca_cgroup_v2;
int shca_heap_init(struct shca_member *m);
void shca_heap_free(struct shca_member *m);		/* private memory only */
void shca_heap_return(struct shca_member *m);		/* leaving: segments, then chunks */
int shca_common_grow(struct shca_member *m);		/* another chunk of common places. 0, or -ENOMEM with text */
const struct shca_fd *shca_ringer(const struct shca_member *m);	/* the socket that rings bells */
int shca_sockets_init(struct shca_member *m);
void shca_sockets_free(struct shca_member *m);
int shca_proc_claim(struct shca_member *m);		/* a slot, the life lock, LIVE */
void shca_proc_release(struct shca_member *m);
bool shca_member_has(uint64_t dev, uint64_t ino);	/* whether this process is a member of that file's fabric */
/* life.c. Opens a description of the fabric's file for the life lock, and maps a page. Must be closed by shca_life_close
 * before any thread can fork. */
int shca_life_open(struct shca_member *m);
void shca_life_close(struct shca_member *m, int fd);
int shca_life_lock(struct shca_member *m, int fd, uint32_t slot, bool take);	/* 0, -EAGAIN: another process holds it, -errno */
void shca_life_drop(struct shca_member *m);
bool shca_life_held(struct shca_member *m, uint32_t slot);
int shca_life_word_take(struct shca_member *m);		/* for the calling thread */
void shca_life_word_drop(struct shca_member *m);
/* descriptors.c */
struct shca_fd shca_fd_note(int n);			/* of a descriptor that was just opened; -1 stays -1 */
/* whether the number still stands for the noted file in this thread's table */
bool shca_fd_ours(const struct shca_fd *fd);
void shca_fd_close(struct shca_fd *fd);			/* only if shca_fd_ours */
/* Returns the limit that an errno may come from, in parentheses behind a blank, for error texts; "": none. */
const char *shca_limit_of(int err);
/* Whether the number of a timer, which `epoll` watches with the event e, still stands for that timer. */
struct epoll_event;
bool shca_timer_ours(int epoll, int timer, struct epoll_event *e);
/* Returns a descriptor of the fabric's file, to be given back by shca_file_put; -1: the application has closed the file, and no
 * other thread has it. */
int shca_file_get(struct shca_member *m);
void shca_file_put(struct shca_member *m, int fd);
/* Gives the calling thread a descriptor table of its own: with `keep` (ascending), and what the thread opens later. Returns 0
 * or -errno. */
int shca_own_descriptors(const int *keep, int n);
int shca_stderr(void);					/* the caller must close the descriptor unless it is STDERR_FILENO; -1:
							 * none */
int shca_member_register(struct shca_member *m);
/* Registers the handlers of fork() that take the lists' lock. Must: before the handlers of a lock under which that one is taken,
 * because fork() calls the handlers that take locks in the reverse order. Returns 0 or -errno. */
int shca_member_fork_handlers(void);
void shca_member_unregister(struct shca_member *m);
void shca_quiesce_all(struct shca_member *m, struct shca_thread *self, uint32_t whose);
void shca_threads_release(struct shca_member *m, uint32_t slot);
/* fence.c */
bool shca_membarrier_missing(void);
/* A second registration does nothing. In a process of several threads the first one waits for a grace period of the kernel's
 * RCU. */
int shca_membarrier_register(void);
bool shca_under_valgrind(void);
/* file.c. Makes a file for `span` bytes of the fabric, for one process or for virtual ones. Returns its descriptor, or a negative
 * errno with text. */
int shca_file_create(const char *name, uint64_t span, bool virtual_procs);
/* Whether this process is in the namespaces of the fabric: members reach each other's memory by pid and wake each other by
 * abstract sockets. Returns 0, or -EXDEV with text. */
int shca_file_namespaces(const struct shca_header *h);
/* map.c. exactly: bytes to map; 0: as much as reserve_wanted says, at least the front. */
int shca_map_file(struct shca_member *m, int fd, int prot, uint64_t exactly);
/* Of shcactl: maps `bytes`, if the file has grown to that, in place of the old mapping. */
int shca_map_grown(struct shca_member *m, int prot, uint64_t bytes);
void shca_map_end(struct shca_member *m);
uint32_t shca_segments_used(const struct shca_member *m, bool regions);
int shca_cma_judge(struct shca_member *m);
void shca_cma_free(struct shca_member *m);		/* frees `denied`; called when leaving */
int shca_proxy_check(struct shca_member *m);
int shca_proxy_start(struct shca_member *m);
void shca_proxy_stop(struct shca_member *m);
bool shca_cma_possible(const char **why);
/* env.c: variables of vars.def, by type. A value that is not understood is reported on stderr, and the default used. dflt:
 * replaces the listed default, unless NULL. */
bool shca_env_bool(const char *name);
uint64_t shca_env_bytes(const char *name, const char *dflt);
uint32_t shca_env_ms(const char *name);
/* "0.01", up to `end`, in units of 2^-32. Returns false if that is no probability. */
bool shca_probability(const char *s, const char *end, uint32_t *out);
/* Returns a bit for each of the n words that a comma list names. */
uint32_t shca_env_words(const char *name, const char *const words[], unsigned n);
/* SHCA_BEHAVE: bits of enum shca_behave. */
uint32_t shca_env_behave(void);
/* find.c */
int shca_name_check(const char *name);
int shca_lock_take(const char *name, int *lock_fd);
int shca_name_publish(const char *name, int fd);
/* Returns a descriptor of the fabric's file; -ENOENT: there is none; other errors: refused, with text. */
int shca_find(const char *name, bool explicit_name);
/* Checks whether a descriptor is a fabric's file of this user. Returns 0; -ENOTTY: no fabric at all; -EACCES, -EPROTO with
 * text. */
int shca_fabric_verify(int fd, const char *name, bool quiet);

#endif
