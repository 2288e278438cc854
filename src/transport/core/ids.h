/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations by number. Numbers travel in messages, so they are checked: an entry's generation tells an old one. */
#ifndef HDL_IDS_H
#define HDL_IDS_H

#include <stdint.h>

struct hdl_idtab {
	struct hdl_identry { void *p; uint32_t gen, next; } *e;
	uint32_t n, free;		/* free: index + 1 of the first free entry */
	uint32_t used;
};

/*
 * A number of the first HDL_ID_FEW entries: 0, generation (11 bits), index (20 bits); of those behind: 1, generation (3 bits), index
 * (28 bits). So the table grows as far as there is memory, and the numbers of a usual job have long generations.
 */
#define HDL_ID_FEW (1u << 20)
#define HDL_ID_MOST (1u << 28)

/* -ENOMEM: there is no memory for more (or HDL_ID_MOST have a number). */
int hdl_id_new(struct hdl_idtab *t, void *p, uint32_t *id);
/* NULL: no operation has this number. */
void *hdl_id_get(const struct hdl_idtab *t, uint32_t id);
void hdl_id_free(struct hdl_idtab *t, uint32_t id);

#endif
