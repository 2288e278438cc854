/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures whether staging pays on this machine. Single copy moves the bytes once, by the kernel; staging moves them twice, into
 * and out of the staging buffer, without the kernel.
 *
 * Let m be the time of a copy within one cache, x the time in which the cache lines go from one processor to the other, and k the
 * time of the kernel's copy without x: the system call and the look-up of pages included. Single copy takes k + x, staging 2 m +
 * 2 x. So staging is quicker if m + x <= k - m. The copy into the staging buffer takes m + x, and is timed whenever one is made
 * (HDL_TUNE_STAGING); k and m are measured here, once, within this process.
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

/* Returns the time of the shortest of TIMES copies, ns: in the first ones pages and caches are not warm. Returns 0 if the kernel
 * does not copy for this process. */
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
		return HDL_TUNE_COPY_NS;
	memset(memory, 1, 2 * SAMPLE);
	kernel = shortest(memory, memory + SAMPLE, true);
	copy = shortest(memory, memory + SAMPLE, false);
	munmap(memory, 2 * SAMPLE);
	if (!kernel)
		return HDL_TUNE_COPY_NS;
	quick = kernel > copy ? (kernel - copy) * 1024 / SAMPLE : 0;
	return quick < LEAST ? LEAST : quick > MOST ? MOST : (unsigned)quick;
}

uint32_t hdl_sc_quick(void)
{
	static unsigned quick;

	if (!quick)
		quick = measure();
	return quick;
}
