/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of arrays that are not contiguous, as a Fortran compiler passes them (MPI-5.0 section 19.1.12), in one process:
 * random ranks, extents, strides of either sign, sizes of elements, counts and datatypes, against elements that are picked one by
 * one. And the memory that a request keeps until completion.
 *   fortran_descriptors [sections N] [SEED] | requests | splits | callbacks
 */
#include "fortran/mpifort.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void mpi_sendrecv_f08ts_(const struct mpifort_desc *, const int *, const MPI_Fint *, const int *, const int *,
			 const struct mpifort_desc *, const int *, const MPI_Fint *, const int *, const int *, const MPI_Fint *,
			 MPI_Fint *, MPI_Fint *);
void mpi_isend_f08ts_(const struct mpifort_desc *, const int *, const MPI_Fint *, const int *, const int *, const MPI_Fint *,
		      MPI_Fint *, MPI_Fint *);
void mpi_irecv_f08ts_(const struct mpifort_desc *, const int *, const MPI_Fint *, const int *, const int *, const MPI_Fint *,
		      MPI_Fint *, MPI_Fint *);
void mpi_gather_f08ts_(const struct mpifort_desc *, const int *, const MPI_Fint *, const struct mpifort_desc *, const int *,
		       const MPI_Fint *, const int *, const MPI_Fint *, MPI_Fint *);
void mpi_allgatherv_f08ts_(const struct mpifort_desc *, const int *, const MPI_Fint *, const struct mpifort_desc *, const int *,
			   const int *, const MPI_Fint *, const MPI_Fint *, MPI_Fint *);
