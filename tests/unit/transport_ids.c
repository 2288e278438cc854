/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of operations: as many as there is memory for, none twice, and an old one is told from a new one. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "transport/core/ids.h"

#define MANY (3u << 20)

static void *op(uint32_t i)
{
	return (void *)(uintptr_t)(i + 1);
}

Test(ids, three_million_at_a_time, .timeout = 60)
{
	struct hdl_idtab t = { 0 };
	uint32_t *id = malloc(MANY * sizeof(*id)), old;

	cr_assert_not_null(id);
	for (uint32_t i = 0; i < MANY; i++)
		cr_assert_eq(hdl_id_new(&t, op(i), &id[i]), 0, "operation %u gets no number", i);
	cr_assert_eq(t.used, MANY);
	for (uint32_t i = 0; i < MANY; i++)
		cr_assert_eq(hdl_id_get(&t, id[i]), op(i));
	/* every third one ends, and new ones take their places */
	for (uint32_t i = 0; i < MANY; i += 3) {
		hdl_id_free(&t, id[i]);
		cr_assert_null(hdl_id_get(&t, id[i]));
	}
	for (uint32_t i = 0; i < MANY; i += 3) {
		old = id[i];
		cr_assert_eq(hdl_id_new(&t, op(i), &id[i]), 0);
		cr_assert_eq(hdl_id_get(&t, id[i]), op(i));
		cr_assert_neq(hdl_id_get(&t, old), op(i));
	}
	for (uint32_t i = 0; i < MANY; i++)
		cr_assert_eq(hdl_id_get(&t, id[i]), op(i));
	for (uint32_t i = 0; i < MANY; i++)
		hdl_id_free(&t, id[i]);
	cr_assert_eq(t.used, 0);
	free(t.e);
	free(id);
}

Test(ids, nonsense)
{
	struct hdl_idtab t = { 0 };
	uint32_t id;

	for (unsigned i = 0; i < 32; i++)
		cr_assert_null(hdl_id_get(&t, 1u << i));
	cr_assert_eq(hdl_id_new(&t, op(0), &id), 0);
	for (unsigned i = 0; i < 32; i++)
		cr_assert_null(hdl_id_get(&t, id ^ 1u << i), "bit %u", i);
	/* a place that is used again and again has many names */
	uint32_t first = id;
	for (int i = 0; i < 1000; i++) {
		hdl_id_free(&t, id);
		hdl_id_new(&t, op(0), &id);
		cr_assert_neq(id, first);
	}
	free(t.e);
}
