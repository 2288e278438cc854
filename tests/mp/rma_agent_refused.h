/* SPDX-License-Identifier: BSD-3-Clause */
/* For rma_agent_lacking.c. Apart from that program, since the headers of p2p and of the transport's inside do not go together. */
#ifndef RMA_AGENT_REFUSED_H
#define RMA_AGENT_REFUSED_H

#include <stdbool.h>

extern const char *what;	/* the case */
extern int lacking;		/* the rank */
extern bool refuses;		/* of this rank: queue pairs towards peers, or their connection, are refused */

#endif
