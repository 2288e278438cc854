/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From constructors to layouts. Types are a graph without cycles, which may be deep (each made of the one before) and
 * may be shared (a struct of the same type many times over, nested): so no function here is recursive, and each type is
 * visited once. First, all types below the one that is compiled are put in order, old before new. Then each that is not
 * `alone` becomes a layout, from the layouts of the old types. A type is alone if it is needed at one place, once and
 * unchanged: the items are written straight into the list of the type around it, so that a struct of a struct of a
 * struct costs no more than the members of all.
 */
#include "datatype/layout.h"

#include <stdlib.h>

static uint32_t visits;

/* Types that are being compiled, old ones first. */
struct order {
	struct hdl_type **type;
	size_t count, room;
};

/* A type whose old types are being visited, or whose blocks are being added. */
struct at {
	struct hdl_type *type;
	MPI_Count i;
	MPI_Aint offset;
};

struct stack {
	struct at *at;
	size_t count, room;
};

static bool compile_push(struct stack *s, struct hdl_type *t, MPI_Aint offset)
{
	struct at *more;

	if (s->count == s->room) {
		s->room = s->room ? s->room * 2 : 32;
		more = realloc(s->at, s->room * sizeof(*more));
		if (!more)
			return false;
		s->at = more;
	}
	s->at[s->count++] = (struct at){ .type = t, .offset = offset };
	return true;
}

static bool compile_append(struct order *o, struct hdl_type *t)
{
	struct hdl_type **more;

	if (o->count == o->room) {
		o->room = o->room ? o->room * 2 : 32;
		more = realloc(o->type, o->room * sizeof(*more));
		if (!more)
			return false;
		o->type = more;
	}
	o->type[o->count++] = t;
	return true;
}

static struct hdl_layout *compile_known(const struct hdl_type *t, bool typed)
{
	return typed ? t->typed : t->layout;
}

/* Returns true if the type's layout follows from hdl_type_block alone. */
static bool is_of_blocks(const struct hdl_type *t)
{
	switch (t->combiner) {
	case MPI_COMBINER_VECTOR:
	case MPI_COMBINER_HVECTOR:
	case MPI_COMBINER_SUBARRAY:
	case MPI_COMBINER_DARRAY:
		return false;
	default:
		return true;
	}
}

/* ---- order --------------------------------------------------------------------------------------------------------- */

static void visit(struct hdl_type *t)
{
	t->visit = visits;
	t->uses = 0;
	t->alone = true;
	t->made = NULL;
}

/* All types that must become layouts for this one, which is the last. */
static bool compile_put_in_order(struct order *o, struct hdl_type *top, bool typed)
{
	struct stack s = { 0 };
	struct hdl_type *t, *old;
	bool ok, first;

	visits++;
	visit(top);
	top->alone = false;
	ok = compile_push(&s, top, 0);
	while (ok && s.count) {
		struct at *at = &s.at[s.count - 1];

		t = at->type;
		hdl_layout_steps++;
		if (at->i == t->ntypes) {
			s.count--;
			ok = compile_append(o, t);
			continue;
		}
		old = t->types[at->i++];
		if (!old->size || old->predefined || compile_known(old, typed))
			continue;
		first = old->visit != visits;
		if (first)
			visit(old);
		old->uses++;
		old->alone &= old->uses == 1 && is_of_blocks(t) && hdl_type_blocks(t) == t->ntypes &&
			      hdl_type_block(t, at->i - 1).copies == 1;
		if (first)
			ok = compile_push(&s, old, 0);
	}
	free(s.at);
	return ok;
}

/* ---- layouts ------------------------------------------------------------------------------------------------------- */

/* The layout of a type that was compiled before, or is not alone. */
static struct hdl_layout *layout_of(const struct hdl_type *t, bool typed)
{
	struct hdl_layout *l = compile_known(t, typed);

	return l ? l : t->made;
}

/* A block of several copies. The loop around the same type as often as for the block before is the same loop. */
struct repeat {
	const struct hdl_type *type;
	MPI_Count copies;
	struct hdl_layout *loop;
};

static void add_copies(struct hdl_list *list, MPI_Aint offset, const struct hdl_block *b, struct hdl_layout *l,
		       struct repeat *last)
{
	if (hdl_layout_is_run(l) && l->unit == b->type->extent) {
		hdl_list_run(list, offset + l->origin, l->unit * b->copies, l->tag);
		return;
	}
	if (last->type != b->type || last->copies != b->copies) {
		hdl_layout_release(last->loop);
		last->loop = hdl_layout_loop(hdl_layout_retain(l), 0, b->copies, b->type->extent);
		last->type = b->type;
		last->copies = b->copies;
	}
	if (last->loop)
		hdl_list_layout(list, offset, last->loop);
	else
		list->no_memory = true;
}

static struct hdl_layout *make_of_blocks(struct hdl_type *t, bool typed)
{
	struct hdl_list list = { 0 };
	struct repeat last = { 0 };
	struct stack s = { 0 };
	struct hdl_layout *l;
	bool no_memory;

