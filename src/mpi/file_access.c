/* SPDX-License-Identifier: BSD-3-Clause */
/* Data access (MPI-5.0 section 14.4): the forms of read and write. Each is a struct file_call and one of the functions behind. */
#include "mpi/file.h"

#include <string.h>

/* Which position the access has. */
enum pointer { EXPLICIT, INDIVIDUAL, SHARED, ORDERED };

/* The arguments of a form. */
struct file_call {
	const char *name;
	bool writes;
	enum pointer pointer;
	MPI_Offset offset;		/* EXPLICIT: in etypes */
	void *buf;
	MPI_Count count;
	MPI_Datatype datatype;
};

/* ---- arguments ------------------------------------------------------------------------------------------------- */

static int check_mode(struct hdl_file *f, const struct file_call *c)
{
	if (c->writes && f->amode & MPI_MODE_RDONLY) {
		hdl_reason_set("the file was opened with MPI_MODE_RDONLY");
		return MPI_ERR_READ_ONLY;
	}
	if (!c->writes && f->amode & MPI_MODE_WRONLY) {
		hdl_reason_set("the file was opened with MPI_MODE_WRONLY");
		return MPI_ERR_ACCESS;
	}
	if (c->pointer < SHARED && f->amode & MPI_MODE_SEQUENTIAL) {
		hdl_reason_set("with MPI_MODE_SEQUENTIAL only the functions with shared file pointers are allowed");
		return MPI_ERR_UNSUPPORTED_OPERATION;
	}
	return MPI_SUCCESS;
}

static int file_buffer_check(struct hdl_file *f, const struct file_call *c, struct hdl_type **type)
{
	struct hdl_type *t = hdl_type_get(c->datatype);
	MPI_Count bytes;

	if (c->count < 0) {
		hdl_reason_set("invalid count %lld: it must not be negative", (long long)c->count);
		return MPI_ERR_COUNT;
	}
	if (!t || !t->committed) {
		hdl_reason_set("invalid datatype: %s", c->datatype == MPI_DATATYPE_NULL ? "MPI_DATATYPE_NULL" :
						       t ? "it is not committed (MPI_Type_commit)" :
							   "the handle is no datatype of this library, or was freed");
		return MPI_ERR_TYPE;
	}
	if (hdl_bad_buffer(c->buf, c->count, t)) {
		hdl_reason_set("invalid buf: %s",
			       c->buf ? "MPI_IN_PLACE is not allowed here" : "a null pointer, and there is data to move");
		return MPI_ERR_BUFFER;
	}
	if (__builtin_mul_overflow(c->count, t->size, &bytes)) {
		hdl_reason_set("invalid count %lld: the data has more bytes than an address space", (long long)c->count);
		return MPI_ERR_COUNT;
	}
	if (bytes % f->view->etype->size) {
		hdl_reason_set("the data, %lld bytes, is no whole number of etypes of %lld bytes", (long long)bytes,
			       (long long)f->view->etype->size);
		return MPI_ERR_TYPE;
	}
	*type = t;
	return MPI_SUCCESS;
}

/* Checks an explicit offset. *position: in bytes of the view's data. */
static int check_offset(struct hdl_file *f, MPI_Offset offset, MPI_Offset *position)
{
	if (offset >= 0 && !__builtin_mul_overflow(offset, f->view->esize, position))
		return MPI_SUCCESS;
	hdl_reason_set("invalid offset %lld: %s", (long long)offset,
		       offset < 0 ? "it must not be negative" : "it leads out of the file");
	return MPI_ERR_ARG;
}

/* Checks the arguments, and finds and moves the pointer. Returns a class with the reason. */
static int begin_access(struct hdl_file *f, const struct file_call *c, struct hdl_access_args *args)
{
	MPI_Count bytes = 0;
	int rc = check_mode(f, c);

	*args = (struct hdl_access_args){ .write = c->writes, .buf = c->buf, .count = c->count };
	if (!rc)
		rc = file_buffer_check(f, c, &args->type);
	if (!rc)
		bytes = hdl_view_bytes(f->view, c->count * args->type->size);
	switch (c->pointer) {
	case EXPLICIT:
		return rc ? rc : check_offset(f, c->offset, &args->position);
	case INDIVIDUAL:
		/* by the data that was asked for, also where the file ends (section 14.4.1) */
		args->position = f->position;
		if (__builtin_add_overflow(f->position, bytes, &f->position))
			f->position = INT64_MAX;
		return rc;
	case SHARED:
		return rc ? rc : hdl_shared_add(f, bytes, &args->position);
	default:
		return hdl_shared_ordered(f, bytes, rc, &args->position);
	}
}

