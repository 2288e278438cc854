/* SPDX-License-Identifier: BSD-3-Clause */
/* shcactl trace: takes the records of requests from the fabric's ring (struct shca_tap) and writes packets. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "shca/engine/engine.h"
#include "tools/shcactl.h"

#define LINK_ETHERNET 1u
#define LINK_ERF 197u		/* with InfiniBand inside: Wireshark 4.0 does not know LINKTYPE_INFINIBAND, 247 */
#define LOOK_S 0.002		/* the ring holds the requests of this time at 2 million/s */
#define PATIENCE_S 1.0		/* until a record whose writer is not done is passed over */

struct trace_options {
	const char *file;
	bool roce;
	uint32_t keep;
	uint64_t packets;
	double seconds;
	uint32_t queue[SHCA_TRACE_QUEUES + 1];
	unsigned queues;
};

static void trace_usage(FILE *out)
{
	fprintf(out,
		"usage: shcactl [--fabric NAME] trace -o FILE [OPTION...]\n\n"
		"  -o FILE         the file, in pcapng format; -: standard output\n"
		"  --roce          RoCE v2 packets (Ethernet, IPv6, UDP) in place of InfiniBand's\n"
		"  --queue N       requests from and to this queue pair; up to %u times; without: all\n"
		"  --data BYTES    of each message are kept: 0 to %u (default: 64)\n"
		"  --count N       ends after so many packets (default: 1000000)\n"
		"  --seconds S     ends after this time\n\n"
		"Ends on SIGINT and SIGTERM, too, and when the last process has left the fabric.\n",
		SHCA_TRACE_QUEUES, SHCA_TRACE_DATA);
}

/* The value of an option: "--name=VALUE", or the next argument. NULL: this is another option. "": there is no value. */
static const char *option_value_of(const char *name, const struct options *o, int *i)
{
	const char *a = o->argv[*i];
	size_t n = strlen(name);

	if (strncmp(a, name, n) || (a[n] && (a[n] != '=' || name[1] != '-')))
		return NULL;
	if (a[n])
		return a + n + 1;
	return *i + 1 < o->argc ? o->argv[++*i] : "";
}

static bool option_number_in(const char *s, double least, double most, double *v)
{
	char *end;

	*v = strtod(s, &end);
	return end != s && !*end && *v >= least && *v <= most;
}

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "shcactl: trace: %s \"%s\": see shcactl trace\n", what, value);
	return 2;
}

static int parse(const struct options *o, struct trace_options *t)
{
	double v;

	for (int i = 0; i < o->argc; i++) {
		const char *s;
		if (!strcmp(o->argv[i], "--roce")) {
			t->roce = true;
		} else if ((s = option_value_of("-o", o, &i))) {
			t->file = s;
		} else if ((s = option_value_of("--queue", o, &i))) {
			uint32_t qpn = shcactl_number(s);
			if (!qpn || t->queues == SHCA_TRACE_QUEUES)
				return wrong(qpn ? "too many queues from" : "no queue number:", s);
			t->queue[t->queues++] = qpn;
		} else if ((s = option_value_of("--data", o, &i))) {
			if (!option_number_in(s, 0, SHCA_TRACE_DATA, &v))
				return wrong("bytes of data", s);
			t->keep = (uint32_t)v;
		} else if ((s = option_value_of("--count", o, &i))) {
			if (!option_number_in(s, 1, 1e15, &v))
				return wrong("number of packets", s);
			t->packets = (uint64_t)v;
		} else if ((s = option_value_of("--seconds", o, &i))) {
			if (!option_number_in(s, 0, 1e9, &v))
				return wrong("seconds", s);
			t->seconds = v;
		} else {
			return wrong("unknown option", o->argv[i]);
		}
	}
	return t->file && *t->file ? 0 : wrong("no file is named by", "-o");
}

static double seconds_now(void)
{
	return (double)monotonic_ns() * 1e-9;
}

/* "program[pid]", or the number of a slot that has another process by now */
static void name_of(char *to, size_t size, const struct shca_member *m, uint32_t slot)
{
	const struct shca_proc_slot *p = slot < SHCA_COMMON ? &m->procs[slot] : NULL;

	if (p && p->comm[0])
		snprintf(to, size, "%.*s[%d]", (int)sizeof(p->comm), p->comm, p->pid);
	else
		snprintf(to, size, "process %u", slot);
}

/* Programs, queues, and the result of the request. */
static void describe(char *to, size_t size, const struct shca_member *m, const struct shca_trace_record *r)
{
	char from[48], with[48] = "?", by[80] = "", end[48] = "";

	name_of(from, sizeof(from), m, r->proc);
	if (r->to < SHCA_MAX_PROCS)
		name_of(with, sizeof(with), m, r->to);
	if (r->executor != r->proc) {
		char executor[48];
		name_of(executor, sizeof(executor), m, r->executor);
		snprintf(by, sizeof(by), ", run by %s", executor);
	}
	if (r->fate)
		snprintf(end, sizeof(end), ", fault: %s", shca_fate_name(r->fate));
	else if (r->outcome > 0)
		snprintf(end, sizeof(end), ", status %d", r->outcome);
	else if (r->outcome < 0)
		snprintf(end, sizeof(end), ", %s", r->outcome == SHCA_RNR ? "no receive" : "no answer");
	if (r->type == IBV_QPT_RAW_PACKET)
		snprintf(to, size, "%s queue 0x%06x: a frame%s%s", from, r->qpn, by, end);
	else if (r->dqpn == SHCA_MULTICAST)
		snprintf(to, size, "%s queue 0x%06x to a group%s%s", from, r->qpn, by, end);
	else
		snprintf(to, size, "%s queue 0x%06x to %s queue 0x%06x%s%s", from, r->qpn, with, r->dqpn, by, end);
}

