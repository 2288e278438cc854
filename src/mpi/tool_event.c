/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events (MPI-5.0 section 15.3.8): those of runtime/events.h, from one source, whose clock is CLOCK_MONOTONIC.
 *
 * The library raises an event inside of an MPI call, with its lock held. There a callback may call the functions that the
 * standard lists for MPI_T_CB_REQUIRE_MPI_RESTRICTED and no other. So an event goes to the callback of the lowest level from
 * there on for which the registration has one. Without such a callback the event is dropped, and counted; the registration's
 * handler of dropped events is called before the next event that is delivered, and when the registration is freed. The lock may
 * be taken again by its holder, so a callback may call functions of MPI_T.
 *
 * A registration that its own callback frees stays until the delivery has ended.
 */
#include "mpi/info.h"
#include "mpi/tool.h"
#include "runtime/events.h"

#include <string.h>

#define ELEMENTS 2


static const struct event {
	const char *name, *text;
	enum hdl_tool_category category;
	int elements;
	const struct hdl_tool_enum *values;	/* of elements of MPI_INT; NULL: none */
	MPI_Datatype type[ELEMENTS];
	MPI_Aint at[ELEMENTS];
	size_t bytes[ELEMENTS];
} events[HDL_EVENTS] = {
	[HDL_EVENT_PEER_FAILED] = {
		"peer_failed", "A process has failed or cannot be reached; one that ended in order has not failed. Elements: its "
			       "rank in MPI_COMM_WORLD, or its number if it is of another job; the errno", HDL_CAT_P2P, 2, NULL,
		{ MPI_INT, MPI_UNSIGNED_LONG_LONG },
		{ offsetof(struct hdl_event_peer, process), offsetof(struct hdl_event_peer, value) },
		{ sizeof(int), sizeof(unsigned long long) } },
	[HDL_EVENT_UNEXPECTED_LIMIT] = {
		"unexpected_limit", "Unexpected messages exceed HEDDLE_UNEXPECTED_MAX, and a process that sends them has to "
				    "announce its "
		"messages. Elements: its rank in MPI_COMM_WORLD; bytes of all unexpected messages", HDL_CAT_P2P, 2, NULL,
		{ MPI_INT, MPI_UNSIGNED_LONG_LONG },
		{ offsetof(struct hdl_event_peer, process), offsetof(struct hdl_event_peer, value) },
		{ sizeof(int), sizeof(unsigned long long) } },
	[HDL_EVENT_COLL_ON_HOST] = {
		"collective_on_host", "The host executor ran a collective that had been chosen for mailbox or tasks. Element: "
				      "the collective",
		HDL_CAT_COLLECTIVES, 1, &hdl_tool_collectives,
		{ MPI_INT }, { offsetof(struct hdl_event_coll, collective) }, { sizeof(int) } },
};

/* The safety levels, from the lowest on. */
enum { NONE, RESTRICTED, THREAD_SAFE, SIGNAL_SAFE, LEVELS };
static const MPI_T_cb_safety level_of[LEVELS] = {MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_MPI_RESTRICTED,
						 MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE};

struct MPI_ABI_T_event_registration {
	struct hdl_object obj;
	struct MPI_ABI_T_event_registration *next, **link;
	enum hdl_event event;
	struct {
		MPI_T_event_cb_function *fn;
		void *arg;
	} callback[LEVELS];
	MPI_T_event_dropped_cb_function *dropped_fn;
	void *dropped_arg;
	MPI_Count dropped;
	bool dead;			/* freed during a delivery, which takes it out */
};

/* An event that is being delivered: lies on the stack of the delivering thread, and is valid during the callback. */
struct MPI_ABI_T_event_instance {
	const struct event *event;
	const char *elements;
	uint64_t time;			/* ns */
	struct MPI_ABI_T_event_instance *outer;	/* delivered further out */
};

static struct hdl_pool registrations = HDL_POOL(struct MPI_ABI_T_event_registration, 8);
static struct MPI_ABI_T_event_registration *first;
static struct MPI_ABI_T_event_instance *delivered;	/* innermost first */

static struct MPI_ABI_T_event_registration *registration_get(MPI_T_event_registration r)
{
	return hdl_pool_find(&registrations, r, HDL_MAGIC_REGISTRATION, sizeof(struct MPI_ABI_T_event_registration));
}

