/* SPDX-License-Identifier: BSD-3-Clause */
/* shcactl's files. */
#ifndef SHCACTL_H
#define SHCACTL_H

#include "shca/fabric/fabric.h"

struct options {
	const char *fabric;
	enum output { OUTPUT_TABLE, OUTPUT_CSV, OUTPUT_JSON } output;
	int argc;
	char **argv;		/* arguments behind the sub-command */
};

/* For commands that run until a signal. First: catches SIGINT and SIGTERM; second: returns true if one has come; third: sleeps
 * until one comes, at most for the given time. */
void shcactl_catch(void);
bool shcactl_interrupted(void);
void shcactl_nap(double seconds);
/* Returns true if the fabric has a process. */
bool shcactl_anyone(struct shca_member *m);

/* shcactl trace: exit status. */
int shcactl_trace(struct shca_member *m, const struct options *o);

/* Returns the queue number that the text represents ("0x41" or "65"); 0: none. */
uint32_t shcactl_number(const char *s);

/* pcapng.c: a file of captured packets in the format of draft-ietf-opsawg-pcapng. link: a LINKTYPE_ value. */
struct pcapng;
struct pcapng *pcapng_open(FILE *f, uint16_t link, const char *interface, const char *program);
/* One packet: `captured` bytes of `length`; ns: since the epoch; comment: or NULL. */
void pcapng_packet(struct pcapng *p, uint64_t ns, const void *bytes, uint32_t captured, uint32_t length, const char *comment);
/* Returns 0, or an errno value of the first write that failed. Does not close f. */
int pcapng_close(struct pcapng *p);

/* packets.c: the packets that an HCA would have sent for a request. */
struct packets;
struct packets_port {
	uint8_t gid[16];
	uint16_t lid, pkey;
};
/* port: of ports 1 and 2. roce: RoCE v2 packets in place of InfiniBand's. */
struct packets *packets_new(struct pcapng *out, const struct packets_port port[2], bool roce);
void packets_free(struct packets *p);
/* Writes the packets of a request, `most` at most; text: comment of the first one. Returns how many. */
uint64_t packets_write(struct packets *p, const struct shca_trace_record *r, const char *text, uint64_t most);

#endif
