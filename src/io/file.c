/* SPDX-License-Identifier: BSD-3-Clause */
/* Files (MPI-5.0 section 14.2): open, close, delete, size, and the collectives on a file that move no data. */
#include "base/fd.h"
#include "base/fnv.h"
#include "io/io.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

struct hdl_pool hdl_files = HDL_POOL(struct hdl_file, 16);
struct hdl_file *hdl_file_list;

/* ---- agreement ---------------------------------------------------------------------------------------------------------- */

/* A process's part of a collective on a file. */
struct part {
	int64_t value;			/* must be the same at all processes */
	int64_t extent;			/* of the etype in the file, or 0; must be the same */
	int32_t error;
	int32_t amode;
	uint64_t datarep;		/* hash of the name of the data representation, or 0: each process numbers its own */
	struct hdl_cb_hints cb;
};

/* Exchanges the parts of all processes. *cb, unless it is NULL: rank 0's. Returns the class of this process's error, or else
 * that of the lowest rank with one; or MPI_ERR_NOT_SAME where values differ. */
static int exchange(struct hdl_comm *comm, const char *what, struct part mine, struct hdl_cb_hints *cb)
{
	struct part *part = calloc((size_t)comm->size, sizeof(*part));
	char why[512] = "";
	int rc;

	if (!part)
		hdl_out_of_memory("what the ranks of a file agree on", (size_t)comm->size * sizeof(*part));
	if (mine.error)
		snprintf(why, sizeof(why), "%s", hdl_reason_take());
	part[comm->rank] = mine;
	rc = hdl_comm_exchange(comm, part, sizeof(*part));
	if (!rc && mine.error) {
		hdl_reason_set("%s", why);
		rc = mine.error;
	}
	for (int r = 0; r < comm->size && !rc; r++) {
		if (part[r].error)
			hdl_reason_set("rank %d has failed in this call", r);
		else if (part[r].amode != part[0].amode)
			hdl_reason_set("the access modes differ: %d at rank 0, %d at rank %d", part[0].amode, part[r].amode, r);
		else if (part[r].datarep != part[0].datarep)
			hdl_reason_set("the data representation of rank %d is another one than that of rank 0", r);
		else if (part[r].value != part[0].value)
			hdl_reason_set("%s differs: %lld at rank 0, %lld at rank %d", what, (long long)part[0].value,
				       (long long)part[r].value, r);
		else if (part[r].extent != part[0].extent)
			hdl_reason_set("the extent of the etype differs: %lld at rank 0, %lld at rank %d",
				       (long long)part[0].extent, (long long)part[r].extent, r);
		else
			continue;
		rc = part[r].error ? part[r].error : MPI_ERR_NOT_SAME;
	}
	if (cb && !rc)
		*cb = part[0].cb;
	free(part);
	return rc;
}

int hdl_file_agree(struct hdl_file *f, int error)
{
	return exchange(f->comm, "", (struct part){ .error = error }, NULL);
}

int hdl_file_set_hints(struct hdl_file *f, const struct hdl_io_hints *hints, int error)
{
	struct hdl_cb_hints cb;
	int rc = exchange(f->comm, "", (struct part){ .error = error, .cb = hints->cb }, &cb);

	if (!rc) {
		f->hints = *hints;
		f->hints.cb = cb;
	}
	return rc;
}

/* ---- open and close -------------------------------------------------------------------------------------------------------- */

const char *hdl_fs_name(enum hdl_fs fs)
{
	static const char *const name[] = { "local", "nfs", "lustre", "gpfs", "other" };

	return name[fs];
}

#define MAGIC_NFS	0x6969
#define MAGIC_EXT	0xef53
#define MAGIC_XFS	0x58465342
#define MAGIC_TMPFS	0x01021994
#define MAGIC_OVERLAYFS	0x794c7630

