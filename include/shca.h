/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libshca: a software host channel adapter in user space. Its devices are ordinary verbs devices
 * (<infiniband/verbs.h>); this header is only about finding them.
 */
#ifndef SHCA_H
#define SHCA_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The software devices of this process, NULL-terminated; *num (may be NULL) is their number. Joins no fabric: that
 * is done by ibv_open_device. Free with shca_free_device_list. NULL with errno on failure. */
struct ibv_device **shca_get_device_list(int *num);
void shca_free_device_list(struct ibv_device **list);

/* Names the fabric that the next ibv_open_device joins: processes of one user that name the same fabric reach each
 * other. Overridden by a descriptor inherited in SHCA_FABRIC_FD; without either it is SHCA_FABRIC, else "default". 1 to 63
 * letters, digits and ._+:- are a name; it belongs to the user, another user's fabric is refused.
 * Returns 0, or EBUSY when the process has joined a fabric already.
 *
 * Environment: SHCA_FABRIC, SHCA_FABRIC_FD (above); SHCA_JOIN_MS (30000: how long to wait for others that are joining);
 * SHCA_DEATH_MS (1000: within which the death of a peer is noticed even where the kernel does not report it);
 * SHCA_CMA=no (no process_vm_readv: private memory is reached through a proxy thread). Read by the process that
 * creates a fabric: SHCA_RESERVE (64g: how large it can grow), SHCA_FENCES=yes (no membarrier),
 * SHCA_FAULT (ud_drop=P,ud_dup=P,ud_reorder=P,seed=N: injected faults, also shcactl set). heddle_info --vars lists all. */
int shca_set_fabric(const char *name);

/* For launchers: makes a fabric for the processes of a job without joining it. The name must be new, a random one is. The
 * descriptor that is returned is to be inherited by the job's processes, which find its number in SHCA_FABRIC_FD; a process
 * that lost it finds the fabric by its name (SHCA_FABRIC) while *name_fd is open here. Both are close-on-exec and the
 * caller's. -errno with text on stderr on failure. */
int shca_create_fabric(const char *name, int *name_fd);

/* May be called before anything else, while the process has one thread: the kernel takes about 10 ms longer to let a
 * process of several threads into a fabric. */
void shca_prepare(void);

/* Memory in the fabric's arena: peers reach it by plain loads and stores. Page-aligned; registers like any other
 * memory. NULL with errno. The context must be a software device's. */
void *shca_alloc(struct ibv_context *context, size_t bytes);
int shca_free(struct ibv_context *context, void *p);

/* What a device promises that verbs have no question for; bits. 0 for a context of another device: nobody can tell. */
#define SHCA_PROMISE_SEQUENCE 1u	/* of two writes of one queue, what the first one writes is never visible later than what the
					 * second one does */
#define SHCA_PROMISE_AT_ONCE 2u		/* a write to a connected peer has landed when its post has returned, if nothing waited before
					 * it in the queue */
#define SHCA_PROMISE_TELLS_END 4u	/* a connected queue fails when its peer's process has ended, also where nothing is in flight */
uint32_t shca_promises(struct ibv_context *context);

/*
 * An optional access flag of ibv_reg_mr (IBV_ACCESS_OPTIONAL_RANGE: other devices ignore it). The caller vouches for the memory that its
 * own requests name as local segments by this lkey: the segment is mapped, with the protection that the request needs, until the request
 * completes. Where the process itself executes the request against memory in the fabric, the device copies by loads and stores, in place
 * of a system call; a segment that is not mapped is then SIGSEGV or SIGBUS, as of memcpy, and not IBV_WC_LOC_PROT_ERR.
 */
#define SHCA_ACCESS_VOUCHED (1u << 28)

/*
 * Where SHCA_PROMISE_AT_ONCE is given: what has become of requests that nobody will report. *word is a word of the queue pair qp (RC,
 * XRC_SEND or a DC initiator), read with
 *
 *     __atomic_load_n(word, __ATOMIC_ACQUIRE)
 *
 * by the thread that has just posted: 0: every request posted since the queue pair was last in RESET has been carried out, with success,
 * and its effect is there; none of them will be reported as failed or flushed. Else one may wait or have failed, the last one posted
 * among them; later posts may find 0 again, if all have been carried out meanwhile. What others do to the queue pair between post and
 * load, or later (a state change, a peer that dies, a device that fails), does not turn a request that was carried out into another.
 *
 * The word is there until the queue pair is destroyed. 0, or EOPNOTSUPP: the queue pair is another device's, of another type, runs
 * cross-channel requests, or its device does not promise that; then *word is left alone.
 */
int shca_unfinished(struct ibv_qp *qp, const uint32_t **word);

/*
 * Wake on write: a capability of the software device. A thread sleeps until another process writes to this process's
 * memory or puts a completion into one of its CQs, armed or not:
 *
 *     if (!shca_await_prepare(ctx, &seen)) {
 *             look again; if there is something: shca_await_cancel(ctx);
 *             else shca_await(ctx, seen, timeout_ns);
 *     }
 *
 * A process that has called shca_await_prepare once is expected to give its CPU away by itself: its looks at completion queues that find
 * nothing do not any more.
 *
 * Nothing that happens behind shca_await_prepare is missed. prepare and wake return 0, or EOPNOTSUPP for a context of
 * another device. shca_await ends what prepare began; it returns 0 (woken, or something happened since), ETIMEDOUT or EINTR;
 * timeout_ns UINT64_MAX: none.
 *
 * shca_await_wake ends the sleeps of all threads of this process, as a write would. It is async-signal-safe.
 */
int shca_await_prepare(struct ibv_context *context, uint32_t *seen);
int shca_await(struct ibv_context *context, uint32_t seen, uint64_t timeout_ns);
void shca_await_cancel(struct ibv_context *context);
int shca_await_wake(struct ibv_context *context);

#ifdef __cplusplus
}
#endif
#endif
