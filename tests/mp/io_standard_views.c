/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Section 14.3, and the positions of 14.4: views against a typemap that the program keeps itself, byte for byte. io_standard.h
 * IO_STANDARD_SEED and IO_STANDARD_ROUNDS: of the random cases.
 */
#include "io_standard_kinds.h"

/* A datatype with the displacement of each byte, in the order of the typemap. */
struct map {
	MPI_Datatype type;
	int n;
	long long lb, extent, *at;
};

static long long seed = 1;
static int rounds = 40;
static uint64_t state;

static int any(int n)
{
	return (int)(rnd(&state) >> 11) % n < 0 ? 0 : (int)((rnd(&state) >> 11) % (uint64_t)n);
}

static void free_map(struct map *m)
{
	MPI_Type_free(&m->type);
	free(m->at);
}

static struct map from_type(MPI_Datatype type, int bytes)
{
	struct map m = {.n = bytes, .extent = bytes, .at = malloc(sizeof(*m.at) * (size_t)bytes)};

	MPI_Type_dup(type, &m.type);
	for (int i = 0; i < bytes; i++)
		m.at[i] = i;
	return m;
}

static void put(struct map *to, const struct map *from, long long disp)
{
	to->at = realloc(to->at, sizeof(*to->at) * (size_t)(to->n + from->n + 1));
	for (int i = 0; i < from->n; i++)
		to->at[to->n++] = disp + from->at[i];
}

/* The bounds of the type, from the bounds of the blocks: low and high are the least lower and the largest upper bound. */
static void bounds(struct map *m, const struct map *of, long long low_disp, long long high_disp)
{
	m->lb = of->lb + low_disp;
	m->extent = of->lb + of->extent + high_disp - m->lb;
}

/* Returns a type of a random constructor over `old`, which is freed. The displacements of the new type rise, and no byte is in
 * the type twice. */
static struct map grow(struct map old)
{
	struct map m = {.at = NULL};
	int kind = any(8), n = 1 + any(3), lens[3], disps[3], at = 0;
	MPI_Aint adisps[3];
	long long x = old.extent;

	switch (kind) {
	case 0:
		MPI_Type_contiguous(n, old.type, &m.type);
		for (int i = 0; i < n; i++)
			put(&m, &old, i * x);
		bounds(&m, &old, 0, (n - 1) * x);
		break;
	case 1: {
		int len = 1 + any(3), stride = len + any(3);

		MPI_Type_vector(n, len, stride, old.type, &m.type);
		for (int i = 0; i < n; i++)
			for (int j = 0; j < len; j++)
				put(&m, &old, (i * stride + j) * x);
		bounds(&m, &old, 0, ((n - 1) * stride + len - 1) * x);
		break;
	}
	case 2:
	case 3:
		for (int i = 0; i < n; i++) {
			lens[i] = 1 + any(2);
			disps[i] = at + any(3);
			at = disps[i] + lens[i];
			adisps[i] = disps[i] * x;
			for (int j = 0; j < lens[i]; j++)
				put(&m, &old, (disps[i] + j) * x);
		}
		bounds(&m, &old, disps[0] * x, (at - 1) * x);
		if (kind == 2)
			MPI_Type_indexed(n, lens, disps, old.type, &m.type);
		else
			MPI_Type_create_hindexed(n, lens, adisps, old.type, &m.type);
		break;
	case 4: {
		MPI_Datatype types[3] = {old.type, old.type, old.type};

		for (int i = 0; i < n; i++) {
			lens[i] = 1 + any(2);
			disps[i] = at + any(2);
			at = disps[i] + lens[i];
			adisps[i] = disps[i] * x;
			for (int j = 0; j < lens[i]; j++)
				put(&m, &old, (disps[i] + j) * x);
		}
		bounds(&m, &old, disps[0] * x, (at - 1) * x);
		MPI_Type_create_struct(n, lens, adisps, types, &m.type);
		break;
	}
	case 5: {
		int sizes[2] = {1 + any(3), 1 + any(4)}, subs[2], starts[2], order = any(2);

		for (int d = 0; d < 2; d++) {
			subs[d] = 1 + any(sizes[d]);
			starts[d] = any(sizes[d] - subs[d] + 1);
		}
		MPI_Type_create_subarray(2, sizes, subs, starts, order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old.type, &m.type);
		int slow = order ? 0 : 1, fast = 1 - slow;
		for (int i = 0; i < subs[slow]; i++)
			for (int j = 0; j < subs[fast]; j++)
				put(&m, &old, ((starts[slow] + i) * (long long)sizes[fast] + starts[fast] + j) * x);
		m.lb = 0;
		m.extent = (long long)sizes[0] * sizes[1] * x;
		break;
	}
	case 6: {
		long long before = any(2) * x, after = any(3) * x;

		put(&m, &old, 0);
		m.lb = old.lb - before < 0 ? 0 : old.lb - before;
		m.extent = old.lb + old.extent + after - m.lb;
		MPI_Type_create_resized(old.type, m.lb, m.extent, &m.type);
		break;
	}
	default: {
		/* all parts of an array that is distributed over three processes, in blocks of one to three */
		int size = 1 + any(12), dist = any(2), darg = any(2) ? MPI_DISTRIBUTE_DFLT_DARG : 1 + any(3), rank = any(3),
		    psize = 3, block;

		if (!dist && darg != MPI_DISTRIBUTE_DFLT_DARG && darg * 3 < size)
			darg = MPI_DISTRIBUTE_DFLT_DARG;
		if (dist)
			block = darg == MPI_DISTRIBUTE_DFLT_DARG ? 1 : darg;
		else
			block = darg == MPI_DISTRIBUTE_DFLT_DARG ? (size + 2) / 3 : darg;
		for (int i = 0; i < size; i++)
			if (dist ? i / block % 3 == rank : i / block == rank)
				put(&m, &old, i * x);
		if (!m.n) {
			put(&m, &old, 0);
			m.lb = old.lb;
			m.extent = x;
			MPI_Type_dup(old.type, &m.type);
			break;
		}
		dist = dist ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK;
		MPI_Type_create_darray(3, rank, 1, &size, &dist, &darg, &psize, MPI_ORDER_C, old.type, &m.type);
		m.lb = 0;
		m.extent = size * x;
		break;
	}
	}
	free_map(&old);
	MPI_Type_commit(&m.type);
	MPI_Aint lb, extent;
	MPI_Type_get_extent(m.type, &lb, &extent);
	if (lb != m.lb || extent != m.extent)
		is_wrong(__LINE__, "constructor %d: bounds are (%ld, %ld), not (%lld, %lld)", kind, (long)lb, (long)extent,
			 m.lb, m.extent);
	return m;
}