/* By the magic numbers of statfs(2). Also sets the file's maps and in_memory. */
static enum hdl_fs fs_of(struct hdl_file *f)
{
	struct statfs s;
	uint32_t magic;

	if (fstatfs(f->fd, &s))
		return HDL_FS_OTHER;
	magic = (uint32_t)s.f_type;
	f->in_memory = magic == MAGIC_TMPFS;
	/* a shared mapping that is written needs a descriptor for both */
	f->maps = f->amode & MPI_MODE_RDWR &&
		  (f->in_memory || magic == MAGIC_EXT || magic == MAGIC_XFS || magic == MAGIC_OVERLAYFS);
	switch (magic) {
	case MAGIC_NFS: return HDL_FS_NFS;
	case 0x0bd00bd0: return HDL_FS_LUSTRE;
	case 0x47504653: return HDL_FS_GPFS;
	case MAGIC_EXT:		/* ext2 to ext4 */
	case MAGIC_XFS:
	case MAGIC_TMPFS:
	case MAGIC_OVERLAYFS:
	case 0x9123683e:	/* btrfs */
	case 0x858458f6:	/* ramfs */
	case 0x2fc12fc1:	/* zfs */
	case 0xf2f52010:	/* f2fs */
		return HDL_FS_LOCAL;
	default: return HDL_FS_OTHER;
	}
}

/* Returns the part behind "ufs:" or "nfs:". */
static const char *without_prefix(const char *filename, enum hdl_fs *fs)
{
	if (!strncmp(filename, "nfs:", 4)) {
		*fs = HDL_FS_NFS;
		return filename + 4;
	}
	return strncmp(filename, "ufs:", 4) ? filename : filename + 4;
}

/* Returns the absolute path, to be freed; a copy of the name where the working directory has none (it was removed). NULL: no
 * memory. */
static char *absolute(const char *name)
{
	char *dir, *path = NULL;

	if (*name == '/')
		return strdup(name);
	dir = getcwd(NULL, 0);
	if (!dir && errno != ENOMEM)
		return strdup(name);
	if (dir && asprintf(&path, "%s/%s", dir, name) < 0)
		path = NULL;
	free(dir);
	return path;
}

void hdl_io_hints_init(struct hdl_io_hints *h)
{
	*h = (struct hdl_io_hints){ .ind_rd_buffer_size = 1 << 20, .file_perm = -1,
				    .cb = { .striping_unit = 4096 } };
}

/* The default of cb_buffer_size: on a local file system a window that stays in the caches of a core, while the data are
 * exchanged, copied and written; longer ones with more ranks, whose exchange costs more. */
#define WINDOW_REMOTE	((int64_t)4 << 20)
#define WINDOW_LOCAL	((int64_t)256 << 10)
#define WINDOW_RANK	((int64_t)128 << 10)

static int64_t default_window(const struct hdl_file *f)
{
	int64_t n = f->comm->size * WINDOW_RANK;

	if (f->fs != HDL_FS_LOCAL || n > WINDOW_REMOTE)
		return WINDOW_REMOTE;
	return n > WINDOW_LOCAL ? n : WINDOW_LOCAL;
}

/* open(2). A signal ends the call on some file systems (NFS, FUSE); this one goes on. */
static int open_again(const char *name, int flags, mode_t mode)
{
	int fd;

	do
		fd = open(name, flags, mode);
	while (fd < 0 && errno == EINTR);
	return fd;
}

/* ---- NFS --------------------------------------------------------------------------------------------------------------- */

/* A client of NFS keeps pages and attributes of a file that other hosts write, too:
 *     1. Host A reads a page, to which host B then writes byte 1.
 *     2. Host A writes byte 0 of the page, and with it all the page: byte 1 is the old one.
 *     3. Host B, which has the file open for writing, keeps its page as well: it does not see byte 0, whenever it reads.
 * A client that holds a lock of the file writes the bytes that were written alone (2); one that takes a lock forgets clean
 * pages and attributes (3). Accesses have no byte at these offsets: */