void mpi_iallreduce_f08ts_(const struct mpifort_desc *, const struct mpifort_desc *, const int *, const MPI_Fint *,
			   const MPI_Fint *, const MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_allreduce_init_f08ts_(const struct mpifort_desc *, const struct mpifort_desc *, const int *, const MPI_Fint *,
			       const MPI_Fint *, const MPI_Fint *, const MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_put_f08ts_(const struct mpifort_desc *, const int *, const MPI_Fint *, const int *, const MPI_Aint *, const int *,
		    const MPI_Fint *, const MPI_Fint *, MPI_Fint *);
void mpi_file_write_at_all_begin_f08ts_(const MPI_Fint *, const MPI_Offset *, const struct mpifort_desc *, const int *,
					const MPI_Fint *, MPI_Fint *);
void mpi_file_read_at_all_begin_f08ts_(const MPI_Fint *, const MPI_Offset *, const struct mpifort_desc *, const int *,
				       const MPI_Fint *, MPI_Fint *);
void mpi_file_write_at_all_end_f08ts_(const MPI_Fint *, const struct mpifort_desc *, MPI_Fint *, MPI_Fint *);
void mpi_file_read_at_all_end_f08ts_(const MPI_Fint *, const struct mpifort_desc *, MPI_Fint *, MPI_Fint *);
void mpi_wait_(MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_test_(MPI_Fint *, int *, MPI_Fint *, MPI_Fint *);
void mpi_waitsome_(const int *, MPI_Fint *, int *, int *, MPI_Fint *, MPI_Fint *);
void mpi_testsome_(const int *, MPI_Fint *, int *, int *, MPI_Fint *, MPI_Fint *);
void mpi_waitall_(const int *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void mpi_testall_(const int *, MPI_Fint *, int *, MPI_Fint *, MPI_Fint *);
void mpi_waitany_(const int *, MPI_Fint *, int *, MPI_Fint *, MPI_Fint *);
void mpi_testany_(const int *, MPI_Fint *, int *, int *, MPI_Fint *, MPI_Fint *);
void mpi_request_get_status_(const MPI_Fint *, int *, MPI_Fint *, MPI_Fint *);
void mpi_start_(MPI_Fint *, MPI_Fint *);
void mpi_request_free_(MPI_Fint *, MPI_Fint *);

enum { MEMORY = 16384, MIDDLE = MEMORY / 2, MOST = 600 };

static int failures;
static const int zero, one = 1;
static const MPI_Fint self = 0x102, ints = 0x209;	/* MPI_COMM_SELF, MPI_INT */

#define CHECK(cond, ...)							\
	do {									\
		if (!(cond)) {							\
			printf("line %d: not true: %s: ", __LINE__, #cond);	\
			printf(__VA_ARGS__);					\
			printf("\n");						\
			failures++;						\
		}								\
	} while (0)

static unsigned state;
static int any(int n)
{
	state = state * 1664525u + 1013904223u;
	return (int)((state >> 8) % (unsigned)n);
}

/* An array in `memory`: dimensions in a random order of strides, so that no two elements meet. Returns
 * how many elements it has. */
static int array(struct mpifort_desc *d, char *memory, int rank, int elem_len, const int *extents)
{
	ptrdiff_t stride = elem_len + 4 * any(3);
	int order[15], n = 1;
	char *base = memory;

	memset(d, 0, sizeof(*d));
	d->elem_len = (size_t)elem_len;
	d->rank = (signed char)rank;
	for (int i = 0; i < rank; i++)
		order[i] = i;
	for (int i = rank - 1; i > 0 && any(2); i--) {
		int j = any(i + 1), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (int k = 0; k < rank; k++) {
		int i = order[k];

		d->dim[i].extent = extents[i];
		d->dim[i].sm = any(3) ? stride : -stride;
		if (d->dim[i].sm < 0)
			base += stride * (extents[i] - 1);
		stride = stride * (extents[i] + any(2)) + (any(3) ? 0 : 4 * any(4));
		n *= extents[i];
	}
	d->base = base;
	return n;
}

static char *element(const struct mpifort_desc *d, int n)
{
	char *p = d->base;

	for (int i = 0; i < d->rank; i++) {
		p += d->dim[i].sm * (n % d->dim[i].extent);
		n /= (int)d->dim[i].extent;
	}
	return p;
}

static struct mpifort_desc contiguous(void *memory, int bytes)
{
	struct mpifort_desc d = { .base = memory, .elem_len = 1, .rank = 1 };

	d.dim[0].extent = bytes;
	d.dim[0].sm = 1;
	return d;
}

static void exchange(const struct mpifort_desc *from, int n, MPI_Fint type, const struct mpifort_desc *to, int m,
		     MPI_Fint to_type, bool nonblocking)
{
	MPI_Fint rc = 0, requests[2];

	if (!nonblocking) {
		mpi_sendrecv_f08ts_(from, &n, &type, &zero, &one, to, &m, &to_type, &zero, &one, &self,
				    mpifort_sentinels_.status_ignore, &rc);
	} else {
		mpi_irecv_f08ts_(to, &m, &to_type, &zero, &one, &self, &requests[0], &rc);
		mpi_isend_f08ts_(from, &n, &type, &zero, &one, &self, &requests[1], &rc);
		mpi_wait_(&requests[0], mpifort_sentinels_.status_ignore, &rc);
		mpi_wait_(&requests[1], mpifort_sentinels_.status_ignore, &rc);
	}
	CHECK(!rc, "%d", rc);
}

/* One array: its first elements are sent from where they are, and received to where they belong. */
static void section(int turn)
{
	static char memory[MEMORY], flat[MEMORY], expected[MEMORY];
	static const int lengths[] = { 4, 8, 12, 16 };
	int rank = 1 + any(4), len = lengths[any(4)], extents[4], total, count, per, ints_sent;
	bool with_gaps = !any(6);
	struct mpifort_desc d, f = contiguous(flat, MEMORY);
	MPI_Datatype type = MPI_INT;
	MPI_Fint f_type = ints;

	for (int i = 0; i < rank; i++)
		extents[i] = 1 + any(4);
	total = array(&d, memory + 1024, rank, len, extents);
	per = with_gaps ? 3 : any(3) ? 1 : 1 + any(len / 4);	/* integers that a datatype covers */
	if (with_gaps) {
		/* an integer, a gap, an integer: in elements as if they followed each other */
		MPI_Type_create_hindexed(2, (int[]){ 1, 1 }, (MPI_Aint[]){ 0, 8 }, MPI_INT, &type);
		MPI_Type_commit(&type);
	} else if (per > 1) {
		MPI_Type_contiguous(per, MPI_INT, &type);
		MPI_Type_commit(&type);
	}
	if (type != MPI_INT)
		f_type = MPI_Type_toint(type);
	count = any(total * len / 4 / per + 1);
	for (int i = 0; i < MEMORY; i++)
		memory[i] = (char)(i * 7 + turn);
	memset(flat, 0, sizeof(flat));
	/* expected: the elements that the datatype selects of the elements in a row */
	ints_sent = 0;
	for (int i = 0; i < count * per; i++)
		if (!with_gaps || i % 3 != 1) {
			memcpy(expected + 4 * ints_sent, element(&d, 4 * i / len) + 4 * i % len, 4);
			ints_sent++;
		}
	exchange(&d, count, f_type, &f, ints_sent, ints, turn & 1);
	CHECK(!memcmp(flat, expected, (size_t)(4 * ints_sent)),
	      "turn %d, sent: rank %d, element of %d bytes, %d of %d, %d integers each", turn, rank, len, count, total, per);
	/* and back, to the same place in other memory */
	memset(memory, 0x55, sizeof(memory));
	for (int i = 0; i < 4 * ints_sent; i++)
		flat[i] = (char)(i + turn + 3);
	exchange(&f, ints_sent, ints, &d, count, f_type, turn & 1);
	for (int i = 0, n = 0; i < count * per; i++)
		if (!with_gaps || i % 3 != 1) {
			CHECK(!memcmp(element(&d, 4 * i / len) + 4 * i % len, flat + 4 * n, 4), "turn %d, received: integer %d",
			      turn, i);
			memset(element(&d, 4 * i / len) + 4 * i % len, 0x55, 4);
			n++;
		}
	for (int i = 0; i < MEMORY; i++)
		if (memory[i] != 0x55) {
			CHECK(false, "turn %d, received: byte %d was written", turn, i);
			break;
		}
	if (type != MPI_INT)
		MPI_Type_free(&type);
}

/* Blocks and vectors of one process: the same arrays as the receive buffer of collectives. */
static void blocks(int turn)
{
	static char memory[MEMORY];
	int flat[MOST], rank = 1 + any(3), extents[3], total, count, shift, rc = 0;
	struct mpifort_desc d, f = contiguous(flat, sizeof(flat));

	for (int i = 0; i < rank; i++)
		extents[i] = 1 + any(4);
	total = array(&d, memory + 1024, rank, 4, extents);
	count = any(2) ? total : any(total + 1);
	shift = any(total - count + 1);
	for (int i = 0; i < count; i++)
		flat[i] = turn + i;
	memset(memory, 0x55, sizeof(memory));
	if (any(2)) {
		shift = 0;
		mpi_gather_f08ts_(&f, &count, &ints, &d, &count, &ints, &zero, &self, &rc);
	} else
		mpi_allgatherv_f08ts_(&f, &count, &ints, &d, &count, &shift, &ints, &self, &rc);
	CHECK(!rc, "%d", rc);
	for (int i = 0; i < count; i++) {
		CHECK(!memcmp(element(&d, shift + i), &flat[i], 4), "turn %d: element %d of %d in %d, rank %d", turn, i, count,
		      total, rank);
		memset(element(&d, shift + i), 0x55, 4);
	}
	for (int i = 0; i < MEMORY; i++)
		if (memory[i] != 0x55) {
			CHECK(false, "turn %d: byte %d was written", turn, i);
			break;
		}
}

/* Every second integer of a[8]. */
static struct mpifort_desc every_second(int *a)
{
	struct mpifort_desc d = { .base = a, .elem_len = 4, .rank = 1 };

	d.dim[0].extent = 4;
	d.dim[0].sm = 8;
	return d;
}

static void fill(int *a, int from)
{
	for (int i = 0; i < 8; i++)
		a[i] = from + i;
}

static bool arrived(const int *to, int from)
{
	for (int i = 0; i < 8; i++)
		if (to[i] != (i % 2 ? -1 : from + i))
			return false;
	return true;
}

static void requests(void)
{
	int from[8], to[8], four = 4, flag, out, index[2];
	struct mpifort_desc d = every_second(from), e = every_second(to);
	MPI_Fint r, rc, both[2], sum = 0x21, no_info = 0x130, *ignore = mpifort_sentinels_.status_ignore;
	MPI_Fint status[MPI_F_STATUS_SIZE];

	/* nonblocking: the data are in the array when Wait, Test, Waitsome or Request_get_status reports completion */
	for (int how = 0; how < 4; how++) {
		fill(from, 100 * how);
		memset(to, 0xff, sizeof(to));
		mpi_iallreduce_f08ts_(&d, &e, &four, &ints, &sum, &self, &r, &rc);
		/* the descriptor was the caller's, and goes */
		memset(&e.dim, 0, sizeof(e.dim));
		both[0] = MPI_Request_toint(MPI_REQUEST_NULL);
		both[1] = r;
		flag = 0;
		out = 0;
		if (how == 0)
			mpi_wait_(&r, status, &rc);
		else if (how == 3)
			mpi_waitsome_(&(int){ 2 }, both, &out, index, mpifort_sentinels_.statuses_ignore, &rc);
		else
			while (!flag)
				how == 1 ? mpi_test_(&r, &flag, ignore, &rc) : mpi_request_get_status_(&r, &flag, ignore, &rc);
		CHECK(!rc && arrived(to, 100 * how), "how %d", how);
		if (how == 2) {
			/* once only: the buffer is the program's again */
			to[0] = 7;
			mpi_wait_(&r, ignore, &rc);
			CHECK(to[0] == 7, "%d", to[0]);
		}
		CHECK(how != 3 || (out == 1 && index[0] == 2 && both[1] == both[0]), "%d %d", out, index[0]);
		CHECK(mpifort_nkept == 0, "%d", mpifort_nkept);
		e = every_second(to);
	}
	/* persistent: copied at each start, and back at each end */
	memset(to, 0xff, sizeof(to));
	mpi_allreduce_init_f08ts_(&d, &e, &four, &ints, &sum, &self, &no_info, &r, &rc);
	for (int turn = 1; turn <= 3; turn++) {
		fill(from, 10 * turn);
		memset(to, 0xff, sizeof(to));
		mpi_start_(&r, &rc);
		mpi_wait_(&r, ignore, &rc);
		CHECK(arrived(to, 10 * turn) && mpifort_nkept == 1, "turn %d", turn);
	}
	mpi_request_free_(&r, &rc);
	CHECK(mpifort_nkept == 0, "%d", mpifort_nkept);
	/* the end of a put is not seen: such a datatype is refused, no copy is taken */
	MPI_Win win;
	MPI_Datatype pair;
	int window[8];
	MPI_Aint disp = 0;
	MPI_Fint f_win, f_pair;
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Win_create(window, sizeof(window), 4, MPI_INFO_NULL, MPI_COMM_SELF, &win);
	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	f_win = MPI_Win_toint(win);
	f_pair = MPI_Type_toint(pair);
	MPI_Win_fence(0, win);
	mpi_put_f08ts_(&d, &(int){ 2 }, &f_pair, &zero, &disp, &four, &ints, &f_win, &rc);
	CHECK(rc == MPI_ERR_BUFFER, "%d", rc);
	mpi_put_f08ts_(&d, &four, &ints, &zero, &disp, &four, &ints, &f_win, &rc);
	MPI_Win_fence(0, win);
	CHECK(!rc && window[0] == from[0] && window[3] == from[6], "%d", rc);
	MPI_Type_free(&pair);
	MPI_Win_free(&win);
}

/* ---- a handle that is used again -------------------------------------------------------------------------------- */

/* Stands for another thread: it runs when the C call has freed a request, and the Fortran procedure does not know yet. */
static void (*between)(void);

#define BETWEEN(call)		\
	int rc = call;		\
				\
	if (between)		\
		between();	\
	return rc
int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	BETWEEN(PMPI_Wait(request, status));
}
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	BETWEEN(PMPI_Test(request, flag, status));
}
int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
	BETWEEN(PMPI_Waitall(count, requests, statuses));
}
int MPI_Testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses)
{
	BETWEEN(PMPI_Testall(count, requests, flag, statuses));
}
int MPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
	BETWEEN(PMPI_Waitany(count, requests, index, status));
}
int MPI_Testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status)
{
	BETWEEN(PMPI_Testany(count, requests, index, flag, status));
}
int MPI_Waitsome(int incount, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses)
{
	BETWEEN(PMPI_Waitsome(incount, requests, outcount, indices, statuses));
}
int MPI_Testsome(int incount, MPI_Request *requests, int *outcount, int *indices, MPI_Status *statuses)
{
	BETWEEN(PMPI_Testsome(incount, requests, outcount, indices, statuses));
}
int MPI_Request_free(MPI_Request *request)
{
	BETWEEN(PMPI_Request_free(request));
}