static struct map any_etype(void)
{
	static const struct {
		MPI_Datatype type;
		int size;
	} named[] = {{MPI_BYTE, 1}, {MPI_SHORT, 2}, {MPI_INT, 4}, {MPI_DOUBLE, 8}};
	int i = any(4);
	struct map m = from_type(named[i].type, named[i].size);

	MPI_Type_commit(&m.type);
	if (any(3) == 0)
		m = grow(m);
	if (m.n > 64) {
		free_map(&m);
		m = from_type(MPI_CHAR, 1);
		MPI_Type_commit(&m.type);
	}
	return m;
}

static struct map copy_of(const struct map *m)
{
	struct map c = {.lb = m->lb, .extent = m->extent};

	put(&c, m, 0);
	MPI_Type_dup(m->type, &c.type);
	MPI_Type_commit(&c.type);
	return c;
}

static struct map grown(const struct map *etype, int times, int limit)
{
	struct map m = copy_of(etype);

	while (times-- > 0 && m.n < limit && m.extent < 60000)
		m = grow(m);
	return m;
}

/* The offset in the file of byte i of the view. */
static long long in_file(const struct map *filetype, long long disp, long long i)
{
	return disp + i / filetype->n * filetype->extent + filetype->at[i % filetype->n];
}

#define MODEL 400000
static unsigned char model[MODEL], seen[MODEL];

/* Each rank writes and reads its part of the file through a random view, by a random access. */
static void random_views(void)
{
	static unsigned char memory[MODEL], back[MODEL];

	for (int round = 0; round < rounds; round++) {
		state = mix((uint64_t)seed + (uint64_t)round * 7919);
		/* the same on all ranks: the kind of access, collective or not */
		int kind = any(SHARED), read_kind = any(SHARED), large = any(2);
		struct map etype = any_etype(); /* the same, too: section 14.3 */
		state = mix(state + (uint64_t)me * 104729);
		struct map filetype = grown(&etype, any(4), 600), mem = grown(&etype, any(3), 300);
		long long count = 1 + any(6), bytes = count * mem.n, skip = any(8);
		long long disp = (long long)me * MODEL / 8 + any(50);
		MPI_File f;
		MPI_Status st;

		/* into this rank's part of the file, at most */
		while (count && in_file(&filetype, disp, skip * etype.n + count * mem.n) > (me + 1LL) * MODEL / 8 - 10)
			count--;
		bytes = count * mem.n;
		if (in_file(&filetype, disp, skip * etype.n) > (me + 1LL) * MODEL / 8 - 10)
			skip = 0;
		fresh("random_views");
		memset(model, 0, sizeof(model));
		fill(memory, sizeof(memory), (uint64_t)round * 31 + (uint64_t)me);
		f = opened(MPI_COMM_WORLD, path, RW);
		WORKS(MPI_File_set_view(f, disp, etype.type, filetype.type, "native", MPI_INFO_NULL));
		long long base = mem.lb < 0 ? -mem.lb : 0;
		for (long long i = 0; i < bytes; i++)
			model[in_file(&filetype, disp, skip * etype.n + i)] =
				memory[base + i / mem.n * mem.extent + mem.at[i % mem.n]];
		if (large)
			WORKS(access_file_c(kind, 1, f, skip, memory + base, (int)count, mem.type, &st));
		else
			WORKS(access_file(kind, 1, f, skip, memory + base, (int)count, mem.type, &st));
		IS(count_of(&st, mem.type), mem.n ? count : 0);
		IS(count_of(&st, MPI_BYTE), bytes);
		if (has_pointer(kind))
			IS(position(f), skip + bytes / etype.n);
		long long size = bytes_of(path, seen, sizeof(seen));
		TRUE_THAT(size <= MODEL);
		for (long long i = (long long)me * MODEL / 8; i < (me + 1LL) * MODEL / 8; i++)
			if (seen[i] != model[i]) {
				is_wrong(__LINE__, "seed %lld, round %d, write_%s: byte %lld of the file", seed, round,
					 kind_names[kind], i);
				break;
			}
		if (bytes) {
			MPI_Offset byte = -1;

			WORKS(MPI_File_get_byte_offset(f, skip, &byte));
			IS(byte, in_file(&filetype, disp, skip * etype.n));
		}
		MPI_File_sync(f);
		all_here();
		memset(back, 0x5a, sizeof(back));
		WORKS(access_file(read_kind, 0, f, skip, back + base, (int)count, mem.type, &st));
		IS(count_of(&st, MPI_BYTE), bytes);
		for (long long i = 0; i < bytes; i++)
			memory[base + i / mem.n * mem.extent + mem.at[i % mem.n]] ^= 0xff;
		for (long long i = 0; i < 100000; i++)
			if (back[i] != 0x5a && back[i] != (memory[i] ^ 0xff)) {
				is_wrong(__LINE__, "seed %lld, round %d, read_%s: byte %lld of memory", seed, round,
					 kind_names[read_kind], i);
				break;
			}
		for (long long i = 0; i < bytes; i++) {
			long long a = base + i / mem.n * mem.extent + mem.at[i % mem.n];
			if (back[a] != (memory[a] ^ 0xff)) {
				is_wrong(__LINE__, "seed %lld, round %d, read_%s: byte %lld of the type is not read", seed,
					 round, kind_names[read_kind], i);
				break;
			}
		}
		WORKS(MPI_File_close(&f));
		free_map(&etype);
		free_map(&filetype);
		free_map(&mem);
	}
}

