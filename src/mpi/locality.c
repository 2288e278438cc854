/* SPDX-License-Identifier: BSD-3-Clause */
/* Locality of this process: see locality.h. */
#include "mpi/locality.h"

#include <hwloc.h>
#include <string.h>

#include "runtime/runtime.h"

static const struct {
	const char *type;
	hwloc_obj_type_t obj;
} levels[HDL_LEVELS] = {
	[HDL_AT_HOST] = { "hwloc://Machine", HWLOC_OBJ_MACHINE },
	[HDL_AT_PACKAGE] = { "hwloc://Package", HWLOC_OBJ_PACKAGE },
	[HDL_AT_DIE] = { "hwloc://Die", HWLOC_OBJ_DIE },
	[HDL_AT_NUMA] = { "hwloc://NUMANode", HWLOC_OBJ_NUMANODE },
	[HDL_AT_L4] = { "hwloc://L4Cache", HWLOC_OBJ_L4CACHE },
	[HDL_AT_L3] = { "hwloc://L3Cache", HWLOC_OBJ_L3CACHE },
	[HDL_AT_L2] = { "hwloc://L2Cache", HWLOC_OBJ_L2CACHE },
	[HDL_AT_L1] = { "hwloc://L1Cache", HWLOC_OBJ_L1CACHE },
	[HDL_AT_CORE] = { "hwloc://Core", HWLOC_OBJ_CORE },
	[HDL_AT_PU] = { "hwloc://PU", HWLOC_OBJ_PU },
};

static hwloc_topology_t read_machine(void)
{
	static hwloc_topology_t machine;
	static bool failed;

	if (machine || failed)
		return machine;
	failed = hwloc_topology_init(&machine) != 0;
	if (!failed && hwloc_topology_load(machine)) {
		hwloc_topology_destroy(machine);
		machine = NULL;
		failed = true;
	}
	if (failed)
		hdl_warn("hwloc cannot read this machine's topology: splitting by hardware and reordering see hosts only");
	return machine;
}

static int instance(hwloc_topology_t machine, hwloc_obj_type_t type, hwloc_const_cpuset_t cpus)
{
	int n = hwloc_get_nbobjs_by_type(machine, type);

	for (int i = 0; i < n; i++)
		if (hwloc_bitmap_isincluded(cpus, hwloc_get_obj_by_type(machine, type, (unsigned)i)->cpuset))
			return i;
	return -1;
}

/* Read at each call, since a program may change its binding. */
void hdl_locality_get(struct hdl_locality *locality)
{
	hwloc_topology_t machine = read_machine();
	hwloc_cpuset_t cpus = hwloc_bitmap_alloc();

	for (int l = 0; l < HDL_LEVELS; l++)
		locality->at[l] = -1;
	if (machine && cpus && !hwloc_get_cpubind(machine, cpus, HWLOC_CPUBIND_PROCESS) && !hwloc_bitmap_iszero(cpus))
		for (int l = HDL_AT_HOST + 1; l < HDL_LEVELS; l++)
			locality->at[l] = instance(machine, levels[l].obj, cpus);
	locality->at[HDL_AT_HOST] = hdl_job.my_host;
	hwloc_bitmap_free(cpus);
}

int hdl_locality_level(const char *type)
{
	for (int l = 0; l < HDL_LEVELS; l++)
		if (!strcmp(type, levels[l].type))
			return l;
	return -1;
}

const char *hdl_locality_type(enum hdl_level level)
{
	hwloc_topology_t machine = read_machine();

	if (level == HDL_AT_HOST || (machine && hwloc_get_nbobjs_by_type(machine, levels[level].obj) > 0))
		return levels[level].type;
	return NULL;
}

int hdl_locality_distance(const struct hdl_locality *a, const struct hdl_locality *b)
{
	int l = 0;

	/* a level that the machine lacks, or within which both have several instances, does not tell them apart */
	while (l < HDL_LEVELS && a->at[l] == b->at[l])
		l++;
	return HDL_LEVELS - l;
}
