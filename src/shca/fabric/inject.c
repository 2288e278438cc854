/* SPDX-License-Identifier: BSD-3-Clause */
/* The events of the port and the device that shcactl inject raises. */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "shca/fabric/fabric.h"

#define LID_MAX 0xbfffu			/* the last unicast one */

/* port 0: an event of the device. */
static void note_event(struct shca_ports *p, uint32_t port, enum ibv_event_type type)
{
	for (;;) {
		uint64_t pos = atomic_load(&p->events);
		_Atomic uint64_t *at = &p->event[pos % SHCA_PORT_EVENTS];
		uint64_t was = atomic_load(at), mine = (pos + 1) << 8 | port << 6 | (uint32_t)type;
		/* another process's event, not counted yet: this process counts it, in case the other one does not come to it */
		bool done = was >> 8 <= pos && atomic_compare_exchange_strong(at, &was, mine);
		atomic_compare_exchange_strong(&p->events, &pos, pos + 1);
		if (done)
			return;
	}
}

/* Wakes every process: waiters for events, sleepers in shca_sleep_commit, and, if the device is broken, the helper threads. */
static void tell_all(struct shca_member *m)
{
	uint32_t n = atomic_load(&m->hdr->proc_high);

	for (uint32_t i = 0; i < n && i < SHCA_MAX_PROCS; i++) {
		struct shca_proc_slot *p = &m->procs[i];
		if ((atomic_load(&p->state) & 255) != SHCA_PROC_LIVE)
			continue;
		atomic_store(&p->async_pending, 1);
		shca_bell_ring(m, p->async_addr);
		shca_bell_ring(m, p->cm_addr);
		if (atomic_exchange(&p->sleepers, 0)) {
			atomic_fetch_add(&p->wake, 1);
			shca_futex_wake(&p->wake);
		}
		if (shca_device_broken(m))
			shca_helper_call(m, i);
	}
}

/* ---- the events that can be injected ---------------------------------------------------------------------------- */

static uint64_t next_lid(const _Atomic uint32_t *lid)
{
	return atomic_load(lid) % LID_MAX + 1;
}

static uint64_t lid_after(const struct shca_port *p)
{
	return next_lid(&p->lid);
}

static uint64_t sm_lid_after(const struct shca_port *p)
{
	return next_lid(&p->sm_lid);
}

static uint64_t other_pkey(const struct shca_port *p)
{
	return atomic_load(&p->pkey) == SHCA_PKEY ? 0x8001 : SHCA_PKEY;
}

static uint64_t other_prefix(const struct shca_port *p)
{
	return atomic_load(&p->gid_prefix) == SHCA_GID_PREFIX ? 0xfec0000000000001ull : SHCA_GID_PREFIX;
}

static const struct what {
	const char *name;
	enum ibv_event_type event;
	size_t word;			/* of struct shca_port; 0: none (gid_prefix, at 0, has a store of its own) */
	uint64_t set;			/* new value, unless the program gives one or `another` makes one: */
	uint64_t (*another)(const struct shca_port *p);
	uint64_t least, most;
	const char *text;
} whats[] = {
	{ "port-down", IBV_EVENT_PORT_ERR, offsetof(struct shca_port, down), 1, NULL, 0, 0, "no packet gets anywhere" },
	{ "port-up", IBV_EVENT_PORT_ACTIVE, offsetof(struct shca_port, down), 0, NULL, 0, 0, "they do again" },
	{ "lid-change", IBV_EVENT_LID_CHANGE, offsetof(struct shca_port, lid), 0, lid_after, 1, LID_MAX,
	  "[LID] the port's address" },
	{ "pkey-change", IBV_EVENT_PKEY_CHANGE, offsetof(struct shca_port, pkey), 0, other_pkey, 0, 0xffff,
	  "[P_KEY] the table's entry; no full member (below 0x8000): no process reaches another" },
	{ "sm-change", IBV_EVENT_SM_CHANGE, offsetof(struct shca_port, sm_lid), 0, sm_lid_after, 1, LID_MAX,
	  "[LID] where the subnet manager is" },
	{ "gid-change", IBV_EVENT_GID_CHANGE, offsetof(struct shca_port, gid_prefix), 0, other_prefix, 1, UINT64_MAX,
	  "[PREFIX] of 64 bits, of the port's GID" },
	{ "client-reregister", IBV_EVENT_CLIENT_REREGISTER, 0, 0, NULL, 0, 0, "the subnet manager has forgotten its clients" },
	{ "device-fatal", IBV_EVENT_DEVICE_FATAL, 0, 1, NULL, 0, 0,
	  "all queues fail; verbs say EIO until all processes have closed the device" },
};

void shca_port_help(FILE *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(whats); i++)
		fprintf(out, "  %-18s%s\n", whats[i].name, whats[i].text);
}

static void port_store(struct shca_port *p, const struct what *w, uint64_t v)
{
	if (w->event == IBV_EVENT_GID_CHANGE)
		atomic_store(&p->gid_prefix, v);
	else if (w->word)
		atomic_store((_Atomic uint32_t *)((char *)p + w->word), (uint32_t)v);
}

/* Returns in *v the value in `text`, or without text the event's own. false, with text on stderr. */
static bool inject_value_of(const struct what *w, const struct shca_port *p, const char *text, uint64_t *v)
{
	char *end;

	*v = w->another ? w->another(p) : w->set;
	if (!text)
		return true;
	errno = 0;
	if (w->another)
		*v = strtoull(text, &end, 0);
	if (w->another && !errno && end != text && !*end && *text != '-' && *v >= w->least && *v <= w->most)
		return true;
	if (w->another)
		shca_error("inject %s: \"%s\" is no number from %#llx to %#llx", w->name, text, (unsigned long long)w->least,
			   (unsigned long long)w->most);
	else
		shca_error("inject %s takes no value, but was given \"%s\"", w->name, text);
	return false;
}

/* Returns whether v, the LID that the event gives to port number `port`, is the other port's. */
static bool lid_taken(const struct shca_member *m, const struct what *w, uint32_t port, uint64_t v)
{
	return w->event == IBV_EVENT_LID_CHANGE && v == shca_lid(m, 3 - port) && atomic_load(&m->hdr->ports.two);
}

int shca_port_inject(struct shca_member *m, uint32_t port, const char *event, const char *value)
{
	struct shca_port *p = shca_port_of(m, port);
	const struct what *w = whats;
	uint64_t v;

	while (w < whats + ARRAY_SIZE(whats) && strcmp(w->name, event))
		w++;
	if (w == whats + ARRAY_SIZE(whats)) {
		shca_error("\"%s\" is nothing that can be injected: see shcactl inject", event);
		return -EINVAL;
	}
	if (port < 1 || port > SHCA_PORTS_MAX) {
		shca_error("inject %s: port %u: the device has ports 1 and 2", event, port);
		return -EINVAL;
	}
	if (!inject_value_of(w, p, value, &v))
		return -EINVAL;
	if (lid_taken(m, w, port, v)) {
		if (value) {
			shca_error("inject %s: LID %s is the other port's", event, value);
			return -EINVAL;
		}
		v = v % LID_MAX + 1;
	}
	int err = shca_sockets_init(m);
	if (err)
		return err;
	/* the effect on traffic before the notification */
	bool fatal = w->event == IBV_EVENT_DEVICE_FATAL;
	if (fatal)
		atomic_store(&m->hdr->ports.broken, 1);
	else
		port_store(p, w, v);
	shca_ports_changed(m);
	note_event(&m->hdr->ports, fatal ? 0 : port, w->event);
	tell_all(m);
	shca_sockets_free(m);
	return 0;
}
