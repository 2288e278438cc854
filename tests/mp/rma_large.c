/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of one-sided communication: many windows, many ranks, large operations.
 *
 *     rma_large windows [N [KIB]] N windows (1,000) of each flavour at a time, all used; KIB: the most KiB that a window may
 *                                        cost per member before its members were addressed
 *     rma_large ranks [ROUNDS [FLAVOUR]] lock_all, flush_all, shared and exclusive locks, fences and posts among many ranks; of
 *                                        windows of each flavour, or of one: create, allocate, shared, dynamic
 *     rma_large bytes [BYTES]            operations of so many bytes (2 GiB and 80 MiB), displacements to match: needs twice that
 *                                        in memory
 *     rma_large sparse                   created and dynamic windows of 4.5 GiB, of which few pages are touched: displacements
 *                                        and extents beyond 4 GiB
 */
#include "rma_test.h"

#include <sys/mman.h>

static int right, left;

/* KiB of this process: private memory and its share of shared memory (PSS). */
static long pss(void)
{
	char line[200];
	long kib = -1;
	FILE *f = fopen("/proc/self/smaps_rollup", "r");

	while (f && kib < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %ld", &kib) != 1)
			kib = -1;
	if (f)
		fclose(f);
	return kib;
}

static void windows(int n, double limit)
{
	struct window *w = checked(calloc((size_t)n, sizeof(*w)));

	for (int f = 0; f < FLAVOURS; f++) {
		long before, cost, most;
		int64_t v;

		if (!flavour_possible(f))
			continue;
		MPI_Barrier(WORLD);
		before = pss();
		for (int i = 0; i < n; i++)
			window_new(&w[i], f, 8, 1, MPI_INFO_NULL, WORLD);
		MPI_Barrier(WORLD);
		cost = pss() - before;
		MPI_Allreduce(&cost, &most, 1, MPI_LONG, MPI_MAX, WORLD);
		if (!me)
			printf("%d windows, %s: %.2f KiB for each member and window\n", n, flavour_names[f],
			       (double)most / n / np);
		CHECK(before < 0 || limit == 0 || (double)most / n / np <= limit);
		for (int i = 0; i < n; i++)
			MPI_Win_lock_all(0, w[i].win);
		for (int i = 0; i < n; i++) {
			v = 10000 * me + i;
			MPI_Put(&v, 1, MPI_INT64_T, right, disp(&w[i], right, 0), 1, MPI_INT64_T, w[i].win);
			MPI_Win_flush_local(right, w[i].win);
		}
		for (int i = n; i-- > 0;)
			MPI_Win_unlock_all(w[i].win);
		meet(WORLD);
		for (int i = 0; i < n; i++) {
			own_begin(&w[i]);
			memcpy(&v, w[i].mem, 8);
			own_end(&w[i]);
			CHECK_EQ(v, 10000 * left + i);
		}
		for (int i = 0; i < n; i++)
			window_free(&w[(i * 7 + 3) % n]);	/* n is no multiple of 7 */
	}
	free(w);
}

static void ranks(int rounds, const char *flavour)
{
	for (int f = 0; f < FLAVOURS; f++) {
		struct window w;
		const int64_t one = 1;
		int64_t v;

		if (!flavour_possible(f) || (flavour && strcmp(flavour, flavour_names[f])))
			continue;
		window_new(&w, f, 16, 1, MPI_INFO_NULL, WORLD);
		own_begin(&w);
		memset(w.mem, 0, 16);
		own_end(&w);
		meet(WORLD);
		for (int i = 0; i < rounds; i++) {
			MPI_Win_lock_all(0, w.win);
			for (int r = 0; r < np; r++) {
				int t = (me + r) % np;

				MPI_Accumulate(&one, 1, MPI_INT64_T, t, disp(&w, t, 0), 1, MPI_INT64_T, MPI_SUM, w.win);
			}
			MPI_Win_flush_all(w.win);
			MPI_Win_unlock_all(w.win);
			/* one number, under the lock of one rank, by every rank */
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, np / 2, 0, w.win);
			MPI_Get(&v, 1, MPI_INT64_T, np / 2, disp(&w, np / 2, 8), 1, MPI_INT64_T, w.win);
			MPI_Win_flush(np / 2, w.win);
			v++;
			MPI_Put(&v, 1, MPI_INT64_T, np / 2, disp(&w, np / 2, 8), 1, MPI_INT64_T, w.win);
			MPI_Win_unlock(np / 2, w.win);
		}
		meet(WORLD);
		epoch_begin(&w, PSCW, right, left);
		MPI_Get(&v, 1, MPI_INT64_T, right, disp(&w, right, 0), 1, MPI_INT64_T, w.win);
		epoch_end(&w, PSCW, right);
		CHECK_EQ(v, (int64_t)rounds * np);
		epoch_begin(&w, FENCE, right, left);
		MPI_Get(&v, 1, MPI_INT64_T, np / 2, disp(&w, np / 2, 8), 1, MPI_INT64_T, w.win);
		epoch_end(&w, FENCE, right);
		CHECK_EQ(v, (int64_t)rounds * np);
		window_free(&w);
	}
}

