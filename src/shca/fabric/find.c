/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How processes that never met find the same fabric, without a file: by abstract socket names.
 *
 *     shca/<uid>/<fabric>/<pid>/<fd>     bound by each member: the fabric's file is /proc/<pid>/fd/<fd>
 *     shca-lock/<uid>/<fabric>           bound while somebody joins or creates
 *
 * One name never means two fabrics: looking, creating and publishing one's own name happen under the lock name, so a
 * joiner sees the names of all who joined before it. A member's name goes before its descriptor, so that a name
 * without a file only means that the process is about to end.
 *
 * Anybody in the network namespace may bind any abstract name; a name is therefore only a hint. What counts is the
 * file behind it: a sealed memory file of our own user with our magic. The kernel's SO_PEERCRED on the (listening)
 * socket tells who is behind a name whose file cannot be reached.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "shca/fabric/fabric.h"

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

/* Binds a listening socket: descriptor, or -EADDRINUSE. */
static int listen_at(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = abstract(&a, name);
	int fd = fd_raise(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&a, len) || listen(fd, SOMAXCONN)) {
		int err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/* Connects to a listening name: descriptor with the owner's credentials (when it called listen), or -errno. Never
 * blocks: -EAGAIN when its backlog is full. */
static int connect_at(const char *name, struct ucred *cred)
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

/* Waits until the owner of a listening socket that fd is connected to closes it. */
static void wait_closed(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	while (poll(&p, 1, timeout_ms) < 0 && errno == EINTR)
		;
}

/* The lock is a listening socket: those who wait are connected to it and wake when it is closed, be it by death. */
int shca_lock_take(const char *name, int *lock_fd)
{
	char lock[128];
	snprintf(lock, sizeof(lock), "shca-lock/%u/%s", (unsigned)geteuid(), name);
	int timeout = (int)shca_env_ms("SHCA_JOIN_MS");
	int64_t until = now_ms() + timeout;
	struct ucred cred = { 0 };
	for (;;) {
		int fd = listen_at(lock);
		if (fd >= 0) {
			*lock_fd = fd;
			return 0;
		}
		if (fd != -EADDRINUSE) {
			shca_error("cannot bind the abstract socket \"%s\": %s. Joining a fabric needs UNIX sockets", lock,
				   strerror(-fd));
			return fd;
		}
		int64_t left = until - now_ms();
		fd = connect_at(lock, &cred);
		if (fd >= 0) {
			if (cred.uid != geteuid()) {
				shca_error("the name \"%s\" is held by process %d of user %u, not of user %u: somebody keeps this "
					   "user from joining the fabric \"%s\". Name another one (SHCA_FABRIC)",
					   lock, (int)cred.pid, (unsigned)cred.uid, (unsigned)geteuid(), name);
				close(fd);
				return -EACCES;
			}
			if (left > 0)
				wait_closed(fd, (int)left);
			close(fd);
		} else if (fd == -EAGAIN) {
			poll(NULL, 0, 1);	/* its backlog is full */
		} else if (fd != -ECONNREFUSED) {
			/* REFUSED: gone, or bound and not listening yet */
			shca_error("cannot reach \"%s\": %s", lock, strerror(-fd));
			return fd;
		}
		if (left <= 0) {
			shca_error("process %d has been joining the fabric \"%s\" for %d ms: it may be stopped. Continue or end it, "
				   "or name another fabric (SHCA_FABRIC)",
				   (int)cred.pid, name, timeout);
			return -ETIMEDOUT;
		}
	}
}

int shca_name_publish(const char *name, int fd)
{
	char path[128];
	snprintf(path, sizeof(path), "shca/%u/%s/%d/%d", (unsigned)geteuid(), name, (int)getpid(), fd);
	int s = listen_at(path);
	if (s < 0)
		shca_error("cannot bind the abstract socket \"%s\": %s", path, strerror(-s));
	return s;
}

/* ---- looking --------------------------------------------------------------------------------------------------- */

struct candidate {
	char path[112];		/* as bound */
	unsigned uid;
	char name[64];
	int pid, fd;
};

static bool parse_candidate(const char *path, struct candidate *c)
{
	char end;
	return sscanf(path, "shca/%u/%63[^/]/%d/%d%c", &c->uid, c->name, &c->pid, &c->fd, &end) == 4 && c->pid > 0 &&
	       c->fd >= 0;
}

/* All names of members, of every user, that exist now. */
static int scan(struct candidate **list, size_t *n)
{
	*list = NULL;
	*n = 0;
	FILE *f = fopen("/proc/net/unix", "re");
	if (!f) {
		int err = errno;
		shca_error("cannot read /proc/net/unix: %s. Finding a fabric needs /proc; a launcher can pass it on by "
			   "SHCA_FABRIC_FD instead",
			   strerror(err));
		return -err;
	}
	char *line = NULL;
	size_t cap = 0, room = 0;
	int err = 0;
	while (getline(&line, &cap, f) > 0) {
		char *at = strstr(line, " @shca/");
		struct candidate c;
		if (!at)
			continue;
		at += 2;
		at[strcspn(at, "\n")] = 0;
		if (strlen(at) >= sizeof(c.path) || !parse_candidate(at, &c))
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
	free(line);
	fclose(f);
	return err;
}

/* Opens the file behind a name. -ENOENT: nothing there any more; -ENOTTY: something else; -EACCES: not permitted. */
static int open_candidate(const struct candidate *c, const char *name)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", c->pid, c->fd);
	/* look before opening: to open a device or a pipe could have effects */
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

/* A process that ends gives up its memory first, which may take long, and closes its descriptors then. In between the
 * kernel lets nobody but root look at its descriptors. */
static bool is_ending(int pid)
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

/* Who is behind a name of ours whose file cannot be opened: 0: nobody any more, look again; else refused, with text. */
static int explain(const struct candidate *c, int err)
{
	struct ucred cred;
	int s = connect_at(c->path, &cred);
	if (s < 0)
		return s == -EAGAIN || s == -ECONNREFUSED ? 0 : s;
	if (cred.uid != geteuid()) {	/* a stranger's name in our name space: pay no heed */
		close(s);
		return -ENOTTY;
	}
	if (cred.pid != c->pid) {
		shca_error("the fabric \"%s\" exists in another PID namespace (container): its member calls itself process %d "
			   "and is %s%d here. Run all processes in one PID namespace, or name another fabric (SHCA_FABRIC)",
			   c->name, c->pid, cred.pid ? "" : "not visible: ", (int)cred.pid);
		close(s);
		return -EXDEV;
	}
	if (err != -EACCES || is_ending(c->pid)) {
		wait_closed(s, 1000);
		close(s);
		return 0;
	}
	close(s);
	shca_error("the fabric \"%s\" has a member, process %d, that does not let its descriptors be opened: it is set-uid or not "
		   "dumpable (prctl PR_SET_DUMPABLE), or a security module forbids it",
		   c->name, c->pid);
	return -EACCES;
}

int shca_find(const char *name, bool explicit_name)
{
	int timeout = (int)shca_env_ms("SHCA_JOIN_MS");
	int64_t until = now_ms() + timeout;
	unsigned me = geteuid();
	for (;;) {
		struct candidate *list;
		size_t n;
		int result = scan(&list, &n);
		bool again = false;
		unsigned other = me;
		int other_pid = 0;
		if (result)
			goto done;
		result = -ENOENT;
		for (size_t i = 0; i < n && result == -ENOENT; i++) {
			const struct candidate *c = &list[i];
			if (strcmp(c->name, name))
				continue;
			if (c->uid != me) {
				other = c->uid;
				other_pid = c->pid;
				continue;
			}
			int r = open_candidate(c, name);
			if (r == -ENOENT || r == -EACCES || r == -ENOTTY) {
				r = explain(c, r);
				again |= r == 0;
				if (r == 0 || r == -ENOTTY)
					continue;
			}
			result = r;
		}
		if (result == -ENOENT && !again && explicit_name && other != me) {
			char path[64];
			struct stat st;
			snprintf(path, sizeof(path), "/proc/%d", other_pid);
			/* a name alone proves nothing */
			if (!stat(path, &st) && st.st_uid == other) {
				shca_error("the fabric \"%s\" belongs to user %u (process %d), this process runs as user %u: a fabric is "
					   "not shared between users. Run all processes as one user, or name another fabric (SHCA_FABRIC)",
					   name, other, other_pid, me);
				result = -EACCES;
			}
		}
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

int shca_fabric_list(struct shca_fabric_info **out, size_t *n)
{
	struct candidate *list;
	size_t found = 0, all;
	*out = NULL;
	*n = 0;
	int err = scan(&list, &all);
	struct shca_fabric_info *info = err ? NULL : calloc(all + 1, sizeof(*info));
	struct stat *seen = err ? NULL : calloc(all + 1, sizeof(*seen));
	if (!err && (!info || !seen))
		err = -ENOMEM;
	for (size_t i = 0; !err && i < all; i++) {
		char path[64];
		struct stat st;
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", list[i].pid, list[i].fd);
		if (list[i].uid != geteuid() || stat(path, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
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
