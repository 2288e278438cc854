/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heddlerun: starts the ranks of a job on this host and is their PMIx server.
 *
 *     main ── options ── bind ── server (PMIx, own thread) ── spawn ── dynamic ── supervise (the event loop) ── hang
 *                                    │                                               ▲
 *                                    └── notes about ranks, through a pipe ──────────┘
 *     guard: a process that outlives a killed heddlerun until the ranks are ended
 *
 * The door of src/launcher; not included from outside.
 */
#ifndef HDL_LAUNCHER_H
#define HDL_LAUNCHER_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "launcher/place.h"

/* Exit codes of heddlerun itself; all other codes are the ranks'. */
enum { EXIT_USAGE = 2, EXIT_TIMEOUT = 124, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_BY_SIGNAL = 128 };

/* "heddlerun: <text>" on standard error. */
#define complain(...) hdl_error(__VA_ARGS__)

/* ---- command line -------------------------------------------------------------------------------------------------------- */

/* One program of the job; an MPMD job has several. */
struct app {
	char **argv;		/* part of the command line, NULL-terminated by us */
	int nranks;		/* 0 while the command line is read: not given */
	int per_host;		/* -ppn; 0: not given */
	const char *wdir;	/* NULL: this one */
	char **set_env;		/* VAR=value, NULL-terminated */
	char **env;		/* environment of the ranks, but for PMIx's part */
	char *path;		/* the file to execute, as seen from wdir */
	const char *dirs;	/* of MPI_Comm_spawn: directories with : between them that are searched ahead of PATH; or NULL */
	const char *soft;	/* of MPI_Comm_spawn: the numbers of ranks that are allowed, or NULL */
	bool spawned;		/* by MPI_Comm_spawn; all memory is malloc'd then */
	bool text;		/* the file looks like text: without "#!" the shell runs the file */
};

struct options {
	struct app *apps;
	int napps;
	int nranks;
	int universe;		/* --universe: the most ranks at a time, spawned ones included; 0: not given */
	const char *behind;	/* --behind: the program that has started this heddlerun (behind.c); or NULL */
	bool tag_output, verbose;
	bool bind_given;	/* --bind-to */
	enum domain bind, map;
	int cpus_per_rank;	/* 0: not given */
	bool report_bindings;
	const char *output;	/* NAME of --output-filename, or NULL */
	double timeout;		/* seconds; 0: none */
	const char *timeout_by;	/* the option or the variable that set timeout */
	double kill_after;	/* seconds; 0: never */
	bool outlive;		/* --on-death=continue */
	double report_hang;	/* seconds; 0: not asked for */
	bool report_transports, report_memory, report_collectives, report_tuning, backtrace;
};

/* Reads the command line. Returns -1 to go on, else the exit code: the message was printed. */
int options_parse(struct options *opt, int argc, char **argv);

/* Finds the program file. Returns 0, or EXIT_NOT_FOUND or EXIT_CANNOT_RUN with the reason in `why`. */
int app_find_program(struct app *app, char *why, size_t size);
/* Returns true if all hosts of a list are this one. */
bool hosts_are_here(const char *list);
/* Reads WHERE of --bind-to and --map-by. */
bool domain_parse(const char *text, enum domain *out);
bool map_parse(struct options *opt, const char *text);

/* ---- the job ---------------------------------------------------------------------------------------------------- */

struct stream;

struct nspace;
struct binding;

struct rank {
	pid_t pid;		/* 0: not started, or ended and reaped; also the rank's process group */
	struct app *app;
	struct nspace *ns;
	int number;		/* in ns */
	int slot;		/* the guard's, or -1 */
	bool foreign;		/* the program that has started this heddlerun (behind.c): no child, gets no signal */
	bool joined, left;	/* PMIx_Init, PMIx_Finalize */
	bool outlived;		/* the rank has ended, and the remaining ranks can go on (--on-death=continue) */
	bool ended;
	bool lingers;		/* the rank has ended, but not all of the process group */
	struct nspace **connected;	/* namespaces with which the rank has communicators */
	int nconnected;
	struct stream *out, *err;	/* with --tag-output */
};

/* A PMIx namespace and its ranks: those of the command line (number 0), or those of one PMIx_Spawn. Stays until the last of
 * its ranks has ended; the command line's for ever. */
