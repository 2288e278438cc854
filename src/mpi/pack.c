/* SPDX-License-Identifier: BSD-3-Clause */
/* Pack and unpack (MPI-5.0 sections 5.2, 5.3). Packed data is the bytes of the basic elements, one after another. */
#include "mpi/mpi_internal.h"

#include <limits.h>
#include <string.h>

/* The arguments' names, for error texts. */
struct names {
	const char *data, *packed, *count, *size;
};
static const struct names packing = {"inbuf", "outbuf", "incount", "outsize"};
static const struct names unpacking = {"outbuf", "inbuf", "outcount", "insize"};

#define always	static inline __attribute__((always_inline))

/* Returns the type of so many elements whose bytes fit 63 bits. sized: only the size is needed, so the type need not be
 * committed. NULL: *rc. */
always struct hdl_type *packed_type(struct hdl_comm *c, const char *call, const char *count_name, MPI_Count count,
				    MPI_Datatype datatype, bool sized, MPI_Count *bytes, int *rc)
{
	struct hdl_type *t = hdl_type_get(datatype);

	if (unlikely(!t || (!sized && !hdl_type_is_committed(t))))
		*rc = hdl_bad_type(c, call, "datatype", datatype);
	else if (unlikely(count < 0))
		*rc = hdl_bad_count(c, call, count_name, count);
	else if (unlikely(__builtin_mul_overflow(count, t->size, bytes)))
		*rc = hdl_raise(c, MPI_ERR_COUNT, call, "invalid %s %lld: elements of %lld bytes do not fit 63 bits", count_name,
				(long long)count, (long long)t->size);
	else
		return t;
	return NULL;
}

/* Checks that there is data, and space for its packed bytes. Returns the error code. */
always int check_room(struct hdl_comm *c, const char *call, const struct names *name, const struct hdl_type *t,
		      const void *data, MPI_Count count, const void *packed, MPI_Count size, const MPI_Count *position,
		      MPI_Count bytes)
{
	if (unlikely(!position))
		return hdl_null_arg(c, call, "position");
	if (hdl_bad_buffer(data, count, t))
		return hdl_bad_buffer_error(c, call, name->data, data);
	if (unlikely(size < 0))
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid %s %lld: it must not be negative", name->size, (long long)size);
	if (unlikely(*position < 0 || *position > size))
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid position %lld: it must be within %s, %lld", (long long)*position,
				 name->size, (long long)size);
	if (unlikely(bytes > size - *position))
		return hdl_raise(c, MPI_ERR_TRUNCATE, call, "%s %lld is too small: %lld bytes from position %lld on", name->size,
				 (long long)size, (long long)bytes, (long long)*position);
	if (unlikely(bytes && !packed))
		return hdl_bad_buffer_error(c, call, name->packed, packed);
	return MPI_SUCCESS;
}

/* ---- in the machine's own representation --------------------------------------------------------------------------- */

always int pack(const char *call, const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf,
		MPI_Count outsize, MPI_Count *position, MPI_Comm comm)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	if (unlikely(!c))
		return hdl_bad_comm(call, comm);
	t = packed_type(c, call, packing.count, incount, datatype, false, &bytes, &rc);
	if (unlikely(!t))
		return rc;
	rc = check_room(c, call, &packing, t, inbuf, incount, outbuf, outsize, position, bytes);
	if (unlikely(rc))
		return rc;
	hdl_pack((char *)outbuf + *position, inbuf, incount, t, 0, (size_t)bytes);
	*position += bytes;
	return MPI_SUCCESS;
}

always int unpack(const char *call, const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf,
		  MPI_Count outcount, MPI_Datatype datatype, MPI_Comm comm)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	if (unlikely(!c))
		return hdl_bad_comm(call, comm);
	t = packed_type(c, call, unpacking.count, outcount, datatype, false, &bytes, &rc);
	if (unlikely(!t))
		return rc;
	rc = check_room(c, call, &unpacking, t, outbuf, outcount, inbuf, insize, position, bytes);
	if (unlikely(rc))
		return rc;
	hdl_unpack(outbuf, (const char *)inbuf + *position, outcount, t, 0, (size_t)bytes);
	*position += bytes;
	return MPI_SUCCESS;
}

