/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/datatype: type maps, pack and unpack (MPI-5.0 chapter 5). Knows nothing of communication.
 *
 * A type holds the arguments of its constructor (struct hdl_type: combiner, arguments, old types), which
 * MPI_Type_get_contents returns. Beside them a constructor computes sizes and bounds only. Commit compiles the type to
 * a program (layout.h): loops, gathers and lists over runs of bytes, merged and as shallow as the layout allows. Data
 * moves by a stream, which is a position in a program; a stream begins at any byte, stops at any byte and goes on from
 * there.
 *
 *     hdl_type_new, hdl_type_finish (construct.c) ── hdl_type_commit (compile.c) ── hdl_stream_* (stream.c)
 */
#ifndef HDL_DATATYPE_H
#define HDL_DATATYPE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "runtime/object.h"

struct hdl_layout;
struct hdl_attrs;

/* A datatype. Other folders must not write to it, but for name and attrs. */
struct hdl_type {
	struct hdl_object obj;		/* magic while the user has a handle; a reference for each handle, each type
					 * made of this one, and each pending operation */
	bool committed, predefined;
	bool contiguous;		/* committed, and any number of elements is one run that begins at the buffer */
	bool one_run;			/* committed, and one element is one run that begins at the buffer */
	bool shifted;			/* committed, and one element is one run that begins at true_lb */
	bool bounded;			/* the type map has markers of lower and upper bound (MPI_Type_create_resized) */
	bool large;			/* made by a constructor with large counts */
	uint8_t combiner;
	MPI_Count size;			/* bytes of data */
	MPI_Aint lb, extent, true_lb, true_extent;
	MPI_Count elements;		/* basic elements */
	MPI_Datatype base;		/* handle of the predefined type of all basic elements; MPI_DATATYPE_NULL if
					 * mixed */
	uint16_t align;			/* bytes: the strictest alignment of the basic elements */
	int handles;			/* open handles of the user, each a reference */
	struct hdl_layout *layout;	/* made by commit; NULL before, and if size is 0 */
	struct hdl_layout *typed;	/* the layout with runs of one basic type each (hdl_compile), made when first
					 * needed; else NULL */
	char *name;			/* NULL: MPI_Type_set_name was not called */
	struct hdl_attrs *attrs;	/* the keyvals'; NULL: none */

	MPI_Count nargs, ntypes;	/* the constructor's arguments; see hdl_type_new */
	MPI_Count *args;
	struct hdl_type **types;	/* each with a reference */

	struct hdl_type *next;		/* about to be freed */
	uint32_t visit, uses;		/* the compiler's */
	bool alone;
	struct hdl_layout *made;
};

/* Indexed by (handle - HDL_TYPE_FIRST); an entry without magic is no type. */
#define HDL_TYPE_FIRST	0x200
#define HDL_TYPE_LAST	0x2ff
extern struct hdl_type hdl_types[HDL_TYPE_LAST - HDL_TYPE_FIRST + 1];

extern struct hdl_pool hdl_derived_types;

/* The object behind a handle, or NULL if the handle is no valid datatype: null, foreign, freed. */
static inline struct hdl_type *hdl_type_get(MPI_Datatype handle)
{
	uintptr_t v = (uintptr_t)handle;
	struct hdl_type *t;

	if (likely(v < HDL_HANDLE_PREDEFINED)) {
		if (v < HDL_TYPE_FIRST || v > HDL_TYPE_LAST)
			return NULL;
		t = &hdl_types[v - HDL_TYPE_FIRST];
		return t->obj.magic == HDL_MAGIC_TYPE ? t : NULL;
	}
	return hdl_pool_find(&hdl_derived_types, handle, HDL_MAGIC_TYPE, sizeof(*t));
}

static inline MPI_Count hdl_type_size(const struct hdl_type *t)	/* bytes of data */
{
	return t->size;
}

static inline MPI_Aint hdl_type_extent(const struct hdl_type *t)
{
	return t->extent;
}

static inline MPI_Aint hdl_type_lb(const struct hdl_type *t)
{
	return t->lb;
}

/* size == extent and no holes: count elements are one run */
static inline bool hdl_type_is_contiguous(const struct hdl_type *t)
{
	return t->contiguous;
}

/* Returns true if count elements are one run of bytes that begins at the buffer's address. */
static inline bool hdl_type_is_run(const struct hdl_type *t, MPI_Count count)
{
	return t->contiguous || (count <= 1 && t->one_run);
}

/* For elements for which hdl_type_is_run is false: whether they are one run that begins elsewhere. Then *buf is moved
 * there. */
static inline bool hdl_type_find_run(const struct hdl_type *t, MPI_Count count, void **buf)
{
	if (!t->shifted || (count > 1 && t->size != t->extent))
		return false;
	*buf = (void *)((uintptr_t)*buf + (uintptr_t)t->true_lb);
	return true;
}

