/* SPDX-License-Identifier: BSD-3-Clause */
/* Process sets of the PMIx server: PMIx is played, and names two sets, of which one has members of another job. */
#include <mpi.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			exit(1); \
		} \
	} while (0)

static char nspace[PMIX_MAX_NSLEN + 1];

pmix_status_t __real_PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t ninfo,
			      pmix_value_t **val);
pmix_status_t __wrap_PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t ninfo,
			      pmix_value_t **val);
pmix_status_t __wrap_PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t ninfo,
			      pmix_value_t **val)
{
	pmix_value_t *v;
	char **name;

	snprintf(nspace, sizeof nspace, "%s", proc->nspace);
	if (strcmp(key, PMIX_PSET_NAMES))
		return __real_PMIx_Get(proc, key, info, ninfo, val);
	PMIX_VALUE_CREATE(v, 1);
	v->type = PMIX_DATA_ARRAY;
	PMIX_DATA_ARRAY_CREATE(v->data.darray, 2, PMIX_STRING);
	name = v->data.darray->array;
	name[0] = strdup("app://reverse");
	name[1] = strdup("app://foreign");
	*val = v;
	return PMIX_SUCCESS;
}

pmix_status_t __wrap_PMIx_Query_info(pmix_query_t queries[], size_t nqueries, pmix_info_t **results, size_t *nresults);
pmix_status_t __wrap_PMIx_Query_info(pmix_query_t queries[], size_t nqueries, pmix_info_t **results, size_t *nresults)
{
	pmix_data_array_t array;
	pmix_proc_t members[2];

	CHECK(nqueries == 1 && !strcmp(queries[0].keys[0], PMIX_QUERY_PSET_MEMBERSHIP) && queries[0].nqual == 1);
	PMIX_LOAD_PROCID(&members[0], nspace, 1);
	PMIX_LOAD_PROCID(&members[1], strstr(queries[0].qualifiers[0].value.data.string, "foreign") ? "another" : nspace, 0);
	array = (pmix_data_array_t){ .type = PMIX_PROC, .size = 2, .array = members };
	PMIX_INFO_CREATE(*results, 1);
	PMIX_INFO_LOAD(&(*results)[0], PMIX_QUERY_PSET_MEMBERSHIP, &array, PMIX_DATA_ARRAY);
	*nresults = 1;
	return PMIX_SUCCESS;
}

int main(void)
{
	int n, len, size, me, sum, found = 0;
	MPI_Session s;
	MPI_Group g;
	MPI_Comm c;
	char name[64];

	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &s);
	MPI_Session_get_num_psets(s, MPI_INFO_NULL, &n);
	CHECK(n == 5);
	for (int i = 0; i < n; i++) {
		len = sizeof name;
		MPI_Session_get_nth_pset(s, MPI_INFO_NULL, i, &len, name);
		found += !strcmp(name, "app://reverse") + !strcmp(name, "app://foreign");
	}
	CHECK(found == 2);
	MPI_Group_from_session_pset(s, "app://foreign", &g);
	CHECK(g == MPI_GROUP_NULL);
	MPI_Group_from_session_pset(s, "app://reverse", &g);
	CHECK(g != MPI_GROUP_NULL);
	MPI_Group_size(g, &size);
	MPI_Group_rank(g, &me);
	CHECK(size == 2 && me >= 0);
	MPI_Comm_create_from_group(g, "psets", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &c);
	MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, c);
	CHECK(sum == 1);
	MPI_Comm_free(&c);
	MPI_Group_free(&g);
	MPI_Session_finalize(&s);
	if (!me)
		printf("session_psets: ok\n");
	return 0;
}
