/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows whose accumulates two devices could carry out (docs/one-sided.md, "Two devices"), where one rank cannot take part, or
 * has no agent queue: the members agree on the agent, no addition is lost, no rank waits for ever. For ranks that are played on
 * several hosts, with HEDDLE_DEVICE=NAME,NAME.
 *
 *     rma_agent_lacking CASE RANK
 *
 *     device    the second device of RANK has no atomic requests: the handlers are the agents at all members
 *     absent    the same, and RANK has no memory in the window: the device is the agent. RANK's updates are messages
 *     queue     RANK has no memory for its queue pairs towards peers: updates between RANK and peers of its host are messages,
 *               until the next window
 *     connect   RANK's queue pairs cannot be connected: the same
 *     early     a message of another member that has made its window comes before RANK has: all is as without
 */
#include "rma/rma.h"

#include "mpi_test.h"
#include "rma_agent_refused.h"

enum { TIMES = 60, WORDS = 4 };

static int early;			/* targets that messages have made before the window was complete */

__typeof__(hdl_target_make) __real_hdl_target_make, __wrap_hdl_target_make;
__typeof__(hdl_comm_exchange) __real_hdl_comm_exchange, __wrap_hdl_comm_exchange;

struct hdl_target *__wrap_hdl_target_make(struct hdl_win *w, int rank)
{
	early++;
	return __real_hdl_target_make(w, rank);
}

static bool has_come(const void *arg)
{
	(void)arg;
	return early;
}

/* The exchange of a byte each is the agreement. */
int __wrap_hdl_comm_exchange(struct hdl_comm *comm, void *table, size_t each)
{
	int rc = __real_hdl_comm_exchange(comm, table, each);

	if (!rc && refuses && each == 1 && !strcmp(what, "early"))
		hdl_wait_until(has_come, NULL);
	return rc;
}

static bool has_memory(int rank)
{
	return strcmp(what, "absent") || rank != lacking;
}

/* Whether this rank has an agent queue to another one. */
static bool has_queue(int rank)
{
	return hdl_agent_stands(hdl_ep(hdl_mpi_tp, rank));
}

/* All ranks count on the words of all ranks that have memory, and replace one. */
static void count(MPI_Win win, const int64_t *mem)
{
	const int64_t one = 1;
	int64_t last[64] = { 0 }, old;

	MPI_Win_lock_all(0, win);
	for (int i = 0; i < TIMES; i++)
		for (int r = 0; r < np; r++) {
			if (!has_memory(r))
				continue;
			MPI_Fetch_and_op(&one, &old, MPI_INT64_T, r, 0, MPI_SUM, win);
			MPI_Accumulate(&one, 1, MPI_INT64_T, r, 1, 1, MPI_INT64_T, MPI_MAX, win);
			MPI_Accumulate(&one, 1, MPI_INT64_T, r, 2, 1, MPI_INT64_T, MPI_SUM, win);
			MPI_Win_flush(r, win);
			CHECK(!i || old > last[r]);
			last[r] = old;
		}
	MPI_Win_unlock_all(win);
	MPI_Barrier(sync_comm);
	MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win);
	for (int i = 0; i < 3 && has_memory(me); i++)
		CHECK_EQ(mem[i], i == 1 ? 1 : (int64_t)TIMES * np);
	MPI_Win_unlock(me, win);
}

/* Makes a window, and checks that the device is its agent at all members, or at none. Queues of the lacking rank, and to it, are
 * as `queues` says. */
static void one_window(bool device, bool queues)
{
	int64_t *mem = calloc(WORDS, sizeof(*mem));
	MPI_Info info;
	MPI_Win win;

	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_accumulate_granularity", "8");
	MPI_Win_create(mem, has_memory(me) ? WORDS * sizeof(*mem) : 0, sizeof(*mem), info, MPI_COMM_WORLD, &win);
	refuses = false;
	for (int r = 0; r < np; r++)
		CHECK(!hdl_win_list->target[r] || hdl_win_list->target[r]->atomics == (device && has_memory(r)));
	MPI_Info_free(&info);
	CHECK_EQ(hdl_win_list->atomics, device);
	for (int r = 0; r < np && device; r++)
		if (r != me && hdl_is_local(r) && has_memory(r))
			CHECK_EQ(has_queue(r), me != lacking && r != lacking ? true : queues);
	count(win, mem);
	MPI_Win_free(&win);
	free(mem);
}

int main(int argc, char **argv)
{
	what = argc == 3 ? argv[1] : "queue";
	lacking = argc == 3 ? atoi(argv[2]) : 0;
	test_init(&argc, &argv);
	refuses = me == lacking;
	one_window(strcmp(what, "device"), !strcmp(what, "early"));
	one_window(strcmp(what, "device"), strcmp(what, "absent"));
	if (!me)
		puts("ok");
	MPI_Finalize();
	return 0;
}
