/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Views (MPI-5.0 section 14.3). The filetype tiles the file from the displacement on; the view's data is the bytes of the tiles,
 * in their order, and a position is a number of such bytes:
 *
 *     file      disp   extent      extent      extent
 *     |---------|·xx··x·····|·xx··x·····|·xx··x·····|  …        x: bytes of the filetype, `size` in each tile
 *     position   01  2       34  5       67  8
 *
 * A stream over (buffer = disp, `tiles` filetypes) names the runs: its addresses are offsets in the file.
 */
#include "io/io.h"

#include <stdlib.h>
#include <string.h>

static MPI_Count tiles_of(const struct hdl_type *filetype, MPI_Offset disp)
{
	MPI_Count by_size, by_extent, room = INT64_MAX - disp;

	if (!filetype->size)
		return 0;
	by_size = INT64_MAX / filetype->size;
	if (room < filetype->true_lb + filetype->true_extent)
		return 0;
	room -= filetype->true_lb + filetype->true_extent;
	by_extent = filetype->extent ? room / filetype->extent + 1 : by_size;
	return by_size < by_extent ? by_size : by_extent;
}

int hdl_view_check(const struct hdl_type *etype, const struct hdl_type *filetype)
{
	if (!etype->size) {
		hdl_reason_set("invalid etype: it has no data");
		return MPI_ERR_TYPE;
	}
	if (filetype->size % etype->size) {
		hdl_reason_set("invalid filetype: its size, %lld bytes, is no multiple of that of the etype, %lld bytes",
			       (long long)filetype->size, (long long)etype->size);
		return MPI_ERR_TYPE;
	}
	if (filetype->size && (filetype->true_lb < 0 || filetype->extent < 0)) {
		hdl_reason_set("invalid filetype: a displacement is negative (true lower bound %lld, extent %lld)",
			       (long long)filetype->true_lb, (long long)filetype->extent);
		return MPI_ERR_TYPE;
	}
	if (filetype->size && !filetype->extent) {
		hdl_reason_set("invalid filetype: %lld bytes of data in an extent of 0; MPI_Type_create_resized sets an extent",
			       (long long)filetype->size);
		return MPI_ERR_TYPE;
	}
	return MPI_SUCCESS;
}

int hdl_view_make(MPI_Offset disp, struct hdl_type *etype, struct hdl_type *filetype, const char *datarep, struct hdl_view **out)
{
	struct hdl_view *v = calloc(1, sizeof(*v));
	struct hdl_type *unit = NULL;
	int rc;

	*out = NULL;
	if (!v) {
		hdl_reason_set("out of memory for a view");
		return MPI_ERR_NO_MEM;
	}
	*v = (struct hdl_view){ .refs = 1, .disp = disp, .etype = etype, .filetype = filetype };
	hdl_type_retain(etype);
	hdl_type_retain(filetype);
	snprintf(v->datarep, sizeof(v->datarep), "%s", datarep);
	hdl_datarep_find(datarep, &v->rep);
	rc = hdl_datarep_image(v->rep, etype, &unit);
	if (!rc)
		rc = hdl_datarep_image(v->rep, filetype, &v->tile);
	if (!rc && !unit->size) {
		hdl_reason_set("dtype_file_extent_fn of data representation %s returned an extent of 0 for the etype, which has "
			       "%lld bytes", datarep, (long long)etype->size);
		rc = MPI_ERR_CONVERSION;
	}
	if (!rc) {
		v->esize = unit->size;
		v->extent = hdl_type_extent(unit);
	}
	if (unit)
		hdl_type_release(unit);
	if (rc) {
		hdl_view_release(v);
		return rc;
	}
	v->contiguous = hdl_type_is_contiguous(v->tile);
	v->tiles = tiles_of(v->tile, disp);
	*out = v;
	return MPI_SUCCESS;
}

struct hdl_view *hdl_view_retain(struct hdl_view *v)
{
	v->refs++;
	return v;
}

void hdl_view_release(struct hdl_view *v)
{
	if (!v || --v->refs)
		return;
	hdl_type_release(v->etype);
	hdl_type_release(v->filetype);
	if (v->tile)
		hdl_type_release(v->tile);
	free(v);
}

/* ---- runs -------------------------------------------------------------------------------------------------------------- */

struct hdl_view_runs {
	bool contiguous;
	MPI_Offset at;			/* contiguous: offset in the file of the position */
	_Alignas(void *) char stream[];	/* struct hdl_stream */
};

struct hdl_view_runs *hdl_view_runs_open(const struct hdl_view *v, MPI_Offset p)
{
	size_t bytes = v->contiguous ? 0 : hdl_stream_bytes(v->tile);
	struct hdl_view_runs *r = malloc(sizeof(*r) + bytes);
	MPI_Count all = v->tiles * v->tile->size;

