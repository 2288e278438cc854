/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints of communicators (MPI-5.0 section 7.4.4), and the constructors that take them. */
#include "mpi/attr.h"
#include "mpi/comm_info.h"

#include <string.h>

/* Hints that have an effect. mpi_assert_no_any_tag and mpi_assert_no_any_source are ignored: whether a context has a waiting
 * wildcard is one word to test anyway. So is mpi_assert_exact_length, which would save a comparison. Ignored hints are not
 * returned. */
static const struct {
	const char *key;
	unsigned hint;
} known[] = {
	{ "mpi_assert_allow_overtaking", HDL_HINT_OVERTAKING },
};
#define KNOWN ARRAY_SIZE(known)

/* Unknown keys and invalid values are ignored (section 10). */
unsigned hdl_comm_hints_of(const struct hdl_info *info, unsigned hints)
{
	for (size_t i = 0; i < KNOWN; i++) {
		const char *value = hdl_info_value(info, known[i].key);

		if (value && !strcmp(value, "true"))
			hints |= known[i].hint;
		else if (value && !strcmp(value, "false"))
			hints &= ~known[i].hint;
	}
	return hints;
}

int PMPI_Comm_set_info(MPI_Comm comm, MPI_Info info)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_set_info";
	struct hdl_comm *c = hdl_comm_get_local(comm);
	const struct hdl_info *given;
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = hdl_info_arg(c, call, info, &given);
	if (rc)
		return rc;
	hdl_comm_set_hints(c, hdl_comm_hints_of(given, c->hints));
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_set_info);

/* Returns all hints that have an effect, with their values. */
int PMPI_Comm_get_info(MPI_Comm comm, MPI_Info *info_used)
{
	HDL_LOCKED;
	HDL_GIVES(info_used);
	static const char call[] = "MPI_Comm_get_info";
	struct hdl_comm *c = hdl_comm_get_local(comm);
	struct hdl_info *info;
	bool good;

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!info_used)
		return hdl_null_arg(c, call, "info_used");
	info = hdl_info_new();
	good = info && hdl_info_set(info, "mpi_memory_alloc_kinds", HDL_MEMORY_KINDS);
	for (size_t i = 0; good && i < KNOWN; i++)
		good = hdl_info_set(info, known[i].key, c->hints & known[i].hint ? "true" : "false");
	if (!good) {
		if (info)
			hdl_info_free(info);
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory for an info object");
	}
	*info_used = hdl_info_handle(info);
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_get_info);
