/* SPDX-License-Identifier: BSD-3-Clause */
/* Files (MPI-5.0 sections 14.2, 14.6): open, close, delete, sizes, group, access mode, info, atomicity, sync; errors of files. */
#include "mpi/file.h"
#include "mpi/errhandler.h"
#include "mpi/info.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------------------ */

int hdl_file_raise(struct hdl_file *f, int class, const char *call, const char *fmt, ...)
{
	char text[MPI_MAX_ERROR_STRING];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return f ? hdl_errhandler_call_on_file(f, hdl_error_code(class, call, text)) :
		   hdl_errhandler_call_file(hdl_error_code(class, call, text));
}

int hdl_file_raise_class(struct hdl_file *f, int class, const char *call)
{
	int code = hdl_error_code(class, call, hdl_reason_take());

	return f ? hdl_errhandler_call_on_file(f, code) : hdl_errhandler_call_file(code);
}

int hdl_bad_file(const char *call, MPI_File handle)
{
	hdl_check_active(call);
	if (handle == MPI_FILE_NULL)
		return hdl_file_raise(NULL, MPI_ERR_FILE, call, "invalid fh: MPI_FILE_NULL");
	return hdl_file_raise(NULL, MPI_ERR_FILE, call, "invalid fh: handle %p is none, or was closed", (void *)handle);
}

int hdl_file_null_arg(struct hdl_file *f, const char *call, const char *arg)
{
	return hdl_file_raise(f, MPI_ERR_ARG, call, "invalid %s: it is a null pointer", arg);
}

int hdl_file_find_random(MPI_File handle, const char *call, struct hdl_file **f)
{
	*f = hdl_file_get(handle);
	if (!*f)
		return hdl_bad_file(call, handle);
	if (likely(!((*f)->amode & MPI_MODE_SEQUENTIAL)))
		return MPI_SUCCESS;
	return hdl_file_raise(*f, MPI_ERR_UNSUPPORTED_OPERATION, call, "not allowed with MPI_MODE_SEQUENTIAL");
}

/* ---- info -------------------------------------------------------------------------------------------------- */

static const char *const choices[] = { [HDL_CB_AUTOMATIC] = "automatic", [HDL_CB_ALWAYS] = "true", [HDL_CB_NEVER] = "false" };

/* Reads a number of at least `least`; a larger one than `most` counts as `most`. Returns false, and changes nothing, for another
 * value, which is ignored, and for none. */
static bool hint_number(const struct hdl_info *info, const char *key, int64_t least, int64_t most, int64_t *number)
{
	const char *value = hdl_info_value(info, key);
	char *end;
	long long n;

	if (!value)
		return false;
	errno = 0;
	n = strtoll(value, &end, 10);
	if (errno || end == value || *end || n < least)
		return false;
	*number = n < most ? n : most;
	return true;
}

/* Of a buffer that the library allocates, and of a striping unit: a file domain begins at a multiple. */
#define BUFFER_MAX	((int64_t)1 << 30)
#define STRIPE_MAX	((int64_t)1 << 40)

/* Another value, and none, change nothing. */
static void hint_choice(const struct hdl_info *info, const char *key, enum hdl_cb *choice)
{
	const char *value = hdl_info_value(info, key);

	for (size_t i = 0; value && i < ARRAY_SIZE(choices); i++)
		if (!strcmp(value, choices[i]))
			*choice = (enum hdl_cb)i;
}

