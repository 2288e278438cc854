/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of system calls that may block: dated where they begin, or where a reader first sees them. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>

#include "base/base.h"
#include "runtime/syscalls.h"

enum { LONG = 1 << 20, MANY = 100 /* more than slots, and than nanoseconds between their dates */ };

Test(syscalls, of_long_transfers_are_dated_when_they_begin)
{
	uint64_t before = monotonic_ns();
	struct hdl_syscall *s = hdl_syscall_begin("MPI_File_read", "pread", 7, -1, 3, LONG), copy;
	uint64_t after = monotonic_ns();

	cr_assert(s->since >= before && s->since <= after);
	cr_assert(hdl_syscall_oldest(0, &copy));
	cr_assert(copy.since == s->since && copy.fd == 7 && copy.lock == -1 && copy.offset == 3 && copy.bytes == LONG);
	cr_assert(!strcmp(copy.call, "MPI_File_read") && !strcmp(copy.name, "pread"));
	cr_assert_not(hdl_syscall_oldest(copy.since, &copy));
	hdl_syscall_end(s);
	cr_assert_not(hdl_syscall_oldest(0, &copy));
}

Test(syscalls, of_short_transfers_are_dated_when_they_are_seen)
{
	struct hdl_syscall *s = hdl_syscall_begin("MPI_File_read", "pread", 7, -1, 0, 8), copy;
	uint64_t before = monotonic_ns(), since;

	cr_assert_eq(s->since, HDL_SYSCALL_UNSEEN);
	hdl_syscalls_date();
	since = s->since;
	cr_assert(since + MANY >= before && since <= monotonic_ns());
	hdl_syscalls_date();
	cr_assert(hdl_syscall_oldest(0, &copy) && copy.since == since, "and once only");
	hdl_syscall_end(s);
	/* not even an earlier question is needed */
	s = hdl_syscall_begin("MPI_File_read", "pread", 7, -1, 0, 8);
	cr_assert_eq(s->since, HDL_SYSCALL_UNSEEN);
	cr_assert(hdl_syscall_oldest(0, &copy) && copy.since >= since);
	hdl_syscall_end(s);
	hdl_syscalls_date();
	cr_assert_eq(s->since, 0, "a slot without a call has no date");
}

Test(syscalls, of_locks_and_names_are_dated_when_they_begin)
{
	uint64_t before = monotonic_ns();
	struct hdl_syscall *s = hdl_syscall_begin("", "fcntl", 7, F_WRLCK, 0, 1), copy;
	struct hdl_syscall *sync = hdl_syscall_begin("", "fsync", 7, -1, 0, 0);
	struct hdl_syscall *open = hdl_syscall_begin_path("", "open", "/a/file");

	cr_assert(s->since >= before && sync->since >= s->since && open->since >= sync->since);
	cr_assert(hdl_syscall_oldest(sync->since, &copy));
	cr_assert(copy.fd == -1 && copy.lock == -1 && !copy.bytes && !strcmp(copy.path, "/a/file"));
	hdl_syscall_end(s);
	hdl_syscall_end(sync);
	hdl_syscall_end(open);
}

Test(syscalls, that_are_too_many_have_no_record)
{
	struct hdl_syscall *s[MANY], copy;
	int n = 0;
	uint64_t after = 0;

	while (n < MANY && (s[n] = hdl_syscall_begin("", "pread", n, -1, 0, 8)))
		n++;
	cr_assert(n > 1 && n < MANY);
	cr_assert_null(hdl_syscall_begin_path("", "open", "/"));
	for (int i = 0; i < n; i++, after = copy.since)
		cr_assert(hdl_syscall_oldest(after, &copy), "each has a date of its own: %d", i);
	cr_assert_not(hdl_syscall_oldest(after, &copy));
	hdl_syscall_end(NULL);
	for (int i = 0; i < n; i++)
		hdl_syscall_end(s[i]);
	cr_assert_not(hdl_syscall_oldest(0, &copy));
}
