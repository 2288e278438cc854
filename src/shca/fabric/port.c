/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's port, one for all processes of the fabric, as the host has one.
 *
 * An event's effect on traffic is one bit in each process's slot (SHCA_CUT_OFF), in the validity word, which peers compare
 * before they use a remembered look-up: so the check costs a sender nothing while the port is up. The event itself stands in
 * the header, and each context reads the event at a time of its own: a stopped process delays no other process.
 */
#include "shca/fabric/fabric.h"

#define PKEY_FULL 0x8000u

void shca_port_init(struct shca_port *p)
{
	*p = (struct shca_port){.lid = SHCA_LID, .sm_lid = SHCA_LID, .pkey = SHCA_PKEY, .gid_prefix = SHCA_GID_PREFIX};
}

/* IBTA 10.9.3: two ports of one partition can communicate if at least one of them is a full member; all processes have the same
 * table here. */
static bool cut_off(const struct shca_port *p)
{
	uint32_t pkey = atomic_load(&p->pkey);

	return atomic_load(&p->down) || atomic_load(&p->broken) || !(pkey & PKEY_FULL) || !(pkey & ~PKEY_FULL);
}

/* Stores SHCA_CUT_OFF of a slot. Any number of processes may do so at once, each for a change of its own: the last to store has
 * read the port after the last change. */
void shca_port_mark(struct shca_member *m, uint32_t slot)
{
	_Atomic uint32_t *word = &m->procs[slot].revoke_epoch;
	bool cut;

	do {
		cut = cut_off(&m->hdr->port);
		if (cut)
			atomic_fetch_or(word, SHCA_CUT_OFF);
		else
			atomic_fetch_and(word, ~SHCA_CUT_OFF);
	} while (cut != cut_off(&m->hdr->port));
}
