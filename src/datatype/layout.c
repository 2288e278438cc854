/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts: made from loops and from growing lists, in the form that the invariants demand. */
#include "datatype/layout.h"

#include <stdlib.h>
#include <string.h>

/* Up to this length a loop for runs of one length is worth more than fewer runs. */
#define SPLIT_BYTES	32

uint64_t hdl_layout_steps;

struct hdl_layout *hdl_layout_retain(struct hdl_layout *l)
{
	if (l && l->refs)
		l->refs++;
	return l;
}

/* Recursion is as deep as the layout: at most HDL_LAYOUT_DEPTH calls. */
void hdl_layout_release(struct hdl_layout *l)
{
	if (!l || !l->refs || --l->refs)
		return;
	hdl_layout_release(l->child);
	for (MPI_Count i = 0; l->item && i < l->count; i++)
		hdl_layout_release(l->item[i]);
	free(l->offset);
	free(l->narrow);
	free(l->at);
	free(l->item);
	free(l->tags);
	free(l);
}

static struct hdl_layout *layout_new(enum hdl_layout_kind kind, MPI_Count count, MPI_Count bytes)
{
	struct hdl_layout *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->refs = 1;
	l->kind = kind;
	l->count = count;
	l->bytes = bytes;
	l->depth = 1;
	return l;
}

/* A loop of this child (takes over the caller's reference) or, if child is NULL, of runs. */
static struct hdl_layout *loop_new(struct hdl_layout *child, uint8_t tag, MPI_Count unit, MPI_Aint origin,
				   MPI_Count count, MPI_Aint stride)
{
	struct hdl_layout *l = layout_new(HDL_LOOP, count, count * unit);

	if (!l) {
		hdl_layout_release(child);
		return NULL;
	}
	l->child = child;
	l->tag = tag;
	l->unit = unit;
	l->origin = origin;
	l->stride = stride;
	if (child)
		l->depth = child->depth + 1;
	return l;
}

struct hdl_layout *hdl_layout_run(MPI_Aint offset, MPI_Count bytes, uint8_t tag)
{
	return loop_new(NULL, tag, bytes, offset, 1, bytes);
}

struct hdl_layout *hdl_layout_loop(struct hdl_layout *l, MPI_Aint origin, MPI_Count count, MPI_Aint stride)
{
	struct hdl_layout *made;
	MPI_Aint span;

	hdl_layout_steps++;
	if (!l || (count == 1 && !origin))
		return l;
	if (l->kind == HDL_LOOP && l->count == 1) {
		/* l is a run, or a moved layout: its origin is added to ours */
		origin += l->origin;
		if (!l->child && stride == l->unit)
			made = loop_new(NULL, l->tag, l->unit * count, origin, 1, l->unit * count);
		else
			made = loop_new(hdl_layout_retain(l->child), l->tag, l->unit, origin, count, stride);
	} else if (l->kind == HDL_LOOP && count == 1) {
		made = loop_new(hdl_layout_retain(l->child), l->tag, l->unit, origin + l->origin, l->count, l->stride);
	} else if (l->kind == HDL_LOOP && !__builtin_mul_overflow(l->count, l->stride, &span) && span == stride) {
		made = loop_new(hdl_layout_retain(l->child), l->tag, l->unit, origin + l->origin, l->count * count, l->stride);
	} else {
		return loop_new(l, 0, l->bytes, origin, count, stride);
	}
	hdl_layout_release(l);
	return made;
}

/* ---- lists --------------------------------------------------------------------------------------------------------- */

static struct hdl_list_item *layout_list_add(struct hdl_list *list)
{
	struct hdl_list_item *more;
	MPI_Count room;

	hdl_layout_steps++;
	if (list->count == list->room) {
		room = list->room ? list->room * 2 : 16;
		more = realloc(list->items, (size_t)room * sizeof(*more));
		if (!more) {
			list->no_memory = true;
			return NULL;
		}
		list->items = more;
		list->room = room;
	}
	return &list->items[list->count++];
}

