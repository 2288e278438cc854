/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of memory and address space; users, names and namespaces that are refused. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric_procs.h"

/* Several members grow the fabric at once; the bytes of each member must not change. */
static int growth_peer(void *arg)
{
	_Atomic uint32_t *turn = arg;
	struct shca_member m;
	enum { N = 40 };
	shca_off off[N];
	join(&m);
	atomic_fetch_add(turn, 1);
	await(turn, 6);
	for (unsigned i = 0; i < N; i++) {
		uint64_t bytes = 1000 + i * 20011;
		off[i] = shca_mem_alloc(&m, bytes);
		CHECK(off[i]);
		memset(shca_at(m.base, off[i]), (int)(m.slot * 16 + i % 16), bytes);
	}
	for (unsigned i = 0; i < N; i++) {
		uint64_t bytes = 1000 + i * 20011;
		const unsigned char *p = shca_at(m.base, off[i]);
		for (uint64_t k = 0; k < bytes; k++)
			CHECK(p[k] == (unsigned char)(m.slot * 16 + i % 16));
		shca_mem_free(&m, off[i], bytes);
	}
	shca_engine_leave(&m);
	return 0;
}
int case_growth(void)
{
	_Atomic uint32_t *turn = shared(4096);
	pid_t pid[6];
	for (int i = 0; i < 6; i++)
		pid[i] = spawn(growth_peer, turn);
	for (int i = 0; i < 6; i++)
		CHECK(exit_of(pid[i]) == 0);
	return 0;
}

/* The size of /dev/shm does not matter. */
int case_dev_shm(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m")) {
		printf("# cannot mount a small /dev/shm: %s\n", strerror(errno));
		return SKIP;
	}
	struct shca_member m;
	join(&m);
	shca_off off = shca_mem_alloc(&m, 64 << 20);
	CHECK(off);
	memset(shca_at(m.base, off), 1, 64 << 20);
	shca_mem_free(&m, off, 64 << 20);
	shca_engine_leave(&m);
	return 0;
}

/* Under a small limit on the address space a member maps the front of the file only; objects beyond are
 * refused, and not touched. */
struct limited {
	_Atomic uint32_t ready, done;
	uint32_t number;
};
static int far_peer(void *arg)
{
	struct limited *l = arg;
	struct shca_member m;
	join(&m);
	CHECK(m.bytes == m.hdr->bytes);
	shca_off front = shca_mem_alloc(&m, 600 << 20), off = shca_mem_alloc(&m, 100000);
	CHECK(front && off > 600 << 20);
	l->number = shca_number_alloc(&m);
	((struct shca_cq *)shca_at(m.base, off))->cqn = l->number;	/* each object stores its number */
	shca_number_set(&m, l->number, SHCA_KIND_CQ, off);
	shca_mem_free(&m, front, 600 << 20);
	atomic_store(&l->ready, 1);
	await(&l->done, 1);
	return 0;
}
static int near_peer(void *arg)
{
	struct limited *l = arg;
	struct shca_member m;
	struct rlimit lim = { 2000u << 20, 2000u << 20 };
	CHECK(!setrlimit(RLIMIT_AS, &lim));
	join(&m);
	CHECK(m.bytes <= 500 << 20 && m.bytes < m.hdr->bytes);
	CHECK(!shca_number_get(&m, l->number, SHCA_KIND_CQ));
	CHECK(!shca_number_get(&m, l->number, SHCA_KIND_CQ));
	shca_off off = shca_mem_alloc(&m, 50 << 20);
	CHECK(off && off + (50 << 20) <= m.bytes);
	memset(shca_at(m.base, off), 1, 50 << 20);
	CHECK(!shca_mem_alloc(&m, 1000 << 20) && errno == ENOMEM);
	shca_engine_leave(&m);
	return 0;
}
int case_limit_as(void)
{
#if defined(SHCA_SANITIZED)
	printf("# sanitizers need the address space themselves\n");
	return SKIP;
#endif
	char text[4096];
	struct limited *l = shared(sizeof(*l));
	pid_t pid = spawn(far_peer, l);
	await(&l->ready, 1);
	int status = capture(near_peer, l, text, sizeof(text));
	printf("# %s", text);
	CHECK(status == 0);
	CHECK(strstr(text, "out of reach") && strstr(text, "ulimit -v") && strstr(text, "SHCA_RESERVE"));
	atomic_store(&l->done, 1);
	CHECK(exit_of(pid) == 0);
	return 0;
}

