/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of the users' memory. A device without paging on demand knows pages, not addresses: a registration that outlives
 * its message is right only as long as the same pages lie at its addresses. So it is kept only where the kernel tells when they no
 * longer do: the range is registered with userfaultfd, which reports munmap, mremap, madvise(DONTNEED, FREE, REMOVE), a new mapping
 * over the old one, and a heap that shrinks, whoever does it and whatever the allocator is. (Write-protect mode, with nothing
 * protected: no access of the program ever faults because of this. fork() is none of these events: the parent's pinned pages stay
 * the parent's.)
 *
 * Who unmaps waits in the kernel until its event has been *read*. So the thread that reads must never wait for anybody who may
 * unmap, which everybody may who allocates or frees:
 *
 * R1  The reader takes `lock` and nothing else, least of all the library's lock. It allocates and frees nothing, and calls nothing
 *     that might.
 * R2  Who has `lock` does nothing that could wait for the reader: no allocation, no free, no (un)mapping, no ioctl, no verb, no
 *     output. So `lock` is held for some steps in the tree, and everything else is done before or behind. (A signal's handler may
 *     run in between: nothing that POSIX lets a handler call unmaps.)
 * R3  The reader reads an event, and marks what it concerns, under one hold of `lock`. The kernel counts a change before the mapping
 *     goes, and counts it back only behind the reading. So who has seen no change under way (is_quiet) and then takes `lock` sees the
 *     marks of all changes that began before, those in which another thread still waits among them: its addresses are free, and
 *     may be a new buffer's, before there is an event to read. What is looked up is looked up in this order, and while a change
 *     is under way nothing is.
 * R4  A range is in the tree before it is watched and registered. An event that comes meanwhile marks it, and it is used for the
 *     one message whose buffer it was made for (which nobody may unmap), and then given up. It comes into the tree under the
 *     same hold of `lock` under which those that it replaces leave it: an event in between would mark neither.
 * R5  Entries of the tree do not overlap. One that a new one overlaps is replaced by the union of both.
 *
 * The tree, the list and the entries belong to the thread that is inside the instance; the reader walks the tree and sets `stale`.
 * So every change of the tree is under `lock`, and looking at what only the library writes is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "runtime/thread.h"
#include "transport/mem/regcache.h"
#include "transport/core/tp.h"

/* linux/userfaultfd.h has them since 5.11 and 5.19 */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#define EVENTS (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_PAGEFAULT_FLAG_WP)
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct hdl_regcache {
	bool on;
	bool read;			/* its reader could not be ended, and uses it to the end of the process */
	int fd;				/* userfaultfd */
	int stop;			/* eventfd: the reader ends */
	pthread_t reader;
	uintptr_t page;
	pthread_mutex_t lock;		/* R1, R2 */
	struct hdl_region *root;
	struct hdl_region *newest, *oldest;
	_Atomic uint32_t marked;	/* entries that became stale since the last tidying */
	uint32_t seed;
	struct hdl_regcache_stats stats;
};

/*
 * The one that watches. The kernel watches a range for one descriptor, refuses it to others, and takes the watching back at the request of
 * any of them; so in a process there is one instance that keeps registrations, the first that asks, and the others register each
 * message's memory for itself.
 */
static struct hdl_regcache *_Atomic watcher;

/* ---- the tree: a treap, by `from`; entries do not overlap --------------------------------------------------- */

/* All below and all from `at` on. */
static void regcache_split(struct hdl_region *t, uintptr_t at, struct hdl_region **low, struct hdl_region **high)
{
	while (t) {
		if (t->from < at) {
			*low = t;
			low = &t->right;
			t = t->right;
		} else {
			*high = t;
			high = &t->left;
			t = t->left;
		}
	}
	*low = *high = NULL;
}

static struct hdl_region *regcache_join(struct hdl_region *low, struct hdl_region *high)
{
	struct hdl_region *root = NULL, **at = &root;

	while (low && high) {
		if (low->weight > high->weight) {
			*at = low;
			at = &low->right;
			low = low->right;
		} else {
			*at = high;
			at = &high->left;
			high = high->left;
		}
	}
	*at = low ? low : high;
	return root;
}

static void tree_add(struct hdl_region *r)
{
	struct hdl_regcache *rc = r->dev->tp->regcache;
	struct hdl_region **at = &rc->root;

	while (*at && (*at)->weight >= r->weight)
		at = r->from < (*at)->from ? &(*at)->left : &(*at)->right;
	regcache_split(*at, r->from, &r->left, &r->right);
	*at = r;
}

static void tree_remove(struct hdl_region *r)
{
	struct hdl_regcache *rc = r->dev->tp->regcache;
	struct hdl_region **at = &rc->root;

	while (*at != r)
		at = r->from < (*at)->from ? &(*at)->left : &(*at)->right;
	*at = regcache_join(r->left, r->right);
}

/* The first entry that has a byte of [from, to), or NULL. */
static struct hdl_region *first_in(struct hdl_regcache *rc, uintptr_t from, uintptr_t to)
{
	struct hdl_region *found = NULL;

	for (struct hdl_region *t = rc->root; t;) {
		if (t->to <= from) {
			t = t->right;
		} else {
			found = t;
			t = t->left;
		}
	}
	return found && found->from < to ? found : NULL;
}

/* ---- the list, and what is kept ------------------------------------------------------------------------------ */

static void regcache_list_remove(struct hdl_region *r)
{
	struct hdl_regcache *rc = r->dev->tp->regcache;

	*(r->newer ? &r->newer->older : &rc->newest) = r->older;
	*(r->older ? &r->older->newer : &rc->oldest) = r->newer;
	r->newer = r->older = NULL;
}

static void regcache_list_add(struct hdl_region *r)
{
	struct hdl_regcache *rc = r->dev->tp->regcache;

	r->older = rc->newest;
	r->newer = NULL;
	*(rc->newest ? &rc->newest->newer : &rc->oldest) = r;
	rc->newest = r;
}

/* No longer looked up; what is under way with it goes on. The caller has `lock`. */
static void regcache_take_out(struct hdl_region *r)
{
	struct hdl_regcache *rc = r->dev->tp->regcache;

	tree_remove(r);
	regcache_list_remove(r);
	r->kept = false;
	rc->stats.entries--;
	rc->stats.bytes -= r->to - r->from;
}

static void regcache_unwatch(const struct hdl_region *r)
{
	struct hdl_regcache *rc = r->dev->tp->regcache;
	struct uffdio_range range = { r->from, r->to - r->from };

	/* Another entry may be watching a part: then it stays, which costs events that concern nobody. Some of it may be unmapped: what
	 * the kernel says of that does not matter. */
	if (r->watched && !first_in(rc, r->from, r->to))
		(void)ioctl(rc->fd, UFFDIO_UNREGISTER, &range);
}

/* Not under `lock`: it deregisters and frees. */
static void drop_ref(struct hdl_region *r)
{
	int err;

	if (--r->refs)
		return;
	regcache_unwatch(r);
	if (r->mr && (err = ibv_dereg_mr(r->mr)))
		hdl_warn("%s: ibv_dereg_mr of %zu bytes at %p failed (%s)", r->dev->name, (size_t)(r->to - r->from), (void *)r->from,
			 strerror(err));
	free(r);
}

static void regcache_give_up(struct hdl_region *r)
{
	struct hdl_regcache *rc = r->dev->tp->regcache;

	pthread_mutex_lock(&rc->lock);
	regcache_take_out(r);
	pthread_mutex_unlock(&rc->lock);
	drop_ref(r);
}

void hdl_regcache_tidy(struct hdl_tp *tp)
{
	struct hdl_regcache *rc = tp->regcache;
	struct hdl_region *older;

	if (likely(!atomic_load_explicit(&rc->marked, memory_order_relaxed)))
		return;
	atomic_store(&rc->marked, 0);
	for (struct hdl_region *r = rc->newest; r; r = older) {
		older = r->older;
		pthread_mutex_lock(&rc->lock);
		bool stale = r->stale;
		pthread_mutex_unlock(&rc->lock);
		if (!stale)
			continue;
		rc->stats.stale++;
		regcache_give_up(r);
	}
}

/* Gives up what was not used for longest, until so many bytes are kept at most. False: more are in use. */
static bool regcache_make_room(struct hdl_regcache *rc, size_t bytes)
{
	size_t entries = (size_t)hdl_vars.regcache_entries;
	struct hdl_region *r = rc->oldest, *newer;

	for (; r && (rc->stats.bytes > bytes || rc->stats.entries > entries); r = newer) {
		newer = r->newer;
		if (r->refs > 1)
			continue;
		rc->stats.evicted++;
		regcache_give_up(r);
	}
	return rc->stats.bytes <= bytes && rc->stats.entries <= entries;
}

bool hdl_regcache_evict(struct hdl_tp *tp)
{
	struct hdl_regcache *rc = tp->regcache;
	uint64_t before;

	if (!rc)
		return false;	/* a device is being opened */
	before = rc->stats.evicted;
	regcache_make_room(rc, 0);
	return rc->stats.evicted != before;
}

/* ---- the reader ---------------------------------------------------------------------------------------------- */

/* The caller has `lock`. */
static void regcache_mark(struct hdl_regcache *rc, uintptr_t from, uintptr_t to)
{
	for (struct hdl_region *r; from < to && (r = first_in(rc, from, to)); from = r->to) {
		r->stale = true;
		atomic_fetch_add_explicit(&rc->marked, 1, memory_order_relaxed);
	}
}

/* R3. False: there is no event. */
static bool regcache_read_one(struct hdl_regcache *rc)
{
	struct uffd_msg m;

	pthread_mutex_lock(&rc->lock);
	bool got = read(rc->fd, &m, sizeof(m)) == (ssize_t)sizeof(m);
	if (got && m.event == UFFD_EVENT_REMAP)
		regcache_mark(rc, (uintptr_t)m.arg.remap.from, (uintptr_t)(m.arg.remap.from + m.arg.remap.len));
	else if (got && (m.event == UFFD_EVENT_UNMAP || m.event == UFFD_EVENT_REMOVE))
		regcache_mark(rc, (uintptr_t)m.arg.remove.start, (uintptr_t)m.arg.remove.end);
	pthread_mutex_unlock(&rc->lock);
	return got;
}

/*
 * R3. Whether no change of watched memory is under way. It is asked for by a request that the kernel refuses with EAGAIN while there
 * is one, before it looks at the argument, and with EFAULT else.
 */
static bool is_quiet(struct hdl_regcache *rc)
{
	return ioctl(rc->fd, UFFDIO_WRITEPROTECT, NULL) < 0 && errno != EAGAIN;
}

static void *reader_main(void *arg)
{
	struct hdl_regcache *rc = arg;
	struct pollfd fd[2] = { { .fd = rc->fd, .events = POLLIN }, { .fd = rc->stop, .events = POLLIN } };

	while (!(fd[1].revents & POLLIN)) {
		if (poll(fd, 2, -1) < 0 && errno != EINTR)
			return arg;
		while (regcache_read_one(rc))
			;
	}
	return arg;
}

/* ---- getting and putting --------------------------------------------------------------------------------------- */

static struct hdl_region *new_region(struct hdl_dev *dev, uintptr_t from, uintptr_t to)
{
	struct hdl_region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct hdl_region){ .dev = dev, .from = from, .to = to, .refs = 1 };
	return r;
}

