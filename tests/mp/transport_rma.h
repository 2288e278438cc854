/* SPDX-License-Identifier: BSD-3-Clause */
/* The two sources of transport_rma: modes that compare a call with its result are in transport_rma_modes.c. */
#ifndef TRANSPORT_RMA_H
#define TRANSPORT_RMA_H

#include "transport_test.h"

enum { KEYS = 100, TOTALS, SAY, SLOTS = 24, WINDOW = 12, GUARD = 64 };
#define SLOT_BYTES ((size_t)3000)

/* The words that all ranks update: of each width, one for each way to use it. */
enum { ADD, XOR, SWAPS, CAS, BITS, USES };
struct words {
	uint64_t w8[USES];
	uint32_t w4[USES + 1];
};
struct totals {
	uint64_t sum[2][USES];		/* by width: 8, 4 */
	uint64_t may[2];		/* of ADD: operands of failed operations, which may or may not have been added */
	uint64_t hash;			/* of the bytes of all puts */
};

struct target {
	struct hdl_rkey *memory, *words, *was;
	char *model;			/* of this rank's part of its memory */
	bool used[SLOTS + 1];
	unsigned begun, ended, inflight;
	uint64_t bits[2];		/* of BITS: this rank's bit is set */
	bool bits_busy[2], cas_busy[2];
	uint64_t guess[2];
	uint64_t last_add[2];
	bool flushing, add_busy[2];
	struct hdl_rma flush;
	uint64_t flush_from;
	struct totals totals;
	struct hdl_am_send keys, told;
	char key[2 * HDL_RKEY_MAX + 8];
};

extern size_t largest;			/* bytes of the longest operation */
extern bool by_device;			/* the words are of HDL_MR_ATOMIC_DEVICE */
extern char *memory;			/* registered as mr_memory: `area` bytes for each origin */
extern size_t area;
extern struct words *words;		/* registered as mr_words */
extern struct hdl_mr *mr_memory, *mr_words;
extern struct target *targets;		/* by rank */
extern const struct traffic traffic;	/* random operations, for run() */
extern unsigned have_keys;		/* ranks whose keys have come */
extern unsigned pending_sends;		/* active messages that are not sent completely */
extern int dead;			/* the rank whose death was reported; -1: none */
extern unsigned said;			/* SAY messages that have come */

/* Takes the agent queue to a rank, or (-1) to all, to the error state. */
void break_agents(int rank);
uint64_t random_bits(void);
/* Registers memory. Returns its region; without one the program ends. */
struct hdl_mr *region(void *p, size_t n, unsigned access);
void send_am(int to, unsigned id, const void *data, size_t n, struct hdl_am_send *am);
/* Packs two keys, each behind its length. Returns the bytes. */
size_t pack_keys(char *to, struct hdl_mr *a, struct hdl_mr *b);

/* transport_rma_modes.c */
void say(int to);
/* Waits for n SAY messages in all. */
void hear(unsigned n);
void dies(void);
void gone(void);
void stale(void);
void unmapped(void);
void faults(void);
void early(void);
void busy(void);
void flushes(void);
void refuses(void);
void behind(void);
void again(void);

#endif
