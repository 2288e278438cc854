/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/io: files (MPI-5.0 chapter 14). Above p2p, datatype, collectives and rma, below mpi. POSIX alone.
 *
 *     MPI_File_read ── view ── access ─┬─ contiguous in the file      pread, pwrite                     (access.c)
 *                                      ├─ strided read                data sieving: one pread for near runs
 *                                      └─ strided write               one pwrite for each run of the file
 *
 *     file.c     open, close, delete, size, sync      view.c    views: offsets in a view to offsets in the file
 *     access.c   one process's access                 pool.c    I/O threads, which run nonblocking accesses
 *     shared.c   the shared file pointer              error.c   error classes of errno
 *     calls.c    pread and pwrite of a run          scatter.c  writes of short runs by a mapping
 *     collective.c   collective accesses: two phases     window.c   an aggregator's writes and reads of a round
 *     datarep.c  data representations                 blocks.c  records of system calls, for the hang report
 *
 * A view is a stream (datatype/stream.c) over the filetype, whose runs are (offset in the file, length): named as the access
 * goes, never as a whole. Functions return MPI_SUCCESS or an MPI error class with hdl_reason_set, unless they say otherwise.
 * Must: the lock of runtime/threads.h is held. Functions marked [any thread] run without the lock, and set no reason.
 */
#ifndef HDL_IO_DOOR_H
#define HDL_IO_DOOR_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "collectives/collectives.h"
#include "p2p/p2p.h"
#include "rma/rma.h"
#include "runtime/syscalls.h"
#include "runtime/threads.h"

/* ---- data representations (datarep.c) ----------------------------------------------------------------------------------- */

/* A conversion function of the program, by MPI_Register_datarep or its large form. NULL: MPI_CONVERSION_FN_NULL. */
union hdl_conversion {
	MPI_Datarep_conversion_function *small;
	MPI_Datarep_conversion_function_c *large;
};
struct hdl_datarep {
	char name[MPI_MAX_DATAREP_STRING + 1];
	bool large;
	union hdl_conversion read, write;
	MPI_Datarep_extent_function *extent_fn;
	void *extra_state;
	struct hdl_datarep *next;
};
extern const struct hdl_datarep hdl_datarep_external32;
/* Finds a representation by its name. *rep is NULL for memory's own. Returns false if there is none. */
bool hdl_datarep_find(const char *name, const struct hdl_datarep **rep);
/* Registers a copy. Must: the name is new. */
int hdl_datarep_add(const struct hdl_datarep *rep);
void hdl_datarep_fini(void);
/* Makes the type that t is in a file, committed, with a reference: t itself if rep is NULL. */
int hdl_datarep_image(const struct hdl_datarep *rep, struct hdl_type *t, struct hdl_type **image);
/* Sets *bytes to those that (count, t) has in a file. Must: rep is not NULL, as for the next two. */
int hdl_datarep_size(const struct hdl_datarep *rep, struct hdl_type *t, MPI_Count count, MPI_Count *bytes);
int hdl_datarep_pack(const struct hdl_datarep *rep, void *packed, const void *buf, MPI_Count count, struct hdl_type *t);
/* packed has the first `bytes` of the representation of (count, t). *unpacked: bytes in memory that were written. */
int hdl_datarep_unpack(const struct hdl_datarep *rep, void *buf, const void *packed, MPI_Count bytes, MPI_Count count,
		       struct hdl_type *t, MPI_Count *unpacked);

/* ---- views (view.c) --------------------------------------------------------------------------------------------------- */

/* A view (section 14.3). Immutable. An access keeps a reference, so that MPI_File_set_view may follow the start of the access. */
struct hdl_view {
	int refs;
	MPI_Offset disp;		/* bytes from the beginning of the file */
	struct hdl_type *etype, *filetype;	/* as the program passed them, with a reference each */
	const struct hdl_datarep *rep;	/* NULL: memory's */
	struct hdl_type *tile;		/* the filetype in the file: itself or its image, with a reference */
	MPI_Count esize;		/* bytes of an etype's data in the file */
	MPI_Count extent;		/* of an etype in the file; unlike esize, it counts the etype's gaps */
	bool contiguous;		/* byte p of the view's data is byte disp + p of the file */
	int8_t order;			/* hdl_view_ascends: 1 yes, -1 no, 0 not known yet */
	MPI_Count run;			/* bytes of a run on average; set with order, if that is 1 */
	MPI_Count tiles;		/* so many filetypes fit the range of MPI_Offset */
	char datarep[MPI_MAX_DATAREP_STRING + 1];
};

