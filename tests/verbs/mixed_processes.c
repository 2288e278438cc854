/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes of mixed. A process that has no device and no threads makes them, so that none inherits an open device: the test
 * sends it the address of a function, which is the same in all of these processes.
 */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "mixed.h"

typedef void (*run_fn)(void);

static struct vt_peer maker;

static __attribute__((noreturn)) void maker_run(void)
{
	run_fn run;

	/* the maker ends with the pipe, however long the test takes */
	alarm(0);
	signal(SIGCHLD, SIG_IGN);
	while (read(maker.fd[0], &run, sizeof(run)) == sizeof(run)) {
		pid_t maker_pid = getpid(), pid = fork();
		CHECK(pid >= 0, "fork");
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() == maker_pid)
				run();
			_exit(1);
		}
		vt_tell(&maker, &pid, sizeof(pid));
	}
	exit(0);
}

void *mixed_processes_memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED, "mmap");
	return p;
}

void mixed_processes_start(void)
{
	maker = vt_fork();
	if (!maker.child)
		maker_run();
}

void mixed_processes_end(void)
{
	close(maker.fd[1]);
	vt_join(&maker);
}

pid_t mixed_process(run_fn run)
{
	pid_t pid;

	vt_tell(&maker, &run, sizeof(run));
	vt_hear(&maker, &pid, sizeof(pid));
	return pid;
}

void mixed_process_stopped(pid_t pid)
{
	char path[32], state = 0;
	uint64_t end = vt_ms() + 60000;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'T') {
		FILE *f = fopen(path, "re");
		CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && vt_ms() < end,
		      "seed %lu: process %d is not stopped: %c", seed, pid, state);
		fclose(f);
		sched_yield();
	}
}
