/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment (MPI-5.0 chapter 9): versions, processor, memory, clock. */
#include "mpi/info.h"
#include "mpi/locality.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

extern const char hdl_version[];

int PMPI_Get_version(int *version, int *subversion)
{
	HDL_NO_LOCK;
	if (!version || !subversion)
		return hdl_null_arg(NULL, "MPI_Get_version", version ? "subversion" : "version");
	*version = MPI_VERSION;
	*subversion = MPI_SUBVERSION;
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_version);

int PMPI_Get_library_version(char *version, int *resultlen)
{
	HDL_NO_LOCK;
	if (!version || !resultlen)
		return hdl_null_arg(NULL, "MPI_Get_library_version", version ? "resultlen" : "version");
	*resultlen = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, 
			      "%s: MPI %d.%d in parts, over RDMA verbs; ABI %d.%d",
			      hdl_version, MPI_VERSION, MPI_SUBVERSION, MPI_ABI_VERSION, MPI_ABI_SUBVERSION);
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_library_version);

int PMPI_Get_processor_name(char *name, int *resultlen)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Get_processor_name";

	hdl_check_active(call);
	if (!name)
		return hdl_null_arg(NULL, call, "name");
	if (!resultlen)
		return hdl_null_arg(NULL, call, "resultlen");
	snprintf(name, MPI_MAX_PROCESSOR_NAME, "%s", hdl_job.hostname);
	*resultlen = (int)__builtin_strlen(name);
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_processor_name);

/* Keys are the resource types that MPI_Comm_split_type accepts and of which the machine has any. "true": the process is bound
 * within one instance. */
int PMPI_Get_hw_resource_info(MPI_Info *hw_info)
{
	HDL_LOCKED;
	HDL_GIVES(hw_info);
	static const char call[] = "MPI_Get_hw_resource_info";
	struct hdl_locality locality;
	struct hdl_info *info;
	bool ok;

	hdl_check_active(call);
	if (!hw_info)
		return hdl_null_arg(NULL, call, "hw_info");
	hdl_locality_get(&locality);
	info = hdl_info_new();
	ok = info != NULL;
	for (int l = 0; l < HDL_LEVELS && ok; l++) {
		const char *type = hdl_locality_type(l);

		ok = !type || hdl_info_set(info, type, locality.at[l] >= 0 ? "true" : "false");
	}
	if (!ok) {
		hdl_info_free(info);
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
	}
	*hw_info = hdl_info_handle(info);
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_hw_resource_info);

static inline double seconds_of(const struct timespec *ts)
{
	return (double)ts->tv_sec + (double)ts->tv_nsec * 1e-9;
}

double PMPI_Wtime(void)
{
	HDL_NO_LOCK;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return seconds_of(&ts);
}
HDL_PROFILED(Wtime);

double PMPI_Wtick(void)
{
	HDL_NO_LOCK;
	struct timespec ts;

	clock_getres(CLOCK_MONOTONIC, &ts);
	return seconds_of(&ts);
}
HDL_PROFILED(Wtick);

/* Peers of this host load and store the memory in place when it is part of a window. baseptr is the address of a pointer. */
int PMPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Alloc_mem";
	const struct hdl_info *hints;
	long align;
	void *p;
	int rc;

	hdl_check_active(call);
	if (size < 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid size %lld: it must not be negative",
				 (long long)size);
	rc = hdl_info_arg(NULL, call, info, &hints);
	if (rc)
		return rc;
	rc = hdl_info_alignment(hints, &align);
	if (rc)
		return hdl_raise_class(NULL, rc, call);
	if (!baseptr)
		return hdl_null_arg(NULL, call, "baseptr");
	p = hdl_tp_alloc_shared(hdl_mpi_tp, size ? (size_t)size : 1);
	if (!p)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "%lld bytes cannot be had", (long long)size);
	if ((uintptr_t)p & (uintptr_t)(align - 1)) {
		hdl_tp_free(hdl_mpi_tp, p);
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call,
				 "memory aligned to %ld bytes (mpi_minimum_memory_alignment) cannot be had: "
				 "only that of a page, %ld, is certain",
				 align, sysconf(_SC_PAGESIZE));
	}
	*(void **)baseptr = p;
	return MPI_SUCCESS;
}
HDL_PROFILED(Alloc_mem);

int PMPI_Free_mem(void *base)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Free_mem";

	hdl_check_active(call);
	if (!hdl_tp_free(hdl_mpi_tp, base))
		return hdl_raise(NULL, MPI_ERR_BASE, call, "invalid base %p: MPI_Alloc_mem did not return it, or it was freed",
				 base);
	return MPI_SUCCESS;
}
HDL_PROFILED(Free_mem);

/* Tools define their own (section 15.2.4); the library has nothing to control. */
int PMPI_Pcontrol(const int level, ...)
{
	HDL_NO_LOCK;
	(void)level;
	return MPI_SUCCESS;
}
HDL_PROFILED(Pcontrol);
