/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_split_type (MPI-5.0 section 7.4.2): by host, and by hardware instances to which processes are bound (locality.h). */
#include "mpi/comm_info.h"
#include "mpi/locality.h"

#include <stdlib.h>
#include <string.h>

/* The entry of a rank in the exchange. */
struct wish {
	int32_t takes_part;
	struct hdl_locality locality;
};

static bool same_instance(const struct wish *a, const struct wish *b, int level)
{
	return a->takes_part && b->takes_part && a->locality.at[HDL_AT_HOST] == b->locality.at[HDL_AT_HOST] &&
	       a->locality.at[level] >= 0 && a->locality.at[level] == b->locality.at[level];
}

/* Of the ranks that share the caller's instance at this level: returns their number, and a color that other instances do not
 * have. */
static int instance_of(const struct wish *wish, int me, int size, int level, int *color)
{
	int n = 0;

	for (int r = size; r--;)
		if (same_instance(&wish[r], &wish[me], level)) {
			*color = level * size + r;
			n++;
		}
	return n;
}

/* Returns the first level at which the caller's instance does not contain all ranks. *type names it. */
static int unguided(const struct wish *wish, int me, int size, const char **type)
{
	int color = MPI_UNDEFINED;

	for (int l = 0; l < HDL_LEVELS; l++) {
		int n = instance_of(wish, me, size, l, &color);

		if (n && n < size) {
			*type = hdl_locality_type(l);
			return color;
		}
	}
	return MPI_UNDEFINED;
}

/* Returns the level of the hint; -1: none that is known. */
static int wanted_level(const struct hdl_info *info)
{
	const char *value = hdl_info_value(info, "mpi_hw_resource_type");

	if (!value)
		return -1;
	return strcmp(value, "mpi_shared_memory") ? hdl_locality_level(value) : HDL_AT_HOST;
}

/* Arguments of a rank, and its results. */
struct part {
	int split_type;
	const struct hdl_info *info;
	int color;
	const char *hw_type;		/* without a hint: the level that was chosen */
};

/* Collective; ranks may pass different hints. */
static int by_hardware(struct hdl_comm *c, struct part *part)
{
	bool guided = part->split_type != MPI_COMM_TYPE_HW_UNGUIDED;
	int level = guided ? wanted_level(part->info) : 0, rc;
	struct wish *wish = calloc((size_t)c->size, sizeof(*wish));

	part->color = MPI_UNDEFINED;
	if (!wish)
		hdl_rt_abort(MPI_ERR_NO_MEM, "out of memory for MPI_Comm_split_type");
	wish[c->rank].takes_part = part->split_type != MPI_UNDEFINED && level >= 0;
	hdl_locality_get(&wish[c->rank].locality);
	rc = hdl_comm_exchange(c, wish, sizeof(*wish));
	if (!rc && wish[c->rank].takes_part) {
		if (!guided)
			part->color = unguided(wish, c->rank, c->size, &part->hw_type);
		else
			instance_of(wish, c->rank, c->size, level, &part->color);
	}
	free(wish);
	return rc;
}

/* A process set's name. All ranks pass the same (MPI requires it), so all take this path. */
static bool by_process_set(const struct hdl_comm *c, const struct hdl_info *info, int *color)
{
	const char *name = hdl_info_value(info, "mpi_pset_name");

	if (!name)
		return false;
	*color = !strcmp(name, "mpi://WORLD") ? 0 : !strcmp(name, "mpi://SELF") ? c->rank : MPI_UNDEFINED;
	return true;
}

/* Kinds other than by host need the localities of all ranks. A rank that passes MPI_UNDEFINED does not know which kind the
 * other ranks pass, so the first exchange also says whether a rank has one. */
static int split_type_choose(struct hdl_comm *c, struct part *part)
{
	int *kind = calloc((size_t)c->size, sizeof(*kind)), any = MPI_UNDEFINED, rc;

	if (!kind)
		hdl_rt_abort(MPI_ERR_NO_MEM, "out of memory for MPI_Comm_split_type");
	kind[c->rank] = part->split_type;
	if (part->split_type == MPI_COMM_TYPE_RESOURCE_GUIDED && by_process_set(c, part->info, &part->color))
		kind[c->rank] = MPI_COMM_TYPE_SHARED;	/* there is no hardware to look at */
	rc = hdl_comm_exchange(c, kind, sizeof(*kind));
	for (int r = 0; !rc && r < c->size; r++)
		if (kind[r] != MPI_UNDEFINED)
			any = kind[r];
	if (!rc && any != MPI_UNDEFINED && any != MPI_COMM_TYPE_SHARED)
		rc = by_hardware(c, part);
	else if (part->split_type == MPI_COMM_TYPE_SHARED)
		part->color = hdl_job.my_host;
	free(kind);
	return rc;
}

/* On an intercommunicator: splits both groups together, so that parts of the two that belong together have the same color. */
static int choose_of_both(struct hdl_comm *c, struct part *part)
{
	struct hdl_comm *both;
	int rc = hdl_intercomm_merge(c, false, &both);

	if (rc)
		return rc;
	rc = split_type_choose(both, part);
	hdl_comm_close(both);
	return rc;
}

int PMPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	static const char call[] = "MPI_Comm_split_type";
	struct hdl_comm *c = hdl_comm_get(comm), *made = NULL;
	struct part part = { .split_type = split_type, .color = MPI_UNDEFINED };
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	if (split_type != MPI_COMM_TYPE_SHARED && split_type != MPI_COMM_TYPE_HW_GUIDED && split_type != MPI_UNDEFINED &&
	    split_type != MPI_COMM_TYPE_HW_UNGUIDED && split_type != MPI_COMM_TYPE_RESOURCE_GUIDED)
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid split_type %d: it is neither an MPI_COMM_TYPE_ nor MPI_UNDEFINED",
				 split_type);
	rc = hdl_info_arg(c, call, info, &part.info);
	if (rc)
		return rc;
	if (!newcomm)
		return hdl_null_arg(c, call, "newcomm");
	hdl_call = call;
	rc = hdl_comm_is_inter(c) ? choose_of_both(c, &part) : split_type_choose(c, &part);
	if (!rc)
		rc = hdl_comm_split(c, part.color, key, &made);
	if (rc)
		return hdl_raise_class(c, rc, call);
	if (made)
		hdl_comm_set_hints(made, hdl_comm_hints_of(part.info, 0));
	/* a split without a hint returns its level in info. An info object that cannot be changed, or a lack of memory, does
	 * not make the call fail */
	if (made && part.hw_type && info != MPI_INFO_ENV && info != MPI_INFO_NULL)
		hdl_info_set((struct hdl_info *)info, "mpi_hw_resource_type", part.hw_type);
	*newcomm = made ? (MPI_Comm)made : MPI_COMM_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_split_type);