static void registration_free(struct MPI_ABI_T_event_registration *r)
{
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	hdl_pool_put(&registrations, r);
	if (!first)
		hdl_event_hook = NULL;
}

static void report_dropped(struct MPI_ABI_T_event_registration *r, MPI_T_cb_safety safety)
{
	MPI_Count n = r->dropped;

	r->dropped = 0;
	if (n && r->dropped_fn)
		r->dropped_fn(n, r, 0, safety, r->dropped_arg);
}

static void event_deliver(struct MPI_ABI_T_event_registration *r, struct MPI_ABI_T_event_instance *instance)
{
	int level = RESTRICTED;

	while (level < LEVELS && !r->callback[level].fn)
		level++;
	if (level == LEVELS) {
		r->dropped++;
		return;
	}
	report_dropped(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED);
	if (!r->dead)
		r->callback[level].fn(instance, r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, r->callback[level].arg);
}

/* hdl_event_hook */
static void raised(enum hdl_event event, const void *elements)
{
	struct MPI_ABI_T_event_instance instance = { &events[event], elements, monotonic_ns(), delivered };
	struct MPI_ABI_T_event_registration *r, *next;

	delivered = &instance;
	for (r = first; r; r = r->next)
		if (r->event == event && !r->dead)
			event_deliver(r, &instance);
	delivered = instance.outer;
	if (delivered)
		return;
	for (r = first; r; r = next) {
		next = r->next;
		if (r->dead)
			registration_free(r);
	}
}

void hdl_tool_event_fini(void)
{
	hdl_event_hook = NULL;
	first = NULL;
	hdl_pool_fini(&registrations);
}

enum hdl_tool_category hdl_tool_event_category(unsigned i)
{
	return events[i].category;
}

static const char *event_name(unsigned i)
{
	return i < HDL_EVENTS ? events[i].name : NULL;
}

/* ---- sources --------------------------------------------------------------------------------------------------- */

/* Returns an info object without keys, for functions that tell the hints in use. info may be NULL. */
static int no_hints(MPI_Info *info)
{
	struct hdl_info *none;

	if (!info)
		return MPI_SUCCESS;
	none = hdl_info_new();
	*info = none ? hdl_info_handle(none) : MPI_INFO_NULL;
	return none ? MPI_SUCCESS : MPI_T_ERR_MEMORY;
}

int PMPI_T_source_get_num(int *num_sources)
{
	HDL_TOOL;
	if (!num_sources)
		return MPI_T_ERR_INVALID;
	*num_sources = 1;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_source_get_num);

int PMPI_T_source_get_info(int source_index, char *name, int *name_len, char *desc, int *desc_len, MPI_T_source_order *ordering,
			   MPI_Count *ticks_per_second, MPI_Count *max_ticks, MPI_Info *info)
{
	HDL_TOOL_GIVES(info);
	if (source_index)
		return MPI_T_ERR_INVALID_INDEX;
	hdl_tool_text("heddle", name, name_len);
	hdl_tool_text("The library in this process; times are of CLOCK_MONOTONIC", desc, desc_len);
	if (ordering)
		*ordering = MPI_T_SOURCE_ORDERED;
	if (ticks_per_second)
		*ticks_per_second = 1000000000;
	if (max_ticks)
		*max_ticks = INT64_MAX;
	return no_hints(info);
}
HDL_PROFILED(T_source_get_info);

int PMPI_T_source_get_timestamp(int source_index, MPI_Count *timestamp)
{
	HDL_TOOL;
	if (source_index)
		return MPI_T_ERR_INVALID_INDEX;
	if (!timestamp)
		return MPI_T_ERR_INVALID;
	*timestamp = (MPI_Count)monotonic_ns();
	return MPI_SUCCESS;
}
HDL_PROFILED(T_source_get_timestamp);

/* ---- event types ----------------------------------------------------------------------------------------------- */

static bool is_event(int i)
{
	return i >= 0 && i < HDL_EVENTS;
}

int PMPI_T_event_get_num(int *num_events)
{
	HDL_TOOL;
	if (!num_events)
		return MPI_T_ERR_INVALID;
	*num_events = HDL_EVENTS;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_get_num);

