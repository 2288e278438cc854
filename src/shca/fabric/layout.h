/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout of the fabric's shared memory: every process of the fabric reads and writes these bytes.
 *
 *     0            header, process slots, thread slots, number tables (sparse: untouched pages cost nothing)
 *     FIRST_CHUNK  chunks of 64 KiB, each owned by one process (chunk owner word)
 *
 * References in here are offsets from the fabric's base (0: none), because each process maps the fabric at another address.
 * Every object lies in chunks of the process that made the object, and is freed with that process. The exception is XRC's
 * receiving queue pairs, which belong to their holders (struct shca_common_qp).
 *
 * Invariants (docs/shca-engine.md has the reasons):
 *  I1  One executor per send queue. DIRECT: the queue's owner, inside post, under the owner's private lock. SHARED: the
 *      holder of qp.lock. Only the owner posts; only the owner goes DIRECT again, and only when head == posted.
 *  I2  A thread runs one queue at a time; the queues that the thread made runnable stand locked (TODO) on its private list.
 *  I3  A CQE appears by one 16-byte compare-and-swap from the previous lap: no hole, nothing to recover. On success
 *      the compare-and-swap is a full fence before the reads of the CQ's `notify` and `awaited`.
 *  I4  A receive is taken by one CAS on the word, which names the taker.
 *  I5  The bytes of a WRITE before its last 64, those before their last 8 (but for unpolled private memory); all bytes of
 *      a request before the CQE.
 *  I6  Every runnable queue is locked (TODO or RUN) by a thread, or stands in the header's `left`, and has a timer.
 *  I7  Offsets, counts and numbers are checked when they are resolved: a word that another process has overwritten leads to an
 *      error status.
 *  I8  A process that takes something away (dereg, destroy, modify) closes the gate, then quiesces, then frees.
 *  I9  A common queue pair exists while there is a holder: only the holder words say so.
 */
#ifndef SHCA_LAYOUT_H
#define SHCA_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t shca_off;

#define SHCA_MAGIC 0x3143414348534844ull
#define SHCA_LAYOUT_VERSION 10u
#define SHCA_LINE 64
#define SHCA_CHUNK 65536u
#define SHCA_MAX_PROCS 32768u		/* pid_max of a default kernel */
/* owner of a chunk or an object that belongs to no process; no process has this slot */
#define SHCA_COMMON (SHCA_MAX_PROCS - 1)
#define SHCA_MAX_THREADS 65536u
#define SHCA_QP_SEG 256u		/* queue numbers per segment; a segment belongs to one process */
#define SHCA_QP_SEGS 65536u		/* 24-bit numbers */
#define SHCA_MR_SEG 1024u		/* keys: index << 8 | generation; a segment is one chunk of 64-byte entries */
#define SHCA_MR_SEGS 16384u

#define shca_aligned __attribute__((aligned(SHCA_LINE)))

/* ---- processes and threads -------------------------------------------------------------------------------- */

/* A peer takes a process for alive as long as byte (1 + slot) of the fabric file is locked. The lock belongs to an open file
 * description that only a mapping of the process refers to: no close can lose the lock, no child inherits it, and the kernel
 * drops it when the last thread has left the address space, when no further store can come (life.c). `life`, the robust futex
 * of the helper thread, tells of the death earlier, and by a mere load. */
#define SHCA_TIMER_GROUP 128u		/* segments of numbers that share a bit of `timers` */
enum shca_proxy_state { SHCA_PROXY_NONE = 0, SHCA_PROXY_WANTED, SHCA_PROXY_FAILED };
enum shca_proc_state { SHCA_PROC_FREE = 0, SHCA_PROC_JOINING, SHCA_PROC_LIVE, SHCA_PROC_REAPING };
struct shca_proc_slot {
	_Atomic uint32_t state;		/* low 8 bits: enum; above: LIVE: gen; REAPING: the reaper's slot + 1 */
	_Atomic uint32_t gen;		/* counts the slot's users */
	int32_t pid;
	_Atomic uint32_t deaths;	/* how many of the slot's users were reaped (the rest left in good order) */
	uint64_t base;			/* where the process maps the fabric: tells arena addresses in implicit regions */
	/* 0: the kernel refuses peers process_vm_* on this process's private memory: peers use the proxy */
	uint32_t cma;
	_Atomic uint32_t async_pending;	/* some object of this process has an unread asynchronous event */
	_Atomic uint32_t sleepers;	/* flag: some thread of this process sleeps until a peer writes to the process */
	_Atomic uint32_t wake;		/* futex word: counts wake-ups */
	_Atomic uint32_t returned;	/* some receive of this process came back: a poller posts it again */
	/* thread slot + 1 of an executor that copies from or to this process and could use help */
	_Atomic uint32_t share;
	/* The validity word: a look-up of this process's objects that a peer remembers (fast_write.h, datagram.c) holds
	 * while the word has the value that was read before the look-up. In the line of `sleepers`, which every writer reads
	 * anyway. */
	union {
		struct {
			/* Revocation epoch: shca_revoke adds SHCA_REVOKE_STEP whenever a region of the process or the readiness
			 * of one of its queues is taken away. Bit 0, SHCA_BY_PATH (port.c): the executor checks the ports of each
			 * request's path. Bit 1, SHCA_TAPPED (tap.c): the executor looks at the tap. A change of either ends
			 * remembered look-ups, too. */
			_Atomic uint32_t revoke_epoch;
			/* the helper thread's robust futex: its tid; the kernel sets FUTEX_OWNER_DIED; 0: no helper yet */
			_Atomic uint32_t life;
		};
		_Atomic uint64_t valid_word;
	};
	_Atomic uint32_t rings_lost;	/* some CQ's event is SHCA_CQ_EVENT_LOST */
	_Atomic uint32_t proxy_wanted;	/* futex: enum shca_proxy_state; a requester asks for the proxy thread (proxy.c) */
	/* calls for the process's helper thread (helper.c) */
	shca_aligned _Atomic uint32_t call;	/* futex */
	_Atomic uint32_t look;		/* a process seems to have died: look at every process */
	_Atomic uint64_t asleep_until;	/* CLOCK_MONOTONIC ns; 0: the helper is awake, or there is none */
	char comm[16];			/* program name, for shcactl */
	/* For shcactl: PMIX_RANK + 1 when the process joined, and then its `jobs` entry is PMIX_NAMESPACE; 0: in no job */
	uint32_t rank;
	_Atomic uint64_t mailbox;	/* of the proxy thread; 0: none */
	shca_off xrcd_list;		/* struct shca_xrcd */
	/* Queues with a time at which they are looked at again: a bit for each group of segments, and in each segment (struct
	 * shca_numbers) a bit for each number. A setter sets the number's bit before the group's bit; a taker clears the
	 * group's bit before it reads the numbers' bits. So no number's bit is missed, even if the group's bit was set
	 * already. */
	shca_aligned _Atomic uint64_t timers[SHCA_QP_SEGS / SHCA_TIMER_GROUP / 64];
	shca_aligned _Atomic uint64_t qp_list;	/* for shcactl and the reaper: all queues of this process, by qp.next */
	shca_off cq_list, srq_list, group_list;
	shca_off flow_list;		/* struct shca_flow */
	_Atomic uint64_t foreign_wqes;	/* work requests that this process ran for other processes */
	char async_addr[32];		/* abstract socket of the asynchronous event descriptor */
	char cm_addr[32];		/* RDMA CM's bell: rung for events of the port */
} shca_aligned;

struct shca_thread_slot {
	_Atomic uint32_t owner;		/* process slot + 1; 0: free */
	int32_t tid;
	/* Whether the thread is inside the engine, and inside whose objects: count:32, odd while inside | process slot +
	 * 1:16 | another process slot + 1:16. Both 0: objects of any process. Objects of the thread's own process are always
	 * included. */
	shca_aligned _Atomic uint64_t active;
	_Atomic uint64_t share;		/* job of a divided copy: offset of a struct shca_share */
} shca_aligned;

