/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned communication (MPI-5.0 chapter 4). */
#include "mpi/info.h"

static int part_init(const char *call, bool sends, void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int peer,
		     int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
	struct hdl_comm *c = hdl_comm_get(comm);
	const struct hdl_info *given;
	struct hdl_req *req;
	int rc;

	/* a wildcard is no rank and no tag here (section 4.2.2) */
	if (c && !sends && peer == MPI_ANY_SOURCE)
		return hdl_bad_rank(c, MPI_ERR_RANK, call, "dest", peer);
	rc = hdl_check_send(call, comm, c, buf, count, datatype, peer, tag);
	if (rc)
		return rc;
	if (partitions < 1)
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid partitions %d: there is at least one", partitions);
	rc = hdl_info_arg(c, call, info, &given);
	if (rc)
		return rc;
	if (!request)
		return hdl_null_arg(c, call, "request");
	rc = hdl_part_init(sends, buf, partitions, count, hdl_type_get(datatype), peer, tag, c, &req);
	if (rc)
		return hdl_raise_class(c, rc, call);
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

#define FORM(_c, Count)												\
int PMPI_Psend_init##_c(const void *buf, int partitions, Count count, MPI_Datatype datatype, int dest, int tag,	\
			MPI_Comm comm, MPI_Info info, MPI_Request *request)					\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return part_init("MPI_Psend_init" #_c, true, (void *)buf, partitions, count, datatype, dest, tag, comm, info, request);	\
}														\
HDL_PROFILED(Psend_init##_c);											\
														\
int PMPI_Precv_init##_c(void *buf, int partitions, Count count, MPI_Datatype datatype, int dest, int tag,	\
			MPI_Comm comm, MPI_Info info, MPI_Request *request)					\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(request);											\
	return part_init("MPI_Precv_init" #_c, false, buf, partitions, count, datatype, dest, tag, comm, info, request);	\
}														\
HDL_PROFILED(Precv_init##_c);

FORM(, int)
FORM(_c, MPI_Count)
#undef FORM

/* ---- MPI_Pready: no lock, unless there is an error ------------------------------------------------------------- */

static bool is_partition(const struct hdl_part *p, int i)
{
	return i >= 0 && i < hdl_part_count(p);
}

/* Raises the error of a request that is no active partitioned send (or, sends false, no partitioned receive). */
static cold int part_bad_request(const char *call, MPI_Request request, bool sends)
{
	HDL_LOCKED;
	struct hdl_req *req = hdl_req_get(request);
	struct hdl_part *p = req ? hdl_req_part(req) : NULL;

	if (!req)
		return hdl_bad_request(call, -1, request);
	if (!p || hdl_part_sends(p) != sends)
		return hdl_raise(req->comm, MPI_ERR_REQUEST, call, "invalid request: it is no partitioned %s",
				 sends ? "send" : "receive");
	return hdl_raise(req->comm, MPI_ERR_REQUEST, call, "invalid request: it is not started");
}

static cold int part_bad_partition(const char *call, MPI_Request request, const char *arg, int i)
{
	HDL_LOCKED;
	struct hdl_req *req = hdl_req_get(request);

	return hdl_raise(req->comm, MPI_ERR_ARG, call, "invalid %s %d: the request has partitions 0..%d", arg, i,
			 hdl_part_count(hdl_req_part(req)) - 1);
}

static cold int part_twice(const char *call, struct hdl_comm *comm, int i)
{
	HDL_LOCKED;

	return hdl_raise(comm, MPI_ERR_ARG, call, "partition %d is ready already since the request was started", i);
}

/* Returns the operation of an active partitioned send; NULL: the request is no such send. */
static struct hdl_part *part_of_send(MPI_Request request)
{
	struct hdl_req *req = hdl_req_get(request);
	struct hdl_part *p = req ? hdl_req_part(req) : NULL;

	return p && hdl_part_sends(p) && !req->inactive ? p : NULL;
}

/* Marks n valid partitions: those of the list, or first, first + 1, ... */
static int part_ready(const char *call, struct hdl_part *p, MPI_Request request, int first, int n, const int *list)
{
	struct hdl_comm *comm = hdl_req_get(request)->comm;
	int twice = -1;

	if (hdl_part_is_null(p))
		return MPI_SUCCESS;
	hdl_pready_begin(p);
	for (int k = 0; k < n; k++) {
		int i = list ? list[k] : first + k;

		if (unlikely(!hdl_pready(p, i)))
			twice = i;
	}
	hdl_pready_end(p);
	return likely(twice < 0) ? MPI_SUCCESS : part_twice(call, comm, twice);
}

int PMPI_Pready(int partition, MPI_Request request)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Pready";
	struct hdl_part *p = part_of_send(request);

	if (unlikely(!p))
		return part_bad_request(call, request, true);
	if (unlikely(!is_partition(p, partition)))
		return part_bad_partition(call, request, "partition", partition);
	if (hdl_part_is_null(p))
		return MPI_SUCCESS;
	struct hdl_comm *comm = hdl_req_get(request)->comm;
	return likely(hdl_pready_one(p, partition)) ? MPI_SUCCESS : part_twice(call, comm, partition);
}
HDL_PROFILED(Pready);