void hdl_list_run(struct hdl_list *list, MPI_Aint offset, MPI_Count bytes, uint8_t tag)
{
	struct hdl_list_item *last = list->count ? &list->items[list->count - 1] : NULL;

	if (last && !last->layout && last->tag == tag && last->offset + last->bytes == offset) {
		hdl_layout_steps++;
		last->bytes += bytes;
		return;
	}
	last = layout_list_add(list);
	if (last)
		*last = (struct hdl_list_item){ .offset = offset, .bytes = bytes, .tag = tag };
}

void hdl_list_layout(struct hdl_list *list, MPI_Aint offset, struct hdl_layout *l)
{
	struct hdl_list_item *item;

	if (l->kind == HDL_LOOP && l->count == 1) {
		offset += l->origin;
		if (!l->child) {
			hdl_list_run(list, offset, l->bytes, l->tag);
			return;
		}
		l = l->child;
	}
	if (l->kind == HDL_LIST && (l->flat || l->depth >= HDL_LIST_DEPTH)) {
		for (MPI_Count i = 0; i < l->count; i++)
			if (l->item && l->item[i])
				hdl_list_layout(list, offset + l->offset[i], l->item[i]);
			else
				hdl_list_run(list, offset + l->offset[i], l->at[i + 1] - l->at[i],
					     l->tags ? l->tags[i] : 0);
		return;
	}
	item = layout_list_add(list);
	if (item)
		*item = (struct hdl_list_item){ .offset = offset, .bytes = l->bytes, .layout = hdl_layout_retain(l) };
}

/* The number of runs in a layout, or a number above `most`; visits no more than that many parts. */
static MPI_Count runs_of(const struct hdl_layout *l, MPI_Count most)
{
	MPI_Count runs = 0;

	if (!l)
		return 1;
	if (l->count > most)
		return most + 1;
	if (l->kind != HDL_LIST)
		return l->count * runs_of(l->child, most / l->count);
	for (MPI_Count i = 0; i < l->count && runs <= most; i++)
		runs += runs_of(l->item ? l->item[i] : NULL, most - runs);
	return runs;
}

static void add_runs(struct hdl_list *list, MPI_Aint offset, const struct hdl_layout *l, MPI_Count bytes, uint8_t tag)
{
	if (!l) {
		hdl_list_run(list, offset, bytes, tag);
		return;
	}
	for (MPI_Count i = 0; i < l->count; i++)
		if (l->kind == HDL_LOOP)
			add_runs(list, offset + l->origin + i * l->stride, l->child, l->unit, l->tag);
		else if (l->kind == HDL_GATHER)
			add_runs(list, offset + (l->narrow ? l->narrow[i] : l->offset[i]), l->child, l->unit, l->tag);
		else
			add_runs(list, offset + l->offset[i], l->item ? l->item[i] : NULL, l->at[i + 1] - l->at[i],
				 l->tags ? l->tags[i] : 0);
}

/* Items that are few runs in all become these runs, so that the whole is one flat list. */
static void unroll(struct hdl_list *list)
{
	struct hdl_list flat = { 0 };
	MPI_Count runs = 0;

	for (MPI_Count i = 0; i < list->count && runs <= HDL_LIST_SHORT; i++)
		runs += runs_of(list->items[i].layout, HDL_LIST_SHORT - runs);
	if (runs > HDL_LIST_SHORT || runs == list->count)
		return;
	for (MPI_Count i = 0; i < list->count; i++)
		add_runs(&flat, list->items[i].offset, list->items[i].layout, list->items[i].bytes, list->items[i].tag);
	if (flat.no_memory) {
		free(flat.items);	/* the longer form is as right */
		return;
	}
	for (MPI_Count i = 0; i < list->count; i++)
		hdl_layout_release(list->items[i].layout);
	free(list->items);
	*list = flat;
}

/*
 * Runs that are mostly of one length, and here and there of a multiple of that length, because some of them touched: as
 * runs of that one length they are copied faster than as runs of any.
 */