	if (!r)
		return NULL;
	r->contiguous = v->contiguous;
	r->at = v->disp + p;
	if (!r->contiguous)
		hdl_stream_open((struct hdl_stream *)r->stream, (void *)(uintptr_t)v->disp, v->tiles, v->tile, p < all ? p : all);
	return r;
}

MPI_Count hdl_view_runs_next(struct hdl_view_runs *r, MPI_Count most, MPI_Offset *offset)
{
	MPI_Count n;
	void *run;

	if (r->contiguous) {
		*offset = r->at;
		n = most < INT64_MAX - r->at ? most : INT64_MAX - r->at;
		r->at += n;
		return n;
	}
	n = (MPI_Count)hdl_stream_next((struct hdl_stream *)r->stream, (size_t)most, &run);
	*offset = (MPI_Offset)(uintptr_t)run;
	return n;
}

bool hdl_view_ascends(struct hdl_view *v, MPI_Count *run)
{
	const struct hdl_type *t = v->tile;
	MPI_Count runs = 0;

	if (v->contiguous) {
		*run = INT64_MAX;
		return true;
	}
	if (!v->order) {
		v->order = t->extent >= t->true_extent && hdl_type_ascends(t, &runs) ? 1 : -1;
		v->run = runs ? t->size / runs : 0;
	}
	*run = v->run;
	return v->order > 0;
}

/* So many runs of a tile are walked in less time than a search takes. */
#define WALK_RUNS	64

/* ---- offsets ----------------------------------------------------------------------------------------------------------- */

bool hdl_view_has(const struct hdl_view *v, MPI_Offset p, MPI_Count bytes)
{
	MPI_Count all = v->contiguous ? INT64_MAX - v->disp : v->tiles * v->tile->size;

	return p >= 0 && p <= all && bytes <= all - p;
}

MPI_Offset hdl_view_offset(const struct hdl_view *v, MPI_Offset p)
{
	struct hdl_view_runs *r;
	MPI_Offset offset = -1;

	if (!hdl_view_has(v, p, 0))
		return -1;
	if (v->contiguous)
		return v->disp + p;
	r = hdl_view_runs_open(v, p);
	if (!r)
		hdl_out_of_memory("a position in a view", hdl_stream_bytes(v->tile));
	if (!hdl_view_runs_next(r, 1, &offset))
		offset = -1;
	free(r);
	return offset;
}

/* Returns the bytes p .. end - 1 of the view's data that lie before an offset of the file. Must: the view ascends. r: of the
 * view. Each step halves the range, so that a tile may have any number of runs. */
static MPI_Count bisect(struct hdl_view_runs *r, MPI_Offset p, MPI_Offset end, MPI_Offset offset)
{
	MPI_Offset low = p, high = end, middle, at;
	MPI_Count n;

	while (low < high) {
		middle = low + (high - low) / 2;
		hdl_stream_seek((struct hdl_stream *)r->stream, middle);
		n = hdl_view_runs_next(r, end - middle, &at);
		if (!n || at >= offset)
			high = middle;
		else if (n >= offset - at)
			return middle + (offset - at) - p;
		else
			low = middle + n;
	}
	return low - p;
}

MPI_Offset hdl_view_bytes_before(struct hdl_view *v, MPI_Offset offset)
{
	const struct hdl_type *t = v->tile;
	MPI_Offset rest = offset - v->disp, at, p = 0, all = v->tiles * t->size;
	struct hdl_view_runs *r;
	MPI_Count n, tiles, run;

	if (rest <= 0)
		return 0;
	if (v->contiguous)
		return rest;
	/* tiles that end before the offset count as a whole */
	if (t->extent && rest >= t->true_lb + t->true_extent) {
		tiles = (rest - t->true_lb - t->true_extent) / t->extent + 1;
		p = (tiles < v->tiles ? tiles : v->tiles) * t->size;
	}
	r = hdl_view_runs_open(v, p);
	if (!r)
		hdl_out_of_memory("a position in a view", hdl_stream_bytes(t));
	if (all && hdl_view_ascends(v, &run) && t->size / run > WALK_RUNS) {
		p += bisect(r, p, all - p < t->size ? all : p + t->size, offset);
		free(r);
		return p;
	}
	while ((n = hdl_view_runs_next(r, INT64_MAX, &at)) && at < offset) {
		p += at + n <= offset ? n : offset - at;
		if (at + n >= offset)
			break;
	}
	free(r);
	return p;
}

void hdl_view_hull(const struct hdl_view *v, MPI_Offset p, MPI_Count bytes, MPI_Offset *first, MPI_Offset *end)
{
	const struct hdl_type *t = v->tile;

	if (v->contiguous || t->extent >= t->true_extent) {
		*first = hdl_view_offset(v, p);
		*end = hdl_view_offset(v, p + bytes - 1) + 1;
		return;
	}
	/* tiles that reach into each other: whole ones */
	*first = v->disp + p / t->size * t->extent + t->true_lb;
	*end = v->disp + (p + bytes - 1) / t->size * t->extent + t->true_lb + t->true_extent;
}
