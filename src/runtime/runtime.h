/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/runtime: the job as PMIx describes it, key/value exchange, configuration variables,
 * diagnostics. Depends on nothing else in Heddle, but for the list of libshca's variables.
 *
 * Internal functions return 0 or a negative errno value; the function that finds an error reports it once, through
 * hdl_error(), with the exact cause, the values and the remedy.
 */
#ifndef HDL_RUNTIME_H
#define HDL_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

/* ---- the job ------------------------------------------------------------------------------------------ */

struct hdl_job {
	int rank, size;			/* in MPI_COMM_WORLD */
	int local_rank, local_size;	/* among the ranks of this host */
	int *local;			/* the ranks of this host, ascending; local_size entries; NULL if the job has
					 * one host */
	int my_host;			/* a number that no other host of the job has: the host's lowest rank */
	int ppn;			/* ranks of a host; the average, the same on all ranks, if the server sends the
					 * number of hosts */
	int ncores;			/* CPUs in the affinity mask of this host's ranks together, as the first of them
					 * counts: the same for all */
	int universe;			/* processes that the launcher has room for (MPI_UNIVERSE_SIZE); 0: not given */
	int appnum;			/* number of the program in the launcher's command (MPI_APPNUM); -1: no launcher */
	int app_size;			/* ranks of that program; of the whole job, if the server does not send it */
	bool singleton;			/* started without a launcher */
	bool oversubscribed;		/* local_size > ncores */
	char nspace[256];		/* PMIx namespace: names the job */
	char hostname[256];
	char launcher[32];		/* "heddlerun", "mpirun (Open MPI)", "srun", ... or "none" */
};

extern struct hdl_job hdl_job;		/* valid between hdl_rt_init and hdl_rt_fini */

/* Returns true if a rank is on this host. Logarithmic in the ranks of this host: no process keeps a table of all ranks'
 * hosts. */