static void layout_split(struct hdl_list *list)
{
	struct hdl_list even = { 0 };
	MPI_Count unit = list->items[0].bytes, total = 0;

	for (MPI_Count i = 0; i < list->count; i++)
		unit = list->items[i].bytes < unit ? list->items[i].bytes : unit;
	for (MPI_Count i = 0; i < list->count; i++) {
		const struct hdl_list_item *item = &list->items[i];

		hdl_layout_steps++;
		if (item->layout || item->tag != list->items[0].tag || item->bytes % unit)
			return;
		total += item->bytes / unit;
	}
	if (unit > SPLIT_BYTES || list->count <= HDL_LIST_SHORT || total > 2 * list->count)
		return;
	for (MPI_Count i = 0; i < list->count && !even.no_memory; i++)
		for (MPI_Count at = 0; at < list->items[i].bytes; at += unit) {
			struct hdl_list_item *to = layout_list_add(&even);

			if (to)
				*to = (struct hdl_list_item){ list->items[i].offset + at, unit, NULL, list->items[i].tag };
		}
	if (even.no_memory) {
		free(even.items);
		return;
	}
	free(list->items);
	*list = even;
}

/* Equal items: a gather, or a loop. */
static struct hdl_layout *close_equal(const struct hdl_list *list)
{
	const struct hdl_list_item *first = list->items;
	MPI_Aint stride = first[1].offset - first[0].offset;
	struct hdl_layout *l, *child = hdl_layout_retain(first->layout);
	bool even = true, small = true;

	for (MPI_Count i = 0; i < list->count; i++) {
		hdl_layout_steps++;
		even &= i == 0 || first[i].offset - first[i - 1].offset == stride;
		small &= first[i].offset == (int32_t)first[i].offset;
	}
	if (even && child)
		return hdl_layout_loop(child, first->offset, list->count, stride);
	if (even)
		return loop_new(NULL, first->tag, first->bytes, first->offset, list->count, stride);
	l = layout_new(HDL_GATHER, list->count, list->count * first->bytes);
	if (!l) {
		hdl_layout_release(child);
		return NULL;
	}
	l->child = child;
	l->tag = first->tag;
	l->unit = first->bytes;
	l->depth += child ? child->depth : 0;
	if (small)
		l->narrow = malloc((size_t)list->count * sizeof(*l->narrow));
	else
		l->offset = malloc((size_t)list->count * sizeof(*l->offset));
	if (!l->narrow && !l->offset) {
		hdl_layout_release(l);
		return NULL;
	}
	for (MPI_Count i = 0; i < list->count; i++)
		if (small)
			l->narrow[i] = (int32_t)first[i].offset;
		else
			l->offset[i] = first[i].offset;
	return l;
}

static struct hdl_layout *close_list(const struct hdl_list *list)
{
	struct hdl_layout *l = layout_new(HDL_LIST, list->count, 0);
	size_t n = (size_t)list->count;
	bool layouts = false, tags = false;
	uint16_t deepest = 0;

	if (!l)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		layouts |= list->items[i].layout != NULL;
		tags |= list->items[i].tag != 0;
	}
	l->offset = malloc(n * sizeof(*l->offset));
	l->at = malloc((n + 1) * sizeof(*l->at));
	l->item = layouts ? calloc(n, sizeof(struct hdl_layout *)) : NULL;
	l->tags = tags ? calloc(n, 1) : NULL;
	if (!l->offset || !l->at || (layouts && !l->item) || (tags && !l->tags)) {
		hdl_layout_release(l);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		const struct hdl_list_item *item = &list->items[i];

		hdl_layout_steps++;
		l->offset[i] = item->offset;
		l->at[i] = l->bytes;
		l->bytes += item->bytes;
		if (item->layout) {
			l->item[i] = hdl_layout_retain(item->layout);
			deepest = item->layout->depth > deepest ? item->layout->depth : deepest;
		}
		if (tags)
			l->tags[i] = item->tag;
	}
	l->at[n] = l->bytes;
	l->depth += deepest;
	l->flat = !layouts && n <= HDL_LIST_SHORT;
	return l;
}