enum { PARTS = 4 };
#define GAP ((MPI_Aint)0x60000000)	/* bytes from one part to the next */
#define LAST (3 * GAP)			/* place of the last part: beyond 4 GiB */

/* The parts of this rank's memory hold 1000 * rank + 10 * part + word; word 0 to 3. */
static int64_t *part_of(char *mem, int part)
{
	return (int64_t *)(void *)(mem + part * GAP);
}

/* Every rank accesses its right neighbour's memory, which begins at displacement `at`. */
static void sparse_traffic(MPI_Win win, MPI_Aint at, MPI_Datatype scattered)
{
	int64_t flat[3 * PARTS], got[3 * PARTS], one[3 * PARTS], ten = 10, old, want, seven = 7;

	for (int i = 0; i < 3 * PARTS; i++) {
		flat[i] = 5000000 + i;
		got[i] = -1;
		one[i] = 1;
	}
	MPI_Win_lock_all(0, win);
	MPI_Get(got, 3 * PARTS, MPI_INT64_T, right, at, 1, scattered, win);
	MPI_Win_flush(right, win);
	for (int i = 0; i < 3 * PARTS; i++)
		CHECK_EQ(got[i], 1000 * right + i / 3 * 10 + i % 3);
	MPI_Put(flat, 3 * PARTS, MPI_INT64_T, right, at, 1, scattered, win);
	MPI_Win_flush(right, win);
	MPI_Accumulate(one, 3 * PARTS, MPI_INT64_T, right, at, 1, scattered, MPI_SUM, win);
	MPI_Get_accumulate(one, 3 * PARTS, MPI_INT64_T, got, 3 * PARTS, MPI_INT64_T, right, at, 1, scattered, MPI_SUM, win);
	MPI_Fetch_and_op(&ten, &old, MPI_INT64_T, right, at + LAST + 24, MPI_SUM, win);
	MPI_Win_flush(right, win);
	for (int i = 0; i < 3 * PARTS; i++)
		CHECK_EQ(got[i], 5000000 + i + 1);
	CHECK_EQ(old, 1000 * right + 33);
	want = old + 10;
	MPI_Compare_and_swap(&seven, &want, &old, MPI_INT64_T, right, at + LAST + 24, win);
	MPI_Win_unlock_all(win);
	CHECK_EQ(old, want);
}

static void sparse(void)
{
	char *mem = mmap(NULL, LAST + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	MPI_Aint at = 0, theirs;
	MPI_Datatype scattered;
	int has = mem != MAP_FAILED, all;
	MPI_Win win;

	MPI_Allreduce(&has, &all, 1, MPI_INT, MPI_MIN, WORLD);
	if (!all) {
		if (!me)
			printf("no address space of 4.5 GiB that is not reserved: nothing is tested\n");
		return;
	}
	MPI_Type_create_hvector(PARTS, 3, GAP, MPI_INT64_T, &scattered);
	MPI_Type_commit(&scattered);
	for (int dynamic = 0; dynamic < 2; dynamic++) {
		for (int i = 0; i < 4 * PARTS; i++)
			part_of(mem, i / 4)[i % 4] = 1000 * me + i / 4 * 10 + i % 4;
		if (dynamic) {
			MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &win);
			MPI_Win_attach(win, mem, LAST + 4096);
			MPI_Get_address(mem, &at);
		} else {
			MPI_Win_create(mem, LAST + 4096, 1, MPI_INFO_NULL, WORLD, &win);
		}
		MPI_Sendrecv(&at, 1, MPI_AINT, left, 0, &theirs, 1, MPI_AINT, right, 0, WORLD, MPI_STATUS_IGNORE);
		meet(WORLD);
		sparse_traffic(win, theirs, scattered);
		meet(WORLD);
		MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win);
		for (int i = 0; i < 3 * PARTS; i++)
			CHECK_EQ(part_of(mem, i / 3)[i % 3], 5000000 + i + 2);
		CHECK_EQ(part_of(mem, 3)[3], 7);
		MPI_Win_unlock(me, win);
		meet(WORLD);
		if (dynamic)
			MPI_Win_detach(win, mem);
		MPI_Win_free(&win);
	}
	MPI_Type_free(&scattered);
	munmap(mem, LAST + 4096);
}

