/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment (MPI-5.0 chapter 9): versions, processor, memory, clock. */
#include "mpi/mpi_internal.h"

#include <time.h>

extern const char hdl_version[];

int PMPI_Get_version(int *version, int *subversion)
{
	HDL_NO_LOCK;
	if (!version || !subversion)
		return MPI_ERR_ARG;
	*version = MPI_VERSION;
	*subversion = MPI_SUBVERSION;
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_version);

int PMPI_Get_library_version(char *version, int *resultlen)
{
	HDL_NO_LOCK;
	if (!version || !resultlen)
		return MPI_ERR_ARG;
	*resultlen = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, 
			      "%s: MPI %d.%d in parts, over RDMA verbs; ABI %d.%d",
			      hdl_version, MPI_VERSION, MPI_SUBVERSION, MPI_ABI_VERSION, MPI_ABI_SUBVERSION);
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_library_version);

int PMPI_Abi_get_version(int *abi_major, int *abi_minor)
{
	HDL_NO_LOCK;
	if (!abi_major || !abi_minor)
		return MPI_ERR_ARG;
	*abi_major = MPI_ABI_VERSION;
	*abi_minor = MPI_ABI_SUBVERSION;
	return MPI_SUCCESS;
}
HDL_PROFILED(Abi_get_version);

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

double PMPI_Wtime(void)
{
	HDL_NO_LOCK;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}
HDL_PROFILED(Wtime);

double PMPI_Wtick(void)
{
	HDL_NO_LOCK;
	struct timespec ts;

	clock_getres(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}
HDL_PROFILED(Wtick);

/* Memory that peers of this host reach without a system call. baseptr is the address of a pointer. */
int PMPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Alloc_mem";
	void *p;

	hdl_check_active(call);
	(void)info;		/* hints; none is known */
	if (size < 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid size %lld: it must not be negative",
				 (long long)size);
	if (!baseptr)
		return hdl_null_arg(NULL, call, "baseptr");
	p = hdl_tp_alloc(size ? (size_t)size : 1);
	if (!p)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "%lld bytes cannot be had", (long long)size);
	*(void **)baseptr = p;
	return MPI_SUCCESS;
}
HDL_PROFILED(Alloc_mem);

int PMPI_Free_mem(void *base)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Free_mem";

	hdl_check_active(call);
	if (!hdl_tp_free(base))
		return hdl_raise(NULL, MPI_ERR_BASE, call, "invalid base %p: MPI_Alloc_mem did not return it, or it was freed",
				 base);
	return MPI_SUCCESS;
}
HDL_PROFILED(Free_mem);

/* For tools, which define their own (section 15.2.4): there is nothing to control here. */
int PMPI_Pcontrol(const int level, ...)
{
	HDL_NO_LOCK;
	(void)level;
	return MPI_SUCCESS;
}
HDL_PROFILED(Pcontrol);