#define SHCA_JOB_NAME 64u
#define SHCA_BY_PATH 1u			/* requests to the process check the ports of their path (engine/path.c) */
#define SHCA_TAPPED 2u			/* requests to the process go through the tap (struct shca_tap) */
#define SHCA_REVOKE_STEP 4u

/* The device's ports, the same for all processes of the fabric, and the attributes that a subnet manager assigns; shcactl inject
 * changes them (fabric/inject.c). Whether executors look at them stands in the process slots: SHCA_BY_PATH. A process has port 1,
 * or with SHCA_PORTS=2 both. */
#define SHCA_PORTS_MAX 2u
#define SHCA_LID 1u			/* of port 1 of a new fabric */
#define SHCA_LID_2 257u			/* of port 2 */
#define SHCA_PKEY 0xffffu
#define SHCA_GID_PREFIX 0xfe80000000000000ull
#define SHCA_PORT_EVENTS 32u

/* Names as those of adapters below hw_counters (verbs/counters.c). */
enum shca_hw_counter {
	SHCA_HW_OUT_OF_BUFFER,		/* requests that found no receive */
	SHCA_HW_RNR_NAK_RETRY_ERR,	/* requests whose RNR retries were used up */
	SHCA_HW_NO_ANSWER,		/* requests that found no responder, and wait to be tried again */
	SHCA_HW_LOCAL_ACK_TIMEOUT_ERR,	/* requests whose retries were used up */
	SHCA_HW_REQ_CQE_ERROR,		/* queues that a request's error has failed */
	SHCA_HW_RX_STEER_MISSED,	/* frames that no flow has steered to a queue */
	SHCA_HW_COUNTERS
};

struct shca_port {
	_Atomic uint64_t gid_prefix;
	_Atomic uint32_t lid, sm_lid, pkey;
	_Atomic uint32_t down;
	/* counters of the port that no queue has; counted where requests wait or fail */
	_Atomic uint64_t hw[SHCA_HW_COUNTERS];
	/* Added to the sums over the queues that are bound to the port: messages and bytes, modulo 2^64, that queues counted on
	 * the one port before they moved to the other one (shca_port_moved). */
	_Atomic uint64_t moved_msgs, moved_bytes, moved_packets;
};
struct shca_ports {
	/* The asynchronous events of the ports and the device: their number, and the last SHCA_PORT_EVENTS of them, at position %
	 * SHCA_PORT_EVENTS: position + 1 << 8 | port << 6 | enum ibv_event_type; port 0: of the device. Each context reads them
	 * from the position at which the context was opened. The entry is stored before `events` is raised. */
	_Atomic uint64_t events;
	_Atomic uint64_t event[SHCA_PORT_EVENTS];
	_Atomic uint32_t broken;	/* the device has failed: for good */
	_Atomic uint32_t two;		/* 1: some process has had two ports: from then on port 2 is an address of the fabric */
	struct shca_port port[SHCA_PORTS_MAX];	/* port 1 is the first */
};
#define SHCA_EVENT_TYPE(e) ((enum ibv_event_type)((e) & 63))
#define SHCA_EVENT_PORT(e) ((uint32_t)((e) >> 6) & 3)

#define SHCA_CMA_OFF 1u		/* some member may neither use nor be reached by process_vm_*: all members run proxies */
#define SHCA_CMA_SAID 2u	/* some member has reported that the kernel forbids process_vm_*: no second report */
#define SHCA_LEFT 63u
struct shca_header {
	uint64_t magic;
	uint32_t version, uid;
	uint32_t fences;		/* 1: no membarrier on this machine: both sides of each pair use full fences */
	uint32_t virtual_procs;		/* 1: the members are virtual processes of one address space (tests) */
	uint64_t bytes;			/* virtual size that offsets may span */
	uint64_t pidns, netns;		/* inodes of the namespaces in which pids and bells have their meaning; 0: not known */
	char name[64];
	_Atomic uint32_t ready;		/* set last by the creator */
	_Atomic uint32_t cma_trouble;	/* SHCA_CMA_*: bits, never cleared */
	_Atomic uint32_t next_pd, next_xrcd;
	_Atomic uint32_t proc_high, thread_high;	/* slots ever used: where scans end */
	_Atomic uint32_t chunk_hint;	/* about the lowest free chunk */
	_Atomic uint32_t chunk_high;	/* no chunk from here on was ever claimed */
	_Atomic uint64_t file_end;	/* length of the file, which grows. Accesses beyond are SIGBUS, however much is mapped */
	_Atomic uint64_t qp_seg_hint, mr_seg_hint;	/* rotate, so that a dead process's numbers come back late */
	shca_off procs, threads, qp_segs, mr_segs, chunks;	/* the tables below */
	shca_off tap;			/* struct shca_tap */
	shca_off jobs;			/* char[SHCA_MAX_PROCS][SHCA_JOB_NAME]: by process slot */
	shca_off atomic_journals;	/* struct shca_atomic_journal[SHCA_ATOMIC_LOCKS] */
	uint32_t nchunks;
	uint32_t first_chunk;
	_Atomic uint32_t wide_atomics;	/* not 0: atomics of more than 8 bytes may be posted, so all take locks (atomic.c) */
	_Atomic uint32_t commons;	/* at least the number of SHCA_COMMON's chunks; 0: there are none to look for */
	/* fault injection, set by shcactl or SHCA_FAULT: probabilities in units of 2^-32 */
	shca_aligned _Atomic uint32_t ud_drop, ud_dup, ud_reorder;
	_Atomic uint64_t fault_seed;
	/* numbers of queues that are runnable and that no thread runs: their executors had done enough (run.c) */
	shca_aligned _Atomic uint32_t some_left;
	_Atomic uint32_t left[SHCA_LEFT];
	/* counters of queues that are gone, by enum ibv_qp_type & 15 (DCI 12, DCT 13): shca_account */
	shca_aligned struct shca_total {
		_Atomic uint64_t msgs, bytes, foreign, queues, calcs, waits, enables, atomics;
	} retired[16];
	/* Locks of atomics on private memory, and of all atomics once `wide_atomics` is set: thread slot + 1 of the holder, by
	 * hash of (process, 256-byte block). */
#define SHCA_ATOMIC_LOCKS 256u
	shca_aligned _Atomic uint32_t atomic_locks[SHCA_ATOMIC_LOCKS];
	shca_aligned struct shca_ports ports;
};
/* The value that the holder of a lock is about to store, if it is wide: the thread that takes the lock over from a dead holder
 * stores the value again. */
#define SHCA_ATOMIC_MAX 256u
struct shca_atomic_journal {
	shca_aligned _Atomic uint32_t bytes;	/* 0: nothing */
	uint32_t proc, lane;
	uint32_t region, version;	/* of the memory: index and version, as in struct shca_ground */
	uint64_t where;
	uint64_t value[SHCA_ATOMIC_MAX / 8];
};
/* tables: struct shca_proc_slot[SHCA_MAX_PROCS], struct shca_thread_slot[SHCA_MAX_THREADS],
 * _Atomic uint64_t qp_segs[SHCA_QP_SEGS] and mr_segs[SHCA_MR_SEGS] (offset of the segment | process slot is in the
 * chunk's owner word), _Atomic uint32_t chunks[nchunks] (process slot + 1; 0: free). */

/* One entry of a queue number segment. kind in the low 3 bits (objects are 64-byte aligned). A zombie is a queue that was
 * destroyed and stands on the list of a receive queue (verbs/objects/zombie.c). */
enum shca_kind { SHCA_KIND_NONE = 0, SHCA_KIND_QP, SHCA_KIND_SRQ, SHCA_KIND_CQ, SHCA_KIND_ZOMBIE };
typedef _Atomic uint64_t shca_dirent;
/* A segment of one process's numbers. (A segment of common queue pairs, which are never run, has `entry` only.) */
struct shca_numbers {
	shca_dirent entry[SHCA_QP_SEG];
	_Atomic uint64_t timers[SHCA_QP_SEG / 64];
};

