/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locality: the CPUs to which this process is bound, as hwloc sees the machine. For MPI_Comm_split_type by hardware (MPI-5.0
 * section 7.4.2) and for the reordering of virtual topologies (section 8.1).
 */
#ifndef HDL_MPI_LOCALITY_H
#define HDL_MPI_LOCALITY_H

#include <stdbool.h>
#include <stdint.h>

/* From the largest to the smallest. */
enum hdl_level { HDL_AT_HOST, HDL_AT_PACKAGE, HDL_AT_DIE, HDL_AT_NUMA, HDL_AT_L4, HDL_AT_L3, HDL_AT_L2, HDL_AT_L1,
		 HDL_AT_CORE, HDL_AT_PU, HDL_LEVELS };

/* at[level]: the number, within its host, of the one instance that contains all CPUs to which the process is bound; -1: they
 * are in several instances, or the machine has none. */
struct hdl_locality {
	int32_t at[HDL_LEVELS];
};

/* Reads the process's current binding. If hwloc fails, all levels but the host are -1. The first call reads the machine, which
 * takes some milliseconds. */
void hdl_locality_get(struct hdl_locality *locality);
/* Returns the level of a resource type such as "hwloc://Core"; -1: unknown. */
int hdl_locality_level(const char *type);
/* Returns the type of a level; NULL: this machine has none. */
const char *hdl_locality_type(enum hdl_level level);
/* Returns the number of levels from the first one at which the two differ to the smallest; 0: same locality. */
int hdl_locality_distance(const struct hdl_locality *a, const struct hdl_locality *b);

#endif
