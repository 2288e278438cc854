/* SPDX-License-Identifier: BSD-3-Clause */
/* Performance management, IBTA 16.1: the port's counters, as in its sysfs files. A reset is refused. */
#include "umad/internal.h"

enum { PORT_COUNTERS = 0x12, PORT_COUNTERS_EXTENDED = 0x1d };
enum { ALL_PORT_SELECT = 0x0100, EXTENDED_WIDTH = 0x0200, XMIT_WAIT = 0x1000 };	/* of CapabilityMask */
#define ALL_PORTS 255u
#define COUNTERS 21u

/* A counter's place in PortCounters and PortCountersExtended, in bits from the attribute's begin; of width 0: it is not there. */
static const struct place {
	const char *name;
	uint16_t bit, width, wide_bit;
} places[] = {
	{ "symbol_error", 32, 16, 0 },
	{ "link_error_recovery", 48, 8, 0 },
	{ "link_downed", 56, 8, 0 },
	{ "port_rcv_errors", 64, 16, 0 },
	{ "port_rcv_remote_physical_errors", 80, 16, 0 },
	{ "port_rcv_switch_relay_errors", 96, 16, 0 },
	{ "port_xmit_discards", 112, 16, 0 },
	{ "port_xmit_constraint_errors", 128, 8, 0 },
	{ "port_rcv_constraint_errors", 136, 8, 0 },
	{ "local_link_integrity_errors", 152, 4, 0 },
	{ "excessive_buffer_overrun_errors", 156, 4, 0 },
	{ "VL15_dropped", 176, 16, 0 },
	{ "port_xmit_data", 192, 32, 64 },
	{ "port_rcv_data", 224, 32, 128 },
	{ "port_xmit_packets", 256, 32, 192 },
	{ "port_rcv_packets", 288, 32, 256 },
	{ "port_xmit_wait", 320, 32, 0 },
	{ "unicast_xmit_packets", 0, 0, 320 },
	{ "unicast_rcv_packets", 0, 0, 384 },
	{ "multicast_xmit_packets", 0, 0, 448 },
	{ "multicast_rcv_packets", 0, 0, 512 },
};
_Static_assert(ARRAY_SIZE(places) == COUNTERS, "counters");

/* Counters stop at their largest value. Widths are 4, 8, or whole bytes. */
static void perf_put(uint8_t *data, unsigned bit, unsigned width, uint64_t v)
{
	uint64_t most = width == 64 ? UINT64_MAX : (1ull << width) - 1;

	if (v > most)
		v = most;
	if (width == 4)
		data[bit / 8] |= (uint8_t)(v << (bit % 8 ? 0 : 4));
	for (unsigned i = 0; i < width / 8; i++)
		data[bit / 8 + i] = (uint8_t)(v >> (width - 8 - 8 * i));
}

static void perf_class_port_info(uint8_t *data)
{
	data[0] = data[1] = 1;
	um_put16(data + 2, ALL_PORT_SELECT | EXTENDED_WIDTH | XMIT_WAIT);
	data[7] = 16;		/* RespTimeValue: 268 ms */
}

uint16_t um_perf_get(const struct um_question *q, uint8_t *data)
{
	uint32_t attribute = um_16(q->mad + UM_ATTRIBUTE), port = q->mad[UM_SMP_DATA + 1];
	bool wide = attribute == PORT_COUNTERS_EXTENDED;
	const char *names[COUNTERS];
	uint64_t values[COUNTERS] = {0};

	if (attribute == UM_CLASS_PORT_INFO) {
		perf_class_port_info(data);
		return UM_OK;
	}
	if (!wide && attribute != PORT_COUNTERS)
		return UM_BAD_COMBINATION;
	if (port != ALL_PORTS && (port < 1 || port > q->subnet->ports))
		return UM_BAD_VALUE;
	for (unsigned i = 0; i < COUNTERS; i++)
		names[i] = places[i].name;
	for (uint32_t p = 1; p <= q->subnet->ports; p++)
		if (p == port || port == ALL_PORTS)
			shca_counters_add(p, names, values, COUNTERS);
	data[1] = (uint8_t)port;
	for (unsigned i = 0; i < COUNTERS; i++) {
		if (wide && places[i].wide_bit)
			perf_put(data, places[i].wide_bit, 64, values[i]);
		else if (!wide && places[i].width)
			perf_put(data, places[i].bit, places[i].width, values[i]);
	}
	return UM_OK;
}