#define NFS_HELD	((off_t)1 << 62)	/* locked for reading, as long as the file is open */
#define NFS_TOUCHED	(NFS_HELD + 1)

static int lock_byte(const struct hdl_file *f, short type, off_t at, int how)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	struct hdl_syscall *s = how == F_OFD_SETLKW ? hdl_io_blocks_lock(f->fd, type, at, 1) : NULL;
	int err;

	do
		err = fcntl(f->fd, how, &l) ? errno : 0;
	while (err == EINTR);
	hdl_syscall_end(s);
	return err;
}

/* Makes the client write only the bytes of each write(2). Without a lock, each write is at the server when the call returns. */
static int guard_pages(struct hdl_file *f)
{
	int flags = f->amode & MPI_MODE_WRONLY ? O_WRONLY : O_RDWR, fd;

	if (f->fs != HDL_FS_NFS || f->amode & MPI_MODE_RDONLY)
		return 0;
	if (f->amode & MPI_MODE_RDWR && !lock_byte(f, F_RDLCK, NFS_HELD, F_OFD_SETLK))
		return 0;
	fd = fd_raise(open_again(f->name, flags | O_DSYNC | O_CLOEXEC, 0));
	if (fd < 0)
		return errno;
	close(f->fd);
	f->fd = fd;
	return 0;
}

/* Makes the NFS client drop cached pages and attributes of the file. */
static void forget_pages(const struct hdl_file *f)
{
	if (f->fs != HDL_FS_NFS)
		return;
	if (lock_byte(f, f->amode & MPI_MODE_WRONLY ? F_WRLCK : F_RDLCK, NFS_TOUCHED, F_OFD_SETLKW))
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
	else
		lock_byte(f, F_UNLCK, NFS_TOUCHED, F_OFD_SETLK);
}

/* Returns the directory's part of a name, to be freed. NULL: no memory. */
static char *directory_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? strndup(name, slash == name ? 1 : (size_t)(slash - name)) : strdup(".");
}

/* Opens a file that another process has created: a client of NFS may cache the absence of the file for some time, unless the open
 * creates the file. */
static int open_created(const struct hdl_file *f, int flags)
{
	char *dir = directory_of(f->name);
	struct statfs s;
	int fd = -1;

	if (dir && !statfs(dir, &s) && s.f_type == MAGIC_NFS)
		fd = open_again(f->name, flags | O_CREAT | O_CLOEXEC, 0666);
	free(dir);
	errno = fd < 0 ? ENOENT : 0;
	return fd;
}

/* MPI_MODE_DELETE_ON_CLOSE: the program may change its directory before MPI_File_close. Where the directory cannot be opened,
 * the absolute path must do. */
