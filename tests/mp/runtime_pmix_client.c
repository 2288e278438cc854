/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PMIx client that is not Heddle's: requests that other libraries may make of heddlerun's server. Usage: runtime_pmix_client
 * SIZE NUMBER-OF-THIS-PROGRAM.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static int failed(const char *what, pmix_status_t rc)
{
	fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(rc));
	return 1;
}

static int number(pmix_rank_t rank, const char *key, unsigned expected)
{
	pmix_proc_t proc = me;
	pmix_value_t *v = NULL;
	pmix_status_t rc;
	uint32_t got = 0;

	proc.rank = rank;
	rc = PMIx_Get(&proc, key, NULL, 0, &v);
	if (rc != PMIX_SUCCESS)
		return failed(key, rc);
	PMIX_VALUE_GET_NUMBER(rc, v, got, uint32_t);
	PMIX_VALUE_RELEASE(v);
	if (rc == PMIX_SUCCESS && got == expected)
		return 0;
	fprintf(stderr, "rank %u: %s of rank %d is %u instead of %u\n", me.rank, key, (int)rank, got, expected);
	return 1;
}

static int local_peers(unsigned size)
{
	char expected[4096] = "", host[256] = "";
	pmix_proc_t *procs = NULL;
	pmix_proc_t job = me;
	pmix_value_t *v = NULL;
	pmix_status_t rc;
	size_t n = 0;

	for (unsigned r = 0; r < size; r++)
		sprintf(expected + strlen(expected), "%s%u", r ? "," : "", r);
	job.rank = PMIX_RANK_WILDCARD;
	rc = PMIx_Get(&job, PMIX_LOCAL_PEERS, NULL, 0, &v);
	if (rc != PMIX_SUCCESS || v->type != PMIX_STRING || strcmp(v->data.string, expected))
		return failed(PMIX_LOCAL_PEERS, rc);
	PMIX_VALUE_RELEASE(v);
	gethostname(host, sizeof host - 1);
	rc = PMIx_Resolve_peers(host, me.nspace, &procs, &n);
	if (rc != PMIX_SUCCESS || n != size)
		return failed("PMIx_Resolve_peers", rc);
	PMIX_PROC_FREE(procs, n);
	return 0;
}

/* A fence that collects the values of all processes: afterwards no request to the server is needed. */
static int collecting_fence(unsigned size)
{
	pmix_value_t v = { .type = PMIX_UINT32, .data.uint32 = 100 + me.rank }, *got;
	pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, "test.number", &v);
	pmix_info_t collect;

	if (rc == PMIX_SUCCESS)
		rc = PMIx_Commit();
	if (rc != PMIX_SUCCESS)
		return failed("PMIx_Put, PMIx_Commit", rc);
	PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
	rc = PMIx_Fence(NULL, 0, &collect, 1);
	if (rc != PMIX_SUCCESS)
		return failed("PMIx_Fence", rc);
	for (unsigned r = 0; r < size; r++) {
		pmix_proc_t proc = me;

		proc.rank = r;
		got = NULL;
		rc = PMIx_Get(&proc, "test.number", NULL, 0, &got);
		if (rc != PMIX_SUCCESS || got->type != PMIX_UINT32 || got->data.uint32 != 100 + r)
			return failed("PMIx_Get after a fence", rc);
		PMIX_VALUE_RELEASE(got);
	}
	return 0;
}

/* A fence of some ranks only. */
static int partial_fence(unsigned size)
{
	pmix_proc_t some[2] = { me, me };
	pmix_status_t rc;

	if (size < 3 || me.rank > 1)
		return 0;
	some[0].rank = 0;
	some[1].rank = 1;
	rc = PMIx_Fence(some, 2, NULL, 0);
	return rc == PMIX_SUCCESS ? 0 : failed("PMIx_Fence of ranks 0 and 1", rc);
}

int main(int argc, char **argv)
{
	unsigned size = argc > 1 ? (unsigned)atoi(argv[1]) : 1, app = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	pmix_status_t rc = PMIx_Init(&me, NULL, 0);
	int bad = 0;

	if (rc != PMIX_SUCCESS)
		return failed("PMIx_Init", rc);
	bad |= number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, size);
	bad |= number(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE, 7);		/* as runtime_pmix.sh passes by --universe */
	bad |= number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, size);
	bad |= number(PMIX_RANK_WILDCARD, PMIX_MAX_PROCS, size);
	bad |= number(PMIX_RANK_WILDCARD, PMIX_NUM_NODES, 1);
	for (unsigned r = 0; r < size; r++) {
		bad |= number(r, PMIX_LOCAL_RANK, r);
		bad |= number(r, PMIX_NODE_RANK, r);
		bad |= number(r, PMIX_NODEID, 0);
	}
	bad |= number(me.rank, PMIX_APPNUM, app);
	bad |= local_peers(size);
	bad |= collecting_fence(size);
	bad |= partial_fence(size);
	rc = PMIx_Get(&me, "test.nobody.put.this", NULL, 0, &(pmix_value_t *){ NULL });
	if (rc == PMIX_SUCCESS)
		bad |= failed("a value that nobody has put", rc);
	rc = PMIx_Finalize(NULL, 0);
	if (rc != PMIX_SUCCESS)
		bad |= failed("PMIx_Finalize", rc);
	return bad;
}