/* Finds the file of a call. Like the two checks below, returns MPI_SUCCESS, or the code of the error raised. */
static int find_file(MPI_File fh, const struct file_call *c, struct hdl_file **f)
{
	*f = hdl_file_get(fh);
	hdl_call = c->name;
	return likely(*f) ? MPI_SUCCESS : hdl_bad_file(c->name, fh);
}

static int check_request(struct hdl_file *f, const MPI_Request *request, const struct file_call *c)
{
	return likely(request) ? MPI_SUCCESS : hdl_file_raise(f, MPI_ERR_ARG, c->name, "invalid request: it is a null pointer");
}

/* Section 14.4.5: one split collective at a time, and no other collective access meanwhile. */
static int check_split(struct hdl_file *f, const struct file_call *c)
{
	if (likely(!f->split))
		return MPI_SUCCESS;
	return hdl_file_raise(f, MPI_ERR_REQUEST, c->name, "a split collective is active, which %s completes", f->split_call);
}

static void set_status(MPI_Status *status, MPI_Count moved)
{
	if (!status)
		return;
	hdl_status_empty(status, MPI_ANY_SOURCE);
	hdl_status_set_bytes(status, moved, false);
}

/* ---- independent ------------------------------------------------------------------------------------------------- */

static int blocking(MPI_File fh, MPI_Status *status, const struct file_call *c)
{
	struct hdl_file *f;
	struct hdl_access_args args;
	MPI_Count moved = 0;
	int rc = find_file(fh, c, &f);

	if (rc)
		return rc;
	rc = begin_access(f, c, &args);
	if (!rc) {
		rc = hdl_file_access(f, &args, &moved);
		set_status(status, moved);
	}
	return rc ? hdl_file_raise_class(f, rc, c->name) : MPI_SUCCESS;
}