static inline bool hdl_type_is_committed(const struct hdl_type *t)
{
	return t->committed;
}

static inline bool hdl_type_is_predefined(const struct hdl_type *t)
{
	return t->predefined;
}

/* The predefined type of which t consists, or NULL if mixed. */
static inline const struct hdl_type *hdl_type_base(const struct hdl_type *t)
{
	return t->base == MPI_DATATYPE_NULL ? NULL : &hdl_types[(uintptr_t)t->base - HDL_TYPE_FIRST];
}

/* Returns true if a type is a constant of mpi.h; all other handles are addresses. Types of MPI_Type_create_f90_* are
 * predefined, too, but not named. */
static inline bool hdl_type_is_named(const struct hdl_type *t)
{
	return t->combiner == MPI_COMBINER_NAMED;
}

/* The handle of a type: the constant of a named one. */
static inline MPI_Datatype hdl_type_handle(const struct hdl_type *t)
{
	return hdl_type_is_named(t) ? (MPI_Datatype)(HDL_TYPE_FIRST + (uintptr_t)(t - hdl_types)) : (MPI_Datatype)t;
}

/* ---- construction (section 5.1.2) ------------------------------------------------------------------------------ */

/*
 * A constructor's arguments lie in t->args in the order of the C binding, without the datatypes: each int, MPI_Aint and
 * MPI_Count one entry, arrays entry by entry. t->types are the old types.
 *
 *     MPI_COMBINER_DUP, _VALUE_INDEX                   nothing
 *     _CONTIGUOUS         count                        _VECTOR, _HVECTOR   count, blocklength, stride
 *     _INDEXED, _HINDEXED, _STRUCT                     count, blocklengths[count], displacements[count]
 *     _INDEXED_BLOCK, _HINDEXED_BLOCK                  count, blocklength, displacements[count]
 *     _SUBARRAY           ndims, sizes[ndims], subsizes[ndims], starts[ndims], order
 *     _DARRAY             size, rank, ndims, gsizes[ndims], distribs[ndims], dargs[ndims], psizes[ndims], order
 *     _RESIZED            lb, extent                   _F90_REAL, _F90_COMPLEX   p, r       _F90_INTEGER   r
 *
 * Counts and blocklengths are not negative; subarray and darray are as the standard wants them: the caller checks.
 */

/* Makes a type with room for nargs arguments and ntypes old types, which the caller must fill in before
 * hdl_type_finish. NULL: no memory. */
struct hdl_type *hdl_type_new(int combiner, bool large, MPI_Count nargs, MPI_Count ntypes);
/* Completes a type of hdl_type_new: takes references to the old types; computes size and bounds. The type then has one
 * handle and is not committed. Returns MPI_SUCCESS, or an MPI error class, and then t is freed:
 * MPI_ERR_VALUE_TOO_LARGE: a size or an address does not fit 63 bits. */
int hdl_type_finish(struct hdl_type *t);

/* References: a pending receive holds one, so that MPI_Type_free in between does no harm. No effect for named types. */
void hdl_type_retain(struct hdl_type *t);
void hdl_type_release(struct hdl_type *t);
/* The user's handles: MPI_Type_get_contents opens one, MPI_Type_free closes one. Closing the last one makes the handle
 * invalid, even if pending operations or other types still use the type. */
void hdl_type_open(struct hdl_type *t);
void hdl_type_close(struct hdl_type *t);
/* Calls fn for all types that a user has a handle of, types of MPI_Type_create_f90_* among them, but no named types. */
void hdl_type_each(void (*fn)(struct hdl_type *t));
/* Compiles, in time linear in the arguments of all constructors that the type consists of. Returns MPI_SUCCESS or
 * MPI_ERR_NO_MEM. */
int hdl_type_commit(struct hdl_type *t);

/* ---- constructor and arguments of a type (section 5.1.13) ------------------------------------------------------ */

struct hdl_contents {
	MPI_Count integers, addresses, large_counts, types;
};
/* Returns the numbers of arguments of each kind as the standard counts them. */
struct hdl_contents hdl_type_contents(const struct hdl_type *t);
/* Fills arrays of the sizes in hdl_type_contents; addresses and counts may be NULL if there are none. types: handles
 * for the user, each opened (hdl_type_open). */
void hdl_type_decode(struct hdl_type *t, int *integers, MPI_Aint *addresses, MPI_Count *large_counts,
		     MPI_Datatype *types);

/* ---- predefined types ------------------------------------------------------------------------------------------ */

/* "MPI_INT"; NULL if t is no constant. */
const char *hdl_type_constant_name(const struct hdl_type *t);
/* The same for messages; for all other types, the kind of type. */
const char *hdl_type_label(const struct hdl_type *t);
/* The smallest type of that precision and range (section 19.1.5), with an envelope of its own; the same type for the
 * same arguments. MPI_UNDEFINED: not given. NULL: there is none, or no memory. */
