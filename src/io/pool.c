/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O threads. The first begins with the first job, one more with each job that finds none idle, up to POOL_THREADS.
 *
 *     MPI_File_iread        I/O thread                     any thread in progress
 *     todo ──────────────▶  run
 *                           done ── hdl_tp_wake ────────▶  pool_turn: ended, which completes the request
 *
 * `todo` and `done` are under pool.lock, which no thread holds while taking the library's lock.
 */
#include "io/io.h"
#include "runtime/thread.h"

#include <stdlib.h>

#define POOL_THREADS 4

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t thread[POOL_THREADS];
	int threads, idle;		/* idle: those in pthread_cond_wait, also where a signal to one is under way */
	int ntodo;			/* jobs in todo */
	struct hdl_io_job *todo, **todo_end;
	struct hdl_io_job *done;	/* pool_turn reads whether there is one without the lock */
	bool ends;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .todo_end = &pool.todo };

static struct hdl_io_job *next_todo(void)
{
	struct hdl_io_job *job;

	while (!pool.todo && !pool.ends) {
		pool.idle++;
		pthread_cond_wait(&pool.work, &pool.lock);
		pool.idle--;
	}
	job = pool.todo;
	if (job && !(pool.todo = job->next))
		pool.todo_end = &pool.todo;
	pool.ntodo -= job != NULL;
	return job;
}

static void *pool_main(void *arg)
{
	struct hdl_io_job *job;

	hdl_io_call = "";
	pthread_mutex_lock(&pool.lock);
	while ((job = next_todo())) {
		pthread_mutex_unlock(&pool.lock);
		job->run(job);
		pthread_mutex_lock(&pool.lock);
		job->next = pool.done;
		__atomic_store_n(&pool.done, job, __ATOMIC_RELEASE);
		/* under the lock: hdl_pool_threads_end has not returned, so the transport is there */
		hdl_tp_wake(hdl_mpi_tp);
	}
	pthread_mutex_unlock(&pool.lock);
	return arg;
}

/* Completes the accesses that have run. Called by progress. Returns their number. */
static int pool_turn(void *arg)
{
	struct hdl_io_job *job, *next;
	int n = 0;

	(void)arg;
	if (likely(!__atomic_load_n(&pool.done, __ATOMIC_ACQUIRE)))
		return 0;
	pthread_mutex_lock(&pool.lock);
	job = pool.done;
	pool.done = NULL;
	pthread_mutex_unlock(&pool.lock);
	for (; job; job = next, n++) {
		next = job->next;
		job->ended(job);
	}
	return n;
}

/* Returns whether there is a thread. Must: pool.lock is held. */
static bool have_thread(void)
{
	if (pool.idle > pool.ntodo || pool.threads == POOL_THREADS)
		return true;
	if (!pool.threads && hdl_tp_progress_add(hdl_mpi_tp, pool_turn, NULL))
		return false;
	if (!hdl_thread_create(&pool.thread[pool.threads], NULL, pool_main, NULL, "heddle-io"))
		pool.threads++;
	else if (!pool.threads)
		hdl_tp_progress_remove(hdl_mpi_tp, pool_turn, NULL);
	return pool.threads;
}

void hdl_pool_submit(struct hdl_io_job *job)
{
	bool has;

	pthread_mutex_lock(&pool.lock);
	has = have_thread();
	if (has) {
		job->next = NULL;
		*pool.todo_end = job;
		pool.todo_end = &job->next;
		pool.ntodo++;
		pthread_cond_signal(&pool.work);
	}
	pthread_mutex_unlock(&pool.lock);
	if (!has) {
		job->run(job);
		job->ended(job);
	}
}

void hdl_pool_threads_end(void)
{
	int n;

	pthread_mutex_lock(&pool.lock);
	n = pool.threads;
	pool.ends = true;
	pthread_cond_broadcast(&pool.work);
	pthread_mutex_unlock(&pool.lock);
	for (int i = 0; i < n; i++)
		pthread_join(pool.thread[i], NULL);
	if (n)
		hdl_tp_progress_remove(hdl_mpi_tp, pool_turn, NULL);
	pool.threads = 0;
	pool.ends = false;
}
