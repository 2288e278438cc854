/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data representations (MPI-5.0 section 14.5): "native" and "internal" are memory's, "external32" is datatype/external.c's,
 * further ones are the program's.
 *
 * Where the basic types have other lengths in the file, a filetype has there an image: the same constructors over basic types of
 * those lengths. So displacements that count extents of an old type are scaled, and displacements in bytes
 * are not (section 14.5.1).
 */
#include "io/io.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct hdl_datarep *registered;

const struct hdl_datarep hdl_datarep_external32 = { .name = "external32" };

static const struct {
	const char *name;
	const struct hdl_datarep *rep;
} predefined[] = { { "native", NULL }, { "internal", NULL }, { "external32", &hdl_datarep_external32 } };

bool hdl_datarep_find(const char *name, const struct hdl_datarep **rep)
{
	for (size_t i = 0; i < ARRAY_SIZE(predefined); i++)
		if (!strcmp(name, predefined[i].name)) {
			*rep = predefined[i].rep;
			return true;
		}
	for (*rep = registered; *rep; *rep = (*rep)->next)
		if (!strcmp(name, (*rep)->name))
			return true;
	return false;
}

int hdl_datarep_add(const struct hdl_datarep *rep)
{
	struct hdl_datarep *r = malloc(sizeof(*r));

	if (!r) {
		hdl_reason_set("out of memory");
		return MPI_ERR_NO_MEM;
	}
	*r = *rep;
	r->next = registered;
	registered = r;
	return MPI_SUCCESS;
}

void hdl_datarep_fini(void)
{
	while (registered) {
		struct hdl_datarep *r = registered;

		registered = r->next;
		free(r);
	}
}

/* ---- lengths --------------------------------------------------------------------------------------------------------- */

/* The lengths of basic types, as a function of the program gives them. */
struct lengths {
	const struct hdl_datarep *rep;
	int code;			/* the first error that the function returned */
};

static MPI_Count basic_bytes(MPI_Datatype basic, void *arg)
{
	struct lengths *l = arg;
	MPI_Aint extent = 0;
	int code;

	if (l->rep == &hdl_datarep_external32)
		return hdl_external_basic(basic, NULL);
	code = l->rep->extent_fn(basic, &extent, l->rep->extra_state);
	l->code = l->code ? l->code : code;
	return extent > 0 ? extent : 0;
}

static int items_of(const struct hdl_datarep *rep, struct hdl_type *t, MPI_Count count, MPI_Count most, struct hdl_items *items)
{
	struct lengths l = { rep, MPI_SUCCESS };
	int rc = hdl_type_items(t, count, most, basic_bytes, &l, items);

	if (rc)
		hdl_reason_set("out of memory for a datatype");
	else if (l.code)
		hdl_reason_set("dtype_file_extent_fn of data representation %s returned %d", rep->name, l.code);
	return rc ? rc : l.code ? MPI_ERR_CONVERSION : MPI_SUCCESS;
}

/* ---- images ---------------------------------------------------------------------------------------------------------- */

/* Visited types with their images: the types form a graph with shared parts. */
struct images {
	const struct hdl_datarep *rep;
	int n, room, rc;
	struct { struct hdl_type *of, *image; } *done;
};

static struct hdl_type *image_add(struct images *all, struct hdl_type *of, struct hdl_type *image)
{
	if (image && all->n == all->room) {
		all->room = all->room ? 2 * all->room : 16;
		all->done = realloc(all->done, (size_t)all->room * sizeof(*all->done));
		if (!all->done)
			hdl_out_of_memory("the image of a datatype in a file", (size_t)all->room * sizeof(*all->done));
	}
	if (image) {
		all->done[all->n].of = of;
		all->done[all->n++].image = image;
	} else if (!all->rc) {
		hdl_reason_set("out of memory for the image of a datatype in the file, or its extent is too large");
		all->rc = MPI_ERR_NO_MEM;
	}
	return image;
}

static struct hdl_type *image_found(const struct images *all, const struct hdl_type *of)
{
	for (int i = 0; i < all->n; i++)
		if (all->done[i].of == of)
			return all->done[i].image;
	return NULL;
}

/* A predefined type: so many bytes. */
static struct hdl_type *image_of_basic(struct images *all, struct hdl_type *t)
{
	struct hdl_items items;
	struct hdl_type *image;

	all->rc = all->rc ? all->rc : items_of(all->rep, t, 1, INT64_MAX, &items);
	if (all->rc)
		return NULL;
	image = hdl_type_new(MPI_COMBINER_CONTIGUOUS, true, 1, 1);
	if (!image)
		return NULL;
	image->args[0] = items.there;
	image->types[0] = hdl_type_get(MPI_BYTE);
	return hdl_type_finish(image) ? NULL : image;
}

/* Must: the old types have images. */
static struct hdl_type *image_of_derived(struct images *all, struct hdl_type *t)
{
	struct hdl_type *image = hdl_type_new(t->combiner, t->large, t->nargs, t->ntypes);

