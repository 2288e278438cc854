/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Info objects (MPI-5.0 chapter 10), for functions that take or return hints. Pairs of strings, in the order in which keys
 * were first set.
 */
#ifndef HDL_MPI_INFO_H
#define HDL_MPI_INFO_H

#include "mpi/mpi_internal.h"

struct hdl_info;
extern struct hdl_pool hdl_infos;

/* Value of the key mpi_memory_alloc_kinds: the kinds that every process supports (MPI-5.0 section 11.4.3). */
#define HDL_MEMORY_KINDS	"system,mpi"

/* Returns NULL without memory. */
struct hdl_info *hdl_info_new(void);
struct hdl_info *hdl_info_dup(const struct hdl_info *info);
/* Copies key and value. Must: both are within the standard's limits. Returns false without memory; nothing has changed then. */
bool hdl_info_set(struct hdl_info *info, const char *key, const char *value);
void hdl_info_free(struct hdl_info *info);

static inline MPI_Info hdl_info_handle(struct hdl_info *info)
{
	return (MPI_Info)info;
}

/* For an argument whose hints are read. *info is NULL for MPI_INFO_NULL. Raises MPI_ERR_INFO on comm for an invalid handle. */
int hdl_info_arg(struct hdl_comm *comm, const char *call, MPI_Info handle, const struct hdl_info **info);
/* Reads the key mpi_minimum_memory_alignment (section 9.2). *align: bytes, a power of two; 1 without the key. info may be NULL.
 * Returns MPI_SUCCESS or MPI_ERR_INFO_VALUE, with hdl_reason_set. */
int hdl_info_alignment(const struct hdl_info *info, long *align);
/* The same without an error; false: the handle is invalid. */
bool hdl_info_find(MPI_Info handle, const struct hdl_info **info);
/* Returns the value, which the object owns; NULL: no such key, or no object. */
const char *hdl_info_value(const struct hdl_info *info, const char *key);
/* Returns pair number n; false: there are no more. */
bool hdl_info_pair(const struct hdl_info *info, int n, const char **key, const char **value);

#endif