/* For this message only. */
static struct hdl_region *register_once(struct hdl_dev *dev, const void *p, size_t n, int access)
{
	struct hdl_regcache *rc = dev->tp->regcache;
	struct hdl_region *r = new_region(dev, (uintptr_t)p, (uintptr_t)p + n);

	if (!r) {
		errno = ENOMEM;
		return NULL;
	}
	rc->stats.uncached++;
	r->mr = ibv_reg_mr(dev->port.pd, (void *)(uintptr_t)p, n, access);
	if (r->mr)
		return r;
	int err = errno;
	free(r);
	errno = err;
	return NULL;
}

static bool register_watched(struct hdl_region *r)
{
	struct hdl_regcache *rc = r->dev->tp->regcache;
	struct uffdio_register u = { .range = { r->from, r->to - r->from }, .mode = UFFDIO_REGISTER_MODE_WP };

	r->watched = !ioctl(rc->fd, UFFDIO_REGISTER, &u);
	if (!r->watched)
		return false;	/* a file's pages, or the program watches them itself */
	r->mr = ibv_reg_mr(r->dev->port.pd, (void *)r->from, r->to - r->from, RIGHTS);
	return r->mr != NULL;
}

/* Takes out what the entry overlaps, and makes it the union. What is taken out is chained by `older`. The caller has `lock`. */
static struct hdl_region *absorb(struct hdl_region *u)
{
	struct hdl_regcache *rc = u->dev->tp->regcache;
	struct hdl_region *r, *chain = NULL;

