/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions (MPI-5.0 section 11.3), their process sets and groups. */
#include "mpi/info.h"
#include "mpi/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char key_level[] = "thread_level";

static const struct level {
	const char *name;
	int level;
} levels[] = {
	{ "MPI_THREAD_SINGLE", MPI_THREAD_SINGLE }, { "MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED },
	{ "MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED }, { "MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE },
};

static int session_no_memory(void)
{
	hdl_reason_set("out of memory");
	return MPI_ERR_NO_MEM;
}

/* Writes the explanation of an error that is raised behind other calls. Returns its class. */
static int session_keep(int class, char why[256])
{
	snprintf(why, 256, "%s", hdl_reason_take());
	return class;
}

/* ---- process sets ---------------------------------------------------------------------------------------- */

static struct hdl_group *pset_world(void)
{
	return hdl_group_range(0, 1, hdl_job.size);
}

static struct hdl_group *pset_self(void)
{
	return hdl_group_range(hdl_job.rank, 1, 1);
}

static struct hdl_group *pset_host(void)
{
	size_t bytes = (size_t)hdl_job.local_size * sizeof(*hdl_job.local);
	int *procs;

	if (!hdl_job.local)
		return pset_world();
	procs = malloc(bytes);
	if (!procs)
		return NULL;
	memcpy(procs, hdl_job.local, bytes);
	return hdl_group_table(procs, hdl_job.local_size);
}

/* The library's own sets; those of the PMIx server come behind these. */
static const struct pset {
	const char *name;
	struct hdl_group *(*make)(void);
} psets[] = {
	{ "mpi://WORLD", pset_world }, { "mpi://SELF", pset_self }, { "heddle://host", pset_host },
};

/* Writes the names of all sets into the session. Returns false without memory. */
static bool session_name_psets(struct hdl_session *s)
{
	char **names;
	int n = hdl_rt_psets(&names);

	s->psets = calloc(ARRAY_SIZE(psets) + (size_t)n, sizeof(*s->psets));
	for (size_t i = 0; s->psets && i < ARRAY_SIZE(psets); i++)
		if ((s->psets[s->npsets] = strdup(psets[i].name)))
			s->npsets++;
	for (int i = 0; i < n; i++)
		if (s->psets)
			s->psets[s->npsets++] = names[i];
		else
			free(names[i]);
	free(names);
	return s->npsets == (int)ARRAY_SIZE(psets) + n;
}

static void session_free_psets(struct hdl_session *s)
{
	for (int i = 0; i < s->npsets; i++)
		free(s->psets[i]);
	free(s->psets);
	s->psets = NULL;
	s->npsets = 0;
}

/* Makes the group of a set. *g is NULL if there is no such set. Returns an error class, with hdl_reason_set. */
static int session_group(const struct hdl_session *s, const char *name, struct hdl_group **g)
{
	int n = -ENOENT, *ranks;

	*g = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(psets); i++)
		if (!strcasecmp(name, psets[i].name))
			return (*g = psets[i].make()) ? MPI_SUCCESS : session_no_memory();
	for (int i = (int)ARRAY_SIZE(psets); i < s->npsets; i++)
		if (!strcmp(name, s->psets[i]))
			n = hdl_rt_pset_members(name, &ranks);
	if (n == -ENOENT)
		return MPI_SUCCESS;
	if (n > 0)
		*g = hdl_group_table(ranks, n);
	return *g ? MPI_SUCCESS : session_no_memory();
}

/* ---- beginning and end ----------------------------------------------------------------------------------- */

/* Reads the thread level that is asked for. Without the key it is the one with which every program is right. */
static int session_level(const struct hdl_info *info, int *level)
{
	const char *text = hdl_info_value(info, key_level);

	*level = MPI_THREAD_MULTIPLE;
	for (size_t i = 0; text && i < ARRAY_SIZE(levels); i++)
		if (!strcmp(text, levels[i].name)) {
			*level = levels[i].level;
			return MPI_SUCCESS;
		}
	if (!text)
		return MPI_SUCCESS;
	hdl_reason_set("invalid value \"%.40s\" of info key %s: it is no thread level (\"MPI_THREAD_SINGLE\", ..., "
		       "\"MPI_THREAD_MULTIPLE\")", text, key_level);
	return MPI_ERR_INFO_VALUE;
}

/* Threads of several sessions are in the library at once, for any requested level of thread support, unless the process has only
 * one session. */
static int session_threads(int level)
{
	return level == MPI_THREAD_SINGLE ? level : MPI_THREAD_MULTIPLE;
}

