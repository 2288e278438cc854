/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations by number. Numbers travel in messages, so they are checked: the generation of an entry tells an old number. */
#ifndef HDL_IDS_H
#define HDL_IDS_H

#include <stdint.h>

struct hdl_idtab {
	struct hdl_identry { void *p; uint32_t gen, next; } *e;
	uint32_t n, free;		/* free: index + 1 of the first free entry */
	uint32_t used;
};

/* A number of the first HDL_ID_FEW entries: 0, generation (11 bits), index (20 bits); of later entries: 1, generation (3 bits),
 * index (28 bits). So the table grows while there is memory, and the numbers of a usual job have long generations. */
#define HDL_ID_FEW (1u << 20)
#define HDL_ID_MOST (1u << 28)

/* Gives p a number. 0, or -ENOMEM: no memory, or HDL_ID_MOST operations have a number. */
int hdl_id_new(struct hdl_idtab *t, void *p, uint32_t *id);
/* The operation of this number, or NULL. */
void *hdl_id_get(const struct hdl_idtab *t, uint32_t id);
void hdl_id_free(struct hdl_idtab *t, uint32_t id);

#endif