/* ---- memory regions --------------------------------------------------------------------------------------- */

/* VOUCHED: only of a request's local segments, never of a region: private memory whose owner may load and store it
 * (SHCA_ACCESS_VOUCHED). MKEY: only of segments, never of a region: bytes of an indirect memory key (struct shca_mkey). */
enum shca_lane { SHCA_LANE_ARENA = 1, SHCA_LANE_CMA, SHCA_LANE_PROXY, SHCA_LANE_VOUCHED, SHCA_LANE_MKEY };
/* Where a null region (ibv_alloc_null_mr) begins: no address of a process. Reads of it find zeros, writes to it are dropped.
 * Address `addr` of the region is at SHCA_NULL_AT + addr. */
#define SHCA_NULL_AT (1ull << 63)
#define SHCA_IS_NULL(where) ((where) >> 63)
#define SHCA_NULL_BYTES (1ull << 62)
/*
 * A segment of an indirect memory key: `where` is SHCA_MKEY_AT + the address in the key, and `lane` is SHCA_LANE_MKEY, with the
 * low 5 bits of the key in bits 3 to 7 and the key's index above. So the copy of such a segment as private memory ends where the
 * copy of a null region begins (copy_piece.c), and no other copy has an instruction for indirect keys.
 */
#define SHCA_MKEY_AT (3ull << 62)
#define SHCA_MKEY_BYTES (1ull << 62)	/* addresses of keys are below */
#define SHCA_IS_MKEY(where) ((where) >> 62 == 3)
#define SHCA_MKEY_LANE(key) (SHCA_LANE_MKEY | ((key) & 31u) << 3 | ((key) & ~255u))
/*
 * A memory region, or a memory window (engine/window.c). A region opens memory while `key` is its key; a window has `key` 0, and
 * opens memory to peers while `bound` is its R_Key. So no look-up of local keys finds a window, and the look-up of an
 * R_Key asks for windows last.
 */
struct shca_mr {
	_Atomic uint32_t key;		/* region: the whole key while valid, else 0 */
	uint32_t pd;
	uint32_t access;		/* IBV_ACCESS_*. Window: of the last bind, IBV_ACCESS_REMOTE_* alone */
	uint16_t proc;
	uint8_t lane;
	uint8_t implicit;		/* the whole address space (implicit on-demand paging) */
	uint64_t iova, length;
	uint64_t where;			/* ARENA: offset; else: address in the owner */
	_Atomic uint32_t gen;
	uint32_t index;			/* of the entry: key >> 8 */
	/* Counted up after `key` or `bound` is cleared. Noted by receives posted into the region. */
	_Atomic uint32_t version;
	_Atomic uint32_t bound;		/* window: the R_Key while bound, else 0 */
	/* window of type 2, bound: the queue pair that requests must come by; indirect memory key: 0, or SHCA_MKEY_REMOTE_INV */
	uint32_t qpn;
	/* enum shca_window; window, from the first bind on: index of the region that it is, or was, bound to << 8. Written by the
	 * owner and by the executor of a bind. */
	_Atomic uint32_t window;
};
_Static_assert(sizeof(struct shca_mr) == 64, "a region is one line");
/* Low byte of shca_mr.window: a region; a memory window of type 1 or 2 (2B); a region that takes no more binds, because its owner
 * looks whether windows are bound to it; an indirect memory key. */
enum shca_window { SHCA_WINDOW_NONE = 0, SHCA_WINDOW_1, SHCA_WINDOW_2, SHCA_WINDOW_CLOSED, SHCA_WINDOW_MKEY };
#define SHCA_WINDOW_KIND(word) ((word) & 0xffu)
#define SHCA_WINDOW_REGION(word) ((word) >> 8)

/*
 * An indirect memory key (UMR): the layout of a struct shca_mr of kind SHCA_WINDOW_MKEY, in the arena of the key's
 * owner, at `where`. The entry's `key` is 0, and `bound` is the key while it is configured, as of a memory window: so no
 * look-up of a region finds it. Its `iova` is the address of the first byte, and its `length` is 0: no address lies in
 * the entry as if it were a region.
 *
 *     a repetition:  | entry 0: len bytes at addr | entry 1 | ... | entry n - 1 |      unit bytes
 *     the next:      the same lengths, each entry `stride` bytes further in its own memory
 *
 * The memory of an entry is looked up by the entry's lkey whenever the key is used (engine/mkey.c).
 */
#define SHCA_MKEY_ENTRIES 65535u
#define SHCA_MKEY_REMOTE_INV 1u		/* shca_mr.qpn: SEND_WITH_INV may invalidate the key */
#define SHCA_MKEY_DEPTH 4u		/* keys that lead to one another, at most */
struct shca_mkey_entry {
	uint64_t at;			/* offset of the entry's first byte in a repetition */
	uint64_t addr, len;
	uint64_t stride;
	uint32_t lkey;
	uint32_t reserved;
};
struct shca_mkey {
	uint32_t max;			/* room for entries */
	uint32_t n;			/* entries in use; 0: no layout so far */
	uint64_t unit;			/* bytes of a repetition */
	uint64_t bytes;			/* of all repetitions */
	struct shca_mkey_entry entry[];
};
static inline uint64_t shca_mkey_bytes(uint32_t entries)
{
	return sizeof(struct shca_mkey) + entries * sizeof(struct shca_mkey_entry);
}

/* ---- completion queues ------------------------------------------------------------------------------------ */

/* A completion: 16 bytes, stored by one compare-and-swap. w0: lap:15 | op:5 | status:5 | index:15 | qpn:24 (from the top), w1:
 * imm:32 | byte_len:32. A datagram without an immediate has its sender's number (24 bits) and SHCA_CQE_UD_* in place of imm. */
struct shca_cqe {
	_Atomic uint64_t w0, w1;
} __attribute__((aligned(16)));

/* The time of a completion, of a CQ with SHCA_CQ_STAMPED: behind the ring, a word per slot: CLOCK_MONOTONIC_RAW in ns (the low 49
 * bits) << 15 | lap of the completion. Stored behind the completion: a word with another lap tells nothing. */
#define SHCA_STAMP_LAP(word) ((uint32_t)(word) & 0x7fff)
#define SHCA_STAMP_TIME(word) ((word) >> 15)
static inline uint64_t shca_stamp(uint64_t ns, uint32_t lap)
{
	return ns << 15 | lap;
}

#define SHCA_CQE_UD_GRH 0x1000000u	/* the datagram has a GRH */
#define SHCA_CQE_UD_SL(sl) (((sl) & 15u) << 25)	/* service level of the address handle */
#define SHCA_CQE_UD_SL_OF(from) ((from) >> 25 & 15)
#define SHCA_CQE_UD_PORT_2 0x80000000u	/* the sender's queue is bound to port 2 */
#define SHCA_CQE_UD_BITS (SHCA_CQE_UD_GRH | SHCA_CQE_UD_SL(15) | SHCA_CQE_UD_PORT_2)

/*
 * Which queue waits for which count of completions: a hash table by count, whose chains grow at their front. The CQ's owner
 * enters a WAIT when the WAIT is posted. A producer that has put a completion in looks up the counts above `noticed`, kicks the
 * queues found there, and only then raises `noticed`. So a producer that dies or is stopped in the middle keeps no other
 * producer from looking; a queue that is kicked twice looks twice. A queue may be kicked before it reaches the WAIT: the WAIT
 * itself compares the count.
 *
 * A full table is replaced by another one, which gets the WAITs that are still to run, by one store of the CQ's word `waits`.
 * There are two tables of each size, used in turns, and neither is freed before the CQ is. So a producer that still reads a
 * table which is being written again reads wrong entries, but no other memory; it finds `waits` changed, and looks again.
 * (Every store into a table is a release and every load an acquire: a producer that sees an entry written after the change of
 * `waits` sees the change.)
 */