static int other_from[8], other_to[8];
static MPI_Fint other;

static void reduce_start(int *from, int *to, int base, bool persistent, MPI_Fint *request)
{
	struct mpifort_desc d = every_second(from), e = every_second(to);
	MPI_Fint rc, sum = 0x21, no_info = 0x130;
	int four = 4;

	fill(from, base);
	memset(to, 0xff, 8 * sizeof(*to));
	if (persistent)
		mpi_allreduce_init_f08ts_(&d, &e, &four, &ints, &sum, &self, &no_info, request, &rc);
	else
		mpi_iallreduce_f08ts_(&d, &e, &four, &ints, &sum, &self, request, &rc);
}

static void start_other(void)
{
	between = NULL;
	reduce_start(other_from, other_to, 500, false, &other);
}

/* How a request is completed, by each procedure that may free one. */
static void complete(int how, MPI_Fint *request)
{
	MPI_Fint rc, *ignore = mpifort_sentinels_.status_ignore, *ignores = mpifort_sentinels_.statuses_ignore;
	int flag = 0, count = 1, index;

	while (!flag)
		switch (how) {
		case 0: flag = 1; mpi_wait_(request, ignore, &rc); break;
		case 1: mpi_test_(request, &flag, ignore, &rc); break;
		case 2: flag = 1; mpi_waitall_(&count, request, ignores, &rc); break;
		case 3: mpi_testall_(&count, request, &flag, ignores, &rc); break;
		case 4: flag = 1; mpi_waitany_(&count, request, &index, ignore, &rc); break;
		case 5: mpi_testany_(&count, request, &index, &flag, ignore, &rc); break;
		case 6: mpi_waitsome_(&count, request, &flag, &index, ignores, &rc); break;
		case 7: mpi_testsome_(&count, request, &flag, &index, ignores, &rc); break;
		default: flag = 1; mpi_request_free_(request, &rc); break;
		}
}

