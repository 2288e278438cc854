/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of src/datatype: programs and places in them.
 *
 * A layout is a sequence of runs of bytes in the order of the type map, relative to an address. A layout is immutable
 * and counted by references, so that layouts share their parts. Three kinds:
 *
 *     LOOP    count turns, each `stride` bytes behind the one before: turn i is child, or a run, at origin + i * stride
 *     GATHER  count turns of the same child, or of runs of the same length, at offset[i] (narrow[i] where 32 bits do)
 *     LIST    count items: item i is item[i], or a run, at offset[i], with packed bytes at[i] .. at[i + 1] - 1
 *
 * One run is a LOOP of one turn. A LOOP of one turn around a child moves the child by `origin`.
 *
 * Invariants:
 *  - bytes > 0 in every layout and every item. Nothing empty is ever stored; an empty type has no layout.
 *  - Two runs that follow each other in a list and in memory are one run (in typed layouts: if of the same basic type).
 *    A loop of runs that touch is one run, a loop that continues its child's is one loop, a list of equal items is a
 *    GATHER, and a LOOP if they lie at equal distances. A list of short runs whose lengths are small multiples of one length
 *    is a GATHER of that length, in which runs may touch.
 *  - A LOOP of one turn with a child is never a child: the origin goes into the offsets of the layout around.
 *  - at[0] is 0, at[] ascends strictly, at[count] is bytes. bytes is count * unit in LOOP and GATHER.
 *  - depth is 1 + the deepest child's, and at most HDL_LAYOUT_DEPTH. For the proof: a step down to a child of a LOOP or
 *    GATHER at least halves the bytes, so that a way has at most 63 of these. All other steps go from a list to an item
 *    that is a list: a list of depth HDL_LIST_DEPTH or more is never an item, but has its items copied into the list
 *    around. So the first of these steps on a way leads to a list of less depth, and before it every second step
 *    halves: 2 * 63 steps, HDL_LIST_DEPTH more, and a LOOP of one turn around the whole.
 */
#ifndef HDL_LAYOUT_H
#define HDL_LAYOUT_H

#include "datatype/datatype.h"

enum hdl_layout_kind { HDL_LOOP, HDL_GATHER, HDL_LIST };

#define HDL_LIST_DEPTH		64
#define HDL_LAYOUT_DEPTH	(2 * 63 + HDL_LIST_DEPTH + 1)
/* A list of so few runs is copied where it is used, instead of referred to, which saves a step down. */
#define HDL_LIST_SHORT		16

struct hdl_layout {
	int refs;			/* 0: static */
	uint8_t kind;			/* enum hdl_layout_kind */
	uint8_t tag;			/* typed, without child: the basic type of the runs, by hdl_types' index; else 0 */
	bool flat;			/* a LIST of at most HDL_LIST_SHORT runs */
	uint16_t depth;
	MPI_Count bytes, count;
	MPI_Count unit;			/* LOOP, GATHER: packed bytes of a turn */
	MPI_Aint origin, stride;	/* LOOP */
	struct hdl_layout *child;	/* LOOP, GATHER; NULL: runs of `unit` bytes */
	MPI_Aint *offset;		/* LIST; GATHER without narrow */
	int32_t *narrow;		/* GATHER */
	MPI_Count *at;			/* LIST: count + 1 */
	struct hdl_layout **item;	/* LIST; NULL: all are runs. An entry that is NULL: a run */
	uint8_t *tags;			/* LIST, typed: the basic types of the runs */
};

struct hdl_layout *hdl_layout_retain(struct hdl_layout *l);
void hdl_layout_release(struct hdl_layout *l);	/* NULL is allowed */

/* Makes a layout of one run. This function and the next return NULL without memory. */
struct hdl_layout *hdl_layout_run(MPI_Aint offset, MPI_Count bytes, uint8_t tag);
/* Makes a layout of count copies, stride bytes apart, of l at `origin`. Takes over the caller's reference to l, even
 * without memory. */
struct hdl_layout *hdl_layout_loop(struct hdl_layout *l, MPI_Aint origin, MPI_Count count, MPI_Aint stride);