struct shca_wait {
	_Atomic uint64_t count;
	_Atomic uint32_t qpn;
	_Atomic uint32_t next;		/* in the same chain: entry + 1 */
};
struct shca_waits {
	uint32_t log2;			/* log2 of the number of entries, and of chains */
	uint32_t reserved[3];
	_Atomic uint32_t first[];	/* first of each chain: entry + 1; the entries follow */
};
#define SHCA_WAITS_LOG2_MIN 3u
#define SHCA_WAITS_LOG2_MAX 24u
/* The size of each of the two tables of a size. */
static inline uint64_t shca_waits_bytes(uint32_t log2)
{
	return (sizeof(struct shca_waits) + ((sizeof(uint32_t) + sizeof(struct shca_wait)) << log2) + SHCA_LINE - 1) &
	       ~(uint64_t)(SHCA_LINE - 1);
}
static inline struct shca_wait *shca_waits_entry(struct shca_waits *w, uint32_t log2, uint32_t i)
{
	return (struct shca_wait *)(w->first + (1u << log2)) + i;
}
/* Returns the chain of a count. Consecutive counts fall into different chains, and so do counts at equal distances, as far as
 * possible. */
static inline uint32_t shca_waits_chain(uint64_t count, uint32_t log2)
{
	return (uint32_t)(count ^ count >> log2 ^ count >> 2 * log2) & ((1u << log2) - 1);
}
/* The word `waits`: the table's offset in lines, and above it a count of changes. 0: no WAIT was ever posted. */
#define SHCA_WAITS_AT(word) (((word) & ((1ull << 41) - 1)) * SHCA_LINE)
static inline uint64_t shca_waits_word(shca_off at, uint64_t changes)
{
	return at / SHCA_LINE | changes << 41;
}

struct shca_cq {
	/* read-mostly */
	shca_off ring;
	uint32_t log2, cqn;
	uint32_t proc;
	uint32_t flags;			/* SHCA_CQ_IGNORE_OVERRUN */
	shca_off next;			/* cq_list */
	char channel[32];		/* abstract socket of the completion channel, or "" */
	/* written by producers */
	/* A hint: no slot below is empty. Not monotonic: a producer that was stopped before its store makes it old. */
	shca_aligned _Atomic uint64_t tail;
	/* Never goes back. All slots below are filled, and may be overwritten. Before a producer goes more than a ring's length
	 * beyond `floor`, it moves `floor` to the consumer's index (or, where overruns are ignored, to its own position). So a
	 * `tail` below `floor` is old, and any other is a lap old at most, which the slots' laps resolve. SHCA_CQ_NO_ROOM: the
	 * CQ is in error. SHCA_CQ_MOVING: the owner replaces the ring. */
	_Atomic uint64_t floor;
	_Atomic uint64_t notify;	/* arming and event of the completion channel: SHCA_CQ_ARM_*, SHCA_CQ_EVENT_*;
					 * SHCA_CQ_STAMPED */
	_Atomic uint64_t waits;		/* struct shca_waits */
	_Atomic uint64_t noticed;	/* queues that wait for a count up to this have been kicked, or need no kick */
	_Atomic uint64_t awaited;	/* the largest count that a posted WAIT names; written by the owner */
	/* I7: `end` is the end of the ring; `seal` covers end, ring, log2, cqn and proc in one word. The owner stores both. */
	shca_off end;
	uint64_t seal;
	/* written by the consumer, read at each poll */
	shca_aligned _Atomic uint64_t ci;
	_Atomic uint32_t error;		/* SHCA_ERROR: an entry was lost, no more completions appear; SHCA_ERROR_EVENT */
	/*
	 * The ring is being replaced (engine/cq_move.c) while `floor` has SHCA_CQ_MOVING. Written by the owner before that bit
	 * is set, but for `move_first`. A ring: its offset | log2 of its entries.
	 */
	_Atomic uint64_t move_ring;	/* the new ring */
	_Atomic uint64_t move_spare;	/* the ring to be used instead if the unread completions do not fit the new
					 * one; 0: they do */
	_Atomic uint64_t move_low;	/* the consumer's index */
	/* SHCA_CQ_SETTLED | position of the first completion of the new ring; 0: not known yet. Written by any
	 * thread that finds it. */
	_Atomic uint64_t move_first;
};
#define SHCA_CQ_SETTLED (1ull << 63)
#define SHCA_CQ_IGNORE_OVERRUN 1u
/*
 * The word `notify`: armed:2 | event:2 | SHCA_CQ_STAMPED:1 | - :3 | sequence:24 | thread:32. One compare-and-swap disarms the
 * CQ, raises the event, and names the thread that owes the event's ring. A ring names the event (struct shca_ring), and a reader
 * takes an event by that event's ring only: so there is exactly one ring for each event, and poll(2) reports the descriptor
 * rightly. A thread that finds the ringer dead first makes itself the ringer (wake.c).
 */
#define SHCA_CQ_ARM_ANY 1u
#define SHCA_CQ_ARM_SOLICITED 2u
#define SHCA_CQ_ARMED 3u
#define SHCA_CQ_EVENT 12u
#define SHCA_CQ_STAMPED 16u		/* completions have a time. Set when the CQ is made, for good; here, because producers
					 * read the word anyway */
#define SHCA_CQ_EVENT_OWED 4u		/* an unread event whose ring is still to be sent */
#define SHCA_CQ_EVENT_RUNG 8u		/* an unread event whose ring was sent */
#define SHCA_CQ_EVENT_LOST 12u		/* an unread event whose ring found the socket full: the next reader of a ring sends it */
#define SHCA_CQ_EVENT_SEQ(w) ((uint32_t)(w) >> 8)
#define SHCA_CQ_EVENT_BY(w) ((uint32_t)((w) >> 32))
static inline uint64_t shca_cq_event(uint32_t state, uint32_t seq, uint32_t by)
{
	return state | (uint64_t)(seq & 0xffffff) << 8 | (uint64_t)by << 32;
}
/* Bits of `floor`: with either of them `floor` is further from every position than any ring is long. */
#define SHCA_CQ_NO_ROOM (1ull << 63)
#define SHCA_CQ_MOVING (1ull << 62)
/* Bits of `error` of a CQ or SRQ. One compare-and-swap sets both: a thread that dies there has set both or neither. */
#define SHCA_ERROR 1u
#define SHCA_ERROR_EVENT 2u		/* IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR: unread */

/* ---- receives --------------------------------------------------------------------------------------------- */

/* A piece of memory of one process, resolved: an access looks up no key. */
struct shca_seg {
	uint64_t where;			/* lane ARENA: offset; else: address in the owner */
	uint32_t len;
	uint32_t lane;			/* enum shca_lane */
};

/* Word of a receive: state:2 | taker qpn:24 (bits 2..25) | position:38 (bits 26..63; of the posting). TAKEN until the receive
 * is posted again, so that the line stays with the taker. Whether its completion was polled stands in the owner's mark. */
enum shca_rwqe_state { SHCA_R_IDLE = 0, SHCA_R_POSTED, SHCA_R_TAKEN, SHCA_R_RETURNED };
#define SHCA_FLUSHER 0xffffffu		/* taker of a receive that is being flushed; no queue has this number */
/* In place of the taker: of an IDLE receive of a shared receive queue whose ring is being replaced, or was (engine/rq_move.c). */
#define SHCA_R_MOVED 0xffffffu		/* posted at that position in the newer ring */
#define SHCA_R_COMING 0xfffffeu		/* to be posted at that position as soon as the older ring's receive is MOVED */
#define SHCA_R_OLDER 0xfffffdu		/* if the receive is taken, then in the older ring */
struct shca_rwqe {
	_Atomic uint64_t word;
	uint32_t src_qp;		/* UD with an immediate: the sender's QP; XRC: the receiving QP. Written before the CQE */
	/* the owner's `revoke_epoch` at the time of posting: while unchanged, so are the owner's regions */
	uint32_t revoke_epoch;
	uint8_t nsge;
	uint8_t bad;			/* a key was wrong at the time of posting: a message that lands here
					 * fails; SHCA_BAD_KEYS */
	uint8_t ud_bits;		/* UD with an immediate: SHCA_CQE_UD_* >> 24. Written before the CQE */
	uint8_t reserved[5];
	struct shca_seg sge[];		/* max_sge of the queue; and from the end backwards, as many struct shca_ground */
};
/* The region in which a segment of a receive lay at the time of posting. */
struct shca_ground {
	uint32_t index, version;
};

