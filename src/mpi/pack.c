/* SPDX-License-Identifier: BSD-3-Clause */
/* Pack and unpack (MPI-5.0 sections 5.2, 5.3). Packed data is the bytes of the basic elements, one after the other. */
#include "mpi/mpi_internal.h"

#include <limits.h>
#include <string.h>

/* Both directions; either form. */
struct packing {
	const char *call;
	struct hdl_comm *comm;		/* NULL: of external32 */
	const char *data_name, *packed_name, *size_name;
	const void *data, *packed;
	MPI_Count count, size, position;
	MPI_Datatype datatype;
};

/* The type of so many elements, whose bytes fit 63 bits. NULL: *rc. */
static struct hdl_type *packed_type(struct hdl_comm *c, const char *call, const char *count_name, MPI_Count count,
				    MPI_Datatype datatype, int *rc)
{
	struct hdl_type *t = hdl_type_get(datatype);
	MPI_Count bytes;

	if (!t || !hdl_type_is_committed(t))
		*rc = hdl_bad_type(c, call, "datatype", datatype);
	else if (count < 0)
		*rc = hdl_bad_count(c, call, count_name, count);
	else if (__builtin_mul_overflow(count, t->size, &bytes))
		*rc = hdl_raise(c, MPI_ERR_COUNT, call, "invalid %s %lld: elements of %lld bytes do not fit 63 bits", count_name,
				(long long)count, (long long)t->size);
	else
		return t;
	return NULL;
}

/* Whether there is data, and room for it. */
static int check_room(const struct packing *p, const struct hdl_type *t, MPI_Count bytes)
{
	if (hdl_bad_buffer(p->data, p->count, t))
		return hdl_bad_buffer_error(p->comm, p->call, p->data_name, p->data);
	if (p->size < 0)
		return hdl_raise(p->comm, MPI_ERR_ARG, p->call, "invalid %s %lld: it must not be negative", p->size_name,
				 (long long)p->size);
	if (p->position < 0 || p->position > p->size)
		return hdl_raise(p->comm, MPI_ERR_ARG, p->call, "invalid position %lld: it must be within %s, %lld",
				 (long long)p->position, p->size_name, (long long)p->size);
	if (bytes > p->size - p->position)
		return hdl_raise(p->comm, MPI_ERR_TRUNCATE, p->call, "%s %lld is too small: %lld bytes from position %lld on",
				 p->size_name, (long long)p->size, (long long)bytes, (long long)p->position);
	if (bytes && !p->packed)
		return hdl_bad_buffer_error(p->comm, p->call, p->packed_name, p->packed);
	return MPI_SUCCESS;
}

/* ---- in the machine's own representation --------------------------------------------------------------------------- */

static int pack(const char *call, const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf,
		MPI_Count outsize, MPI_Count *position, MPI_Comm comm)
{
	struct packing p = { .call = call, .comm = hdl_comm_get(comm), .data_name = "inbuf", .packed_name = "outbuf",
			     .size_name = "outsize", .data = inbuf, .packed = outbuf, .count = incount, .size = outsize,
			     .datatype = datatype };
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	if (!p.comm)
		return hdl_bad_comm(call, comm);
	t = packed_type(p.comm, call, "incount", incount, datatype, &rc);
	if (!t)
		return rc;
	if (!position)
		return hdl_null_arg(p.comm, call, "position");
	p.position = *position;
	bytes = incount * t->size;
	rc = check_room(&p, t, bytes);
	if (rc)
		return rc;
	hdl_pack((char *)outbuf + *position, inbuf, incount, t, 0, (size_t)bytes);
	*position += bytes;
	return MPI_SUCCESS;
}

int PMPI_Pack(const void *inbuf, int incount, MPI_Datatype datatype, void *outbuf, int outsize, int *position,
	      MPI_Comm comm)
{
	HDL_LOCKED;
	MPI_Count at = position ? *position : 0;
	int rc = pack("MPI_Pack", inbuf, incount, datatype, outbuf, outsize, position ? &at : NULL, comm);

	if (!rc)
		*position = (int)at;		/* not above outsize */
	return rc;
}
HDL_PROFILED(Pack);

