/* SPDX-License-Identifier: BSD-3-Clause */
/* The tool interface (MPI-5.0 chapter 15): texts and enumerations, for the other files. */
#include "mpi/tool.h"

#include <string.h>

int hdl_tool_uses;

void hdl_tool_text(const char *text, char *buf, int *len)
{
	if (!len)
		return;
	if (buf && *len > 0)
		snprintf(buf, (size_t)*len, "%s", text);
	*len = (int)strlen(text) + 1;
}

int hdl_tool_find(const char *name, const char *(*name_of)(unsigned index))
{
	const char *known;

	for (unsigned i = 0; (known = name_of(i)); i++)
		if (!strcmp(known, name))
			return (int)i;
	return -1;
}

unsigned hdl_tool_count(const char *(*name_of)(unsigned index))
{
	unsigned n = 0;

	while (name_of(n))
		n++;
	return n;
}

/* ---- enumerations (section 15.3.6) ----------------------------------------------------------------------------- */

struct hdl_tool_enum {
	const char *name;
	int items;			/* their values are 0 to items - 1 */
	const char *(*item)(int i);
};

static const char *switch_item(int i)
{
	return i ? "yes" : "no";
}

static const char *collective_item(int i)
{
	return hdl_coll_name((enum hdl_coll)i);
}

const struct hdl_tool_enum hdl_tool_switch = { "switch", 2, switch_item };
const struct hdl_tool_enum hdl_tool_collectives = { "collective", HDL_COLL_KINDS, collective_item };

MPI_T_enum hdl_tool_enum_handle(const struct hdl_tool_enum *e)
{
	return (MPI_T_enum)(uintptr_t)e;
}

static const struct hdl_tool_enum *enum_get(MPI_T_enum handle)
{
	const struct hdl_tool_enum *e = (const struct hdl_tool_enum *)(const void *)handle;

	return e == &hdl_tool_switch || e == &hdl_tool_collectives ? e : NULL;
}

int PMPI_T_enum_get_info(MPI_T_enum enumtype, int *num, char *name, int *name_len)
{
	HDL_TOOL;
	const struct hdl_tool_enum *e = enum_get(enumtype);

	if (!e)
		return MPI_T_ERR_INVALID_HANDLE;
	hdl_tool_int(num, e->items);
	hdl_tool_text(e->name, name, name_len);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_enum_get_info);

int PMPI_T_enum_get_item(MPI_T_enum enumtype, int indx, int *value, char *name, int *name_len)
{
	HDL_TOOL;
	const struct hdl_tool_enum *e = enum_get(enumtype);

	if (!e)
		return MPI_T_ERR_INVALID_HANDLE;
	if (indx < 0 || indx >= e->items)
		return MPI_T_ERR_INVALID_ITEM;
	hdl_tool_int(value, indx);
	hdl_tool_text(e->item(indx), name, name_len);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_enum_get_item);
