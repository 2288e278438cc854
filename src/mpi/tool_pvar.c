/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Performance variables (MPI-5.0 section 15.3.7):
 *
 *     class COUNTER   the transport's and the collectives' counters, of the whole process
 *     class COUNTER   NAME_of_peers, bound to a communicator: one element per rank (of the remote group of an intercommunicator),
 *                     the transport's counters of the process of that rank
 *     class LEVEL     matching: the messages and receives that wait at this moment
 *
 * All are MPI_UNSIGNED_LONG_LONG and continuous. A counter is 0 in a new handle; resetting or writing changes the value of this
 * handle, not the library's counter. Reading a counter costs the library nothing at other times. An instance of the transport
 * ends with the library's last user and another begins with the next one: a handle adds its counters up over instances. Without
 * one nothing is counted, and levels are 0.
 */
#include "mpi/tool.h"
#include "p2p/match.h"

#include <stdlib.h>
#include <string.h>

enum pvar_kind { TRANSPORT, OF_PEERS, COLLECTIVES, MATCHING };

struct pvar {
	enum pvar_kind kind;
	unsigned n;			/* index in the table of its kind */
	const char *name, *text;
	enum hdl_tool_category category;
};

/* ---- the variables --------------------------------------------------------------------------------------------- */

static const struct level {
	const char *name, *text;
	size_t at;			/* of a size_t in struct hdl_matching */
} levels[] = {
	{"unexpected_messages", "Messages that wait here for their receive", offsetof(struct hdl_matching, nunexpected)},
	{"unexpected_bytes", "Bytes of memory of the messages that wait here for their receive",
	 offsetof(struct hdl_matching, unexpected_bytes)},
};

#define COUNTERS_MOST 256

/* The sections of the indices: of the whole process, of peers, the collectives', levels. */
static struct sections {
	unsigned transport, peers, collectives;	/* variables in each */
	uint8_t of_peers[COUNTERS_MOST];		/* the transport's counters that peers have, too */
} sections;

static const struct sections *sections_get(void)
{
	struct sections *s = &sections;
	const struct hdl_counter *c;

	if (s->transport)
		return s;
	for (; s->transport < COUNTERS_MOST && (c = hdl_counter(s->transport)); s->transport++)
		if (c->per_peer)
			s->of_peers[s->peers++] = (uint8_t)s->transport;
	while (hdl_coll_counter(s->collectives))
		s->collectives++;
	return s;
}

/* Variable i. */
static bool pvar_at(unsigned i, struct pvar *out)
{
	static char name[64];
	const struct sections *s = sections_get();
	const struct hdl_counter *c;

	if (i < s->transport) {
		c = hdl_counter(i);
		*out = (struct pvar){TRANSPORT, i, c->name, c->text,
				     hdl_counter_of_device(i) ? HDL_CAT_SHCA : HDL_CAT_TRANSPORT};
		return true;
	}
	i -= s->transport;
	if (i < s->peers) {
		c = hdl_counter(s->of_peers[i]);
		snprintf(name, sizeof(name), "%s_of_peers", c->name);
		*out = (struct pvar){ OF_PEERS, s->of_peers[i], name, c->text, HDL_CAT_TRANSPORT };
		return true;
	}
	i -= s->peers;
	if (i < s->collectives) {
		c = hdl_coll_counter(i);
		*out = (struct pvar){ COLLECTIVES, i, c->name, c->text, HDL_CAT_COLLECTIVES };
		return true;
	}
	i -= s->collectives;
	if (i >= ARRAY_SIZE(levels))
		return false;
	*out = (struct pvar){ MATCHING, i, levels[i].name, levels[i].text, HDL_CAT_P2P };
	return true;
}

static const char *pvar_name(unsigned i)
{
	struct pvar v;

	return pvar_at(i, &v) ? v.name : NULL;
}

unsigned hdl_tool_pvars(void)
{
	return hdl_tool_count(pvar_name);
}

enum hdl_tool_category hdl_tool_pvar_category(unsigned i)
{
	struct pvar v = { .category = HDL_CAT_TRANSPORT };

	pvar_at(i, &v);
	return v.category;
}

static bool is_counter(const struct pvar *v)
{
	return v->kind != MATCHING;
}

int PMPI_T_pvar_get_num(int *num_pvar)
{
	HDL_TOOL;
	if (!num_pvar)
		return MPI_T_ERR_INVALID;
	*num_pvar = (int)hdl_tool_pvars();
	return MPI_SUCCESS;
}
HDL_PROFILED(T_pvar_get_num);

