/* SPDX-License-Identifier: BSD-3-Clause */
/* An aggregator's window (window.h). Runs in any thread without the library's lock. */
#include "io/window.h"

#include <string.h>

#include "io/io.h"

/* ---- write --------------------------------------------------------------------------------------------------------------- */

static void map_set(uint64_t *map, size_t from, size_t n)
{
	size_t w = from / 64, bit = from % 64;

	while (n) {
		size_t here = 64 - bit < n ? 64 - bit : n;

		map[w++] |= (here == 64 ? UINT64_MAX : ((uint64_t)1 << here) - 1) << bit;
		n -= here;
		bit = 0;
	}
}

/* Returns the first bit from `at` on, below `end`, that is `set`; end: none. */
static size_t map_find(const uint64_t *map, size_t at, size_t end, bool set)
{
	while (at < end) {
		uint64_t w = (set ? map[at / 64] : ~map[at / 64]) >> at % 64;

		if (w) {
			at += (size_t)__builtin_ctzll(w);
			break;
		}
		at = (at / 64 + 1) * 64;
	}
	return at < end ? at : end;
}

/* Copies the data of all ranks into the window, in the order of ranks. */
static void fill(struct hdl_window *w)
{
	for (int r = 0; r < w->nparts; r++) {
		const struct hdl_window_part *part = &w->parts[r];
		const char *data = part->data;

		for (int64_t i = 0; i < part->n; i++) {
			const struct hdl_strip *s = &part->strips[i];

			for (MPI_Count k = 0; k < s->count; k++, data += s->len) {
				size_t at = (size_t)(s->at + k * s->stride - w->from);

				memcpy(w->buffer + at, data, (size_t)s->len);
				map_set(w->map, at, (size_t)s->len);
			}
		}
	}
}

void hdl_window_write(struct hdl_window *w)
{
	size_t at = 0, end;
	MPI_Count done = 0;

	if (w->err)
		return;
	memset(w->map, 0, (w->bytes + 63) / 64 * sizeof(*w->map));
	fill(w);
	while (!w->err && (at = map_find(w->map, at, w->bytes, true)) < w->bytes) {
		end = map_find(w->map, at, w->bytes, false);
		w->err = hdl_write_run(w->fd, w->buffer + at, (MPI_Count)(end - at), w->from + (MPI_Offset)at, &done);
		at = end;
	}
}

/* ---- read ---------------------------------------------------------------------------------------------------------------- */

/* Sets the range of the window that the ranks want. Returns false if no rank wants any. */
static bool wanted(const struct hdl_window *w, MPI_Offset *first, MPI_Offset *end)
{
	*first = INT64_MAX;
	*end = 0;
	for (int r = 0; r < w->nparts; r++) {
		const struct hdl_window_part *part = &w->parts[r];
		const struct hdl_strip *last;

		if (!part->n)
			continue;
		last = &part->strips[part->n - 1];
		*first = part->strips->at < *first ? part->strips->at : *first;
		if (last->at + (last->count - 1) * last->stride + last->len > *end)
			*end = last->at + (last->count - 1) * last->stride + last->len;
	}
	return *end > *first;
}

/* have: the file's bytes end here. */
static void window_answer(const struct hdl_window *w, const struct hdl_window_part *part, MPI_Offset have)
{
	struct hdl_answer *a = part->answer;

	a->bytes = -w->err;
	for (int64_t i = 0; !w->err && i < part->n; i++) {
		const struct hdl_strip *s = &part->strips[i];

		for (MPI_Count k = 0; k < s->count; k++) {
			MPI_Offset at = s->at + k * s->stride;
			MPI_Count n = have - at < s->len ? have - at : s->len;

			if (n > 0) {
				memcpy(a->data + a->bytes, w->buffer + (at - w->from), (size_t)n);
				a->bytes += n;
			}
			if (n < s->len)
				return;
		}
	}
}

void hdl_window_read(struct hdl_window *w)
{
	MPI_Offset first, end;
	MPI_Count got = 0;

	if (!wanted(w, &first, &end))
		return;
	if (!w->err)
		w->err = hdl_read_run(w->fd, w->buffer + (first - w->from), end - first, first, &got);
	for (int r = 0; r < w->nparts; r++)
		if (w->parts[r].n)
			window_answer(w, &w->parts[r], first + got);
}
