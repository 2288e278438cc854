/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources of coll_graph: one collective of all ranks in the simulator, compared with the serial result. */
#ifndef COLL_GRAPH_H
#define COLL_GRAPH_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "coll_sim.h"
#include "collectives/select/select.h"

#define MAX_RANKS 17	/* of collectives that are tried with every root, mode and type */
#define MOST_RANKS 33
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define ALL_OPS 12
#define ALL_TYPES 35
extern const MPI_Op all_ops[ALL_OPS];
extern const MPI_Datatype all_types[ALL_TYPES];

struct job {
	enum hdl_coll coll;
	const struct hdl_algorithm *algo;
	int n, root;
	bool in_place;
	const struct hdl_reptype *type;
	MPI_Op op;
	size_t count;		/* elements of the buffer, or of one block */
	bool offload;
	const struct hdl_reduce_caps *means;
	int radix;
	const struct hdl_hosts *hosts;
};

/* Returns a number below `below`; the same sequence in each test. */
unsigned draw(unsigned below);
/* Returns the bytes of an element, packed: a pair's extent is larger where it has holes. */
size_t size_of(enum hdl_rep rep);
/* Writes a random element: sums and products of such elements are exact in any order. */
void put_value(const struct hdl_reptype *t, char *p, int rank);
bool same_value(const struct hdl_reptype *t, const char *a, const char *b);
/* Runs the graphs of all ranks, and fails the test if a buffer is not as the serial result has it. */
void run_job(const struct job *j, enum sim_mode mode);
const struct hdl_reptype *rep_of(MPI_Datatype type);
/* Returns whether an algorithm needs several hosts: coll_graph_hosts.c tests these. */
bool by_hosts(const struct hdl_algorithm *a);

#endif
