/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of different jobs meet by a socket (MPI-5.0 chapter 11): each learns the other's job, rank and address. */
#ifndef HDL_P2P_MEET_H
#define HDL_P2P_MEET_H

#include "p2p/p2p.h"

struct hdl_meeting {
	uint64_t secret;		/* both must have said the same: that of a port; 0 */
	struct hdl_group *other;	/* the process that was met, a group of one; NULL: there can be no communication with it */
	int tag;			/* of what the two agree on next: another one at each meeting */
};

/* Waits without taking the CPU, and progress goes on. 0, or a negative errno: the socket's; ECONNRESET: it was closed; EPROTO: whoever
 * is at the other end speaks something else; EPERM: he has another secret; ENOMEM. All that was written was read. Where the two find
 * that they cannot communicate (reported), that is no error. */
int hdl_meet(int fd, struct hdl_meeting *m);
/* Waits for these events of a descriptor (poll(2)), without taking the CPU, and progress goes on. 0 or a negative errno. */
int hdl_fd_wait(int fd, short events);

#endif
