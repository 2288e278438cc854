/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of different jobs connect by a socket (MPI-5.0 chapter 11): the handshake gives each the other's job, rank and
 * address. */
#ifndef HDL_P2P_MEET_H
#define HDL_P2P_MEET_H

#include "p2p/p2p.h"

struct pollfd;

#define HDL_HELLO_BYTES 32	/* the connector sends these before it receives anything */
#define HDL_HELLO_NS 5000000000u	/* ... within this time after connect(2) */

struct hdl_dpm_peer {
	bool listens;			/* as a port does: the connector must send the secret */
	uint64_t secret;		/* the port's; 0 without a port */
	/* in monotonic_ns(); 0: none. Of hdl_dpm_handshake as a whole; hdl_dpm_handshake may extend a connector's */
	uint64_t deadline;
	struct hdl_comm *comm;		/* members of this communicator wait for the result: the wait ends when one of them fails;
					 * or NULL */
	/* Returns true if the peer is known to have ended: the wait ends then, too (-EOWNERDEAD). Any thread calls the function;
	 * the thread that detects the end calls hdl_tp_wake. NULL: no such check */
	bool (*ended)(const void *arg);
	const void *ended_arg;
	struct hdl_group *other;	/* result: the peer, a group of one; NULL: no communication is possible */
	int refused;			/* result: hdl_peer_add's negative errno for the peer; -ENETUNREACH: it is in another
					 * fabric; else 0 */
	/* result: for messages of the two on the agreement that follows; differs at each handshake */
	int tag;
};

/* How long a wait may last: until the deadline (monotonic_ns(); 0: none), and until a member of comm (NULL: none) has failed
 * (-EOWNERDEAD). */
struct hdl_wait_limit {
	uint64_t deadline;
	const struct hdl_comm *comm;
	bool (*ended)(const void *arg);	/* as in struct hdl_dpm_peer */
	const void *ended_arg;
};

/* Performs the handshake on a connected socket; progress goes on meanwhile, and the wait takes no CPU. Returns 0 or a negative
 * errno: the socket's; ECONNRESET: closed by the peer; EPROTO: the peer is no Heddle process; EPERM: wrong secret; ETIMEDOUT;
 * EOWNERDEAD; ENOMEM. A connector that has read the listener's hello allows the listener HDL_HELLO_NS for the verdict, even past
 * the deadline, because the listener has accepted. After an error the socket is shut down, so that the peer does not wait. If the
 * two cannot communicate (reported), the function returns 0 with m->other NULL. */
int hdl_dpm_handshake(int fd, struct hdl_dpm_peer *m);
/* Waits for events of a descriptor (poll(2)) without taking the CPU; progress goes on. Returns 0 or a negative errno. */
int hdl_fd_wait(int fd, short events, const struct hdl_wait_limit *limit);
/* The same for several descriptors. fds stays the caller's; other threads may run meanwhile. */
int hdl_fds_wait(struct pollfd *fds, unsigned nfds, const struct hdl_wait_limit *limit);

/* Ports (port.c). Return 0 or a negative errno; ENOENT: the name is of no open port of this process. */
int hdl_port_open(char name[MPI_MAX_PORT_NAME]);
int hdl_port_close(const char *name);
/* Performs the handshake with the next process that connects, until m->deadline (-ETIMEDOUT). m->other is not NULL after 0. */
int hdl_port_accept(const char *name, struct hdl_dpm_peer *m);
/* Performs the handshake with the process that has opened the port, once that accepts. EINVAL: not the name of a port; ETIME: not
 * accepted by m->deadline; ETIMEDOUT: the host did not answer; else as hdl_dpm_handshake. */
int hdl_port_connect(const char *name, struct hdl_dpm_peer *m);
void hdl_ports_fini(void);

#endif
