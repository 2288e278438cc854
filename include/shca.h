/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libshca: a software host channel adapter in user space. Its devices are ordinary verbs devices (<infiniband/verbs.h>). This
 * header declares how a program finds them, and their functions beyond verbs.
 */
#ifndef SHCA_H
#define SHCA_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Lists the software devices of this process, NULL-terminated; *num (num may be NULL) is their number. Joins no fabric:
 * ibv_open_device does. The caller frees the list with shca_free_device_list. Returns NULL with errno on failure. */
struct ibv_device **shca_get_device_list(int *num);
void shca_free_device_list(struct ibv_device **list);

/* Names the fabric that the next ibv_open_device joins: processes of one user that name the same fabric reach each
 * other. Overridden by a descriptor inherited in SHCA_FABRIC_FD; without either it is SHCA_FABRIC, else "default". 1 to 63
 * letters, digits and ._+:- are a name. A fabric belongs to one user; the fabric of another user is refused.
 * Returns 0, or EBUSY when the process has joined a fabric already.
 *
 * Environment: SHCA_FABRIC, SHCA_FABRIC_FD (above); SHCA_JOIN_MS (30000: ms that a process waits for processes that are joining);
 * SHCA_DEATH_MS (1000: ms within which a member notices the death of a peer even where the kernel does not report the death);
 * SHCA_CMA=no (no process_vm_readv: a proxy thread of the owner copies private memory). Read by the process that
 * creates a fabric: SHCA_RESERVE (64g: largest size of the fabric), SHCA_FENCES=yes (no membarrier),
 * SHCA_FAULT (ud_drop=P,ud_dup=P,ud_reorder=P,seed=N: injected faults, also shcactl set). heddle_info --vars lists all. */
int shca_set_fabric(const char *name);

/* For launchers: makes a fabric for the processes of a job without joining it. Must: the name is new (a random name is).
 * Returns a descriptor for the job's processes to inherit, who find its number in SHCA_FABRIC_FD; a process that lost the
 * descriptor finds the fabric by name (SHCA_FABRIC) while *name_fd is open here. The caller owns both; both are
 * close-on-exec. Returns -errno, with text on stderr, on failure. */
int shca_create_fabric(const char *name, int *name_fd);

/* Optional: registers the process for membarrier while the process has one thread. A process of several threads joins its
 * fabric about 10 ms later without this call. */
void shca_prepare(void);

/* Allocates memory in the fabric's arena, which peers reach by plain loads and stores. Page-aligned; ibv_reg_mr takes it like
 * any other memory. Must: the context is a software device's. Returns NULL with errno on failure; the caller frees with
 * shca_free. The mapping is the device's: the program must not change it (mprotect, munmap, mremap, mmap over it). Requests that
 * this process executes load and store the memory in place, in any thread of the library, so that a protected page is SIGSEGV
 * there; a peer's requests go by the peer's own mapping and succeed. */
void *shca_alloc(struct ibv_context *context, size_t bytes);
int shca_free(struct ibv_context *context, void *p);

/* Allocates memory in the fabric's arena that outlives its maker: when the process dies the memory stays where it is, with its
 * contents, until the last member has left the fabric. For memory that peers access by plain loads and stores:
 *
 *     1. a peer stores into memory of shca_alloc, whose owner has just died
 *     2. the reaper has given the memory to a third process meanwhile: the store changes that process's data
 *
 * Whole pieces of SHCA_MEMORY_PIECE bytes, zeroed. Returns NULL with errno on failure; the maker frees with shca_free_kept, and
 * the same number of bytes. */
void *shca_alloc_kept(struct ibv_context *context, size_t bytes);
int shca_free_kept(struct ibv_context *context, void *p, size_t bytes);

/* For accounts of memory: whose the piece of SHCA_MEMORY_PIECE bytes of the fabric is that lies `offset` bytes from its beginning, a multiple
 * of the piece, and where this process maps it. A piece may change hands at any time. SHCA_MEMORY_END: nothing lies there or beyond, or the
 * context is of another device. */
#define SHCA_MEMORY_PIECE 65536u
enum shca_memory { SHCA_MEMORY_END, SHCA_MEMORY_TABLES, SHCA_MEMORY_OWN, SHCA_MEMORY_PEERS, SHCA_MEMORY_FREE };
enum shca_memory shca_memory_at(struct ibv_context *context, uint64_t offset, void **at);

/* Bits of shca_promises: guarantees of the device for which verbs have no query. For a context of another device the result is 0:
 * unknown. */
#define SHCA_PROMISE_SEQUENCE 1u	/* the bytes of an RDMA WRITE are visible no later than those of the queue pair's next WRITE */
#define SHCA_PROMISE_AT_ONCE 2u		/* an RDMA WRITE to a connected peer has landed when its post returns, if the send queue was
					 * idle before */
