/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: positions in a layout, and copying from there on (MPI-5.0 section 5.2). */
#include "datatype/copy.h"
#include "datatype/layout.h"

/* Bytes of memory or of packed data that a loop over a flat list works on at a time: they stay in the first cache. */
#define BATCH_BYTES	8192

size_t hdl_stream_bytes(const struct hdl_type *t)
{
	return sizeof(struct hdl_stream) + (size_t)(t->layout ? t->layout->depth + 1 : 1) * sizeof(struct hdl_frame);
}

/* hdl_layout_loop into the caller's memory, for more than one element. */
static void loop_around(struct hdl_layout *all, const struct hdl_layout *l, MPI_Count count, MPI_Aint extent)
{
	MPI_Aint span;

	if (l->kind == HDL_LOOP && l->count > 1 && !__builtin_mul_overflow(l->count, l->stride, &span) && span == extent) {
		*all = *l;
		all->count *= count;
	} else {
		*all = (struct hdl_layout){ .kind = HDL_LOOP, .count = count, .stride = extent, .unit = l->bytes,
					    .child = (struct hdl_layout *)l };
		if (l->kind == HDL_LOOP && l->count == 1) {
			all->origin = l->origin;
			all->child = l->child;
			all->tag = l->tag;
		}
	}
	if (!all->child && all->stride == all->unit) {
		all->unit *= all->count;
		all->count = 1;
	}
}

/* For one element the stream's layout is the type's. For an empty stream no layout is set. */
static inline void open_layout(struct hdl_stream *s, const void *buf, MPI_Count count, const struct hdl_type *t,
			       const struct hdl_layout *l)
{
	s->buf = (char *)buf;
	s->total = count * t->size;
	s->top = l;
	if (count > 1 && l) {
		loop_around(&s->all, l, count, t->extent);
		s->top = &s->all;
	}
}

void hdl_stream_open_layout(struct hdl_stream *s, const void *buf, MPI_Count count, const struct hdl_type *t,
			    const struct hdl_layout *l, MPI_Count position)
{
	open_layout(s, buf, count, t, l);
	hdl_stream_seek(s, position);
}

void hdl_stream_open(struct hdl_stream *s, const void *buf, MPI_Count count, const struct hdl_type *t, MPI_Count position)
{
	hdl_stream_open_layout(s, buf, count, t, t->layout, position);
}

static inline MPI_Aint gather_offset(const struct hdl_layout *l, MPI_Count i)
{
	return l->narrow ? l->narrow[i] : l->offset[i];
}

/* The layout of turn or item i, NULL for a run; sets *mem to the part's address. */
static inline struct hdl_layout *stream_part(const struct hdl_frame *f, char **mem)
{
	const struct hdl_layout *l = f->layout;

	switch (l->kind) {
	case HDL_LOOP:
		*mem = apart(f->base, l->origin + f->i * l->stride);
		return l->child;
	case HDL_GATHER:
		*mem = apart(f->base, gather_offset(l, f->i));
		return l->child;
	default:
		*mem = apart(f->base, l->offset[f->i]);
		return l->item ? l->item[f->i] : NULL;
	}
}

static inline MPI_Count stream_part_bytes(const struct hdl_frame *f)
{
	const struct hdl_layout *l = f->layout;

	return l->kind == HDL_LIST ? l->at[f->i + 1] - l->at[f->i] : l->unit;
}

static inline void stream_push(struct hdl_stream *s, const struct hdl_layout *l, char *mem)
{
	struct hdl_frame *f = &s->frame[s->depth++];

	f->layout = l;
	f->base = mem;
	f->i = 0;
}

