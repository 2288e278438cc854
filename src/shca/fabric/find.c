/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How unrelated processes find the same fabric, without a file: by abstract socket names.
 *
 *     shca/<uid>/<fabric>/<pid>/<fd>[/<random>]                       a member: the fabric's file is /proc/<pid>/fd/<fd>
 *     shca-lock/<uid>/<hash of fabric>/<pid>/<fd>/<ticket>/<random>   a process that joins or creates; its socket is <fd>
 *
 * One name never means two fabrics: looking, creating and publishing a process's own name happen under the lock, so a joiner
 * sees the names of all that joined before. A member's name disappears before its descriptor, so that a name without a file
 * only means that the process is about to end.
 *
 * Any process of the network namespace may bind any abstract name. So no particular name is needed (if a name is taken, another
 * random number makes another one), and a name is only a hint. A member is recognized by the file behind its name: a sealed
 * memory file of our own user with our magic. Behind a joiner's name there must be a socket of our own user, which SO_PEERCRED
 * of a listening socket shows, or /proc/<pid>/fd/<fd>, which is the inode that /proc/net/unix has for the name (find_is_forged).
 * All other names are passed over.
 *
 * The lock is Lamport's bakery. A joiner binds a name with ticket 0 ("choosing"), reads the clock, binds a name with that
 * ticket, and closes the first one. Then the joiner waits until all processes that it saw choosing have chosen, and then until
 * no process with a lower ticket is there.
 *
 * Scenario:
 *  1. A and B join at once, B's ticket is the higher one. B looks for choosers after the binding of its ticket.
 *  2. If A was choosing, B waits and finds A's ticket afterwards.
 *  3. If A was not choosing yet, A has read the clock later than B, against the assumption.
 *  So B finds A's ticket, or A has left.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fnv.h"
#include "shca/fabric/fabric.h"

/* Number of attempts to bind a name that another user has taken: each attempt has a random number of 32 bits. */
enum { TRIES = 100 };

