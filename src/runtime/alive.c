/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a silent process of this host lives: a process that computes, or is stopped, sends nothing either. A pid
 * alone would not do, since the kernel uses pids again; pid and start time name a process.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fnv.h"
#include "runtime/runtime.h"

/* proc_pid_stat(5): fields by number */
enum { STATE = 3, NUM_THREADS = 20, STARTTIME = 22, FIELDS };

/* 0, -ESRCH: there is no such process; -EIO: not known. */
static int read_stat(uint32_t pid, char *state, uint64_t *threads, uint64_t *start)
{
	char text[1024], *p;
	int err = hdl_proc_stat(pid, text, sizeof text, &p);

	if (err)
		return err;
	*state = *p;
	for (int field = STATE; field < STARTTIME; field++) {
		if (field == NUM_THREADS)
			*threads = strtoull(p, NULL, 10);
		p = strchr(p, ' ');
		if (!p)
			return -EIO;
		p++;
	}
	*start = strtoull(p, NULL, 10);
	return *start ? 0 : -EIO;
}

static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

/* Read once in a process, as is hdl_host_id. */
void hdl_proc_self(struct hdl_proc *proc)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of own */
	static struct hdl_proc own;
	uint64_t threads;
	char state;

	pthread_mutex_lock(&lock);
	if (own.pid != (uint32_t)getpid() || !own.start) {	/* fork(2) may have copied the parent's */
		own = (struct hdl_proc){ .pid = (uint32_t)getpid() };
		own.space = pid_namespace();
		if (!own.space || read_stat(own.pid, &state, &threads, &own.start))
			own.start = 0;
	}
	*proc = own;
	pthread_mutex_unlock(&lock);
}

static uint64_t read_host_id(void)
{
	char text[64];
	size_t n = 0;
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (f) {
		n = fread(text, 1, sizeof text, f);
		fclose(f);
	}
	return n ? fnv1a_64(FNV1A_64, text, n) : 0;
}

/* Read once, in MPI_Init: later the program may have no descriptor left, and each process would be on another host. */
uint64_t hdl_host_id(void)
{
	static uint64_t id;		/* 0: not read */
	uint64_t known = __atomic_load_n(&id, __ATOMIC_RELAXED);

	if (!known) {
		known = read_host_id();
		__atomic_store_n(&id, known, __ATOMIC_RELAXED);
	}
	return known;
}

enum hdl_proc_state hdl_proc_state(const struct hdl_proc *proc)
{
	uint64_t threads = 0, start = 0;
	char state;
	int err;

	if (!proc->start || proc->space != pid_namespace())
		return HDL_PROC_UNKNOWN;
	err = read_stat(proc->pid, &state, &threads, &start);
	if (err)
		return err == -ESRCH ? HDL_PROC_ENDED : HDL_PROC_UNKNOWN;
	if (start != proc->start)
		return HDL_PROC_ENDED;
	/* a process exists until the parent has reaped it; a process whose first thread has ended goes on */
	return (state == 'Z' || state == 'X') && threads <= 1 ? HDL_PROC_ENDED : HDL_PROC_LIVES;
}
