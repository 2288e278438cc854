/* SPDX-License-Identifier: BSD-3-Clause */
/* Types as objects: memory, handles, references. */
#include "datatype/layout.h"

#include <stdlib.h>
#include <string.h>

struct hdl_pool hdl_derived_types = HDL_POOL(struct hdl_type, 64);

struct hdl_type *hdl_type_new(int combiner, bool large, MPI_Count nargs, MPI_Count ntypes)
{
	MPI_Count *args = malloc((size_t)(nargs ? nargs : 1) * sizeof(*args));
	struct hdl_type **types = calloc((size_t)(ntypes ? ntypes : 1), sizeof(struct hdl_type *));
	struct hdl_type *t = args && types ? hdl_pool_take(&hdl_derived_types) : NULL;

	if (!t) {
		free(args);
		free(types);
		return NULL;
	}
	*t = (struct hdl_type){
		.obj = { HDL_MAGIC_TYPE, 1 }, .handles = 1, .combiner = (uint8_t)combiner, .large = large,
		.base = MPI_DATATYPE_NULL, .nargs = nargs, .ntypes = ntypes, .args = args, .types = types,
	};
	return t;
}

void hdl_type_retain(struct hdl_type *t)
{
	if (!t->predefined)
		t->obj.refs++;
}

/* A type may be the last reference to another, and so on: a list instead of calls, however long the chain is. */
void hdl_type_release(struct hdl_type *t)
{
	struct hdl_type *dead = NULL, *old;

	if (t->predefined || --t->obj.refs)
		return;
	t->next = NULL;
	for (dead = t; dead; hdl_pool_put(&hdl_derived_types, t)) {
		t = dead;
		dead = t->next;
		t->obj.magic = 0;
		for (MPI_Count i = 0; i < t->ntypes; i++) {
			old = t->types[i];
			if (!old || old->predefined || --old->obj.refs)
				continue;
			old->next = dead;
			dead = old;
		}
		hdl_layout_release(t->layout);
		hdl_layout_release(t->typed);
		free(t->args);
		free(t->types);
		free(t->name);
	}
}

struct each {
	void (*fn)(struct hdl_type *t);
};

static void call_each(void *object, void *arg)
{
	((struct each *)arg)->fn(object);
}

void hdl_type_each(void (*fn)(struct hdl_type *t))
{
	hdl_pool_each(&hdl_derived_types, call_each, &(struct each){ fn });
}

void hdl_type_open(struct hdl_type *t)
{
	if (t->predefined)
		return;
	t->obj.refs++;
	t->handles++;
	t->obj.magic = HDL_MAGIC_TYPE;
}

void hdl_type_close(struct hdl_type *t)
{
	if (t->predefined)
		return;
	if (!--t->handles)
		t->obj.magic = 0;
	hdl_type_release(t);
}
