/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the kernel lets this process reach another's private memory by process_vm_readv and process_vm_writev (CMA).
 *
 * The answer is a property of the pair (executing process, process that has the memory), has a direction, and changes while
 * both run: user namespaces of their own, a seccomp filter, setuid, PR_SET_DUMPABLE. The executing process keeps the verdict,
 * for all threads: `denied`, by process slot, holds the generation of the slot's user that the kernel refused, so that the
 * slot's next user is tried anew. Verdicts come from shca_cma_probe, when a queue pair is connected, and from any copy that is
 * refused (engine/copy.c); every PROBE_AGAIN copies by proxies one verdict is forgotten, since a process may be dumpable again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shca/fabric/fabric.h"

#define PROBE_AGAIN 1024u

/* ---- of a pair ------------------------------------------------------------------------------------------------- */

/* NULL: no memory. */
static _Atomic uint32_t *cma_verdicts(struct shca_member *m)
{
	_Atomic uint32_t *v = atomic_load(&m->denied), *mine;

	if (v || !(mine = calloc(SHCA_MAX_PROCS, sizeof(*mine))))
		return v;
	if (atomic_compare_exchange_strong(&m->denied, &v, mine))
		return mine;
	free(mine);
	return v;
}

void shca_cma_deny(struct shca_member *m, uint32_t proc, enum shca_copy_dir dir, int err)
{
	const struct shca_proc_slot *p = &m->procs[proc];
	_Atomic uint32_t *v = cma_verdicts(m);

	/* without memory for verdicts each copy is refused again, and goes by the proxy all the same */
	if (v)
		atomic_store_explicit(&v[proc], atomic_load(&p->gen), memory_order_relaxed);
	if (atomic_fetch_or(&m->hdr->cma_trouble, SHCA_CMA_SAID) & SHCA_CMA_SAID)
		return;
	shca_error("the kernel forbids process %d (%.16s) process_vm_%s of process %d (%.16s): %s. One of them is in a user "
		   "namespace of its own (rootless container), is not dumpable (setuid, PR_SET_DUMPABLE), or is restricted by a "
		   "seccomp profile or Yama. Between such processes private memory goes through proxy threads, which is slower. "
		   "Permit it, or keep buffers in the arena (MPI_Alloc_mem)",
		   (int)getpid(), m->proc->comm, dir == SHCA_COPY_WRITE ? "writev" : "readv", p->pid, p->comm, strerror(err));
}

void shca_cma_probe(struct shca_member *m, uint32_t proc)
{
	uint64_t magic;
	struct iovec here = {&magic, sizeof(magic)}, there = {(void *)(uintptr_t)m->procs[proc].base, sizeof(magic)};

	if (m->virtual_process || !shca_cma_permitted(m, proc) || shca_proc_dying(m, proc))
		return;
	if (process_vm_readv(m->procs[proc].pid, &here, 1, &there, 1, 0) >= 0 || !shca_cma_refused(errno))
		return;
	shca_cma_deny(m, proc, SHCA_COPY_READ, errno);
	/* the proxy starts while the queue pair is being connected */
	shca_proxy_ask(m, proc);
}

void shca_cma_proxied(struct shca_member *m, uint32_t proc)
{
	_Atomic uint32_t *v = atomic_load(&m->denied);

	if (v && atomic_fetch_add_explicit(&m->proxied, 1, memory_order_relaxed) % PROBE_AGAIN == PROBE_AGAIN - 1)
		atomic_store_explicit(&v[proc], 0, memory_order_relaxed);
}

void shca_cma_free(struct shca_member *m)
{
	free(atomic_exchange(&m->denied, NULL));
}

/* ---- of this process ------------------------------------------------------------------------------------------- */

bool shca_cma_possible(const char **why)
{
	if (!shca_env_bool("SHCA_CMA")) {
		*why = NULL;
		return false;
	}
	if (prctl(PR_GET_DUMPABLE) != 1) {
		*why = "this process is not dumpable (set-uid, or prctl PR_SET_DUMPABLE)";
		return false;
	}
	char from = 1, to = 0;
	struct iovec a = { &to, 1 }, b = { &from, 1 };
	if (process_vm_readv(getpid(), &a, 1, &b, 1, 0) != 1) {
		*why = "a seccomp profile";
		return false;
	}
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;
	if (f && fscanf(f, "%d", &scope) != 1)
		scope = 0;
	if (f)
		fclose(f);
	if (scope > 2 || (scope == 2 && geteuid())) {
		*why = "kernel.yama.ptrace_scope is 2 or 3";
		return false;
	}
	return true;
}

/* Reports once per fabric: no silent slow path. */
int shca_cma_judge(struct shca_member *m)
{
	const char *why;
	bool possible = shca_cma_possible(&why);
	m->proc->cma = possible;
	if (!possible &&
	    !(atomic_fetch_or(&m->hdr->cma_trouble, why ? SHCA_CMA_OFF | SHCA_CMA_SAID : SHCA_CMA_OFF) & SHCA_CMA_SAID) && why)
		shca_error("the kernel forbids process_vm_readv here (%s): peers reach private memory through a proxy thread, "
			   "which is slower. Permit it, or keep buffers in the arena (MPI_Alloc_mem)",
			   why);
	return shca_proxy_check(m);
}

int shca_proxy_check(struct shca_member *m)
{
	return atomic_load(&m->hdr->cma_trouble) & SHCA_CMA_OFF && !m->proxy ? shca_proxy_start(m) : 0;
}