/* ---- order --------------------------------------------------------------------------------------------------------- */

/* Runs that ascend: where the first begins and the last ends; how many, where those that touch are one. */
struct order {
	MPI_Aint first, end;
	MPI_Count runs;
};

static bool layout_order(const struct hdl_layout *l, struct order *o);

/* The order of an item: of a layout, or a run of `bytes`. */
static bool item_order(const struct hdl_layout *l, MPI_Count bytes, struct order *o)
{
	*o = (struct order){ 0, bytes, 1 };
	return !l || layout_order(l, o);
}

/* Appends runs, moved by `offset`. */
static bool order_append(struct order *o, MPI_Aint offset, const struct order *more)
{
	if (o->runs && offset + more->first < o->end)
		return false;
	if (!o->runs)
		o->first = offset + more->first;
	o->runs += more->runs - (o->runs && offset + more->first == o->end);
	o->end = offset + more->end;
	return true;
}

static bool loop_order(const struct hdl_layout *l, const struct order *turn, struct order *o)
{
	MPI_Aint span = turn->end - turn->first;

	if (l->count > 1 && l->stride < span)
		return false;
	*o = (struct order){ l->origin + turn->first, l->origin + (l->count - 1) * l->stride + turn->end, l->count * turn->runs };
	if (l->count > 1 && l->stride == span)
		o->runs -= l->count - 1;
	return true;
}

/* Recursion is as deep as the layout: at most HDL_LAYOUT_DEPTH calls. */
static bool layout_order(const struct hdl_layout *l, struct order *o)
{
	const struct hdl_layout *known = NULL;	/* the layout whose order `item` is; NULL: a run's */
	struct order item;

	hdl_layout_steps++;
	if (l->kind != HDL_LIST && !item_order(l->child, l->unit, &item))
		return false;
	if (l->kind == HDL_LOOP)
		return loop_order(l, &item, o);
	*o = (struct order){ 0 };
	for (MPI_Count i = 0; i < l->count; i++) {
		const struct hdl_layout *next = l->kind == HDL_LIST && l->item ? l->item[i] : NULL;

		hdl_layout_steps++;
		if (l->kind == HDL_LIST && (!next || next != known)) {
			known = next;
			if (!item_order(next, l->at[i + 1] - l->at[i], &item))
				return false;
		}
		if (!order_append(o, l->narrow ? l->narrow[i] : l->offset[i], &item))
			return false;
	}
	return true;
}

bool hdl_type_ascends(const struct hdl_type *t, MPI_Count *runs)
{
	struct order o;

	if (!layout_order(t->layout, &o))
		return false;
	*runs = o.runs;
	return true;
}

/* ---- closing ------------------------------------------------------------------------------------------------------- */

static bool all_equal(const struct hdl_list *list)
{
	const struct hdl_list_item *a = list->items;

	for (MPI_Count i = 1; i < list->count; i++)
		if (a[i].layout != a->layout || a[i].bytes != a->bytes || a[i].tag != a->tag)
			return false;
	return true;
}

struct hdl_layout *hdl_list_close(struct hdl_list *list, bool *no_memory)
{
	struct hdl_layout *l = NULL;

	if (list->count > 1 && !list->no_memory && !all_equal(list)) {
		unroll(list);
		layout_split(list);
	}
	if (list->count && !list->no_memory) {
		if (list->count == 1 && list->items->layout)
			l = hdl_layout_loop(hdl_layout_retain(list->items->layout), list->items->offset, 1, 0);
		else if (list->count == 1)
			l = hdl_layout_run(list->items->offset, list->items->bytes, list->items->tag);
		else
			l = all_equal(list) ? close_equal(list) : close_list(list);
	}
	*no_memory = list->no_memory || (list->count && !l);
	for (MPI_Count i = 0; i < list->count; i++)
		hdl_layout_release(list->items[i].layout);
	free(list->items);
	*list = (struct hdl_list){ 0 };
	return l;
}