int PMPI_Pack_c(const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf, MPI_Count outsize,
		MPI_Count *position, MPI_Comm comm)
{
	HDL_LOCKED;
	return pack("MPI_Pack_c", inbuf, incount, datatype, outbuf, outsize, position, comm);
}
HDL_PROFILED(Pack_c);

static int unpack(const char *call, const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf,
		  MPI_Count outcount, MPI_Datatype datatype, MPI_Comm comm)
{
	struct packing p = { .call = call, .comm = hdl_comm_get(comm), .data_name = "outbuf", .packed_name = "inbuf",
			     .size_name = "insize", .data = outbuf, .packed = inbuf, .count = outcount, .size = insize,
			     .datatype = datatype };
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	if (!p.comm)
		return hdl_bad_comm(call, comm);
	t = packed_type(p.comm, call, "outcount", outcount, datatype, &rc);
	if (!t)
		return rc;
	if (!position)
		return hdl_null_arg(p.comm, call, "position");
	p.position = *position;
	bytes = outcount * t->size;
	rc = check_room(&p, t, bytes);
	if (rc)
		return rc;
	hdl_unpack(outbuf, (const char *)inbuf + *position, outcount, t, 0, (size_t)bytes);
	*position += bytes;
	return MPI_SUCCESS;
}

int PMPI_Unpack(const void *inbuf, int insize, int *position, void *outbuf, int outcount, MPI_Datatype datatype,
		MPI_Comm comm)
{
	HDL_LOCKED;
	MPI_Count at = position ? *position : 0;
	int rc = unpack("MPI_Unpack", inbuf, insize, position ? &at : NULL, outbuf, outcount, datatype, comm);

	if (!rc)
		*position = (int)at;
	return rc;
}
HDL_PROFILED(Unpack);

int PMPI_Unpack_c(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf, MPI_Count outcount,
		  MPI_Datatype datatype, MPI_Comm comm)
{
	HDL_LOCKED;
	return unpack("MPI_Unpack_c", inbuf, insize, position, outbuf, outcount, datatype, comm);
}
HDL_PROFILED(Unpack_c);

static int too_large_for_int(struct hdl_comm *c, const char *call, MPI_Count size)
{
	return hdl_raise(c, MPI_ERR_VALUE_TOO_LARGE, call, "%lld bytes do not fit an int: use %s_c", (long long)size, call);
}

static int pack_size(const char *call, MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, MPI_Count *size)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	struct hdl_type *t;
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	t = packed_type(c, call, "incount", incount, datatype, &rc);
	if (!t)
		return rc;
	if (!size)
		return hdl_null_arg(c, call, "size");
	*size = incount * t->size;
	return MPI_SUCCESS;
}

int PMPI_Pack_size(int incount, MPI_Datatype datatype, MPI_Comm comm, int *size)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Pack_size";
	MPI_Count bytes;
	int rc = pack_size(call, incount, datatype, comm, size ? &bytes : NULL);

	if (rc)
		return rc;
	if (bytes > INT_MAX)
		return too_large_for_int(hdl_comm_get(comm), call, bytes);
	*size = (int)bytes;
	return MPI_SUCCESS;
}
HDL_PROFILED(Pack_size);

int PMPI_Pack_size_c(MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, MPI_Count *size)
{
	HDL_NO_LOCK;
	return pack_size("MPI_Pack_size_c", incount, datatype, comm, size);
}
HDL_PROFILED(Pack_size_c);

/* ---- external32 ---------------------------------------------------------------------------------------------------- */

/* The type, and the bytes that so many elements take in this representation. NULL: *rc. */
static struct hdl_type *external_type(const char *call, const char *datarep, const char *count_name, MPI_Count count,
				      MPI_Datatype datatype, MPI_Count *bytes, int *rc)
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
	t = packed_type(NULL, call, count_name, count, datatype, rc);
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
	struct packing p = { .call = call, .data_name = "inbuf", .packed_name = "outbuf", .size_name = "outsize",
			     .data = inbuf, .packed = outbuf, .count = incount, .size = outsize, .datatype = datatype };
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	t = external_type(call, datarep, "incount", incount, datatype, &bytes, &rc);
	if (!t)
		return rc;
	if (!position)
		return hdl_null_arg(NULL, call, "position");
	p.position = *position;
	rc = check_room(&p, t, bytes);
	if (rc)
		return rc;
	rc = hdl_pack_external((char *)outbuf + *position, inbuf, incount, t);
	if (rc)
		return hdl_raise(NULL, rc, call, "out of memory");
	*position += bytes;
	return MPI_SUCCESS;
}