	if (!image)
		return NULL;
	memcpy(image->args, t->args, (size_t)t->nargs * sizeof(*t->args));
	for (MPI_Count i = 0; i < t->ntypes; i++)
		image->types[i] = image_found(all, t->types[i]);
	return hdl_type_finish(image) ? NULL : image;
}

/* Makes the image of a type behind those of its old types. Types may be nested as deep as memory goes, so this does not recurse:
 * `way` is the way down to the type. */
static struct hdl_type *image_make(struct images *all, struct hdl_type *top)
{
	struct hdl_type **way = malloc(sizeof(*way)), *t, *next;
	size_t depth = 1;

	if (!way)
		hdl_out_of_memory("the image of a datatype in a file", sizeof(*way));
	way[0] = top;
	while (depth && !all->rc) {
		t = way[depth - 1];
		next = NULL;
		for (MPI_Count i = 0; !t->predefined && i < t->ntypes && !next; i++)
			next = image_found(all, t->types[i]) ? NULL : t->types[i];
		if (!next) {
			image_add(all, t, t->predefined ? image_of_basic(all, t) : image_of_derived(all, t));
			depth--;
			continue;
		}
		way = realloc(way, (depth + 1) * sizeof(*way));
		if (!way)
			hdl_out_of_memory("the image of a datatype in a file", (depth + 1) * sizeof(*way));
		way[depth++] = next;
	}
	free(way);
	return all->rc ? NULL : image_found(all, top);
}

int hdl_datarep_image(const struct hdl_datarep *rep, struct hdl_type *t, struct hdl_type **image)
{
	struct images all = { .rep = rep };

	*image = t;
	if (!rep) {
		hdl_type_retain(t);
		return MPI_SUCCESS;
	}
	*image = image_make(&all, t);
	if (*image) {
		hdl_type_retain(*image);
		if (hdl_type_commit(*image)) {
			hdl_type_release(*image);
			*image = NULL;
			hdl_reason_set("out of memory for the image of a datatype in the file");
			all.rc = MPI_ERR_NO_MEM;
		}
	}
	for (int i = 0; i < all.n; i++)
		hdl_type_close(all.done[i].image);
	free(all.done);
	return all.rc;
}

/* ---- data ------------------------------------------------------------------------------------------------------------ */

int hdl_datarep_size(const struct hdl_datarep *rep, struct hdl_type *t, MPI_Count count, MPI_Count *bytes)
{
	struct hdl_items items;
	int rc = items_of(rep, t, count, INT64_MAX, &items);

	*bytes = items.there;
	return rc;
}

/* Calls a conversion function of the program. Returns its code. */
static int call_conversion(const struct hdl_datarep *rep, const union hdl_conversion *fn, void *buf, struct hdl_type *t,
			   MPI_Count n, void *packed)
{
	MPI_Datatype handle = hdl_type_handle(t);
	int code;

	/* the program may have freed the type */
	hdl_type_open(t);
	code = rep->large ? fn->large(buf, handle, n, packed, 0, rep->extra_state) :
	       n > INT_MAX ? MPI_ERR_COUNT : fn->small(buf, handle, (int)n, packed, 0, rep->extra_state);
	hdl_type_close(t);
	return code;
}

static int conversion_failed(const struct hdl_datarep *rep, const char *fn, int code)
{
	if (!code)
		return MPI_SUCCESS;
	hdl_reason_set("%s of data representation %s returned %d", fn, rep->name, code);
	return MPI_ERR_CONVERSION;
}

int hdl_datarep_pack(const struct hdl_datarep *rep, void *packed, const void *buf, MPI_Count count, struct hdl_type *t)
{
	struct hdl_items items;
	int rc;

	if (rep == &hdl_datarep_external32)
		return hdl_pack_external(packed, buf, count, t);
	rc = items_of(rep, t, count, INT64_MAX, &items);
	if (rc)
		return rc;
	if (!rep->write.small) {
		hdl_pack(packed, buf, count, t, 0, (size_t)(count * t->size));
		return MPI_SUCCESS;
	}
	return conversion_failed(rep, "write_conversion_fn", call_conversion(rep, &rep->write, (void *)buf, t, items.n, packed));
}

int hdl_datarep_unpack(const struct hdl_datarep *rep, void *buf, const void *packed, MPI_Count bytes, MPI_Count count,
		       struct hdl_type *t, MPI_Count *unpacked)
{
	struct hdl_items items;
	int rc = items_of(rep, t, count, bytes, &items);

	*unpacked = 0;
	if (rc || !items.n)
		return rc;
	if (rep == &hdl_datarep_external32)
		rc = hdl_unpack_external_part(buf, packed, items.there, count, t);
	else if (!rep->read.small)
		hdl_unpack(buf, packed, count, t, 0, (size_t)items.here);
	else
		rc = conversion_failed(rep, "read_conversion_fn",
				       call_conversion(rep, &rep->read, buf, t, items.n, (void *)packed));
	if (!rc)
		*unpacked = items.here;
	return rc;
}
