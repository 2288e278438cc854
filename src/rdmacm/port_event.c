/* SPDX-License-Identifier: BSD-3-Clause */
/* Port events (fabric/port.c): the events of RDMA CM that ids get of them. Every channel watches the bell that they ring. */
#include "rdmacm/internal.h"

static void id_port_event(struct rcm_id *id, enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_DEVICE_FATAL:
		if (id->on_device && !id->removed) {
			id->removed = true;
			rcm_report(id, RCM_DEVICE_REMOVAL, 0);
		}
		break;
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
		if (id->on_device && id->state != RCM_CLOSED)
			rcm_report(id, RCM_ADDR_CHANGE, 0);
		break;
	/* the subnet administrator has lost the membership, as the kernel takes it */
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		rcm_groups_lost(id);
		break;
	default:
		break;
	}
}

void rcm_port_events(void)
{
	enum ibv_event_type type;
	uint32_t port;

	pthread_mutex_lock(&rcm_registry);
	/* before the look: a ring that comes behind it is another event's */
	rcm_port_bell_drain();
	while (rcm_port_event_take(&type, &port))
		for (struct rcm_channel *ch = rcm_channels(); ch; ch = ch->next) {
			pthread_mutex_lock(&ch->lock);
			for (struct rcm_id *id = ch->ids; id; id = id->next)
				if (!port || port == rcm_id_port(id))
					id_port_event(id, type);
			pthread_mutex_unlock(&ch->lock);
		}
	pthread_mutex_unlock(&rcm_registry);
}