int shca_name_check(const char *name)
{
	size_t n = strlen(name);
	if (n && n < 64 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+:-") == n)
		return 0;
	shca_error("\"%s\" cannot be the name of a fabric: 1 to 63 letters, digits and ._+:- are allowed", name);
	return -EINVAL;
}

static socklen_t abstract(struct sockaddr_un *a, const char *name)
{
	size_t n = strlen(name);
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path + 1, name, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static int open_socket(void)
{
	int fd = fd_raise(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	return fd < 0 ? -errno : fd;
}

/* Returns 0 or a negative errno. */
static int listen_at(int fd, const char *name)
{
	struct sockaddr_un a;
	socklen_t len = abstract(&a, name);
	return bind(fd, (struct sockaddr *)&a, len) || listen(fd, SOMAXCONN) ? -errno : 0;
}

/* A name with this part cannot be taken by another user in advance. */
static unsigned random_part(void)
{
	unsigned r;
	return getrandom(&r, sizeof(r), GRND_NONBLOCK) == sizeof(r) ? r : (unsigned)monotonic_ns();
}

/* Connects to a listening name. Returns a descriptor, with the credentials of the owner (at its listen) in *cred, or -errno.
 * Never blocks: -EAGAIN when the backlog is full. */
static int fabric_socket_connect(const char *name, struct ucred *cred)
{
	struct sockaddr_un a;
	socklen_t len = abstract(&a, name), clen = sizeof(*cred);
	int fd = fd_raise(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&a, len) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &clen)) {
		int err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static int64_t now_ms(void)
{
	return (int64_t)(monotonic_ns() / 1000000);
}

/* Waits until the owner of the listening socket to which fd is connected closes it. Returns false: still open. */
static bool wait_closed(int fd, int64_t timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	int n;
	while ((n = poll(&p, 1, timeout_ms > 0 ? (int)timeout_ms : 0)) < 0 && errno == EINTR)
		;
	return n > 0;
}

int shca_name_publish(const char *name, int fd)
{
	char path[128];
	int s = open_socket(), err = s;
	int n = snprintf(path, sizeof(path), "shca/%u/%s/%d/%d", (unsigned)geteuid(), name, (int)getpid(), fd);
	if (s >= 0)
		err = listen_at(s, path);
	for (int i = 0; err == -EADDRINUSE && i < TRIES; i++) {
		snprintf(path + n, sizeof(path) - (size_t)n, "/%08x", random_part());
		err = listen_at(s, path);
	}
	if (!err)
		return s;
	shca_error("cannot bind the abstract socket \"%s\": %s%s", path, strerror(-err), shca_limit_of(-err));
	if (s >= 0)
		close(s);
	return err;
}

/* ---- looking --------------------------------------------------------------------------------------------------- */

struct candidate {
	char path[112];		/* as bound */
	unsigned uid;
	char name[64];		/* of the fabric; of a joiner: its hash */
	int pid, fd;
	unsigned long long ticket;	/* of a joiner */
	unsigned long inode;	/* of the socket */
};

enum kind { MEMBERS, JOINERS };

/* Returns false: no name of this kind. c->path is long enough for every valid name. */
static bool parse_candidate(enum kind kind, const char *path, struct candidate *c)
{
	int end = 0, n;
	if (kind == MEMBERS)
		n = sscanf(path, "shca/%u/%63[^/]/%d/%d%n", &c->uid, c->name, &c->pid, &c->fd, &end) == 4 &&
		    (!path[end] || (path[end] == '/' && strspn(path + end + 1, "0123456789abcdef") == 8 && !path[end + 9]));
	else
		n = sscanf(path, "shca-lock/%u/%16[0-9a-f]/%d/%d/%llx/%*x%n", &c->uid, c->name, &c->pid, &c->fd, &c->ticket,
			   &end) == 5 && end && !path[end];
	return n && c->pid > 0 && c->fd >= 0;
}

/* Returns all names of members, or of joiners, of every user, that exist at present. */
static int find_scan(enum kind kind, struct candidate **list, size_t *n)
{
	*list = NULL;
	*n = 0;
	FILE *f = fopen("/proc/net/unix", "re");
	if (!f) {
		int err = errno;
		shca_error("cannot read /proc/net/unix: %s%s. A fabric is found there; a launcher can pass it on by "
			   "SHCA_FABRIC_FD instead", strerror(err), shca_limit_of(err));
		return -err;
	}
	char *line = NULL;
	size_t cap = 0, room = 0;
	int err = 0;
	while (getline(&line, &cap, f) > 0) {
		char *at = strstr(line, kind == MEMBERS ? " @shca/" : " @shca-lock/");
		struct candidate c = { .inode = 0 };
		if (!at)
			continue;
		at += 2;
		at[strcspn(at, "\n")] = 0;
		if (strlen(at) >= sizeof(c.path) || !parse_candidate(kind, at, &c) ||
		    sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &c.inode) != 1)
			continue;
		strcpy(c.path, at);
		if (*n == room) {
			room = room ? room * 2 : 64;
			void *p = realloc(*list, room * sizeof(**list));
			if (!p) {
				err = -ENOMEM;
				break;
			}
			*list = p;
		}
		(*list)[(*n)++] = c;
	}
	if (!err && !feof(f))
		err = -errno;
	if (err)
		shca_error("cannot read the UNIX sockets in /proc/net/unix, by which a fabric is found: %s%s", strerror(-err),
			   shca_limit_of(-err));
	free(line);
	fclose(f);
	return err;
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

/* A path is too short for the longest name. Two fabrics of one hash share a lock, which does no harm. */
static void hash_name(const char *name, char hash[17])
{
	snprintf(hash, 17, "%016llx", (unsigned long long)fnv1a_64_string(name));
}

static int bind_ticket(const char *hash, uint64_t ticket)
{
	char path[112];
	int fd = open_socket(), err = fd < 0 ? fd : -EADDRINUSE;
	for (int i = 0; err == -EADDRINUSE && i < TRIES; i++) {
		snprintf(path, sizeof(path), "shca-lock/%u/%s/%d/%d/%llx/%08x", (unsigned)geteuid(), hash, (int)getpid(), fd,
			 (unsigned long long)ticket, random_part());
		err = listen_at(fd, path);
	}
	if (!err)
		return fd;
	shca_error("cannot bind an abstract socket: %s%s. Joining a fabric needs UNIX sockets", strerror(-err),
		   shca_limit_of(-err));
	if (fd >= 0)
		close(fd);
	return err;
}

/* Returns whether the candidate's process is ours, and the socket of that name is its descriptor. false also if /proc is not
 * readable. */
static bool holds(const struct candidate *c)
{
	char path[64], target[64], socket[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d", c->pid);
	if (stat(path, &st) || st.st_uid != geteuid())
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->pid, c->fd);
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	snprintf(socket, sizeof(socket), "socket:[%lu]", c->inode);
	return n > 0 && (target[n] = 0, !strcmp(target, socket));
}

/* Returns whether a process has bound the name. */
static bool find_is_bound(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = abstract(&a, name);
	int fd = open_socket();
	bool is = fd < 0 || (bind(fd, (struct sockaddr *)&a, len) && errno == EADDRINUSE);

	if (fd >= 0)
		close(fd);
	return is;
}

/*
 * Returns whether a line of /proc/net/unix may be false. The kernel prints a line break in a name as it is, so another user can
 * write a line with the inode of a socket of this user.
 *  - No process has bound the name of a false line,
 *  - or the name has a true line, too.
 */
static bool find_is_forged(const struct candidate *c, const struct candidate *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].inode != c->inode && !strcmp(list[i].path, c->path))
			return true;
	return !find_is_bound(c->path);
}

/* Waits until a joiner of the list is gone. Returns 1: waited for; 0: was gone, or is not ours; -ETIMEDOUT. */
static int wait_gone(const struct candidate *c, const struct candidate *list, size_t n, int64_t until)
{
	for (;;) {
		struct ucred cred = { 0 };
		int64_t left = until - now_ms();
		int s = fabric_socket_connect(c->path, &cred);
		if (s >= 0) {
			bool ours = cred.uid == geteuid(), closed = ours && wait_closed(s, left);
			close(s);
			return !ours ? 0 : closed ? 1 : -ETIMEDOUT;
		}
		/* ours: bound and not listening yet; or other joiners have filled the backlog */
		if (!holds(c) || find_is_forged(c, list, n))
			return 0;
		if (left <= 0)
			return -ETIMEDOUT;
		poll(NULL, 0, 1);
	}
}

static bool find_is_before(const struct candidate *c, uint64_t ticket, int fd)
{
	int pid = (int)getpid();
	return c->ticket != ticket ? c->ticket < ticket : c->pid != pid ? c->pid < pid : c->fd < fd;
}

/* Returns the candidate to wait for: the last one before this process; of choosing candidates, any. NULL: none. */
static struct candidate *next_to_wait_for(struct candidate *list, size_t n, const char *hash, uint64_t ticket, int fd)
{
	struct candidate *found = NULL;
	for (size_t i = 0; i < n; i++) {
		struct candidate *c = &list[i];
		if (c->uid != geteuid() || strcmp(c->name, hash) || !c->ticket != !ticket ||
		    (ticket && !find_is_before(c, ticket, fd)))
			continue;
		if (!found || c->ticket > found->ticket)
			found = c;
	}
	return found;
}

/* ticket 0: waits for all processes that are choosing; else for all with a lower ticket. *last: the candidate waited for
 * last. */
static int wait_for_others(const char *hash, uint64_t ticket, int fd, int64_t until, int *last)
{
	struct candidate *list, *c;
	size_t n;
	int r = find_scan(JOINERS, &list, &n);
	while (!r && (c = next_to_wait_for(list, n, hash, ticket, fd))) {
		*last = c->pid;
		r = wait_gone(c, list, n, until);
		c->uid = (unsigned)-1;		/* has been waited for, or is passed over */
		if (r != 1)
			continue;
		r = 0;
		if (ticket) {
			/* as a rule the candidates before that one have left, too: look again */
			free(list);
			r = find_scan(JOINERS, &list, &n);
		}
	}
	free(list);
	return r;
}

/* The lock is the socket with the ticket: waiting joiners are connected to it, and wake when it is closed, be it by death. */
int shca_lock_take(const char *name, int *lock_fd)
{
	int timeout = (int)shca_env_ms("SHCA_JOIN_MS"), last = 0, err;
	int64_t until = now_ms() + timeout;
	char hash[17];
	hash_name(name, hash);
	int chooses = bind_ticket(hash, 0);
	if (chooses < 0)
		return chooses;
	uint64_t ticket = monotonic_ns();
	int fd = bind_ticket(hash, ticket);
	close(chooses);
	if (fd < 0)
		return fd;
	err = wait_for_others(hash, 0, fd, until, &last);
	if (!err)
		err = wait_for_others(hash, ticket, fd, until, &last);
	if (!err) {
		*lock_fd = fd;
		return 0;
	}
	close(fd);
	if (err == -ETIMEDOUT)
		shca_error("process %d has been joining the fabric \"%s\" for %d ms: it may be stopped. Continue or end it, "
			   "or name another fabric (SHCA_FABRIC)",
			   last, name, timeout);
	return err;
}

/* ---- finding ------------------------------------------------------------------------------------------------------ */

/* Opens the file behind a name. Returns a descriptor; -ENOENT: no file any more; -ENOTTY: something else; -EACCES: not
 * permitted. */
static int open_candidate(const struct candidate *c, const char *name)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->pid, c->fd);
	/* stat before open: opening a device or a pipe could have effects */
	if (stat(path, &st))
		return errno == EACCES || errno == EPERM ? -EACCES : -ENOENT;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return -ENOTTY;
	int fd = fd_raise(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? -EACCES : -ENOENT;
	int err = shca_fabric_verify(fd, name, false);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Returns whether a process is ending. An ending process gives up its memory first, which may take long, and then closes its
 * descriptors. In between the kernel lets only root look at the descriptors. */
static bool find_is_ending(int pid)
{
	char path[64];
	unsigned long pages;
	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	FILE *f = fopen(path, "re");
	bool ending = !f || fscanf(f, "%lu", &pages) != 1 || !pages;
	if (f)
		fclose(f);
	return ending;
}

/* Explains why the file behind a name of ours cannot be opened. Returns 0: the process has ended, look again; -ENOTTY: pass the
 * name over; else refused, with text. */
static int find_explain(const struct candidate *c, int err)
{
	struct ucred cred;
	int s = fabric_socket_connect(c->path, &cred);
	if (s < 0)		/* gone, or taken by a process that does not answer */
		return -ENOTTY;
	if (cred.uid != geteuid()) {	/* another user's socket under a name of ours: ignore */
		close(s);
		return -ENOTTY;
	}
	if (cred.pid != c->pid) {
		char here[32] = "not visible";
		if (cred.pid)
			snprintf(here, sizeof(here), "process %d", (int)cred.pid);
		shca_error("the fabric \"%s\" exists in another PID namespace (container): its member calls itself process %d "
			   "and is %s here. Run all processes in one PID namespace, or name another fabric (SHCA_FABRIC)",
			   c->name, c->pid, here);
		close(s);
		return -EXDEV;
	}
	if (err != -EACCES || find_is_ending(c->pid)) {
		wait_closed(s, 1000);
		close(s);
		return 0;
	}
	close(s);
	shca_error("the fabric \"%s\" has a member, process %d, that does not let its descriptors be opened: it is set-uid or "
		   "not dumpable (prctl PR_SET_DUMPABLE), or a security module forbids it", c->name, c->pid);
	return -EACCES;
}

/* Returns true if the candidate's name has another user's id, and the process runs under that id. A name alone proves nothing. */
static bool find_is_others(const struct candidate *c)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", c->pid);
	return c->uid != geteuid() && !stat(path, &st) && st.st_uid == c->uid;
}