static int session_open(const char *call, const struct hdl_info *info, MPI_Errhandler errhandler, struct hdl_session **out)
{
	struct hdl_session *s;
	int level, rc = session_level(info, &level), err;

	if (rc)
		return rc;
	hdl_call = call;
	err = hdl_session_begins(session_threads(level));
	if (err) {
		hdl_reason_set("the library cannot be started (%s): the lines above say why", strerror(-err));
		return err == -ENOMEM ? MPI_ERR_NO_MEM : MPI_ERR_OTHER;
	}
	s = hdl_pool_take(&hdl_sessions);
	if (!s || !session_name_psets(s)) {
		if (s) {
			session_free_psets(s);
			hdl_pool_put(&hdl_sessions, s);
		}
		hdl_session_ends();
		return session_no_memory();
	}
	s->obj = (struct hdl_object){ HDL_MAGIC_SESSION, 1 };
	s->level = level;
	s->errhandler = errhandler;
	hdl_errhandler_retain(errhandler);
	*out = s;
	return MPI_SUCCESS;
}

static int session_init_locked(const char *call, MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session, char why[256])
{
	HDL_LOCKED;
	const struct hdl_info *given;
	struct hdl_session *s;
	int rc;

	if (!hdl_is_session_errhandler(errhandler)) {
		hdl_reason_set("invalid errhandler: handle %p is none for sessions, or was freed", (void *)errhandler);
		return session_keep(MPI_ERR_ERRHANDLER, why);
	}
	if (!hdl_info_find(info, &given)) {
		hdl_reason_set("invalid info: handle %p is none, or was freed", (void *)info);
		return session_keep(MPI_ERR_INFO, why);
	}
	if (!session) {
		hdl_reason_set("invalid session: it is a null pointer");
		return session_keep(MPI_ERR_ARG, why);
	}
	rc = session_open(call, given, errhandler, &s);
	if (rc)
		return session_keep(rc, why);
	*session = (MPI_Session)s;
	return MPI_SUCCESS;
}

static int session_init_raise(const char *call, MPI_Errhandler errhandler, int class, const char *why)
{
	HDL_LOCKED;

	if (class == MPI_ERR_ERRHANDLER)
		return hdl_raise(NULL, class, call, "%s", why);
	return hdl_errhandler_call_session(errhandler, NULL, hdl_error_code(class, call, why));
}

int PMPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session)
{
	HDL_NO_LOCK;
	HDL_GIVES(session);
	static const char call[] = "MPI_Session_init";
	char why[256];
	int class;

	hdl_users_lock();
	class = session_init_locked(call, info, errhandler, session, why);
	hdl_users_unlock();
	return class ? session_init_raise(call, errhandler, class, why) : MPI_SUCCESS;
}
HDL_PROFILED(Session_init);

/* Checks the handle; messages in the session's buffer leave, as by MPI_Session_detach_buffer. */
static int session_empty(const char *call, MPI_Session *session, struct hdl_session **out)
{
	HDL_LOCKED;
	struct hdl_session *s;
	void *buffer;
	size_t size;

	hdl_check_active(call);
	if (!session)
		return hdl_null_arg(NULL, call, "session");
	s = hdl_session_get(*session);
	if (!s)
		return hdl_bad_session(call, *session);
	hdl_call = call;
	hdl_bsend_detach(&s->bsend, &buffer, &size);
	s->obj.magic = 0;
	*session = MPI_SESSION_NULL;
	*out = s;
	return MPI_SUCCESS;
}

static void session_close(struct hdl_session *s)
{
	HDL_LOCKED;

	hdl_errhandler_release(s->errhandler);
	session_free_psets(s);
	hdl_session_release(s);
	hdl_session_ends();
}

int PMPI_Session_finalize(MPI_Session *session)
{
	HDL_NO_LOCK;
	struct hdl_session *s = NULL;
	int rc = session_empty("MPI_Session_finalize", session, &s);

	if (!s)
		return rc;
	hdl_users_lock();
	session_close(s);
	hdl_users_unlock();
	return rc;
}
HDL_PROFILED(Session_finalize);

/* ---- inquiry --------------------------------------------------------------------------------------------- */

/* Returns an info object with up to two pairs, or NULL. */
static struct hdl_info *session_pairs(const char *key1, const char *value1, const char *key2, const char *value2)
{
	struct hdl_info *info = hdl_info_new();

	if (info && (!hdl_info_set(info, key1, value1) || (key2 && !hdl_info_set(info, key2, value2)))) {
		hdl_info_free(info);
		info = NULL;
	}
	return info;
}

static int session_give(struct hdl_session *s, const char *call, struct hdl_info *made, MPI_Info *info)
{
	if (!made)
		return hdl_raise_session(s, MPI_ERR_NO_MEM, call, "out of memory");
	*info = hdl_info_handle(made);
	return MPI_SUCCESS;
}

static int session_null(struct hdl_session *s, const char *call, const char *arg)
{
	return hdl_raise_session(s, MPI_ERR_ARG, call, "invalid %s: it is a null pointer", arg);
}