	while ((r = first_in(rc, u->from, u->to))) {
		if (!r->stale) {
			if (r->from < u->from)
				u->from = r->from;
			if (r->to > u->to)
				u->to = r->to;
		}
		regcache_take_out(r);
		r->older = chain;
		chain = r;
	}
	return chain;
}

/* A new entry, in use by the caller, or NULL: none can be kept. */
static struct hdl_region *regcache_keep(struct hdl_dev *dev, uintptr_t from, uintptr_t to)
{
	struct hdl_regcache *rc = dev->tp->regcache;
	struct hdl_region *r = new_region(dev, from, to), *gone, *next;

	if (!r)
		return NULL;
	r->refs = 2;
	r->kept = true;
	rc->seed = rc->seed * 1664525u + 1013904223u;
	r->weight = rc->seed;
	pthread_mutex_lock(&rc->lock);
	gone = absorb(r);
	tree_add(r);	/* R4 */
	regcache_list_add(r);
	rc->stats.entries++;
	rc->stats.bytes += r->to - r->from;
	pthread_mutex_unlock(&rc->lock);
	/* a union that is too large goes, and what it replaced: next time there is room for what was asked for */
	bool room = r->to - r->from <= hdl_vars.regcache_size && regcache_make_room(rc, hdl_vars.regcache_size);
	if (!room)
		regcache_give_up(r);
	for (; gone; gone = next) {
		next = gone->older;
		gone->older = NULL;
		drop_ref(gone);
	}
	if (room && register_watched(r))
		return r;
	if (room)
		regcache_give_up(r);
	drop_ref(r);
	return NULL;
}

