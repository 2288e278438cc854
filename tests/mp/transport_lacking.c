/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stands between the transport and the device: the environment names the missing feature. LACK_DC: no mlx5dv, hence no DC.
 * LACK_MEMLOCK=BYTES: larger regions cannot be registered, as under a limit on locked memory (ulimit -l). LACK_CALLOC=N: the heap
 * has no room for arrays of exactly so many elements.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>

struct ibv_mr *__real_ibv_reg_mr(struct ibv_pd *pd, void *p, size_t bytes, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *p, size_t bytes, int access);
struct ibv_mr *__real_ibv_reg_mr_iova2(struct ibv_pd *pd, void *p, size_t bytes, uint64_t iova, unsigned int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *p, size_t bytes, uint64_t iova, unsigned int access);
bool __real_mlx5dv_is_supported(struct ibv_device *device);
bool __wrap_mlx5dv_is_supported(struct ibv_device *device);

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	const char *lack = getenv("LACK_CALLOC");

	return lack && n == strtoull(lack, NULL, 10) ? NULL : __real_calloc(n, size);
}

static bool refused(size_t bytes)
{
	const char *most = getenv("LACK_MEMLOCK");

	if (!most || bytes <= strtoull(most, NULL, 10))
		return false;
	errno = ENOMEM;
	return true;
}

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *p, size_t bytes, int access)
{
	return refused(bytes) ? NULL : __real_ibv_reg_mr(pd, p, bytes, access);
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *p, size_t bytes, uint64_t iova, unsigned int access)
{
	return refused(bytes) ? NULL : __real_ibv_reg_mr_iova2(pd, p, bytes, iova, access);
}

bool __wrap_mlx5dv_is_supported(struct ibv_device *device)
{
	return !getenv("LACK_DC") && __real_mlx5dv_is_supported(device);
}
