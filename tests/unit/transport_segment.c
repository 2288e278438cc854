/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that processes of a host share without a device: made by one, opened by a child, found by its name only, reserved. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/transport.h"

#define BYTES (1 << 20)

/* of runtime/ledger.c */
void hdl_ledger_add(const char *what, const void *p, size_t bytes)
{
	(void)what;
	(void)p;
	(void)bytes;
}

void hdl_ledger_drop(const void *p)
{
	(void)p;
}

static int in_child(int (*run)(const struct hdl_segment *s), const struct hdl_segment *s)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(run(s));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int writes(const struct hdl_segment *s)
{
	char *p = hdl_segment_open(s);

	if (!p)
		return 1;
	if (strcmp(p, "parent"))
		return 2;
	strcpy(p + BYTES - 16, "child");
	hdl_segment_unmap(p, BYTES);
	return 0;
}

static int refused(const struct hdl_segment *s)
{
	return hdl_segment_open(s) ? 1 : errno == ESTALE || errno == ENOENT ? 0 : 2;
}

Test(transport_segment, shared)
{
	for (int how = HDL_SEGMENT_ANONYMOUS; how <= HDL_SEGMENT_NAMED; how++) {
		struct hdl_segment s, other;
		char *p = hdl_segment_make((enum hdl_segment_how)how, BYTES, &s);

		cr_assert(p, "%d: %s", how, strerror(errno));
		for (int i = 0; i < BYTES; i++)
			cr_assert(!p[i]);
		strcpy(p, "parent");
		cr_assert_eq(in_child(writes, &s), 0, "%d", how);
		cr_assert(!strcmp(p + BYTES - 16, "child"));
		/* another file at the same descriptor; another length */
		other = s;
		other.nonce++;
		cr_assert_eq(in_child(refused, &other), 0, "%d", how);
		other = s;
		other.bytes += 4096;
		cr_assert_eq(in_child(refused, &other), 0, "%d", how);
		/* the memory stays when the name is gone */
		other = s;
		hdl_segment_opened(&s);
		cr_assert_eq(in_child(refused, &other), 0, "%d", how);
		p[BYTES / 2] = 1;
		hdl_segment_unmap(p, BYTES);
	}
}

static bool has_name(const struct hdl_segment *s)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/shm/heddle-segment-%016llx", (unsigned long long)s->nonce);
	return !access(path, F_OK);
}

/* Makers that have died leave names, which the next maker removes; those of living makers stay. */
Test(transport_segment, names_of_the_dead)
{
	struct hdl_segment s[3], all;
	int made[2], go[2];
	pid_t pid[2];

	cr_assert(!pipe(made) && !pipe(go));
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			hdl_segment_make(HDL_SEGMENT_NAMED, BYTES, &s[i]);
			if (!has_name(&s[i]))
				s[i].fd = -1;
			if (write(made[1], &s[i], sizeof(s[i])) < 0 || (i && read(go[0], &all, 1) < 0))
				_exit(1);
			_exit(0);
		}
		cr_assert_eq(read(made[0], &s[i], sizeof(s[i])), (ssize_t)sizeof(s[i]));
		cr_assert(s[i].fd >= 0);
		if (!i)
			waitpid(pid[0], NULL, 0);
	}
	/* the second maker has removed the first one's */
	cr_assert(!has_name(&s[0]));
	char *p = hdl_segment_make(HDL_SEGMENT_NAMED, BYTES, &s[2]);
	cr_assert(p && has_name(&s[1]) && has_name(&s[2]));
	hdl_segment_opened(&s[2]);
	cr_assert(!has_name(&s[2]) && has_name(&s[1]));
	cr_assert_eq(write(go[1], "", 1), 1);
	waitpid(pid[1], NULL, 0);
	all = s[1];
	cr_assert(hdl_segment_make(HDL_SEGMENT_NAMED, BYTES, &s[2]) && !has_name(&all));
	hdl_segment_opened(&s[2]);
}

Test(transport_segment, reserved)
{
	struct rlimit limit = { BYTES, BYTES };
	struct hdl_segment s;

	setrlimit(RLIMIT_FSIZE, &limit);
	for (int how = HDL_SEGMENT_ANONYMOUS; how <= HDL_SEGMENT_NAMED; how++)
		cr_assert(!hdl_segment_make((enum hdl_segment_how)how, 2 * BYTES, &s) && s.fd < 0 && errno);
}

/* More than any machine has is refused, and not taken until nothing is left. */
Test(transport_segment, more_than_there_is)
{
	struct hdl_segment s;

	for (int how = HDL_SEGMENT_ANONYMOUS; how <= HDL_SEGMENT_NAMED; how++)
		cr_assert(!hdl_segment_make((enum hdl_segment_how)how, (size_t)1 << 60, &s) && s.fd < 0 && errno == ENOMEM);
}

static void nothing(int sig)
{
	(void)sig;
}

/* A program with a timer, whose signals interrupt fallocate. */
Test(transport_segment, timer)
{
	struct itimerval tick = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	struct sigaction act = { .sa_handler = nothing };
	struct hdl_segment s;
	char *p;

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &tick, NULL);
	p = hdl_segment_make(HDL_SEGMENT_ANONYMOUS, 32 * BYTES, &s);
	setitimer(ITIMER_REAL, &never, NULL);
	cr_assert(p, "%s", strerror(errno));
	p[32 * BYTES - 1] = 1;
	hdl_segment_opened(&s);
	hdl_segment_unmap(p, 32 * BYTES);
}