struct nspace {
	struct nspace *next;
	int number;
	char name[256];		/* unguessable, for a process that knows the namespace may join */
	struct app *apps;
	int napps;
	struct rank *ranks;	/* in one piece: addresses stay */
	int nranks;
	int running;		/* ranks that have not ended */
	int file_fd;		/* the host file, inherited by the ranks, or -1: see hdl_rt_job_file */
	struct binding *binding;	/* of spawned ranks */
	char parent[256];	/* the process that called PMIx_Spawn */
	int parent_rank;
	uint64_t spawn_id;	/* the number by which the library of that process names the spawn; 0: none */
	bool met;		/* the ranks have an intercommunicator with their parents: until then a failure fails the spawn */
	/* Connected with the parents' namespace from the start: ranks may fail before their reports of that arrive. Until a rank
	 * of this namespace reports that it has disconnected. */
	bool bound;
	bool marked;		/* nspace_mark */
	bool ending;		/* its ranks have got SIGTERM, and other namespaces go on */
	uint64_t kill_at;	/* monotonic_ns() of SIGKILL then; 0: done */
	double kill_after;	/* seconds that kill_at was set for */
	uint64_t unjudged_ns;	/* time since when judge_absent cannot determine whether a rank waits for all; 0: it can */
};

struct job {
	struct options opt;
	struct nspace *nspaces;	/* the command line's, then those that were spawned, in their order */
	int nspawned;		/* namespaces spawned so far */
	char host[256];
	int ncpus;		/* CPUs that the ranks have together */
	int universe;		/* MPI_UNIVERSE_SIZE */
	struct binding *binding;
	int fabric_fd;		/* the fabric's descriptor, inherited by the ranks, or -1 (fabric.c) */
	int behind_fd, behind_pidfd;	/* with --behind: the socket to that program, and the process; or -1 */
	char *tmpdir;		/* private, removed at the end */
	struct guard *guard;
	const sigset_t *old_mask;	/* signal mask that ranks start with: the one with which heddlerun was
					 * started */
	sigset_t taken;		/* signals that heddlerun takes: blocked, and read in supervise.c */
	bool ignore_pipe;	/* SIGPIPE was ignored when heddlerun was started, and is ignored in the ranks */
	struct rlimit files;
};

/* ---- namespaces and their ranks (nspace.c) ------------------------------------------------------------------------ */

/* Makes a namespace of the ranks of `apps`, and appends the namespace to the job's. Takes over apps. */
struct nspace *nspace_new(struct job *job, const char *name, struct app *apps, int napps);
/* Removes a spawned namespace, and all that was made for it. Must: no rank runs. */
void nspace_free(struct job *job, struct nspace *ns);
void apps_free(struct app *apps, int napps);
/* The first rank, and the one behind a rank, of all namespaces; NULL: none. */
struct rank *rank_first(const struct job *job);
struct rank *rank_next(const struct rank *rank);
/* NULL: there is none. */
struct nspace *nspace_find(const struct job *job, const char *name);
struct rank *rank_find(const struct job *job, const char *nspace, int number);
/* "rank 3", or "rank 3 of spawned job 1"; valid for some further calls. */
const char *rank_name(const struct rank *rank);
/* The same for tags and files: "3" or "1:3", with the given character between. */
void rank_tag(const struct rank *rank, char between, char *text, size_t size);
/* The rank has its first communicator with ranks of another namespace (more), or has freed the last. */
void rank_connect(struct rank *rank, struct nspace *other, bool more);
/* Sets `marked` of a namespace and of those that are connected with it, directly or through other namespaces; clears `marked` of
 * the remaining ones. Returns whether a namespace that has running ranks is not marked. */
bool nspace_mark(struct job *job, struct nspace *ns);

/* ---- environment (environ.c) ------------------------------------------------------------------------------------- */

/* Environments are malloc'd NULL-terminated arrays of malloc'd strings. Without memory all end heddlerun with a
 * message. */
char **env_copy(char *const *env);
void env_set(char ***env, const char *name, const char *value);
const char *env_get(char *const *env, const char *name);
void env_unset(char **env, const char *name);
/* Removes the variables in which an outer launcher describes *that* launcher's ranks: they would be wrong for ours. */
void env_scrub(char **env);
void env_free(char **env);
/* malloc and friends that end heddlerun with a message instead of returning NULL. */
void *must(void *p);

/* ---- the software HCA's fabric (fabric.c) --------------------------------------------------------------------------- */

/* Makes the fabric of this job and names the fabric in the programs' environments, or leaves the one that was named by
 * -x SHCA_FABRIC=NAME. 0 or the exit code: the message was printed. */
int fabric_make(struct job *job);

/* ---- binding (bind.c) ------------------------------------------------------------------------------------------------ */

/* struct binding: the cores that heddlerun may use, and which of them each rank gets. */
struct binding *binding_make(const struct options *opt);
/* Binds spawned ranks to cores that no rank has, where there are enough. opt: of the spawn. running: number of
 * ranks that run already. */