/* Running out of memory is an error that names the figures; no signal. */
static int greedy_peer(void *arg)
{
	struct shca_member m;
	join(&m);
	CHECK(!shca_mem_alloc(&m, (meminfo_kib("MemTotal:") + 1024) << 10) && errno == ENOMEM);
	CHECK(shca_mem_alloc(&m, 1 << 20));
	shca_engine_leave(&m);
	return 0;
}
static int fsize_peer(void *arg)
{
	struct shca_member m;
	join(&m);
	struct rlimit lim = { 40 << 20, RLIM_INFINITY };
	CHECK(!setrlimit(RLIMIT_FSIZE, &lim));
	CHECK(shca_mem_alloc(&m, 1 << 20));
	CHECK(!shca_mem_alloc(&m, 40 << 20) && errno == ENOMEM);
	CHECK(shca_mem_alloc(&m, 1 << 20));
	shca_engine_leave(&m);
	return 0;
}
int case_no_memory(void)
{
	char text[4096];
	CHECK(capture(greedy_peer, NULL, text, sizeof(text)) == 0);
	printf("# %s", text);
	CHECK(strstr(text, "KiB needed") && strstr(text, "available") && strstr(text, "cgroup"));
	CHECK(capture(fsize_peer, NULL, text, sizeof(text)) == 0);
	CHECK(strstr(text, "ulimit -f"));
	return 0;
}

/* Growth in small steps under a memory cgroup ends with ENOMEM, and not with the kernel's choice of a process; also when the
 * limit is an ancestor's. */