struct hdl_type *hdl_type_f90(int combiner, int p, int r);
/* The predefined type of a class (MPI_TYPECLASS_*) and a size in bytes, or MPI_DATATYPE_NULL. */
MPI_Datatype hdl_type_match_size(int typeclass, int size);
/* The predefined pair type (section 6.9.4) of value and index, or MPI_DATATYPE_NULL. */
MPI_Datatype hdl_type_pair(MPI_Datatype value, MPI_Datatype index);

/* ---- data ------------------------------------------------------------------------------------------------------ */

/* Basic elements in `bytes` received bytes (MPI_Get_elements), or MPI_UNDEFINED if the last one is torn. */
MPI_Count hdl_type_elements(const struct hdl_type *t, MPI_Count bytes);
/* Bytes of `elements` basic elements (MPI_Status_set_elements), -1 if the number does not fit 63 bits. */
MPI_Count hdl_type_element_bytes(const struct hdl_type *t, MPI_Count elements);

/* Returns true if each run of one element begins at the end of the run before or behind it. *runs, if so: how many there are;
 * runs that touch are one. In time linear in the layout, and not in the runs. Must: t is committed, and has data. */
bool hdl_type_ascends(const struct hdl_type *t, MPI_Count *runs);

/* Copies `bytes` of the packed stream, starting at byte `position` of the stream, from or to (buf, count, t). t is
 * committed. */
void hdl_pack(void *packed, const void *buf, MPI_Count count, const struct hdl_type *t, MPI_Count position,
	      size_t bytes);
void hdl_unpack(void *buf, const void *packed, MPI_Count count, const struct hdl_type *t, MPI_Count position,
		size_t bytes);

/* "external32" (section 14.5.2): big-endian, IEEE, sizes of its own. hdl_external_size sets *bytes to the size of one
 * element; packed must have count times that. The first of these calls for a type may return MPI_ERR_NO_MEM. */
int hdl_external_size(struct hdl_type *t, MPI_Count *bytes);
int hdl_pack_external(void *packed, const void *buf, MPI_Count count, struct hdl_type *t);
int hdl_unpack_external(void *buf, const void *packed, MPI_Count count, struct hdl_type *t);
/* ... of which only the first `bytes` of packed are there: numbers that are there as a whole are unpacked. */
int hdl_unpack_external_part(void *buf, const void *packed, MPI_Count bytes, MPI_Count count, struct hdl_type *t);
/* Bytes of a basic type, by its handle, in a representation of data. hdl_external_basic: in "external32". */
typedef MPI_Count (*hdl_basic_bytes)(MPI_Datatype basic, void *arg);
MPI_Count hdl_external_basic(MPI_Datatype basic, void *arg);
/* Counts the basic elements of (count, t) in a representation, up to the first one that ends behind byte `most`: how many, their
 * bytes in memory and in the representation. May return MPI_ERR_NO_MEM. */
struct hdl_items {
	MPI_Count n, here, there;
};
int hdl_type_items(struct hdl_type *t, MPI_Count count, MPI_Count most, hdl_basic_bytes bytes, void *arg,
		   struct hdl_items *items);

/*
 * A stream: (buf, count, t) as the sequence of its packed bytes, and a position in that sequence. Plain data in memory
 * of the caller's: the stream must not be moved, and may be dropped at any time. The committed type must live while the
 * stream is used.
 */
struct hdl_stream;
/* Bytes of memory that a stream over this type needs; must have the alignment of pointers. */
size_t hdl_stream_bytes(const struct hdl_type *t);
/* Opens a stream over (buf, count, t) at `position`, which must be at most the bytes of count elements. seek moves the
 * stream to another position. Both in time logarithmic in the type's lists. */
void hdl_stream_open(struct hdl_stream *s, const void *buf, MPI_Count count, const struct hdl_type *t, MPI_Count position);
void hdl_stream_seek(struct hdl_stream *s, MPI_Count position);
MPI_Count hdl_stream_position(const struct hdl_stream *s);
MPI_Count hdl_stream_left(const struct hdl_stream *s);
/* Copy at most `bytes` from or to the stream's position on, and move the position behind these bytes. Return the number
 * of bytes copied: fewer than `bytes` at the end only. */
size_t hdl_stream_pack(struct hdl_stream *s, void *packed, size_t bytes);
size_t hdl_stream_unpack(struct hdl_stream *s, const void *packed, size_t bytes);
/* *run: the run that begins at the position. Returns the run's length, at most `most`, and moves the position behind
 * these bytes. 0: the end. */
size_t hdl_stream_next(struct hdl_stream *s, size_t most, void **run);

#endif
