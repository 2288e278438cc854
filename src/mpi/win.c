/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows (MPI-5.0 section 12.2): creation, memory, info, names, group, the end; errors of windows. */
#include "mpi/attr.h"
#include "mpi/info.h"
#include "mpi/win.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------------------ */

int hdl_win_raise(struct hdl_win *w, int class, const char *call, const char *fmt, ...)
{
	char text[MPI_MAX_ERROR_STRING];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return hdl_errhandler_call_win(w, hdl_error_code(class, call, text));
}

int hdl_win_raise_class(struct hdl_win *w, int class, const char *call)
{
	return hdl_errhandler_call_win(w, hdl_error_code(class, call, hdl_reason_take()));
}

int hdl_bad_win(const char *call, MPI_Win handle)
{
	hdl_check_active(call);
	if (handle == MPI_WIN_NULL)
		return hdl_raise(NULL, MPI_ERR_WIN, call, "invalid win: MPI_WIN_NULL");
	return hdl_raise(NULL, MPI_ERR_WIN, call, "invalid win: handle %p is none, or was freed", (void *)handle);
}

int hdl_win_bad_epoch(struct hdl_win *w, const char *call)
{
	return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call, "not allowed now: %s", hdl_epoch_text(w->epoch, w->exposed));
}

int hdl_win_bad_rank(struct hdl_win *w, const char *call, const char *arg, int rank)
{
	return hdl_win_raise(w, MPI_ERR_RANK, call, "invalid %s %d%s: the window has %d rank%s (0..%d)", arg, rank,
			     rank == MPI_PROC_NULL ? " (MPI_PROC_NULL)" : "", w->size, w->size == 1 ? "" : "s", w->size - 1);
}

/* ---- info -------------------------------------------------------------------------------------------------- */

static const struct {
	const char *key;
	unsigned hint;
} flags[] = {
	{ "no_locks", HDL_WIN_NO_LOCKS }, { "same_size", HDL_WIN_SAME_SIZE }, { "same_disp_unit", HDL_WIN_SAME_DISP_UNIT },
	{ "alloc_shared_noncontig", HDL_WIN_NONCONTIG },
};

/* Hints that count at creation only: by then memory is allocated, or sizes were compared. */
#define AT_CREATION ((unsigned)(HDL_WIN_SAME_SIZE | HDL_WIN_SAME_DISP_UNIT | HDL_WIN_NONCONTIG))

static unsigned win_hints_of(const struct hdl_info *info, unsigned hints)
{
	const char *value;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		value = hdl_info_value(info, flags[i].key);
		if (value && !strcmp(value, "true"))
			hints |= flags[i].hint;
		else if (value && !strcmp(value, "false"))
			hints &= ~flags[i].hint;
	}
	value = hdl_info_value(info, "accumulate_ops");
	if (value && !strcmp(value, "same_op"))
		hints |= HDL_WIN_SAME_OP;
	else if (value && !strcmp(value, "same_op_no_op"))
		hints &= ~(unsigned)HDL_WIN_SAME_OP;
	value = hdl_info_value(info, "accumulate_ordering");
	if (value && !strcmp(value, "none"))
		hints |= HDL_WIN_ORDER_NONE;
	else if (value)
		hints &= ~(unsigned)HDL_WIN_ORDER_NONE;
	return hints;
}

/* Returns the bytes that mpi_accumulate_granularity asks for; 0: none. */
static long long granularity_of(const struct hdl_info *info)
{
	const char *value = hdl_info_value(info, "mpi_accumulate_granularity");
	long long bytes;
	char *end;

	if (!value)
		return 0;
	errno = 0;
	bytes = strtoll(value, &end, 10);
	return errno || *end || bytes < 0 ? 0 : bytes;
}

int PMPI_Win_set_info(MPI_Win win, MPI_Info info)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_set_info";
	struct hdl_win *w = hdl_win_get(win);
	const struct hdl_info *given;
	int rc;

	if (!w)
		return hdl_bad_win(call, win);
	rc = hdl_info_arg(NULL, call, info, &given);
	if (!rc)
		w->hints = (win_hints_of(given, w->hints) & ~AT_CREATION) | (w->hints & AT_CREATION);
	return rc;
}
HDL_PROFILED(Win_set_info);