/* A receive queue: of one QP, or shared. ring[position & mask] holds the index of the receive posted there. Positions begin at
 * the ring's size, so that a zeroed ring is empty. The ring and the receives are made when the first receive is posted; until
 * then the ring is `none`. */
struct shca_rq {
	shca_aligned _Atomic uint64_t none;	/* a ring of one entry that is empty for ever */
	uint32_t log2, stride;		/* entries; bytes of a struct shca_rwqe with its segments */
	_Atomic uint64_t ring;		/* offset (of _Atomic uint64_t: position << 24 | index) | log2 of its entries */
	shca_off wqes;
	uint32_t number;		/* SRQ number, or the QP's */
	uint32_t proc, pd, xrcd;
	uint32_t managed;		/* takes need `enabled` */
	uint32_t is_srq;
	shca_off cq;			/* XRC SRQ: the CQ of the receives */
	shca_off next;			/* srq_list */
	_Atomic uint32_t dead;		/* destroyed, or the process died */
	_Atomic uint32_t error;		/* XRC SRQ: the CQ is in error. SHCA_ERROR, SHCA_ERROR_EVENT */
	/* Offset of an _Atomic uint64_t per receive, stored by the owner only: position << 1 | 1 once the completion of the
	 * receive posted at that position has been polled, before that completion may be overwritten. So a mark tells whether
	 * the completion ever appeared, however late the question comes. */
	shca_off marks;
	/* I7: `end` is the end of ring, wqes and marks; `seal` covers these and `end` in one word. The owner stores both before
	 * `ring`. */
	shca_off end;
	uint64_t seal;
	/* Of an SRQ whose ring was replaced by a larger one (engine/rq_move.c): each of its rings has a struct shca_rq of its
	 * own, in which `none`, `head` and the fields behind `head` are not used. All remain until the SRQ is destroyed. */
	_Atomic uint64_t newest;	/* SRQ: offset of its newest ring's; 0: the ring was never replaced */
	shca_off older;			/* a ring's: of the ring before; 0: it was the first */
	shca_off whose;			/* a ring's: of the SRQ; 0: this is no ring's */
	/* written by takers */
	shca_aligned _Atomic uint64_t head;	/* hint: no position below can be taken */
	_Atomic uint32_t limit;		/* SRQ limit; 0: disarmed; with SHCA_LIMIT_EVENT: an event is unread */
	/* written by the poster */
	shca_aligned _Atomic uint64_t tail;
	_Atomic uint64_t enabled;	/* managed: positions below may be taken */
	_Atomic uint32_t returned;	/* some receive is in state RETURNED: the owner posts it again */
#define SHCA_LIMIT_EVENT 0x80000000u
	/* Queues stopped by RNR, linked by qp.rnr_next. `rnr`: the recent ones, last first; the whole list is taken at once.
	 * `rnr_turn`: the older ones, first first; taken singly (rq.c). `count` tells one state of the list from the next. */
	shca_aligned _Atomic uint64_t rnr;
	struct shca_turn {
		_Atomic uint64_t first, count;
	} __attribute__((aligned(16))) rnr_turn;
};

/* ---- queue pairs ------------------------------------------------------------------------------------------ */

enum shca_wr_op {
	SHCA_OP_SEND = 1, SHCA_OP_SEND_IMM, SHCA_OP_WRITE, SHCA_OP_WRITE_IMM, SHCA_OP_READ, SHCA_OP_CAS,
	SHCA_OP_FAA, SHCA_OP_MASKED_CAS, SHCA_OP_MASKED_FAA, SHCA_OP_ATOMIC_WRITE, SHCA_OP_WAIT, SHCA_OP_SEND_EN, SHCA_OP_RECV_EN,
	SHCA_OP_SEND_INV,
	/* requests without a responder */
	SHCA_OP_NOP, SHCA_OP_LOCAL_INV, SHCA_OP_BIND_MW, SHCA_OP_UMR,
	SHCA_OP_FRAME,			/* an Ethernet frame: the flows of all processes name its receivers */
	/* completions of receives */
	SHCA_OP_RECV, SHCA_OP_RECV_IMM, SHCA_OP_RECV_WRITE_IMM, SHCA_OP_RECV_INV,
	SHCA_OPS,
	SHCA_OP_MOVED = 30,		/* no completion: the end of a ring that is being replaced (engine/cq_move.c) */
	SHCA_OP_PURGED = 31,		/* a completion that was removed from the CQ */
};
#define SHCA_WQE_SIGNALED 1u
#define SHCA_WQE_RAW 2u			/* completes as IBV_WC_DRIVER2 with any opcode: was posted as a raw WQE */
#define SHCA_WQE_SOLICITED 4u
#define SHCA_WQE_INLINE 8u
#define SHCA_WQE_OPERANDS 32u		/* atomic: the last `qkey` segments are the operands, read when the request runs */
#define SHCA_WQE_OPERANDS_NOW 64u	/* as SHCA_WQE_OPERANDS, but addresses of the poster, read when posted */
#define SHCA_WQE_CALC 128u		/* arg[0]: struct shca_calc; SEND and WRITE: len is the result's */
#define SHCA_WQE_GRH 16u			/* UD: the address handle is global */
/* Of the destination of a DC request: the address is port 2's. It is part of the name by which an initiator remembers a look-up
 * (the rkey cache), so a request by another address is looked up anew. */
#define SHCA_DC_TO_2 (1u << 25)
#define SHCA_QPN_MASK 0xffffffu		/* the bits of a queue's number */

/* The fields that a datagram takes from its address handle: flow label:20 | traffic class:8 | 0:4 | hop limit:8 | SHCA_UD_* |
 * SHCA_CQE_UD_* >> 24. */
#define SHCA_UD_TO_2 (1ull << 40)	/* the destination is port 2 */
#define SHCA_UD_TO_GROUP (1ull << 41)	/* the destination is a multicast group: members of either port */
#define SHCA_UD_PATH(flow, tclass, hops, bits) \
	((uint64_t)(bits) << 32 | (uint64_t)(hops) << 32 | (uint32_t)(tclass) << 20 | ((flow) & 0xfffffu))
#define SHCA_UD_PATH_BITS(path) ((uint32_t)((path) >> 32) & SHCA_CQE_UD_BITS)

/* A posted send request in SHARED mode: 64 bytes, then segments or inline bytes. */
struct shca_wqe {
	uint8_t op, flags;
	uint8_t nsge;
	/* enum ibv_wc_status found at post: the request completes with it; SHCA_BAD_KEYS */
	uint8_t bad;
	uint32_t imm;			/* masked atomics: bytes; LOCAL_INV: R_Key; BIND_MW: L_Key of the region, 0:
					 * none; UMR: entries */
	uint64_t raddr;			/* WAIT: CQ offset; ENABLE: QP offset; BIND_MW: address in the region; UMR: of
					 * the first byte */
	uint32_t rkey;			/* BIND_MW: the new one; UMR: SHCA_UMR_* */
	/* UD, DC: destination (DC: SHCA_DC_TO_2, too); XRC: remote SRQ number; BIND_MW, UMR: index of the window's, of the
	 * key's entry */
	uint32_t dqpn;
	uint32_t qkey;			/* BIND_MW, UMR: rights, IBV_ACCESS_* */
	uint32_t len;			/* total bytes */
	/* atomics: operands; DC: arg[3] is the key; WAIT, ENABLE: arg[0] absolute count; UD: arg[1] SHCA_UD_PATH, SHCA_MULTICAST:
	 * arg[2], arg[3] the group's GID; BIND_MW: arg[0] length, arg[1] `gen` of the window's entry; UMR: arg[0] unit, arg[1]
	 * `gen`, arg[2] repetitions */
	uint64_t arg[4];
	struct shca_seg sge[];		/* or inline bytes */
};
_Static_assert(sizeof(struct shca_wqe) == 64, "request header is one line");
#define SHCA_WQE_INLINE_MAX 192u		/* most inline bytes in a WQE */
/* UMR: the parts of an indirect memory key that the request sets. The data of the request are the entries. */
/* `bad` of a request or a receive: some segments are of no region, but of indirect memory keys, perhaps.
 * No enum ibv_wc_status. */