/* Random hints, the same on all ranks, that decide how a collective goes. */
static MPI_Info any_hints(void)
{
	static const char *const sizes[] = {"4096", "5000", "65536", "1"}, *const nodes[] = {"1", "2", "3", "100"},
				 *const units[] = {"1", "4096", "777", "1048576"};
	static const char *const buffering[] = {"true", "true", "true", "automatic", "false"};
	MPI_Info info = info_of("cb_buffer_size", sizes[any(4)]);

	MPI_Info_set(info, "cb_nodes", nodes[any(4)]);
	MPI_Info_set(info, "striping_unit", units[any(4)]);
	MPI_Info_set(info, "collective_buffering", buffering[any(5)]);
	MPI_Info_set(info, "romio_cb_write", any(2) ? "enable" : "automatic"); /* of another MPI */
	MPI_Info_set(info, "ind_rd_buffer_size", sizes[any(4)]);
	return info;
}

static unsigned char datum(int rank, long long i)
{
	return (unsigned char)mix((uint64_t)rank * 1000003 + (uint64_t)i / 7 * 7 + 1) + (unsigned char)i;
}

/*
 * The blocks of a tile go to random ranks, or to none; the tile is repeated. All ranks write at once, then read their blocks
 * back, and then read tiles of blocks that several ranks share. Half of the rounds are in external32: an etype's bytes are
 * reversed.
 */
