/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA CM of the software HCA: answers the commands that librdmacm writes to /dev/infiniband/rdma_cm (struct rdma_ucm_*,
 * <rdma/rdma_user_cm.h>), as the kernel's ucma does. docs/rdma-cm.md describes events, sockets and addresses.
 *
 * libshca-files.so calls these functions from the libc functions that it replaces (shca/interpose/rdma_cm.c). Every function
 * returns as the system call does: -1 with errno.
 */
#ifndef RDMACM_H
#define RDMACM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#ifdef SHCA_EXPORT
#pragma GCC visibility push(default)
#endif

/* Number of descriptors that are event channels. While it is 0, no descriptor needs to be looked up. */
extern _Atomic unsigned rcm_channels_open;

/* Opens an event channel. flags: O_CLOEXEC, O_NONBLOCK. Returns the descriptor: readable while an event waits. */
int rcm_open(int flags);
/* Returns whether fd is an event channel. One look-up without lock for most other descriptors. */
bool rcm_is_channel(int fd);
/* Executes a command of librdmacm. Returns false: fd is no channel. Else *result is n, or -1 with errno. GET_EVENT blocks unless
 * fd has O_NONBLOCK. */
bool rcm_write(int fd, const void *command, size_t n, ssize_t *result);
/* Must be called before fd is closed, or overwritten by dup2. The last descriptor of a channel destroys the channel's ids. */
void rcm_closing(int fd);
/* Must be called after `copy` was made a duplicate of fd. */
void rcm_duplicated(int fd, int copy);

#ifdef SHCA_EXPORT
#pragma GCC visibility pop
#endif

#endif