#define SHCA_BAD_KEYS 31u
#define SHCA_UMR_ACCESS 1u
#define SHCA_UMR_LAYOUT 2u

/* Progress of the running request: read by the reaper when the executor died. */
enum shca_step {
	SHCA_STEP_NONE = 0,	/* nothing of the request at head has happened */
	SHCA_STEP_TAKE,		/* a receive is being taken: step_index at step_pos of step_rq */
	SHCA_STEP_RECV,		/* the receive was taken; data may be partly there */
	SHCA_STEP_INV,		/* SEND_WITH_INV: the receive has the data, and the R_Key was right: it may have ended */
	SHCA_STEP_DATA,		/* RDMA write: data may be partly there, the last line is not */
	SHCA_STEP_FINAL,	/* the last line of a write, or an atomic: may or may not have been executed */
	SHCA_STEP_WROTE,	/* WRITE_WITH_IMM: data is there, no receive taken yet */
	/* LOCAL_INV, BIND_MW, UMR: the R_Key of the window or key is ended if step_to is not 0. Threads in slots
	 * below step_index do not use it any more, step_pos: the next thread's `active` word when it may have used
	 * it (shca_quiesce_on) */
	SHCA_STEP_UNBIND,
	SHCA_STEP_BIND,		/* BIND_MW, UMR: the entry of the window or key is being written */
	SHCA_STEP_RCQE,		/* the responder's completion is being put in (step_cq, step_status) */
	SHCA_STEP_NAK,		/* the responder's queue (step_to) is being failed, the request fails with step_status */
	/* the responder's side is done; the requester's completion is being put in (step_cq, step_status) */
	SHCA_STEP_SENT,
	SHCA_STEP_FAILED,	/* the request fails with step_status: the queue goes into error, then it completes */
};

/* Lock word: state:2 | more:1 | thread slot:21 (bits 3..23) | epoch:40. */
enum shca_lock_state { SHCA_L_FREE = 0, SHCA_L_TODO, SHCA_L_RUN };

/* Gate bits: the requests that this queue answers as a responder. */
#define SHCA_GATE_RESPOND 1u		/* RTR, RTS, SQD: accepts requests */
#define SHCA_GATE_DEAD 2u		/* the queue's process died or the queue was destroyed: requests time out */
#define SHCA_GATE_ERR 4u		/* in ERROR */
#define SHCA_GATE_FIRST 8u		/* RTR, and no message has arrived so far: the first one raises IBV_EVENT_COMM_EST */

struct shca_qp {
	/* the gate: read by requesters, written by verbs calls of the owner */
	_Atomic uint32_t gate;
	uint32_t qpn;
	uint32_t pd, access, qkey;
	_Atomic uint32_t dest_qpn;	/* RC, XRC_RECV: the connected requester */
	uint16_t proc;
	uint8_t type;			/* enum ibv_qp_type; DC_INI and DC_TGT are SHCA_QPT_* */
	uint8_t raw;			/* RAW_PACKET: SHCA_RAW_*. Fixed when the queue is made */
	uint32_t xrcd;
	uint64_t dc_key;
	/* offset of the QP's own receive queue or SRQ; 0: none (XRC_RECV finds the SRQ by number) */
	shca_off rq;
	shca_off rcq;
	uint16_t pkey_index;
	uint8_t min_rnr_timer, flags;	/* SHCA_QP_* */
	/* process of the connected queue, once known: slot + 1 | low 16 bits of gen << 16; or SHCA_PEER_COMMON */
	_Atomic uint32_t peer_proc;
#define SHCA_PEER_COMMON (1u << 16)	/* no particular process: a sender to that queue is inside SHCA_ANYWHERE */
	/* requester side: fixed at RTS; read by executors */
	shca_aligned shca_off scq;
	shca_off wqes;			/* 0: no request was written so far */
	uint32_t sq_slots, sq_stride;
	uint64_t sq_magic;		/* 2^64 / sq_slots, and a little more: shca_wqe_at */
	uint32_t mtu;
	uint8_t rnr_retry, retry_cnt, timeout, sq_sig_all;
	_Atomic uint32_t qp_state;	/* enum ibv_qp_state */
	_Atomic uint32_t peer_dead;	/* the peer's process died: the next request gets RETRY_EXC */
	shca_off next;			/* qp_list */
	/* SHCA_BEHAVE=nosequence, else untouched: number behind the last request that ran before the preceding request.
	 * Written by the executor */
	uint64_t ahead;
	/* The engine's, written by the executor; one line, because it travels with the execution. */
	shca_aligned _Atomic uint64_t lock;
	_Atomic uint64_t head;		/* next request to run */
	_Atomic uint64_t enabled;	/* requests below may run; UINT64_MAX: not managed */
	/* the journal of the running request */
	_Atomic uint32_t step;		/* enum shca_step | low 24 bits of the request's number << 8 */
	uint32_t step_index;		/* index of the receive that is being taken, or was */
	uint64_t step_rq;		/* offset of that receive's queue */
	uint64_t step_pos;		/* position of that receive */
	uint32_t step_to;		/* number in the responder's completion: leads to that queue again */
	uint32_t step_cq;		/* completions (low 32 bits) in the CQ before the one that is being put in */
	_Atomic uint16_t fail;		/* 1 + enum ibv_wc_status of the failed request: later requests are flushed */
	uint8_t step_op;
	uint8_t step_status;		/* of the completion that is being put in (RCQE, SENT) */
	uint32_t stalls;		/* times that the running request stalled */
	/* written by the poster */
	shca_aligned _Atomic uint64_t posted;	/* requests ever posted in SHARED mode */
	_Atomic uint64_t polled;	/* number behind the last request whose completion the owner took out of the CQ */
	_Atomic uint32_t shared;	/* 1: SHARED mode */
	/* SHCA_FLUSHER may hold receives whose completion is missing: 1: a thread flushes; plus SHCA_FLUSH_GIVEN for each
	 * receive that was handed over. Queue with an SRQ: 1: IBV_EVENT_QP_LAST_WQE_REACHED was raised */
	_Atomic uint32_t flushing;
	/* stopped by RNR */
	_Atomic uint32_t rnr_linked;	/* odd: on a receive queue's list; counts, so that one link differs from the next */
	uint32_t rnr_number;		/* of that receive queue */
	_Atomic uint64_t rnr_next;
	_Atomic uint64_t rnr_since;	/* ns; 0: not stopped */
	_Atomic uint64_t rnr_rq;
	_Atomic uint64_t due;		/* CLOCK_MONOTONIC ns: when the owner's helper looks at the queue again; 0: never */
	/* events and counters */
	shca_aligned _Atomic uint32_t events;	/* bit per IBV_EVENT_* or SHCA_EVENT_*, unread; SHCA_DC_ARMED */
	_Atomic uint32_t dc_violations;	/* DC target: requests with a wrong key */
	_Atomic uint64_t n_msgs, n_bytes;	/* requests executed, as requester */
	_Atomic uint64_t n_foreign;		/* of n_msgs: run by another process */
	_Atomic uint64_t n_calcs, n_atomics;	/* of n_msgs: with CALC; atomics of every sort */
	_Atomic uint64_t n_waits, n_enables;	/* executed, and none of n_msgs */
	/* Counted by senders to this queue: not in the line that the owner writes with each request. */
	shca_aligned _Atomic uint64_t n_recv_msgs;
	/* The tap holds the request at head back until this time, CLOCK_MONOTONIC ns, whose low 3 bits are the enum shca_fate; 0:
	 * no. Written by the executor (engine/trace.c). */
	_Atomic uint64_t held;
	/* SHCA_PATH_*: the ports of the queue's paths, and its migration state. Written by modify, and by every executor that
	 * finds that the path has to change (engine/path.c), by compare-and-swap of the whole word. */
	_Atomic uint32_t path;
};
#define SHCA_FLUSH_GIVEN 2u
/*
 * The word `path`: state:2 (enum ibv_mig_state) | port:2 | destination port:2 | alternate port:2 | alternate destination port:2 |
 * alternate timeout:5 | SHCA_PATH_MOVED | SHCA_PATH_OWED | SHCA_PATH_REFUSED. A destination port 0 is no port of the fabric; an
 * alternate port 0: no alternate path is loaded.
 */
