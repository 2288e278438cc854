/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits: lower bounds of this machine for any software, to compare a benchmark's figure with. Two processes, each pinned to a
 * separate CPU (and to one CPU where the scheduler is measured), shared memory between them; no MPI, no verbs.
 *
 * Every figure is measured several times and printed as median and best.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, MOST_REPEATS = 101, SMALLEST = 4096, LARGEST = 4 << 20, MOST_CPUS = 8192 };

static const char *const program = "limits";
static int repeats = 7;
static double scale = 1;	/* of the work per figure */
static bool csv;
static int cpu[2] = {-1, -1};	/* cpu[1] < 0: there is one CPU only */

/* Memory that the two processes share; each member has separate cache lines. */
struct shared {
	_Alignas(2 * LINE) atomic_uint line;		/* the one shared line */
	_Alignas(2 * LINE) atomic_uint way[2][4 * LINE / sizeof(atomic_uint)];	/* a line per direction */
	_Alignas(2 * LINE) atomic_uint gate[2];		/* arrivals at the start gate */
	_Alignas(2 * LINE) atomic_int futex;		/* the process whose turn it is */
	_Alignas(2 * LINE) atomic_uint credit;
	_Alignas(2 * LINE) double ns[2];		/* result of each process */
	int error;					/* errno of the process that could not */
	_Alignas(2 * LINE) struct { _Alignas(16) uint64_t value, phase; } ring[1024];
};
static struct shared *sh;

static void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

static void pin(int to)
{
	cpu_set_t *set = CPU_ALLOC(MOST_CPUS);
	const size_t bytes = CPU_ALLOC_SIZE(MOST_CPUS);

	if (!set)
		die("no memory for a CPU set");
	CPU_ZERO_S(bytes, set);
	CPU_SET_S(to, bytes, set);
	if (sched_setaffinity(0, bytes, set))
		die("cannot run on CPU %d: %s", to, strerror(errno));
	CPU_FREE(set);
}

/* Both processes leave together. phase counts up from 1. */
static void meet(int me, unsigned phase, bool one_cpu)
{
	atomic_store(&sh->gate[me], phase);
	while (atomic_load(&sh->gate[1 - me]) < phase)
		if (one_cpu)
			sched_yield();
		else
			pause_cpu();
}

/* ---- one figure: the same function runs in two processes ------------------------------------------------------- */

struct measure;
typedef double (*body)(const struct measure *m, int me); /* ns per unit; negative: failed, with errno */
struct measure {
	const char *name, *unit;
	body run;
	int cpus;		/* CPUs needed */
	bool together;		/* both run and both results count (the slower one) */
	size_t bytes;		/* of copies; 0: a time */
	long rounds;
};

static void *map_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no shared memory of %zu bytes: %s", bytes, strerror(errno));
	return p;
}

/* The pid of the other process, for CMA; its buffer has the same address, since it was mapped before the fork. */
static pid_t other;
static char *private_buffer;

/* Runs the measurement once. Returns ns per unit, or a negative value with *err. */
static double once(const struct measure *m, int *err)
{
	double result;
	int status;
	pid_t parent = getpid(), child;

	memset(sh, 0, sizeof(*sh));
	child = fork();
	if (child < 0)
		die("fork: %s", strerror(errno));
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Yama allows CMA to ancestors only: the child admits its parent */
		prctl(PR_SET_PTRACER, parent, 0, 0, 0);
		other = parent;
		pin(m->cpus == 2 ? cpu[1] : cpu[0]);
		sh->ns[1] = m->run(m, 1);
		if (sh->ns[1] < 0 && !sh->error)
			sh->error = errno;
		_exit(0);
	}
	other = child;
	pin(cpu[0]);
	result = m->run(m, 0);
	if (result < 0)
		sh->error = errno;
	if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		die("the second process of '%s' ended badly (status 0x%x)", m->name, status);
	*err = sh->error;
	if (sh->error)
		return -1;
	return m->together && sh->ns[1] > result ? sh->ns[1] : result;
}

/* Two processes hand a word to and fro; half a round trip. */
static double hop_shared(const struct measure *m, int me)
{
	double begin;

	meet(me, 1, false);
	begin = now();
	for (unsigned i = 0; i < (unsigned)m->rounds; i++) {
		while (atomic_load_explicit(&sh->line, memory_order_acquire) != 2 * i + (unsigned)me)
			;
		atomic_store_explicit(&sh->line, 2 * i + (unsigned)me + 1, memory_order_release);
	}
	return (now() - begin) / (double)m->rounds / 2;
}

