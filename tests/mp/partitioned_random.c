/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random partitioned traffic. All ranks make the same plan of a batch from the seed: pairs of requests between random ranks (also
 * of one rank with itself, several pairs of one tag), with other numbers of partitions on both sides, sizes from nothing to some
 * hundred KiB, dense or strided types, some epochs. Each rank then makes its requests, and in each epoch starts them in a random
 * order; several threads mark the partitions in random orders and pieces (MPI_Pready, _range, _list), other threads call
 * MPI_Parrived for single partitions, which must hold their bytes then. Ordinary messages run beside. Arguments: batches, seed,
 * threads.
 */
#include "mpi_test.h"

#include <pthread.h>

enum { PAIRS = 12, MOST_EPOCHS = 4, MOST_THREADS = 8 };

static struct pair {
	int from, to, tag, epochs;
	int n, c, m, k;			/* n partitions of c, m of k */
	int gap_out, gap_in;		/* bytes between elements of one byte: 0: dense */
} plan[PAIRS];

static struct request {
	const struct pair *pair;
	MPI_Request q;
	MPI_Datatype type;
	unsigned char *buf;
	int sends, n, each, gap, *order;
	volatile int next;		/* position in order, taken by threads */
} requests[2 * PAIRS];
static int nrequests, epoch_now, nthreads;
static uint64_t batch_seed;

static unsigned char byte_at(const struct pair *p, int epoch, int i)
{
	return (unsigned char)mix(
		batch_seed ^ mix((uint64_t)(p - plan) * 1000003u + (uint64_t)epoch * 7919u + (uint64_t)i / 8) ^ (uint64_t)i);
}

static void make_plan(uint64_t *r)
{
	static const int sizes[] = { 0, 1, 3, 8, 64, 100, 1000, 5000, 20000, 60000 };

	for (int i = 0; i < PAIRS; i++) {
		struct pair *p = &plan[i];
		int unit = sizes[rnd(r) % 10], a = 1 + (int)(rnd(r) % 7), b = 1 + (int)(rnd(r) % 7), many = rnd(r) % 4 ? 1 : 16;

		*p = (struct pair){ .from = (int)(rnd(r) % (unsigned)np), .to = (int)(rnd(r) % (unsigned)np),
				    .tag = (int)(rnd(r) % 3), .epochs = 1 + (int)(rnd(r) % MOST_EPOCHS), .n = a, .m = b };
		if (unit < 1000) {
			p->n *= many;
			p->m *= rnd(r) % 2 ? many : 1;
		}
		/* n * c == m * k */
		p->c = p->m * unit;
		p->k = p->n * unit;
		p->gap_out = rnd(r) % 4 ? 0 : 1 + (int)(rnd(r) % 3);
		p->gap_in = rnd(r) % 4 ? 0 : 1 + (int)(rnd(r) % 3);
	}
}

static void request_make(const struct pair *p, int sends)
{
	struct request *q = &requests[nrequests++];

	*q = (struct request){ .pair = p, .sends = sends, .n = sends ? p->n : p->m, .each = sends ? p->c : p->k,
			       .gap = sends ? p->gap_out : p->gap_in };
	q->buf = malloc((size_t)q->n * q->each * (1 + q->gap) + 1);
	q->order = malloc((size_t)q->n * sizeof(int));
	MPI_Type_create_resized(MPI_BYTE, 0, 1 + q->gap, &q->type);
	MPI_Type_commit(&q->type);
	if (sends)
		MPI_Psend_init(q->buf, q->n, q->each, q->type, p->to, p->tag, MPI_COMM_WORLD, MPI_INFO_NULL, &q->q);
	else
		MPI_Precv_init(q->buf, q->n, q->each, q->type, p->from, p->tag, MPI_COMM_WORLD, MPI_INFO_NULL, &q->q);
	MPI_Type_free(&q->type);
}

static void check_partition(const struct request *q, int j, int epoch)
{
	for (int i = j * q->each; i < (j + 1) * q->each; i++)
		if (q->buf[(size_t)i * (1 + q->gap)] != byte_at(q->pair, epoch, i))
			test_fail(__FILE__, __LINE__,
				  "pair %d (%d to %d, tag %d, %d x %d to %d x %d), epoch %d, partition %d: byte %d is wrong",
				  (int)(q->pair - plan), q->pair->from, q->pair->to, q->pair->tag, q->pair->n, q->pair->c,
				  q->pair->m, q->pair->k, epoch, j, i);
}

static void shuffle(int *order, int n, uint64_t *r)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; i > 0; i--) {
		int k = (int)(rnd(r) % (unsigned)(i + 1)), t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
}