#define SHCA_PATH_STATE(w) ((w) & 3u)
#define SHCA_PATH_PORT(w) ((w) >> 2 & 3u)
#define SHCA_PATH_TO(w) ((w) >> 4 & 3u)
#define SHCA_PATH_ALT_PORT(w) ((w) >> 6 & 3u)
#define SHCA_PATH_ALT_TO(w) ((w) >> 8 & 3u)
#define SHCA_PATH_ALT_TIMEOUT(w) ((w) >> 10 & 31u)
#define SHCA_PATH_SET_STATE(w, v) (((w) & ~3u) | (v))
#define SHCA_PATH_SET_PORT(w, v) (((w) & ~(3u << 2)) | (uint32_t)(v) << 2)
#define SHCA_PATH_SET_TO(w, v) (((w) & ~(3u << 4)) | (uint32_t)(v) << 4)
#define SHCA_PATH_SET_ALT(w, port, to, timeout) \
	(((w) & ~(0x1ffu << 6)) | (uint32_t)(port) << 6 | (uint32_t)(to) << 8 | (uint32_t)(timeout) << 10)
#define SHCA_PATH_MOVED (1u << 15)	/* migrated, and the owner's attributes are still those of before: the alternate
					 * timeout is in force */
#define SHCA_PATH_OWED (1u << 16)	/* migrated, and IBV_EVENT_PATH_MIG is still to be raised */
#define SHCA_PATH_REFUSED (1u << 17)	/* IBV_EVENT_PATH_MIG_ERR was raised for this alternate path */
#define SHCA_PATH_RESET SHCA_PATH_SET_PORT(0u, 1)	/* of a queue in RESET */
/* DC target: the next request with a wrong key raises SHCA_EVENT_DC_KEY. The bit stands beside the events and is none itself:
 * one store disarms and raises, so that a thread that dies there has done both or nothing. */
#define SHCA_DC_ARMED (1u << 30)
#define SHCA_EVENT_DC_KEY 31		/* IBV_EXP_EVENT_DCT_KEY_VIOLATION, for whose number the word has no bit */
#define SHCA_QP_CROSS 1u		/* CROSS_CHANNEL */
#define SHCA_QP_MANAGED_SEND 2u
#define SHCA_QP_MANAGED_RECV 4u
#define SHCA_QP_BE_REPLY 8u		/* ATOMIC_BE_REPLY */
/* Abilities that the owner's device lacks (SHCA_BEHAVE): every executor obeys these, not the abilities of the executor's own
 * device. */
#define SHCA_QP_NOORDER 16u
#define SHCA_QP_NOSEQUENCE 32u
#define SHCA_QP_NO_READS 64u		/* max_dest_rd_atomic 0: the queue answers neither READs nor atomics */
#define SHCA_RAW_STRIP_VLAN 1u		/* received frames lose their VLAN tag, which the completion has (CVLAN_STRIPPING) */
#define SHCA_RAW_LOOP_UC 2u		/* the queue's own unicast frames match the queue's own flows */
#define SHCA_RAW_LOOP_MC 4u		/* the same of multicast frames */

/* ---- common queue pairs (engine/common.c) ------------------------------------------------------------------- */

/*
 * XRC's receiving queue pair belongs to its domain: to all processes that hold a handle to it. It lies in a chunk of SHCA_COMMON,
 * which outlives the death of any process: the number entries are in the chunk's first place, a queue pair in each of the other
 * places. `qp.proc` is SHCA_COMMON if other processes can open the domain, else the only process that can hold a handle. No
 * request is posted to a common queue pair and no completion is its own, so no executor ever runs that queue pair; it only
 * responds, or does not.
 */
#define SHCA_COMMON_BYTES 2048u
#define SHCA_COMMON_PLACES (SHCA_CHUNK / SHCA_COMMON_BYTES - 1)
struct shca_common_qp {
	struct shca_qp qp;		/* qpn 0: the place is free */
	/* thread slot + 1 of the thread that makes, modifies or ends the QP | enum shca_common_job << 24: the job that a
	 * successor has to finish */
	_Atomic uint32_t lock;
	uint32_t uses;			/* uses of the place: each use gets another number, as long as there are numbers */
	uint32_t ended_by;		/* job END, by a reaper: slot + 1 of the dead one */
	uint32_t reserved;
	uint64_t attr[20];		/* struct ibv_qp_attr, as set, for queries */
	/* a handle: process slot + 1 | bit per unread IBV_EVENT_* << 32; 0: none */
#define SHCA_COMMON_HOLDERS 168u
	shca_aligned _Atomic uint64_t holder[SHCA_COMMON_HOLDERS];
};
_Static_assert(sizeof(struct shca_common_qp) <= SHCA_COMMON_BYTES, "a place");
_Static_assert(sizeof(shca_dirent) * SHCA_QP_SEG <= SHCA_COMMON_BYTES, "the first place has the numbers");
enum shca_common_job { SHCA_JOB_NONE = 0, SHCA_JOB_RESET, SHCA_JOB_ERROR, SHCA_JOB_MAKE, SHCA_JOB_END };

/*
 * An XRC domain of a file that a process has open: the domain exists as long as some process has the domain open. A process
 * that opens it exclusively is OPENING until it has checked that no other process has the domain. Of several that are OPENING
 * at a time the one whose struct lies lowest wins, and waits until those above have decided: a process that came earlier and
 * did not see this one is OPEN by then.
 */
enum shca_xrcd_state { SHCA_XRCD_OPENING = 1, SHCA_XRCD_OPEN, SHCA_XRCD_CLOSED };
struct shca_xrcd {
	uint32_t number;
	_Atomic uint32_t state;
	shca_off next;			/* xrcd_list */
};

/*
 * A queue's membership in a multicast group. The sender of a datagram goes through the lists of all processes: an attach is seen
 * by datagrams that are run behind it, a detach waits for those that have found the queue.
 */
struct shca_group {
	shca_aligned uint64_t gid[2];	/* as in memory of union ibv_gid */
	uint32_t qpn;
	uint32_t reserved;
	shca_off next;			/* group_list */
};
/* shca_req.dqpn of a datagram to a group, whose GID is in arg[2] and arg[3]: no queue has this number. */
#define SHCA_MULTICAST (1u << 24)
#define SHCA_MULTICAST_QPN 0xffffffu	/* IBTA: the destination of every multicast packet */
#define SHCA_MULTICAST_LID 0xc000u	/* the first one */

/* ---- flows (engine/flow.c) ----------------------------------------------------------------------------------- */

#define SHCA_FRAME_HEADER 14u		/* destination and source MAC, EtherType */
#define SHCA_FRAME_MAX 9618u		/* a jumbo frame of 9600 bytes, its header and a VLAN tag; without FCS */

/*
 * The fields of a frame that flows compare. Fields that are wider than a byte are in network order, and 0 where the frame has no
 * such field.
 */
