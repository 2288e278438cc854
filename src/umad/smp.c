/* SPDX-License-Identifier: BSD-3-Clause */
/* Subnet management, IBTA 14.2.5: attributes of the adapter, by a port's agent and by the subnet manager's. Nothing can be
 * set. */
#include <stdlib.h>

#include "umad/internal.h"

enum { NODE_DESCRIPTION = 0x10, NODE_INFO = 0x11, GUID_INFO = 0x14, PORT_INFO = 0x15, PKEY_TABLE = 0x16, SM_INFO = 0x20 };
#define MASTER 3u
#define WIDTHS 3u		/* 1X, 4X */
#define SPEEDS 7u		/* 2.5, 5, 10 Gbit/s a lane */
#define EXTENDED_SPEEDS 2u	/* 25 Gbit/s a lane */

void um_node_info(const struct um_subnet *s, uint32_t port, uint8_t data[40])
{
	bool connectx = shca_is_connectx();

	data[0] = 1;		/* base version */
	data[1] = 1;		/* class version */
	data[2] = 1;		/* a channel adapter */
	data[3] = (uint8_t)s->ports;
	um_put64(data + 4, shca_device_guid());
	um_put64(data + 12, shca_device_guid());
	memcpy(data + 20, um_port_at(s, port)->gid + 8, 8);
	um_put16(data + 28, 1);	/* P_Keys */
	um_put16(data + 30, connectx ? 4123 : 1);
	um_put32(data + 32, SHCA_LAYOUT_VERSION);
	um_put32(data + 36, port << 24 | (connectx ? 0x02c9u : (uint32_t)SHCA_VENDOR_ID));
}

void um_node_description(uint8_t data[64])
{
	memcpy(data, SHCA_DEVICE_NAME, sizeof(SHCA_DEVICE_NAME));
}

void um_port_info(const struct um_subnet *s, uint32_t port, uint8_t data[64])
{
	const struct um_port *p = um_port_at(s, port);
	uint32_t caps = SHCA_PORT_CAPS | UM_CAP_EXTENDED_SPEEDS | (p->lid == p->sm_lid ? UM_CAP_IS_SM : 0);

	memcpy(data + 8, p->gid, 8);
	um_put16(data + 16, p->lid);
	um_put16(data + 18, p->sm_lid);
	um_put32(data + 20, caps);
	data[28] = (uint8_t)port;
	data[29] = data[30] = WIDTHS;
	data[31] = 2;					/* 4X */
	data[32] = (uint8_t)(SPEEDS << 4 | (p->down ? 1 : 4));
	data[33] = (uint8_t)((p->down ? 2 : 5) << 4 | 2);	/* physical state; Polling when the link goes down */
	data[35] = 4 << 4 | SPEEDS;			/* 10 Gbit/s a lane, unless the extended speed says more */
	data[36] = UM_MTU_4096 << 4;
	data[37] = 1 << 4;				/* VL 0 */
	data[41] = UM_MTU_4096;
	data[43] = 1 << 4;
	data[50] = 1;					/* GUIDs */
	data[51] = 18;					/* SubnetTimeout: 1 s */
	data[52] = 16;					/* RespTimeValue: 268 ms */
	data[62] = EXTENDED_SPEEDS << 4 | EXTENDED_SPEEDS;
	data[63] = EXTENDED_SPEEDS;
}

void um_sm_info(uint8_t data[24])
{
	um_put64(data, shca_device_guid());
	um_put32(data + 16, monotonic_ns() / 1000000000u);	/* ActCount */
	data[20] = MASTER;		/* of priority 0 */
}

uint16_t um_smp_get(const struct um_question *q, uint8_t *data)
{
	const struct um_subnet *s = q->subnet;
	uint32_t modifier = um_32(q->mad + UM_MODIFIER), attribute = um_16(q->mad + UM_ATTRIBUTE);

	if (attribute == SM_INFO) {
		um_sm_info(data);
		return UM_OK;
	}
	/* the subnet manager's LID, and no port's */
	if (!q->at)
		return UM_BAD_COMBINATION;
	switch (attribute) {
	case NODE_DESCRIPTION:
		um_node_description(data);
		return UM_OK;
	case NODE_INFO:
		um_node_info(s, q->at, data);
		return UM_OK;
	case PORT_INFO:
		if (modifier > s->ports)
			return UM_BAD_VALUE;
		um_port_info(s, modifier ? modifier : q->at, data);
		/* LocalPortNum: of the port that the SMP has come to */
		data[28] = (uint8_t)q->at;
		return UM_OK;
	case GUID_INFO:
		if (modifier)
			return UM_BAD_VALUE;
		memcpy(data, um_port_at(s, q->at)->gid + 8, 8);
		return UM_OK;
	case PKEY_TABLE:
		/* the modifier's upper half is a switch's port, which an adapter ignores */
		if (modifier & 0xffff)
			return UM_BAD_VALUE;
		um_put16(data, um_port_at(s, q->at)->pkey);
		return UM_OK;
	default:
		return UM_BAD_COMBINATION;
	}
}