int PMPI_Win_get_info(MPI_Win win, MPI_Info *info_used)
{
	HDL_LOCKED;
	HDL_GIVES(info_used);
	static const char call[] = "MPI_Win_get_info";
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_info *info;
	char bytes[24];
	bool good;

	if (!w)
		return hdl_bad_win(call, win);
	if (!info_used)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid info_used: it is a null pointer");
	info = hdl_info_new();
	snprintf(bytes, sizeof(bytes), "%lld", w->granularity);
	good = info && hdl_info_set(info, "mpi_memory_alloc_kinds", HDL_MEMORY_KINDS) &&
	       hdl_info_set(info, "mpi_accumulate_granularity", bytes);
	for (size_t i = 0; good && i < ARRAY_SIZE(flags); i++)
		if (flags[i].hint != HDL_WIN_NONCONTIG || w->flavor == MPI_WIN_FLAVOR_SHARED)
			good = hdl_info_set(info, flags[i].key, w->hints & flags[i].hint ? "true" : "false");
	good = good && hdl_info_set(info, "accumulate_ops", w->hints & HDL_WIN_SAME_OP ? "same_op" : "same_op_no_op") &&
	       hdl_info_set(info, "accumulate_ordering", w->hints & HDL_WIN_ORDER_NONE ? "none" : "rar,raw,war,waw");
	if (!good) {
		if (info)
			hdl_info_free(info);
		return hdl_win_raise(w, MPI_ERR_NO_MEM, call, "out of memory for an info object");
	}
	*info_used = hdl_info_handle(info);
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_get_info);

void hdl_win_help(struct hdl_win *w)
{
	if (w->helped && !w->begun && (hdl_threads || !hdl_attrs_run))
		hdl_rma_begun(w);
}

/* ---- creation ---------------------------------------------------------------------------------------------- */

/* Checks the arguments that a member may have wrong alone. Returns an error class with hdl_reason_set. */
static int win_check(const struct hdl_win_args *args, const struct hdl_info *given, long *align)
{
	if (args->size < 0) {
		hdl_reason_set("invalid size %lld: it must not be negative", (long long)args->size);
		return MPI_ERR_SIZE;
	}
	if (args->disp_unit <= 0) {
		hdl_reason_set("invalid disp_unit %lld: it must be positive", (long long)args->disp_unit);
		return MPI_ERR_DISP;
	}
	if (args->flavor == MPI_WIN_FLAVOR_CREATE && args->size && !args->base) {
		hdl_reason_set("invalid base: a null pointer, and size is %lld", (long long)args->size);
		return MPI_ERR_BASE;
	}
	*align = 1;
	return args->flavor == MPI_WIN_FLAVOR_ALLOCATE || args->flavor == MPI_WIN_FLAVOR_SHARED ?
	       hdl_info_alignment(given, align) : MPI_SUCCESS;
}

/* Makes the checks that all constructors share, and creates the window. baseptr NULL: none is returned. */
static int win_make(const char *call, struct hdl_win_args *args, MPI_Info info, MPI_Comm comm, bool gives_base, void *baseptr,
		    MPI_Win *win)
{
	struct hdl_comm *c = hdl_intracomm_get(comm);
	const struct hdl_info *given;
	struct hdl_win *w;
	int rc;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	rc = hdl_info_arg(c, call, info, &given);
	if (rc)
		return rc;
	if (!win || (gives_base && !baseptr))
		return hdl_null_arg(c, call, win ? "baseptr" : "win");
	/* all members fail together: those with valid arguments would wait for this one */
	args->error = win_check(args, given, &args->align);
	args->size = args->error ? 0 : args->size;
	args->hints = win_hints_of(given, 0);
	args->granularity = granularity_of(given);
	args->errhandler = MPI_ERRORS_ARE_FATAL;
	hdl_call = call;
	rc = hdl_win_make(c, args, &w);
	if (rc)
		return hdl_raise_class(c, rc, call);
	if (gives_base)
		*(void **)baseptr = w->base;
	*win = (MPI_Win)w;
	hdl_win_help(w);
	return MPI_SUCCESS;
}