int PMPI_Pready_range(int partition_low, int partition_high, MPI_Request request)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Pready_range";
	struct hdl_part *p = part_of_send(request);

	if (!p)
		return part_bad_request(call, request, true);
	if (!is_partition(p, partition_low))
		return part_bad_partition(call, request, "partition_low", partition_low);
	if (!is_partition(p, partition_high) || partition_high < partition_low)
		return part_bad_partition(call, request, "partition_high", partition_high);
	return part_ready(call, p, request, partition_low, partition_high - partition_low + 1, NULL);
}
HDL_PROFILED(Pready_range);

static cold int part_bad_list(const char *call, MPI_Request request, int length)
{
	HDL_LOCKED;
	struct hdl_comm *comm = hdl_req_get(request)->comm;

	if (length < 0)
		return hdl_raise(comm, MPI_ERR_ARG, call, "invalid length %d: it must not be negative", length);
	return hdl_null_arg(comm, call, "array_of_partitions");
}

int PMPI_Pready_list(int length, const int array_of_partitions[], MPI_Request request)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Pready_list";
	struct hdl_part *p = part_of_send(request);

	if (!p)
		return part_bad_request(call, request, true);
	if (length < 0 || (length && !array_of_partitions))
		return part_bad_list(call, request, length);
	for (int k = 0; k < length; k++)
		if (!is_partition(p, array_of_partitions[k]))
			return part_bad_partition(call, request, "element of array_of_partitions", array_of_partitions[k]);
	return part_ready(call, p, request, 0, length, array_of_partitions);
}
HDL_PROFILED(Pready_list);

/* ---- MPI_Parrived ---------------------------------------------------------------------------------------------- */

/* The partition is not here: one turn of progress, which may bring it. A receive that has failed brings nothing more. */
static int part_look(const char *call, struct hdl_req *req, struct hdl_part *p, int partition, int *flag)
{
	HDL_LOCKED;

	hdl_call = call;
	if (!req->done)
		hdl_progress_test();
	*flag = hdl_parrived(p, partition);
	if (!*flag && req->done && req->error)
		return hdl_raise(req->comm, req->error, call, "the receive has failed, and partition %d has not arrived",
				 partition);
	return MPI_SUCCESS;
}

int PMPI_Parrived(MPI_Request request, int partition, int *flag)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Parrived";
	struct hdl_req *req = hdl_req_get(request);
	struct hdl_part *p = req ? hdl_req_part(req) : NULL;

	if (!p || hdl_part_sends(p))
		return part_bad_request(call, request, false);
	if (!is_partition(p, partition))
		return part_bad_partition(call, request, "partition", partition);
	if (!flag)
		return hdl_null_arg(req->comm, call, "flag");
	*flag = 1;
	if (req->inactive || hdl_part_is_null(p) || hdl_parrived(p, partition))
		return MPI_SUCCESS;
	return part_look(call, req, p, partition, flag);
}
HDL_PROFILED(Parrived);
