/* SPDX-License-Identifier: BSD-3-Clause */
/* Scratch of runs (src/collectives/scratch.c), with the transport's allocator replaced: lengths, spares and their limits. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "collectives/internal.h"

struct hdl_tp *hdl_mpi_tp;
static int in_arena;		/* allocations of hdl_tp_alloc that are not freed */

void *hdl_tp_alloc(struct hdl_tp *tp, size_t bytes)
{
	(void)tp;
	in_arena++;
	return aligned_alloc(64, bytes);
}

bool hdl_tp_free(struct hdl_tp *tp, void *p)
{
	(void)tp;
	in_arena--;
	free(p);
	return true;
}

void hdl_ledger_add(const char *what, const void *p, size_t bytes)
{
	(void)what;
	(void)p;
	(void)bytes;
}

static struct hdl_scratch get(size_t bytes)
{
	struct hdl_scratch s;

	cr_assert_eq(hdl_scratch_get(&s, bytes), 0);
	cr_assert(s.bytes >= bytes, "%zu bytes, of %zu", s.bytes, bytes);
	memset(s.p, 1, s.bytes);
	return s;
}

Test(scratch, a_spare_is_as_long_as_the_next_run_needs)
{
	for (size_t first = 4096; first <= 1 << 20; first += first / 3)
		for (size_t second = 4096; second <= 1 << 20; second += second / 3) {
			struct hdl_scratch s = get(first), t;
			const char *p = s.p;

			hdl_scratch_put(&s);
			cr_assert_null(s.p);
			t = get(second);
			cr_assert(t.p != p || t.bytes / 2 <= second + second / 4, "%zu bytes are used for %zu", t.bytes, second);
			hdl_scratch_put(&t);
			cr_assert(hdl_scratch_give());
			cr_assert_eq(in_arena, 0);
		}
}

Test(scratch, a_spare_has_one_user)
{
	struct hdl_scratch s[4], again[4];

	for (int i = 0; i < 4; i++)
		s[i] = get(8192);
	for (int i = 0; i < 4; i++)
		hdl_scratch_put(&s[i]);
	for (int i = 0; i < 4; i++) {
		again[i] = get(8192);
		for (int k = 0; k < i; k++)
			cr_assert(again[i].p != again[k].p);
	}
	cr_assert_eq(in_arena, 4);
	for (int i = 0; i < 4; i++)
		hdl_scratch_put(&again[i]);
	hdl_scratch_fini();
	cr_assert_eq(in_arena, 0);
}

Test(scratch, short_and_very_long_memory_is_not_kept)
{
	struct hdl_scratch s = get(64), t = get((size_t)65 << 20);

	cr_assert_not(s.arena);
	cr_assert(t.arena);
	hdl_scratch_put(&s);
	hdl_scratch_put(&t);
	cr_assert_eq(in_arena, 0);
	cr_assert_not(hdl_scratch_give());
	hdl_scratch_put(&s);		/* empty */
}