int PMPI_T_event_get_index(const char *name, int *event_index)
{
	HDL_TOOL;
	int i;

	if (!name || !event_index)
		return MPI_T_ERR_INVALID;
	i = hdl_tool_find(name, event_name);
	if (i < 0)
		return MPI_T_ERR_INVALID_NAME;
	*event_index = i;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_get_index);

/* *num_elements: room in the arrays; on return the number of elements of the event. */
int PMPI_T_event_get_info(int event_index, char *name, int *name_len, int *verbosity, MPI_Datatype array_of_datatypes[],
			  MPI_Aint array_of_displacements[], int *num_elements, MPI_T_enum *enumtype, MPI_Info *info, char *desc,
			  int *desc_len, int *bind)
{
	HDL_TOOL_GIVES(info);
	const struct event *e;

	if (!is_event(event_index))
		return MPI_T_ERR_INVALID_INDEX;
	e = &events[event_index];
	hdl_tool_text(e->name, name, name_len);
	hdl_tool_text(e->text, desc, desc_len);
	hdl_tool_int(verbosity, MPI_T_VERBOSITY_USER_DETAIL);
	for (int i = 0; num_elements && i < e->elements && i < *num_elements; i++) {
		if (array_of_datatypes)
			array_of_datatypes[i] = e->type[i];
		if (array_of_displacements)
			array_of_displacements[i] = e->at[i];
	}
	hdl_tool_int(num_elements, e->elements);
	if (enumtype)
		*enumtype = e->values ? hdl_tool_enum_handle(e->values) : MPI_T_ENUM_NULL;
	hdl_tool_int(bind, MPI_T_BIND_NO_OBJECT);
	return no_hints(info);
}
HDL_PROFILED(T_event_get_info);

/* ---- registrations --------------------------------------------------------------------------------------------- */

/* Hints are ignored, as section 15.3.8 allows. */
int PMPI_T_event_handle_alloc(int event_index, void *obj_handle, MPI_Info info, MPI_T_event_registration *event_registration)
{
	HDL_TOOL;
	struct MPI_ABI_T_event_registration *r;

	(void)obj_handle;
	(void)info;
	if (!event_registration)
		return MPI_T_ERR_INVALID;
	*event_registration = NULL;
	if (!is_event(event_index))
		return MPI_T_ERR_INVALID_INDEX;
	r = hdl_pool_take(&registrations);
	if (!r)
		return MPI_T_ERR_OUT_OF_HANDLES;
	r->event = (enum hdl_event)event_index;
	r->obj = (struct hdl_object){ HDL_MAGIC_REGISTRATION, 1 };
	r->next = first;
	r->link = &first;
	if (first)
		first->link = &r->next;
	first = r;
	hdl_event_hook = raised;
	*event_registration = r;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_handle_alloc);

int PMPI_T_event_handle_set_info(MPI_T_event_registration event_registration, MPI_Info info)
{
	HDL_TOOL;
	(void)info;
	return registration_get(event_registration) ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}
HDL_PROFILED(T_event_handle_set_info);

int PMPI_T_event_handle_get_info(MPI_T_event_registration event_registration, MPI_Info *info_used)
{
	HDL_TOOL_GIVES(info_used);
	return registration_get(event_registration) ? no_hints(info_used) : MPI_T_ERR_INVALID_HANDLE;
}
HDL_PROFILED(T_event_handle_get_info);

/* Returns the index of a safety level, or -1. */
static int level_index(MPI_T_cb_safety safety)
{
	for (int i = 0; i < LEVELS; i++)
		if (level_of[i] == safety)
			return i;
	return -1;
}

/* event_cb_function NULL: the level has no callback from here on. */
int PMPI_T_event_register_callback(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, MPI_Info info,
				   void *user_data, MPI_T_event_cb_function event_cb_function)
{
	HDL_TOOL;
	struct MPI_ABI_T_event_registration *r = registration_get(event_registration);
	int level = level_index(cb_safety);

	(void)info;
	if (!r || r->dead)
		return MPI_T_ERR_INVALID_HANDLE;
	if (level < 0)
		return MPI_T_ERR_INVALID;
	r->callback[level].fn = event_cb_function;
	r->callback[level].arg = user_data;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_register_callback);

/* Returns MPI_SUCCESS if the registration has a callback of this level. */
static int has_callback(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety)
{
	struct MPI_ABI_T_event_registration *r = registration_get(event_registration);
	int level = level_index(cb_safety);

	if (!r)
		return MPI_T_ERR_INVALID_HANDLE;
	return level < 0 || !r->callback[level].fn ? MPI_T_ERR_INVALID : MPI_SUCCESS;
}

