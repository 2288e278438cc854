/* SPDX-License-Identifier: BSD-3-Clause */
/* The tool interface (MPI-5.0 chapter 15): initialization, categories. */
#include "mpi/tool.h"
#include "runtime/events.h"

#include <string.h>

/* Levels beyond MPI_THREAD_SERIALIZED need the library's lock, which is there if MPI_Init_thread has granted
 * MPI_THREAD_MULTIPLE. */
int PMPI_T_init_thread(int required, int *provided)
{
	HDL_LOCKED;
	if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED && required != MPI_THREAD_SERIALIZED &&
	    required != MPI_THREAD_MULTIPLE)
		return MPI_T_ERR_INVALID;
	if (hdl_vars_load())
		return MPI_T_ERR_CANNOT_INIT;
	hdl_tool_uses++;
	hdl_tool_int(provided, required == MPI_THREAD_MULTIPLE && !hdl_threads ? MPI_THREAD_SERIALIZED : required);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_init_thread);

int PMPI_T_finalize(void)
{
	HDL_TOOL;
	if (--hdl_tool_uses)
		return MPI_SUCCESS;
	hdl_tool_cvar_fini();
	hdl_tool_pvar_fini();
	hdl_tool_event_fini();
	return MPI_SUCCESS;
}
HDL_PROFILED(T_finalize);

/* ---- categories (section 15.3.9): no category lies in another one ---------------------------------------------- */

static const struct {
	const char *name, *text;
} categories[HDL_CATS] = {
	[HDL_CAT_MPI] = { "mpi", "The interface: checks of arguments, error handlers, reports at MPI_Finalize" },
	[HDL_CAT_P2P] = { "p2p", "Matching: unexpected messages, back-pressure, failed processes" },
	[HDL_CAT_COLLECTIVES] = { "collectives", "Collectives: executors, algorithms, queues" },
	[HDL_CAT_TRANSPORT] = { "transport",
				"Messages between processes: lanes, queues, rendezvous, registrations, remote memory" },
	[HDL_CAT_RUNTIME] = { "runtime", "The job: start, diagnostics, waiting" },
	[HDL_CAT_SHCA] = { "shca", "The software HCA" },
};

static const char *category_name(unsigned i)
{
	return i < HDL_CATS ? categories[i].name : NULL;
}

/* Writes the indices whose category is cat to indices[len], as far as there is room. Returns their number. */
static int category_members(int cat, unsigned n, enum hdl_tool_category (*of)(unsigned), int len, int indices[])
{
	int found = 0;

	for (unsigned i = 0; i < n; i++) {
		if (of(i) != (enum hdl_tool_category)cat)
			continue;
		if (indices && found < len)
			indices[found] = (int)i;
		found++;
	}
	return found;
}

static bool is_category(int cat)
{
	return cat >= 0 && cat < HDL_CATS;
}

int PMPI_T_category_get_num(int *num_cat)
{
	HDL_TOOL;
	if (!num_cat)
		return MPI_T_ERR_INVALID;
	*num_cat = HDL_CATS;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_category_get_num);

int PMPI_T_category_get_info(int cat_index, char *name, int *name_len, char *desc, int *desc_len, int *num_cvars, int *num_pvars,
			     int *num_categories)
{
	HDL_TOOL;
	if (!is_category(cat_index))
		return MPI_T_ERR_INVALID_INDEX;
	hdl_tool_text(categories[cat_index].name, name, name_len);
	hdl_tool_text(categories[cat_index].text, desc, desc_len);
	hdl_tool_int(num_cvars, category_members(cat_index, hdl_tool_cvars(), hdl_tool_cvar_category, 0, NULL));
	hdl_tool_int(num_pvars, category_members(cat_index, hdl_tool_pvars(), hdl_tool_pvar_category, 0, NULL));
	hdl_tool_int(num_categories, 0);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_category_get_info);

int PMPI_T_category_get_num_events(int cat_index, int *num_events)
{
	HDL_TOOL;
	if (!is_category(cat_index))
		return MPI_T_ERR_INVALID_INDEX;
	hdl_tool_int(num_events, category_members(cat_index, HDL_EVENTS, hdl_tool_event_category, 0, NULL));
	return MPI_SUCCESS;
}
HDL_PROFILED(T_category_get_num_events);

int PMPI_T_category_get_index(const char *name, int *cat_index)
{
	HDL_TOOL;
	int i;

	if (!name || !cat_index)
		return MPI_T_ERR_INVALID;
	i = hdl_tool_find(name, category_name);
	if (i < 0)
		return MPI_T_ERR_INVALID_NAME;
	*cat_index = i;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_category_get_index);

static int category_list(int cat, unsigned n, enum hdl_tool_category (*of)(unsigned), int len, int indices[])
{
	if (!is_category(cat))
		return MPI_T_ERR_INVALID_INDEX;
	if (len < 0 || (len && !indices))
		return MPI_T_ERR_INVALID;
	category_members(cat, n, of, len, indices);
	return MPI_SUCCESS;
}

int PMPI_T_category_get_cvars(int cat_index, int len, int indices[])
{
	HDL_TOOL;
	return category_list(cat_index, hdl_tool_cvars(), hdl_tool_cvar_category, len, indices);
}
HDL_PROFILED(T_category_get_cvars);

int PMPI_T_category_get_pvars(int cat_index, int len, int indices[])
{
	HDL_TOOL;
	return category_list(cat_index, hdl_tool_pvars(), hdl_tool_pvar_category, len, indices);
}
HDL_PROFILED(T_category_get_pvars);

int PMPI_T_category_get_events(int cat_index, int len, int indices[])
{
	HDL_TOOL;
	return category_list(cat_index, HDL_EVENTS, hdl_tool_event_category, len, indices);
}
HDL_PROFILED(T_category_get_events);

int PMPI_T_category_get_categories(int cat_index, int len, int indices[])
{
	HDL_TOOL;
	return category_list(cat_index, 0, NULL, len, indices);
}
HDL_PROFILED(T_category_get_categories);

/* Categories and their members never change. */
int PMPI_T_category_changed(int *update_number)
{
	HDL_TOOL;
	if (!update_number)
		return MPI_T_ERR_INVALID;
	*update_number = 0;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_category_changed);
