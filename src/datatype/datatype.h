/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/datatype: type maps, pack and unpack (MPI-5.0 chapter 5). Knows nothing of communication.
 *
 * A type is a nest of strided loops around a leaf of one or two runs of bytes. Loops that touch are merged when the
 * type is made, so that a vector whose blocks abut is one run, and pack never does more turns than the layout needs.
 */
#ifndef HDL_DATATYPE_H
#define HDL_DATATYPE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every object behind an MPI handle begins with this, so that a stale or foreign handle is told apart. */
enum hdl_magic { HDL_MAGIC_COMM = 0x48434f4d, HDL_MAGIC_REQ = 0x48524551, HDL_MAGIC_TYPE = 0x48545950,
		 HDL_MAGIC_OP = 0x484f5020, HDL_MAGIC_GROUP = 0x48475250, HDL_MAGIC_ERRH = 0x48455252,
		 HDL_MAGIC_INFO = 0x48494e46 };
struct hdl_object {
	uint32_t magic;
	int refs;
};

/* Handles below this are the standard ABI's constants, the others are addresses of objects. */
#define HDL_HANDLE_PREDEFINED	0x1000

/* Whether a handle may be dereferenced to look for the magic word: an address, and aligned as ours are. */
static inline bool hdl_handle_is_address(const void *handle)
{
	return (uintptr_t)handle >= HDL_HANDLE_PREDEFINED && !((uintptr_t)handle & 7);
}

struct hdl_type_loop {
	MPI_Count count;
	MPI_Aint stride;		/* bytes from one turn to the next */
	MPI_Count bytes;		/* packed bytes of one turn */
};

struct hdl_type_run {
	MPI_Aint offset;
	MPI_Count bytes;
};

/* Read-only outside of this folder. */
struct hdl_type {
	struct hdl_object obj;
	bool committed, predefined;
	bool contiguous;		/* any number of elements is one run */
	bool one_run;			/* one element is one run that starts at its origin */
	uint8_t nruns;			/* of the leaf: 1 or 2 */
	uint8_t nelems;			/* basic elements of the base type: 1, or 2 for pairs */
	int nloops;			/* outermost first */
	MPI_Count size;			/* bytes of data */
	MPI_Aint lb, extent, true_lb, true_extent;
	MPI_Datatype base;		/* handle of the predefined type of which it consists */
	struct hdl_type_run run[2];
	MPI_Count elem_bytes[2];
	const char *name;		/* of predefined types */
	struct hdl_type_loop *loop;
};

/* Indexed by (handle - HDL_TYPE_FIRST); an entry without magic is no type. */
#define HDL_TYPE_FIRST	0x200
#define HDL_TYPE_LAST	0x259
extern struct hdl_type hdl_types[HDL_TYPE_LAST - HDL_TYPE_FIRST + 1];

/* The object behind a handle, or NULL if it is no valid datatype. */
static inline struct hdl_type *hdl_type_get(MPI_Datatype handle)
{
	uintptr_t v = (uintptr_t)handle;
	struct hdl_type *t;

	if (__builtin_expect(v < HDL_HANDLE_PREDEFINED, 1)) {
		if (v < HDL_TYPE_FIRST || v > HDL_TYPE_LAST)
			return NULL;
		t = &hdl_types[v - HDL_TYPE_FIRST];
	} else {
		if (v & 7)
			return NULL;
		t = (struct hdl_type *)v;
	}
	return t->obj.magic == HDL_MAGIC_TYPE ? t : NULL;
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

/* Whether this many elements are one run of bytes that begins at the buffer's address. */
static inline bool hdl_type_is_run(const struct hdl_type *t, MPI_Count count)
{
	return t->contiguous || (count <= 1 && t->one_run);
}

static inline bool hdl_type_is_committed(const struct hdl_type *t)
{
	return t->committed;
}

static inline bool hdl_type_is_predefined(const struct hdl_type *t)
{
	return t->predefined;
}

/* The predefined type of which t consists (for reductions), or NULL if mixed. */
static inline const struct hdl_type *hdl_type_base(const struct hdl_type *t)
{
	return &hdl_types[(uintptr_t)t->base - HDL_TYPE_FIRST];
}

/* The handle of a type: the constant of a predefined one. */
static inline MPI_Datatype hdl_type_handle(const struct hdl_type *t)
{
	return t->predefined ? t->base : (MPI_Datatype)t;
}

/* Constructors (sections 5.1.2). The new type has one reference and is not committed. Counts are not negative. Return
 * an MPI error class: MPI_ERR_NO_MEM, or MPI_ERR_VALUE_TOO_LARGE if a size or an address does not fit 63 bits. */
int hdl_type_contiguous(MPI_Count count, const struct hdl_type *old, struct hdl_type **out);
int hdl_type_vector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, const struct hdl_type *old,
		    struct hdl_type **out);
/* References: a pending receive holds one, so that MPI_Type_free in between does no harm. Predefined: no effect. */
void hdl_type_retain(struct hdl_type *t);
void hdl_type_release(struct hdl_type *t);
void hdl_type_commit(struct hdl_type *t);

/* Basic elements in so many received bytes (MPI_Get_elements), or MPI_UNDEFINED if the last one is torn. */
MPI_Count hdl_type_elements(const struct hdl_type *t, MPI_Count bytes);

/* Copies `bytes` of the packed stream, starting at its byte `position`, from or to (buf, count, t). */
void hdl_pack(void *packed, const void *buf, MPI_Count count, const struct hdl_type *t, MPI_Count position,
	      size_t bytes);
void hdl_unpack(void *buf, const void *packed, MPI_Count count, const struct hdl_type *t, MPI_Count position,
		size_t bytes);

#endif