struct hdl_region *hdl_region_get(struct hdl_dev *dev, const void *p, size_t n, int access)
{
	struct hdl_regcache *rc = dev->tp->regcache;
	uintptr_t from = (uintptr_t)p & ~(rc->page - 1), to = ((uintptr_t)p + n + rc->page - 1) & ~(rc->page - 1);
	struct hdl_region *r;

	if (!rc->on || !(access & IBV_ACCESS_LOCAL_WRITE))
		return register_once(dev, p, n, access);
	hdl_regcache_tidy(dev->tp);
	if (!is_quiet(rc))
		return register_once(dev, p, n, access);
	pthread_mutex_lock(&rc->lock);
	r = first_in(rc, from, to);
	bool hit = r && r->from <= from && r->to >= to && !r->stale && r->dev == dev;
	if (hit) {
		r->refs++;
		regcache_list_remove(r);
		regcache_list_add(r);
	}
	pthread_mutex_unlock(&rc->lock);
	if (hit) {
		rc->stats.hits++;
		return r;
	}
	rc->stats.misses++;
	r = regcache_keep(dev, from, to);
	if (!r)
		r = register_once(dev, p, n, access);
	/* the limit on locked memory */
	if (!r && hdl_memory_again(dev))
		r = register_once(dev, p, n, access);
	return r;
}

void hdl_region_put(struct hdl_region *r)
{
	if (!r)
		return;
	struct hdl_tp *tp = r->dev->tp;
	drop_ref(r);
	hdl_regcache_tidy(tp);
}

void hdl_region_forget(struct hdl_region *r)
{
	if (r && r->kept)
		regcache_give_up(r);
}

/* ---- beginning and end ----------------------------------------------------------------------------------------- */

bool hdl_regcache_on(const struct hdl_tp *tp)
{
	return tp->regcache->on;
}

struct hdl_regcache_stats hdl_regcache_stats(const struct hdl_tp *tp)
{
	return tp->regcache->stats;
}

static bool regcache_is_before(int major, int minor)
{
	struct utsname u;
	int a = 0, b = 0;

	if (!uname(&u))
		sscanf(u.release, "%d.%d", &a, &b);
	return a < major || (a == major && b < minor);
}