bool shca_fabric_of_others(const char *name, unsigned *uid, int *pid)
{
	struct candidate *list;
	bool found = false;
	size_t n;

	if (find_scan(MEMBERS, &list, &n))
		n = 0;
	for (size_t i = 0; i < n && !found; i++) {
		found = !strcmp(list[i].name, name) && find_is_others(&list[i]);
		*uid = list[i].uid;
		*pid = list[i].pid;
	}
	free(list);
	return found;
}

int shca_find(const char *name, bool explicit_name)
{
	int timeout = (int)shca_env_ms("SHCA_JOIN_MS");
	int64_t until = now_ms() + timeout;
	unsigned me = geteuid();
	for (;;) {
		struct candidate *list;
		size_t n;
		int result = find_scan(MEMBERS, &list, &n);
		bool again = false;
		const struct candidate *other = NULL;
		if (result)
			goto done;
		result = -ENOENT;
		for (size_t i = 0; i < n && result == -ENOENT; i++) {
			const struct candidate *c = &list[i];
			if (strcmp(c->name, name))
				continue;
			if (c->uid != me) {
				if (find_is_others(c))
					other = c;
				continue;
			}
			int r = open_candidate(c, name);
			if (r == -ENOENT || r == -EACCES || r == -ENOTTY) {
				r = find_explain(c, r);
				again |= r == 0;
				if (r == 0 || r == -ENOTTY)
					continue;
			}
			result = r;
		}
		if (result == -ENOENT && !again && explicit_name && other)
			shca_error("the fabric \"%s\" that this process makes is of user %u; there is one of user %u, too "
				   "(process %d). A fabric is not shared between users: processes that are to meet must be of "
				   "one user", name, me, other->uid, other->pid);
done:
		free(list);
		if (result != -ENOENT || !again)
			return result;
		if (now_ms() > until) {
			shca_error("members of the fabric \"%s\" keep their names but not its file: giving up after %d ms", name,
				   timeout);
			return -ETIMEDOUT;
		}
	}
}