struct binding *binding_spawn(struct binding *all, const struct options *opt, int running);
/* Gives the cores back. Must not be called for binding_make's. */
void binding_free(struct binding *b);
/* Cores that may be used. */
int binding_cores(const struct binding *b);
/* CPUs (hardware threads) that the ranks have together. */
int binding_cpus(const struct binding *b);
/* The affinity mask of a rank, and in *size the mask's size in bytes. NULL: the rank is not bound. */
const cpu_set_t *binding_mask(const struct binding *b, int rank, size_t *size);
/* "on CPUs 0-3,8-11" or "not bound" */
void binding_name(const struct binding *b, int rank, char *text, size_t size);
/* --report-bindings */
void binding_report(const struct binding *b);
/* Warns if a program is told to use more threads than each of the program's ranks has CPUs. Must be called after the
 * programs' environments are made. */
void binding_check_threads(const struct binding *b, const struct options *opt);

/* ---- notes (notes.c) ------------------------------------------------------------------------------------------------------ */

/* An event from the server's thread to the event loop; malloc'd. */
struct note {
	struct note *next;	/* in the queue of notes.c */
	enum { NOTE_JOINED, NOTE_LEFT, NOTE_ABORT, NOTE_ANSWER, NOTE_SPAWN, NOTE_CONNECTED, NOTE_DISCONNECTED,
	       NOTE_GIVEN_UP } kind;
	char nspace[256];
	int rank;		/* -1: all ranks of nspace */
	int code;
	struct spawn_request *spawn;	/* of NOTE_SPAWN; the receiver's */
	char text[];
};

/* Makes the queue. Returns a descriptor that is readable while notes are in the queue, or a negative errno. */
int notes_open(void);
/* Appends a note. Any thread. Ownership: the note becomes the queue's. The call never waits for notes_take: the event loop, which
 * calls that, may itself be waiting for the server's thread (server_register). */
void notes_send(struct note *note);
/* Returns the oldest note, which the caller must free, or NULL. */
struct note *notes_take(void);

/* ---- the PMIx server (server.c) ------------------------------------------------------------------------------------------ */

/* A call of PMIx_Spawn. */
struct spawn_request {
	char parent[256];	/* the caller */
	int parent_rank;
	uint64_t id;		/* the library's number of the spawn; 0: not given */
	struct options opt;	/* apps and nranks; bind, bind_given, map, cpus_per_rank */
	char refused[256];	/* a directive that heddlerun cannot follow; "": none */
	void (*done)(void);	/* libpmix's, of type pmix_spawn_cbfunc_t */
	void *arg;
};

/* Turns off, in the environment that heddlerun and the ranks get, those plug-ins of the PMIx library that a job on one
 * host has no use for: they cost time in each process. The user's own PMIX_MCA_* come first. */
void server_tune_library(char ***env);
/* Starts the server. Returns the descriptor of notes_open, or -1: the message was printed. The
 * server runs until heddlerun ends, by _exit: PMIx_server_finalize waits for ever if a client died in the middle of
 * connecting, and would only remove files, which are in our own directory. */
int server_start(struct job *job);
/* Registers a namespace with the server, and takes it out. register: 0, or -1: the message is in `why`. */
int server_register(struct job *job, struct nspace *ns, char *why, size_t size);
void server_deregister(const struct nspace *ns);
/* Returns the environment of one rank: app's and PMIx's part, malloc'd. NULL: the message is in `why`. */
char **server_rank_env(const struct rank *rank, char *why, size_t size);
/* Answers a request: ns has been started, or (NULL) nothing has, for the reason `why`. Frees the request. */
void server_spawn_answer(struct spawn_request *req, const struct nspace *ns, int exit_code, const char *why);
/* Reports to the process that has called PMIx_Spawn that the started ranks have ended before they had a communicator. */
void server_spawn_failed(uint64_t id, const char *why);

/* Sends the hang report's question to the ranks (runtime/ask.h); answers come as NOTE_ANSWER. now: HDL_ASK_NOW, for the
 * ranks that have not answered yet. */
void server_ask(bool now);
/* Sends HDL_RANK_ENDED, which names this rank, to the remaining ranks, which go on. */
void server_notify_end(const struct rank *rank);
/* Returns true if the rank has published a value under the key. Before HDL_ADDRESS no rank reaches that rank; with HDL_WORLD the
 * rank is in the world model, with HDL_SESSION and without HDL_WORLD it has sessions only. */
bool server_has(const struct rank *rank, const char *key);

/* ---- published names (names.c) ------------------------------------------------------------------------------------------ */

/* A store of the user's, which the heddleruns of this host share. Any thread. Return 0 or a negative errno, reported but for
 * -EEXIST, -ENOENT, and (unpublish) -EPERM: another heddlerun has published the name. *value is malloc'd. */