struct shca_flow_key {
	union {
		struct {
			uint8_t dst_mac[6], src_mac[6];
			uint16_t ether_type;	/* behind the VLAN tag */
			uint16_t vlan_tag;	/* priority:3 | CFI:1 | VLAN id:12 */
			uint8_t src_ip[16], dst_ip[16];	/* IPv4: the first 4 bytes */
			uint32_t flow_label;
			uint8_t protocol;	/* IPv6: of the header behind the extension headers */
			uint8_t tos;		/* IPv6: traffic class */
			uint8_t ttl;		/* IPv6: hop limit */
			uint8_t ip_flags;	/* IPv4: the 3 bits above the fragment offset */
			uint16_t src_port, dst_port;
			uint32_t layers;	/* SHCA_LAYER_*, which the frame has */
		};
		uint64_t word[8];
	};
};
_Static_assert(sizeof(struct shca_flow_key) == 64, "no padding: a flow compares words");
#define SHCA_LAYER_VLAN 1u
#define SHCA_LAYER_IPV4 2u
#define SHCA_LAYER_IPV6 4u
#define SHCA_LAYER_TCP 8u		/* and the frame has the ports: it is no later fragment */
#define SHCA_LAYER_UDP 16u

/*
 * A flow of ibv_create_flow: frames that match go to a raw packet queue of the process that has made the flow. The flows are one
 * table, of lists by process: a sender walks all lists for each frame. Written by the maker before the flow is listed; a listed
 * flow does not change (docs/shca-engine.md, Flows).
 */
struct shca_flow {
	shca_aligned struct shca_flow_key value;	/* only bits of `mask` are set */
	struct shca_flow_key mask;
	uint32_t qpn;
	uint16_t priority;		/* 0 comes first */
	uint8_t type;			/* enum ibv_flow_attr_type */
	uint8_t port;
	uint32_t flags;			/* IBV_FLOW_ATTR_FLAGS_DONT_TRAP */
	uint32_t reserved;
	shca_off next;			/* flow_list */
};

/* ---- divided copies (engine/share.c) ----------------------------------------------------------------------- */

/* A thread's job: a copy between private memories, in chunks that two processes claim. */
#define SHCA_SHARE_CHUNKS 64u
struct shca_share {
	_Atomic uint64_t gen;		/* odd while the job is being written */
	/* Helpers may read these while the executor writes them: the values hold if gen is even, and the same after the
	 * reads. */
	_Atomic uint64_t dst, src;	/* addresses in dst_proc and src_proc */
	_Atomic uint64_t len, chunk;
	_Atomic uint32_t n, dst_proc, src_proc;
	uint32_t reserved;
	_Atomic uint64_t next;		/* of the list of jobs whose threads have ended */
	shca_aligned _Atomic uint64_t word[SHCA_SHARE_CHUNKS];	/* gen << 32 | thread slot << 8 | state */
};

/* ---- the tap (fabric/tap.c, engine/trace.c) ---------------------------------------------------------------- */

/*
 * shcactl's tap on the wire: a trace of requests, and faults of chosen queues. While either is on, SHCA_TAPPED is set in every
 * process slot, in the validity word, which each look-up of a responder compares anyway: remembered look-ups end, so that fast
 * writes and short datagrams take the general path, and there the executor turns to the tap. While both are off no path has an
 * instruction for the tap.
 */
enum shca_fate {
	SHCA_FATE_NONE = 0,		/* the request is carried out */
	SHCA_FATE_DROP,			/* lost: RC, XRC, DC: sent again after the time-out; UC, UD: for good */
	SHCA_FATE_DELAY,		/* RC, XRC, DC: carried out later */
	SHCA_FATE_RNR,			/* RC, XRC, DC: answered by an RNR NAK */
	SHCA_FATE_DUP,			/* UD: delivered twice; else sent twice, of which the responder ignores one */
	SHCA_FATES
};
/* Faults of a queue, as requester. Probabilities in units of 2^-32. */
#define SHCA_FAULTS 32u
#define SHCA_FAULT_ALL (1u << 24)	/* as qpn: every queue without an entry of its own */
struct shca_fault {
	_Atomic uint32_t qpn;		/* 0: the entry is free */
	_Atomic uint32_t odds[SHCA_FATES];	/* by enum shca_fate */
	_Atomic uint32_t delay_us;
	_Atomic uint64_t seed, drawn;	/* the decision number `drawn` depends on seed and number only */
	_Atomic uint64_t hits[SHCA_FATES];
};
#define SHCA_TRACE_DATA 144u
/* A request that an executor has carried out, or has tried to. */
struct shca_trace_record {
	_Atomic uint64_t seq;		/* position + 1 once the rest is written */
	uint64_t begin, end;		/* CLOCK_REALTIME ns, before and after */
	uint64_t raddr;
	uint64_t arg[4];		/* as struct shca_wqe */
	uint32_t qpn, dqpn;		/* sender; destination queue, SHCA_MULTICAST */
	uint32_t srqn;			/* XRC */
	uint32_t len, imm, rkey, qkey, mtu;
	uint16_t proc;			/* of the sender */
	uint16_t executor;		/* process that ran the request */
	uint8_t type, op, flags;	/* as struct shca_qp, struct shca_wqe */
	uint8_t fate;
	int8_t outcome;			/* enum ibv_wc_status, or the engine's negative outcome */
	uint8_t kept;			/* bytes of `data` */
	/* the first bytes: of a SEND or WRITE its data, of a READ or atomic the answer */
	uint8_t data[SHCA_TRACE_DATA];
	uint16_t to;			/* process of the destination queue; SHCA_MAX_PROCS: not known */
	uint8_t rnr_timer;		/* of the destination queue */
	uint8_t port;			/* the sender's, 1 or 2 */
	uint8_t to_port;		/* the port that has the packet's address, 1 or 2 */
	uint8_t reserved;
};
_Static_assert(sizeof(struct shca_trace_record) == 256, "four lines");
#define SHCA_TRACE_RECORDS 4096u
#define SHCA_TRACE_QUEUES 16u
#define SHCA_TAP_TRACE 1u
#define SHCA_TAP_FAULTS 2u
struct shca_tap {
	_Atomic uint32_t on;		/* SHCA_TAP_* */
	_Atomic uint32_t keep;		/* bytes of data in a record */
	/* The tracer's lease, CLOCK_MONOTONIC ns, which the tracer renews: an executor that finds it over ends the trace. */
	_Atomic uint64_t until;
	_Atomic uint32_t queues[SHCA_TRACE_QUEUES];	/* requests from and to these are traced; the first is 0: all */
	struct shca_fault faults[SHCA_FAULTS];
	/* The ring of records, many writers, one reader. A writer reserves a position by a compare-and-swap of `next`, unless the
	 * ring is full: then the request is counted as lost, and no record that the tracer has not taken is overwritten. A
	 * position whose writer has died is never completed: the tracer passes over it. */
	shca_aligned _Atomic uint64_t next, lost;
	shca_aligned _Atomic uint64_t taken;	/* positions below are free; the tracer's */
	shca_aligned struct shca_trace_record record[SHCA_TRACE_RECORDS];
};

/* Compared by processes before they share a fabric. The sizes are included, so that a change of the layout without a new
 * version is noticed in most cases. */
#define SHCA_LAYOUT                                                                                                   \
	((SHCA_LAYOUT_VERSION << 24) |                                                                                \
	 ((sizeof(struct shca_header) + 3 * sizeof(struct shca_proc_slot) + 5 * sizeof(struct shca_thread_slot) +     \
	   7 * sizeof(struct shca_qp) + 11 * sizeof(struct shca_cq) + 13 * sizeof(struct shca_rq) +                   \
	   17 * sizeof(struct shca_rwqe) + 19 * sizeof(struct shca_common_qp) + 23 * sizeof(struct shca_tap)) &       \
	  0xffffff))

#define SHCA_QPT_DCI 100
#define SHCA_QPT_DCT 101
/* I7: `type` may have been overwritten; the index is below 16. */
#define SHCA_TOTAL_OF(type) ((type) >= SHCA_QPT_DCI ? 12 + ((type) & 1) : ((type) & 15))
_Static_assert(SHCA_TOTAL_OF(SHCA_QPT_DCI) == 12 && SHCA_TOTAL_OF(SHCA_QPT_DCT) == 13, "retired");

#endif