#define SHCA_PROMISE_TELLS_END 4u	/* a connected queue pair fails when its peer's process has ended, also with no request in
					 * flight */
uint32_t shca_promises(struct ibv_context *context);

/*
 * An optional access flag of ibv_reg_mr (IBV_ACCESS_OPTIONAL_RANGE: other devices ignore it). The caller vouches for the memory that its
 * own requests name as local segments by this lkey: each segment stays mapped, with the protection that the request needs, until the request
 * completes. Where this process executes the request against memory in the fabric, the device then copies by loads and stores instead
 * of a system call. A segment that is not mapped raises SIGSEGV or SIGBUS, as with memcpy, and not IBV_WC_LOC_PROT_ERR.
 */
#define SHCA_ACCESS_VOUCHED (1u << 28)

/*
 * An optional access flag of ibv_reg_mr, as above. No thread of the process polls memory of this region for bytes that a peer writes, or
 * waits for them in shca_await: an RDMA WRITE to the region's private memory (not to memory of shca_alloc) wakes no thread, and its bytes
 * become visible in any order; nor does an atomic wake one. A WRITE_WITH_IMM wakes by its completion, which becomes visible after the bytes.
 */
#define SHCA_ACCESS_UNPOLLED (1u << 27)

/*
 * Finds the word of a queue pair (RC, XRC_SEND or DC initiator) that says whether unsignaled requests are complete, where the device
 * gives SHCA_PROMISE_AT_ONCE. The thread that has just posted reads the word with
 *
 *     __atomic_load_n(word, __ATOMIC_ACQUIRE)
 *
 * 0: every request posted since the queue pair was last in RESET has succeeded and its effect is visible; none of these requests will
 * complete in error or be flushed. Not 0: at least one request, perhaps the last one posted, waits or has failed; after later posts the
 * word may be 0 again, when all requests have been carried out. An event between post and load, or later (a state change, the death of a
 * peer, a failed device), does not undo a request that was carried out.
 *
 * The word is valid until the queue pair is destroyed. Returns 0, or EOPNOTSUPP: the queue pair belongs to another device, has another
 * type, executes cross-channel requests, or its device does not give that promise; then *word is unchanged.
 */
int shca_unfinished(struct ibv_qp *qp, const uint32_t **word);

/*
 * Wake on write: a capability of the software device. A thread sleeps until another process writes to this process's
 * memory or adds a completion to one of its CQs, armed or not:
 *
 *     if (!shca_await_prepare(ctx, &seen)) {
 *             poll memory and CQs again; if there is something: shca_await_cancel(ctx);
 *             else shca_await(ctx, seen, timeout_ns);
 *     }
 *
 * A write or a completion after shca_await_prepare is never missed. shca_await_prepare and shca_await_wake return 0, or EOPNOTSUPP for
 * a context of another device. shca_await and shca_await_cancel end the section that shca_await_prepare opened. shca_await returns 0
 * (woken, or a write has happened since), ETIMEDOUT or EINTR; timeout_ns UINT64_MAX: no timeout.
 *
 * After its first shca_await_prepare a process must yield its CPU by itself: ibv_poll_cq calls that find nothing yield no more.
 *
 * shca_await_wake ends the sleeps of all threads of this process, as a write does. It is async-signal-safe.
 */
int shca_await_prepare(struct ibv_context *context, uint32_t *seen);
int shca_await(struct ibv_context *context, uint32_t seen, uint64_t timeout_ns);
void shca_await_cancel(struct ibv_context *context);
int shca_await_wake(struct ibv_context *context);

/*
 * Counts the requests of this process's queue pairs that the device has executed since the process opened the device; destroyed
 * queue pairs included, but not those that processes hold together (XRC receive queue pairs). Returns 0, or EOPNOTSUPP: the
 * context is of another device. Reading costs no other code anything; a request that is just being executed may be missing.
 */
struct shca_counts {
	uint64_t waits, enables;	/* WAIT; SEND_ENABLE and RECV_ENABLE */
	uint64_t calcs;			/* requests with a CALC, but for those that their post call has executed at once */
	uint64_t foreign;		/* data requests of this process that other processes have run */
	uint64_t for_others;		/* data requests of other processes that this process has run */
};
int shca_counts(struct ibv_context *context, struct shca_counts *counts);

/*
 * Asks the fabric's subnet administrator for the path from a port of the device to a port GID. record: 64 bytes, a PathRecord as IBTA 15.2.5.16
 * has it (big-endian), with selectors "exactly". Returns 0, or EINVAL: the device has no such port; ENOENT: no port of the fabric has that GID;
 * ENETDOWN: the port is down; ENODEV: context is NULL, which stands for the software device as this process has opened it, and it has not;
 * EOPNOTSUPP: the context is of another device.
 */
int shca_path_record(struct ibv_context *context, uint8_t port, const uint8_t dgid[16], uint8_t record[64]);

#ifdef __cplusplus
}
#endif
#endif
