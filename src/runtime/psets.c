/* SPDX-License-Identifier: BSD-3-Clause */
/* Process sets that the PMIx server has named: MPI_Session_get_nth_pset returns these beside the library's own names. */
#include <errno.h>
#include <pmix.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pmix_fds.h"
#include "runtime/runtime.h"

/* The server's list of the sets of which this process is a member, or NULL. The caller releases the value. */
static pmix_value_t *psets_value(void)
{
	pmix_value_t *value = NULL;
	pmix_info_t optional;
	pmix_proc_t proc;

	if (hdl_job.singleton)
		return NULL;
	PMIX_LOAD_PROCID(&proc, hdl_job.nspace, (pmix_rank_t)hdl_job.rank);
	PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, NULL, PMIX_BOOL);
	hdl_pmix_fds_check("PMIx_Get");
	if (PMIx_Get(&proc, PMIX_PSET_NAMES, &optional, 1, &value) != PMIX_SUCCESS) {
		proc.rank = PMIX_RANK_WILDCARD;
		if (PMIx_Get(&proc, PMIX_PSET_NAMES, &optional, 1, &value) != PMIX_SUCCESS)
			value = NULL;
	}
	PMIX_INFO_DESTRUCT(&optional);
	return value;
}

int hdl_rt_psets(char ***names)
{
	pmix_value_t *value = psets_value();
	const pmix_data_array_t *array = value && value->type == PMIX_DATA_ARRAY ? value->data.darray : NULL;
	size_t listed = array && array->type == PMIX_STRING ? array->size : 0;
	int n = 0;

	*names = listed ? calloc(listed, sizeof **names) : NULL;
	for (size_t i = 0; *names && i < listed; i++) {
		const char *name = ((char **)array->array)[i];

		if (name && *name && ((*names)[n] = strdup(name)))
			n++;
	}
	if (value)
		PMIX_VALUE_RELEASE(value);
	return n;
}

static int psets_ascending(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Copies the ranks of this job out of a list of processes; *ranks is malloc'd. Returns how many; -ENOENT: there are processes of
 * other jobs, or none; -ENOMEM. */
static int psets_copy(const pmix_data_array_t *array, int **ranks)
{
	const pmix_proc_t *proc = array->array;
	int n = (int)array->size;

	if (array->type != PMIX_PROC || !array->size || array->size > (size_t)hdl_job.size)
		return -ENOENT;
	for (int i = 0; i < n; i++)
		if (strncmp(proc[i].nspace, hdl_job.nspace, PMIX_MAX_NSLEN) || proc[i].rank >= (pmix_rank_t)hdl_job.size)
			return -ENOENT;
	*ranks = malloc((size_t)n * sizeof **ranks);
	if (!*ranks)
		return -ENOMEM;
	for (int i = 0; i < n; i++)
		(*ranks)[i] = (int)proc[i].rank;
	qsort(*ranks, (size_t)n, sizeof **ranks, psets_ascending);
	for (int i = 1; i < n; i++)
		if ((*ranks)[i] == (*ranks)[i - 1]) {
			free(*ranks);
			*ranks = NULL;
			return -ENOENT;
		}
	return n;
}

int hdl_rt_pset_members(const char *name, int **ranks)
{
	pmix_info_t qualifier, *info = NULL;
	char key[] = PMIX_QUERY_PSET_MEMBERSHIP, *keys[] = { key, NULL };
	pmix_query_t query = { .keys = keys, .qualifiers = &qualifier, .nqual = 1 };
	size_t ninfo = 0;
	pmix_status_t rc;
	int n = -ENOENT;

	*ranks = NULL;
	if (hdl_job.singleton)
		return -ENOENT;
	PMIX_INFO_LOAD(&qualifier, PMIX_PSET_NAME, name, PMIX_STRING);
	hdl_pmix_fds_check("PMIx_Query_info");
	rc = PMIx_Query_info(&query, 1, &info, &ninfo);
	PMIX_INFO_DESTRUCT(&qualifier);
	for (size_t i = 0; rc == PMIX_SUCCESS && i < ninfo && n == -ENOENT; i++)
		if (PMIX_CHECK_KEY(&info[i], PMIX_QUERY_PSET_MEMBERSHIP) && info[i].value.type == PMIX_DATA_ARRAY &&
		    info[i].value.data.darray)
			n = psets_copy(info[i].value.data.darray, ranks);
	if (rc == PMIX_SUCCESS && info)
		PMIX_INFO_FREE(info, ninfo);
	else if (rc != PMIX_SUCCESS)
		hdl_debug("PMIx_Query_info of the members of process set %s: %s", name, PMIx_Error_string(rc));
	return n;
}