static int creeping_peer(void *group)
{
	struct shca_member m;
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/inner/cgroup.procs", (const char *)group);
	f = fopen(path, "we");
	if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f))
		return SKIP;
	join(&m);
	for (int i = 0; i < 100000; i++)
		if (!shca_mem_alloc(&m, 60000)) {
			CHECK(errno == ENOMEM && i > 100);
			shca_engine_leave(&m);
			return 0;
		}
	return 1;
}
int case_cgroup(void)
{
	const char *const mounts[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
	const char *const limits[] = {"memory.limit_in_bytes", "memory.max"};
	char group[96], path[200], text[4096];
	int rc = SKIP;

	for (int v = 0; v < 2 && rc == SKIP; v++) {
		snprintf(group, sizeof(group), "%s/shca-test-%d", mounts[v], (int)getpid());
		snprintf(path, sizeof(path), "%s/inner", group);
		if (mkdir(group, 0755))
			continue;
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/%s", group, limits[v]);
		FILE *f = fopen(path, "we");
		bool limited = f && fprintf(f, "%d\n", 64 << 20) > 0;
		limited = f && !fclose(f) && limited;
		if (limited)
			rc = capture(creeping_peer, group, text, sizeof(text));
		snprintf(path, sizeof(path), "%s/inner", group);
		for (int i = 0; i < 1000 && rmdir(path) && errno == EBUSY; i++)
			poll(NULL, 0, 1);
		for (int i = 0; i < 1000 && rmdir(group) && errno == EBUSY; i++)
			poll(NULL, 0, 1);
	}
	if (rc == SKIP) {
		printf("# no memory cgroup can be made here\n");
		return SKIP;
	}
	if (rc)
		fprintf(stderr, "the process that grew ended with %d\n", rc);
	else
		CHECK(strstr(text, "cgroup leaves"));
	return rc != 0;
}

/* The same for cgroup version 2, or a directory in the same format, since no machine has memory controllers of both versions. The
 * tightest limit of the group and its ancestors counts; file pages that can be dropped do not count as used; "max" and missing
 * files are no limit. */
static bool put(const char *dir, const char *name, const char *text)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "we");
	return f && fputs(text, f) >= 0 && !fclose(f);
}
static int peer_in_tree(void *arg)
{
	const char *top = arg;
	char self[200], cur[32];
	struct shca_member m;

	snprintf(self, sizeof(self), "%s/self", top);
	shca_cgroup_self = self;
	shca_cgroup_v1 = "/nowhere";
	shca_cgroup_v2 = top;
	join(&m);
	/* 64 MiB, of which 40 are used, 8 of those by files: 32 are left, whatever the limit of the group itself */
	CHECK(!shca_mem_alloc(&m, 33 << 20) && errno == ENOMEM);
	shca_off off = shca_mem_alloc(&m, 20 << 20);
	CHECK(off);
	shca_mem_free(&m, off, 20 << 20);
	snprintf(cur, sizeof(cur), "%u\n", 72u << 20);
	char mid[200];
	snprintf(mid, sizeof(mid), "%s/a", top);
	CHECK(put(mid, "memory.current", cur));
	/* the member grows within the earlier grant without asking again: some of these allocations still succeed */
	for (int i = 0; i < 1000; i++)
		if (!shca_mem_alloc(&m, 60000)) {
			CHECK(errno == ENOMEM && i < 600);
			shca_fabric_leave(&m);
			return 0;
		}
	return 1;
}
int case_cgroup_v2(void)
{
	char top[] = "/tmp/shca-cgroup-XXXXXX", dir[200], text[4096], limit[32], cur[32];
	static const char *const files[] = {"a/b/memory.max", "a/b/memory.current", "a/memory.max", "a/memory.current",
					    "a/memory.stat", "self", "a/b", "a", ""};

	CHECK(mkdtemp(top) && put(top, "self", "0::/a/b\n"));
	snprintf(dir, sizeof(dir), "%s/a", top);
	CHECK(!mkdir(dir, 0755));
	snprintf(limit, sizeof(limit), "%u\n", 64u << 20);
	snprintf(cur, sizeof(cur), "%u\n", 40u << 20);
	CHECK(put(dir, "memory.max", limit) && put(dir, "memory.current", cur));
	CHECK(put(dir, "memory.stat", "anon 1\ninactive_file 4194304\nactive_file 4194304\nslab 7\n"));
	snprintf(dir, sizeof(dir), "%s/a/b", top);
	CHECK(!mkdir(dir, 0755) && put(dir, "memory.max", "max\n") && put(dir, "memory.current", "4096\n"));
	int status = capture(peer_in_tree, top, text, sizeof(text));
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(dir, sizeof(dir), "%s/%s", top, files[i]);
		remove(dir);
	}
	printf("# %s", text);
	CHECK(status == 0);
	CHECK(strstr(text, "cgroup leaves 32768 KiB of 65536 KiB") && strstr(text, "cgroup leaves 0 KiB"));
	return 0;
}

/* Another user gets a separate fabric by the same name, with a message that names this one; with an inherited descriptor that
 * user is refused. */
static int stranger(void *by_name)
{
	struct shca_member m;
	if (setgid(65534) || setuid(65534))
		return SKIP;
	int err = shca_engine_join(&m, by_name ? fabric : NULL);
	if (err)
		return -err;
	CHECK(m.slot == 0 && m.hdr->uid == 65534);
	shca_engine_leave(&m);
	return 0;
}
int case_other_user(void)
{
	char text[4096], fd[16];
	struct shca_member m;
	if (geteuid()) {
		printf("# needs root to become another user\n");
		return SKIP;
	}
	join(&m);
	CHECK(capture(stranger, fabric, text, sizeof(text)) == 0);
	printf("# %s", text);
	CHECK(strstr(text, "user 0") && strstr(text, "user 65534"));
	int made = shca_fabric_create("of-root");
	CHECK(made >= 0);
	CHECK(!fcntl(made, F_SETFD, 0));
	snprintf(fd, sizeof(fd), "%d", made);
	setenv("SHCA_FABRIC_FD", fd, 1);
	CHECK(capture(stranger, NULL, text, sizeof(text)) == EACCES);
	CHECK(strstr(text, "user 0") && strstr(text, "user 65534"));
	shca_engine_leave(&m);
	return 0;
}

