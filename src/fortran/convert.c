/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions of arguments: sentinels, strings, arrays of handles. */
#include "fortran/mpifort.h"

#include <string.h>

/* A program's common blocks of these names are the same memory: its executable has them, and the linker
 * directs the library there. */
#pragma GCC visibility push(default)
struct mpifort_sentinels mpifort_sentinels_;
struct mpifort_sentinelc mpifort_sentinelc_ = { ' ', ' ' };
#pragma GCC visibility pop

void *mpifort_sentinel(const void *address)
{
	if (address == &mpifort_sentinels_.bottom)
		return MPI_BOTTOM;
	if (address == &mpifort_sentinels_.in_place)
		return MPI_IN_PLACE;
	if (address == &mpifort_sentinels_.buffer_automatic)
		return MPI_BUFFER_AUTOMATIC;
	return (void *)(uintptr_t)address;
}

int mpifort_raise(int code)
{
	PMPI_Comm_call_errhandler(MPI_COMM_SELF, code);
	return code;
}

/* ---- strings ---------------------------------------------------------------------------------------------- */

char *mpifort_string(const char *text, size_t len, bool both)
{
	char *s;

	while (len > 0 && text[len - 1] == ' ')
		len--;
	while (both && len > 0 && *text == ' ') {
		text++;
		len--;
	}
	s = malloc(len + 1);
	if (!s) {
		mpifort_raise(MPI_ERR_NO_MEM);
		return NULL;
	}
	memcpy(s, text, len);
	s[len] = 0;
	return s;
}

void mpifort_string_out(char *text, size_t len, const char *from, int rc)
{
	size_t n;

	if (rc)
		return;
	n = strlen(from);
	if (n > len)
		n = len;
	memcpy(text, from, n);
	memset(text + n, ' ', len - n);
}

/* ---- arrays of handles ------------------------------------------------------------------------------------ */

#define ARRAY(kind, type)								\
int kind##_array(type **to, const MPI_Fint *from, MPI_Count n)				\
{											\
	*to = calloc(n > 0 ? (size_t)n : 1, sizeof(**to));				\
	if (!*to)									\
		return mpifort_raise(MPI_ERR_NO_MEM);					\
	for (MPI_Count i = 0; from && i < n; i++)					\
		(*to)[i] = kind##_in(from[i]);						\
	return MPI_SUCCESS;								\
}
ARRAY(datatype, MPI_Datatype)
ARRAY(request, MPI_Request)
ARRAY(info, MPI_Info)

void datatype_array_out(MPI_Fint *to, const MPI_Datatype *from, MPI_Count n)
{
	for (MPI_Count i = 0; i < n; i++)
		if (from[i])
			to[i] = datatype_out(from[i]);
}

bool mpifort_root(MPI_Fint root, MPI_Fint comm)
{
	int rank, inter;

	if (PMPI_Comm_test_inter(comm_in(comm), &inter) || PMPI_Comm_rank(comm_in(comm), &rank))
		return false;
	return root == (inter ? MPI_ROOT : rank);
}

int mpifort_peers(MPI_Comm comm, int sends, int neighbors, const void *buffer)
{
	int n = 0, topology, in = 0, out = 0, weighted, rank, inter = 0;

	if (buffer == MPI_IN_PLACE)
		return 0;
	if (!neighbors) {
		if (!PMPI_Comm_test_inter(comm, &inter))
			inter ? PMPI_Comm_remote_size(comm, &n) : PMPI_Comm_size(comm, &n);
		return n;
	}
	PMPI_Topo_test(comm, &topology);
	if (topology == MPI_CART) {
		PMPI_Cartdim_get(comm, &n);
		return 2 * n;
	}
	if (topology == MPI_GRAPH) {
		PMPI_Comm_rank(comm, &rank);
		PMPI_Graph_neighbors_count(comm, rank, &n);
		return n;
	}
	if (topology == MPI_DIST_GRAPH)
		PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
	return sends ? out : in;
}