static double hop_lines(const struct measure *m, int me)
{
	atomic_uint *mine = &sh->way[me][0], *theirs = &sh->way[1 - me][0];
	double begin;

	meet(me, 1, false);
	begin = now();
	for (unsigned i = 1; i <= (unsigned)m->rounds; i++) {
		if (me == 0)
			atomic_store_explicit(mine, i, memory_order_release);
		while (atomic_load_explicit(theirs, memory_order_acquire) != i)
			;
		if (me == 1)
			atomic_store_explicit(mine, i, memory_order_release);
	}
	return (now() - begin) / (double)m->rounds / 2;
}

/* 16-byte granules, value then phase, four to a line, credit returned every half ring. ns per granule. */
static double stream(const struct measure *m, int me)
{
	const unsigned slots = sizeof(sh->ring) / sizeof(sh->ring[0]);
	const unsigned total = (unsigned)(m->rounds / (long)slots + 1) * slots;
	uint64_t sum = 0;
	double begin;

	meet(me, 1, false);
	begin = now();
	for (unsigned i = 0; i < total; i++) {
		const uint64_t lap = i / slots + 1;

		if (me == 0) {
			while (i - atomic_load_explicit(&sh->credit, memory_order_acquire) >= slots)
				;
			sh->ring[i % slots].value = i;
			__atomic_store_n(&sh->ring[i % slots].phase, lap, __ATOMIC_RELEASE);
		} else {
			while (__atomic_load_n(&sh->ring[i % slots].phase, __ATOMIC_ACQUIRE) != lap)
				;
			sum += sh->ring[i % slots].value;
			if (i % (slots / 2) == slots / 2 - 1)
				atomic_store_explicit(&sh->credit, i + 1, memory_order_release);
		}
	}
	if (me == 1 && sum != (uint64_t)total * (total - 1) / 2)
		die("the stream lost data: that is a fault of this program");
	return (now() - begin) / total;
}

/* ns per copy of m->bytes; with two CPUs each copies its half at the same time. */
static double copy(const struct measure *m, int me)
{
	const size_t bytes = m->cpus == 2 ? m->bytes / 2 : m->bytes;
	char *from = map_shared(m->bytes), *to = map_shared(m->bytes);
	char *source = from + (size_t)me * (m->bytes - bytes), *target = to + (size_t)me * (m->bytes - bytes);
	double begin, ns;

	if (m->cpus == 1 && me == 1)
		return 0;
	memset(from, 1, m->bytes);
	memset(to, 2, m->bytes);
	for (int i = 0; i < 3; i++)
		memcpy(target, source, bytes);
	if (m->cpus == 2)
		meet(me, 1, false);
	begin = now();
	for (long i = 0; i < m->rounds; i++) {
		memcpy(target, source, bytes);
		/* The copy may not be optimised away. */
		__asm__ volatile("" ::"r"(target), "r"(source) : "memory");
	}
	ns = (now() - begin) / (double)m->rounds;
	munmap(from, m->bytes);
	munmap(to, m->bytes);
	return ns;
}

/* ns per call that reads m->bytes (8 at least) of the other process, which waits and touches nothing. */
static double cma(const struct measure *m, int me, bool writes)
{
	struct iovec local, remote = {private_buffer, m->bytes};
	double begin, ns = 0;
	char *mine;

	/* write to the pages so that each process has its own: fork shares them until then */
	memset(private_buffer, me + 1, m->bytes);
	mine = malloc(m->bytes);
	if (!mine)
		die("no memory for %zu bytes", m->bytes);
	memset(mine, 7, m->bytes);
	local = (struct iovec){mine, m->bytes};
	meet(me, 1, m->cpus == 1);
	if (me == 0) {
		begin = now();
		for (long i = 0; i < m->rounds; i++) {
			ssize_t n = writes ? process_vm_writev(other, &local, 1, &remote, 1, 0)
					   : process_vm_readv(other, &local, 1, &remote, 1, 0);

			if (n != (ssize_t)m->bytes) {
				ns = -1;
				if (n >= 0)
					errno = EIO;
				break;
			}
		}
		if (ns >= 0)
			ns = (now() - begin) / (double)m->rounds;
		if (ns >= 0 && !writes && mine[m->bytes - 1] != 2)
			die("process_vm_readv brought the wrong bytes");
	}
	int saved = errno;
	meet(me, 2, m->cpus == 1);
	free(mine);
	errno = saved;
	return ns;
}

static double cma_read(const struct measure *m, int me)
{
	return cma(m, me, false);
}

static double cma_write(const struct measure *m, int me)
{
	return cma(m, me, true);
}

/* Both processes on one CPU: each yields until its turn. ns per hand-over. */
static double yield(const struct measure *m, int me)
{
	double begin;

	meet(me, 1, true);
	begin = now();
	for (unsigned i = 0; i < (unsigned)m->rounds; i++) {
		while (atomic_load_explicit(&sh->line, memory_order_acquire) != 2 * i + (unsigned)me)
			sched_yield();
		atomic_store_explicit(&sh->line, 2 * i + (unsigned)me + 1, memory_order_release);
	}
	return (now() - begin) / (double)m->rounds / 2;
}

