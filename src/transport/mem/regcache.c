/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration cache. A device without paging on demand accesses pages, not addresses: a registration that outlives its message
 * is valid only while the same pages are mapped at its addresses. So a registration is kept only where the kernel reports
 * changes: its range is registered with userfaultfd, which reports munmap, mremap, madvise(DONTNEED, FREE, REMOVE), a new mapping
 * over the old one, and a heap that shrinks, by any code and any allocator. (In write-protect mode, with nothing protected, no
 * access of the program faults because of userfaultfd. fork() is none of these events: the pinned pages stay the parent's.)
 *
 * A thread that unmaps waits in the kernel until the reader thread has *read* its event. So the reader must never wait for a
 * thread that may unmap, and any thread that allocates or frees may:
 *
 * R1  The reader takes `lock` and no other lock, least of all the library's. The reader allocates and frees nothing, and calls
 *     nothing that might.
 * R2  A thread that holds `lock` does nothing that could wait for the reader: no allocation, free, (un)mapping, ioctl, verb or
 *     output. So `lock` is held for some steps in the tree only. (A signal handler may run meanwhile: nothing that POSIX lets
 *     a handler call unmaps.)
 * R3  The reader reads an event and marks the entries under one hold of `lock`. The kernel counts a change before the mapping
 *     goes, and uncounts it after the event was read. A thread that sees no change under way (is_quiet) and then takes `lock`
 *     sees the marks of all changes that began before. hdl_region_get looks up in this order, and looks up nothing while a
 *     change is under way. Else:
 *         1. thread A unmaps a buffer: the addresses are free, and A waits for the reader
 *         2. thread B gets the same addresses from mmap, and sends from them
 *         3. B's look-up finds the old entry unmarked, and the device sends the old pages
 * R4  A range is in the tree before it is watched and registered. An event in between marks the entry, which then serves the
 *     one message whose buffer it was made for (which the program must not unmap) and is given up. The new entry enters the
 *     tree under the same hold of `lock` under which the entries that it replaces leave: an event in between would mark
 *     neither.
 * R5  Entries of the tree do not overlap. An entry that a new one overlaps is replaced by the union of both.
 *
 * The tree, the list and the entries are written by the thread that is inside the instance; the reader walks the tree and sets
 * `stale`. So every change of the tree is under `lock`, and that thread's own reads of the list are not.
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

/* linux/userfaultfd.h defines them since 5.11 and 5.19 */
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
	bool reader_stuck;		/* the reader thread could not be ended: this memory must stay until the process ends */
	int uffd;				/* userfaultfd */
	int stop_fd;			/* eventfd that ends the reader */
	pthread_t reader;
	uintptr_t page;
	pthread_mutex_t lock;		/* R1, R2 */
	struct hdl_region *root;
	struct hdl_region *newest, *oldest;
	_Atomic uint32_t marked;	/* entries that became stale since the last hdl_regcache_tidy */
	uint32_t seed;
	struct hdl_regcache_stats stats;
};

/*
 * The instance that keeps registrations. The kernel watches a range for one userfaultfd, refuses it to others, and ends the
 * watching at the request of any of them. So the first instance of a process that asks keeps registrations; other instances
 * register each message's memory.
 */
static struct hdl_regcache *_Atomic watcher;

/* ---- the tree: a treap, by `from`; entries do not overlap --------------------------------------------------- */

/* Splits the treap into the entries below `at` and those from `at` on. */
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

/* Returns the first entry that has a byte of [from, to), or NULL. */
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

/* ---- the list, and kept registrations -------------------------------------------------------------------- */

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

/* Takes an entry out of tree and list; operations that use it go on. Must: `lock` is held. */
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

	/* Another entry may watch a part of the range; then all of it stays watched, at the cost of events without an entry.
	 * The result is ignored: parts may be unmapped. */
	if (r->watched && !first_in(rc, r->from, r->to))
		(void)ioctl(rc->uffd, UFFDIO_UNREGISTER, &range);
}

/* Must: `lock` is not held, since this deregisters and frees. */
static void drop_ref(struct hdl_region *r)
{
	int err;

	if (--r->refs)
		return;
	regcache_unwatch(r);
	if (r->mr && (err = ibv_dereg_mr(r->mr)))
		hdl_warn("%s: ibv_dereg_mr of %zu bytes at %p failed (%s)", r->dev->name, (size_t)(r->to - r->from),
			 (void *)r->from, strerror(err));
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

/* Gives up the least recently used entries until at most `bytes` are kept. Returns false: entries in use exceed the limit. */
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
		return false;	/* called while a device is being opened */
	before = rc->stats.evicted;
	regcache_make_room(rc, 0);
	return rc->stats.evicted != before;
}

bool hdl_memory_again(struct hdl_dev *dev)
{
	bool any;

	if (errno != ENOMEM)
		return false;
	any = hdl_regcache_evict(dev->tp);
	return (dev->tp->on_shortage && dev->tp->on_shortage()) || any;
}

/* ---- the reader ---------------------------------------------------------------------------------------------- */

/* Must: `lock` is held. */
static void regcache_mark(struct hdl_regcache *rc, uintptr_t from, uintptr_t to)
{
	for (struct hdl_region *r; from < to && (r = first_in(rc, from, to)); from = r->to) {
		r->stale = true;
		atomic_fetch_add_explicit(&rc->marked, 1, memory_order_relaxed);
	}
}

