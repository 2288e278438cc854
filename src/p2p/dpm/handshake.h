/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of different jobs meet by a socket (MPI-5.0 chapter 11): each learns the other's job, rank and address. */
#ifndef HDL_P2P_MEET_H
#define HDL_P2P_MEET_H

#include "p2p/p2p.h"

struct pollfd;

#define HDL_HELLO_BYTES 32	/* who comes says so much before it hears anything */
#define HDL_HELLO_NS 5000000000u	/* ... within this time: it is sent when the connection stands */

struct hdl_dpm_peer {
	bool listens;			/* for strangers: who comes has said the secret, and what else is in HDL_HELLO_BYTES */
	uint64_t secret;		/* that of a port; 0 */
	uint64_t deadline;		/* as monotonic_ns(); 0: none. hdl_dpm_handshake: for all of the meeting, but see there */
	struct hdl_comm *comm;		/* whose other members wait for what becomes of it; or NULL */
	struct hdl_group *other;	/* the process that was met, a group of one; NULL: there can be no communication with it */
	int tag;			/* of what the two agree on next: another one at each meeting */
};

/* How long is waited: until the deadline (as monotonic_ns(); 0: for ever), while no member of comm (or NULL) is lost: EOWNERDEAD. */
struct hdl_wait_limit {
	uint64_t deadline;
	const struct hdl_comm *comm;
};

/* Waits without taking the CPU, and progress goes on. 0, or a negative errno: the socket's; ECONNRESET: it was closed; EPROTO: whoever
 * is at the other end speaks something else; EPERM: the secret is wrong; ETIMEDOUT; EOWNERDEAD; ENOMEM. A connector that has read the acceptor's
 * hello gives the acceptor HDL_HELLO_NS for the rest, however late it came: it has accepted. All that was written was read, or
 * the socket is shut down, so that the other one does not wait for ever. Where the two find that they cannot communicate (reported), that is no
 * error. */
int hdl_dpm_handshake(int fd, struct hdl_dpm_peer *m);
/* Waits for these events of a descriptor (poll(2)), without taking the CPU, and progress goes on. 0 or a negative errno. */
int hdl_fd_wait(int fd, short events, const struct hdl_wait_limit *limit);
/* ... for what is asked of any of several, which are the caller's; other threads may come in meanwhile. */
int hdl_fds_wait(struct pollfd *fds, unsigned nfds, const struct hdl_wait_limit *limit);

/* Ports (port.c). name: a string in MPI_MAX_PORT_NAME bytes. 0 or a negative errno; ENOENT: it is no open port of this process. */
int hdl_port_open(char name[MPI_MAX_PORT_NAME]);
int hdl_port_close(const char *name);
/* Meets the next process that comes, by m->deadline (else ETIMEDOUT); m->other is not NULL then. */
int hdl_port_accept(const char *name, struct hdl_dpm_peer *m);
/* Meets the process whose port it is, as soon as that accepts. EINVAL: it is no port's name; ETIME: it has not accepted by m->deadline;
 * ETIMEDOUT: not even its host has answered; else as hdl_dpm_handshake. */
int hdl_port_connect(const char *name, struct hdl_dpm_peer *m);
void hdl_ports_fini(void);

#endif