static inline bool hdl_layout_is_run(const struct hdl_layout *l)
{
	return l->kind == HDL_LOOP && l->count == 1 && !l->child;
}

/* A list that grows. Adding merges with the item added last. */
struct hdl_list {
	MPI_Count count, room;
	struct hdl_list_item {
		MPI_Aint offset;
		MPI_Count bytes;
		struct hdl_layout *layout;	/* with a reference; NULL: a run */
		uint8_t tag;
	} *items;
	bool no_memory;			/* an item could not be added */
};
void hdl_list_run(struct hdl_list *list, MPI_Aint offset, MPI_Count bytes, uint8_t tag);
/* Adds a layout; takes a new reference. */
void hdl_list_layout(struct hdl_list *list, MPI_Aint offset, struct hdl_layout *l);
/* Frees the list, and returns the layout of the added items in the form that the invariants demand. NULL: empty, or no
 * memory (*no_memory). */
struct hdl_layout *hdl_list_close(struct hdl_list *list, bool *no_memory);

/* Items and turns that were visited since the program began; read by a test. */
extern uint64_t hdl_layout_steps;

/* ---- compile.c -------------------------------------------------------------------------------------------------- */

/* The layout of a type with data; typed: with runs of one basic type each. NULL: no memory. */
struct hdl_layout *hdl_compile(struct hdl_type *t, bool typed);

/* ---- construct.c ------------------------------------------------------------------------------------------------ */

/* A block of a type made of blocks: `copies` of the old type, one extent apart, at `offset`. */
struct hdl_block {
	MPI_Aint offset;
	MPI_Count copies;
	struct hdl_type *type;
};
/* Blocks of INDEXED, HINDEXED, INDEXED_BLOCK, HINDEXED_BLOCK, STRUCT, CONTIGUOUS, DUP, RESIZED, VALUE_INDEX. */
MPI_Count hdl_type_blocks(const struct hdl_type *t);
struct hdl_block hdl_type_block(const struct hdl_type *t, MPI_Count i);

/* A process's share of one dimension of a distributed array: `blocks` blocks, one every `period` from `first` on, and
 * `rest` elements more where the next one would begin. */
struct hdl_share {
	MPI_Count size, first, blocks, block, period, rest;
};
struct hdl_share hdl_darray_share(const struct hdl_type *t, MPI_Count dimension);

/* ---- stream.c --------------------------------------------------------------------------------------------------- */

/*
 * A position: frame[0 .. depth-1] is the way from the whole down to the position. A frame is a layout and an index: in
 * the last frame, turn or item i comes next; in every other frame, the next frame is within turn or item i. `done`
 * bytes of the run at the end of the way have been passed; done is not 0 only where the last frame's item is a run. At
 * the end of the data depth is 0, or i equals count in the last frame, and so all the way up.
 */
struct hdl_frame {
	const struct hdl_layout *layout;
	char *base;
	MPI_Count i;
};

struct hdl_stream {
	MPI_Count position, total;	/* packed bytes */
	MPI_Count done;
	char *buf;
	const struct hdl_layout *top;	/* layout of all elements: the type's own, or `all` */
	struct hdl_layout all;		/* count times the type's own layout; else not set */
	int depth;
	struct hdl_frame frame[];	/* entries from depth on are not set */
};

/* Room for a stream over any type: the loop over count is one frame more than the layout's depth. Large: must not be
 * cleared. */
union hdl_any_stream {
	struct hdl_stream s;
	char room[sizeof(struct hdl_stream) + (HDL_LAYOUT_DEPTH + 1) * sizeof(struct hdl_frame)];
};

/* Opens a stream over l instead of the type's own layout. */
void hdl_stream_open_layout(struct hdl_stream *s, const void *buf, MPI_Count count, const struct hdl_type *t,
			    const struct hdl_layout *l, MPI_Count position);
/* hdl_stream_next for typed layouts: returns whole runs, and in *tag the basic type. */
size_t hdl_stream_next_typed(struct hdl_stream *s, void **run, uint8_t *tag);

#endif
