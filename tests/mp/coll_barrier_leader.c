/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers behind collectives of all kinds, from any root, with broadcasts under way and ranks that come late: no rank leaves a
 * barrier before all have entered. Needs more ranks than cores: there a barrier behind a Bcast, Scatter(v) or Scan is led by the
 * rank for which the other ranks have waited.
 *
 *     coll_barrier_leader [rounds [seed]]
 */
#include "mpi_test.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NONE, BCAST, SCATTER, SCATTERV, SCAN, EXSCAN, REDUCE, ALLREDUCE, KINDS };
#define MOST 300	/* elements: lines of all sizes */

static uint64_t state;
static int64_t *in, *out;
static int *counts, *at;

static unsigned draw(unsigned below)	/* the same on all ranks */
{
	state = mix(state);
	return (unsigned)(state % below);
}

static void before(MPI_Comm comm, int kind, int root, int n, int64_t number)
{
	int64_t want = number;
	int64_t told = me == root || !(number & 1) ? number : -1;
	MPI_Request other = MPI_REQUEST_NULL;

	for (int i = 0; i < n; i++)
		in[i] = number;
	for (int r = 0; (kind == SCATTER || kind == SCATTERV) && r < np; r++) {
		counts[r] = n;
		at[r] = r * n;
		for (int i = 0; i < n; i++)
			in[r * n + i] = number + r;
	}
	out[n - 1] = me == root && kind == BCAST ? number : -1;
	switch (kind) {
	case BCAST: MPI_Bcast(out, n, MPI_INT64_T, root, comm); break;
	case SCATTER: MPI_Scatter(in, n, MPI_INT64_T, out, n, MPI_INT64_T, root, comm); want = number + me; break;
	case SCATTERV:
		/* behind the same as a nonblocking one, of which a barrier knows nothing; on some ranks it has to wait */
		if (number & 1) {
			MPI_Iscatterv(in, counts, at, MPI_INT64_T, out, n, MPI_INT64_T, root, comm, &other);
			MPI_Wait(&other, MPI_STATUS_IGNORE);
			MPI_Ibcast(&told, 1, MPI_INT64_T, root, comm, &other);
			if ((number / 2 + me) & 1)
				MPI_Wait(&other, MPI_STATUS_IGNORE);
		}
		MPI_Scatterv(in, counts, at, MPI_INT64_T, out, n, MPI_INT64_T, root, comm);
		MPI_Wait(&other, MPI_STATUS_IGNORE);
		CHECK_EQ(told, number);
		want = number + me;
		break;
	case SCAN: MPI_Scan(in, out, n, MPI_INT64_T, MPI_SUM, comm); want = number * (me + 1); break;
	case EXSCAN: MPI_Exscan(in, out, n, MPI_INT64_T, MPI_SUM, comm); want = me ? number * me : -1; break;
	case REDUCE: MPI_Reduce(in, out, n, MPI_INT64_T, MPI_SUM, root, comm); want = me == root ? number * np : -1; break;
	case ALLREDUCE: MPI_Allreduce(in, out, n, MPI_INT64_T, MPI_SUM, comm); want = number * np; break;
	default: return;
	}
	CHECK_EQ(out[n - 1], want);
}

/* That a rank has entered is seen in memory, not by a message. */
static _Atomic int64_t *shared(void)
{
	int where[2] = { getpid(), me ? -1 : memfd_create("entered", 0) }, fd = where[1];
	char name[64];
	void *p;

	CHECK(me || (fd >= 0 && !ftruncate(fd, 4096)));
	MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", where[0], where[1]);
	if (me)
		fd = open(name, O_RDWR);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED && (size_t)np <= 4096 / sizeof(int64_t));
	MPI_Barrier(MPI_COMM_WORLD);
	close(fd);
	return p;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 3000;
	_Atomic int64_t *entered;
	int64_t barriers = 0, under_way[6];
	uint64_t mine;
	MPI_Comm comms[2];

	test_init(&argc, &argv);
	state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	mine = state + (uint64_t)me;
	in = malloc(sizeof(*in) * MOST * (size_t)np);
	out = malloc(sizeof(*out) * MOST * (size_t)np);
	counts = malloc(sizeof(*counts) * 2 * (size_t)np);
	CHECK(in && out && counts);
	at = counts + np;
	entered = shared();
	comms[0] = MPI_COMM_WORLD;
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
	for (long i = 0; i < rounds; i++) {
		MPI_Comm comm = comms[draw(8) == 0];
		int kind = (int)draw(KINDS), root = (int)draw((unsigned)np), n = 1 + (int)draw(draw(3) ? 6 : MOST);
		int nunder = draw(4) ? 0 : (int)draw(6);
		MPI_Request q[6];

		for (int k = 0; k < nunder; k++) {
			under_way[k] = me == (root + k) % np ? i * 8 + k : -1;
			MPI_Ibcast(&under_way[k], 1, MPI_INT64_T, (root + k) % np, comm, &q[k]);
		}
		before(comm, kind, root, n, i + 1);
		for (int k = 1 + (draw(4) == 0); k; k--) {
			mine = mix(mine);
			for (int y = mine % 5 ? 0 : (int)((mine >> 8) % 30); y > 0; y--)
				sched_yield();
			if (mine % 211 == 0)
				usleep(300);
			atomic_store(&entered[me], ++barriers);
			MPI_Barrier(comm);
			for (int r = 0; r < np; r++)
				if (atomic_load(&entered[r]) < barriers)
					test_fail(__FILE__, __LINE__,
						  "round %ld: this rank has left the barrier behind kind %d, root %d, which "
						  "rank %d has not entered",
						  i, kind, root, r);
		}
		if (i % 100 == 99) {	/* while ranks may still be in its last barrier */
			MPI_Comm_free(&comms[1]);
			MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
		}
		MPI_Waitall(nunder, q, MPI_STATUSES_IGNORE);
		for (int k = 0; k < nunder; k++)
			CHECK_EQ(under_way[k], i * 8 + k);
	}
	MPI_Comm_free(&comms[1]);
	free(in);
	free(out);
	free(counts);
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	return 0;
}
