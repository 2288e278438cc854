/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several hosts played on one machine: linked with --wrap=PMIx_Get, PMIx_Get returns that rank r is on host HOSTS[r], a list of
 * numbers "0,0,1,1". The software HCA still connects the simulated hosts, under the name that HEDDLE_DEVICE must give. Without
 * HOSTS nothing is changed.
 *
 * With UNTOLD the launcher is one that does not report ended ranks, and asks for no hang report either
 * (--wrap=PMIx_Register_event_handler).
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pmix_status_t __real_PMIx_Get(const pmix_proc_t *proc, const char *key, const pmix_info_t info[], size_t n, pmix_value_t **out);
pmix_status_t __wrap_PMIx_Get(const pmix_proc_t *proc, const char *key, const pmix_info_t info[], size_t n, pmix_value_t **out);

#define RANKS 256

static int host[RANKS], ranks = -1, hosts, me = -1;

static void read_hosts(void)
{
	const char *env = getenv("HOSTS"), *rank = getenv("PMIX_RANK");
	char *next;

	ranks = 0;
	me = rank ? atoi(rank) : -1;
	for (const char *p = env; p && *p && ranks < RANKS; p = *next == ',' ? next + 1 : next) {
		host[ranks] = (int)strtol(p, &next, 10);
		if (next == p)
			break;
		if (host[ranks] >= hosts)
			hosts = host[ranks] + 1;
		ranks++;
	}
}

static pmix_status_t number(pmix_value_t **out, int value)
{
	pmix_value_t *v = calloc(1, sizeof(*v));

	if (!v)
		return PMIX_ERR_NOMEM;
	v->type = PMIX_UINT32;
	v->data.uint32 = (uint32_t)value;
	*out = v;
	return PMIX_SUCCESS;
}

static pmix_status_t peers(pmix_value_t **out)
{
	char text[RANKS * 4] = "";
	size_t used = 0;

	for (int r = 0; r < ranks; r++)
		if (host[r] == host[me])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d", used ? "," : "", r);
	if (number(out, 0))
		return PMIX_ERR_NOMEM;
	(*out)->type = PMIX_STRING;
	(*out)->data.string = strdup(text);
	return PMIX_SUCCESS;
}

pmix_status_t __wrap_PMIx_Get(const pmix_proc_t *proc, const char *key, const pmix_info_t info[], size_t n, pmix_value_t **out)
{
	if (ranks < 0)
		read_hosts();
	if (key && me >= 0 && me < ranks) {
		if (!strcmp(key, PMIX_LOCAL_PEERS))
			return peers(out);
		if (!strcmp(key, PMIX_NUM_NODES))
			return number(out, hosts);
		if (!strcmp(key, PMIX_NODEID) && proc->rank < (pmix_rank_t)ranks)
			return number(out, host[proc->rank]);
	}
	return __real_PMIx_Get(proc, key, info, n, out);
}

void __real_PMIx_Register_event_handler(pmix_status_t codes[], size_t ncodes, pmix_info_t info[], size_t ninfo,
						 pmix_notification_fn_t handler, pmix_hdlr_reg_cbfunc_t done, void *arg);
void __wrap_PMIx_Register_event_handler(pmix_status_t codes[], size_t ncodes, pmix_info_t info[], size_t ninfo,
						 pmix_notification_fn_t handler, pmix_hdlr_reg_cbfunc_t done, void *arg);

void __wrap_PMIx_Register_event_handler(pmix_status_t codes[], size_t ncodes, pmix_info_t info[], size_t ninfo,
						 pmix_notification_fn_t handler, pmix_hdlr_reg_cbfunc_t done, void *arg)
{
	if (!getenv("UNTOLD"))
		__real_PMIx_Register_event_handler(codes, ncodes, info, ninfo, handler, done, arg);
}