static int open_userfaultfd(struct hdl_regcache *rc)
{
	struct uffdio_api api = { .api = UFFD_API, .features = EVENTS | UFFD_FEATURE_WP_HUGETLBFS_SHMEM };
	int err;

	for (int i = 0; i < 2; i++) {
		rc->fd = fd_raise((int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
		if (rc->fd < 0)
			return -errno;
		if (!ioctl(rc->fd, UFFDIO_API, &api))
			return 0;
		err = errno;
		close(rc->fd);
		rc->fd = -1;
		/* before 5.19: then shared memory is not kept. Before 5.15 the changes under way are not counted (R3). */
		if (regcache_is_before(5, 15))
			return -ENOSYS;
		api = (struct uffdio_api){ .api = UFFD_API, .features = EVENTS };
	}
	return -err;
}

static int start_reader(struct hdl_regcache *rc)
{
	rc->stop = fd_raise(eventfd(0, EFD_CLOEXEC));
	if (rc->stop < 0)
		return -errno;
	return hdl_thread_create(&rc->reader, NULL, reader_main, rc, "heddle-memory");
}

static void regcache_close_fds(struct hdl_regcache *rc)
{
	if (rc->fd >= 0)
		close(rc->fd);
	if (rc->stop >= 0)
		close(rc->stop);
	rc->fd = rc->stop = -1;
}

/* A child that executes nothing must not hold the descriptors: the watching ends with the last of them, and until then whoever unmaps
 * waits for the reader, which may have ended. */
static void in_child(void)
{
	struct hdl_regcache *rc = watcher;

	if (!rc)
		return;
	regcache_close_fds(rc);
	rc->on = false;
}

/* Whether nobody else watches. */
static bool may_watch(struct hdl_regcache *rc)
{
	struct hdl_regcache *nobody = NULL;

	return atomic_compare_exchange_strong(&watcher, &nobody, rc);
}

/* As the watcher. 0 or a negative errno. */
static int regcache_begin(struct hdl_regcache *rc)
{
	static bool for_children;
	int err;

	if (!for_children && (err = pthread_atfork(NULL, NULL, in_child)))
		return -err;
	for_children = true;
	if ((err = open_userfaultfd(rc)) || (err = start_reader(rc)))
		regcache_close_fds(rc);
	rc->on = !err;
	return err;
}

int hdl_regcache_open(struct hdl_tp *tp)
{
	struct hdl_regcache *rc = tp->regcache = calloc(1, sizeof(*rc));
	bool needed = false;
	int err;

	if (!rc)
		return hdl_no_memory("the registrations that are kept", sizeof(*rc));
	rc->fd = rc->stop = -1;
	pthread_mutex_init(&rc->lock, NULL);
	for (int i = 0; i < tp->ndev; i++)
		needed |= !tp->dev[i]->promises.pages_written;
	rc->page = (uintptr_t)sysconf(_SC_PAGESIZE);
	if (!needed || !hdl_vars.regcache_size || hdl_vars.regcache_entries < 1)
		return 0;
	if (!may_watch(rc)) {
		hdl_debug("registrations of messages' memory are not kept: another instance in this process keeps its own");
		return 0;
	}
	if (!(err = regcache_begin(rc)))
		return 0;
	watcher = NULL;
	/* all ranks of a job are treated alike, mostly */
	if (!hdl_job.rank)
		hdl_warn("registrations of messages' memory are not kept: the kernel does not let this process be told of what is "
			 "unmapped (userfaultfd: %s). Every long message is registered anew, which costs bandwidth; allow userfaultfd (a "
			 "container's seccomp profile forbids it; Linux before 5.15 does not tell enough), or set HEDDLE_REGCACHE_SIZE=0 "
			 "to expect nothing else", strerror(-err));
	return 0;
}

void hdl_regcache_close(struct hdl_tp *tp)
{
	struct hdl_regcache *rc = tp->regcache;
	uint64_t one = 1;

	if (!rc)
		return;
	while (rc->newest)
		regcache_give_up(rc->newest);
	rc->read = rc->on && write(rc->stop, &one, sizeof(one)) != (ssize_t)sizeof(one);
	if (rc->read)
		hdl_warn("the thread that is told of what is unmapped cannot be ended (eventfd %d: %s), and stays, with its memory: has the "
			 "program closed descriptors that are not its own?", rc->stop, strerror(errno));
	else if (rc->on)
		pthread_join(rc->reader, NULL);
	rc->on = false;
	if (rc->read)
		return;
	regcache_close_fds(rc);
	if (watcher == rc)
		watcher = NULL;
}

void hdl_regcache_free(struct hdl_tp *tp)
{
	if (tp->regcache && !tp->regcache->read)
		free(tp->regcache);
	tp->regcache = NULL;
}