struct tracer {
	struct shca_member *m;
	const struct trace_options *o;
	struct packets *packets;
	uint64_t requests, written;
	double stuck_since;	/* a record is not done; 0: none */
};

/* Writes the packets of the records in the ring. Returns false if the number of packets is reached. */
static bool drain(struct tracer *t, bool last)
{
	struct shca_trace_record r;
	bool patient = !last && (!t->stuck_since || seconds_now() - t->stuck_since < PATIENCE_S);

	while (t->written < t->o->packets) {
		if (!shca_trace_take(t->m, &r, patient)) {
			const struct shca_tap *tap = shca_tap_of(t->m);
			bool stuck = atomic_load(&tap->taken) != atomic_load(&tap->next);
			if (!stuck)
				t->stuck_since = 0;
			else if (!t->stuck_since)
				t->stuck_since = seconds_now();
			return true;
		}
		t->stuck_since = 0;
		patient = !last;
		char text[256];
		describe(text, sizeof(text), t->m, &r);
		if (r.kept > SHCA_TRACE_DATA)	/* a writer that was passed over, and went on */
			r.kept = 0;
		t->requests++;
		t->written += packets_write(t->packets, &r, text, t->o->packets - t->written);
	}
	return false;
}

static int trace_to(struct shca_member *m, const struct trace_options *o, FILE *f)
{
	struct packets_port port[2];
	struct tracer t = { .m = m, .o = o };
	int status = 1;

	for (uint32_t i = 0; i < ARRAY_SIZE(port); i++) {
		port[i].lid = shca_lid(m, i + 1);
		port[i].pkey = (uint16_t)atomic_load(&shca_port_of(m, i + 1)->pkey);
		shca_gid_of(m, i + 1, port[i].gid);
	}
	struct pcapng *out = pcapng_open(f, o->roce ? LINK_ETHERNET : LINK_ERF, "shca0", "shcactl trace");
	t.packets = out ? packets_new(out, port, o->roce) : NULL;
	if (!t.packets) {
		fputs("shcactl: out of memory\n", stderr);
		free(out);
		return 1;
	}
	shcactl_catch();
	int err = shca_trace_start(m, o->queues ? o->queue : NULL, o->keep);
	if (err) {
		fprintf(stderr, "shcactl: trace: %s\n",
			err == -EBUSY ? "another trace of this fabric is under way" : strerror(-err));
		goto out;
	}
	fputs("tracing\n", stderr);
	double end = o->seconds >= 0 ? seconds_now() + o->seconds : 0, grown = seconds_now();
	bool goes_on = true, was = shcactl_anyone(m);
	while (goes_on && !shcactl_interrupted() && (!end || seconds_now() < end)) {
		if (!shca_trace_renew(m)) {
			fputs("shcactl: trace: was stopped for too long: the processes have ended the trace\n", stderr);
			break;
		}
		goes_on = drain(&t, false);
		if (seconds_now() - grown > 0.1) {
			grown = seconds_now();
			bool is = shcactl_anyone(m);
			goes_on = goes_on && (is || !was) && !shca_fabric_remap(m) && !ferror(f);
			was |= is;
		}
		if (goes_on)
			shcactl_nap(LOOK_S);
	}
	shca_trace_stop(m);
	drain(&t, true);
	fprintf(stderr, "%" PRIu64 " requests, %" PRIu64 " packets; lost: %" PRIu64 " requests%s\n", t.requests, t.written,
		atomic_load(&shca_tap_of(m)->lost), atomic_load(&shca_tap_of(m)->lost) ? ", for which the ring had no room" : "");
	status = 0;
out:
	packets_free(t.packets);
	err = pcapng_close(out);
	if (err) {
		fprintf(stderr, "shcactl: trace: cannot write %s: %s%s\n", o->file, strerror(err), shca_limit_of(err));
		status = 1;
	}
	return status;
}

int shcactl_trace(struct shca_member *m, const struct options *o)
{
	struct trace_options t = { .keep = 64, .packets = 1000000, .seconds = -1 };

	if (!o->argc) {
		trace_usage(stdout);
		return 0;
	}
	int status = parse(o, &t);
	if (status)
		return status;
	FILE *f = strcmp(t.file, "-") ? fopen(t.file, "we") : stdout;
	if (!f) {
		fprintf(stderr, "shcactl: trace: cannot write %s: %s\n", t.file, strerror(errno));
		return 1;
	}
	status = trace_to(m, &t, f);
	if (f != stdout && fclose(f) && !status) {
		fprintf(stderr, "shcactl: trace: cannot write %s: %s\n", t.file, strerror(errno));
		status = 1;
	}
	return status;
}