/* Makes a view with one reference. Must: both types are committed, and hdl_view_check has accepted them; datarep is known. */
int hdl_view_make(MPI_Offset disp, struct hdl_type *etype, struct hdl_type *filetype, const char *datarep, struct hdl_view **out);
/* Returns the bytes of the view's data for `bytes` bytes in memory. Must: whole etypes. */
static inline MPI_Count hdl_view_bytes(const struct hdl_view *v, MPI_Count bytes)
{
	return likely(!v->rep) ? bytes : bytes / v->etype->size * v->esize;
}
struct hdl_view *hdl_view_retain(struct hdl_view *v);
void hdl_view_release(struct hdl_view *v);
/* Checks the rules of section 14.3 for the two types. Returns MPI_ERR_TYPE or MPI_ERR_ARG. */
int hdl_view_check(const struct hdl_type *etype, const struct hdl_type *filetype);
/* Returns true if bytes p .. p + bytes - 1 of the view's data have offsets that MPI_Offset can represent. */
bool hdl_view_has(const struct hdl_view *v, MPI_Offset p, MPI_Count bytes);
/* Returns the offset in the file of byte p of the view's data. At the end of a run: of the run behind. -1: there is none. */
MPI_Offset hdl_view_offset(const struct hdl_view *v, MPI_Offset p);
/* Returns how many bytes of the view's data lie before an offset of the file. */
MPI_Offset hdl_view_bytes_before(struct hdl_view *v, MPI_Offset offset);
/* Returns a range of the file, [*first, *end), that has all bytes p .. p + bytes - 1 of the view's data. */
void hdl_view_hull(const struct hdl_view *v, MPI_Offset p, MPI_Count bytes, MPI_Offset *first, MPI_Offset *end);

/* Returns true if the runs come in the order of the file. *run, if they do: bytes of a run, on average. */
bool hdl_view_ascends(struct hdl_view *v, MPI_Count *run);

/* The runs of a view from byte p of its data on. [any thread] */
struct hdl_view_runs;
/* Returns NULL without memory. free(): by the caller. */
struct hdl_view_runs *hdl_view_runs_open(const struct hdl_view *v, MPI_Offset p);
/* *offset: where the run begins that begins at the position. Returns its length, at most `most`; 0: the end of the view. */
MPI_Count hdl_view_runs_next(struct hdl_view_runs *r, MPI_Count most, MPI_Offset *offset);

enum hdl_fs { HDL_FS_LOCAL, HDL_FS_NFS, HDL_FS_LUSTRE, HDL_FS_GPFS, HDL_FS_OTHER };
const char *hdl_fs_name(enum hdl_fs fs);

enum hdl_cb { HDL_CB_AUTOMATIC, HDL_CB_ALWAYS, HDL_CB_NEVER };

/* Hints (section 14.2.8), with the values in use. */
struct hdl_io_hints {
	struct hdl_cb_hints {		/* the same at all processes: those of rank 0 */
		int32_t buffering;	/* enum hdl_cb */
		int32_t nodes;		/* cb_nodes: aggregators; 0: two for each host */
		int64_t buffer_size;	/* cb_buffer_size, a window's bytes; 0, ahead of hdl_file_open: by the file system */
		int64_t striping_unit;	/* bytes: file domains begin at multiples */
		int64_t striping_factor;	/* kept only; 0: not given */
	} cb;
	enum hdl_cb overlap;		/* heddle_overlap: this process's windows in the exchanges of the next ones */
	MPI_Count ind_rd_buffer_size;	/* bytes that data sieving reads at a time */
	int file_perm;			/* of a file that MPI_File_open creates: mode for open(2); -1: 0666 and the umask */
	char access_style[64];		/* as the program says; "" */
};
void hdl_io_hints_init(struct hdl_io_hints *h);

