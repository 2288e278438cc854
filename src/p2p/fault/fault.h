/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that are lost, as far as is known here: that have ended, cannot be reached, or have given a collective up. One list, which
 * only grows, in the order in which this process came to know; and how many of them there were when the program last had an error for one.
 *
 * A rank that has had its error may leave what it was about to do with others, who cannot see why: their own communicators are whole. Of
 * one such meeting the library knows: a leader waits for the other one of an intercommunicator (leader_link.h). Its words lie here then, and
 * nobody asks for them; so it is told of the losses that this program knows of. It gives up if its own program does not know of one.
 * Where that one knows of all, it has come in spite of them, and waits.
 */
#ifndef HDL_P2P_LOSSES_H
#define HDL_P2P_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

struct hdl_ft_record {
	int proc;
	bool lives;			/* it has given a collective up, and lives */
	bool fails_groups;		/* agreements without a communicator fail by it (hdl_cid_lose) */
	bool carried_out;		/* those under way have */
};
extern struct hdl_ft_record *hdl_losses;
extern unsigned hdl_nlosses, hdl_ft_records_told;	/* told: the program has had errors since so many of them were known */

/* Adds it, if it is not known yet. Until the next one is added. */
struct hdl_ft_record *hdl_ft_record(int proc);
/* Its place in the list, which it may be added to. */
unsigned hdl_ft_record_at(int proc);

/* Inside of the transport: a leader's words have come, and nobody waits for them. The next turn of progress answers. */
void hdl_ft_records_asked(void);
void hdl_ft_records_reset(void);

#endif