/* Reads one event and marks its entries (R3). Returns false: there is no event. */
static bool regcache_read_one(struct hdl_regcache *rc)
{
	struct uffd_msg m;

	pthread_mutex_lock(&rc->lock);
	bool got = read(rc->uffd, &m, sizeof(m)) == (ssize_t)sizeof(m);
	if (got && m.event == UFFD_EVENT_REMAP)
		regcache_mark(rc, (uintptr_t)m.arg.remap.from, (uintptr_t)(m.arg.remap.from + m.arg.remap.len));
	else if (got && (m.event == UFFD_EVENT_UNMAP || m.event == UFFD_EVENT_REMOVE))
		regcache_mark(rc, (uintptr_t)m.arg.remove.start, (uintptr_t)m.arg.remove.end);
	pthread_mutex_unlock(&rc->lock);
	return got;
}

/*
 * Whether no change of watched memory is under way (R3). The request is invalid: the kernel answers EAGAIN while a change is
 * under way, before it looks at the argument, and EFAULT else.
 */
static bool regcache_is_quiet(struct hdl_regcache *rc)
{
	return ioctl(rc->uffd, UFFDIO_WRITEPROTECT, NULL) < 0 && errno != EAGAIN;
}

static void *reader_main(void *arg)
{
	struct hdl_regcache *rc = arg;
	struct pollfd fd[2] = { { .fd = rc->uffd, .events = POLLIN }, { .fd = rc->stop_fd, .events = POLLIN } };

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

/* Registers memory for one message. */
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

	r->watched = !ioctl(rc->uffd, UFFDIO_REGISTER, &u);
	if (!r->watched)
		return false;	/* a file's pages, or the program watches them by a userfaultfd of its own */
	r->mr = ibv_reg_mr(r->dev->port.pd, (void *)r->from, r->to - r->from, RIGHTS);
	return r->mr != NULL;
}

/* Takes out the entries that u overlaps, and extends u to the union with those that are valid. Returns them chained by `older`.
 * Must: `lock` is held. */
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

/* Makes a new entry, which the caller uses. Returns NULL if none can be kept. */
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
	/* a union above the limit is dropped with the entries that the union replaced, so that the next request has room */
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
	if (!regcache_is_quiet(rc))
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
		rc->uffd = fd_raise((int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
		if (rc->uffd < 0)
			return -errno;
		if (!ioctl(rc->uffd, UFFDIO_API, &api))
			return 0;
		err = errno;
		close(rc->uffd);
		rc->uffd = -1;
		/* Linux before 5.19 does not watch shared memory, which then is not kept. Before 5.15 changes under way are not
		 * counted (R3). */
		if (regcache_is_before(5, 15))
			return -ENOSYS;
		api = (struct uffdio_api){ .api = UFFD_API, .features = EVENTS };
	}
	return -err;
}

static int start_reader(struct hdl_regcache *rc)
{
	rc->stop_fd = fd_raise(eventfd(0, EFD_CLOEXEC));
	if (rc->stop_fd < 0)
		return -errno;
	return hdl_thread_create(&rc->reader, NULL, reader_main, rc, "heddle-memory");
}

static void regcache_close_fds(struct hdl_regcache *rc)
{
	if (rc->uffd >= 0)
		close(rc->uffd);
	if (rc->stop_fd >= 0)
		close(rc->stop_fd);
	rc->uffd = rc->stop_fd = -1;
}

/* A forked child must close its copies of the descriptors: the watching ends with the last copy, and until then a thread that
 * unmaps waits for a reader that may have ended. */
static void in_child(void)
{
	struct hdl_regcache *rc = watcher;

	if (!rc)
		return;
	regcache_close_fds(rc);
	rc->on = false;
}

/* Makes this cache the watcher of the process. Returns false: another instance is. */
static bool may_watch(struct hdl_regcache *rc)
{
	struct hdl_regcache *nobody = NULL;

	return atomic_compare_exchange_strong(&watcher, &nobody, rc);
}

/* Opens the descriptors and starts the reader. Returns 0 or a negative errno. */
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
	rc->uffd = rc->stop_fd = -1;
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
	/* one line per job: most ranks get the same answer */
	if (!hdl_job.rank)
		hdl_warn("registrations of messages' memory are not kept: the kernel refuses this process events of unmapped "
			 "memory (userfaultfd: %s). Every long message is registered anew, which costs bandwidth; allow "
			 "userfaultfd (a container's seccomp profile forbids it; Linux before 5.15 does not tell enough), or set "
			 "HEDDLE_REGCACHE_SIZE=0 to expect nothing else", strerror(-err));
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
	rc->reader_stuck = rc->on && write(rc->stop_fd, &one, sizeof(one)) != (ssize_t)sizeof(one);
	if (rc->reader_stuck)
		hdl_warn("the thread that reads events of unmapped memory cannot be ended (eventfd %d: %s), and stays, with its "
			 "memory: has the program closed descriptors that are not its own?", rc->stop_fd, strerror(errno));
	else if (rc->on)
		pthread_join(rc->reader, NULL);
	rc->on = false;
	if (rc->reader_stuck)
		return;
	regcache_close_fds(rc);
	if (watcher == rc)
		watcher = NULL;
}

void hdl_regcache_free(struct hdl_tp *tp)
{
	if (tp->regcache && !tp->regcache->reader_stuck) {
		pthread_mutex_destroy(&tp->regcache->lock);
		free(tp->regcache);
	}
	tp->regcache = NULL;
}