/* Another user binds the abstract names by which a process of this user would be found, and joins: that must not hold up
 * this user's processes. */
struct squat {
	_Atomic uint32_t there;
	int type;		/* 0: does not listen; 1: listens; 2: the backlog is full; 3: a datagram socket; 4: names with a
				 * line break, behind which stands a line as /proc/net/unix would have it for a socket of this
				 * user; 5: and the names of these lines, too */
	uint32_t pid;
	int fd;			/* 4, 5: the socket */
	unsigned long inode;
};

static void squat_name(int type, const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	int fd = socket(AF_UNIX, type == 3 ? SOCK_DGRAM : SOCK_STREAM, 0), s;
	memcpy(a.sun_path + 1, name, strlen(name));
	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, len));
	if (type == 1 || type == 2)
		CHECK(!listen(fd, type == 1 ? 100 : 0));
	do
		s = type == 2 ? socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0) : -1;
	while (s >= 0 && !connect(s, (struct sockaddr *)&a, len));
}

static int squatter(void *arg)
{
	struct squat *q = arg;
	unsigned long long hash = 0xcbf29ce484222325u;
	char name[108];
	for (const char *c = fabric; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	CHECK(!setgid(65534) && !setuid(65534) && !prctl(PR_SET_PDEATHSIG, SIGKILL));
	for (int ticket = 0; q->type >= 4 && ticket < 2; ticket++) {
		snprintf(name, sizeof(name), "\n0: 0 0 0 0 0 %lu @shca-lock/0/%016llx/%u/%d/%x/1", q->inode, hash, q->pid, q->fd,
			 ticket);
		squat_name(0, name);
		if (q->type == 5)
			squat_name(0, strchr(name, '@') + 1);
	}
	/* a name that all joining processes would use, if that name were a lock */
	snprintf(name, sizeof(name), "shca-lock/0/%s", fabric);
	squat_name(q->type, name);
	for (int fd = 3; q->type < 4 && fd < 20; fd++) {
		snprintf(name, sizeof(name), "shca/0/%s/%u/%d", fabric, q->pid, fd);
		squat_name(q->type, name);
		snprintf(name, sizeof(name), "shca-bell/%u/%d", q->pid, fd - 3);
		squat_name(q->type, name);
		for (int ticket = 0; ticket < 2; ticket++) {
			snprintf(name, sizeof(name), "shca-lock/0/%016llx/%u/%d/%x/12345678", hash, q->pid, fd, ticket);
			squat_name(q->type, name);
		}
	}
	atomic_store(&q->there, 1);
	for (;;)
		pause();
}

static int joins_second(void *arg)
{
	struct shca_member m;
	(void)arg;
	join(&m);
	CHECK(m.slot == 1);
	shca_engine_leave(&m);
	return 0;
}

int case_squatters(void)
{
	static const char *const types[] = { "does not listen", "listens", "has a full backlog", "is a datagram socket",
					   "has a line break", "has a line break, and another one is as behind that" };
	struct stat st;
	struct squat *q = shared(4096);
	struct shca_member m;
	if (geteuid()) {
		printf("# needs root to become another user\n");
		return SKIP;
	}
	setenv("SHCA_JOIN_MS", "3000", 1);
	q->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(q->fd >= 0 && !fstat(q->fd, &st));
	q->inode = st.st_ino;
	for (int type = 0; type < 6; type++) {
		q->type = type;
		q->pid = (uint32_t)getpid();
		atomic_store(&q->there, 0);
		pid_t pid = spawn(squatter, q);
		await(&q->there, 1);
		printf("# another user's name %s\n", types[type]);
		fflush(stdout);
		join(&m);
		CHECK(m.hdr->uid == 0 && m.slot == 0);
		CHECK(exit_of(spawn(joins_second, NULL)) == 0);
		shca_engine_leave(&m);
		kill(pid, SIGKILL);
		exit_of(pid);
	}
	return 0;
}

/* Another user binds names of other fabrics that lead to the file of this user's one: this user's list keeps the true name. */
static int misnamer(void *arg)
{
	struct squat *q = arg;
	char name[108];

	CHECK(!setgid(65534) && !setuid(65534) && !prctl(PR_SET_PDEATHSIG, SIGKILL));
	/* the kernel lists names in the order of their hashes: of so many most come before any other one */
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "shca/0/false-%u/%u/%d", i, q->pid, q->type);
		squat_name(0, name);
	}
	atomic_store(&q->there, 1);
	for (;;)
		pause();
}

