/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a collective access is divided: whether two phases pay, which ranks aggregate, the file domain and the windows of each, and
 * the strips of a rank in a window (domains.c). All ranks compute the same from the extents of all and from the file's hints.
 *
 *     base        + domain        + 2 domain                end
 *     ├───────────────┼───────────────┼───────────────────────┤
 *     │ aggregator 0  │ aggregator 1  │ aggregator 2          │
 *     ├────┬────┬────┬┤
 *      round 0  1    2     windows
 */
#ifndef HDL_IO_DOMAINS_H
#define HDL_IO_DOMAINS_H

#include "io/io.h"
#include "io/window.h"

/* A rank's access, as every rank learns it by the allgather. */
struct hdl_extent {
	MPI_Offset first, end;		/* in the file; equal: nothing */
	MPI_Count bytes;
	int64_t error;			/* class with which the rank's arguments were refused */
	int64_t ascends;		/* the view's runs are in the order of the file */
	int64_t overlaps;		/* an I/O thread is to write or read the rank's windows */
	int64_t alone;			/* the rank's own access costs less than its part of two phases */
};

/* A rank's part of one aggregator's window in a round. */
struct hdl_portion {
	MPI_Offset position;		/* in the view's data */
	MPI_Count bytes;
	struct hdl_strip *strips;
	int64_t n, room;
	char *data;			/* write, at the aggregator itself: this rank's data */
	struct hdl_answer *answer;	/* read: the aggregator's */
};

/* The aggregators of an access, and their file domains. */
struct hdl_domains {
	int n;
	int *rank;			/* of each aggregator */
	int mine;			/* the number of this rank among the aggregators; -1 */
	MPI_Offset *position;		/* by aggregator, in the view's data: of the first byte that no earlier round has had */
	MPI_Offset base, end;		/* of the first file domain; of the last rank's data */
	MPI_Count domain, window;	/* bytes of a domain, and of a window */
	MPI_Count rounds;
};

/* Returns zeroed memory of n times `each` bytes; without it the other ranks would wait for ever, so the process ends. */
static inline void *hdl_collective_need(size_t n, size_t each)
{
	void *p = calloc(n ? n : 1, each);

	if (!p)
		hdl_out_of_memory("a collective access to a file", n * each);
	return p;
}

/* Returns the extent of this rank's access. error: with which its arguments were refused. */
struct hdl_extent hdl_extent_of(const struct hdl_file *f, const struct hdl_access *a, int error, bool overlaps);

/* Returns true if each rank had better access the file for itself; the same on all ranks. bytes: of all ranks, in the range from
 * `first` to `end`. */
bool hdl_extents_independent(const struct hdl_extent *extent, int size, const struct hdl_cb_hints *h, MPI_Offset first,
			     MPI_Offset end, MPI_Count bytes);

/* Chooses the aggregators, and divides the range from `first` to `end` among them. */
void hdl_domains_make(struct hdl_domains *d, struct hdl_file *f, const struct hdl_cb_hints *h, const struct hdl_access *a,
		      MPI_Offset first, MPI_Offset end);
void hdl_domains_free(struct hdl_domains *d);

/* An aggregator's window in a round: from .. to, equal if the domain has no more. */
MPI_Offset hdl_domains_window_at(const struct hdl_domains *d, int aggregator, MPI_Count round);
MPI_Offset hdl_domains_window_end(const struct hdl_domains *d, int aggregator, MPI_Count round);

/* Names the runs of an access in an aggregator's window in this round, which must be the one behind the last call's. */
void hdl_portion_cut(struct hdl_portion *p, struct hdl_domains *d, const struct hdl_access *a, int aggregator, MPI_Count round);

#endif