/* The item of a list in which this byte is. */
static MPI_Count item_at(const struct hdl_layout *l, MPI_Count position)
{
	MPI_Count lo = 0, hi = l->count;

	while (hi - lo > 1) {
		MPI_Count mid = lo + (hi - lo) / 2;

		if (l->at[mid] <= position)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static inline void seek_begin(struct hdl_stream *s)
{
	s->position = 0;
	s->done = 0;
	s->depth = 0;
	if (s->total)
		stream_push(s, s->top, s->buf);
}

void hdl_stream_seek(struct hdl_stream *s, MPI_Count position)
{
	MPI_Count rest = position;
	const struct hdl_layout *l;
	struct hdl_frame *f;
	char *mem;

	seek_begin(s);
	if (!position)
		return;
	s->position = position;
	s->depth = 0;
	if (position == s->total)
		return;
	l = s->top;
	mem = s->buf;
	do {
		f = &s->frame[s->depth++];
		f->layout = l;
		f->base = mem;
		f->i = l->kind == HDL_LIST ? item_at(l, rest) : rest / l->unit;
		rest -= l->kind == HDL_LIST ? l->at[f->i] : f->i * l->unit;
		l = stream_part(f, &mem);
	} while (rest && l);
	s->done = rest;
}

MPI_Count hdl_stream_position(const struct hdl_stream *s)
{
	return s->position;
}

MPI_Count hdl_stream_left(const struct hdl_stream *s)
{
	return s->total - s->position;
}

/* ---- runs, one by one ---------------------------------------------------------------------------------------------- */

static inline size_t next(struct hdl_stream *s, size_t most, void **run, uint8_t *tag)
{
	const struct hdl_layout *l;
	struct hdl_frame *f;
	MPI_Count n;
	char *mem;

	if (s->position == s->total || !most)
		return 0;
	for (;;) {
		f = &s->frame[s->depth - 1];
		if (f->i == f->layout->count) {
			s->depth--;
			s->frame[s->depth - 1].i++;
			continue;
		}
		l = stream_part(f, &mem);
		if (!l)
			break;
		stream_push(s, l, mem);
	}
	n = stream_part_bytes(f) - s->done;
	*run = mem + s->done;
	*tag = f->layout->tags ? f->layout->tags[f->i] : f->layout->tag;
	if ((size_t)n > most) {
		n = (MPI_Count)most;
		s->done += n;
	} else {
		s->done = 0;
		f->i++;
	}
	s->position += n;
	return (size_t)n;
}

size_t hdl_stream_next(struct hdl_stream *s, size_t most, void **run)
{
	uint8_t tag;

	return next(s, most, run, &tag);
}

size_t hdl_stream_next_typed(struct hdl_stream *s, void **run, uint8_t *tag)
{
	return next(s, SIZE_MAX, run, tag);
}

/* ---- copies -------------------------------------------------------------------------------------------------------- */

/* The rest of a copy, and where the copy goes on. `unpack` is a constant in the callers of all functions below. */
struct copy {
	char *packed;
	MPI_Count left;
};

always void stream_copy_piece(struct copy *c, char *mem, MPI_Count n, bool unpack)
{
	if (unpack)
		copy_run(mem, c->packed, (size_t)n);
	else
		copy_run(c->packed, mem, (size_t)n);
	c->packed += n;
	c->left -= n;
}

/* Copies part of a run: from a position inside the run, or of a run longer than the rest of the copy. */
always void copy_part(struct hdl_stream *s, struct hdl_frame *f, struct copy *c, char *mem, MPI_Count bytes, bool unpack)
{
	MPI_Count n = bytes - s->done < c->left ? bytes - s->done : c->left;

	stream_copy_piece(c, mem + s->done, n, unpack);
	s->done += n;
	if (s->done == bytes) {
		s->done = 0;
		f->i++;
	}
}

/* Whole turns of the frame's loop or gather that are left and wanted. */
always MPI_Count whole_turns(const struct hdl_frame *f, MPI_Count left)
{
	MPI_Count turns = f->layout->count - f->i, bytes;

	if (!__builtin_mul_overflow(turns, f->layout->unit, &bytes) && bytes <= left)
		return turns;
	return left / f->layout->unit;
}

/* n1 × n2 runs; dense1 and dense2 are the strides on the packed side. */
always void runs(char *packed, MPI_Aint dense1, MPI_Aint dense2, char *mem, MPI_Aint stride1, MPI_Aint stride2,
		 MPI_Count n1, MPI_Count n2, MPI_Count len, bool unpack)
{
	struct grid g;

	if (unpack)
		g = (struct grid){ mem, packed, stride1, stride2, dense1, dense2, n1, n2 };
	else
		g = (struct grid){ packed, mem, dense1, dense2, stride1, stride2, n1, n2 };
	copy_grid(g, (size_t)len, is_transposed(stride1, stride2, n1, n2));
}

/* n turns of a loop of short lists: items k and k + 1 of each. False: there are not two, or not of such lengths. */
always bool pairs(char *packed, char *mem, const struct hdl_layout *l, MPI_Count k, MPI_Count n, bool unpack)
{
	const struct hdl_layout *in = l->child;
	MPI_Aint len1, distance;
	struct pairs p;

	if (k + 1 == in->count)
		return false;
	packed += in->at[k];
	mem = apart(mem, in->offset[k]);
	len1 = in->at[k + 1] - in->at[k];
	distance = in->offset[k + 1] - in->offset[k];
	if (unpack)
		p = (struct pairs){ mem, packed, l->stride, l->unit, distance, len1, n };
	else
		p = (struct pairs){ packed, mem, l->unit, l->stride, len1, distance, n };
	return copy_pairs(p, len1, in->at[k + 2] - in->at[k + 1]);
}

/* A batch of n elements of a loop of short lists of runs, some members of all at a time. */
always void stream_members(char *packed, char *mem, const struct hdl_layout *l, MPI_Count n, bool unpack)
{
	const struct hdl_layout *in = l->child;

	for (MPI_Count k = 0; k < in->count; k++)
		if (pairs(packed, mem, l, k, n, unpack))
			k++;
		else
			runs(packed + in->at[k], 0, l->unit, apart(mem, in->offset[k]), 0, l->stride, 1, n,
			     in->at[k + 1] - in->at[k], unpack);
}

/* Turns of a loop of runs, or of loops of runs, or of short lists of runs. False: a loop of something else, nothing was
 * copied. */
always bool copy_nest(const struct hdl_layout *l, MPI_Count turns, char *packed, char *mem, bool unpack)
{
	const struct hdl_layout *in = l->child;
	MPI_Aint span;
	MPI_Count batch;

	if (!in) {
		runs(packed, 0, l->unit, mem, 0, l->stride, 1, turns, l->unit, unpack);
	} else if (in->kind == HDL_LOOP && !in->child) {
		runs(packed, l->unit, in->unit, apart(mem, in->origin), l->stride, in->stride, turns, in->count, in->unit,
		     unpack);
	} else if (in->flat) {
		if (in->count == 2 && pairs(packed, mem, l, 0, turns, unpack))
			return true;
		span = magnitude(l->stride) > l->unit ? magnitude(l->stride) : l->unit;
		batch = span < BATCH_BYTES ? BATCH_BYTES / span : 1;
		for (MPI_Count i = 0; i < turns; i += batch)
			stream_members(packed + i * l->unit, apart(mem, i * l->stride), l, turns - i < batch ? turns - i : batch,
				       unpack);
	} else {
		return false;
	}
	return true;
}

/* Copies the whole turns of a loop that are left and wanted. Returns how many: 0 also if the loop cannot be copied
 * so. */
always MPI_Count copy_turns(struct hdl_frame *f, struct copy *c, char *mem, bool unpack)
{
	MPI_Count turns = whole_turns(f, c->left);

	if (!turns || !copy_nest(f->layout, turns, c->packed, mem, unpack))
		return 0;
	c->packed += turns * f->layout->unit;
	c->left -= turns * f->layout->unit;
	return turns;
}

always void copy_loop(struct hdl_stream *s, struct hdl_frame *f, struct copy *c, bool unpack)
{
	const struct hdl_layout *l = f->layout;
	char *mem = apart(f->base, l->origin + f->i * l->stride);
	MPI_Count turns = s->done ? 0 : copy_turns(f, c, mem, unpack);

	if (turns)
		f->i += turns;
	else if (l->child)
		stream_push(s, l->child, mem);
	else
		copy_part(s, f, c, mem, l->unit, unpack);
}

always void copy_gathered(struct hdl_stream *s, struct hdl_frame *f, struct copy *c, bool unpack)
{
	const struct hdl_layout *l = f->layout;
	MPI_Count turns;

	if (l->child) {
		stream_push(s, l->child, apart(f->base, gather_offset(l, f->i)));
		return;
	}
	turns = s->done ? 0 : whole_turns(f, c->left);
	if (!turns) {
		copy_part(s, f, c, apart(f->base, gather_offset(l, f->i)), l->unit, unpack);
		return;
	}
	copy_gather(c->packed, f->base, l->narrow ? NULL : l->offset + f->i, l->narrow ? l->narrow + f->i : NULL, turns,
		    (size_t)l->unit, unpack);
	c->packed += turns * l->unit;
	c->left -= turns * l->unit;
	f->i += turns;
}

always void copy_list(struct hdl_stream *s, struct hdl_frame *f, struct copy *c, bool unpack)
{
	const struct hdl_layout *l = f->layout;
	MPI_Count n;

	if (s->done) {
		copy_part(s, f, c, apart(f->base, l->offset[f->i]), stream_part_bytes(f), unpack);
		return;
	}
	for (; f->i < l->count && c->left; f->i++) {
		if (l->item && l->item[f->i]) {
			stream_push(s, l->item[f->i], apart(f->base, l->offset[f->i]));
			return;
		}
		n = l->at[f->i + 1] - l->at[f->i];
		if (n > c->left) {
			copy_part(s, f, c, apart(f->base, l->offset[f->i]), n, unpack);
			return;
		}
		stream_copy_piece(c, apart(f->base, l->offset[f->i]), n, unpack);
	}
}

always size_t stream_convert(struct hdl_stream *s, char *packed, size_t bytes, bool unpack)
{
	struct copy c = { .packed = packed, .left = s->total - s->position };
	struct hdl_frame *f;

	if ((size_t)c.left > bytes)
		c.left = (MPI_Count)bytes;
	bytes = (size_t)c.left;
	s->position += c.left;
	while (c.left) {
		f = &s->frame[s->depth - 1];
		if (f->i == f->layout->count) {
			s->depth--;
			f[-1].i++;
		} else if (f->layout->kind == HDL_LOOP) {
			copy_loop(s, f, &c, unpack);
		} else if (f->layout->kind == HDL_GATHER) {
			copy_gathered(s, f, &c, unpack);
		} else {
			copy_list(s, f, &c, unpack);
		}
	}
	return bytes;
}

size_t hdl_stream_pack(struct hdl_stream *s, void *packed, size_t bytes)
{
	return stream_convert(s, packed, bytes, false);
}

size_t hdl_stream_unpack(struct hdl_stream *s, const void *packed, size_t bytes)
{
	return stream_convert(s, (void *)packed, bytes, true);
}

/* ---- all at once --------------------------------------------------------------------------------------------------- */

/*
 * Copies a whole buffer whose layout is as simple as most are, without a stream, whose set-up would cost more than the
 * copy of a short buffer. False: the layout is not so simple.
 */
always bool copy_whole(char *packed, char *buf, MPI_Count count, const struct hdl_type *t, bool unpack)
{
	const struct hdl_layout *l = t->layout;
	struct hdl_layout all;

	if (count > 1) {
		loop_around(&all, l, count, t->extent);
		l = &all;
	}
	if (likely(l->kind == HDL_LOOP))
		return copy_nest(l, l->count, packed, apart(buf, l->origin), unpack);
	if (l->child || l->kind != HDL_GATHER)
		return false;
	copy_gather(packed, buf, l->narrow ? NULL : l->offset, l->narrow, l->count, (size_t)l->unit, unpack);
	return true;
}

always void copy_once(char *packed, const void *buf, MPI_Count count, const struct hdl_type *t, MPI_Count position,
		      size_t bytes, bool unpack)
{
	union hdl_any_stream any;

	if (!bytes || !t->size)
		return;
	if (t->contiguous) {
		if (unpack)
			memcpy((char *)buf + position, packed, bytes);
		else
			memcpy(packed, (const char *)buf + position, bytes);
		return;
	}
	/* from the beginning on the copy is whole, or less: position + bytes is at most count * size */
	if (likely(bytes == (size_t)(count * t->size)) && copy_whole(packed, (char *)buf, count, t, unpack))
		return;
	hdl_stream_open(&any.s, buf, count, t, position);
	if (unpack)
		hdl_stream_unpack(&any.s, packed, bytes);
	else
		hdl_stream_pack(&any.s, packed, bytes);
}

void hdl_pack(void *packed, const void *buf, MPI_Count count, const struct hdl_type *t, MPI_Count position,
	      size_t bytes)
{
	copy_once(packed, buf, count, t, position, bytes, false);
}

void hdl_unpack(void *buf, const void *packed, MPI_Count count, const struct hdl_type *t, MPI_Count position,
		size_t bytes)
{
	copy_once((char *)packed, buf, count, t, position, bytes, true);
}
