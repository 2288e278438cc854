/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/leaks.h"

#include <string.h>

#include "mpi/file.h"
#include "rma/rma.h"

static const char *leaks_plural(int n)
{
	return n == 1 ? "" : "s";
}

static void comm(void *object, void *arg)
{
	const struct hdl_comm *c = object;
	char label[MPI_MAX_OBJECT_NAME];

	(void)arg;
	if (c->name[0])
		snprintf(label, sizeof(label), "%s", c->name);
	else
		snprintf(label, sizeof(label), "communicator #%u", c->context / 2u);
	hdl_leak("communicators not freed", "%.96s of %d rank%s%s", label, c->local ? c->local->size : c->size,
		 leaks_plural(c->local ? c->local->size : c->size), c->local ? " (an intercommunicator)" : "");
}

static void group(void *object, void *arg)
{
	const struct hdl_group *g = object;

	(void)arg;
	for (int i = 0; i < g->handles; i++)
		hdl_leak("handles of groups not freed", "of %d rank%s", g->size, leaks_plural(g->size));
}

/* The constructor's name, as a hint where to look. */
static const char *constructor(int combiner)
{
	static const char *const name[] = {
		[MPI_COMBINER_DUP - MPI_COMBINER_NAMED] = "MPI_Type_dup",
		[MPI_COMBINER_CONTIGUOUS - MPI_COMBINER_NAMED] = "MPI_Type_contiguous",
		[MPI_COMBINER_VECTOR - MPI_COMBINER_NAMED] = "MPI_Type_vector",
		[MPI_COMBINER_HVECTOR - MPI_COMBINER_NAMED] = "MPI_Type_create_hvector",
		[MPI_COMBINER_INDEXED - MPI_COMBINER_NAMED] = "MPI_Type_indexed",
		[MPI_COMBINER_HINDEXED - MPI_COMBINER_NAMED] = "MPI_Type_create_hindexed",
		[MPI_COMBINER_INDEXED_BLOCK - MPI_COMBINER_NAMED] = "MPI_Type_create_indexed_block",
		[MPI_COMBINER_HINDEXED_BLOCK - MPI_COMBINER_NAMED] = "MPI_Type_create_hindexed_block",
		[MPI_COMBINER_STRUCT - MPI_COMBINER_NAMED] = "MPI_Type_create_struct",
		[MPI_COMBINER_SUBARRAY - MPI_COMBINER_NAMED] = "MPI_Type_create_subarray",
		[MPI_COMBINER_DARRAY - MPI_COMBINER_NAMED] = "MPI_Type_create_darray",
		[MPI_COMBINER_RESIZED - MPI_COMBINER_NAMED] = "MPI_Type_create_resized",
	};
	size_t i = (size_t)(combiner - MPI_COMBINER_NAMED);

	return i < ARRAY_SIZE(name) && name[i] ? name[i] : "a constructor";
}

static void type(void *object, void *arg)
{
	const struct hdl_type *t = object;

	(void)arg;
	if (t->predefined)	/* MPI_Type_create_f90_*: the program does not free them */
		return;
	if (t->name)
		hdl_leak("datatypes not freed", "%.96s (%s, size %lld)", t->name, constructor(t->combiner), (long long)t->size);
	else
		hdl_leak("datatypes not freed", "%s, size %lld, extent %lld%s", constructor(t->combiner), (long long)t->size,
			 (long long)t->extent, t->committed ? "" : ", not committed");
}

static void op(void *object, void *arg)
{
	(void)arg;
	hdl_leak("operations not freed", "%s", hdl_op_commutes(object) ? "commutative" : "not commutative");
}

static void win(void *object, void *arg)
{
	const struct hdl_win *w = object;
	char label[MPI_MAX_OBJECT_NAME + 16];

	(void)arg;
	hdl_leak("windows not freed", "%.96s of %d rank%s", hdl_win_label(w, label), w->size, leaks_plural(w->size));
}

static void file(void *object, void *arg)
{
	const struct hdl_file *f = object;

	(void)arg;
	hdl_leak("files not closed", "%.96s of %d rank%s", f->name, f->comm->size, leaks_plural(f->comm->size));
}

void hdl_leaks_note(void)
{
	hdl_pool_each(&hdl_comms, comm, NULL);
	hdl_pool_each(&hdl_groups, group, NULL);
	hdl_pool_each(&hdl_derived_types, type, NULL);
	hdl_pool_each(&hdl_user_ops, op, NULL);
	hdl_pool_each(&hdl_wins, win, NULL);
	hdl_pool_each(&hdl_files, file, NULL);
	hdl_info_leaks();
	hdl_errhandler_leaks();
	hdl_keyval_leaks();
	hdl_p2p_leaks();
}