static void handle_again(void)
{
	MPI_Fint *ignore = mpifort_sentinels_.status_ignore, rc, request, was;
	int from[8], to[8];

	for (int how = 0; how < 9; how++) {
		reduce_start(from, to, 100 * how, how == 8, &request);
		was = request;
		/* complete in the C library: Test and the like then free the request when they are called first */
		for (int flag = 0; how < 8 && !flag;)
			PMPI_Request_get_status(PMPI_Request_fromint(request), &flag, MPI_STATUS_IGNORE);
		between = start_other;
		complete(how, &request);
		CHECK(!between && other == was, "how %d: the handle was not used again", how);
		CHECK(how == 8 || arrived(to, 100 * how), "how %d", how);
		CHECK(mpifort_nkept == 1, "how %d: %d", how, mpifort_nkept);
		mpi_wait_(&other, ignore, &rc);
		CHECK(arrived(other_to, 500), "how %d: the other request", how);
		CHECK(mpifort_nkept == 0, "how %d: %d", how, mpifort_nkept);
	}
}

/* ---- split collectives ---------------------------------------------------------------------------------------- */

/* A datatype with gaps over a section: a copy from the begin to the end. The descriptor is gone in between, as a compiler's. */
static void splits(void)
{
	char name[] = "/tmp/fortran_descriptors.XXXXXX";
	int fd = mkstemp(name), array[24], expected[24];
	MPI_Offset at = 0;
	MPI_Datatype pair;
	MPI_File file;
	MPI_Fint fh, type, rc = -1, wrong;
	struct mpifort_desc section = { .base = array, .elem_len = 4, .rank = 1 }, d, end = section;

	close(fd);
	section.dim[0].extent = 8;
	section.dim[0].sm = 12;
	MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
	MPI_Type_create_hindexed(2, (int[]){ 1, 1 }, (MPI_Aint[]){ 0, 8 }, MPI_INT, &pair);	/* elements 0 and 2 of three */
	MPI_Type_commit(&pair);
	fh = MPI_File_toint(file);
	type = MPI_Type_toint(pair);
	for (int i = 0; i < 24; i++)
		array[i] = 100 + i;
	d = section;
	mpi_file_write_at_all_begin_f08ts_(&fh, &at, &d, &(int){ 2 }, &type, &rc);
	memset(&d, 0, sizeof(d));
	CHECK(!rc && mpifort_nsplit == 1, "%d, %d", rc, mpifort_nsplit);
	/* the end of another access: the copy stays */
	mpi_file_read_at_all_end_f08ts_(&fh, &end, mpifort_sentinels_.status_ignore, &wrong);
	CHECK(wrong && mpifort_nsplit == 1, "%d, %d", wrong, mpifort_nsplit);
	mpi_file_write_at_all_end_f08ts_(&fh, &end, mpifort_sentinels_.status_ignore, &rc);
	CHECK(!rc && mpifort_nsplit == 0, "%d, %d", rc, mpifort_nsplit);
	/* elements 0, 2, 3 and 5 of the section, as the file has them */
	MPI_File_read_at(file, 0, expected, 4, MPI_INT, MPI_STATUS_IGNORE);
	CHECK(expected[0] == 100 && expected[1] == 106 && expected[2] == 109 && expected[3] == 115, "%d %d %d %d", expected[0],
	      expected[1], expected[2], expected[3]);
	memset(array, 0, sizeof(array));
	memset(expected, 0, sizeof(expected));
	expected[0] = 100;
	expected[6] = 106;
	expected[9] = 109;
	expected[15] = 115;
	d = section;
	mpi_file_read_at_all_begin_f08ts_(&fh, &at, &d, &(int){ 2 }, &type, &rc);
	memset(&d, 0, sizeof(d));
	mpi_file_read_at_all_end_f08ts_(&fh, &end, mpifort_sentinels_.status_ignore, &rc);
	CHECK(!rc && !memcmp(array, expected, sizeof(array)), "%d", rc);
	/* one without a copy */
	d = section;
	mpi_file_read_at_all_begin_f08ts_(&fh, &at, &d, &(int){ 4 }, &ints, &rc);
	CHECK(mpifort_nsplit == 0, "%d", mpifort_nsplit);
	mpi_file_read_at_all_end_f08ts_(&fh, &end, mpifort_sentinels_.status_ignore, &rc);
	CHECK(!rc && array[3] == 106, "%d, %d", rc, array[3]);
	MPI_Type_free(&pair);
	MPI_File_close(&file);
}