static int pvar_class_of(const struct pvar *v)
{
	return is_counter(v) ? MPI_T_PVAR_CLASS_COUNTER : MPI_T_PVAR_CLASS_LEVEL;
}

int PMPI_T_pvar_get_index(const char *name, int var_class, int *pvar_index)
{
	HDL_TOOL;
	struct pvar v;
	int i;

	if (!name || !pvar_index)
		return MPI_T_ERR_INVALID;
	i = hdl_tool_find(name, pvar_name);
	if (i < 0 || !pvar_at((unsigned)i, &v) || pvar_class_of(&v) != var_class)
		return MPI_T_ERR_INVALID_NAME;
	*pvar_index = i;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_pvar_get_index);

int PMPI_T_pvar_get_info(int pvar_index, char *name, int *name_len, int *verbosity, int *var_class, MPI_Datatype *datatype,
			 MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind, int *readonly, int *continuous, int *atomic)
{
	HDL_TOOL;
	struct pvar v;

	if (pvar_index < 0 || !pvar_at((unsigned)pvar_index, &v))
		return MPI_T_ERR_INVALID_INDEX;
	hdl_tool_text(v.name, name, name_len);
	hdl_tool_text(v.text, desc, desc_len);
	hdl_tool_int(verbosity, v.kind == OF_PEERS ? MPI_T_VERBOSITY_TUNER_DETAIL : MPI_T_VERBOSITY_TUNER_BASIC);
	hdl_tool_int(var_class, pvar_class_of(&v));
	if (datatype)
		*datatype = MPI_UNSIGNED_LONG_LONG;
	if (enumtype)
		*enumtype = MPI_T_ENUM_NULL;
	hdl_tool_int(bind, v.kind == OF_PEERS ? MPI_T_BIND_MPI_COMM : MPI_T_BIND_NO_OBJECT);
	hdl_tool_int(readonly, !is_counter(&v));
	hdl_tool_int(continuous, 1);
	hdl_tool_int(atomic, is_counter(&v));
	return MPI_SUCCESS;
}
HDL_PROFILED(T_pvar_get_info);

/* ---- sessions and handles -------------------------------------------------------------------------------------- */

struct MPI_ABI_T_pvar_session {
	struct hdl_object obj;
	struct MPI_ABI_T_pvar_handle *first;	/* the session's handles */
};

struct MPI_ABI_T_pvar_handle {
	struct hdl_object obj;
	struct MPI_ABI_T_pvar_handle *next, **link;
	struct MPI_ABI_T_pvar_session *session;
	struct pvar v;			/* v.name is not valid */
	MPI_Comm comm;			/* OF_PEERS */
	uint32_t serial;		/* OF_PEERS: the communicator's; a later one may have its handle */
	int count;
	unsigned long long *base;	/* [count]: the value that the handle shows as 0 */
	unsigned long long one;		/* base of a variable of one element */
};

static struct hdl_pool sessions = HDL_POOL(struct MPI_ABI_T_pvar_session, 4);
static struct hdl_pool pvars = HDL_POOL(struct MPI_ABI_T_pvar_handle, 16);

static struct MPI_ABI_T_pvar_session *session_get(MPI_T_pvar_session session)
{
	return hdl_pool_find(&sessions, session, HDL_MAGIC_PVAR_SESSION, sizeof(struct MPI_ABI_T_pvar_session));
}

static struct MPI_ABI_T_pvar_handle *pvar_get(MPI_T_pvar_handle handle)
{
	return hdl_pool_find(&pvars, handle, HDL_MAGIC_PVAR, sizeof(struct MPI_ABI_T_pvar_handle));
}

static void pvar_free(struct MPI_ABI_T_pvar_handle *h)
{
	*h->link = h->next;
	if (h->next)
		h->next->link = h->link;
	if (h->base != &h->one)
		free(h->base);
	hdl_pool_put(&pvars, h);
}

static void session_free(struct MPI_ABI_T_pvar_session *s)
{
	while (s->first)
		pvar_free(s->first);
	hdl_pool_put(&sessions, s);
}

static void fini_session(void *session, void *arg)
{
	(void)arg;
	session_free(session);
}

void hdl_tool_pvar_fini(void)
{
	hdl_pool_each(&sessions, fini_session, NULL);
	hdl_pool_fini(&pvars);
	hdl_pool_fini(&sessions);
}