int PMPI_T_event_callback_set_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, MPI_Info info)
{
	HDL_TOOL;
	(void)info;
	return has_callback(event_registration, cb_safety);
}
HDL_PROFILED(T_event_callback_set_info);

int PMPI_T_event_callback_get_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, MPI_Info *info_used)
{
	HDL_TOOL_GIVES(info_used);
	int rc = has_callback(event_registration, cb_safety);

	return rc ? rc : no_hints(info_used);
}
HDL_PROFILED(T_event_callback_get_info);

int PMPI_T_event_set_dropped_handler(MPI_T_event_registration event_registration,
				     MPI_T_event_dropped_cb_function dropped_cb_function)
{
	HDL_TOOL;
	struct MPI_ABI_T_event_registration *r = registration_get(event_registration);

	if (!r || r->dead)
		return MPI_T_ERR_INVALID_HANDLE;
	r->dropped_fn = dropped_cb_function;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_set_dropped_handler);

/* No callback runs once free_cb_function has been called: no event is delivered outside of the lock. */
int PMPI_T_event_handle_free(MPI_T_event_registration event_registration, void *user_data,
			     MPI_T_event_free_cb_function free_cb_function)
{
	HDL_TOOL;
	struct MPI_ABI_T_event_registration *r = registration_get(event_registration);
	MPI_T_cb_safety safety = delivered ? MPI_T_CB_REQUIRE_MPI_RESTRICTED : MPI_T_CB_REQUIRE_NONE;

	if (!r || r->dead)
		return MPI_T_ERR_INVALID_HANDLE;
	/* ahead of the program's functions, which may call this function for r */
	r->dead = true;
	report_dropped(r, safety);
	if (free_cb_function)
		free_cb_function(r, safety, user_data);
	if (!delivered)
		registration_free(r);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_handle_free);

/* ---- instances: within a callback, on the thread that delivers ------------------------------------------------- */

static const struct MPI_ABI_T_event_instance *instance_get(MPI_T_event_instance instance)
{
	const struct MPI_ABI_T_event_instance *i = delivered;

	while (i && i != instance)
		i = i->outer;
	return i;
}

int PMPI_T_event_read(MPI_T_event_instance event_instance, int element_index, void *buffer)
{
	HDL_TOOL;
	const struct MPI_ABI_T_event_instance *i = instance_get(event_instance);

	if (!i)
		return MPI_T_ERR_INVALID_HANDLE;
	if (element_index < 0 || element_index >= i->event->elements)
		return MPI_T_ERR_INVALID_INDEX;
	if (!buffer)
		return MPI_T_ERR_INVALID;
	memcpy(buffer, i->elements + i->event->at[element_index], i->event->bytes[element_index]);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_read);

/* The elements stand where MPI_T_event_get_info's displacements say. */
int PMPI_T_event_copy(MPI_T_event_instance event_instance, void *buffer)
{
	HDL_TOOL;
	const struct MPI_ABI_T_event_instance *i = instance_get(event_instance);

	if (!i)
		return MPI_T_ERR_INVALID_HANDLE;
	if (!buffer)
		return MPI_T_ERR_INVALID;
	for (int k = 0; k < i->event->elements; k++)
		memcpy((char *)buffer + i->event->at[k], i->elements + i->event->at[k], i->event->bytes[k]);
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_copy);

int PMPI_T_event_get_timestamp(MPI_T_event_instance event_instance, MPI_Count *event_timestamp)
{
	HDL_TOOL;
	const struct MPI_ABI_T_event_instance *i = instance_get(event_instance);

	if (!i)
		return MPI_T_ERR_INVALID_HANDLE;
	if (!event_timestamp)
		return MPI_T_ERR_INVALID;
	*event_timestamp = (MPI_Count)i->time;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_get_timestamp);

int PMPI_T_event_get_source(MPI_T_event_instance event_instance, int *source_index)
{
	HDL_TOOL;
	if (!instance_get(event_instance))
		return MPI_T_ERR_INVALID_HANDLE;
	if (!source_index)
		return MPI_T_ERR_INVALID;
	*source_index = 0;
	return MPI_SUCCESS;
}
HDL_PROFILED(T_event_get_source);