static void hints_of(const struct hdl_info *info, struct hdl_io_hints *h)
{
	enum hdl_cb choice = (enum hdl_cb)h->cb.buffering;
	const char *value = hdl_info_value(info, "file_perm");
	int64_t nodes;
	char *end;
	long mode;

	if (value) {
		mode = strtol(value, &end, 8);
		if (end != value && !*end && mode >= 0 && mode <= 07777)
			h->file_perm = (int)mode;
	}
	value = hdl_info_value(info, "access_style");
	if (value)
		snprintf(h->access_style, sizeof(h->access_style), "%s", value);
	hint_number(info, "ind_rd_buffer_size", 4096, BUFFER_MAX, &h->ind_rd_buffer_size);
	hint_number(info, "cb_buffer_size", 4096, BUFFER_MAX, &h->cb.buffer_size);
	hint_number(info, "striping_unit", 1, STRIPE_MAX, &h->cb.striping_unit);
	hint_number(info, "striping_factor", 1, INT_MAX, &h->cb.striping_factor);
	if (hint_number(info, "cb_nodes", 1, INT_MAX, &nodes))
		h->cb.nodes = (int32_t)nodes;
	hint_choice(info, "collective_buffering", &choice);
	h->cb.buffering = (int32_t)choice;
	hint_choice(info, "heddle_overlap", &h->overlap);
}

int hdl_file_info(MPI_Info handle, struct hdl_io_hints *h)
{
	const struct hdl_info *info;

	if (!hdl_info_find(handle, &info)) {
		hdl_reason_set("invalid info: handle %p is none, or was freed", (void *)handle);
		return MPI_ERR_INFO;
	}
	if (h)
		hints_of(info, h);
	return MPI_SUCCESS;
}

int PMPI_File_set_info(MPI_File fh, MPI_Info info)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_set_info";
	struct hdl_file *f = hdl_file_get(fh);
	struct hdl_io_hints hints;
	int rc;

	if (!f)
		return hdl_bad_file(call, fh);
	hdl_call = call;
	hints = f->hints;
	rc = hdl_file_set_hints(f, &hints, hdl_file_info(info, &hints));
	return rc ? hdl_file_raise_class(f, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(File_set_info);

static bool set_number(struct hdl_info *info, const char *key, long long n)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", n);
	return hdl_info_set(info, key, text);
}

/* Sets the hints in use. Returns false without memory. */
static bool set_hints(struct hdl_info *info, struct hdl_file *f)
{
	const struct hdl_io_hints *h = &f->hints;
	char mode[16];

	if (h->file_perm >= 0) {
		snprintf(mode, sizeof(mode), "%04o", (unsigned)h->file_perm);
		if (!hdl_info_set(info, "file_perm", mode))
			return false;
	}
	if (h->access_style[0] && !hdl_info_set(info, "access_style", h->access_style))
		return false;
	if (h->cb.striping_factor && !set_number(info, "striping_factor", h->cb.striping_factor))
		return false;
	return hdl_info_set(info, "collective_buffering", choices[h->cb.buffering]) &&
	       hdl_info_set(info, "heddle_overlap", choices[h->overlap]) &&
	       set_number(info, "cb_nodes", hdl_file_aggregators(f)) && set_number(info, "cb_buffer_size", h->cb.buffer_size) &&
	       set_number(info, "striping_unit", h->cb.striping_unit) &&
	       hdl_info_set(info, "heddle_file_system", hdl_fs_name(f->fs)) && hdl_info_set(info, "filename", f->name) &&
	       set_number(info, "nb_proc", f->comm->size) && set_number(info, "ind_rd_buffer_size", h->ind_rd_buffer_size) &&
	       hdl_info_set(info, "mpi_memory_alloc_kinds", HDL_MEMORY_KINDS);
}

int PMPI_File_get_info(MPI_File fh, MPI_Info *info_used)
{
	HDL_LOCKED;
	HDL_GIVES(info_used);
	static const char call[] = "MPI_File_get_info";
	struct hdl_file *f = hdl_file_get(fh);
	struct hdl_info *info;

	if (!f)
		return hdl_bad_file(call, fh);
	if (!info_used)
		return hdl_file_null_arg(f, call, "info_used");
	info = hdl_info_new();
	if (!info || !set_hints(info, f)) {
		hdl_info_free(info);
		return hdl_file_raise(f, MPI_ERR_NO_MEM, call, "out of memory for an info object");
	}
	*info_used = hdl_info_handle(info);
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_info);