/* Marks the partitions order[at .. at + n). */
static void mark(const struct request *q, int at, int n)
{
	int ascending = 1;

	for (int i = 1; i < n; i++)
		ascending &= q->order[at + i] == q->order[at] + i;
	if (n == 1)
		MPI_Pready(q->order[at], q->q);
	else if (ascending)
		MPI_Pready_range(q->order[at], q->order[at] + n - 1, q->q);
	else
		MPI_Pready_list(n, &q->order[at], q->q);
}

static void *work(void *arg)
{
	uint64_t r = batch_seed ^ (uint64_t)epoch_now << 32 ^ (uint64_t)(long)arg << 8 ^ (uint64_t)me;
	int some = 1;

	while (some) {
		some = 0;
		for (int i = 0; i < nrequests; i++) {
			struct request *q = &requests[(i + (int)(long)arg) % nrequests];
			int n = 1 + (int)(rnd(&r) % 3), at;

			if (epoch_now >= q->pair->epochs || q->next >= q->n)
				continue;
			at = __atomic_fetch_add(&q->next, n, __ATOMIC_RELAXED);
			if (at >= q->n)
				continue;
			n = at + n > q->n ? q->n - at : n;
			some = 1;
			if (q->sends) {
				mark(q, at, n);
				continue;
			}
			/* one look: the senders' threads may be these, later */
			for (int k = at; k < at + n; k++) {
				int flag;

				MPI_Parrived(q->q, q->order[k], &flag);
				if (flag)
					check_partition(q, q->order[k], epoch_now);
			}
		}
	}
	return NULL;
}

static void run_epoch(uint64_t *r)
{
	MPI_Request all[2 * PAIRS + 2];
	int n = 0, in = -1, out = me * 1000 + epoch_now;
	pthread_t threads[MOST_THREADS];

	for (int i = 0; i < nrequests; i++) {
		struct request *q = &requests[i];

		if (epoch_now >= q->pair->epochs)
			continue;
		for (int b = 0; b < q->n * q->each; b++)
			q->buf[(size_t)b * (1 + q->gap)] =
				q->sends ? byte_at(q->pair, epoch_now, b) : (unsigned char)~byte_at(q->pair, epoch_now, b);
		if (rnd(r) % 2)
			shuffle(q->order, q->n, r);
		else
			for (int k = 0; k < q->n; k++)
				q->order[k] = k;
		q->next = 0;
		all[n++] = q->q;
	}
	for (int i = n - 1; i > 0; i--) {
		int k = (int)(rnd(r) % (unsigned)(i + 1));
		MPI_Request t = all[i];

		all[i] = all[k];
		all[k] = t;
	}
	if (rnd(r) % 2)
		MPI_Startall(n, all);
	else
		for (int i = 0; i < n; i++)
			MPI_Start(&all[i]);
	MPI_Irecv(&in, 1, MPI_INT, (me + np - 1) % np, 1, MPI_COMM_WORLD, &all[n]);
	MPI_Isend(&out, 1, MPI_INT, (me + 1) % np, 1, MPI_COMM_WORLD, &all[n + 1]);
	for (long t = 1; t < nthreads; t++)
		if (pthread_create(&threads[t], NULL, work, (void *)t))
			abort();
	if (nthreads == 1 || rnd(r) % 2) {
		work(NULL);
		MPI_Waitall(n + 2, all, MPI_STATUSES_IGNORE);
	} else {
		MPI_Waitall(n + 2, all, MPI_STATUSES_IGNORE);	/* the threads mark meanwhile */
	}
	for (long t = 1; t < nthreads; t++)
		pthread_join(threads[t], NULL);
	CHECK_EQ(in, (me + np - 1) % np * 1000 + epoch_now);
	for (int i = 0; i < nrequests; i++)
		for (int j = 0; !requests[i].sends && epoch_now < requests[i].pair->epochs && j < requests[i].n; j++)
			check_partition(&requests[i], j, epoch_now);
}

static void batch(uint64_t seed)
{
	uint64_t r = seed, mine;

	batch_seed = seed;
	make_plan(&r);
	mine = mix(r ^ (uint64_t)me);
	nrequests = 0;
	for (int i = 0; i < PAIRS; i++) {
		if (plan[i].from == me)
			request_make(&plan[i], 1);
		if (plan[i].to == me)
			request_make(&plan[i], 0);
	}
	for (epoch_now = 0; epoch_now < MOST_EPOCHS; epoch_now++)
		run_epoch(&mine);
	for (int i = 0; i < nrequests; i++) {
		MPI_Request_free(&requests[i].q);
		free(requests[i].buf);
		free(requests[i].order);
	}
}

int main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : 5, provided;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	nthreads = argc > 3 ? atoi(argv[3]) : 1;
	MPI_Init_thread(&argc, &argv, nthreads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_dup(MPI_COMM_WORLD, &sync_comm);
	for (int b = 0; b < batches; b++)
		batch(mix(seed * 1000 + (uint64_t)b));
	test_done("partitioned_random");
	return 0;
}
