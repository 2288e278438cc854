/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between processors: every length near the limits, every alignment; neighbouring bytes stay. */
#include <criterion/criterion.h>

#include "lines/lines.h"

#define ROOM (LINES_MAX + 4096u)

static void check(void (*copy)(void *, const void *, size_t), size_t n, size_t to, size_t from)
{
	static unsigned char src[ROOM], dst[ROOM];

	for (size_t i = 0; i < n + 256; i++) {
		src[i] = (unsigned char)(i * 131 + (i >> 8) * 7 + n);
		dst[i] = 0xa5;
	}
	copy(dst + 64 + to, src + from, n);
	cr_assert_eq(memcmp(dst + 64 + to, src + from, n), 0, "%zu bytes from %zu to %zu differ", n, from, to);
	for (size_t i = 0; i < 64 + to; i++)
		cr_assert_eq(dst[i], 0xa5, "%zu bytes to %zu: wrote %zu before", n, to, 64 + to - i);
	for (size_t i = 64 + to + n; i < n + 256; i++)
		cr_assert_eq(dst[i], 0xa5, "%zu bytes to %zu: wrote %zu behind", n, to, i - (64 + to + n));
}

static void check_all(void (*copy)(void *, const void *, size_t))
{
	static const size_t limits[] = {0, 64, LINES_AHEAD, LINES_MIN_OUT, LINES_MIN_IN, LINES_MAX};

	for (size_t k = 0; k < sizeof(limits) / sizeof(*limits); k++)
		for (size_t n = limits[k] > 70 ? limits[k] - 70 : 0; n <= limits[k] + 70; n += 1 + (k == 5) * 16)
			check(copy, n, n * 5 % 64, n * 11 % 64);
	for (size_t at = 0; at < 64; at++) {
		check(copy, LINES_MIN_IN + 1000, at, 0);
		check(copy, LINES_MIN_IN + 1000, 0, at);
	}
}

Test(lines, copies_in)
{
	check_all(lines_copy_in);
}

Test(lines, copies_out)
{
	check_all(lines_copy_out);
}