/* ---- blocks.c ---------------------------------------------------------------------------------------------------------- */

/* A system call on a file begins, in which this thread may block: hdl_syscall_end follows. bytes 0: of no range. [any thread] */
struct hdl_syscall *hdl_io_blocks(const char *name, int fd, MPI_Offset at, MPI_Offset bytes);
/* The same for fcntl(F_OFD_SETLKW), and for calls that take a name. */
struct hdl_syscall *hdl_io_blocks_lock(int fd, short type, MPI_Offset at, MPI_Offset bytes);
struct hdl_syscall *hdl_io_blocks_path(const char *name, const char *path);
/* The MPI function on whose behalf this thread runs without the library's lock: hdl_call may be another thread's then. NULL: it
 * holds the lock. "": an I/O thread. */
extern _Thread_local const char *hdl_io_call __attribute__((tls_model("initial-exec")));

/* ---- pool.c ------------------------------------------------------------------------------------------------------------ */

/* Work of an I/O thread. */
struct hdl_io_job {
	void (*run)(struct hdl_io_job *job);	/* [any thread] */
	void (*ended)(struct hdl_io_job *job);	/* in progress, behind run; may free the job */
	struct hdl_io_job *next;
};
/* Has an I/O thread run the job. Where no thread can be made, the job has run and ended when this returns. */
void hdl_pool_submit(struct hdl_io_job *job);
/* Ends the threads. Must: no job is under way. */
void hdl_pool_threads_end(void);

/* ---- files ------------------------------------------------------------------------------------------------------------- */

struct hdl_access;
struct hdl_file {
	struct hdl_object obj;		/* magic: set from MPI_File_open to MPI_File_close */
	struct hdl_comm *comm;		/* a duplicate without a handle */
	int fd;				/* -1: hdl_file_close has closed it */
	int dir;			/* rank 0, MPI_MODE_DELETE_ON_CLOSE: its directory; -1 */
	int amode;
	int mode;			/* at rank 0: MODE_SET, and the permissions that the file gets when all processes have
					 * opened it (limit_perm); else 0 */
	enum hdl_fs fs;
	bool maps;			/* scatter.c may be used: a mapping and pwrite see the same bytes at once */
	bool in_memory;			/* tmpfs: a page of a mapping costs little */
	bool atomic;			/* MPI_File_set_atomicity */
	struct hdl_view *view;
	MPI_Offset position;		/* individual file pointer: bytes of the view's data */
	struct hdl_win *shared;		/* of the shared file pointer (shared.c); NULL: of one process, in shared_own */
	int64_t shared_own[2];		/* memory of the pointer if the file is of one process */
	unsigned shared_word;		/* which of the two words is in use */
	unsigned active;		/* accesses under way */
	struct hdl_req *split;		/* of the split collective between begin and end; NULL */
	const char *split_call;		/* the name of its end function */
	MPI_Errhandler errhandler;
	struct hdl_io_hints hints;
	char *path;			/* absolute, for messages; `name` where the working directory has no path */
	const char *name;		/* as the program passed it, without the prefix: the end of path or all of it */
	pthread_mutex_t atomic_lock;	/* excludes this process's threads in atomic mode: all threads share the descriptor's
					 * locks */
	struct hdl_file *next, **link;	/* all open files */
};

extern struct hdl_pool hdl_files;
extern struct hdl_file *hdl_file_list;

static inline struct hdl_file *hdl_file_get(MPI_File handle)
{
	return hdl_pool_find(&hdl_files, handle, HDL_MAGIC_FILE, sizeof(struct hdl_file));
}

/* ---- file.c ------------------------------------------------------------------------------------------------------------ */

