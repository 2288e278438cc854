/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An aggregator's window of a file domain: the bytes of the file that one round of a collective access writes or reads
 * (window.c).
 *
 *     write   parts of the ranks ──▶ buffer, marked in the map ──▶ a pwrite for each stretch of marked bytes
 *     read    one pread ──▶ buffer ──▶ an answer for each rank
 */
#ifndef HDL_IO_WINDOW_H
#define HDL_IO_WINDOW_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* Runs of `len` bytes, `stride` apart, `count` of them: a vector, however long, is one strip. */
struct hdl_strip {
	MPI_Offset at;
	MPI_Count len, stride, count;
};

/* An answer of an aggregator to a rank that reads. bytes: how many there are at `data`; negative: an errno, and there are
 * none. */
struct hdl_answer {
	int64_t bytes;
	char data[];
};

/* A rank's part of the window. */
struct hdl_window_part {
	const struct hdl_strip *strips;
	int64_t n;			/* strips; 0: the rank has no part */
	int64_t bytes;			/* of data */
	const char *data;		/* write: in the order of the strips */
	struct hdl_answer *answer;	/* read: room for an answer with `bytes` */
};

struct hdl_window {
	int fd;
	MPI_Offset from;		/* where the window begins in the file */
	size_t bytes;
	char *buffer;			/* `bytes` long */
	uint64_t *map;			/* write: a bit for each byte that a rank has written */
	struct hdl_window_part *parts;	/* by rank */
	int nparts;
	int err;			/* errno of the first call that has failed, in this window or an earlier one; 0 */
};

/* Both set w->err. After an error neither touches the file. [any thread] */
void hdl_window_write(struct hdl_window *w);
void hdl_window_read(struct hdl_window *w);

#endif
