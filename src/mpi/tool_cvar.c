/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control variables (MPI-5.0 section 15.3.6): the configuration variables.
 *
 *     type in vars.def     MPI datatype             value
 *     BOOL                 MPI_INT                  0 or 1, with the enumeration "switch"
 *     INT                  MPI_INT
 *     SIZE                 MPI_UNSIGNED_LONG        bytes
 *     TIME_US              MPI_UNSIGNED_LONG_LONG   microseconds
 *     STRING, LIST         MPI_CHAR                 a text with its null character, of at most CVAR_TEXT
 *
 * Layers read their variables in MPI_Init; a few variables are read at each use and may be written at any time. libshca reads
 * its own variables from the environment: they are texts here, for reading only.
 */
#include "mpi/tool.h"

#include <errno.h>
#include <string.h>

#define CVAR_TEXT 512

struct MPI_ABI_T_cvar_handle {
	struct hdl_object obj;
	unsigned index;
};

static struct hdl_pool cvars = HDL_POOL(struct MPI_ABI_T_cvar_handle, 16);

/* Variables that are read at each use. */
static bool is_any_time(const char *name)
{
	static const char *const names[] = {"HEDDLE_DEBUG", "HEDDLE_REPORT_TRANSPORTS", "HEDDLE_REPORT_COLLECTIVES",
					    "HEDDLE_FINALIZE_WARN", "HEDDLE_INIT_TIMEOUT"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

static const char *cvar_name(unsigned i)
{
	struct hdl_var v;

	return hdl_var_at(i, &v) ? v.name : NULL;
}

unsigned hdl_tool_cvars(void)
{
	return hdl_tool_count(cvar_name);
}

/* Returns the first row whose text is a prefix of the name. */
enum hdl_tool_category hdl_tool_cvar_category(unsigned i)
{
	static const struct {
		const char *prefix;
		enum hdl_tool_category category;
	} rows[] = {
		{ "SHCA_", HDL_CAT_SHCA },
		{ "HEDDLE_COLL_", HDL_CAT_COLLECTIVES }, { "HEDDLE_REPORT_COLLECTIVES", HDL_CAT_COLLECTIVES },
		{ "HEDDLE_REDUCE_ORDER", HDL_CAT_COLLECTIVES },
		{ "HEDDLE_CHECK", HDL_CAT_MPI }, { "HEDDLE_INITIAL_ERRHANDLER", HDL_CAT_MPI },
		{ "HEDDLE_REPORT_LEAKS", HDL_CAT_MPI }, { "HEDDLE_UNEXPECTED_", HDL_CAT_P2P },
		{ "HEDDLE_FINALIZE_WARN", HDL_CAT_P2P }, { "HEDDLE_CONNECT_TIMEOUT", HDL_CAT_P2P },
		{ "HEDDLE_DEBUG", HDL_CAT_RUNTIME }, { "HEDDLE_INIT_TIMEOUT", HDL_CAT_RUNTIME },
		{ "HEDDLE_BACKTRACE", HDL_CAT_RUNTIME }, { "HEDDLE_REPORT_MEMORY", HDL_CAT_RUNTIME },
		{ "HEDDLE_REPORT_HANG", HDL_CAT_RUNTIME },
	};
	const char *name = cvar_name(i);

	for (size_t k = 0; k < ARRAY_SIZE(rows); k++)
		if (!strncmp(name, rows[k].prefix, strlen(rows[k].prefix)))
			return rows[k].category;
	return HDL_CAT_TRANSPORT;
}

void hdl_tool_cvar_fini(void)
{
	hdl_pool_fini(&cvars);
}

int PMPI_T_cvar_get_num(int *num_cvar)
{
	HDL_TOOL;
	if (!num_cvar)
		return MPI_T_ERR_INVALID;
	*num_cvar = (int)hdl_tool_cvars();
	return MPI_SUCCESS;
}
HDL_PROFILED(T_cvar_get_num);

int PMPI_T_cvar_get_index(const char *name, int *cvar_index)
{
	HDL_TOOL;
	int i;

	if (!name || !cvar_index)
		return MPI_T_ERR_INVALID;
	i = hdl_tool_find(name, cvar_name);
	if (i < 0)
		return MPI_T_ERR_INVALID_NAME;
	*cvar_index = i;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_cvar_get_index);

static MPI_Datatype cvar_type(const struct hdl_var *v)
{
	switch (v->type) {
	case HDL_VAR_BOOL: case HDL_VAR_INT: return MPI_INT;
	case HDL_VAR_SIZE: return MPI_UNSIGNED_LONG;
	case HDL_VAR_TIME_US: return MPI_UNSIGNED_LONG_LONG;
	default: return MPI_CHAR;
	}
}

int PMPI_T_cvar_get_info(int cvar_index, char *name, int *name_len, int *verbosity, MPI_Datatype *datatype, MPI_T_enum *enumtype,
			 char *desc, int *desc_len, int *bind, int *scope)
{
	HDL_TOOL;
	struct hdl_var v;
	char text[1024];

	if (cvar_index < 0 || !hdl_var_at((unsigned)cvar_index, &v))
		return MPI_T_ERR_INVALID_INDEX;
	hdl_tool_text(v.name, name, name_len);
	hdl_tool_int(verbosity, v.of_shca ? MPI_T_VERBOSITY_TUNER_DETAIL :
		     hdl_tool_cvar_category((unsigned)cvar_index) == HDL_CAT_RUNTIME ? MPI_T_VERBOSITY_USER_BASIC :
		     MPI_T_VERBOSITY_TUNER_BASIC);
	if (datatype)
		*datatype = cvar_type(&v);
	if (enumtype)
		*enumtype = v.type == HDL_VAR_BOOL ? hdl_tool_enum_handle(&hdl_tool_switch) : MPI_T_ENUM_NULL;
	if (*v.unit)
		snprintf(text, sizeof(text), "%s (%s)", v.text, v.unit);
	else
		snprintf(text, sizeof(text), "%s", v.text);
	hdl_tool_text(text, desc, desc_len);
	hdl_tool_int(bind, MPI_T_BIND_NO_OBJECT);
	hdl_tool_int(scope, v.of_shca ? MPI_T_SCOPE_READONLY : v.alike ? MPI_T_SCOPE_ALL_EQ : MPI_T_SCOPE_LOCAL);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_cvar_get_info);

int PMPI_T_cvar_handle_alloc(int cvar_index, void *obj_handle, MPI_T_cvar_handle *handle, int *count)
{
	HDL_TOOL;
	struct hdl_var v;
	MPI_T_cvar_handle h;

	(void)obj_handle;
	if (!handle)
		return MPI_T_ERR_INVALID;
	*handle = MPI_T_CVAR_HANDLE_NULL;
	if (cvar_index < 0 || !hdl_var_at((unsigned)cvar_index, &v))
		return MPI_T_ERR_INVALID_INDEX;
	h = hdl_pool_take(&cvars);
	if (!h)
		return MPI_T_ERR_OUT_OF_HANDLES;
	h->index = (unsigned)cvar_index;
	h->obj = (struct hdl_object){ HDL_MAGIC_CVAR, 1 };
	*handle = h;
	hdl_tool_int(count, cvar_type(&v) == MPI_CHAR ? CVAR_TEXT : 1);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_cvar_handle_alloc);

static struct MPI_ABI_T_cvar_handle *cvar_get(MPI_T_cvar_handle handle)
{
	return hdl_pool_find(&cvars, handle, HDL_MAGIC_CVAR, sizeof(struct MPI_ABI_T_cvar_handle));
}

int PMPI_T_cvar_handle_free(MPI_T_cvar_handle *handle)
{
	HDL_TOOL;
	struct MPI_ABI_T_cvar_handle *h = handle ? cvar_get(*handle) : NULL;

	if (!h)
		return MPI_T_ERR_INVALID_HANDLE;
	hdl_pool_put(&cvars, h);
	*handle = MPI_T_CVAR_HANDLE_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_cvar_handle_free);

int PMPI_T_cvar_read(MPI_T_cvar_handle handle, void *buf)
{
	HDL_TOOL;
	struct MPI_ABI_T_cvar_handle *h = cvar_get(handle);
	struct hdl_var v;

	if (!h)
		return MPI_T_ERR_INVALID_HANDLE;
	if (!buf || !hdl_var_at(h->index, &v))
		return MPI_T_ERR_INVALID;
	switch (v.type) {
	case HDL_VAR_BOOL:
		*(int *)buf = v.value.on;
		break;
	case HDL_VAR_INT:
		*(int *)buf = v.value.number;
		break;
	case HDL_VAR_SIZE:
		*(unsigned long *)buf = v.value.bytes;
		break;
	case HDL_VAR_TIME_US:
		*(unsigned long long *)buf = v.value.us;
		break;
	case HDL_VAR_STRING:
	case HDL_VAR_LIST:
		snprintf(buf, CVAR_TEXT, "%s", v.value.text);
		break;
	}
	return MPI_SUCCESS;
}
HDL_PROFILED(T_cvar_read);

/* Writes the value at buf to text, in the form of an environment variable. Returns false if the value is not of the variable's
 * type. */
static bool cvar_text(const struct hdl_var *v, const void *buf, char text[CVAR_TEXT])
{
	switch (v->type) {
	case HDL_VAR_BOOL:
	case HDL_VAR_INT:
		snprintf(text, CVAR_TEXT, "%d", *(const int *)buf);
		return true;
	case HDL_VAR_SIZE:
		snprintf(text, CVAR_TEXT, "%lu", *(const unsigned long *)buf);
		return true;
	case HDL_VAR_TIME_US:
		snprintf(text, CVAR_TEXT, "%lluus", *(const unsigned long long *)buf);
		return true;
	default:
		return (size_t)snprintf(text, CVAR_TEXT, "%.*s", CVAR_TEXT - 1, (const char *)buf) < CVAR_TEXT;
	}
}

int PMPI_T_cvar_write(MPI_T_cvar_handle handle, const void *buf)
{
	HDL_TOOL;
	struct MPI_ABI_T_cvar_handle *h = cvar_get(handle);
	char text[CVAR_TEXT];
	struct hdl_var v;
	int err;

	if (!h)
		return MPI_T_ERR_INVALID_HANDLE;
	if (!buf || !hdl_var_at(h->index, &v))
		return MPI_T_ERR_INVALID;
	if (v.of_shca)
		return MPI_T_ERR_CVAR_SET_NEVER;
	if (hdl_mpi_state_now() != HDL_BEFORE_INIT && !is_any_time(v.name))
		return MPI_T_ERR_CVAR_SET_NOT_NOW;
	if (!cvar_text(&v, buf, text))
		return MPI_T_ERR_INVALID;
	err = hdl_var_set(h->index, text);
	return !err ? MPI_SUCCESS : err == -ENOMEM ? MPI_T_ERR_MEMORY : MPI_T_ERR_INVALID;
}
HDL_PROFILED(T_cvar_write);
