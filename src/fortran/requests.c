/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a request, or a split collective, needs until its operation completes: see mpifort_keep, mpifort_split_begin. */
#include "fortran/mpifort.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct mpifort_kept {
	MPI_Request request;
	struct mpifort_kept *next;
	bool persistent, active;	/* active: from the start of the operation to its completion */
	int n;
	struct mpifort_buffer b[3];
	struct mpifort_desc desc[3];
	void *types[2];
	MPI_Comm *comm;			/* filled by the library; its integer goes to *to */
	MPI_Fint *to;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mpifort_kept *buckets[256];
int mpifort_nkept;			/* read without the lock: the thread that was given a request counted it before */

static struct mpifort_kept **bucket(MPI_Request request)
{
	return &buckets[((uintptr_t)request >> 4 ^ (uintptr_t)request >> 12) & 255];
}

static struct mpifort_kept **kept_find(MPI_Request request)
{
	struct mpifort_kept **at = bucket(request);

	while (*at && (*at)->request != request)
		at = &(*at)->next;
	return at;
}

static struct mpifort_kept *take_out(struct mpifort_kept **at)
{
	struct mpifort_kept *k = *at;

	*at = k->next;
	__atomic_sub_fetch(&mpifort_nkept, 1, __ATOMIC_RELAXED);
	return k;
}

static void kept_free(struct mpifort_kept *k)
{
	for (int i = 0; i < k->n; i++)
		free(k->b[i].temp);
	free(k->types[0]);
	free(k->types[1]);
	free(k->comm);
	free(k);
}

static void finish(struct mpifort_kept *k)
{
	k->active = false;
	for (int i = 0; i < k->n; i++)
		mpifort_copy_again(&k->b[i], true);
	if (k->comm)
		*k->to = comm_out(*k->comm);
}

/* Must: the lock is held. */
static void put_in(struct mpifort_kept *k)
{
	struct mpifort_kept **at = bucket(k->request);

	k->next = *at;
	*at = k;
	__atomic_add_fetch(&mpifort_nkept, 1, __ATOMIC_RELAXED);
}

void mpifort_keep_all(int rc, MPI_Request request, struct mpifort_buffer *b, int n, bool persistent, void *types0, void *types1,
		      MPI_Comm *comm, MPI_Fint *to)
{
	struct mpifort_kept *k = calloc(1, sizeof(*k)), **at;
	bool anything = types0 || types1 || comm;

	if (!k) {
		/* the operation is under way, with this memory */
		fputs("libmpifort_abi: out of memory for a request\n", stderr);
		abort();
	}
	*k = (struct mpifort_kept){ .request = request, .persistent = persistent, .active = !persistent,
				    .types = { types0, types1 },
			    .comm = comm, .to = to };
	for (int i = 0; i < n; i++) {
		if (!b[i].temp)
			continue;
		anything = true;
		k->b[k->n] = b[i];
		memcpy(&k->desc[k->n], b[i].desc,
		       offsetof(struct mpifort_desc, dim) + (size_t)b[i].desc->rank * sizeof(b[i].desc->dim[0]));
		k->b[k->n].desc = &k->desc[k->n];
		k->n++;
	}
	if (rc || request == MPI_REQUEST_NULL || !anything) {
		if (!rc && anything)
			finish(k);
		kept_free(k);
		if (rc || request == MPI_REQUEST_NULL)
			return;
		k = NULL;
	}
	pthread_mutex_lock(&lock);
	at = kept_find(request);
	/* A request that C code completed, with a handle that is in use again */
	if (*at)
		kept_free(take_out(at));
	if (k)
		put_in(k);
	pthread_mutex_unlock(&lock);
}

struct mpifort_kept *mpifort_take(MPI_Request request)
{
	struct mpifort_kept **at, *k;

	pthread_mutex_lock(&lock);
	at = kept_find(request);
	k = *at ? take_out(at) : NULL;
	pthread_mutex_unlock(&lock);
	return k;
}

void mpifort_return(struct mpifort_kept *k, enum mpifort_outcome outcome)
{
	if (outcome != MPIFORT_ACTIVE && k->active)
		finish(k);
	if (outcome == MPIFORT_FREED) {
		kept_free(k);
		return;
	}
	pthread_mutex_lock(&lock);
	put_in(k);
	pthread_mutex_unlock(&lock);
}

void mpifort_completed(MPI_Request request)
{
	struct mpifort_kept *k;

	pthread_mutex_lock(&lock);
	k = *kept_find(request);
	if (k && k->active)
		finish(k);
	pthread_mutex_unlock(&lock);
}

void mpifort_started(MPI_Request request)
{
	struct mpifort_kept *k;

	pthread_mutex_lock(&lock);
	k = *kept_find(request);
	for (int i = 0; k && i < k->n; i++)
		mpifort_copy_again(&k->b[i], false);
	if (k)
		k->active = true;
	pthread_mutex_unlock(&lock);
}

void mpifort_freed(struct mpifort_kept *k)
{
	if (!k->active)
		kept_free(k);
}

/* ---- split collectives ------------------------------------------------------------------------------------ */

struct split {
	MPI_Fint file;
	struct split *next;
	struct mpifort_buffer b;
	struct mpifort_desc desc;
};

static struct split *splits;		/* under `lock` */
int mpifort_nsplit;

static struct split **split_find(MPI_Fint fh)
{
	struct split **at = &splits;

	while (*at && (*at)->file != fh)
		at = &(*at)->next;
	return at;
}

void mpifort_split_keep(MPI_Fint fh, const struct mpifort_buffer *b)
{
	struct split *s = calloc(1, sizeof(*s));

	if (!s) {
		/* the operation is under way, with this memory */
		fputs("libmpifort_abi: out of memory for a split collective\n", stderr);
		abort();
	}
	s->file = fh;
	s->b = *b;
	memcpy(&s->desc, b->desc, offsetof(struct mpifort_desc, dim) + (size_t)b->desc->rank * sizeof(b->desc->dim[0]));
	s->b.desc = &s->desc;
	pthread_mutex_lock(&lock);
	s->next = splits;
	splits = s;
	__atomic_add_fetch(&mpifort_nsplit, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
}

void *mpifort_split_copy(MPI_Fint fh)
{
	struct split *s;

	pthread_mutex_lock(&lock);
	s = *split_find(fh);
	pthread_mutex_unlock(&lock);
	return s ? s->b.temp : NULL;
}

void mpifort_split_release(MPI_Fint fh, bool ended)
{
	struct split **at, *s;

	pthread_mutex_lock(&lock);
	at = split_find(fh);
	s = *at;
	if (s) {
		*at = s->next;
		__atomic_sub_fetch(&mpifort_nsplit, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&lock);
	if (!s)
		return;
	s->b.out &= ended;
	mpifort_release(&s->b);
	free(s);
}