#if MPI_VERSION >= 4
/* Rank 0 is the origin, rank 1 the target. */
static void bytes(MPI_Count n)
{
	const MPI_Count words = n / 8;
	uint64_t *mine = NULL;
	MPI_Datatype half;

	CHECK(np == 2);
	MPI_Type_contiguous_c(words / 2, MPI_UINT64_T, &half);
	MPI_Type_commit(&half);
	if (!me)
		mine = checked(malloc((size_t)n));
	for (int f = 0; f < FLAVOURS; f++) {
		struct window w;

		if (!flavour_possible(f))
			continue;
		window_new(&w, f, me ? n : 0, 8, MPI_INFO_NULL, WORLD);
		for (int step = 0; step < 4; step++) {
			if (me) {
				own_begin(&w);
				for (MPI_Count i = 0; step % 2 && i < words; i++)
					((uint64_t *)(void *)w.mem)[i] = (uint64_t)i * 3;
				own_end(&w);
			}
			for (MPI_Count i = 0; mine && i < words; i++)
				mine[i] = step == 3 ? 1 : mix((uint64_t)i + (unsigned)step);
			meet(WORLD);
			if (!me) {
				MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w.win);
				if (step == 0)
					MPI_Put_c(mine, n, MPI_BYTE, 1, disp(&w, 1, 0), n, MPI_BYTE, w.win);
				else if (step == 1)
					MPI_Get_c(mine, words, MPI_UINT64_T, 1, disp(&w, 1, 0), words, MPI_UINT64_T, w.win);
				else if (step == 2)
					MPI_Put(mine, 2, half, 1, disp(&w, 1, 0), 2, half, w.win);
				else
					MPI_Accumulate_c(mine, words, MPI_UINT64_T, 1, disp(&w, 1, 0), words, MPI_UINT64_T,
							 MPI_SUM, w.win);
				MPI_Win_unlock(1, w.win);
				for (MPI_Count i = 0; step == 1 && i < words; i++)
					CHECK(mine[i] == (uint64_t)i * 3);
				if (step == 1) {	/* one word at the very end */
					uint64_t got = 0;

					MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, w.win);
					MPI_Get(&got, 1, MPI_UINT64_T, 1, disp(&w, 1, (words - 1) * 8), 1, MPI_UINT64_T, w.win);
					MPI_Win_unlock(1, w.win);
					CHECK(got == (uint64_t)(words - 1) * 3);
				}
			}
			meet(WORLD);
			if (me && step != 1) {
				own_begin(&w);
				for (MPI_Count i = 0; i < words; i++)
					CHECK(((uint64_t *)(void *)w.mem)[i] ==
					      (step == 3 ? (uint64_t)i * 3 + 1 : mix((uint64_t)i + (unsigned)step)));
				own_end(&w);
			}
			meet(WORLD);
		}
		window_free(&w);
	}
	free(mine);
	MPI_Type_free(&half);
}
#endif

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "windows";

	test_init(&argc, &argv);
	right = (me + 1) % np;
	left = (me + np - 1) % np;
	if (!strcmp(what, "windows"))
		windows(argc > 2 ? atoi(argv[2]) : 1000, argc > 3 ? atof(argv[3]) : 0);
	else if (!strcmp(what, "ranks"))
		ranks(argc > 2 ? atoi(argv[2]) : 5, argc > 3 ? argv[3] : NULL);
	else if (!strcmp(what, "sparse"))
		sparse();
#if MPI_VERSION >= 4
	else
		bytes(argc > 2 ? (MPI_Count)atoll(argv[2]) / 16 * 16 : ((MPI_Count)1 << 31) + (80 << 20));
#endif
	test_done("large");
	return 0;
}
