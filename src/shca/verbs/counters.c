/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports' counters, as monitoring tools and libraries read them below /sys/class/infiniband/shca0/ports/N: counters (IBTA
 * 16.1.3.5, the names of Linux) and hw_counters (the names of adapters' drivers).
 *
 * The counters belong to the fabric that the process has joined, else to the fabric that the process would join. A port sends to
 * itself, as a rule, so transmitted messages count as received. A queue counts on the port that it is bound to. The device counts
 * messages and bytes, not packets: their number is what an adapter of the path MTU would have sent. There is no wire, so there
 * are no link errors.
 */
#include <stdio.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

struct sums {
	uint32_t port;
	uint64_t msgs, bytes, packets;
	uint64_t hw[SHCA_HW_COUNTERS];
	uint64_t drops, dups;		/* of the tap's faults */
};

static void add_queue(struct sums *s, const struct shca_qp *qp)
{
	if ((SHCA_PATH_PORT(atomic_load(&qp->path)) == 2) != (s->port == 2))
		return;
	s->msgs += atomic_load(&qp->n_msgs);
	s->bytes += atomic_load(&qp->n_bytes);
	s->packets += shca_packets_of(qp);
}

static void sum(const struct shca_member *m, void *arg)
{
	struct sums *s = arg;
	uint32_t n = shca_segments_used(m, false);

	for (uint32_t i = 0; i < n; i++) {
		const shca_dirent *seg = shca_at_checked(m, atomic_load(&m->qp_segs[i]), SHCA_QP_SEG * sizeof(shca_dirent));
		for (uint32_t k = 0; seg && k < SHCA_QP_SEG; k++) {
			uint64_t e = atomic_load(&seg[k]);
			const struct shca_qp *qp;
			if ((e & 7) == SHCA_KIND_QP && (qp = shca_at_checked(m, e & ~(uint64_t)7, sizeof(*qp))))
				add_queue(s, qp);
		}
	}
	for (unsigned i = 0; s->port == 1 && i < ARRAY_SIZE(m->hdr->retired); i++) {
		const struct shca_total *r = &m->hdr->retired[i];
		uint64_t msgs = atomic_load(&r->msgs), bytes = atomic_load(&r->bytes);
		s->msgs += msgs;
		s->bytes += bytes;
		s->packets += msgs + bytes / 4096;
	}
	const struct shca_port *port = shca_port_of(m, s->port);
	s->msgs += atomic_load(&port->moved_msgs);
	s->bytes += atomic_load(&port->moved_bytes);
	s->packets += atomic_load(&port->moved_packets);
	for (unsigned i = 0; i < SHCA_HW_COUNTERS; i++)
		s->hw[i] = atomic_load(&port->hw[i]);
	/* no fault says whose port */
	for (unsigned i = 0; s->port == 1 && i < SHCA_FAULTS; i++) {
		s->drops += atomic_load(&shca_tap_of(m)->faults[i].hits[SHCA_FATE_DROP]);
		s->dups += atomic_load(&shca_tap_of(m)->faults[i].hits[SHCA_FATE_DUP]);
	}
}

bool shca_with_fabric(void (*f)(const struct shca_member *m, void *arg), void *arg)
{
	struct shca_fabric_info *list;
	const char *name = getenv("SHCA_FABRIC");
	struct shca_member m;
	bool any = false;
	size_t n;

	if (shca_process_member(f, arg))
		return true;
	if (!name || !*name)
		name = "default";
	if (shca_fabric_list(&list, &n))
		return false;
	for (size_t i = 0; i < n && !any; i++)
		if (!strcmp(list[i].name, name) && !shca_fabric_map(&m, &list[i], SHCA_MAP_QUIET)) {
			f(&m, arg);
			shca_fabric_unmap(&m);
			any = true;
		}
	free(list);
	return any;
}

/* IBTA counts data in units of 4 bytes. */
static uint64_t data(const struct sums *s)
{
	return s->bytes / 4;
}

static uint64_t packets(const struct sums *s)
{
	return s->packets;
}

static uint64_t dups(const struct sums *s)
{
	return s->dups;
}

static uint64_t drops(const struct sums *s)
{
	return s->drops;
}

#define PORT_CLASS "/sys/class/infiniband/" SHCA_DEVICE_NAME "/ports/1"
#define IB(name) PORT_CLASS "/counters/" name
#define HW(name) PORT_CLASS "/hw_counters/" name
static const struct counter {
	const char *path;
	uint64_t (*value)(const struct sums *s);	/* NULL: `which`, of hw_counters; else 0 */
	enum shca_hw_counter which;
} counters[] = {
	{ IB("port_xmit_data"), data, 0 },
	{ IB("port_rcv_data"), data, 0 },
	{ IB("port_xmit_packets"), packets, 0 },
	{ IB("port_rcv_packets"), packets, 0 },
	{ IB("unicast_xmit_packets"), packets, 0 },
	{ IB("unicast_rcv_packets"), packets, 0 },
	{ IB("port_rcv_errors"), drops, 0 },
	{ IB("multicast_xmit_packets"), NULL, SHCA_HW_COUNTERS },
	{ IB("multicast_rcv_packets"), NULL, SHCA_HW_COUNTERS },
	{ IB("port_xmit_wait"), NULL, SHCA_HW_COUNTERS },
	{ IB("port_xmit_discards"), NULL, SHCA_HW_COUNTERS },
	{ IB("port_xmit_constraint_errors"), NULL, SHCA_HW_COUNTERS },
	{ IB("port_rcv_constraint_errors"), NULL, SHCA_HW_COUNTERS },
	{ IB("port_rcv_remote_physical_errors"), NULL, SHCA_HW_COUNTERS },
	{ IB("port_rcv_switch_relay_errors"), NULL, SHCA_HW_COUNTERS },
	{ IB("symbol_error"), NULL, SHCA_HW_COUNTERS },
	{ IB("link_error_recovery"), NULL, SHCA_HW_COUNTERS },
	{ IB("link_downed"), NULL, SHCA_HW_COUNTERS },
	{ IB("local_link_integrity_errors"), NULL, SHCA_HW_COUNTERS },
	{ IB("excessive_buffer_overrun_errors"), NULL, SHCA_HW_COUNTERS },
	{ IB("VL15_dropped"), NULL, SHCA_HW_COUNTERS },
	{ HW("out_of_buffer"), NULL, SHCA_HW_OUT_OF_BUFFER },
	{ HW("rnr_nak_retry_err"), NULL, SHCA_HW_RNR_NAK_RETRY_ERR },
	{ HW("local_ack_timeout_err"), NULL, SHCA_HW_LOCAL_ACK_TIMEOUT_ERR },
	{ HW("req_cqe_error"), NULL, SHCA_HW_REQ_CQE_ERROR },
	{ HW("no_answer"), NULL, SHCA_HW_NO_ANSWER },
	{ HW("rx_steer_missed_packets"), NULL, SHCA_HW_RX_STEER_MISSED },
	{ HW("duplicate_request"), dups, 0 },
	{ HW("packet_seq_err"), NULL, SHCA_HW_COUNTERS },
	{ HW("out_of_sequence"), NULL, SHCA_HW_COUNTERS },
	{ HW("implied_nak_seq_err"), NULL, SHCA_HW_COUNTERS },
};

_Static_assert(ARRAY_SIZE(counters) <= SHCA_COUNTERS_MAX, "counters");

const char *shca_counter_path(size_t i)
{
	return i < ARRAY_SIZE(counters) ? counters[i].path : NULL;
}

static uint64_t counter_value_of(const struct counter *c, const struct sums *s)
{
	return c->value ? c->value(s) : c->which < SHCA_HW_COUNTERS ? s->hw[c->which] : 0;
}

int shca_counter_print(size_t i, uint32_t port, char *text, size_t size)
{
	struct sums s = {.port = port};

	shca_with_fabric(sum, &s);
	return snprintf(text, size, "%llu\n", (unsigned long long)counter_value_of(&counters[i], &s));
}

void shca_counters_add(uint32_t port, const char *const *names, uint64_t *values, unsigned n)
{
	struct sums s = {.port = port};

	shca_with_fabric(sum, &s);
	for (unsigned k = 0; k < n; k++)
		for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
			if (!strncmp(counters[i].path, IB(""), sizeof(IB("")) - 1) &&
			    !strcmp(counters[i].path + sizeof(IB("")) - 1, names[k]))
				values[k] += counter_value_of(&counters[i], &s);
}
