/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a copy that is left behind pays on this machine. By the kernel bytes are copied once; left behind they are copied twice, in and out, without
 * it. Each copy between two processors takes m, what it takes within a cache, and x, the way of its lines from the one processor to the other; the
 * kernel's takes k, its call and its looking pages up among that, and x. So the two are quicker if 2 m + 2 x <= k + x, that is, if the copy in,
 * which is timed whenever it is made (lines/pace.h) and takes m + x, takes no more than k - m. Both of these are measured here, once, within this process.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collectives/single_copy/single_copy.h"

#define SAMPLE ((size_t)64 << 10)
#define TIMES 4
#define LEAST 10u
#define MOST 150u

/* The shortest of some: in the first ones pages and caches are not as they will be. 0: the kernel does not copy for us. */
static uint64_t shortest(char *to, char *from, bool kernel)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TIMES; i++) {
		const struct iovec local = { to, SAMPLE }, remote = { from, SAMPLE };
		uint64_t since = monotonic_ns(), took;

		if (!kernel)
			memcpy(to, from, SAMPLE);
		else if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)SAMPLE)
			return 0;
		took = monotonic_ns() - since;
		best = took < best ? took : best;
	}
	return best;
}

static unsigned measure(void)
{
	char *memory = mmap(NULL, 2 * SAMPLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t kernel, copy, quick;

	if (memory == MAP_FAILED)
		return LINES_PACE_QUICK;
	memset(memory, 1, 2 * SAMPLE);
	kernel = shortest(memory, memory + SAMPLE, true);
	copy = shortest(memory, memory + SAMPLE, false);
	munmap(memory, 2 * SAMPLE);
	if (!kernel)
		return LINES_PACE_QUICK;
	quick = kernel > copy ? (kernel - copy) * 1024 / SAMPLE : 0;
	return quick < LEAST ? LEAST : quick > MOST ? MOST : (unsigned)quick;
}

uint16_t hdl_sc_quick(void)
{
	static unsigned quick;

	if (!quick)
		quick = measure();
	return (uint16_t)quick;
}