int case_misnamed(void)
{
	struct squat *q = shared(4096);
	struct shca_fabric_info *list;
	struct shca_member m;
	unsigned found = 0;
	size_t n;
	if (geteuid()) {
		printf("# needs root to become another user\n");
		return SKIP;
	}
	join(&m);
	q->pid = (uint32_t)getpid();
	q->type = m.fd.n;
	pid_t pid = spawn(misnamer, q);
	await(&q->there, 1);
	CHECK(!shca_fabric_list(&list, &n));
	for (size_t i = 0; i < n; i++) {
		CHECK(strncmp(list[i].name, "false-", 6));
		found += !strcmp(list[i].name, fabric);
	}
	free(list);
	CHECK(found == 1);
	kill(pid, SIGKILL);
	exit_of(pid);
	shca_engine_leave(&m);
	return 0;
}

/* A fabric of another version of the library, found by name and inherited. */
static int joiner(void *name)
{
	struct shca_member m;
	return -shca_engine_join(&m, name);
}
int case_other_version(void)
{
	char text[4096], fd[16];
	uint32_t other = SHCA_LAYOUT ^ 1;
	int made = shca_fabric_create(fabric), name = shca_name_publish(fabric, made);
	CHECK(made >= 0 && name >= 0 && !fcntl(made, F_SETFD, 0));
	CHECK(pwrite(made, &other, sizeof(other), offsetof(struct shca_header, version)) == sizeof(other));
	CHECK(capture(joiner, fabric, text, sizeof(text)) == EPROTO);
	printf("# %s", text);
	CHECK(strstr(text, "another version of libshca") && strstr(text, "SHCA_FABRIC"));
	snprintf(fd, sizeof(fd), "%d", made);
	setenv("SHCA_FABRIC_FD", fd, 1);
	CHECK(capture(joiner, NULL, text, sizeof(text)) == EPROTO);
	CHECK(strstr(text, "another version of libshca"));
	close(name);
	close(made);
	return 0;
}

/* A file that looks like a fabric and is none: a file that can be truncated, or one with an impossible header. A process that
 * inherits the descriptor ignores the file, and looks for the fabric by name. */
static int passes_over(void *file)
{
	struct shca_member m;
	struct stat st;
	int err = fstat(*(int *)file, &st) ? -errno : shca_engine_join(&m, NULL);
	if (err)
		return -err;
	bool other = m.fd.ino != st.st_ino && !strcmp(m.hdr->name, fabric);
	shca_engine_leave(&m);
	return other ? 0 : 1;
}
static int copy_of(int file)
{
	struct shca_header h;
	struct stat st;
	int fd = memfd_create("unsealed", MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && !fstat(file, &st) && pread(file, &h, sizeof(h), 0) == sizeof(h));
	CHECK(!ftruncate(fd, st.st_size) && pwrite(fd, &h, sizeof(h), 0) == sizeof(h));
	return fd;
}
int case_no_fabric(void)
{
	char text[4096], fd[16];
	setenv("SHCA_FABRIC", fabric, 1);
	for (int i = 0; i < 5; i++) {
		int file = shca_fabric_create(fabric);
		struct shca_header h;
		CHECK(file >= 0 && pread(file, &h, sizeof(h), 0) == sizeof(h));
		switch (i) {
		case 0: file = copy_of(file); break;
		case 1: h.bytes += SHCA_CHUNK; break;
		case 2: h.first_chunk += 1; break;		/* the tables would reach beyond the file */
		case 3: h.first_chunk = h.nchunks; break;
		case 4: h.magic ^= 1; break;
		}
		CHECK(i == 0 || pwrite(file, &h, sizeof(h), 0) == sizeof(h));
		CHECK(!fcntl(file, F_SETFD, 0));
		snprintf(fd, sizeof(fd), "%d", file);
		setenv("SHCA_FABRIC_FD", fd, 1);
		int status = capture(passes_over, &file, text, sizeof(text));
		if (status)
			fprintf(stderr, "file %d: status %d: %s", i, status, text);
		CHECK(status == 0);
		close(file);
	}
	return 0;
}

