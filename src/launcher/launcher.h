/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heddlerun: starts the ranks of a job on this host and is their PMIx server.
 *
 *     main ── options ── bind ── server (PMIx, own thread) ── spawn ── supervise (the event loop) ── hang
 *                                    │                                            ▲
 *                                    └── notes about ranks, through a pipe ───────┘
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
	bool text;		/* the file looks like text: without "#!" the shell runs the file */
};

struct options {
	struct app *apps;
	int napps;
	int nranks;
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

/* Finds the program file. Returns 0, or EXIT_NOT_FOUND or EXIT_CANNOT_RUN: the message was printed. */
int app_find_program(struct app *app);

/* ---- the job ---------------------------------------------------------------------------------------------------- */

struct stream;

struct rank {
	pid_t pid;		/* 0: not started, or ended and reaped; also the rank's process group */
	struct app *app;
	bool joined, left;	/* PMIx_Init, PMIx_Finalize */
	bool outlived;		/* the rank has ended, and the remaining ranks can go on (--on-death=continue) */
	bool ended;
	bool lingers;		/* the rank has ended, but not all of the process group */
	struct stream *out, *err;	/* with --tag-output */
};

struct job {
	struct options opt;
	struct rank *ranks;
	int nranks;
	char nspace[256];	/* PMIx namespace: unguessable, for a process that knows the namespace may join */
	char host[256];
	int ncpus;		/* CPUs that the ranks have together */
	int fabric_fd;		/* the fabric's descriptor, inherited by the ranks, or -1 (fabric.c) */
	int file_fd;		/* the host file, inherited by the ranks, or -1: see hdl_rt_job_file */
	char *tmpdir;		/* private, removed at the end */
	struct guard *guard;
	const sigset_t *old_mask;	/* signal mask that ranks start with: the one with which heddlerun was
					 * started */
	sigset_t taken;		/* signals that heddlerun takes: blocked, and read in supervise.c */
	bool ignore_pipe;	/* SIGPIPE was ignored when heddlerun was started, and is ignored in the ranks */
	struct rlimit files;
};

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

struct binding;		/* the cores that heddlerun may use, and which of them each rank gets */

struct binding *binding_make(const struct options *opt);
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

/* ---- the PMIx server (server.c) ------------------------------------------------------------------------------------------ */

/* An event from the server's thread to the event loop; sent as pointers through a pipe, freed by the receiver. */
struct note {
	enum { NOTE_JOINED, NOTE_LEFT, NOTE_ABORT, NOTE_ANSWER } kind;
	int rank;
	int code;
	char text[];
};

/* Turns off, in the environment that heddlerun and the ranks get, those plug-ins of the PMIx library that a job on one
 * host has no use for: they cost time in each process. The user's own PMIX_MCA_* come first. */
void server_tune_library(char ***env);
/* Starts the server. Returns the descriptor to read notes (struct note *) from, or -1: the message was printed. The
 * server runs until heddlerun ends, by _exit: PMIx_server_finalize waits for ever if a client died in the middle of
 * connecting, and would only remove files, which are in our own directory. */
int server_start(struct job *job);
/* Returns the environment of one rank: app's and PMIx's part, malloc'd. NULL: the message was printed. */
char **server_rank_env(struct job *job, int rank);

/* Sends the hang report's question to the ranks (runtime/ask.h); answers come as NOTE_ANSWER. now: HDL_ASK_NOW, for the
 * ranks that have not answered yet. */
void server_ask(bool now);
/* Sends HDL_RANK_ENDED to the remaining ranks: this rank's process has ended, and they go on. */
void server_tell_end(const struct job *job, int rank);
/* Whether the rank has published a value under the key. Before HDL_ADDRESS no rank reaches that rank; with HDL_WORLD the rank
 * is in the world model, with HDL_SESSION and without HDL_WORLD it has sessions only. */
bool server_has(const struct job *job, int rank, const char *key);

/* ---- the hang report (hang.c) -------------------------------------------------------------------------------------------- */

/* Asks all ranks. by_signal: ranks that handle SIGUSR1 get the signal, too. */
void hang_ask(const struct job *job, bool by_signal);
void hang_answer(const struct job *job, int rank, const char *text);
/* monotonic_ns() at which hang_check must be called; 0: no question is under way. */
uint64_t hang_next(void);
void hang_check(const struct job *job);

/* ---- ranks ----------------------------------------------------------------------------------------------------------------- */

/* Starts all ranks (spawn.c). stdin_fd: rank 0's standard input. Returns 0 or the exit code: the message was printed,
 * and ranks may run. */
int spawn_ranks(struct job *job, const struct binding *binding, int stdin_fd);

/* Runs until all ranks have ended (supervise.c). Returns the exit code of the job. note_fd: server_start's;
 * tty_fd: the end of the pipe to which standard input is copied, or -1. failed: nonzero if starting failed with this
 * exit code, so that running ranks are only to be ended. */
int supervise(struct job *job, int note_fd, int tty_fd, int failed);

/* ---- output with a tag (output.c) ---------------------------------------------------------------------------------------- */

struct stream *stream_new(int fd, int to_fd, const char *tag);
int stream_fd(const struct stream *s);
/* Copies the data that can be read without waiting. false: the stream has ended. */
bool stream_copy(struct stream *s);
void stream_free(struct stream *s);
/* The errno of output that could not be written, EPIPE if the reader has gone; 0: all was written. The error was
 * reported. */
int output_error(void);

/* ---- the guard (guard.c) ------------------------------------------------------------------------------------------------- */

/* Starts the guard process: if heddlerun is killed, the guard ends the ranks, and all processes with
 * HEDDLERUN_NAMESPACE=nspace in the environment, and removes tmpdir. NULL: the message was printed. */
struct guard *guard_start(int nranks, const char *tmpdir, const char *nspace);
/* Whether a process is a guard, of this or of another heddlerun. */
bool guard_named(pid_t pid);
/* From now on rank is process group pgid; 0: the rank has ended. */
void guard_set(struct guard *g, int rank, pid_t pgid);
bool guard_is(const struct guard *g, pid_t pid);
void guard_stop(struct guard *g);
void remove_tree(const char *dir);

#endif