#define CONSTRUCTORS(_c, unit)											\
int PMPI_Win_create##_c(void *base, MPI_Aint size, unit disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(win);												\
	struct hdl_win_args args = { .flavor = MPI_WIN_FLAVOR_CREATE, .base = base, .size = size, .disp_unit = disp_unit };	\
														\
	return win_make("MPI_Win_create" #_c, &args, info, comm, false, NULL, win);				\
}														\
HDL_PROFILED(Win_create##_c);											\
														\
int PMPI_Win_allocate##_c(MPI_Aint size, unit disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(win);												\
	struct hdl_win_args args = { .flavor = MPI_WIN_FLAVOR_ALLOCATE, .size = size, .disp_unit = disp_unit };	\
														\
	return win_make("MPI_Win_allocate" #_c, &args, info, comm, true, baseptr, win);				\
}														\
HDL_PROFILED(Win_allocate##_c);											\
														\
int PMPI_Win_allocate_shared##_c(MPI_Aint size, unit disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(win);												\
	struct hdl_win_args args = { .flavor = MPI_WIN_FLAVOR_SHARED, .size = size, .disp_unit = disp_unit };	\
														\
	return win_make("MPI_Win_allocate_shared" #_c, &args, info, comm, true, baseptr, win);			\
}														\
HDL_PROFILED(Win_allocate_shared##_c);
CONSTRUCTORS(, int)
CONSTRUCTORS(_c, MPI_Aint)

int PMPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
	HDL_LOCKED;
	HDL_GIVES(win);
	struct hdl_win_args args = { .flavor = MPI_WIN_FLAVOR_DYNAMIC, .disp_unit = 1 };

	return win_make("MPI_Win_create_dynamic", &args, info, comm, false, NULL, win);
}
HDL_PROFILED(Win_create_dynamic);

static int not_dynamic(struct hdl_win *w, const char *call)
{
	return hdl_win_raise(w, MPI_ERR_RMA_FLAVOR, call, "invalid win: it was not made by MPI_Win_create_dynamic");
}

int PMPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_attach";
	struct hdl_win *w = hdl_win_get(win);
	int rc;

	if (!w)
		return hdl_bad_win(call, win);
	if (!w->dynamic)
		return not_dynamic(w, call);
	if (size < 0)
		return hdl_win_raise(w, MPI_ERR_SIZE, call, "invalid size %lld: it must not be negative", (long long)size);
	if (size && !base)
		return hdl_win_raise(w, MPI_ERR_BASE, call, "invalid base: a null pointer, and size is %lld", (long long)size);
	rc = hdl_win_attach(w, base, size);
	return rc ? hdl_win_raise_class(w, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Win_attach);

int PMPI_Win_detach(MPI_Win win, const void *base)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_detach";
	struct hdl_win *w = hdl_win_get(win);
	int rc;

	if (!w)
		return hdl_bad_win(call, win);
	if (!w->dynamic)
		return not_dynamic(w, call);
	rc = hdl_win_detach(w, base);
	return rc ? hdl_win_raise_class(w, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Win_detach);

/* Section 12.2.3: of windows whose memory is not shared the result is size 0 and a null pointer. MPI_PROC_NULL: the lowest rank
 * with memory. */
static int shared_query(const char *call, MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit, void *baseptr)
{
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_target *t;

	if (!w)
		return hdl_bad_win(call, win);
	if (rank != MPI_PROC_NULL && (rank < 0 || rank >= w->size))
		return hdl_win_bad_rank(w, call, "rank", rank);
	if (!size || !disp_unit || !baseptr)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid size, disp_unit or baseptr: it is a null pointer");
	*size = 0;
	*disp_unit = 1;
	*(void **)baseptr = NULL;
	if (w->dynamic)
		return MPI_SUCCESS;
	for (int r = 0; rank == MPI_PROC_NULL && r < w->size; r++)
		if (w->record[r].size)
			rank = r;
	if (rank == MPI_PROC_NULL)
		return MPI_SUCCESS;
	t = hdl_target_of(w, rank);
	if (!t)
		return hdl_win_raise(w, MPI_ERR_NO_MEM, call, "out of memory for a rank of a window");
	if (t->lane == HDL_LANE_MAPPED) {
		*size = (MPI_Aint)t->size;
		*disp_unit = t->disp_unit;
		*(void **)baseptr = t->memory;
	}
	return MPI_SUCCESS;
}

int PMPI_Win_shared_query(MPI_Win win, int rank, MPI_Aint *size, int *disp_unit, void *baseptr)
{
	HDL_LOCKED;
	MPI_Aint unit = 0;
	int rc = shared_query("MPI_Win_shared_query", win, rank, size, disp_unit ? &unit : NULL, baseptr);

	if (!rc)
		*disp_unit = (int)unit;
	return rc;
}
HDL_PROFILED(Win_shared_query);

int PMPI_Win_shared_query_c(MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit, void *baseptr)
{
	HDL_LOCKED;
	return shared_query("MPI_Win_shared_query_c", win, rank, size, disp_unit, baseptr);
}
HDL_PROFILED(Win_shared_query_c);

int PMPI_Win_free(MPI_Win *win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_free";
	MPI_Errhandler errhandler;
	struct hdl_win *w;
	int rc;

	hdl_check_active(call);
	if (!win)
		return hdl_null_arg(NULL, call, "win");
	if (!(w = hdl_win_get(*win)))
		return hdl_bad_win(call, *win);
	if (hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_FREE) < 0)
		return hdl_win_bad_epoch(w, call);
	hdl_call = call;
	rc = hdl_attrs_delete(HDL_ATTR_WIN, *win, &w->attrs);
	if (rc)
		return hdl_errhandler_call_win(w, rc > MPI_ERR_ABI ? rc : hdl_error_code(rc, call, hdl_reason_take()));
	errhandler = w->errhandler;
	rc = hdl_win_end(w);
	*win = MPI_WIN_NULL;
	if (!rc)
		return MPI_SUCCESS;
	/* the window is gone: a handler of the program cannot be called with it */
	if (errhandler == MPI_ERRORS_ARE_FATAL || errhandler == MPI_ERRORS_ABORT)
		return hdl_raise_class_by(errhandler, rc, call);
	return hdl_error_code(rc, call, hdl_reason_take());
}
HDL_PROFILED(Win_free);

int PMPI_Win_get_group(MPI_Win win, MPI_Group *group)
{
	HDL_LOCKED;
	HDL_GIVES(group);
	static const char call[] = "MPI_Win_get_group";
	struct hdl_win *w = hdl_win_get(win);

	if (!w)
		return hdl_bad_win(call, win);
	if (!group)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid group: it is a null pointer");
	return hdl_group_return(call, hdl_group_retain(w->comm->group), group);
}
HDL_PROFILED(Win_get_group);

/* ---- names ------------------------------------------------------------------------------------------------- */

int PMPI_Win_set_name(MPI_Win win, const char *win_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_set_name";
	struct hdl_win *w = hdl_win_get(win);

	if (!w)
		return hdl_bad_win(call, win);
	if (!win_name)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid win_name: it is a null pointer");
	snprintf(w->name, sizeof(w->name), "%s", win_name);
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_set_name);

int PMPI_Win_get_name(MPI_Win win, char *win_name, int *resultlen)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_get_name";
	struct hdl_win *w = hdl_win_get(win);
	const char *name;

	/* section 7.8: the null handle has a name */
	if (!w && win != MPI_WIN_NULL)
		return hdl_bad_win(call, win);
	if (!win_name || !resultlen)
		return w ? hdl_win_raise(w, MPI_ERR_ARG, call, "invalid win_name or resultlen: it is a null pointer") :
			   hdl_null_arg(NULL, call, win_name ? "resultlen" : "win_name");
	name = w ? w->name : "MPI_WIN_NULL";
	strcpy(win_name, name);
	*resultlen = (int)strlen(name);
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_get_name);