static void random_tiles(void)
{
	enum { BLOCKS = 40 };
	static const int collective_kinds[] = {AT_ALL, I_AT_ALL, AT_ALL_BEGIN, ALL, I_ALL, ALL_BEGIN};
	static const struct {
		MPI_Datatype type;
		int size;
	} named[] = {{MPI_BYTE, 1}, {MPI_SHORT, 2}, {MPI_INT, 4}, {MPI_DOUBLE, 8}};
	static unsigned char memory[MODEL], back[MODEL];

	for (int round = 0; round < rounds; round++) {
		int lens[BLOCKS], disps[BLOCKS], owner[BLOCKS], mine[BLOCKS], at[BLOCKS], n = 0, tile = 0, kind, read_kind, e,
											  external, u;
		long long disp, bytes, mine_size = 0, most = 0, repeat, skip_tiles;
		MPI_Datatype blocks, t, mem;
		MPI_Status st;
		MPI_Info info;
		MPI_File f;

		state = mix((uint64_t)seed + (uint64_t)round * 31337);
		kind = collective_kinds[any(6)];
		read_kind = collective_kinds[any(6)];
		e = any(4);
		u = named[e].size;
		external = any(2);
		disp = any(5000);
		repeat = 1 + any(40);
		skip_tiles = any(3);
		info = any_hints();
		int scale = any(3) ? 1 : 40;
		for (int b = 0; b < BLOCKS; b++) {
			tile += any(3) * scale;
			disps[b] = tile;
			lens[b] = 1 + any(4) * scale;
			tile += lens[b];
			owner[b] = any(np + 1);
		}
		tile += any(3);
		while (repeat > 1 && disp + (skip_tiles + repeat) * tile * u > MODEL)
			repeat--;
		if (disp + (skip_tiles + repeat) * tile * u > MODEL) {
			MPI_Info_free(&info);
			continue;
		}
		fresh("random_tiles");
		WORKS(MPI_File_open(MPI_COMM_WORLD, path, RW, info, &f));
		memset(model, 0, sizeof(model));
		for (int r = 0; r < np; r++) {
			long long i = 0;

			for (long long k = skip_tiles; k < skip_tiles + repeat; k++)
				for (int b = 0; b < BLOCKS; b++)
					for (int j = 0; owner[b] == r && j < lens[b] * u; j++, i++)
						model[disp + (k * tile + disps[b]) * u +
						      (external ? j / u * u + u - 1 - j % u : j)] = datum(r, i);
			most = i > most ? i : most;
		}
		for (int b = 0; b < BLOCKS; b++)
			if (owner[b] == me) {
				mine[n] = lens[b];
				at[n++] = disps[b];
				mine_size += lens[b];
			}
		MPI_Type_indexed(n, mine, at, named[e].type, &blocks);
		MPI_Type_create_resized(blocks, 0, (MPI_Aint)tile * u, &t);
		MPI_Type_commit(&t);
		/* memory: contiguous, or each element followed by a gap of the element's size */
		int gap = any(2);
		MPI_Type_create_resized(named[e].type, 0, (1 + gap) * u, &mem);
		MPI_Type_commit(&mem);
		bytes = mine_size * repeat * u;
		if (bytes * (1 + gap) > MODEL)
			MPI_Abort(MPI_COMM_WORLD, 4);
		memset(memory, 0x5a, sizeof(memory));
		for (long long i = 0; i < bytes; i++)
			memory[i / u * u * (1 + gap) + i % u] = datum(me, i);
		/* a rank without blocks uses the named type as filetype */
		WORKS(MPI_File_set_view(f, disp, named[e].type, n ? t : named[e].type, external ? "external32" : "native",
					MPI_INFO_NULL));
		WORKS(access_file(kind, 1, f, mine_size * skip_tiles, memory, (int)(bytes / u), mem, &st));
		IS(count_of(&st, mem), bytes / u);
		if (has_pointer(kind))
			IS(position(f), mine_size * (skip_tiles + repeat));
		all_here();
		long long size = bytes_of(path, seen, sizeof(seen));
		if (size > MODEL || (memcmp(seen, model, MODEL)))
			for (long long i = 0; i < MODEL; i++)
				if (seen[i] != model[i]) {
					is_wrong(__LINE__, "seed %lld, round %d, write_%s: byte %lld of the file (%lld)", seed,
						 round, kind_names[kind], i, size);
					break;
				}
		all_here();
		memset(back, 0x5a, sizeof(back));
		WORKS(access_file(read_kind, 0, f, mine_size * skip_tiles, back, (int)(bytes / u), mem, &st));
		IS(count_of(&st, mem), bytes / u);
		if (memcmp(memory, back, sizeof(back)))
			is_wrong(__LINE__, "seed %lld, round %d, read_%s: wrong data", seed, round, kind_names[read_kind]);
		/* tiles that all ranks may read: blocks by a random number of this rank, from a file that is truncated
		 * somewhere */
		MPI_Type_free(&t);
		MPI_Type_free(&blocks);
		long long cut = size > 0 ? any((int)size) : 0;
		uint64_t common = state;
		state = mix(state + (uint64_t)me);
		n = 0, mine_size = 0;
		for (int b = 0; b < BLOCKS; b++)
			if (any(2)) {
				mine[n] = lens[b];
				at[n++] = disps[b];
				mine_size += lens[b];
			}
		if (!n)
			mine[n] = lens[0], at[n++] = disps[0], mine_size += lens[0];
		MPI_Type_indexed(n, mine, at, named[e].type, &blocks);
		MPI_Type_create_resized(blocks, 0, (MPI_Aint)tile * u, &t);
		MPI_Type_commit(&t);
		WORKS(MPI_File_set_size(f, cut));
		WORKS(MPI_File_set_view(f, disp, named[e].type, t, "native", MPI_INFO_NULL));
		bytes = mine_size * repeat * u;
		while (bytes > MODEL)
			bytes -= u;
		state = common;
		memset(back, 0x5a, sizeof(back));
		WORKS(access_file(read_kind, 0, f, 0, back, (int)(bytes / u), named[e].type, &st));
		long long i = 0;
		int ended = 0;
		for (long long k = 0; i < bytes && !ended; k++)
			for (int b = 0; b < n && !ended; b++)
				for (int j = 0; j < mine[b] * u && i < bytes; j++, i++) {
					long long from = disp + (k * tile + at[b]) * u + j;

					if (from >= cut) {
						ended = 1;
						break;
					}
					if (back[i] != model[from]) {
						is_wrong(__LINE__,
							 "seed %lld, round %d, read_%s: byte %lld, of the file's %lld", seed,
							 round, kind_names[read_kind], i, from);
						ended = 2;
						break;
					}
				}
		if (ended < 2)
			IS(count_of(&st, MPI_BYTE), i);
		MPI_Type_free(&t);
		MPI_Type_free(&blocks);
		MPI_Type_free(&mem);
		WORKS(MPI_File_close(&f));
		MPI_Info_free(&info);
	}
}

