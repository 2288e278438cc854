/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread forks while another one is anywhere in the library: fork() takes the library's locks in the order in which calls take
 * them, whichever part of the library was used first. Otherwise both threads wait for each other: the alarm ends the test.
 */
#include "cm.h"

static _Atomic bool ends;

static void *opener(void *arg)
{
	while (!atomic_load(&ends)) {
		struct ibv_context *ctx = vt_context();
		CHECK(!ibv_close_device(ctx), "ibv_close_device");
	}
	return arg;
}

static void *binder(void *arg)
{
	while (!atomic_load(&ends)) {
		struct rdma_event_channel *ch = cm_channel();
		struct rdma_cm_id *id = cm_listen(ch, RDMA_PS_TCP, "127.0.0.1", 1);
		cm_destroy(id);
		rdma_destroy_event_channel(ch);
	}
	return arg;
}

/* Forks beside a thread that has used nothing of the library before; in a process of its own. */
static void beside(const char *what, void *(*f)(void *))
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0, "fork");
	if (!pid) {
		pthread_t t;
		alarm(60);
		CHECK(!pthread_create(&t, NULL, f, NULL), "pthread_create");
		for (int i = 0; i < 100; i++) {
			pid_t child = fork();
			CHECK(child >= 0, "fork");
			if (!child)
				_exit(0);
			CHECK(waitpid(child, &status, 0) == child && !status, "a child: %#x", status);
		}
		atomic_store(&ends, true);
		CHECK(!pthread_join(t, NULL), "pthread_join");
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status, "fork beside a thread that %s: status %#x", what, status);
}

int main(void)
{
	cm_start();
	beside("opens and closes the device", opener);
	beside("listens by RDMA CM", binder);
	return 0;
}
