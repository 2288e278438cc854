/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes files in the pcapng format: a section, one interface, packets with comments. Integers are in host order, as the
 * byte-order magic says. */
#include <errno.h>
#include <stdlib.h>

#include "tools/shcactl.h"

#define BLOCK_SECTION 0x0a0d0d0au
#define BLOCK_INTERFACE 1u
#define BLOCK_PACKET 6u
#define MAGIC 0x1a2b3c4du
#define OPTION_END 0u
#define OPTION_COMMENT 1u
#define OPTION_USER_PROGRAM 4u	/* of a section */
#define OPTION_IF_NAME 2u
#define OPTION_IF_TSRESOL 9u

struct pcapng {
	FILE *f;
	int error;
};

static void pcapng_put(struct pcapng *p, const void *bytes, size_t n)
{
	if (!p->error && n && fwrite(bytes, n, 1, p->f) != 1)
		p->error = errno ? errno : EIO;
}

static void pcapng_put16(struct pcapng *p, uint16_t v)
{
	pcapng_put(p, &v, sizeof(v));
}

static void pcapng_put32(struct pcapng *p, uint32_t v)
{
	pcapng_put(p, &v, sizeof(v));
}

static uint32_t padded(uint32_t n)
{
	return (n + 3) & ~3u;
}

static void put_padded(struct pcapng *p, const void *bytes, uint32_t n)
{
	pcapng_put(p, bytes, n);
	pcapng_put(p, "\0\0\0", padded(n) - n);
}

static void put_option(struct pcapng *p, uint16_t code, const void *value, uint16_t n)
{
	pcapng_put16(p, code);
	pcapng_put16(p, n);
	put_padded(p, value, n);
}

/* The room of a text option and the end of options behind it. */
static uint32_t text_room(const char *text)
{
	return 4 + padded((uint32_t)strlen(text)) + 4;
}

static void put_text(struct pcapng *p, uint16_t code, const char *text)
{
	put_option(p, code, text, (uint16_t)strlen(text));
	put_option(p, OPTION_END, NULL, 0);
}

struct pcapng *pcapng_open(FILE *f, uint16_t link, const char *interface, const char *program)
{
	struct pcapng *p = calloc(1, sizeof(*p));
	const uint8_t nanoseconds = 9;	/* 10^-9 s */

	if (!p)
		return NULL;
	p->f = f;
	uint32_t n = 28 + text_room(program);
	pcapng_put32(p, BLOCK_SECTION);
	pcapng_put32(p, n);
	pcapng_put32(p, MAGIC);
	pcapng_put16(p, 1);	/* version 1.0 */
	pcapng_put16(p, 0);
	pcapng_put(p, &(int64_t){-1}, 8);	/* the section's length is not known */
	put_text(p, OPTION_USER_PROGRAM, program);
	pcapng_put32(p, n);
	n = 20 + 8 + text_room(interface);
	pcapng_put32(p, BLOCK_INTERFACE);
	pcapng_put32(p, n);
	pcapng_put16(p, link);
	pcapng_put16(p, 0);
	pcapng_put32(p, 0);	/* packets of any length */
	put_option(p, OPTION_IF_TSRESOL, &nanoseconds, 1);
	put_text(p, OPTION_IF_NAME, interface);
	pcapng_put32(p, n);
	return p;
}

void pcapng_packet(struct pcapng *p, uint64_t ns, const void *bytes, uint32_t captured, uint32_t length, const char *comment)
{
	uint32_t n = 32 + padded(captured) + (comment ? text_room(comment) : 0);

	pcapng_put32(p, BLOCK_PACKET);
	pcapng_put32(p, n);
	pcapng_put32(p, 0);	/* the interface */
	pcapng_put32(p, (uint32_t)(ns >> 32));
	pcapng_put32(p, (uint32_t)ns);
	pcapng_put32(p, captured);
	pcapng_put32(p, length);
	put_padded(p, bytes, captured);
	if (comment)
		put_text(p, OPTION_COMMENT, comment);
	pcapng_put32(p, n);
}

int pcapng_close(struct pcapng *p)
{
	if (!p->error && fflush(p->f))
		p->error = errno;
	int err = p->error;
	free(p);
	return err;
}
