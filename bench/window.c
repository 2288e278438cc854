/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of nonblocking messages: common code of the bandwidth benchmarks. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hdb_window_new(struct hdb_window *w, size_t size)
{
	const size_t n = (size_t)hdb.window;

	memset(w, 0, sizeof(*w));
	w->size = size;
	w->stride = hdb.validate ? size : 0;
	if (hdb.validate && size > hdb.memory / n / 2)
		hdb_quit(HDB_USAGE,
			 "-c needs a buffer for each of %d messages of %zu bytes each way, which is more than -M %zu: "
			 "raise -M, or lower -m or -w",
			 hdb.window, size, hdb.memory);
	hdb_buffer_new(&w->send, hdb.validate ? n * size : size);
	hdb_buffer_new(&w->recv, hdb.validate ? n * size : size);
	w->sends = calloc(n, sizeof(MPI_Request));
	w->recvs = calloc(n, sizeof(MPI_Request));
	if (!w->sends || !w->recvs)
		hdb_die("no memory for %d requests: lower -w", hdb.window);
}

void hdb_window_free(struct hdb_window *w)
{
	hdb_buffer_free(&w->send);
	hdb_buffer_free(&w->recv);
	free(w->sends);
	free(w->recvs);
}

void hdb_window_isend(struct hdb_window *w, int peer, int tag)
{
	for (int i = 0; i < hdb.window; i++)
		MPI_Isend(w->send.p + (size_t)i * w->stride, (int)w->size, MPI_CHAR, peer, tag, MPI_COMM_WORLD,
			  &w->sends[i]);
}

void hdb_window_irecv(struct hdb_window *w, int peer, int tag)
{
	for (int i = 0; i < hdb.window; i++)
		MPI_Irecv(w->recv.p + (size_t)i * w->stride, (int)w->size, MPI_CHAR, peer, tag, MPI_COMM_WORLD,
			  &w->recvs[i]);
}

void hdb_window_wait_sends(struct hdb_window *w)
{
	MPI_Waitall(hdb.window, w->sends, MPI_STATUSES_IGNORE);
}

void hdb_window_wait_recvs(struct hdb_window *w)
{
	MPI_Waitall(hdb.window, w->recvs, MPI_STATUSES_IGNORE);
}

void hdb_window_prepare(struct hdb_window *w, int peer, int iteration)
{
	for (int i = 0; i < hdb.window; i++)
		hdb_fill(w->send.p + (size_t)i * w->stride, w->size, hdb_seed(iteration, hdb_rank, peer, i));
	memset(w->recv.p, 0, w->recv.bytes);
}

size_t hdb_window_check(struct hdb_window *w, int peer, int iteration)
{
	size_t wrong = 0;
	char what[96];

	for (int i = 0; i < hdb.window; i++) {
		snprintf(what, sizeof(what), "message %d of %zu bytes from rank %d, iteration %d", i, w->size, peer,
			 iteration);
		wrong += hdb_check(w->recv.p + (size_t)i * w->stride, w->size, hdb_seed(iteration, peer, hdb_rank, i),
				   what);
	}
	return wrong + hdb_guard(&w->recv);
}

static int64_t checked_loop(struct hdb_window *w, int peer, int iterations, int skip,
			    void (*iteration)(struct hdb_window *w, int peer), bool sends, bool receives, size_t *wrong)
{
	int64_t sum = 0, begin;

	for (int i = 0; i < skip + iterations; i++) {
		if (peer >= 0 && (sends || receives))
			hdb_window_prepare(w, peer, i);
		MPI_Barrier(MPI_COMM_WORLD);
		if (peer < 0)
			continue;
		begin = hdb_now();
		iteration(w, peer);
		if (i >= skip)
			sum += hdb_now() - begin;
		if (receives)
			*wrong += hdb_window_check(w, peer, i);
	}
	return sum;
}

int64_t hdb_window_loop(struct hdb_window *w, int peer, int iterations, int skip,
			void (*iteration)(struct hdb_window *w, int peer), bool sends, bool receives, size_t *wrong)
{
	int64_t begin;

	MPI_Barrier(MPI_COMM_WORLD);
	if (hdb.validate)
		return checked_loop(w, peer, iterations, skip, iteration, sends, receives, wrong);
	for (int i = 0; peer >= 0 && i < skip; i++)
		iteration(w, peer);
	/* All pairs begin together. */
	if (hdb_ranks > 2)
		MPI_Barrier(MPI_COMM_WORLD);
	begin = hdb_now();
	for (int i = 0; peer >= 0 && i < iterations; i++)
		iteration(w, peer);
	return hdb_now() - begin;
}