/* ---- open, close, delete ------------------------------------------------------------------------------------ */

#define ACCESS_MODES	(MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_WRONLY)
#define ALL_MODES	(ACCESS_MODES | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_UNIQUE_OPEN | \
			 MPI_MODE_SEQUENTIAL | MPI_MODE_APPEND)

/* Section 14.2.1. Returns a class with the reason. */
static int check_amode(int amode)
{
	int access = amode & ACCESS_MODES;

	if (amode & ~ALL_MODES)
		hdl_reason_set("invalid amode %d: bits %#x are none of MPI_MODE_*", amode, (unsigned)(amode & ~ALL_MODES));
	else if (!access || !is_pow2((uint64_t)access))
		hdl_reason_set("invalid amode %d: exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY is needed",
			       amode);
	else if (amode & MPI_MODE_RDONLY && amode & (MPI_MODE_CREATE | MPI_MODE_EXCL))
		hdl_reason_set("invalid amode %d: MPI_MODE_CREATE or MPI_MODE_EXCL with MPI_MODE_RDONLY", amode);
	else if (amode & MPI_MODE_RDWR && amode & MPI_MODE_SEQUENTIAL)
		hdl_reason_set("invalid amode %d: MPI_MODE_RDWR with MPI_MODE_SEQUENTIAL", amode);
	else
		return MPI_SUCCESS;
	return MPI_ERR_AMODE;
}

static int check_filename(const char *filename)
{
	if (filename && *filename)
		return MPI_SUCCESS;
	hdl_reason_set("invalid filename: %s", filename ? "it is empty" : "it is a null pointer");
	return filename ? MPI_ERR_BAD_FILE : MPI_ERR_ARG;
}

int PMPI_File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh)
{
	HDL_LOCKED;
	HDL_GIVES(fh);
	static const char call[] = "MPI_File_open";
	struct hdl_open_args args = { .filename = filename, .amode = amode, .errhandler = hdl_errhandler_of_files };
	struct hdl_comm *c = hdl_intracomm_get(comm);
	struct hdl_file *f;
	int rc;

	hdl_check_active(call);
	if (!c)
		return hdl_file_raise(NULL, MPI_ERR_COMM, call, "invalid comm: %s",
				      hdl_comm_get(comm) ? "it is an intercommunicator" : "the handle is none, or was freed");
	hdl_io_hints_init(&args.hints);
	args.error = check_amode(amode);
	if (!args.error)
		args.error = check_filename(filename);
	if (!args.error)
		args.error = hdl_file_info(info, &args.hints);
	if (!args.error && !fh) {
		hdl_reason_set("invalid fh: it is a null pointer");
		args.error = MPI_ERR_ARG;
	}
	hdl_call = call;
	rc = hdl_file_open(c, &args, &f);
	if (rc)
		return hdl_file_raise_class(NULL, rc, call);
	*fh = (MPI_File)f;
	return MPI_SUCCESS;
}
HDL_PROFILED(File_open);

int PMPI_File_close(MPI_File *fh)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_close";
	struct hdl_file *f;
	int rc;

	hdl_check_active(call);
	if (!fh)
		return hdl_file_null_arg(NULL, call, "fh");
	/* fd: the error handler of the file that is being closed calls this function */
	if (!(f = hdl_file_get(*fh)) || f->fd < 0)
		return hdl_bad_file(call, *fh);
	hdl_call = call;
	rc = hdl_file_close(f);
	*fh = MPI_FILE_NULL;
	if (rc)
		rc = hdl_file_raise_class(f, rc, call);
	hdl_file_free(f);
	return rc;
}
HDL_PROFILED(File_close);

