/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages with the same signature and different layouts at the two sides (MPI-5.0 sections 3.3.1 and 5.1.11). A signature is
 * drawn, and each side of a message makes a type of that signature by other constructors, nested up to six deep, with a
 * brute-force record of where each basic element lies. The received data are compared with that record, every byte of the buffer,
 * the gaps among them. Receives may be longer than their messages. All modes of sending; receives posted before and after,
 * persistent, of matched probes. Arguments: rounds, seed.
 */
#include "mpi_test.h"

#include <stdbool.h>

#define MESSAGES	24
#define DEPTH		5
#define UNIT		40		/* basic elements of a signature that is repeated */

static const struct { MPI_Datatype type; long size; } basic[] = {
	{ MPI_CHAR, 1 }, { MPI_SHORT, 2 }, { MPI_INT, 4 }, { MPI_DOUBLE, 8 }, { MPI_BYTE, 1 }, { MPI_C_DOUBLE_COMPLEX, 16 },
};
#define BASICS	((long)(sizeof(basic) / sizeof(basic[0])))

static uint64_t state;
static unsigned long long seed;		/* of the round */

#define SAME(k, a, b) \
	do { \
		long long a_ = (long long)(a), b_ = (long long)(b); \
		if (a_ != b_) \
			test_fail(__FILE__, __LINE__, "seed %llu, message %d: %s is %lld, not %lld", seed, k, #a, a_, b_); \
	} while (0)

static long draw(long n)
{
	return (long)(rnd(&state) % (uint64_t)n);
}

/* ---- a type, and the places of its elements ---------------------------------------------------------------- */

/* Entry i of the type map is of kind[i] and lies at place[i]; all of it in lo..hi-1. */
struct map {
	MPI_Datatype type;
	bool made;			/* derived, to be freed */
	long n, lo, hi;
	long *place;
	const int *kind;
};

static void find_bounds(struct map *m)
{
	m->lo = m->hi = m->place[0];
	for (long i = 0; i < m->n; i++) {
		long end = m->place[i] + basic[m->kind[i]].size;

		m->lo = m->place[i] < m->lo ? m->place[i] : m->lo;
		m->hi = end > m->hi ? end : m->hi;
	}
}

static void replace_type(struct map *m, MPI_Datatype type)
{
	if (m->made)
		MPI_Type_free(&m->type);
	m->type = type;
	m->made = true;
}

/* Resizes the type so that copies do not touch each other, upwards or downwards. Returns the extent. */
static long space_out(struct map *m)
{
	long extent = m->hi - m->lo + draw(4) * draw(9);
	MPI_Datatype type;

	if (draw(4) == 0)
		extent = -extent;
	if (draw(2))
		MPI_Type_create_resized(m->type, m->lo - draw(5), extent, &type);
	else
		MPI_Type_create_resized_c(m->type, m->lo + draw(50), extent, &type);
	replace_type(m, type);
	return extent;
}

/* Replaces m by k copies of m, displaced by at[i] bytes. */
static void replicate(struct map *m, long k, const long *at, const int *kind)
{
	long *place = malloc((size_t)(m->n * k) * sizeof(*place));

	for (long i = 0; i < k; i++)
		for (long j = 0; j < m->n; j++)
			place[i * m->n + j] = m->place[j] + at[i];
	free(m->place);
	m->place = place;
	m->n *= k;
	m->kind = kind;
	find_bounds(m);
}

/* k different slots in any order. */
static void draw_slots(long *slot, long k)
{
	for (long i = 0, next = -draw(2 * k); i < k; i++, next += 1 + (draw(3) == 0))
		slot[i] = next;
	for (long i = k - 1; i > 0 && draw(4); i--) {
		long j = draw(i + 1), s = slot[i];

		slot[i] = slot[j];
		slot[j] = s;
	}
}

static long divisor(long k)
{
	long d = 1 + draw(k);

	while (k % d)
		d--;
	return d;
}

static MPI_Datatype make_vector(const struct map *m, long k, long extent, long *at)
{
	long block = divisor(k), stride = (block + draw(3)) * (draw(3) ? 1 : -1), gap = draw(7);
	MPI_Datatype type;
	int bytes = draw(2) == 0;

	if (bytes)
		stride = stride * extent + (stride * extent < 0 ? -gap : gap);
	for (long i = 0; i < k; i++)
		at[i] = i / block * stride * (bytes ? 1 : extent) + i % block * extent;
	if (bytes && draw(2))
		MPI_Type_create_hvector_c(k / block, block, stride, m->type, &type);
	else if (bytes)
		MPI_Type_create_hvector((int)(k / block), (int)block, stride, m->type, &type);
	else
		MPI_Type_vector((int)(k / block), (int)block, (int)stride, m->type, &type);
	return type;
}

static MPI_Datatype make_indexed(const struct map *m, long k, long extent, long *at)
{
	long block = divisor(k), n = k / block, *slot = malloc((size_t)n * sizeof(*slot));
	int *length = malloc((size_t)n * sizeof(*length)), *index = malloc((size_t)n * sizeof(*index));
	MPI_Aint *bytes = malloc((size_t)n * sizeof(*bytes));
	MPI_Datatype type;

	draw_slots(slot, n);
	for (long i = 0; i < n; i++) {
		length[i] = (int)block;
		index[i] = (int)(slot[i] * block);
		bytes[i] = slot[i] * block * extent;
	}
	for (long i = 0; i < k; i++)
		at[i] = slot[i / block] * block * extent + i % block * extent;
	switch (draw(4)) {
	case 0:
		MPI_Type_indexed((int)n, length, index, m->type, &type);
		break;
	case 1:
		MPI_Type_create_hindexed((int)n, length, bytes, m->type, &type);
		break;
	case 2:
		MPI_Type_create_indexed_block((int)n, (int)block, index, m->type, &type);
		break;
	default:
		MPI_Type_create_hindexed_block((int)n, (int)block, bytes, m->type, &type);
	}
	free(slot);
	free(length);
	free(index);
	free(bytes);
	return type;
}

static MPI_Datatype make_subarray(const struct map *m, long k, long extent, long *at)
{
	long a = divisor(k);
	int sub[2] = { (int)a, (int)(k / a) }, size[2], start[2], order = draw(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
	int slow = order == MPI_ORDER_C ? 0 : 1, fast = 1 - slow;
	MPI_Datatype type;

	for (int d = 0; d < 2; d++) {
		size[d] = sub[d] + (int)draw(3);
		start[d] = (int)draw(size[d] - sub[d] + 1);
	}
	for (long i = 0; i < k; i++)
		at[i] = ((start[slow] + i / sub[fast]) * size[fast] + start[fast] + i % sub[fast]) * extent;
	MPI_Type_create_subarray(2, size, sub, start, order, m->type, &type);
	return type;
}

/* One dimension, block-cyclic: with so many elements that this rank has k of them. */
static MPI_Datatype make_darray(const struct map *m, long k, long extent, long *at)
{
	int ranks = 1 + (int)draw(4), rank = (int)draw(ranks), block = 1 + (int)draw(3), size = 0;
	int how = MPI_DISTRIBUTE_CYCLIC;
	MPI_Datatype type;

	for (long i = 0; i < k; size++)
		if (size / block % ranks == rank)
			at[i++] = size * extent;
	MPI_Type_create_darray(ranks, rank, 1, &size, &how, &block, &ranks, MPI_ORDER_C, m->type, &type);
	return type;
}

/* Of k copies: kind names their elements. */
static void repeat(struct map *m, long k, const int *kind)
{
	long *at = malloc((size_t)k * sizeof(*at)), extent = space_out(m);
	MPI_Datatype type;

	switch (draw(6)) {
	case 0:
		MPI_Type_contiguous((int)k, m->type, &type);
		for (long i = 0; i < k; i++)
			at[i] = i * extent;
		break;
	case 1:
		type = make_vector(m, k, extent, at);
		break;
	case 2: case 3:
		type = make_indexed(m, k, extent, at);
		break;
	case 4:
		type = make_subarray(m, k, extent, at);
		break;
	default:
		type = make_darray(m, k, extent, at);
	}
	replace_type(m, type);
	replicate(m, k, at, kind);
	free(at);
}

static struct map make(const int *kind, long n, int depth);

/* Of parts that lie in any order. */
static struct map concatenate(const int *kind, long n, int depth)
{
	struct map part[4], m = { MPI_DATATYPE_NULL, true, n, 0, 0, malloc((size_t)n * sizeof(long)), kind };
	long parts = 2 + draw(n < 4 ? n - 1 : 3), first[5] = { 0 }, order[4], end = draw(100) - 50;
	MPI_Datatype type[4];
	MPI_Aint at[4];
	int one[4] = { 1, 1, 1, 1 };

	for (long i = 0; i < parts; i++) {
		long left = n - first[i] - (parts - 1 - i);

		first[i + 1] = i == parts - 1 ? n : first[i] + 1 + draw(left);
		part[i] = make(kind + first[i], first[i + 1] - first[i], depth);
		type[i] = part[i].type;
	}
	draw_slots(order, parts);
	for (long turn = 0; turn < parts; turn++) {
		long i = 0;

		for (long j = 1; j < parts; j++)
			if (order[j] < order[i])
				i = j;
		order[i] = 1 << 20;
		at[i] = end - part[i].lo;
		end += part[i].hi - part[i].lo + draw(3) * draw(6);
		for (long j = 0; j < part[i].n; j++)
			m.place[first[i] + j] = part[i].place[j] + at[i];
	}
	MPI_Type_create_struct((int)parts, one, at, type, &m.type);
	for (long i = 0; i < parts; i++) {
		replace_type(&part[i], MPI_DATATYPE_NULL);
		free(part[i].place);
	}
	find_bounds(&m);
	return m;
}

static bool is_periodic(const int *kind, long n, long period)
{
	for (long i = period; i < n; i++)
		if (kind[i] != kind[i - period])
			return false;
	return true;
}

static struct map make(const int *kind, long n, int depth)
{
	struct map m = { basic[kind[0]].type, false, 1, 0, basic[kind[0]].size, NULL, kind };
	long period = n;
	MPI_Datatype type;

	if (depth && draw(8) == 0) {
		m = make(kind, n, depth - 1);
		MPI_Type_dup(m.type, &type);
		replace_type(&m, type);
		return m;
	}
	for (long p = n / 2; p > 0; p--)
		if (n % p == 0 && is_periodic(kind, n, p) && (period == n || draw(2)))
			period = p;
	if (n == 1) {
		m.place = calloc(1, sizeof(long));
		return m;
	}
	if (period == n || (depth > 1 && draw(4) == 0))
		return concatenate(kind, n, depth ? depth - 1 : 0);
	m = make(kind, period, depth ? depth - 1 : 0);
	repeat(&m, n / period, kind);
	return m;
}

/* ---- messages --------------------------------------------------------------------------------------------- */

struct side {
	struct map map;
	long count, extent, lo, bytes;	/* the copies lie in lo..lo+bytes-1 */
	char *mem;
};

enum mode { SEND, SSEND, BSEND, RSEND };
enum receive { POSTED, STARTED, LATE_RECV, LATE_IRECV, LATE_MRECV, LATE_IMRECV };

struct message {
	int from, to;
	enum mode mode;
	enum receive receive;
	bool blocks, persistent, bottom;
	long unit, entries, bytes;
	int *kind;			/* of the signature, which repeats after a unit */
	struct side out, in;
	MPI_Request send, recv;
	MPI_Status status;
};

static struct message plan[MESSAGES];

static long place_of(const struct side *s, long entry)
{
	return s->map.place[entry % s->map.n] + entry / s->map.n * s->extent;
}

/* Returns the byte of message k at a place. */
static char value_at(int k, long place)
{
	return (char)(place * 151 + place / 256 * 11 + k * 37);
}

/* A type of each times the unit of the signature, for at least `entries` elements. */
static struct side make_side(const struct message *m, long each, long entries)
{
	struct side s = { .map = make(m->kind, m->unit * each, DEPTH) };
	long ends[2];

	s.extent = space_out(&s.map);
	s.count = (entries + s.map.n - 1) / s.map.n;
	MPI_Type_commit(&s.map.type);
	ends[0] = s.map.lo;
	ends[1] = s.map.hi;
	ends[s.extent > 0] += (s.count - 1) * s.extent;
	s.lo = ends[0];
	s.bytes = ends[1] - ends[0];
	return s;
}

static void plan_message(int k)
{
	struct message *m = &plan[k];
	long unit = 1 + draw(UNIT), pattern = 1 + draw(unit), most = 1 + 12 / unit, repeats, each;

	memset(m, 0, sizeof(*m));
	m->from = (int)draw(np);
	m->to = (int)draw(np);
	m->mode = (enum mode)draw(4);
	m->blocks = draw(3) == 0;
	m->persistent = !m->blocks && draw(2);
	/* A blocking or ready send needs a receive that was posted before. */
	m->receive = (enum receive)draw(m->blocks || m->mode == RSEND ? LATE_RECV : LATE_IMRECV + 1);
	m->bottom = draw(4) == 0;
	repeats = 1 + draw(draw(4) ? 8 : 30000 / unit);
	m->kind = malloc((size_t)(unit * most) * sizeof(*m->kind));
	for (long i = 0; i < unit; i++)
		m->kind[i] = i < pattern ? (int)draw(draw(2) ? 1 + k % BASICS : BASICS) : m->kind[i - pattern];
	for (long i = unit; i < unit * most; i++)
		m->kind[i] = m->kind[i - unit];
	m->unit = unit;
	m->entries = unit * repeats;
	for (each = 1 + draw(most); repeats % each; each--)
		;
	m->out = make_side(m, each, m->entries);
	m->in = make_side(m, 1 + draw(most), m->entries + draw(3) * draw(3 * unit));
	for (long i = 0; i < m->entries; i++)
		m->bytes += basic[m->kind[i % unit]].size;
}

/* Allocates memory for a side; makes the type absolute if the message is from, or to, MPI_BOTTOM. Returns the buffer argument of
 * the call. */
static void *memory(struct message *m, struct side *s)
{
	MPI_Datatype type;
	MPI_Aint at;

	s->mem = calloc((size_t)s->bytes, 1);
	if (!m->bottom)
		return s->mem - s->lo;
	MPI_Get_address(s->mem, &at);
	at = MPI_Aint_add(at, -s->lo);
	MPI_Type_create_hindexed_block(1, 1, &at, s->map.type, &type);
	MPI_Type_commit(&type);
	replace_type(&s->map, type);
	return MPI_BOTTOM;
}

static void start_receive(int k)
{
	struct message *m = &plan[k];
	struct side *s = &m->in;
	void *buf = memory(m, s);
	MPI_Message message;
	MPI_Status probed;

	memset(s->mem, 0x5a, (size_t)s->bytes);
	switch (m->receive) {
	case STARTED:
		MPI_Recv_init(buf, (int)s->count, s->map.type, m->from, k, MPI_COMM_WORLD, &m->recv);
		MPI_Start(&m->recv);
		break;
	case LATE_RECV:
		MPI_Recv(buf, (int)s->count, s->map.type, m->from, k, MPI_COMM_WORLD, &m->status);
		m->recv = MPI_REQUEST_NULL;
		break;
	case LATE_MRECV: case LATE_IMRECV:
		MPI_Mprobe(m->from, k, MPI_COMM_WORLD, &message, &probed);
		if (m->receive == LATE_IMRECV) {
			MPI_Imrecv(buf, (int)s->count, s->map.type, &message, &m->recv);
			break;
		}
		MPI_Mrecv(buf, (int)s->count, s->map.type, &message, &m->status);
		m->recv = MPI_REQUEST_NULL;
		break;
	default:
		MPI_Irecv(buf, (int)s->count, s->map.type, m->from, k, MPI_COMM_WORLD, &m->recv);
	}
}

typedef int send_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int start_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void send(int k)
{
	static send_fn *const blocking[] = { MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend };
	static start_fn *const nonblocking[] = { MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend };
	static start_fn *const init[] = { MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init, MPI_Rsend_init };
	struct message *m = &plan[k];
	struct side *s = &m->out;
	void *buf = memory(m, s);

	for (long i = 0; i < s->bytes; i++)
		s->mem[i] = value_at(k, s->lo + i);
	m->send = MPI_REQUEST_NULL;
	if (m->blocks) {
		blocking[m->mode](buf, (int)s->count, s->map.type, m->to, k, MPI_COMM_WORLD);
	} else if (m->persistent) {
		init[m->mode](buf, (int)s->count, s->map.type, m->to, k, MPI_COMM_WORLD, &m->send);
		MPI_Start(&m->send);
	} else {
		nonblocking[m->mode](buf, (int)s->count, s->map.type, m->to, k, MPI_COMM_WORLD, &m->send);
	}
}

static void check_received(int k)
{
	struct message *m = &plan[k];
	struct side *s = &m->in;
	char *want = malloc((size_t)s->bytes);
	int elements, count;
	MPI_Count bytes;

	SAME(k, m->status.MPI_SOURCE, m->from);
	SAME(k, m->status.MPI_TAG, k);
	MPI_Get_elements(&m->status, s->map.type, &elements);
	SAME(k, elements, m->entries);
	MPI_Get_count(&m->status, s->map.type, &count);
	SAME(k, count, m->entries % s->map.n ? MPI_UNDEFINED : m->entries / s->map.n);
	MPI_Get_count_c(&m->status, MPI_BYTE, &bytes);
	SAME(k, bytes, m->bytes);
	memset(want, 0x5a, (size_t)s->bytes);
	for (long i = 0; i < m->entries; i++)
		for (long b = 0; b < basic[m->kind[i % m->unit]].size; b++)
			want[place_of(s, i) + b - s->lo] = value_at(k, place_of(&m->out, i) + b);
	SAME(k, memcmp(want, s->mem, (size_t)s->bytes), 0);
	free(want);
}

static void run_round(void)
{
	for (int k = 0; k < MESSAGES; k++)
		plan_message(k);
	for (int k = 0; k < MESSAGES; k++)
		if (plan[k].to == me && plan[k].receive < LATE_RECV)
			start_receive(k);
	meet(sync_comm);
	for (int k = 0; k < MESSAGES; k++)
		if (plan[k].from == me)
			send(k);
	for (int k = 0; k < MESSAGES; k++)
		if (plan[k].to == me && plan[k].receive >= LATE_RECV)
			start_receive(k);
	for (int k = 0; k < MESSAGES; k++) {
		struct message *m = &plan[k];

		if (m->from == me)
			MPI_Wait(&m->send, MPI_STATUS_IGNORE);
		if (m->from == me && m->persistent)
			MPI_Request_free(&m->send);
		if (m->to == me) {
			if (m->recv != MPI_REQUEST_NULL)
				MPI_Wait(&m->recv, &m->status);
			if (m->receive == STARTED)
				MPI_Request_free(&m->recv);
			check_received(k);
		}
		for (int i = 0; i < 2; i++) {
			struct side *s = i ? &m->in : &m->out;

			replace_type(&s->map, MPI_DATATYPE_NULL);
			free(s->map.place);
			free(s->mem);
		}
		free(m->kind);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 12, size;
	void *buffer;

	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	test_init(&argc, &argv);
	MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
	for (int i = 0; i < rounds; i++, seed++) {
		state = mix(seed);
		run_round();
	}
	MPI_Buffer_detach(&buffer, &size);
	test_done("signatures");
	return 0;
}