struct hdl_open_args {
	const char *filename;
	int amode;
	struct hdl_io_hints hints;
	MPI_Errhandler errhandler;
	int error;			/* class with which this process's arguments were refused, with hdl_reason_set; 0 */
};
/* Collective over comm, an intracommunicator. Also after an error of one process's arguments all processes return an error. */
int hdl_file_open(struct hdl_comm *comm, const struct hdl_open_args *args, struct hdl_file **out);
/* Collective. Waits for the accesses in progress, and closes the descriptor, also on an error. The object stays, so
 * that its error handler can have the handle. Must: hdl_file_free follows. */
int hdl_file_close(struct hdl_file *f);
void hdl_file_free(struct hdl_file *f);
int hdl_file_delete(const char *filename);
int hdl_file_size(struct hdl_file *f, MPI_Offset *size);
/* Collective, these five. error: class with which this process's arguments were refused, with hdl_reason_set; 0. */
int hdl_file_set_size(struct hdl_file *f, MPI_Offset size, int error);
int hdl_file_preallocate(struct hdl_file *f, MPI_Offset size, int error);
int hdl_file_sync(struct hdl_file *f);
int hdl_file_set_view(struct hdl_file *f, struct hdl_view *v, int error);	/* takes over the reference to v */
int hdl_file_set_atomicity(struct hdl_file *f, bool atomic);
/* The two halves of MPI_File_seek_shared. Between them *now is the pointer, and no process uses the pointer. */
int hdl_file_seek_shared_begin(struct hdl_file *f, MPI_Offset offset, int whence, MPI_Offset *now);
int hdl_file_seek_shared_end(struct hdl_file *f, MPI_Offset position, int error);
/* Returns the same class at all processes: this process's error, or that of the first process which has one. Collective. */
int hdl_file_agree(struct hdl_file *f, int error);
/* The same for new hints; without an error f has them, with rank 0's values where all must have the same. */
int hdl_file_set_hints(struct hdl_file *f, const struct hdl_io_hints *hints, int error);
/* Sets *position to the first byte of the view's data behind the end of the file, rounded up to a whole etype. */
int hdl_file_end(struct hdl_file *f, MPI_Offset *position);
void hdl_io_fini(void);

/* ---- error.c ----------------------------------------------------------------------------------------------------------- */

/* Returns the error class of an errno (positive) and sets the reason: "cannot WHAT PATH: text; advice". */
int hdl_io_class(int err, const char *what, const char *path);

/* ---- access.c ---------------------------------------------------------------------------------------------------------- */

/* (buf, count, type) in memory, and as many bytes of the view's data from `position` on. */
struct hdl_access_args {
	bool write;
	MPI_Offset position;
	void *buf;
	MPI_Count count;
	struct hdl_type *type;
};
/* An access of one process. */
struct hdl_access {
	struct hdl_access_args args;
	struct hdl_file *file;
	struct hdl_view *view;		/* with a reference, as args.type */
	bool atomic;			/* the file's mode when the access began */
	MPI_Count sieve;		/* ind_rd_buffer_size when the access began: an I/O thread does not hold the
					 * lock of f->hints */
	MPI_Count bytes;		/* in the file */
	void *packed;			/* the data in the file's representation, which args then names; NULL: memory's */
	struct hdl_access_args memory;	/* the program's, if there is `packed` */
	/* results */
	MPI_Count moved;		/* bytes, behind hdl_access_end in memory: fewer than `bytes` at the end of the file, and
					 * after an error */
	int err;			/* errno, positive */
	MPI_Offset file_end;		/* the file has been so long (scatter.c) */
	/* nonblocking */
	struct hdl_req *req;
	struct hdl_io_job job;
};
/* Must be followed by hdl_access_end, also after an error class, whose reason hdl_access_end keeps set. */
int hdl_access_begin(struct hdl_access *a, struct hdl_file *f, const struct hdl_access_args *args);
/* Moves the data, and sets the results. [any thread] */
void hdl_access_run(struct hdl_access *a);
/* Returns the class of the error, with the reason. */
int hdl_access_end(struct hdl_access *a);
/* Blocking: runs the access with the lock open. Sets *moved. */
int hdl_file_access(struct hdl_file *f, const struct hdl_access_args *args, MPI_Count *moved);
/* Nonblocking. *req: done later, with the bytes in its status. */
int hdl_file_iaccess(struct hdl_file *f, const struct hdl_access_args *args, struct hdl_req **req);
/* Runs that lie in one piece of the file of at most `most` bytes, or one longer run. */
#define HDL_BATCH_RUNS		4096
#define HDL_BATCH_VECTOR	1024	/* IOV_MAX of Linux */
struct hdl_batch {
	MPI_Count most;
	int n;
	MPI_Offset at[HDL_BATCH_RUNS];
	MPI_Count len[HDL_BATCH_RUNS];
	MPI_Offset end;			/* of the piece that begins at at[0] */
	MPI_Count bytes;
	bool ascends;			/* the runs are in the order of the file, and do not overlap */
	MPI_Offset next_at;		/* the run behind */
	MPI_Count next_len;		/* 0: not asked for yet */
	char *buffer;
	struct iovec vector[HDL_BATCH_VECTOR];
};
/* Makes progress until no access of the file is under way. */
void hdl_file_quiet(struct hdl_file *f);