_Static_assert(sizeof(MPI_Aint) == sizeof(MPI_Count), "an address is a count");

int PMPI_Pack_external(const char *datarep, const void *inbuf, int incount, MPI_Datatype datatype, void *outbuf,
		       MPI_Aint outsize, MPI_Aint *position)
{
	HDL_LOCKED;
	return pack_external("MPI_Pack_external", datarep, inbuf, incount, datatype, outbuf, outsize, (MPI_Count *)position);
}
HDL_PROFILED(Pack_external);

int PMPI_Pack_external_c(const char *datarep, const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf,
			 MPI_Count outsize, MPI_Count *position)
{
	HDL_LOCKED;
	return pack_external("MPI_Pack_external_c", datarep, inbuf, incount, datatype, outbuf, outsize, position);
}
HDL_PROFILED(Pack_external_c);

static int unpack_external(const char *call, const char *datarep, const void *inbuf, MPI_Count insize,
			   MPI_Count *position, void *outbuf, MPI_Count outcount, MPI_Datatype datatype)
{
	struct packing p = { .call = call, .data_name = "outbuf", .packed_name = "inbuf", .size_name = "insize",
			     .data = outbuf, .packed = inbuf, .count = outcount, .size = insize, .datatype = datatype };
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	t = external_type(call, datarep, "outcount", outcount, datatype, &bytes, &rc);
	if (!t)
		return rc;
	if (!position)
		return hdl_null_arg(NULL, call, "position");
	p.position = *position;
	rc = check_room(&p, t, bytes);
	if (rc)
		return rc;
	rc = hdl_unpack_external(outbuf, (const char *)inbuf + *position, outcount, t);
	if (rc)
		return hdl_raise(NULL, rc, call, "out of memory");
	*position += bytes;
	return MPI_SUCCESS;
}

int PMPI_Unpack_external(const char datarep[], const void *inbuf, MPI_Aint insize, MPI_Aint *position, void *outbuf,
			 int outcount, MPI_Datatype datatype)
{
	HDL_LOCKED;
	return unpack_external("MPI_Unpack_external", datarep, inbuf, insize, (MPI_Count *)position, outbuf, outcount,
			       datatype);
}
HDL_PROFILED(Unpack_external);

int PMPI_Unpack_external_c(const char datarep[], const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf,
			   MPI_Count outcount, MPI_Datatype datatype)
{
	HDL_LOCKED;
	return unpack_external("MPI_Unpack_external_c", datarep, inbuf, insize, position, outbuf, outcount, datatype);
}
HDL_PROFILED(Unpack_external_c);

static int pack_external_size(const char *call, const char *datarep, MPI_Count incount, MPI_Datatype datatype,
			      MPI_Count *size)
{
	MPI_Count bytes;
	int rc;

	if (!external_type(call, datarep, "incount", incount, datatype, &bytes, &rc))
		return rc;
	if (!size)
		return hdl_null_arg(NULL, call, "size");
	*size = bytes;
	return MPI_SUCCESS;
}

int PMPI_Pack_external_size(const char *datarep, int incount, MPI_Datatype datatype, MPI_Aint *size)
{
	HDL_LOCKED;
	return pack_external_size("MPI_Pack_external_size", datarep, incount, datatype, (MPI_Count *)size);
}
HDL_PROFILED(Pack_external_size);

int PMPI_Pack_external_size_c(const char *datarep, MPI_Count incount, MPI_Datatype datatype, MPI_Count *size)
{
	HDL_LOCKED;
	return pack_external_size("MPI_Pack_external_size_c", datarep, incount, datatype, size);
}
HDL_PROFILED(Pack_external_size_c);