/* A span that is out of range is replaced by the nearest valid one, with a message. */
static int spans(void *bytes)
{
	struct shca_header h;
	int fd = shca_fabric_create(fabric);
	bool as_wanted = fd >= 0 && pread(fd, &h, sizeof(h), 0) == sizeof(h) && h.bytes == *(uint64_t *)bytes;
	close(fd);
	return as_wanted ? 0 : 1;
}
int case_span(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
		bool said;
	} want[] = {
		{ "1m", 64ull << 20, true }, { "0", 64ull << 20, true }, { "64m", 64ull << 20, false },
		{ "200m", 200ull << 20, false }, { "32t", 16ull << 40, true },
	};
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		char text[4096];
		uint64_t bytes = want[i].bytes;
		setenv("SHCA_RESERVE", want[i].text, 1);
		int status = capture(spans, &bytes, text, sizeof(text));
		if (status)
			fprintf(stderr, "SHCA_RESERVE=%s: status %d: %s", want[i].text, status, text);
		CHECK(status == 0);
		CHECK((strstr(text, "out of range") != NULL) == want[i].said);
	}
	return 0;
}

/* Names that mean nothing, and names of namespaces that are not ours. */
static int other_netns(void *arg)
{
	struct shca_member m;
	if (unshare(CLONE_NEWNET))
		return SKIP;
	return -shca_engine_join(&m, NULL);
}
static int other_pidns(void *arg)
{
	if (unshare(CLONE_NEWPID))
		return SKIP;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid) {
		struct shca_member m;
		_exit(-shca_engine_join(&m, fabric));
	}
	return exit_of(pid);
}
static int bad_name(void *arg)
{
	struct shca_member m;
	return -shca_engine_join(&m, arg);
}
static int bad_number(void *text)
{
	struct shca_member m;
	setenv("SHCA_FABRIC_FD", text, 1);
	return -shca_engine_join(&m, NULL);
}
int case_refused(void)
{
	char text[4096], fd[16];
	CHECK(capture(bad_name, "a/b", text, sizeof(text)) == EINVAL && strstr(text, "a/b"));
	static char *const numbers[] = {"fabric", "987x", "98 7", "-1", "4294967296"};
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int refused = capture(bad_number, numbers[i], text, sizeof(text));
		if (refused != EINVAL || !strstr(text, numbers[i]))
			fprintf(stderr, "SHCA_FABRIC_FD=%s: status %d: %s\n", numbers[i], refused, text);
		CHECK(refused == EINVAL && strstr(text, numbers[i]));
	}
	struct shca_member m;
	join(&m);
	int status = capture(other_pidns, NULL, text, sizeof(text));
	if (status != SKIP) {
		printf("# %s", text);
		CHECK(status == EXDEV && strstr(text, "PID namespace"));
	}
	int made = shca_fabric_create("for-others");
	CHECK(made >= 0 && !fcntl(made, F_SETFD, 0));
	snprintf(fd, sizeof(fd), "%d", made);
	setenv("SHCA_FABRIC_FD", fd, 1);
	status = capture(other_netns, NULL, text, sizeof(text));
	if (status != SKIP)
		CHECK(status == EXDEV && strstr(text, "network namespace"));
	shca_engine_leave(&m);
	return 0;
}
