/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/peer/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int hdl_order_park(struct hdl_order *o, uint16_t seq, const void *a, size_t an, const void *b, size_t bn)
{
	struct hdl_parked **at = &o->head;
	uint16_t dist = (uint16_t)(seq - o->expected);

	while (*at && (uint16_t)((*at)->seq - o->expected) < dist)
		at = &(*at)->next;
	if (*at && (*at)->seq == seq) {
		o->duplicates++;
		return 1;
	}
	struct hdl_parked *p = malloc(sizeof(*p) + an + bn);
	if (!p)
		return -ENOMEM;
	p->seq = seq;
	p->bytes = an + bn;
	memcpy(p->data, a, an);
	if (bn)
		memcpy(p->data + an, b, bn);
	p->next = *at;
	*at = p;
	o->parked++;
	o->reordered++;
	return 0;
}

struct hdl_parked *hdl_order_next(struct hdl_order *o)
{
	struct hdl_parked *p = o->head;

	if (!p || p->seq != o->expected)
		return NULL;
	o->head = p->next;
	o->parked--;
	o->expected++;
	return p;
}

void hdl_order_clear(struct hdl_order *o)
{
	struct hdl_parked *p;

	while ((p = o->head)) {
		o->head = p->next;
		free(p);
	}
	o->parked = 0;
}