int PMPI_Session_get_info(MPI_Session session, MPI_Info *info_used)
{
	HDL_LOCKED;
	HDL_GIVES(info_used);
	static const char call[] = "MPI_Session_get_info";
	struct hdl_session *s = hdl_session_get(session);
	const char *level = "";

	if (!s)
		return hdl_bad_session(call, session);
	if (!info_used)
		return session_null(s, call, "info_used");
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (levels[i].level == s->level)
			level = levels[i].name;
	return session_give(s, call, session_pairs(key_level, level, "mpi_memory_alloc_kinds", HDL_MEMORY_KINDS), info_used);
}
HDL_PROFILED(Session_get_info);

/* No hint is known that would change the list of sets. */
static int check_info(struct hdl_session *s, const char *call, MPI_Info info)
{
	const struct hdl_info *given;

	if (hdl_info_find(info, &given))
		return MPI_SUCCESS;
	return hdl_raise_session(s, MPI_ERR_INFO, call, "invalid info: handle %p is none, or was freed", (void *)info);
}

int PMPI_Session_get_num_psets(MPI_Session session, MPI_Info info, int *npset_names)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Session_get_num_psets";
	struct hdl_session *s = hdl_session_get(session);
	int rc;

	if (!s)
		return hdl_bad_session(call, session);
	rc = check_info(s, call, info);
	if (rc)
		return rc;
	if (!npset_names)
		return session_null(s, call, "npset_names");
	*npset_names = s->npsets;
	return MPI_SUCCESS;
}
HDL_PROFILED(Session_get_num_psets);

int PMPI_Session_get_nth_pset(MPI_Session session, MPI_Info info, int n, int *pset_len, char *pset_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Session_get_nth_pset";
	struct hdl_session *s = hdl_session_get(session);
	int rc;

	if (!s)
		return hdl_bad_session(call, session);
	rc = check_info(s, call, info);
	if (rc)
		return rc;
	if (n < 0 || n >= s->npsets)
		return hdl_raise_session(s, MPI_ERR_ARG, call, "invalid n %d: there are %d process sets, counted from 0", n,
					 s->npsets);
	if (!pset_len)
		return session_null(s, call, "pset_len");
	if (*pset_len < 0)
		return hdl_raise_session(s, MPI_ERR_ARG, call, "invalid pset_len %d: it must not be negative", *pset_len);
	if (*pset_len && !pset_name)
		return session_null(s, call, "pset_name");
	if (*pset_len)
		snprintf(pset_name, (size_t)*pset_len, "%s", s->psets[n]);
	*pset_len = (int)strlen(s->psets[n]) + 1;
	return MPI_SUCCESS;
}
HDL_PROFILED(Session_get_nth_pset);

/* Checks pset_name and the output argument `name`, and looks the process set up. *g is NULL if there is no set of that name.
 * Returns MPI_SUCCESS, or the code of an error that was raised. */
static int pset_group(struct hdl_session *s, const char *call, const char *pset_name, const char *name, const void *out,
		      struct hdl_group **g)
{
	int rc;

	if (!pset_name || !out)
		return session_null(s, call, pset_name ? name : "pset_name");
	rc = session_group(s, pset_name, g);
	return rc ? hdl_raise_session_class(s, rc, call) : MPI_SUCCESS;
}

int PMPI_Session_get_pset_info(MPI_Session session, const char *pset_name, MPI_Info *info)
{
	HDL_LOCKED;
	HDL_GIVES(info);
	static const char call[] = "MPI_Session_get_pset_info";
	struct hdl_session *s = hdl_session_get(session);
	struct hdl_group *g;
	char size[16];
	int rc = s ? pset_group(s, call, pset_name, "info", info, &g) : hdl_bad_session(call, session);

	if (rc)
		return rc;
	if (!g)
		return hdl_raise_session(s, MPI_ERR_ARG, call, "invalid pset_name \"%.80s\": there is no such process set",
					 pset_name);
	snprintf(size, sizeof(size), "%d", g->size);
	hdl_group_release(g);
	return session_give(s, call, session_pairs("mpi_size", size, NULL, NULL), info);
}
HDL_PROFILED(Session_get_pset_info);

/* A name that is none gives MPI_GROUP_NULL, without an error (section 7.3.2). */
int PMPI_Group_from_session_pset(MPI_Session session, const char *pset_name, MPI_Group *newgroup)
{
	HDL_LOCKED;
	HDL_GIVES(newgroup);
	static const char call[] = "MPI_Group_from_session_pset";
	struct hdl_session *s = hdl_session_get(session);
	struct hdl_group *g;
	int rc = s ? pset_group(s, call, pset_name, "newgroup", newgroup, &g) : hdl_bad_session(call, session);

	if (rc)
		return rc;
	if (!g)
		return MPI_SUCCESS;
	hdl_group_derive(g, s);
	return hdl_group_return(call, g, newgroup);
}
HDL_PROFILED(Group_from_session_pset);