/* Returns true if the file behind a name is a fabric's of this user and, if this version can tell, the fabric has that name:
 * other users can bind false names. Stores the file's status. */
static bool find_says_true(const struct candidate *c, struct stat *st)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->pid, c->fd);
	if (stat(path, st) || !S_ISREG(st->st_mode) || st->st_uid != geteuid())
		return false;
	int fd = fd_raise(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), err = fd < 0 ? -errno : fstat(fd, st);
	if (!err)
		err = shca_fabric_verify(fd, c->name, true);
	if (fd >= 0)
		close(fd);
	return !err || err == -EPROTO;
}

int shca_fabric_list(struct shca_fabric_info **out, size_t *n)
{
	struct candidate *list;
	size_t found = 0, all;
	*out = NULL;
	*n = 0;
	int err = find_scan(MEMBERS, &list, &all);
	struct shca_fabric_info *info = err ? NULL : calloc(all + 1, sizeof(*info));
	struct stat *seen = err ? NULL : calloc(all + 1, sizeof(*seen));
	if (!err && (!info || !seen))
		err = -ENOMEM;
	for (size_t i = 0; !err && i < all; i++) {
		struct stat st;
		if (list[i].uid != geteuid() || !find_says_true(&list[i], &st))
			continue;
		size_t k = 0;
		while (k < found && (seen[k].st_ino != st.st_ino || seen[k].st_dev != st.st_dev))
			k++;
		if (k < found)
			continue;
		seen[found] = st;
		strcpy(info[found].name, list[i].name);
		info[found].pid = list[i].pid;
		info[found++].fd = list[i].fd;
	}
	free(seen);
	free(list);
	if (err) {
		free(info);
		return err;
	}
	*out = info;
	*n = found;
	return 0;
}