/* Both forms. A position is at most the size, and so fits the argument's type. */
#define FORM(_c, Count)												\
int PMPI_Pack##_c(const void *inbuf, Count incount, MPI_Datatype datatype, void *outbuf, Count outsize, Count *position,	\
		  MPI_Comm comm)										\
{														\
	HDL_LOCKED;												\
	MPI_Count at = position ? *position : 0;								\
	int rc = pack("MPI_Pack" #_c, inbuf, incount, datatype, outbuf, outsize, position ? &at : NULL, comm);	\
														\
	if (likely(!rc))											\
		*position = (Count)at;										\
	return rc;												\
}														\
HDL_PROFILED(Pack##_c);												\
														\
int PMPI_Unpack##_c(const void *inbuf, Count insize, Count *position, void *outbuf, Count outcount,		\
		    MPI_Datatype datatype, MPI_Comm comm)							\
{														\
	HDL_LOCKED;												\
	MPI_Count at = position ? *position : 0;								\
	int rc = unpack("MPI_Unpack" #_c, inbuf, insize, position ? &at : NULL, outbuf, outcount, datatype, comm);	\
														\
	if (likely(!rc))											\
		*position = (Count)at;										\
	return rc;												\
}														\
HDL_PROFILED(Unpack##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

/* A size that does not fit is MPI_UNDEFINED, as in MPI_Type_size (section 5.1.5). */
static int pack_size(const char *call, MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, void *size, MPI_Count most,
		     MPI_Count *bytes)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!packed_type(c, call, packing.count, incount, datatype, true, bytes, &rc))
		return rc;
	if (!size)
		return hdl_null_arg(c, call, "size");
	if (*bytes > most)
		*bytes = MPI_UNDEFINED;
	return MPI_SUCCESS;
}

#define FORM(_c, Count, most)											\
int PMPI_Pack_size##_c(Count incount, MPI_Datatype datatype, MPI_Comm comm, Count *size)			\
{														\
	HDL_NO_LOCK;												\
	MPI_Count bytes;											\
	int rc = pack_size("MPI_Pack_size" #_c, incount, datatype, comm, size, most, &bytes);			\
														\
	if (!rc)												\
		*size = (Count)bytes;										\
	return rc;												\
}														\
HDL_PROFILED(Pack_size##_c);

FORM(, int, INT_MAX)
FORM(_c, MPI_Count, INT64_MAX)
#undef FORM

/* ---- external32 ---------------------------------------------------------------------------------------------------- */

/* Returns the type, and the bytes of so many elements in this representation. NULL: *rc. */
static struct hdl_type *external_type(const char *call, const char *datarep, const char *count_name, MPI_Count count,
				      MPI_Datatype datatype, bool sized, MPI_Count *bytes, int *rc)
{
	struct hdl_type *t;

	hdl_check_active(call);
	if (!datarep) {
		*rc = hdl_null_arg(NULL, call, "datarep");
		return NULL;
	}
	if (strcmp(datarep, "external32")) {
		*rc = hdl_raise(NULL, MPI_ERR_ARG, call, "invalid datarep \"%s\": \"external32\" is the only one", datarep);
		return NULL;
	}
	t = packed_type(NULL, call, count_name, count, datatype, sized, bytes, rc);
	if (!t)
		return NULL;
	*rc = hdl_external_size(t, bytes);
	if (!*rc && __builtin_mul_overflow(count, *bytes, bytes))
		*rc = MPI_ERR_VALUE_TOO_LARGE;
	if (!*rc)
		return t;
	*rc = hdl_raise(NULL, *rc, call, *rc == MPI_ERR_NO_MEM ? "out of memory" : "the packed bytes do not fit 63 bits");
	return NULL;
}

static int pack_external(const char *call, const char *datarep, const void *inbuf, MPI_Count incount,
			 MPI_Datatype datatype, void *outbuf, MPI_Count outsize, MPI_Count *position)
{
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	t = external_type(call, datarep, packing.count, incount, datatype, false, &bytes, &rc);
	if (!t)
		return rc;
	rc = check_room(NULL, call, &packing, t, inbuf, incount, outbuf, outsize, position, bytes);
	if (rc)
		return rc;
	rc = hdl_pack_external((char *)outbuf + *position, inbuf, incount, t);
	if (rc)
		return hdl_raise(NULL, rc, call, "out of memory");
	*position += bytes;
	return MPI_SUCCESS;
}

static int unpack_external(const char *call, const char *datarep, const void *inbuf, MPI_Count insize,
			   MPI_Count *position, void *outbuf, MPI_Count outcount, MPI_Datatype datatype)
{
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	t = external_type(call, datarep, unpacking.count, outcount, datatype, false, &bytes, &rc);
	if (!t)
		return rc;
	rc = check_room(NULL, call, &unpacking, t, outbuf, outcount, inbuf, insize, position, bytes);
	if (rc)
		return rc;
	rc = hdl_unpack_external(outbuf, (const char *)inbuf + *position, outcount, t);
	if (rc)
		return hdl_raise(NULL, rc, call, "out of memory");
	*position += bytes;
	return MPI_SUCCESS;
}

static int pack_external_size(const char *call, const char *datarep, MPI_Count incount, MPI_Datatype datatype,
			      MPI_Count *size)
{
	MPI_Count bytes;
	int rc;

	if (!external_type(call, datarep, packing.count, incount, datatype, true, &bytes, &rc))
		return rc;
	if (!size)
		return hdl_null_arg(NULL, call, "size");
	*size = bytes;
	return MPI_SUCCESS;
}

_Static_assert(sizeof(MPI_Aint) == sizeof(MPI_Count), "an address is a count");

#define FORM(_c, Count, Size)											\
int PMPI_Pack_external##_c(const char *datarep, const void *inbuf, Count incount, MPI_Datatype datatype, void *outbuf,	\
			   Size outsize, Size *position)							\
{														\
	HDL_LOCKED;												\
	return pack_external("MPI_Pack_external" #_c, datarep, inbuf, incount, datatype, outbuf, outsize,	\
			     (MPI_Count *)position);								\
}														\
HDL_PROFILED(Pack_external##_c);										\
														\
int PMPI_Unpack_external##_c(const char *datarep, const void *inbuf, Size insize, Size *position, void *outbuf,	\
			     Count outcount, MPI_Datatype datatype)						\
{														\
	HDL_LOCKED;												\
	return unpack_external("MPI_Unpack_external" #_c, datarep, inbuf, insize, (MPI_Count *)position, outbuf,	\
			       outcount, datatype);								\
}														\
HDL_PROFILED(Unpack_external##_c);										\
														\
int PMPI_Pack_external_size##_c(const char *datarep, Count incount, MPI_Datatype datatype, Size *size)	\
{														\
	HDL_LOCKED;												\
	return pack_external_size("MPI_Pack_external_size" #_c, datarep, incount, datatype, (MPI_Count *)size);	\
}														\
HDL_PROFILED(Pack_external_size##_c);

FORM(, int, MPI_Aint)
FORM(_c, MPI_Count, MPI_Count)
#undef FORM
