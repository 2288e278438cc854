/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared file pointer (MPI-5.0 section 14.4.4): a word in a window of rank 0, to which all processes add.
 *
 * A collective that sets the pointer (MPI_File_set_view, MPI_File_seek_shared) must not set the word that another process still
 * adds to in an earlier call:
 *     1. Ranks 0 and 1 call MPI_File_write_shared, then MPI_File_set_view. Rank 0 is in the second call while
 *        rank 1 is in the first.
 *     2. Rank 0 stores 0, and rank 1 adds to that: its data go to the wrong place.
 * So there are two words. Rank 0 stores into the one that is not in use; all processes meet; then each switches. No
 * process is in a call with the other word then: that word was in use before the last such meeting, which each process
 * entered after those calls.
 */
#include "io/io.h"

int hdl_shared_make(struct hdl_file *f)
{
	const struct hdl_win_args args = { .flavor = MPI_WIN_FLAVOR_ALLOCATE, .size = f->comm->rank ? 0 : 2 * sizeof(int64_t),
					   .disp_unit = sizeof(int64_t), .errhandler = MPI_ERRORS_RETURN };
	int64_t *word;
	int rc;

	if (f->comm->size == 1)
		return MPI_SUCCESS;
	rc = hdl_win_make(f->comm, &args, &f->shared);
	if (!rc && !f->comm->rank) {
		word = f->shared->base;
		word[0] = word[1] = 0;
	}
	return rc;
}

int hdl_shared_free(struct hdl_file *f)
{
	struct hdl_win *w = f->shared;

	f->shared = NULL;
	return w ? hdl_win_end(w) : MPI_SUCCESS;
}

/* Carries out op on a word, and returns when that is done. */
static int shared_update(struct hdl_file *f, MPI_Op op, unsigned word, int64_t value, int64_t *before)
{
	const struct hdl_type *t = hdl_type_get(MPI_INT64_T);
	struct hdl_target *rank0 = hdl_target_of(f->shared, 0);
	struct hdl_acc_args args = { .at = { &value, 1, t, word, 1, t }, .op = op, .fetch = true, .result = before,
				     .result_count = 1, .result_type = t };
	int rc, flush;

	if (!rank0)
		return hdl_rma_no_memory("the shared file pointer");
	rc = hdl_rma_accumulate(f->shared, rank0, &args, NULL);
	flush = hdl_rma_flush(f->shared, rank0);
	return rc ? rc : flush;
}

/* Adds to the word in use, modulo 2^64. *before: its value ahead of that. */
static int shared_fetch_add(struct hdl_file *f, int64_t bytes, int64_t *before)
{
	if (f->shared)
		return shared_update(f, MPI_SUM, f->shared_word, bytes, before);
	*before = f->shared_own[f->shared_word];
	f->shared_own[f->shared_word] = (int64_t)((uint64_t)*before + (uint64_t)bytes);
	return MPI_SUCCESS;
}

static int shared_too_far(const struct hdl_file *f)
{
	hdl_reason_set("the access would move the shared file pointer of %s beyond the largest offset of a file", f->name);
	return MPI_ERR_ARG;
}

/* An addition that has no representation is taken back. Another process's addition may come between the two; that process then
 * has a negative *before, and the same error. */
int hdl_shared_add(struct hdl_file *f, MPI_Offset bytes, MPI_Offset *before)
{
	int64_t old = 0, ignored = 0;
	int rc = shared_fetch_add(f, bytes, &old);

	if (!rc && bytes && (old < 0 || old > INT64_MAX - bytes)) {
		rc = shared_fetch_add(f, -bytes, &ignored);
		rc = rc ? rc : shared_too_far(f);
	}
	*before = old;
	return rc;
}

int hdl_shared_prepare(struct hdl_file *f, MPI_Offset position)
{
	int64_t old;

	if (f->comm->rank)
		return MPI_SUCCESS;
	if (f->shared)
		return shared_update(f, MPI_REPLACE, !f->shared_word, position, &old);
	f->shared_own[!f->shared_word] = position;
	return MPI_SUCCESS;
}

void hdl_shared_switch(struct hdl_file *f)
{
	f->shared_word = !f->shared_word;
}

/* A process's part of an ordered access. */
struct turn {
	int64_t bytes;			/* rank 0, second: the pointer before */
	int64_t error;
};

int hdl_shared_ordered(struct hdl_file *f, MPI_Count bytes, int error, MPI_Offset *position)
{
	int size = f->comm->size, rank = f->comm->rank, rc;
	struct turn *turn = calloc((size_t)size, sizeof(*turn));
	MPI_Offset before = 0, all = 0;
	char why[512] = "";

	if (!turn)
		hdl_out_of_memory("an ordered access to a file", (size_t)size * sizeof(*turn));
	if (error)
		snprintf(why, sizeof(why), "%s", hdl_reason_take());
	turn[rank] = (struct turn){ bytes, error };
	rc = hdl_comm_exchange(f->comm, turn, sizeof(*turn));
	for (int r = 0; r < size && !rc; r++) {
		if (r == rank)
			before = all;
		if (turn[r].error) {
			hdl_reason_set("the arguments of rank %d were refused", r);
			rc = (int)turn[r].error;
		} else if (__builtin_add_overflow(all, turn[r].bytes, &all)) {
			rc = shared_too_far(f);
		}
	}
	if (!rc) {
		if (!rank)
			turn[0].error = hdl_shared_add(f, all, &turn[0].bytes);
		rc = hdl_comm_exchange(f->comm, turn, sizeof(*turn));
	}
	if (!rc && (rc = (int)turn[0].error) && rank)
		hdl_reason_set("rank 0 could not move the shared file pointer of %s", f->name);
	*position = rc ? 0 : turn[0].bytes + before;
	free(turn);
	if (error) {
		hdl_reason_set("%s", why);
		return error;
	}
	return rc;
}