static int nonblocking(MPI_File fh, MPI_Request *request, const struct file_call *c)
{
	struct hdl_file *f;
	struct hdl_access_args args;
	struct hdl_req *req;
	int rc = find_file(fh, c, &f);

	if (!rc)
		rc = check_request(f, request, c);
	if (rc)
		return rc;
	rc = begin_access(f, c, &args);
	if (!rc)
		rc = hdl_file_iaccess(f, &args, &req);
	if (rc)
		return hdl_file_raise_class(f, rc, c->name);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

/* ---- collective ---------------------------------------------------------------------------------------------------- */

static int blocking_all(MPI_File fh, MPI_Status *status, const struct file_call *c)
{
	struct hdl_file *f;
	struct hdl_access_args args;
	MPI_Count moved = 0;
	int rc = find_file(fh, c, &f);

	if (!rc)
		rc = check_split(f, c);
	if (rc)
		return rc;
	rc = begin_access(f, c, &args);
	/* all processes of an ordered access know of an error of one */
	if (!rc || c->pointer != ORDERED)
		rc = hdl_file_access_all(f, &args, rc, &moved);
	set_status(status, moved);
	return rc ? hdl_file_raise_class(f, rc, c->name) : MPI_SUCCESS;
}

static int nonblocking_all(MPI_File fh, MPI_Request *request, const struct file_call *c)
{
	struct hdl_file *f;
	struct hdl_access_args args;
	struct hdl_req *req;
	int rc = find_file(fh, c, &f);

	if (!rc)
		rc = check_request(f, request, c);
	if (!rc)
		rc = check_split(f, c);
	if (rc)
		return rc;
	rc = begin_access(f, c, &args);
	hdl_file_iaccess_all(f, &args, rc, &req);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

/* end: the name of the function that completes the access. */
static int split_begin(MPI_File fh, const char *end, const struct file_call *c)
{
	struct hdl_file *f;
	struct hdl_access_args args;
	int rc = find_file(fh, c, &f);

	if (!rc)
		rc = check_split(f, c);
	if (rc)
		return rc;
	rc = begin_access(f, c, &args);
	if (rc && c->pointer == ORDERED)
		return hdl_file_raise_class(f, rc, c->name);
	/* other errors of arguments come with the end, since all processes take part in both */
	hdl_file_iaccess_all(f, &args, rc, &f->split);
	f->split_call = end;
	return MPI_SUCCESS;
}

static int split_end(MPI_File fh, MPI_Status *status, const char *call)
{
	struct hdl_file *f = hdl_file_get(fh);
	struct hdl_req *req;
	int rc;

	if (!f)
		return hdl_bad_file(call, fh);
	if (!f->split || strcmp(f->split_call, call))
		return hdl_file_raise(f, MPI_ERR_REQUEST, call, "no split collective that this call completes is active%s%s",
				      f->split ? "; the active one is completed by " : "", f->split ? f->split_call : "");
	hdl_call = call;
	req = f->split;
	hdl_req_wait(req);
	f->split = NULL;
	set_status(status, hdl_status_bytes(&req->status));
	rc = req->error;
	if (rc)
		hdl_req_explain(req);
	hdl_req_free(req);
	return rc ? hdl_file_raise_class(f, rc, call) : MPI_SUCCESS;
}

/* ---- the forms ------------------------------------------------------------------------------------------------------ */

#define CALL(name_, writes_, pointer_, offset_)										\
	&(const struct file_call){ .name = "MPI_File_" name_, .writes = writes_, .pointer = pointer_, .offset = offset_,	\
				   .buf = (void *)buf, .count = count, .datatype = datatype }

/* verb: read, write. qualifier: of the buffer. */
#define INDEPENDENT(verb, writes, qualifier, _c, Count)								\
int PMPI_File_##verb##_at##_c(MPI_File fh, MPI_Offset offset, qualifier void *buf, Count count, MPI_Datatype datatype,	\
			      MPI_Status *status)								\
{														\
	HDL_LOCKED;												\
	return blocking(fh, status, CALL(#verb "_at" #_c, writes, EXPLICIT, offset));				\
}														\
HDL_PROFILED(File_##verb##_at##_c);										\
														\
int PMPI_File_##verb##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype, MPI_Status *status)	\
{														\
	HDL_LOCKED;												\
	return blocking(fh, status, CALL(#verb #_c, writes, INDIVIDUAL, 0));					\
}														\
HDL_PROFILED(File_##verb##_c);											\
														\
int PMPI_File_##verb##_shared##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype,		\
				  MPI_Status *status)								\
{														\
	HDL_LOCKED;												\
	return blocking(fh, status, CALL(#verb "_shared" #_c, writes, SHARED, 0));				\
}														\
HDL_PROFILED(File_##verb##_shared##_c);										\
														\
int PMPI_File_i##verb##_at##_c(MPI_File fh, MPI_Offset offset, qualifier void *buf, Count count, MPI_Datatype datatype,	\
			       MPI_Request *request)								\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return nonblocking(fh, request, CALL("i" #verb "_at" #_c, writes, EXPLICIT, offset));			\
}														\
HDL_PROFILED(File_i##verb##_at##_c);										\
														\
int PMPI_File_i##verb##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype, MPI_Request *request)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return nonblocking(fh, request, CALL("i" #verb #_c, writes, INDIVIDUAL, 0));				\
}														\
HDL_PROFILED(File_i##verb##_c);											\
														\
int PMPI_File_i##verb##_shared##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype,	\
				   MPI_Request *request)							\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return nonblocking(fh, request, CALL("i" #verb "_shared" #_c, writes, SHARED, 0));			\
}														\
HDL_PROFILED(File_i##verb##_shared##_c);
INDEPENDENT(read, false, , , int)
INDEPENDENT(read, false, , _c, MPI_Count)
INDEPENDENT(write, true, const, , int)
INDEPENDENT(write, true, const, _c, MPI_Count)

#define COLLECTIVE(verb, writes, qualifier, _c, Count)								\
int PMPI_File_##verb##_at_all##_c(MPI_File fh, MPI_Offset offset, qualifier void *buf, Count count, MPI_Datatype datatype,	\
				  MPI_Status *status)								\
{														\
	HDL_LOCKED;												\
	return blocking_all(fh, status, CALL(#verb "_at_all" #_c, writes, EXPLICIT, offset));			\
}														\
HDL_PROFILED(File_##verb##_at_all##_c);										\
														\
int PMPI_File_##verb##_all##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype, MPI_Status *status)	\
{														\
	HDL_LOCKED;												\
	return blocking_all(fh, status, CALL(#verb "_all" #_c, writes, INDIVIDUAL, 0));				\
}														\
HDL_PROFILED(File_##verb##_all##_c);										\
														\
int PMPI_File_##verb##_ordered##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype,	\
				   MPI_Status *status)								\
{														\
	HDL_LOCKED;												\
	return blocking_all(fh, status, CALL(#verb "_ordered" #_c, writes, ORDERED, 0));			\
}														\
HDL_PROFILED(File_##verb##_ordered##_c);									\
														\
int PMPI_File_i##verb##_at_all##_c(MPI_File fh, MPI_Offset offset, qualifier void *buf, Count count,		\
				   MPI_Datatype datatype, MPI_Request *request)					\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return nonblocking_all(fh, request, CALL("i" #verb "_at_all" #_c, writes, EXPLICIT, offset));		\
}														\
HDL_PROFILED(File_i##verb##_at_all##_c);									\
														\
int PMPI_File_i##verb##_all##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype,		\
				MPI_Request *request)								\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return nonblocking_all(fh, request, CALL("i" #verb "_all" #_c, writes, INDIVIDUAL, 0));			\
}														\
HDL_PROFILED(File_i##verb##_all##_c);										\
														\
int PMPI_File_##verb##_at_all_begin##_c(MPI_File fh, MPI_Offset offset, qualifier void *buf, Count count,	\
					MPI_Datatype datatype)							\
{														\
	HDL_LOCKED;												\
	return split_begin(fh, "MPI_File_" #verb "_at_all_end", CALL(#verb "_at_all_begin" #_c, writes, EXPLICIT, offset));	\
}														\
HDL_PROFILED(File_##verb##_at_all_begin##_c);									\
														\
int PMPI_File_##verb##_all_begin##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype)	\
{														\
	HDL_LOCKED;												\
	return split_begin(fh, "MPI_File_" #verb "_all_end", CALL(#verb "_all_begin" #_c, writes, INDIVIDUAL, 0));	\
}														\
HDL_PROFILED(File_##verb##_all_begin##_c);									\
														\
int PMPI_File_##verb##_ordered_begin##_c(MPI_File fh, qualifier void *buf, Count count, MPI_Datatype datatype)	\
{														\
	HDL_LOCKED;												\
	return split_begin(fh, "MPI_File_" #verb "_ordered_end", CALL(#verb "_ordered_begin" #_c, writes, ORDERED, 0));	\
}														\
HDL_PROFILED(File_##verb##_ordered_begin##_c);

#define SPLIT_END(form, qualifier)										\
int PMPI_File_##form##_end(MPI_File fh, qualifier void *buf, MPI_Status *status)				\
{														\
	HDL_LOCKED;												\
	(void)buf;												\
	return split_end(fh, status, "MPI_File_" #form "_end");							\
}														\
HDL_PROFILED(File_##form##_end);
COLLECTIVE(read, false, , , int)
COLLECTIVE(read, false, , _c, MPI_Count)
COLLECTIVE(write, true, const, , int)
COLLECTIVE(write, true, const, _c, MPI_Count)

SPLIT_END(read_all, )
SPLIT_END(read_at_all, )
SPLIT_END(read_ordered, )
SPLIT_END(write_all, const)
SPLIT_END(write_at_all, const)
SPLIT_END(write_ordered, const)
