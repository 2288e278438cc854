/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where this process may run, as hwloc sees the machine: for splitting communicators by hardware (MPI-5.0 section 7.4.2) and
 * for placing virtual topologies (8.1).
 */
#ifndef HDL_MPI_LOCALITY_H
#define HDL_MPI_LOCALITY_H

#include <stdbool.h>
#include <stdint.h>

/* From the outside in. */
enum hdl_level { HDL_AT_HOST, HDL_AT_PACKAGE, HDL_AT_DIE, HDL_AT_NUMA, HDL_AT_L4, HDL_AT_L3, HDL_AT_L2, HDL_AT_L1,
		 HDL_AT_CORE, HDL_AT_PU, HDL_LEVELS };

/* Number of the one instance, within its host, that holds all CPUs that the process is bound to; -1: they are of several, or
 * the machine has none. */
struct hdl_locality {
	int32_t at[HDL_LEVELS];
};

/* All -1 but the host where hwloc cannot tell. The machine is read when it is first asked for, which takes some milliseconds. */
void hdl_locality_get(struct hdl_locality *locality);
/* Of a resource type, "hwloc://Core"; -1: unknown. */
int hdl_locality_level(const char *type);
/* The other way round; NULL: this machine has none of the kind. */
const char *hdl_locality_type(enum hdl_level level);
/* How many levels are inside the outermost one at which the two differ, it included; 0: the same place. */
int hdl_locality_distance(const struct hdl_locality *a, const struct hdl_locality *b);

#endif
