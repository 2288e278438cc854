/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls in which a thread may block for long, and makes no progress meanwhile: those of file I/O. A thread records the
 * call ahead of it, and clears the record behind it; the hang report prints the records, from another thread.
 *
 * A record is a slot of a fixed table, claimed by a compare-and-swap. The reader copies a slot, and drops the copy if the slot's
 * turn has changed meanwhile. Nothing in a slot points to memory that is freed.
 *
 * The clock takes a tenth of the time of a read of 8 bytes from the page cache. So the date of a short transfer is when a
 * reader first saw its record: the reader writes the date there (hdl_syscalls_date, when the first question comes). All other
 * calls are dated when they begin.
 */
#ifndef HDL_SYSCALLS_H
#define HDL_SYSCALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { HDL_SYSCALL_PATH = 200 };

struct hdl_syscall {
	uint32_t turn;			/* atomic; odd: the slot has a call. Counts up when a call begins and when it ends */
	const char *call, *name;	/* the MPI function, "" for an I/O thread; the system call. Constants */
	int fd;				/* -1: `path` names the file */
	int64_t offset, bytes;		/* of the range of the file; bytes 0: of no range */
	short lock;			/* F_RDLCK, F_WRLCK: waits for a lock of the range; else -1 */
	/* monotonic_ns() at the begin of the call; HDL_SYSCALL_UNSEEN: a short transfer, which the first reader of the record
	 * dates; 0: the other members are not complete */
	uint64_t since;
	char path[HDL_SYSCALL_PATH];
};

#define HDL_SYSCALL_UNSEEN 1

/* Record a call that begins, of a range of a file, or by the file's name. Return the record, or NULL: the table is full. Any
 * thread may call. */
struct hdl_syscall *hdl_syscall_begin(const char *call, const char *name, int fd, short lock, int64_t offset, int64_t bytes);
struct hdl_syscall *hdl_syscall_begin_path(const char *call, const char *name, const char *path);
/* The call has returned. Does not change errno. s: may be NULL. */
static inline void hdl_syscall_end(struct hdl_syscall *s)
{
	if (!s)
		return;
	__atomic_store_n(&s->since, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->turn, s->turn + 1, __ATOMIC_RELEASE);
}

/* Dates the calls that are under way and have no date. */
void hdl_syscalls_date(void);
/* Copies the oldest call that is under way, behind the one that began at `after` (0: of all). Returns false if there is none. */
bool hdl_syscall_oldest(uint64_t after, struct hdl_syscall *copy);
/* Prints the call as a phrase: "pwrite of 10 bytes at offset 0 of /tmp/file". */
void hdl_syscall_print(const struct hdl_syscall *s, FILE *out);
/* Prints the processes that hold the lock for which the call waits, a line each; nothing if none is seen. */
void hdl_syscall_print_holders(const struct hdl_syscall *s, FILE *out);

#endif
