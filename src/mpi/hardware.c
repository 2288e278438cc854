/* SPDX-License-Identifier: BSD-3-Clause */
/* The hardware that a process runs on (MPI-5.0 section 9.1.2), as hwloc sees it. */
#include "mpi/info.h"

#include <errno.h>
#include <hwloc.h>
#include <string.h>

/* The keys are what info key mpi_hw_resource_type of MPI_Comm_split_type takes. */
static const struct {
	hwloc_obj_type_t type;
	const char *key;
} types[] = {
	{ HWLOC_OBJ_MACHINE, "hwloc://Machine" }, { HWLOC_OBJ_PACKAGE, "hwloc://Package" }, { HWLOC_OBJ_DIE, "hwloc://Die" },
	{ HWLOC_OBJ_NUMANODE, "hwloc://NUMANode" }, { HWLOC_OBJ_L4CACHE, "hwloc://L4Cache" },
	{ HWLOC_OBJ_L3CACHE, "hwloc://L3Cache" }, { HWLOC_OBJ_L2CACHE, "hwloc://L2Cache" },
	{ HWLOC_OBJ_L1CACHE, "hwloc://L1Cache" }, { HWLOC_OBJ_CORE, "hwloc://Core" }, { HWLOC_OBJ_PU, "hwloc://PU" },
};

/* Whether the process may only run on CPUs of one object of the type. */
static bool restricted(hwloc_topology_t topo, hwloc_obj_type_t type, hwloc_const_cpuset_t bound)
{
	for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topo, type, o));)
		if (o->cpuset && hwloc_bitmap_isincluded(bound, o->cpuset))
			return true;
	return false;
}

/* MPI error class, with the reason set. */
static int describe(struct hdl_info *info)
{
	hwloc_topology_t topo;
	hwloc_bitmap_t bound = hwloc_bitmap_alloc();
	int rc = MPI_ERR_OTHER;

	if (!bound || hwloc_topology_init(&topo)) {
		hwloc_bitmap_free(bound);
		hdl_reason_set("out of memory for hwloc's topology");
		return MPI_ERR_NO_MEM;
	}
	if (hwloc_topology_load(topo)) {
		hdl_reason_set("hwloc cannot read the topology of this host: %s", strerror(errno));
		goto out;
	}
	if (hwloc_get_cpubind(topo, bound, HWLOC_CPUBIND_PROCESS)) {
		hdl_reason_set("hwloc cannot read what CPUs the process is bound to: %s", strerror(errno));
		goto out;
	}
	rc = MPI_SUCCESS;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && !rc; i++)
		if (hwloc_get_nbobjs_by_type(topo, types[i].type) > 0 &&
		    !hdl_info_set(info, types[i].key, restricted(topo, types[i].type, bound) ? "true" : "false"))
			rc = MPI_ERR_NO_MEM;
out:
	hwloc_topology_destroy(topo);
	hwloc_bitmap_free(bound);
	return rc;
}

int PMPI_Get_hw_resource_info(MPI_Info *hw_info)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Get_hw_resource_info";
	struct hdl_info *info;
	int rc;

	hdl_check_active(call);
	if (!hw_info)
		return hdl_null_arg(NULL, call, "hw_info");
	info = hdl_info_new();
	rc = info ? describe(info) : MPI_ERR_NO_MEM;
	if (rc) {
		hdl_info_free(info);
		return hdl_raise_class(NULL, rc, call);
	}
	*hw_info = hdl_info_handle(info);
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_hw_resource_info);
