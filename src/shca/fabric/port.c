/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's ports, the same for all processes of the fabric, as the host has them.
 *
 * The effect of an event on traffic is the port's state, which an executor reads while SHCA_BY_PATH is set in the slot of the
 * responder's process. The bit is in the validity word, which peers compare before they use a remembered look-up: so the check
 * costs a sender nothing in a fabric of one port that is up. The event itself stands in the header, and each context reads the
 * event at a time of its own: a stopped process delays no other process.
 */
#include "shca/fabric/fabric.h"

#define PKEY_FULL 0x8000u

void shca_port_init(struct shca_ports *p)
{
	*p = (struct shca_ports){.port = {
		{.lid = SHCA_LID, .sm_lid = SHCA_LID, .pkey = SHCA_PKEY, .gid_prefix = SHCA_GID_PREFIX},
		{.lid = SHCA_LID_2, .sm_lid = SHCA_LID, .pkey = SHCA_PKEY, .gid_prefix = SHCA_GID_PREFIX},
	}};
}

/* IBTA 10.9.3: two ports can communicate if their P_Keys name one partition, and at least one of them is a full member. P_Key
 * 0 and 0x8000 name none. */
bool shca_ports_connect(const struct shca_ports *p, uint32_t a, uint32_t b)
{
	if (a < 1 || a > SHCA_PORTS_MAX || b < 1 || b > SHCA_PORTS_MAX || atomic_load(&p->broken))
		return false;
	uint32_t of_a = atomic_load(&p->port[a - 1].pkey), of_b = atomic_load(&p->port[b - 1].pkey);
	return !atomic_load(&p->port[a - 1].down) && !atomic_load(&p->port[b - 1].down) && (of_a & ~PKEY_FULL) &&
	       !((of_a ^ of_b) & ~PKEY_FULL) && ((of_a | of_b) & PKEY_FULL);
}

/* Returns true if the path decides whether a request reaches its destination. */
static bool by_path(const struct shca_ports *p)
{
	return atomic_load(&p->two) || !shca_ports_connect(p, 1, 1);
}

/* Stores SHCA_BY_PATH of a slot. Any number of processes may do so at once, each for a change of its own: the last to store has
 * read the ports after the last change. */
void shca_port_mark(struct shca_member *m, uint32_t slot)
{
	_Atomic uint32_t *word = &m->procs[slot].revoke_epoch;
	bool by;

	do {
		by = by_path(&m->hdr->ports);
		if (by)
			atomic_fetch_or(word, SHCA_BY_PATH);
		else
			atomic_fetch_and(word, ~SHCA_BY_PATH);
	} while (by != by_path(&m->hdr->ports));
}

static void mark_and_revoke(struct shca_member *m, uint32_t slot)
{
	shca_port_mark(m, slot);
	/* the bit may be as before: a port more is down, or one less */
	atomic_fetch_add(&m->procs[slot].revoke_epoch, SHCA_REVOKE_STEP);
}

void shca_ports_changed(struct shca_member *m)
{
	uint32_t n = atomic_load(&m->hdr->proc_high);

	for (uint32_t i = 0; i < n && i < SHCA_MAX_PROCS; i++)
		mark_and_revoke(m, i);
	/* common queue pairs */
	mark_and_revoke(m, SHCA_COMMON);
}

void shca_ports_are_two(struct shca_member *m)
{
	if (!atomic_exchange(&m->hdr->ports.two, 1))
		shca_ports_changed(m);
}

void shca_port_moved(const struct shca_member *m, const struct shca_qp *qp, uint32_t from, uint32_t to, uint64_t packets)
{
	uint64_t msgs = atomic_load(&qp->n_msgs), bytes = atomic_load(&qp->n_bytes);
	struct shca_port *a = shca_port_of(m, from), *b = shca_port_of(m, to);

	if (a == b)
		return;
	atomic_fetch_add(&a->moved_msgs, msgs);
	atomic_fetch_sub(&b->moved_msgs, msgs);
	atomic_fetch_add(&a->moved_bytes, bytes);
	atomic_fetch_sub(&b->moved_bytes, bytes);
	atomic_fetch_add(&a->moved_packets, packets);
	atomic_fetch_sub(&b->moved_packets, packets);
}
