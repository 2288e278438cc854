/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that processes of a host share without a device: made by one, opened by a child, found by its name only, reserved. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
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

Test(transport_segment, reserved)
{
	struct rlimit limit = { BYTES, BYTES };
	struct hdl_segment s;

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	for (int how = HDL_SEGMENT_ANONYMOUS; how <= HDL_SEGMENT_NAMED; how++)
		cr_assert(!hdl_segment_make((enum hdl_segment_how)how, 2 * BYTES, &s) && s.fd < 0 && errno);
}
