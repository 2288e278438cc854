/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Management datagrams of the software HCA: answers for the files /dev/infiniband/umad* as the kernel's ib_umad does
 * (<rdma/ib_user_mad.h>), with the agents of a subnet below them. docs/umad.md has the attributes.
 *
 * libshca-files.so calls these functions from the libc functions that it replaces (shca/interpose/rdma_cm.c). Every function
 * returns as the system call does: -1 with errno.
 */
#ifndef UMAD_H
#define UMAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef SHCA_EXPORT
#pragma GCC visibility push(default)
#endif

/* Number of descriptors of this sort. While it is 0, no descriptor needs to be looked up. */
extern _Atomic unsigned um_open_fds;

/* Opens the file of a port. flags: O_CLOEXEC, O_NONBLOCK. Returns the descriptor: readable while a datagram waits, or the
 * time of a request is over. */
int um_open(uint32_t port, int flags);
/* Each returns false if fd is no such file; else *result is the system call's result. No lock is taken for other descriptors. */
bool um_read(int fd, void *buf, size_t n, ssize_t *result);
bool um_write(int fd, const void *buf, size_t n, ssize_t *result);
bool um_ioctl(int fd, unsigned long request, void *arg, int *result);
/* Returns whether fd is such a file. */
bool um_is_file(int fd);
/* Must be called before fd is closed, or overwritten by dup2. */
void um_closing(int fd);
/* Must be called after `copy` was made a duplicate of fd. */
void um_duplicated(int fd, int copy);

#ifdef SHCA_EXPORT
#pragma GCC visibility pop
#endif

#endif