int PMPI_T_pvar_session_create(MPI_T_pvar_session *session)
{
	HDL_TOOL;
	struct MPI_ABI_T_pvar_session *s;

	if (!session)
		return MPI_T_ERR_INVALID;
	*session = MPI_T_PVAR_SESSION_NULL;
	s = hdl_pool_take(&sessions);
	if (!s)
		return MPI_T_ERR_OUT_OF_SESSIONS;
	s->obj = (struct hdl_object){ HDL_MAGIC_PVAR_SESSION, 1 };
	*session = s;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_pvar_session_create);

int PMPI_T_pvar_session_free(MPI_T_pvar_session *session)
{
	HDL_TOOL;
	struct MPI_ABI_T_pvar_session *s = session ? session_get(*session) : NULL;

	if (!s)
		return MPI_T_ERR_INVALID_SESSION;
	session_free(s);
	*session = MPI_T_PVAR_SESSION_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_pvar_session_free);

/* Reads the library's values, without the handle's base; 0 where there is no instance of the transport. Returns false if the
 * communicator was freed. */
static bool pvar_values(const struct MPI_ABI_T_pvar_handle *h, unsigned long long *out)
{
	struct hdl_comm *comm;

	switch (h->v.kind) {
	case TRANSPORT:
		*out = hdl_mpi_tp ? hdl_counter_read(hdl_mpi_tp, h->v.n, NULL) : 0;
		return true;
	case COLLECTIVES:
		*out = hdl_coll_counter_read(h->v.n);
		return true;
	case MATCHING:
		*out = hdl_mpi_matching ? *(const size_t *)((const char *)hdl_mpi_matching + levels[h->v.n].at) : 0;
		return true;
	case OF_PEERS:
		break;
	}
	comm = hdl_comm_get(h->comm);
	if (!comm || comm->serial != h->serial)
		return false;
	for (int r = 0; r < h->count; r++) {
		struct hdl_ep *ep = hdl_mpi_tp ? hdl_ep_find(hdl_mpi_tp, hdl_comm_proc(comm, r)) : NULL;

		out[r] = ep ? hdl_counter_read(hdl_mpi_tp, h->v.n, ep) : 0;
	}
	return true;
}

static void keep_session(void *session, void *arg)
{
	const struct MPI_ABI_T_pvar_session *s = session;
	unsigned long long *now;

	(void)arg;
	for (struct MPI_ABI_T_pvar_handle *h = s->first; h; h = h->next) {
		if (h->v.kind != TRANSPORT && h->v.kind != OF_PEERS)
			continue;
		now = calloc((size_t)h->count, sizeof(*now));
		if (now && pvar_values(h, now))
			for (int i = 0; i < h->count; i++)
				h->base[i] -= now[i];
		free(now);
	}
}

/* The next instance's counters begin with 0, and the handles go on from their values. */
void hdl_tool_pvar_keep(void)
{
	hdl_pool_each(&sessions, keep_session, NULL);
}

int PMPI_T_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index, void *obj_handle, MPI_T_pvar_handle *handle, int *count)
{
	HDL_TOOL;
	struct MPI_ABI_T_pvar_session *s = session_get(session);
	struct MPI_ABI_T_pvar_handle *h;
	struct hdl_comm *comm = NULL;
	struct pvar v;

	if (!handle)
		return MPI_T_ERR_INVALID;
	*handle = MPI_T_PVAR_HANDLE_NULL;
	if (!s)
		return MPI_T_ERR_INVALID_SESSION;
	if (pvar_index < 0 || !pvar_at((unsigned)pvar_index, &v))
		return MPI_T_ERR_INVALID_INDEX;
	if (v.kind == OF_PEERS && (!obj_handle || !(comm = hdl_comm_get(*(MPI_Comm *)obj_handle))))
		return MPI_T_ERR_INVALID_HANDLE;
	h = hdl_pool_take(&pvars);
	if (!h)
		return MPI_T_ERR_OUT_OF_HANDLES;
	h->v = v;
	h->comm = comm ? *(MPI_Comm *)obj_handle : MPI_COMM_NULL;
	h->serial = comm ? comm->serial : 0;
	h->count = comm ? comm->size : 1;
	h->base = h->count == 1 ? &h->one : calloc((size_t)h->count, sizeof(*h->base));
	if (!h->base) {
		hdl_pool_put(&pvars, h);
		return MPI_T_ERR_MEMORY;
	}
	h->obj = (struct hdl_object){ HDL_MAGIC_PVAR, 1 };
	h->session = s;
	h->next = s->first;
	h->link = &s->first;
	if (s->first)
		s->first->link = &h->next;
	s->first = h;
	if (is_counter(&v))
		pvar_values(h, h->base);
	*handle = h;
	hdl_tool_int(count, h->count);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_pvar_handle_alloc);