int PMPI_File_delete(const char *filename, MPI_Info info)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_delete";
	int rc;

	hdl_check_active(call);
	rc = check_filename(filename);
	if (!rc)
		rc = hdl_file_info(info, NULL);
	if (!rc)
		rc = hdl_file_delete(filename);
	return rc ? hdl_file_raise_class(NULL, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(File_delete);

/* ---- size ---------------------------------------------------------------------------------------------------- */

static int file_size_change(const char *call, MPI_File fh, MPI_Offset size,
			    int (*change)(struct hdl_file *f, MPI_Offset size, int error))
{
	struct hdl_file *f;
	int rc = hdl_file_find_random(fh, call, &f);

	if (rc)
		return rc;
	if (size < 0) {
		hdl_reason_set("invalid size %lld: it must not be negative", (long long)size);
		rc = MPI_ERR_ARG;
	} else if (f->amode & MPI_MODE_RDONLY) {
		hdl_reason_set("the file was opened with MPI_MODE_RDONLY");
		rc = MPI_ERR_READ_ONLY;
	}
	hdl_call = call;
	rc = change(f, size, rc);
	return rc ? hdl_file_raise_class(f, rc, call) : MPI_SUCCESS;
}

int PMPI_File_set_size(MPI_File fh, MPI_Offset size)
{
	HDL_LOCKED;

	return file_size_change("MPI_File_set_size", fh, size, hdl_file_set_size);
}
HDL_PROFILED(File_set_size);

int PMPI_File_preallocate(MPI_File fh, MPI_Offset size)
{
	HDL_LOCKED;

	return file_size_change("MPI_File_preallocate", fh, size, hdl_file_preallocate);
}
HDL_PROFILED(File_preallocate);

int PMPI_File_get_size(MPI_File fh, MPI_Offset *size)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_get_size";
	struct hdl_file *f = hdl_file_get(fh);
	int rc;

	if (!f)
		return hdl_bad_file(call, fh);
	if (!size)
		return hdl_file_null_arg(f, call, "size");
	rc = hdl_file_size(f, size);
	return rc ? hdl_file_raise_class(f, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(File_get_size);

/* ---- the rest -------------------------------------------------------------------------------------------------- */

int PMPI_File_get_group(MPI_File fh, MPI_Group *group)
{
	HDL_LOCKED;
	HDL_GIVES(group);
	static const char call[] = "MPI_File_get_group";
	struct hdl_file *f = hdl_file_get(fh);

	if (!f)
		return hdl_bad_file(call, fh);
	if (!group)
		return hdl_file_null_arg(f, call, "group");
	return hdl_group_return(call, hdl_group_retain(f->comm->group), group);
}
HDL_PROFILED(File_get_group);

int PMPI_File_get_amode(MPI_File fh, int *amode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_get_amode";
	struct hdl_file *f = hdl_file_get(fh);

	if (!f)
		return hdl_bad_file(call, fh);
	if (!amode)
		return hdl_file_null_arg(f, call, "amode");
	*amode = f->amode;
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_amode);

int PMPI_File_set_atomicity(MPI_File fh, int flag)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_set_atomicity";
	struct hdl_file *f = hdl_file_get(fh);
	int rc;

	if (!f)
		return hdl_bad_file(call, fh);
	hdl_call = call;
	rc = hdl_file_set_atomicity(f, flag);
	return rc ? hdl_file_raise_class(f, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(File_set_atomicity);

int PMPI_File_get_atomicity(MPI_File fh, int *flag)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_get_atomicity";
	struct hdl_file *f = hdl_file_get(fh);

	if (!f)
		return hdl_bad_file(call, fh);
	if (!flag)
		return hdl_file_null_arg(f, call, "flag");
	*flag = f->atomic;
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_atomicity);

int PMPI_File_sync(MPI_File fh)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_sync";
	struct hdl_file *f = hdl_file_get(fh);
	int rc;

	if (!f)
		return hdl_bad_file(call, fh);
	hdl_call = call;
	rc = hdl_file_sync(f);
	return rc ? hdl_file_raise_class(f, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(File_sync);