	list.no_memory = !compile_push(&s, t, 0);
	while (s.count && !list.no_memory) {
		struct at *at = &s.at[s.count - 1];
		struct hdl_block b;
		MPI_Aint offset;

		hdl_layout_steps++;
		if (at->i == hdl_type_blocks(at->type)) {
			s.count--;
			continue;
		}
		b = hdl_type_block(at->type, at->i++);
		if (!b.copies || !b.type->size)
			continue;
		offset = at->offset + b.offset;
		l = layout_of(b.type, typed);
		if (!l)			/* alone */
			list.no_memory = !compile_push(&s, b.type, offset);
		else if (b.copies == 1)
			hdl_list_layout(&list, offset, l);
		else
			add_copies(&list, offset, &b, l, &last);
	}
	l = hdl_list_close(&list, &no_memory);
	hdl_layout_release(last.loop);
	free(s.at);
	return l;
}

static struct hdl_layout *make_subarray(const struct hdl_type *t, struct hdl_layout *l)
{
	MPI_Count n = t->args[0];
	const MPI_Count *size = t->args + 1, *sub = size + n, *start = sub + n;
	bool c_order = t->args[1 + 3 * n] == MPI_ORDER_C;
	MPI_Aint step = t->types[0]->extent;

	for (MPI_Count k = 0; k < n; k++) {
		MPI_Count d = c_order ? n - 1 - k : k;

		l = hdl_layout_loop(l, start[d] * step, sub[d], step);
		step *= size[d];
	}
	return l;
}

/* One dimension of a distributed array: whole blocks, and the part of one at the end. */
static struct hdl_layout *make_share(struct hdl_layout *l, const struct hdl_share *s, MPI_Aint step)
{
	struct hdl_list list = { 0 };
	struct hdl_layout *blocks, *rest;
	bool no_memory;

	if (!s->rest) {
		l = hdl_layout_loop(l, 0, s->block, step);
		return hdl_layout_loop(l, s->first * step, s->blocks, s->period * step);
	}
	rest = hdl_layout_loop(hdl_layout_retain(l), (s->first + s->blocks * s->period) * step, s->rest, step);
	if (!s->blocks) {
		hdl_layout_release(l);
		return rest;
	}
	blocks = hdl_layout_loop(l, 0, s->block, step);
	blocks = hdl_layout_loop(blocks, s->first * step, s->blocks, s->period * step);
	if (blocks && rest) {
		hdl_list_layout(&list, 0, blocks);
		hdl_list_layout(&list, 0, rest);
	}
	hdl_layout_release(blocks);
	hdl_layout_release(rest);
	return hdl_list_close(&list, &no_memory);
}

static struct hdl_layout *make_darray(const struct hdl_type *t, struct hdl_layout *l)
{
	MPI_Count n = t->args[2];
	bool c_order = t->args[3 + 4 * n] == MPI_ORDER_C;
	MPI_Aint step = t->types[0]->extent;

	for (MPI_Count k = 0; k < n && l; k++) {
		MPI_Count d = c_order ? n - 1 - k : k;
		struct hdl_share s = hdl_darray_share(t, d);

		l = make_share(l, &s, step);
		step *= s.size;
	}
	return l;
}

static struct hdl_layout *compile_make(struct hdl_type *t, bool typed)
{
	MPI_Aint stride;
	struct hdl_layout *l;

	if (is_of_blocks(t))
		return make_of_blocks(t, typed);
	l = hdl_layout_retain(layout_of(t->types[0], typed));
	if (t->combiner == MPI_COMBINER_SUBARRAY)
		return make_subarray(t, l);
	if (t->combiner == MPI_COMBINER_DARRAY)
		return make_darray(t, l);
	l = hdl_layout_loop(l, 0, t->args[1], t->types[0]->extent);
	stride = t->combiner == MPI_COMBINER_HVECTOR || t->args[0] == 1 ? t->args[2] : t->args[2] * t->types[0]->extent;
	return hdl_layout_loop(l, 0, t->args[0], stride);
}

struct hdl_layout *hdl_compile(struct hdl_type *t, bool typed)
{
	struct order o = { 0 };
	struct hdl_layout *l = NULL;
	size_t done = 0;
	bool ok = compile_put_in_order(&o, t, typed);

	for (; ok && done < o.count; done++) {
		struct hdl_type *old = o.type[done];

		if (old->alone && is_of_blocks(old))
			continue;
		old->made = compile_make(old, typed);
		ok = old->made != NULL;
	}
	if (ok)
		l = hdl_layout_retain(t->made);
	for (size_t i = 0; i < done; i++) {
		hdl_layout_release(o.type[i]->made);
		o.type[i]->made = NULL;
	}
	free(o.type);
	return l;
}

int hdl_type_commit(struct hdl_type *t)
{
	struct hdl_layout *l;

	if (t->committed)
		return MPI_SUCCESS;
	if (t->size) {
		l = hdl_compile(t, false);
		if (!l)
			return MPI_ERR_NO_MEM;
		t->layout = l;
		t->shifted = hdl_layout_is_run(l);
		t->one_run = t->shifted && !l->origin;
		t->contiguous = t->one_run && t->size == t->extent;
	} else {
		t->one_run = t->contiguous = true;
	}
	t->committed = true;
	return MPI_SUCCESS;
}