/* A file that ends inside the view: counts, bytes in memory, pointers, MPI_SEEK_END. */
static void random_ends(void)
{
	static unsigned char memory[MODEL];

	for (int round = 0; round < rounds; round++) {
		state = mix((uint64_t)seed + (uint64_t)round * 104729);
		int kind = any(SHARED);
		long long size = any(3000);
		fill(model, 4000, (uint64_t)round);
		memset(model + size, 0, sizeof(model) - (size_t)size);
		fresh("random_ends");
		make_file(path, model, (size_t)size);
		struct map etype = any_etype();
		state = mix(state + (uint64_t)me);
		struct map filetype = grown(&etype, any(4), 600), mem = grown(&etype, any(3), 300);
		long long skip = any(20), disp = any(200), want = 0, end = 0, first;
		int count = any(30);
		MPI_File f = opened(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
		MPI_Status st;

		while (count && count * mem.extent + mem.lb + mem.n + 1000 > MODEL)
			count--;
		WORKS(MPI_File_set_view(f, disp, etype.type, filetype.type, "native", MPI_INFO_NULL));
		/* the end of file: the first etype that begins behind the last byte */
		while (in_file(&filetype, disp, end * etype.n) < size)
			end++;
		WORKS(MPI_File_seek(f, 0, MPI_SEEK_END));
		first = position(f);
		if (filetype.extent == filetype.n && etype.n == 1)
			IS(first, end);
		if (first != end && first != end - 1)
			is_wrong(__LINE__,
				 "seed %lld, round %d: MPI_SEEK_END at %lld, not %lld (file of %lld, displacement %lld)", seed,
				 round, first, end, size, disp);
		memset(memory, 0x5a, sizeof(memory));
		WORKS(access_file(kind, 0, f, skip, memory, count, mem.type, &st));
		/* all bytes of the view ahead of the end, as long as none is missing */
		while (want < (long long)count * mem.n && in_file(&filetype, disp, skip * etype.n + want) < size)
			want++;
		int got = count_of(&st, MPI_BYTE), elements = -1;
		if (got != want)
			is_wrong(__LINE__, "seed %lld, round %d, read_%s: %d bytes, not %lld (size %lld)", seed, round,
				 kind_names[kind], got, want, size);
		int whole = count_of(&st, mem.type);
		if (want % mem.n == 0)
			IS(whole, want / mem.n);
		else
			IS(whole, MPI_UNDEFINED);
		MPI_Get_elements(&st, MPI_BYTE, &elements);
		IS(elements, want);
		for (long long i = 0; i < want; i++)
			if (memory[i / mem.n * mem.extent + mem.at[i % mem.n]] !=
			    model[in_file(&filetype, disp, skip * etype.n + i)]) {
				is_wrong(__LINE__, "seed %lld, round %d, read_%s: byte %lld of the data", seed, round,
					 kind_names[kind], i);
				break;
			}
		for (long long i = want; i < (long long)count * mem.n; i++)
			if (memory[i / mem.n * mem.extent + mem.at[i % mem.n]] != 0x5a) {
				is_wrong(__LINE__, "seed %lld, round %d, read_%s: memory behind the end is written", seed,
					 round, kind_names[kind]);
				break;
			}
		/* behind the end */
		WORKS(access_file(kind, 0, f, end + 5, memory, 1, etype.type, &st));
		IS(count_of(&st, MPI_BYTE), 0);
		IS(count_of(&st, etype.type), 0);
		WORKS(MPI_File_close(&f));
		free_map(&etype);
		free_map(&filetype);
		free_map(&mem);
	}
}

static void check_view(int line, MPI_File f, MPI_Offset disp, int named, MPI_Aint e_extent, int t_size, MPI_Aint t_extent,
		       const char *rep)
{
	MPI_Offset d = -1;
	MPI_Datatype e, t;
	char r[MPI_MAX_DATAREP_STRING + 1] = "";
	int n1, n2, n3, combiner, size;
	MPI_Aint lb, extent;

	if (MPI_File_get_view(f, &d, &e, &t, r))
		is_wrong(line, "MPI_File_get_view fails");
	if (d != disp || strcmp(r, rep))
		is_wrong(line, "displacement %lld, representation %s", (long long)d, r);
	MPI_Type_get_extent(e, &lb, &extent);
	if (extent != e_extent)
		is_wrong(line, "the etype's extent is %ld, not %ld", (long)extent, (long)e_extent);
	MPI_Type_size(t, &size);
	MPI_Type_get_extent(t, &lb, &extent);
	if (size != t_size || extent != t_extent)
		is_wrong(line, "the filetype has size %d, extent %ld", size, (long)extent);
	MPI_Type_get_envelope(e, &n1, &n2, &n3, &combiner);
	if ((combiner == MPI_COMBINER_NAMED) != named)
		is_wrong(line, "the etype's combiner is %d", combiner);
	if (combiner != MPI_COMBINER_NAMED)
		MPI_Type_free(&e);
	MPI_Type_get_envelope(t, &n1, &n2, &n3, &combiner);
	if (combiner != MPI_COMBINER_NAMED) {
		char *b = calloc(1, (size_t)extent + 100);
		int pos = 0;
		char packed[100];

		/* the type is committed */
		MPI_Pack(b, 1, t, packed, sizeof(packed), &pos, MPI_COMM_SELF);
		free(b);
		MPI_Type_free(&t);
	}
}

static void get_view(void)
{
	MPI_File f;
	MPI_Datatype e, t, e2;
	MPI_Status st;
	char b[64], back[64];

	fresh("get_view");
	f = opened(MPI_COMM_WORLD, path, RW);
	check_view(__LINE__, f, 0, 1, 1, 1, 1, "native");
	MPI_Type_contiguous(3, MPI_SHORT, &e);
	MPI_Type_commit(&e);
	MPI_Type_create_resized(e, 0, 18, &t);
	MPI_Type_commit(&t);
	WORKS(MPI_File_set_view(f, 6 * (me % 3), e, t, "native", MPI_INFO_NULL));
	/* the program may free the types of a view */
	MPI_Type_free(&t);
	MPI_Type_dup(e, &e2);
	MPI_Type_free(&e);
	check_view(__LINE__, f, 6 * (me % 3), 0, 6, 6, 18, "native");
	check_view(__LINE__, f, 6 * (me % 3), 0, 6, 6, 18, "native");
	fill(b, sizeof(b), me);
	WORKS(MPI_File_write_at(f, 2 * (me / 3), b, 1, e2, &st));
	IS(count_of(&st, e2), 1);
	WORKS(MPI_File_read_at(f, 2 * (me / 3), back, 3, MPI_SHORT, &st));
	IS(memcmp(b, back, 6), 0);
	/* the view that was got is set again */
	MPI_Offset d;
	char rep[MPI_MAX_DATAREP_STRING + 1];
	WORKS(MPI_File_get_view(f, &d, &e, &t, rep));
	WORKS(MPI_File_set_view(f, d, e, t, rep, MPI_INFO_NULL));
	MPI_Type_free(&e);
	MPI_Type_free(&t);
	check_view(__LINE__, f, 6 * (me % 3), 0, 6, 6, 18, "native");
	WORKS(MPI_File_set_view(f, 5, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
	check_view(__LINE__, f, 5, 1, 4, 4, 4, "external32");
	WORKS(MPI_File_set_view(f, 7, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
	check_view(__LINE__, f, 7, 1, 4, 4, 4, "internal");
	MPI_Type_free(&e2);
	WORKS(MPI_File_close(&f));
}

/* The example of figure 14.3's kind: complementary views; the pointers after MPI_File_set_view. */
static void pointers(void)
{
	MPI_File f;
	MPI_Datatype t;
	MPI_Status st;
	MPI_Offset byte;
	int v[8];

	fresh("pointers");
	f = opened(MPI_COMM_WORLD, path, RW);
	MPI_Type_create_resized(MPI_INT, 0, 4 * np, &t);
	MPI_Type_commit(&t);
	WORKS(MPI_File_seek(f, 9, MPI_SEEK_SET));
	WORKS(MPI_File_seek_shared(f, 11, MPI_SEEK_SET));
	WORKS(MPI_File_set_view(f, 3 + 4 * me, MPI_INT, t, "native", MPI_INFO_NULL));
	IS(position(f), 0);
	for (int i = 0; i < 8; i++)
		v[i] = 100 * me + i;
	WORKS(MPI_File_write(f, v, 3, MPI_INT, &st));
	IS(position(f), 3);
	WORKS(MPI_File_seek(f, 2, MPI_SEEK_CUR));
	IS(position(f), 5);
	WORKS(MPI_File_write(f, v + 5, 2, MPI_INT, &st));
	WORKS(MPI_File_seek(f, -4, MPI_SEEK_CUR));
	IS(position(f), 3);
	WORKS(MPI_File_write_at(f, 3, v + 3, 2, MPI_INT, &st));
	IS(position(f), 3);
	all_here();
	IS(size_of(f), 3 + 7 * 4 * np);
	WORKS(MPI_File_seek(f, 0, MPI_SEEK_END));
	IS(position(f), 7);
	WORKS(MPI_File_seek(f, -1, MPI_SEEK_END));
	IS(position(f), 6);
	WORKS(MPI_File_seek(f, 100, MPI_SEEK_END));
	IS(position(f), 107);
	WORKS(MPI_File_read(f, v, 1, MPI_INT, &st));
	IS(count_of(&st, MPI_INT), 0);
	WORKS(MPI_File_get_byte_offset(f, 0, &byte));
	IS(byte, 3 + 4 * me);
	WORKS(MPI_File_get_byte_offset(f, 1000000000, &byte));
	IS(byte, 3 + 4 * me + 4000000000LL * np);
	WORKS(MPI_File_seek(f, 0, MPI_SEEK_SET));
	memset(v, 0, sizeof(v));
	WORKS(MPI_File_read_all(f, v, 8, MPI_INT, &st));
	IS(count_of(&st, MPI_INT), 7);
	for (int i = 0; i < 7; i++)
		IS(v[i], 100 * me + i);
	/* one etype is several elements of memory, and the other way round */
	MPI_Datatype e;
	MPI_Type_contiguous(2, MPI_INT, &e);
	MPI_Type_commit(&e);
	WORKS(MPI_File_set_view(f, 3, e, e, "native", MPI_INFO_NULL));
	WORKS(MPI_File_read(f, v, 4, MPI_INT, &st));
	IS(position(f), 2);
	WORKS(MPI_File_seek_shared(f, 1, MPI_SEEK_SET));
	IS(position_shared(f), 1);
	WORKS(MPI_File_seek_shared(f, 2, MPI_SEEK_CUR));
	IS(position_shared(f), 3);
	all_here();
	WORKS(MPI_File_seek_shared(f, 0, MPI_SEEK_END));
	IS(position_shared(f), (7 * np + 1) / 2);
	MPI_Type_free(&e);
	MPI_Type_free(&t);
	WORKS(MPI_File_close(&f));
}

/* Sections 5.1.3 and 5.1.4: a matrix in a file; all processes write at once, each one part; the file is the matrix. */
static void arrays(void)
{
	static int whole[12 * 10 * 7], mine[12 * 10 * 7];
	int dims[3] = {0, 0, 0}, sizes[3] = {12, 10, 7};

	MPI_Dims_create(np, 3, dims);
	for (int variant = 0; variant < 8; variant++) {
		static const int dists[8][3] = {{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK},
						{MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC},
						{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE},
						{MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK},
						{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK},
						{MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC},
						{MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC},
						{MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}};
		int dargs[3], psizes[3], order = variant < 4 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, n = 0, at[3],
					 total = 12 * 10 * 7, left = np;
		MPI_Datatype t;
		MPI_File f;
		MPI_Status st;

		for (int d = 0; d < 3; d++) {
			dargs[d] = dists[variant][d] == MPI_DISTRIBUTE_CYCLIC && variant & 1 ? 2 : MPI_DISTRIBUTE_DFLT_DARG;
			psizes[d] = dists[variant][d] == MPI_DISTRIBUTE_NONE ? 1 : dims[d];
			left /= psizes[d];
		}
		for (int d = 0; left > 1; d++)
			if (dists[variant][d] != MPI_DISTRIBUTE_NONE) {
				psizes[d] = np;
				for (int other = 0; other < 3; other++)
					if (other != d)
						psizes[other] = 1;
				left = 1;
			}
		MPI_Type_create_darray(np, me, 3, sizes, dists[variant], dargs, psizes, order, MPI_INT, &t);
		MPI_Type_commit(&t);
		/* the elements of this rank, in the order of the file; ranks are in row-major order (section 5.1.4) */
		int co[3] = {me / (psizes[1] * psizes[2]), me / psizes[2] % psizes[1], me % psizes[2]};
		for (int i = 0; i < total; i++) {
			int is_mine = 1;

			if (order == MPI_ORDER_C)
				at[0] = i / 70, at[1] = i / 7 % 10, at[2] = i % 7;
			else
				at[0] = i % 12, at[1] = i / 12 % 10, at[2] = i / 120;
			for (int d = 0; d < 3; d++) {
				int block = dists[variant][d] == MPI_DISTRIBUTE_BLOCK ? (sizes[d] + psizes[d] - 1) / psizes[d] :
					    dargs[d] == 2                             ? 2 :
											1;

				if (dists[variant][d] == MPI_DISTRIBUTE_BLOCK)
					is_mine &= at[d] / block == co[d];
				else if (dists[variant][d] == MPI_DISTRIBUTE_CYCLIC)
					is_mine &= at[d] / block % psizes[d] == co[d];
			}
			if (is_mine)
				mine[n++] = i + 1000 * variant;
		}
		int size;
		MPI_Type_size(t, &size);
		IS(size, 4 * n);
		fresh("arrays");
		f = opened(MPI_COMM_WORLD, path, RW);
		WORKS(MPI_File_set_view(f, 20, MPI_INT, t, "native", MPI_INFO_NULL));
		WORKS(MPI_File_write_all(f, mine, n, MPI_INT, &st));
		IS(count_of(&st, MPI_INT), n);
		all_here();
		static char raw[12 * 10 * 7 * 4 + 20];
		IS(bytes_of(path, raw, sizeof(raw)), (long long)sizeof(raw));
		memcpy(whole, raw + 20, sizeof(whole));
		for (int i = 0; i < total; i++)
			if (whole[i] != i + 1000 * variant) {
				is_wrong(__LINE__, "variant %d: element %d is %d", variant, i, whole[i]);
				break;
			}
		memset(whole, 0, sizeof(whole));
		WORKS(MPI_File_read_at_all(f, 0, whole, n, MPI_INT, &st));
		IS(memcmp(whole, mine, (size_t)n * 4), 0);
		WORKS(MPI_File_close(&f));
		MPI_Type_free(&t);
	}
}

/* A filetype may overlap itself in a file that is read only (section 14.3). */
static void overlapping(void)
{
	int lens[3] = {4, 4, 2};
	MPI_Aint disps[3] = {0, 2, 2};
	char raw[40], back[40], want[40];
	MPI_Datatype t, tiled;
	MPI_File f;
	MPI_Status st;
	int n = 0;

	fill(raw, 40, 3);
	fresh("overlapping");
	make_file(path, raw, 40);
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
	MPI_Type_create_hindexed(3, lens, disps, MPI_BYTE, &t);
	MPI_Type_create_resized(t, 0, 5, &tiled);
	MPI_Type_commit(&tiled);
	WORKS(MPI_File_set_view(f, 1, MPI_BYTE, tiled, "native", MPI_INFO_NULL));
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			for (int j = 0; j < lens[k]; j++)
				want[n++] = raw[1 + 5 * i + disps[k] + j];
	for (int kind = 0; kind < SHARED; kind++) {
		memset(back, 0, sizeof(back));
		WORKS(access_file(kind, 0, f, 0, back, n, MPI_BYTE, &st));
		IS(count_of(&st, MPI_BYTE), n);
		IS(memcmp(back, want, (size_t)n), 0);
		WORKS(access_file(kind, 0, f, 7, back, n - 7, MPI_BYTE, &st));
		IS(memcmp(back, want + 7, (size_t)n - 7), 0);
	}
	MPI_Type_free(&t);
	MPI_Type_free(&tiled);
	WORKS(MPI_File_close(&f));
}

static void wrong_types(void)
{
	MPI_Datatype t;
	MPI_File f;
	int one = 1;
	MPI_Aint low = -4;

	fresh("wrong_types");
	f = opened(MPI_COMM_WORLD, path, RW);
	MPI_Type_create_hindexed(1, &one, &low, MPI_INT, &t);
	MPI_Type_commit(&t);
	TRUE_THAT(MPI_File_set_view(f, 0, MPI_INT, t, "native", MPI_INFO_NULL) != MPI_SUCCESS);
	MPI_Type_free(&t);
	MPI_Type_contiguous(3, MPI_BYTE, &t);
	MPI_Type_commit(&t);
	TRUE_THAT(MPI_File_set_view(f, 0, MPI_SHORT, t, "native", MPI_INFO_NULL) != MPI_SUCCESS);
	/* one rank alone has a wrong etype: all ranks get the error */
	TRUE_THAT(MPI_File_set_view(f, 0, me ? MPI_BYTE : MPI_SHORT, t, "native", MPI_INFO_NULL) != MPI_SUCCESS);
	MPI_Type_free(&t);
	if (np > 1) {
		TRUE_THAT(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, me ? "native" : "external32", MPI_INFO_NULL) !=
			  MPI_SUCCESS);
		FAILS_OR(MPI_File_set_view(f, 0, me ? MPI_INT : MPI_DOUBLE, me ? MPI_INT : MPI_DOUBLE, "native", MPI_INFO_NULL),
			 MPI_ERR_NOT_SAME, MPI_ERR_ARG);
	}
	/* displacement and filetype may differ */
	WORKS(MPI_File_set_view(f, me, me ? MPI_INT : MPI_FLOAT, me ? MPI_INT : MPI_FLOAT, "native", MPI_INFO_NULL));
	WORKS(MPI_File_close(&f));
}

/* Nothing is accessed: counts of 0, types of size 0; pointers and the file stay. */
static void nothing(void)
{
	MPI_Datatype empty;
	MPI_File f;
	MPI_Status st;
	char b[4] = "abc";

	fresh("nothing");
	f = opened(MPI_COMM_WORLD, path, RW);
	MPI_Type_contiguous(0, MPI_INT, &empty);
	MPI_Type_commit(&empty);
	for (int kind = 0; kind < N_KINDS; kind++)
		for (int write = 0; write < 2; write++) {
			memset(&st, 0x77, sizeof(st));
			WORKS(access_file(kind, write, f, 5, NULL, 0, MPI_BYTE, &st));
			IS(count_of(&st, MPI_BYTE), 0);
			WORKS(access_file(kind, write, f, 5, b, 3, empty, &st));
			IS(count_of(&st, MPI_INT), 0);
			WORKS(access_file_c(kind, write, f, 5, NULL, 0, MPI_INT, &st));
			IS(position_shared(f), 0);
			IS(size_of(f), 0);
		}
	/* some ranks have data, the rest none */
	for (int kind = 0; kind < SHARED; kind++)
		if (is_collective(kind)) {
			WORKS(access_file(kind, 1, f, me, b, me % 2 ? 0 : 1, MPI_BYTE, &st));
			IS(count_of(&st, MPI_BYTE), me % 2 ? 0 : 1);
		}
	all_here();
	IS(size_of(f), (np - 1) / 2 * 2 + 1);
	MPI_Type_free(&empty);
	WORKS(MPI_File_close(&f));
}

/* Memory with a lower bound below and above 0, absolute addresses with MPI_BOTTOM, negative extents. */
static void memories(void)
{
	static char m[100], back[100], raw[100];
	MPI_Datatype t, r;
	MPI_Aint at[2];
	int lens[2] = {3, 4};
	MPI_File f;
	MPI_Status st;

	fill(m, sizeof(m), 9);
	fresh("memories");
	f = opened(MPI_COMM_WORLD, path, RW);
	for (int kind = 0; kind < SHARED; kind++) {
		MPI_Get_address(m + 50, &at[0]);
		MPI_Get_address(m + 10, &at[1]);
		MPI_Type_create_hindexed(2, lens, at, MPI_BYTE, &t);
		MPI_Type_commit(&t);
		WORKS(access_file(kind, 1, f, 7 * me, MPI_BOTTOM, 1, t, &st));
		IS(count_of(&st, t), 1);
		MPI_Type_free(&t);
		at[0] = -20;
		at[1] = 20;
		MPI_Type_create_hindexed(2, lens, at, MPI_BYTE, &t);
		MPI_Type_create_resized(t, 0, -8, &r);
		MPI_Type_commit(&r);
		memset(back, 0, sizeof(back));
		WORKS(access_file(kind, 0, f, 7 * me, back + 50, 1, r, &st));
		IS(memcmp(back + 30, m + 50, 3), 0);
		IS(memcmp(back + 70, m + 10, 4), 0);
		/* the second element lies below the first */
		WORKS(access_file(kind, 1, f, 100 + 14 * me, m + 40, 2, r, &st));
		IS(count_of(&st, r), 2);
		IS(count_of(&st, MPI_BYTE), 14);
		all_here();
		if (np < 4) {
			bytes_of(path, raw, sizeof(raw));
			IS(size_of(f), 100 + 14 * np);
		}
		memset(back, 0, sizeof(back));
		WORKS(access_file(kind, 0, f, 100 + 14 * me, back, 14, MPI_BYTE, &st));
		IS(memcmp(back, m + 20, 3) || memcmp(back + 3, m + 60, 4) || memcmp(back + 7, m + 12, 3) ||
			   memcmp(back + 10, m + 52, 4),
		   0);
		all_here();
		MPI_Type_free(&r);
		MPI_Type_free(&t);
	}
	WORKS(MPI_File_close(&f));
}

static const struct io_case cases[] = {
	{"14.3", "get_view", get_view},
	{"14.3", "pointers", pointers},
	{"14.3", "random_views", random_views},
	{"14.3", "random_tiles", random_tiles},
	{"14.3", "arrays", arrays},
	{"14.3", "overlapping", overlapping},
	{"14.3", "wrong_types", wrong_types},
	{"14.4.1", "random_ends", random_ends},
	{"14.4.1", "nothing", nothing},
	{"14.4.1", "memories", memories},
};

int main(int argc, char **argv)
{
	if (getenv("IO_STANDARD_SEED"))
		seed = atoll(getenv("IO_STANDARD_SEED"));
	if (getenv("IO_STANDARD_ROUNDS"))
		rounds = atoi(getenv("IO_STANDARD_ROUNDS"));
	return io_run("io_standard_views", cases, N_CASES(cases), argc, argv);
}