/* Returns 0 and the handle, or the error class for a handle that is none of the session. */
static int pvar_of(MPI_T_pvar_session session, MPI_T_pvar_handle handle, struct MPI_ABI_T_pvar_handle **out)
{
	struct MPI_ABI_T_pvar_session *s = session_get(session);

	if (!s)
		return MPI_T_ERR_INVALID_SESSION;
	*out = handle == MPI_T_PVAR_ALL_HANDLES ? NULL : pvar_get(handle);
	return *out && (*out)->session == s ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

int PMPI_T_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle *handle)
{
	HDL_TOOL;
	struct MPI_ABI_T_pvar_handle *h;
	int rc = handle ? pvar_of(session, *handle, &h) : MPI_T_ERR_INVALID_HANDLE;

	if (rc)
		return rc;
	pvar_free(h);
	*handle = MPI_T_PVAR_HANDLE_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_pvar_handle_free);

/* All variables are continuous: none is started or stopped. With MPI_T_PVAR_ALL_HANDLES such handles are passed over. */
static int pvar_start_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
	struct MPI_ABI_T_pvar_handle *h;
	int rc;

	if (handle == MPI_T_PVAR_ALL_HANDLES)
		return session_get(session) ? MPI_SUCCESS : MPI_T_ERR_INVALID_SESSION;
	rc = pvar_of(session, handle, &h);
	return rc ? rc : MPI_T_ERR_PVAR_NO_STARTSTOP;
}

int PMPI_T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
	HDL_TOOL;
	return pvar_start_stop(session, handle);
}
HDL_PROFILED(T_pvar_start);

int PMPI_T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
	HDL_TOOL;
	return pvar_start_stop(session, handle);
}
HDL_PROFILED(T_pvar_stop);

/* Reads the handle's values into to, and makes them 0 if reset. */
static int pvar_read(struct MPI_ABI_T_pvar_handle *h, unsigned long long *to, bool reset)
{
	if (!to)
		return MPI_T_ERR_INVALID;
	if (!pvar_values(h, to))
		return MPI_T_ERR_INVALID_HANDLE;
	for (int i = 0; i < h->count; i++) {
		to[i] -= h->base[i];
		if (reset)
			h->base[i] += to[i];
	}
	return MPI_SUCCESS;
}

int PMPI_T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
	HDL_TOOL;
	struct MPI_ABI_T_pvar_handle *h;
	int rc = pvar_of(session, handle, &h);

	return rc ? rc : pvar_read(h, buf, false);
}
HDL_PROFILED(T_pvar_read);

int PMPI_T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
	HDL_TOOL;
	struct MPI_ABI_T_pvar_handle *h;
	int rc = pvar_of(session, handle, &h);

	if (rc)
		return rc;
	return is_counter(&h->v) ? pvar_read(h, buf, true) : MPI_T_ERR_PVAR_NO_ATOMIC;
}
HDL_PROFILED(T_pvar_readreset);

int PMPI_T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf)
{
	HDL_TOOL;
	struct MPI_ABI_T_pvar_handle *h;
	int rc = pvar_of(session, handle, &h);
	const unsigned long long *from = buf;

	if (rc)
		return rc;
	if (!is_counter(&h->v))
		return MPI_T_ERR_PVAR_NO_WRITE;
	if (!from)
		return MPI_T_ERR_INVALID;
	if (!pvar_values(h, h->base))
		return MPI_T_ERR_INVALID_HANDLE;
	for (int i = 0; i < h->count; i++)
		h->base[i] -= from[i];
	return MPI_SUCCESS;
}
HDL_PROFILED(T_pvar_write);

int PMPI_T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
	HDL_TOOL;
	struct MPI_ABI_T_pvar_session *s = session_get(session);
	struct MPI_ABI_T_pvar_handle *h;
	int rc;

	if (s && handle == MPI_T_PVAR_ALL_HANDLES) {
		for (h = s->first; h; h = h->next)
			if (is_counter(&h->v))
				pvar_values(h, h->base);
		return MPI_SUCCESS;
	}
	rc = pvar_of(session, handle, &h);
	if (rc)
		return rc;
	if (!is_counter(&h->v))
		return MPI_T_ERR_PVAR_NO_WRITE;
	return pvar_values(h, h->base) ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}
HDL_PROFILED(T_pvar_reset);