/* Each process sleeps until the other wakes it: ns of wake and sleep, one way. */
static double futex(const struct measure *m, int me)
{
	double begin;

	meet(me, 1, m->cpus == 1);
	begin = now();
	for (int i = 0; i < (int)m->rounds; i++) {
		int seen;

		while ((seen = atomic_load(&sh->futex)) != 2 * i + me)
			syscall(SYS_futex, &sh->futex, FUTEX_WAIT, seen, NULL, NULL, 0);
		atomic_store(&sh->futex, 2 * i + me + 1);
		syscall(SYS_futex, &sh->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	return (now() - begin) / (double)m->rounds / 2;
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const struct measure *m, double median, double best, const char *why_not)
{
	/* bytes/ns = GB/s; in MB/s, as the bandwidth benchmarks print. */
	const double mid = m->bytes > 8 ? (double)m->bytes / median * 1e3 : median;
	const double top = m->bytes > 8 ? (double)m->bytes / best * 1e3 : best;
	char size[24] = "";

	if (m->bytes)
		snprintf(size, sizeof(size), "%zu", m->bytes);
	if (csv && why_not)
		printf("%s,%s,%s,,,%d,\"%s\"\n", m->name, size, m->unit, repeats, why_not);
	else if (csv)
		printf("%s,%s,%s,%.3f,%.3f,%d,\n", m->name, size, m->unit, mid, top, repeats);
	else if (why_not)
		printf("%-24s %9s  %s\n", m->name, size, why_not);
	else
		printf("%-24s %9s %12.2f %12.2f  %s\n", m->name, size, mid, top, m->unit);
	fflush(stdout);
}

static void figure(struct measure m)
{
	double ns[MOST_REPEATS];
	char why[160];
	int err = 0;

	if (m.cpus == 2 && cpu[1] < 0) {
		print(&m, 0, 0, "not measurable: this process may use one CPU only");
		return;
	}
	m.rounds = (long)((double)m.rounds * scale);
	if (m.rounds < 1)
		m.rounds = 1;
	for (int i = 0; i < repeats; i++) {
		ns[i] = once(&m, &err);
		if (ns[i] < 0) {
			snprintf(why, sizeof(why), "not possible: %s%s", strerror(err),
				 err == EPERM ? " (ptrace_scope or a container's profile forbids it)" : "");
			print(&m, 0, 0, why);
			return;
		}
	}
	qsort(ns, (size_t)repeats, sizeof(ns[0]), ascending);
	print(&m, repeats % 2 ? ns[repeats / 2] : (ns[repeats / 2 - 1] + ns[repeats / 2]) / 2, ns[0], NULL);
}

/* Rounds so that a copy of this size takes some milliseconds. */
static long copies(size_t bytes)
{
	return (long)((128u << 20) / bytes) + 4;
}

static void all(void)
{
	private_buffer = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (private_buffer == MAP_FAILED)
		die("no memory for %d bytes: %s", LARGEST, strerror(errno));
	figure((struct measure){"line_hop_shared", "ns", hop_shared, 2, true, 0, 200000});
	figure((struct measure){"line_hop_per_direction", "ns", hop_lines, 2, true, 0, 200000});
	figure((struct measure){"stream_16B_granule", "ns", stream, 2, true, 0, 1000000});
	for (size_t n = SMALLEST; n <= LARGEST; n *= 2)
		figure((struct measure){"copy_1cpu", "MB/s", copy, 1, false, n, copies(n)});
	for (size_t n = SMALLEST; n <= LARGEST; n *= 2)
		figure((struct measure){"copy_2cpu", "MB/s", copy, 2, true, n, copies(n)});
	figure((struct measure){"cma_read", "ns", cma_read, cpu[1] < 0 ? 1 : 2, false, 8, 20000});
	for (size_t n = SMALLEST; n <= LARGEST; n *= 2)
		figure((struct measure){"cma_read", "MB/s", cma_read, cpu[1] < 0 ? 1 : 2, false, n, copies(n)});
	figure((struct measure){"cma_write", "ns", cma_write, cpu[1] < 0 ? 1 : 2, false, 8, 20000});
	for (size_t n = SMALLEST; n <= LARGEST; n *= 2)
		figure((struct measure){"cma_write", "MB/s", cma_write, cpu[1] < 0 ? 1 : 2, false, n, copies(n)});
	figure((struct measure){"yield_1cpu", "ns", yield, 1, true, 0, 20000});
	figure((struct measure){"futex_1cpu", "ns", futex, 1, true, 0, 10000});
	figure((struct measure){"futex_2cpu", "ns", futex, 2, true, 0, 10000});
}

/* ---- options --------------------------------------------------------------------------------------------------- */

/* Core and package of a CPU as one number, or the CPU's own where the kernel does not tell. */
static long core_of(int c)
{
	char path[96];
	long core = c, package = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/core_id", c);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%ld", &core) != 1)
			core = c;
		fclose(f);
	}
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", c);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%ld", &package) != 1)
			package = 0;
		fclose(f);
	}
	return package * 100000 + core;
}