int names_publish(const char *nspace, int rank, const char *name, const char *value);
int names_lookup(const char *name, char **value, char *nspace, size_t size);
int names_unpublish(const char *name);
/* Removes the names that a rank has published; rank -1: all of the namespace's. nspace NULL: all of this heddlerun's. */
void names_drop(const char *nspace, int rank);

/* ---- the hang report (hang.c) -------------------------------------------------------------------------------------------- */

/* Asks all ranks. by_signal: ranks that handle SIGUSR1 get the signal, too. */
void hang_ask(const struct job *job, bool by_signal);
void hang_answer(const struct rank *rank, const char *text);
/* Returns true if a question is under way: then no rank may be freed. */
bool hang_is_asking(void);
/* monotonic_ns() at which hang_check must be called; 0: no question is under way. */
uint64_t hang_next(void);
void hang_check(const struct job *job);

/* ---- ranks ----------------------------------------------------------------------------------------------------------------- */

/* Starts the ranks of a namespace (spawn.c). binding: theirs. stdin_fd: rank 0's standard input, -1: heddlerun's. Returns 0
 * or the exit code with the reason in `why`; ranks may run then. */
int spawn_ranks(struct job *job, struct nspace *ns, const struct binding *binding, int stdin_fd, char *why, size_t size);

/* Makes the host file of a namespace, which identifies the namespace to the kernel: open in its ranks, and in no other process.
 * The file has no name, so nothing can be left behind. -1: there is none, and each rank has for itself the objects that could be
 * shared. */
int nspace_make_file(struct nspace *ns);
/* Starts the ranks of a request (dynamic.c). Returns the namespace. NULL: *exit_code, and the reason in `why`; *part is the
 * namespace if it was made: some of its ranks may run, and the caller must end them. */
struct nspace *dynamic_spawn(struct job *job, struct spawn_request *req, struct nspace **part, int *exit_code, char *why,
			     size_t size);

/* Runs until all ranks have ended (supervise.c). Returns the exit code of the job. note_fd: server_start's;
 * tty_fd: the end of the pipe to which standard input is copied, or -1. failed: nonzero if starting failed with this
 * exit code, so that running ranks are only to be ended. */
int supervise(struct job *job, int note_fd, int tty_fd, int failed);

/* ---- processes that have left the ranks' process groups (detached.c) --------------------------------------------- */

/* Ends the processes that ranks have left. gently: by SIGTERM, and by SIGKILL from `until` (monotonic_ns()) on, or once
 * signal_fd has SIGINT or SIGTERM; else by SIGKILL at once. Must: all ranks have ended. */
void detached_end(const struct job *job, int signal_fd, bool gently, uint64_t until);

/* ---- the terminal (terminal.c) ----------------------------------------------------------------------------------- */

struct terminal {
	int fd;			/* the end of rank 0's pipe to which input is copied; -1: none, or closed */
	char *buf;		/* input that rank 0 has not read */
	size_t len;
};
/* Copies the input that can be read without waiting, if heddlerun is in the foreground. Must: fd is not -1. */
void terminal_copy(struct terminal *t);
void terminal_close(struct terminal *t);

/* ---- behind a program that was started without a launcher (behind.c) --------------------------------------------- */

/* Reads --behind: the program is the only rank of the job's first namespace. false: the message was printed. */
bool behind_take(struct job *job);
/* Sends the program the environment for joining the job. Returns 0 or the exit code: the message was printed. */
int behind_answer(struct job *job);

/* ---- output with a tag (output.c) ---------------------------------------------------------------------------------------- */

struct stream *output_stream_new(int fd, int to_fd, const char *tag);
int stream_fd(const struct stream *s);
/* Copies the data that can be read without waiting. false: the stream has ended. */
bool stream_copy(struct stream *s);
void stream_free(struct stream *s);
/* The errno of output that could not be written, EPIPE if the reader has gone; 0: all was written. The error was
 * reported. */
int output_error(void);

/* ---- the guard (guard.c) ------------------------------------------------------------------------------------------------- */

/* Starts the guard process: if heddlerun is killed, the guard ends the ranks, and all processes with
 * HEDDLERUN_NAMESPACE=nspace, or nspace.N, in the environment, and removes tmpdir. NULL: the message was printed. */
struct guard *guard_start(int nranks, const char *tmpdir, const char *nspace);
/* A place for one more rank, or -1: there are too many. guard_put gives it back. */
int guard_take(struct guard *g);
void guard_put(struct guard *g, int slot);
/* Returns true if a process is a guard, of this or of another heddlerun. */
bool guard_named(pid_t pid);
/* From now on the rank of this place is process group pgid; 0: the rank has ended. */
void guard_set(struct guard *g, int slot, pid_t pgid);
bool guard_is(const struct guard *g, pid_t pid);
void guard_stop(struct guard *g);
void remove_tree(const char *dir);

#endif