static void open_directory(struct hdl_file *f)
{
	char *dir = directory_of(f->name);

	if (dir)
		f->dir = fd_raise(open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
	free(dir);
}

static int delete_file(const struct hdl_file *f)
{
	const char *slash = strrchr(f->name, '/');

	return f->dir < 0 ? unlink(f->path) : unlinkat(f->dir, slash ? slash + 1 : f->name, 0);
}

#define MODE_SET	010000		/* in hdl_file.mode: beside permissions, which may be 0 */

/* Rank 0 of a file whose hint file_perm keeps its owner from opening it, as 0 or 0444 with MPI_MODE_RDWR do: the other processes
 * could not open the file that this one creates. So it is created with these permissions too, and gets file_perm when all have
 * opened it (limit_perm). */
static int create_for_all(struct hdl_file *f, int flags, mode_t perm, mode_t needed)
{
	struct stat s;
	int fd = open_again(f->name, flags | O_EXCL, perm | needed);

	if (fd < 0 && errno == EEXIST && !(flags & O_EXCL))
		return open_again(f->name, flags, perm);
	/* mode after umask(2) */
	if (fd >= 0 && !fstat(fd, &s))
		f->mode = (int)(s.st_mode & 07777 & ~(needed & ~perm)) | MODE_SET;
	return fd;
}

static int open_file_perm(struct hdl_file *f, int flags)
{
	mode_t perm = f->hints.file_perm >= 0 ? (mode_t)f->hints.file_perm : 0666;
	mode_t needed = f->amode & MPI_MODE_WRONLY ? 0200 : 0600;

	if (flags & O_CREAT && needed & ~perm)
		return create_for_all(f, flags, perm, needed);
	return open_again(f->name, flags, perm);
}

/* Gives the file that create_for_all has created its permissions. Returns an errno. */
static int limit_perm(struct hdl_file *f)
{
	mode_t mode = (mode_t)f->mode & 07777;
	bool is_set = f->mode;

	f->mode = 0;
	return is_set && fchmod(f->fd, mode) ? errno : 0;
}

/* Opens the file here, by the program's name: to reach a relative one, the process needs to search no directory above the working
 * directory. creates: as MPI_MODE_CREATE and MPI_MODE_EXCL say; else the file must exist. Returns an errno. */
static int open_here(struct hdl_file *f, bool creates)
{
	int flags = f->amode & MPI_MODE_RDONLY ? O_RDONLY : f->amode & MPI_MODE_WRONLY ? O_WRONLY : O_RDWR;
	struct hdl_syscall *call;
	struct stat s;

	if (creates && f->amode & MPI_MODE_CREATE)
		flags |= O_CREAT;
	if (creates && f->amode & MPI_MODE_EXCL)
		flags |= O_EXCL;
	if (!f->path)
		return ENOMEM;
	/* open(2) of a pipe would wait for a process that opens its other end */
	if (!stat(f->name, &s) && S_ISFIFO(s.st_mode))
		return ESPIPE;
	call = hdl_io_blocks_path("open", f->name);
	f->fd = fd_raise(open_file_perm(f, flags | O_CLOEXEC));
	if (f->fd < 0 && errno == ENOENT && !creates && f->amode & MPI_MODE_CREATE)
		f->fd = fd_raise(open_created(f, flags));
	hdl_syscall_end(call);
	if (f->fd < 0)
		return errno;
	if (fstat(f->fd, &s))
		return errno;
	if (S_ISDIR(s.st_mode))
		return EISDIR;
	if (f->fs == HDL_FS_LOCAL)
		f->fs = fs_of(f);
	if (creates && f->amode & MPI_MODE_DELETE_ON_CLOSE)
		open_directory(f);
	hdl_size_limit_read();
	return guard_pages(f);
}

/* Rank 0 opens first, and creates the file; then all others do. Collective. */
static int open_by_all(struct hdl_file *f)
{
	int err = 0, rc;

	if (!f->comm->rank)
		err = open_here(f, true);
	rc = exchange(f->comm, "", (struct part){ .error = err ? hdl_io_class(err, "open", f->name) : 0 }, NULL);
	if (rc)
		return rc;
	if (f->comm->rank)
		err = open_here(f, false);
	else if (!f->hints.cb.buffer_size)
		f->hints.cb.buffer_size = default_window(f);
	return exchange(f->comm, "", (struct part){ .error = err ? hdl_io_class(err, "open", f->name) : 0, .cb = f->hints.cb },
			&f->hints.cb);
}

/* The first view, and pointers of MPI_MODE_APPEND. Collective. */
static int open_view(struct hdl_file *f)
{
	struct hdl_type *byte = hdl_type_get(MPI_BYTE);
	int rc, err;

	if (hdl_view_make(0, byte, byte, "native", &f->view))
		hdl_out_of_memory("a view", sizeof(*f->view));
	/* hdl_shared_make: rank 0 stores 0 behind the last exchange of hdl_win_make. Without hdl_file_agree:
	 *     1. Rank 1 returns from MPI_File_open; its MPI_File_write_shared adds 8 to the pointer.
	 *     2. Rank 0 stores 0. Two processes then get the same position. */
	rc = hdl_shared_make(f);
	err = rc ? 0 : limit_perm(f);
	rc = hdl_file_agree(f, err ? hdl_io_class(err, "set the permissions of", f->path) : rc);
	if (rc || !(f->amode & MPI_MODE_APPEND))
		return rc;
	rc = hdl_file_end(f, &f->position);
	if (!rc)
		rc = hdl_shared_prepare(f, f->position);
	rc = hdl_file_agree(f, rc);
	if (!rc)
		hdl_shared_switch(f);
	return rc;
}

static void file_link(struct hdl_file *f)
{
	f->next = hdl_file_list;
	f->link = &hdl_file_list;
	if (f->next)
		f->next->link = &f->next;
	hdl_file_list = f;
}

void hdl_file_free(struct hdl_file *f)
{
	f->obj.magic = 0;
	if (f->link) {
		*f->link = f->next;
		if (f->next)
			f->next->link = f->link;
	}
	hdl_view_release(f->view);
	if (f->fd >= 0)
		close(f->fd);
	if (f->dir >= 0)
		close(f->dir);
	if (f->comm) {
		f->comm->errhandler = MPI_ERRORS_RETURN;	/* the file's, without a reference */
		hdl_comm_release(f->comm);
	}
	hdl_errhandler_release(f->errhandler);
	pthread_mutex_destroy(&f->atomic_lock);
	free(f->path);
	hdl_pool_put(&hdl_files, f);
}

int hdl_file_open(struct hdl_comm *comm, const struct hdl_open_args *args, struct hdl_file **out)
{
	struct hdl_file *f = hdl_pool_take(&hdl_files);
	char why[512] = "";
	int rc;

	*out = NULL;
	/* without these the other processes would wait for ever */
	if (!f)
		hdl_out_of_memory("a file", sizeof(*f));
	if (args->error)
		snprintf(why, sizeof(why), "%s", hdl_reason_take());
	*f = (struct hdl_file){ .obj = { HDL_MAGIC_FILE, 1 }, .fd = -1, .dir = -1, .amode = args->amode,
				.errhandler = args->errhandler, .hints = args->hints };
	hdl_errhandler_retain(f->errhandler);
	pthread_mutex_init(&f->atomic_lock, NULL);
	f->name = without_prefix(args->filename ? args->filename : "", &f->fs);
	f->path = absolute(f->name);
	if (f->path)
		f->name = f->path + strlen(f->path) - strlen(f->name);
	rc = hdl_comm_dup(comm, &f->comm);
	if (!rc) {
		/* no program has a handle of it; errors of requests are raised on it */
		f->comm->obj.magic = 0;
		snprintf(f->comm->name, sizeof(f->comm->name), "file %.*s", MPI_MAX_OBJECT_NAME - 6, f->name);
		hdl_errhandler_release(f->comm->errhandler);
		f->comm->errhandler = f->errhandler;
		if (args->error)
			hdl_reason_set("%s", why);
		rc = exchange(f->comm, "", (struct part){.error = args->error, .amode = args->amode, .cb = args->hints.cb},
			      &f->hints.cb);
	}
	if (!rc)
		rc = open_by_all(f);
	if (!rc)
		rc = open_view(f);
	if (rc) {
		snprintf(why, sizeof(why), "%s", hdl_reason_take());
		limit_perm(f);	/* the earlier error is the one that counts */
		hdl_shared_free(f);
		hdl_file_free(f);
		hdl_reason_set("%s", why);
		return rc;
	}
	file_link(f);
	*out = f;
	return MPI_SUCCESS;
}

/* fsync(2), recorded. */
static int write_back(const struct hdl_file *f)
{
	struct hdl_syscall *s = hdl_io_blocks("fsync", f->fd, 0, 0);
	int rc;

	do
		rc = fsync(f->fd);
	while (rc && errno == EINTR);
	hdl_syscall_end(s);
	return rc;
}

static int close_here(const struct hdl_file *f)
{
	struct hdl_syscall *s = hdl_io_blocks_path("close", f->path);
	int rc = close(f->fd);

	hdl_syscall_end(s);
	return rc;
}

int hdl_file_close(struct hdl_file *f)
{
	int rc = MPI_SUCCESS, freed;
	char why[512];

	hdl_file_quiet(f);
	if (f->split) {
		/* the program has not called its end */
		hdl_req_wait(f->split);
		hdl_req_free(f->split);
	}
	if (f->fs == HDL_FS_NFS && !(f->amode & MPI_MODE_RDONLY) && write_back(f))
		rc = hdl_io_class(errno, "write back", f->path);
	/* a file system may report at close(2) that an earlier write failed (NFS: ENOSPC, EDQUOT) */
	if (close_here(f) && !rc)
		rc = hdl_io_class(errno, "close", f->path);
	f->fd = -1;
	rc = hdl_file_agree(f, rc);
	if (f->amode & MPI_MODE_DELETE_ON_CLOSE && !f->comm->rank && delete_file(f) && !rc)
		rc = hdl_io_class(errno, "delete", f->path);
	snprintf(why, sizeof(why), "%s", hdl_reason_take());
	freed = hdl_shared_free(f);
	if (rc)
		hdl_reason_set("%s", why);
	return rc ? rc : freed;
}

int hdl_file_delete(const char *filename)
{
	enum hdl_fs fs;

	filename = without_prefix(filename, &fs);
	return unlink(filename) ? hdl_io_class(errno, "delete", filename) : MPI_SUCCESS;
}

/* ---- sizes --------------------------------------------------------------------------------------------------------- */

int hdl_file_size(struct hdl_file *f, MPI_Offset *size)
{
	struct stat s;

	forget_pages(f);
	if (fstat(f->fd, &s))
		return hdl_io_class(errno, "get the size of", f->path);
	*size = s.st_size;
	return MPI_SUCCESS;
}

int hdl_file_end(struct hdl_file *f, MPI_Offset *position)
{
	MPI_Offset size = 0;
	MPI_Count each = f->view->esize;
	int rc = hdl_file_size(f, &size);

	if (!rc)
		*position = (hdl_view_bytes_before(f->view, size) + each - 1) / each * each;
	return rc;
}

/* Rank 0 changes the size when all processes are there, and each returns when that is done. */
static int file_resize(struct hdl_file *f, MPI_Offset size, int error, int (*change)(int fd, MPI_Offset size), const char *what)
{
	int err, rc = exchange(f->comm, "size", (struct part){ .value = size, .error = error }, NULL);

	if (rc)
		return rc;
	err = f->comm->rank ? 0 : change(f->fd, size);
	rc = hdl_file_agree(f, err ? hdl_io_class(err, what, f->path) : 0);
	forget_pages(f);
	return rc;
}

static int change_size(int fd, MPI_Offset size)
{
	int err = hdl_size_limit_check(fd, size);

	struct hdl_syscall *s;

	if (err)
		return err;
	s = hdl_io_blocks("ftruncate", fd, 0, 0);
	do
		err = ftruncate(fd, size) ? errno : 0;
	while (err == EINTR);
	hdl_syscall_end(s);
	return err;
}

static int change_space(int fd, MPI_Offset size)
{
	int err = hdl_size_limit_check(fd, size);

	struct hdl_syscall *s;

	if (err || !size)
		return err;
	s = hdl_io_blocks("fallocate", fd, 0, size);
	do
		err = posix_fallocate(fd, 0, size);
	while (err == EINTR);
	hdl_syscall_end(s);
	return err;
}

int hdl_file_set_size(struct hdl_file *f, MPI_Offset size, int error)
{
	return file_resize(f, size, error, change_size, "set the size of");
}

int hdl_file_preallocate(struct hdl_file *f, MPI_Offset size, int error)
{
	return file_resize(f, size, error, change_space, "allocate space for");
}

/* Returns true if fsync(2) has refused a device that has nothing to write back. */
static bool is_unsynced(const struct hdl_file *f, int err)
{
	struct stat s;
	bool device = err == EINVAL && !fstat(f->fd, &s) && S_ISCHR(s.st_mode);

	errno = err;
	return device;
}

int hdl_file_sync(struct hdl_file *f)
{
	int rc = MPI_SUCCESS;

	hdl_file_quiet(f);
	/* a descriptor for reading alone has nothing to write back; some file systems refuse it */
	if (!(f->amode & MPI_MODE_RDONLY) && write_back(f) && !is_unsynced(f, errno))
		rc = hdl_io_class(errno, "write back", f->path);
	forget_pages(f);
	return hdl_file_agree(f, rc);
}

/* ---- views and modes ----------------------------------------------------------------------------------------------- */

/* Section 14.3: the data representation, and the extent of the etype in it, must be the same at all processes. So must the size:
 * the shared file pointer counts etypes, and is kept in bytes of data. */
int hdl_file_set_view(struct hdl_file *f, struct hdl_view *v, int error)
{
	struct part mine = { .error = error ? error : hdl_shared_prepare(f, 0) };
	int rc;

	if (v) {
		mine.value = v->esize;
		mine.extent = v->extent;
		mine.datarep = fnv1a_64_string(v->datarep);
	}
	rc = exchange(f->comm, "the size of the etype", mine, NULL);
	if (rc) {
		hdl_view_release(v);
		return rc;
	}
	hdl_shared_switch(f);
	hdl_view_release(f->view);
	f->view = v;
	f->position = 0;
	return MPI_SUCCESS;
}

int hdl_file_seek_shared_begin(struct hdl_file *f, MPI_Offset offset, int whence, MPI_Offset *now)
{
	int rc = exchange(f->comm, "whence", (struct part){ .value = whence }, NULL);

	if (!rc)
		rc = exchange(f->comm, "offset", (struct part){ .value = offset }, NULL);
	return rc ? rc : hdl_shared_add(f, 0, now);
}

int hdl_file_seek_shared_end(struct hdl_file *f, MPI_Offset position, int error)
{
	int rc = error ? error : hdl_shared_prepare(f, position);

	rc = hdl_file_agree(f, rc);
	if (!rc)
		hdl_shared_switch(f);
	return rc;
}

/* Asks whether the file system has locks of ranges. Returns an errno. */
static int probe_locks(int fd)
{
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	return fcntl(fd, F_OFD_GETLK, &l) ? errno : 0;
}

int hdl_file_set_atomicity(struct hdl_file *f, bool atomic)
{
	int err = atomic ? probe_locks(f->fd) : 0;
	int rc =
		exchange(f->comm, "the flag",
			 (struct part){.value = atomic, .error = err ? hdl_io_class(err, "lock ranges of", f->path) : 0}, NULL);

	hdl_file_quiet(f);
	if (!rc)
		f->atomic = atomic;
	return rc;
}

/* ---- the end ------------------------------------------------------------------------------------------------------- */

void hdl_io_fini(void)
{
	/* files that the program has not closed: without the other processes */
	for (struct hdl_file *f = hdl_file_list; f; f = f->next)
		hdl_file_quiet(f);
	hdl_collective_fini();
	hdl_pool_threads_end();
	while (hdl_file_list) {
		struct hdl_file *f = hdl_file_list;

		hdl_file_free(f);	/* hdl_rma_fini frees the window of the shared pointer */
	}
	hdl_pool_fini(&hdl_files);
	hdl_datarep_fini();
}