/* ---- calls.c ----------------------------------------------------------------------------------------------------------- */

/* Moves n bytes, without a hole on either side. Return an errno. read: *got is less than n at the end of
 * the file. [any thread] */
int hdl_write_run(int fd, const char *data, MPI_Count n, MPI_Offset at, MPI_Count *done);
int hdl_read_run(int fd, char *data, MPI_Count n, MPI_Offset at, MPI_Count *got);
/* Reads the limit of file sizes, RLIMIT_FSIZE, by which hdl_write_run returns EFBIG in place of the signal SIGXFSZ. Must be
 * called when a file is opened. [any thread] */
void hdl_size_limit_read(void);
/* Returns EFBIG if the limit does not let the file grow to `size` bytes; else 0. */
int hdl_size_limit_check(int fd, MPI_Offset size);

/* ---- scatter.c --------------------------------------------------------------------------------------------------------- */

/* Returns true if a mapping costs less for the batch than one call for each run. [any thread] */
bool hdl_scatter_pays(const struct hdl_access *a, const struct hdl_batch *b);
/* Writes the runs of a batch by a mapping. Returns how many bytes are written, from the first on; the others are the
 * caller's. [any thread] */
MPI_Count hdl_scatter(struct hdl_access *a, struct hdl_batch *b, const char *data);

/* ---- collective.c ------------------------------------------------------------------------------------------------------ */

/* Collective. error: class with which this process's arguments were refused, with hdl_reason_set; the other
 * arguments are then not used. */
int hdl_file_access_all(struct hdl_file *f, const struct hdl_access_args *args, int error, MPI_Count *moved);
/* The same, nonblocking. *req: done later, with the bytes in its status. */
void hdl_file_iaccess_all(struct hdl_file *f, const struct hdl_access_args *args, int error, struct hdl_req **req);
/* Returns the number of aggregators of collective accesses (cb_nodes). */
int hdl_file_aggregators(struct hdl_file *f);
void hdl_collective_fini(void);

/* ---- shared.c ---------------------------------------------------------------------------------------------------------- */

/* Collective. */
int hdl_shared_make(struct hdl_file *f);
int hdl_shared_free(struct hdl_file *f);
/* Adds `bytes` to the pointer. *before: the pointer before. 0 bytes: reads the pointer. MPI_ERR_ARG: the sum would be beyond the
 * largest offset, and the pointer stays. */
int hdl_shared_add(struct hdl_file *f, MPI_Offset bytes, MPI_Offset *before);
/* Rank 0 stores the pointer that is in use from the next hdl_shared_switch on. Must: all processes then agree (hdl_file_agree),
 * and all call hdl_shared_switch or none. */
int hdl_shared_prepare(struct hdl_file *f, MPI_Offset position);
void hdl_shared_switch(struct hdl_file *f);
/* Collective: the pointer goes on by the bytes of all processes, and *position is where this process's begin, in the order of
 * ranks. error: as above. */
int hdl_shared_ordered(struct hdl_file *f, MPI_Count bytes, int error, MPI_Offset *position);

#endif