static inline bool hdl_is_local(int rank)
{
	int low = 0, high = hdl_job.local_size;

	if (!hdl_job.local)
		return true;
	while (low < high) {
		int mid = low + (high - low) / 2;

		if (hdl_job.local[mid] == rank)
			return true;
		if (hdl_job.local[mid] < rank)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

/* Returns the number of a rank's host, as the launcher counts hosts, without a message: the server sent the number at start.
 * Returns -ENODATA if the server did not; or -ENOMEM. Must be called by one thread at a time. */
int hdl_rt_node(int rank);

/* hdl_job.app_size, at any time: before hdl_rt_init from the environment. Below 1: not known. */
int hdl_rt_program_size(void);

/* Joins the job: PMIx_Init, or a singleton. Fails if a launcher's environment promises more than one rank and
 * PMIx cannot be reached, naming both sides. compare: also waits for rank 0 or the first rank of this host, and fails if
 * the ranks' library versions or settings differ; without it no other rank is needed. May be called again after
 * hdl_rt_fini. */
int hdl_rt_init(bool compare);
/* The comparison that hdl_rt_init(false) has left out, once. may_wait: whether the rank to compare with is known to come;
 * if not, nothing is compared yet. NULL: MPI_Init has been called, so every rank comes. 0, or a negative errno, reported. */
int hdl_rt_compare(bool (*may_wait)(const void *arg, int rank), const void *arg);
/* Leaves the job as if hdl_rt_init had not been called: for a later step of initialization that failed. */
void hdl_rt_quit(void);
/* Leaves the job. fence: all ranks leave together; waits for them without bound. */
int hdl_rt_fini(bool fence);
/* Ends the whole job with exit code `code` (the low 8 bits, 1 if these are 0). text, if any, is reported first. Does
 * not return. */
_Noreturn void hdl_rt_abort(int code, const char *text);

/* The names of the process sets that the PMIx server has given this process; *names and each of them is malloc'd. Returns how
 * many; most servers give none. */
int hdl_rt_psets(char ***names);
/* Gets the ranks of such a set from the server, ascending; malloc'd. Returns the number of ranks; -ENOENT: the server has no such
 * set, or the set has processes of other jobs; -ENOMEM. */
int hdl_rt_pset_members(const char *name, int **ranks);

/* Opens the host file: a file or a directory that the ranks of the job on this host share with no other process. The
 * caller closes the descriptor. -1: there is none, or this process cannot reach it. */
int hdl_rt_job_file(void);
/* Publishes a value of this rank under key; visible to other ranks after hdl_rt_commit. */
#define HDL_ADDRESS "hdl.addr"	/* the key of a rank's addresses; heddlerun reads it, too */
#define HDL_WORLD "hdl.world"	/* the key of a rank that has called MPI_Init, and waits for all others; for heddlerun */
/* The key under which this job's ranks publish their addresses: HDL_ADDRESS, and after each hdl_rt_fini another one, since a
 * server keeps the values of ranks that have left. The ranks leave the job together (hdl_tp_fini), so they agree. */
const char *hdl_rt_address_key(void);
int hdl_rt_put(const char *key, const void *data, size_t len);
int hdl_rt_commit(void);
/* Another rank's value. Waits until that rank has committed it (bounded by HEDDLE_INIT_TIMEOUT; the missing rank is
 * named). *data is malloc'd and the caller's. */
int hdl_rt_get(int rank, const char *key, void **data, size_t *len);
/* hdl_rt_get for a rank of another job (nspace NULL: of this job), which the job's server must know. */
int hdl_rt_get_of(const char *nspace, int rank, const char *key, void **data, size_t *len);
/* Waits until all ranks are here. No data is collected. Bounded by HEDDLE_INIT_TIMEOUT; the missing ranks are named. */
int hdl_rt_fence(void);
/* The same for the end of a program, which ranks reach at any time: without bound, and in two halves, for a caller that
 * goes on serving peers meanwhile. wait: at most timeout_us; 1: all ranks are here, 0: not yet, else a negative errno.
 * After begin, wait must be called until the result is not 0. */
int hdl_rt_fence_begin(void);
int hdl_rt_fence_wait(uint64_t timeout_us);

/* ---- spawning (spawn.c) ------------------------------------------------------------------------------------------ */

/* The largest number from 1 to `most` in a list of Fortran triplets (1,4:16:4); 0: none; -1: no such list. */
int hdl_soft_largest(const char *soft, int most);

/* One program of a spawn. Strings are the caller's, until hdl_rt_spawn has returned. */
struct hdl_spawn_app {
	const char *command;
	char *const *argv;		/* without the command; NULL: none */
	int maxprocs;
	const char *wdir;		/* absolute */
	const char *soft, *path, *host;	/* or NULL */
	char *const *env;		/* NAME=VALUE, beside the launcher's; NULL: none */
};
struct hdl_spawn_how {
	const char *bind_to, *map_by;	/* or NULL */
	unsigned cpus_per_rank;		/* 0: not given */
};

/* A spawn that is under way. */
struct hdl_spawn;
/* Asks the launcher to start the programs as one job. wake is called, by another thread, at each change of the spawn's state.
 * Returns 0; a negative errno with the reason in `why`: -ENOSYS: the launcher offers no such thing; -EIO; -ENOMEM. */
int hdl_rt_spawn(const struct hdl_spawn_app *apps, int napps, const struct hdl_spawn_how *how, void (*wake)(void),
		 struct hdl_spawn **out, char *why, size_t size);
/* Returns true if the launcher has answered. */
bool hdl_rt_spawn_answered(const struct hdl_spawn *s);
/* Returns true if the launcher has refused, or the ranks have ended before they had an intercommunicator. The text is complete
 * when hdl_rt_spawn_failed returns true, and stays until hdl_rt_spawn_end. */
bool hdl_rt_spawn_failed(const struct hdl_spawn *s);
const char *hdl_rt_spawn_why(const struct hdl_spawn *s);
/* Returns the number of ranks that run program number `app`. Must: answered, not failed. */
int hdl_rt_spawn_ranks(const struct hdl_spawn *s, int app);
/* Tells heddlerun that the caller waits for the ranks no longer: those that have no intercommunicator with their parents are
 * ended. */
void hdl_rt_spawn_give_up(const struct hdl_spawn *s);
extern void (*hdl_rt_on_give_up)(uint64_t id);	/* reports to the launcher, by the spawn's number; NULL: no report */
/* Forgets the spawn. Its ranks go on. */
void hdl_rt_spawn_end(struct hdl_spawn *s);
/* For hdl_rt_listen: an event of the launcher says why a spawn has failed, or (failed is false) how many ranks of each program
 * were started. On PMIx's thread. */
void hdl_rt_spawn_event(uint64_t id, bool failed, const char *text);

/* For a process that was started without a launcher, and needs one: starts heddlerun behind itself, and joins it as the only rank
 * of its job. Returns 0, also if there is a launcher; a negative errno with the reason in `why`. */
int hdl_rt_attach(char *why, size_t size);
/* Disconnects from that heddlerun, which ends after the ranks that it has started. For job.c. */
void hdl_rt_detach(void);

/* ---- published names (publish.c) ----------------------------------------------------------------------------------- */

/* Asks the launcher. Return 0 or a negative errno with the reason in `why`: -EEXIST: published already; -ENOENT: not published;
 * -EPERM: by a process of another job; -ENOSYS: the launcher has no store. */
int hdl_rt_publish(const char *name, const char *value, char *why, size_t size);
int hdl_rt_unpublish(const char *name, char *why, size_t size);
int hdl_rt_lookup(const char *name, char *value, size_t room, char *why, size_t size);

/* ---- asked from outside (runtime/ask.h) ------------------------------------------------------------------ */

/* Sets the function that answers heddlerun's question for the hang report. fn runs on PMIx's thread, at any time, and
 * must not wait; NULL: from here on the answer is only that the rank is in MPI_Init. When this returns, the function
 * set before has returned and is not run again. now: this is the last question (HDL_ASK_NOW); fn must answer at once,
 * from the state that another thread can see. */
typedef void (*hdl_ask_fn)(bool now);
void hdl_rt_on_ask(hdl_ask_fn fn);
/* Sends the answer, in the form that runtime/ask.h describes; text is copied. Any thread, not from a signal handler. */
void hdl_rt_answer(const char *text);
/* For hdl_rt_init: from here on events of the launcher arrive: ranks that have ended and, from heddlerun, the hang report's
 * questions and the results of spawns. Must: hdl_rt_by_heddlerun has its value. HDL_LISTEN_BLOCKING: returns when PMIx has
 * registered the handler. */
enum hdl_listen_form { HDL_LISTEN_NONBLOCKING, HDL_LISTEN_BLOCKING };
void hdl_rt_listen(enum hdl_listen_form form);

/* ---- processes that have ended ------------------------------------------------------------------------- */

/* Returns true if a process (its number: runtime/jobs.h), on any host, is known to have ended: by an event of the launcher
 * (optional: most launchers end the job then), or by hdl_rt_note_ended. For good. Any thread. */
bool hdl_rt_has_ended(int proc);
/* The number of processes known to have ended. */
unsigned hdl_rt_ended(void);
/* Notes the end of a process. Must be called only if a process of the same host has seen the end: never for a
 * suspicion. Any thread. */
void hdl_rt_note_ended(int proc);

/* ---- processes ----------------------------------------------------------------------------------------- */

/* Names a process of this host, also when another process has the pid by now. */
struct hdl_proc {
	uint64_t start;			/* in clock ticks since boot; 0: not known */
	uint64_t space;			/* of the pid: the inode of the PID namespace */
	uint32_t pid, reserved;
};
void hdl_proc_self(struct hdl_proc *proc);
/* A number that processes share if, and only if, they run under one kernel; 0: not known. */
uint64_t hdl_host_id(void);
/* State of a process, by a few system calls. UNKNOWN: the process is not of this PID namespace, or there is no
 * /proc. */
enum hdl_proc_state { HDL_PROC_UNKNOWN, HDL_PROC_LIVES, HDL_PROC_ENDED };
enum hdl_proc_state hdl_proc_state(const struct hdl_proc *proc);
/* Reads proc_pid_stat(5) of a process into text. *fields: the text behind the name in parentheses, which may itself
 * hold parentheses: the state and all that follows. Returns 0; -ESRCH: there is no such process; -EIO: not known. */
int hdl_proc_stat(uint32_t pid, char *text, size_t size, char **fields);

/* ---- configuration variables --------------------------------------------------------------------------- */

/* runtime/vars.def lists every variable once: HDL_VAR(member, "NAME", TYPE, default, "unit", "text").
 * TYPE is one of BOOL, INT, SIZE (accepts k, m, g), TIME_US (accepts us, ms, s), STRING, LIST. The struct, the parser,
 * `heddle_info --vars` and the documentation are made from that list. */
struct hdl_vars {
#define HDL_CTYPE_BOOL bool
#define HDL_CTYPE_INT int
#define HDL_CTYPE_SIZE size_t
#define HDL_CTYPE_TIME_US uint64_t
#define HDL_CTYPE_STRING const char *
#define HDL_CTYPE_LIST const char *
#define HDL_VAR(member, name, type, dflt, unit, text) HDL_CTYPE_##type member;
#include "runtime/vars.def"
#undef HDL_VAR
};
extern struct hdl_vars hdl_vars;

/* Reads HEDDLE_* from the environment. Bad values are errors; unknown HEDDLE_* and SHCA_* names are warned about with the
 * nearest known name (once per job, by rank 0). Idempotent. */
int hdl_vars_load(void);
/* The variables that must be the same on all ranks, a line NAME=VALUE each; malloc'd, NULL without memory. */
char *hdl_vars_alike(void);
/* Reports the variables that differ from those of rank `with`, of the same library version; returns how many. */
int hdl_vars_compare(const char *mine, const char *theirs, int with);
/* For launchers: checks the values of HEDDLE_* in an environment. Reports like hdl_vars_load, stores nothing, leaves
 * unknown names to the ranks. */
int hdl_vars_check(char *const *env);
/* For programs that are not linked with the library: only the warnings about unknown names. */
void hdl_vars_warn(char *const *env);
/* Returns true if the environment sets the variable. */
bool hdl_vars_given(const char *name);
/* Reports, once per job, by rank 0, an INT or SIZE whose value from the environment cannot be used, and `used` in its
 * place. */
void hdl_vars_adjusted(const char *name, uint64_t used, const char *why);
/* A variable by its number: libheddle's, then libshca's, in the order of the two lists. */
enum hdl_var_type { HDL_VAR_BOOL, HDL_VAR_INT, HDL_VAR_SIZE, HDL_VAR_TIME_US, HDL_VAR_STRING, HDL_VAR_LIST };
struct hdl_var {
	const char *name, *unit, *text;
	enum hdl_var_type type;		/* of libshca's variables always STRING */
	bool alike;			/* the same on all ranks of a job */
	bool of_shca;			/* read by libshca alone */
	union {
		bool on;		/* BOOL */
		int number;		/* INT */
		size_t bytes;		/* SIZE */
		uint64_t us;		/* TIME_US */
		const char *text;	/* STRING, LIST */
	} value;
};
/* Returns false if there are not so many. Must: hdl_vars_load has been called. */
bool hdl_var_at(unsigned i, struct hdl_var *out);
/* Sets a variable of libheddle from text, in the form of the environment; texts are copied. Returns 0; -EINVAL or -ENOMEM,
 * reported. Must: no code relies on the value before (as before MPI_Init). */
int hdl_var_set(unsigned i, const char *text);
/* For heddle_info: name, type, default, current value, unit, text of every variable, libshca's SHCA_* included. */
void hdl_vars_print(FILE *out);
/* Reads a number of bytes, with k, m or g behind it. */
bool hdl_parse_size(const char *text, size_t *out);

/* ---- diagnostics --------------------------------------------------------------------------------------- */

/* One line each on standard error: "heddle: rank 3 (host): <text>". hdl_warn aggregates repeats: of one format
 * string the first three are printed, then the 10th, the 100th, ... */
void hdl_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void hdl_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* For reports that the user asked for: each line is printed. */
void hdl_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Only after hdl_diag_debug(true), which vars.c calls whenever HEDDLE_DEBUG has a new value. */
void hdl_diag_debug(bool on);
void hdl_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Programs that are no ranks (heddlerun, heddle_info) report in their own name: "<name>: <text>". The name is kept. */
void hdl_diag_program(const char *name);
/* At the end of the process, standard output that could not be written is an error, and exit code 0 becomes 1. For ranks,
 * and for Heddle's programs (behind hdl_diag_program). */
void hdl_output_watch(void);
/* Returns true if this process may map `bytes` more: asks the limit on its address space, by mmap. No page is touched. */
bool hdl_can_map(size_t bytes);
/* Least memory that libpmix needs before the stacks of its threads: with less libpmix dereferences a NULL of malloc in
 * PMIx_Init and PMIx_server_init, which is SIGSEGV. At that point libpmix has taken some 1 MiB. */
#define HDL_PMIX_MEMORY ((size_t)4 << 20)
/* For messages about a lack of memory: this process's limits (ulimit -d, -v), if there are any. Returns text, "" or
 * with "; " in front. */
const char *hdl_memory_limits(char *text, size_t size);
/* Makes as many threads as libpmix has, which end at once: 0, or the errno with which one is refused to this process (EAGAIN:
 * ulimit -u, or memory). A library that fails for want of a thread does not say so. */
int hdl_thread_refused(void);
/* Sets the rank and host in all later reports, once the job is known. */
void hdl_diag_rank(int rank, const char *host);
/* The known name nearest to `word`, or NULL when nothing is near. names ends with NULL. */
const char *hdl_nearest(const char *word, const char *const *names);

/* ---- HEDDLE_REPORT_MEMORY (ledger.c) ------------------------------------------------------------------------- */

/* Notes the memory of the process at the beginning of MPI_Init, after joining the job, and when the devices are
 * open. */
enum hdl_ledger_phase { HDL_LEDGER_START, HDL_LEDGER_JOINED, HDL_LEDGER_OPENED, HDL_LEDGER_PHASES };
void hdl_ledger_phase(enum hdl_ledger_phase phase);
/* Notes memory of the fabric, or mapped, at its allocation, by the first byte: a range that was noted there before is
 * replaced. what: the subsystem, a constant text. Nothing without HEDDLE_REPORT_MEMORY. */
void hdl_ledger_add(const char *what, const void *p, size_t bytes);
void hdl_ledger_drop(const void *p);
/* Adds to the bytes that a subsystem has by the settings and the number of peers, if nothing grows with the traffic. */
void hdl_ledger_predict(const char *what, uint64_t bytes);

/* Enters memory of the heap that a subsystem has; or the growth of the whole heap since hdl_ledger_heap_now. */
void hdl_ledger_heap(const char *what, uint64_t predicted, uint64_t bytes);
size_t hdl_ledger_heap_now(void);
void hdl_ledger_heap_since(const char *what, size_t before);

/* For the report only: counts the pages of [p, p + bytes) in the fabric that this process maps. A page counts for the
 * range noted there, else for the subsystem `otherwise`. ours: all pages of `otherwise` in the range count as
 * allocated, too. */
#define HDL_LEDGER_TABLES "fabric: tables of all processes"
void hdl_ledger_pages(const char *otherwise, bool ours, const void *p, size_t bytes);
/* Prints and clears the ledger. Must: called before the fence of MPI_Finalize, behind which ranks unmap the fabric, by
 * which pages that they share would count more here. Must not wait for another rank: a peer may need this rank's progress to
 * reach its MPI_Finalize. */
void hdl_ledger_print(FILE *out);

/* With HEDDLE_BACKTRACE: the handler of a fatal signal prints a backtrace before the signal ends the rank. For hdl_rt_init. */
void hdl_backtrace_init(void);

#endif