/* ---- callbacks ------------------------------------------------------------------------------------------------ */

#define FN(n) static void fn_##n(void) { failures += n < 0; }
FN(0) FN(1) FN(2)

static void callbacks(void)
{
	static char functions[300];
	MPI_User_function *first = mpifort_op_function(fn_0), *second = mpifort_op_function(fn_1);
	int n = 0;

	CHECK(first && second && first != second, "two functions");
	CHECK(mpifort_op_function(fn_0) == first && mpifort_op_function(fn_1) == second, "one slot each");
	CHECK((void *)mpifort_op_function_c(fn_2) != (void *)first, "large counts");
	/* more functions than slots: refused */
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	while (n < 300 && mpifort_win_errhandler((mpifort_fn *)(void *)&functions[n]))
		n++;
	CHECK(n == 256, "%d", n);
	CHECK(!mpifort_win_errhandler((mpifort_fn *)(void *)&functions[299]), "none left");
	CHECK(mpifort_win_errhandler((mpifort_fn *)(void *)&functions[3]), "known already");
	/* attributes: cells are known by their addresses until they are freed */
	void *a = mpifort_attribute(5), *b = mpifort_attribute(-6);
	int tag_ub = 77;
	CHECK(mpifort_attribute_value(9000, a) == 5 && mpifort_attribute_value(9000, b) == -6, "cells");
	CHECK(mpifort_attribute_value(9000, (void *)1234) == 1234, "an address of C");
	CHECK(mpifort_attribute_value(MPI_TAG_UB, &tag_ub) == 77, "predefined");
	mpifort_attribute_free((void *)1234);
	mpifort_attribute_free(a);
	CHECK(mpifort_attribute_value(9000, b) == -6, "the other cell");
	mpifort_attribute_free(b);
	/* many, of which every second one is freed and comes again: none loses its neighbours in the table */
	static void *cells[2000];
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 2000; i++)
			if (!turn || i % 2 == turn % 2)
				cells[i] = mpifort_attribute(i);
		for (int i = 0; i < 2000; i++)
			CHECK(mpifort_attribute_value(9000, cells[i]) == i, "turn %d, cell %d", turn, i);
		for (int i = 0; i < 2000; i++)
			if (i % 2 != turn % 2)
				mpifort_attribute_free(cells[i]);
	}
	/* strings */
	char *s = mpifort_string("  text  ", 8, false), out[6];
	CHECK(!strcmp(s, "  text"), "'%s'", s);
	free(s);
	s = mpifort_string("  text  ", 8, true);
	CHECK(!strcmp(s, "text"), "'%s'", s);
	free(s);
	s = mpifort_string("    ", 4, true);
	CHECK(!*s, "'%s'", s);
	free(s);
	mpifort_string_out(out, 6, "abc", MPI_SUCCESS);
	CHECK(!memcmp(out, "abc   ", 6), "padded");
	mpifort_string_out(out, 6, "abcdefghi", MPI_SUCCESS);
	CHECK(!memcmp(out, "abcdef", 6), "cut");
	mpifort_string_out(out, 6, "xyz", MPI_ERR_ARG);
	CHECK(!memcmp(out, "abcdef", 6), "left alone");
}

int main(int argc, char **argv)
{
	bool all = argc < 2;
	int turns = argc > 2 ? atoi(argv[2]) : 600;

	state = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	MPI_Init(NULL, NULL);
	if (all || !strcmp(argv[1], "sections"))
		for (int turn = 0; turn < turns && !failures; turn++) {
			section(turn);
			blocks(turn);
		}
	if (all || !strcmp(argv[1], "requests"))
		requests();
	if (all || !strcmp(argv[1], "handle_again"))
		handle_again();
	if (all || !strcmp(argv[1], "splits"))
		splits();
	if (all || !strcmp(argv[1], "callbacks"))
		callbacks();
	MPI_Finalize();
	printf("fortran_descriptors: %d wrong\n", failures);
	return failures != 0;
}