/* The first two allowed CPUs on different cores (else siblings of one, else one CPU). */
static void choose_cpus(void)
{
	cpu_set_t *set = CPU_ALLOC(MOST_CPUS);
	const size_t bytes = CPU_ALLOC_SIZE(MOST_CPUS);
	int sibling = -1;

	if (!set || sched_getaffinity(0, bytes, set))
		die("sched_getaffinity: %s", strerror(errno));
	for (int c = 0; c < MOST_CPUS && cpu[1] < 0; c++) {
		if (!CPU_ISSET_S(c, bytes, set))
			continue;
		if (cpu[0] < 0)
			cpu[0] = c;
		else if (core_of(c) != core_of(cpu[0]))
			cpu[1] = c;
		else if (sibling < 0)
			sibling = c;
	}
	if (cpu[1] < 0)
		cpu[1] = sibling;
	CPU_FREE(set);
}

static void usage(FILE *f)
{
	fprintf(f, "%s: what no software can beat on this machine\n"
		"Options:\n"
		"  -b A[,B]   CPUs to use (default: the first two allowed ones on different cores)\n"
		"  -r N       times that each figure is taken (default %d, at most %d)\n"
		"  -s FACTOR  work per figure, 1 is the default\n"
		"  -o FORMAT  table or csv\n"
		"  -h         print this\n"
		"Times in ns one way, copies in MB/s; each as median and best.\n", program, repeats, MOST_REPEATS);
}

static int wrong_use(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int wrong_use(const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputs(" (-h lists the options)\n", stderr);
	return 2;
}

static int options(int argc, char **argv)
{
	char *end;
	int c;

	opterr = 0;
	while ((c = getopt(argc, argv, ":b:r:s:o:h")) != -1) {
		switch (c) {
		case 'b':
			cpu[0] = (int)strtol(optarg, &end, 10);
			if (end != optarg && *end == ',' && isdigit((unsigned char)end[1]))
				cpu[1] = (int)strtol(end + 1, &end, 10);
			if (end == optarg || *end || cpu[0] < 0 || cpu[0] == cpu[1])
				return wrong_use("-b '%s': one CPU number or two different ones are wanted", optarg);
			break;
		case 'r':
			repeats = (int)strtol(optarg, &end, 10);
			if (end == optarg || *end || repeats < 1 || repeats > MOST_REPEATS)
				return wrong_use("-r '%s': a number from 1 to %d is wanted", optarg, MOST_REPEATS);
			break;
		case 's':
			scale = strtod(optarg, &end);
			if (end == optarg || *end || !(scale > 0) || scale > 1000)
				return wrong_use("-s '%s': a factor above 0, up to 1000, is wanted", optarg);
			break;
		case 'o':
			if (strcmp(optarg, "csv") && strcmp(optarg, "table"))
				return wrong_use("-o '%s' is unknown; table and csv are known", optarg);
			csv = !strcmp(optarg, "csv");
			break;
		case 'h':
			usage(stdout);
			exit(0);
		case ':':
			return wrong_use("-%c needs a value", optopt);
		default:
			return isupper(optopt) && strchr("brsoh", tolower(optopt))
				       ? wrong_use("unknown option '-%c'; the nearest is '-%c'", optopt,
						   tolower(optopt))
				       : wrong_use("unknown option '%s'; known are -b -r -s -o -h", argv[optind - 1]);
		}
	}
	if (optind < argc)
		return wrong_use("'%s': no arguments are taken but options", argv[optind]);
	return 0;
}

int main(int argc, char **argv)
{
	int wrong = options(argc, argv);

	if (wrong)
		return wrong;
	if (cpu[0] < 0)
		choose_cpus();
	sh = map_shared(sizeof(*sh));
	if (csv) {
		printf("name,bytes,unit,median,best,repeats,note\n");
	} else {
		if (cpu[1] >= 0)
			printf("# CPUs %d and %d (%s); each figure %d times\n", cpu[0], cpu[1],
			       core_of(cpu[0]) == core_of(cpu[1]) ? "siblings of one core" : "different cores",
			       repeats);
		else
			printf("# CPU %d alone: what needs two CPUs is left out, with a word; each figure %d times\n",
			       cpu[0], repeats);
		printf("%-24s %9s %12s %12s  %s\n", "# what", "bytes", "median", "best", "unit");
	}
	all();
	return 0;
}
