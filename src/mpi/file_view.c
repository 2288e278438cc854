/* SPDX-License-Identifier: BSD-3-Clause */
/* Views and file pointers (MPI-5.0 sections 14.3, 14.4.3, 14.4.4, 14.5). */
#include "mpi/file.h"

#include <string.h>

/* ---- views --------------------------------------------------------------------------------------------------- */

/* Finds a committed type. Returns an error class with the reason. */
static int view_type_of(const char *arg, MPI_Datatype handle, struct hdl_type **type)
{
	*type = hdl_type_get(handle);
	if (*type && (*type)->committed)
		return MPI_SUCCESS;
	hdl_reason_set("invalid %s: %s", arg,
		       handle == MPI_DATATYPE_NULL ? "MPI_DATATYPE_NULL" :
		       *type                       ? "the datatype is not committed (MPI_Type_commit)" :
						     "the handle is no datatype of this library, or was freed");
	return MPI_ERR_TYPE;
}

static int datarep_of(const char *datarep)
{
	const struct hdl_datarep *rep;

	if (!datarep) {
		hdl_reason_set("invalid datarep: it is a null pointer");
		return MPI_ERR_ARG;
	}
	if (hdl_datarep_find(datarep, &rep))
		return MPI_SUCCESS;
	hdl_reason_set("unknown datarep \"%.64s\": it is neither native, internal nor external32, and MPI_Register_datarep has "
		       "none of this name", datarep);
	return MPI_ERR_UNSUPPORTED_DATAREP;
}

static int bad_disp(MPI_Offset disp, const char *but)
{
	hdl_reason_set("invalid disp %lld: not allowed%s", (long long)disp, but);
	return MPI_ERR_ARG;
}

/* Section 14.3: MPI_DISPLACEMENT_CURRENT, with MPI_MODE_SEQUENTIAL alone, is the position of the shared pointer. */
static int disp_of(struct hdl_file *f, MPI_Offset *disp)
{
	MPI_Offset position;
	int rc;

	if (f->amode & MPI_MODE_SEQUENTIAL) {
		/* hdl_file_agree: all processes have ended their earlier additions to the pointer */
		rc = hdl_file_agree(f, *disp == MPI_DISPLACEMENT_CURRENT ? MPI_SUCCESS :
									   bad_disp(*disp, " but MPI_DISPLACEMENT_CURRENT"));
		if (!rc)
			rc = hdl_shared_add(f, 0, &position);
		if (!rc)
			*disp = hdl_view_offset(f->view, position);
		return rc || *disp >= 0 ? rc : bad_disp(*disp, ": the shared pointer leads out of the file");
	}
	if (*disp >= 0)
		return MPI_SUCCESS;
	return bad_disp(*disp,
			*disp == MPI_DISPLACEMENT_CURRENT ? " (MPI_DISPLACEMENT_CURRENT goes with MPI_MODE_SEQUENTIAL)" : "");
}

/* Makes the view of the arguments, and adds the hints of info to *hints. Returns an error class with the reason. */
static int view_of(struct hdl_file *f, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep,
		   MPI_Info info, struct hdl_io_hints *hints, struct hdl_view **v)
{
	struct hdl_type *e, *t;
	int rc = disp_of(f, &disp);	/* collective: before any other check */

	if (!rc)
		rc = hdl_file_info(info, hints);
	if (!rc)
		rc = view_type_of("etype", etype, &e);
	if (!rc)
		rc = view_type_of("filetype", filetype, &t);
	if (!rc)
		rc = datarep_of(datarep);
	if (!rc)
		rc = hdl_view_check(e, t);
	return rc ? rc : hdl_view_make(disp, e, t, datarep, v);
}

int PMPI_File_set_view(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep,
		       MPI_Info info)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_set_view";
	struct hdl_file *f = hdl_file_get(fh);
	struct hdl_io_hints hints;
	struct hdl_view *v = NULL;
	int rc;

	if (!f)
		return hdl_bad_file(call, fh);
	hints = f->hints;
	hdl_call = call;
	rc = view_of(f, disp, etype, filetype, datarep, info, &hints, &v);
	rc = hdl_file_set_view(f, v, rc);
	if (!rc)
		rc = hdl_file_set_hints(f, &hints, MPI_SUCCESS);
	return rc ? hdl_file_raise_class(f, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(File_set_view);

int PMPI_File_get_view(MPI_File fh, MPI_Offset *disp, MPI_Datatype *etype, MPI_Datatype *filetype, char *datarep)
{
	HDL_LOCKED;
	HDL_GIVES(etype);
	HDL_GIVES(filetype);
	static const char call[] = "MPI_File_get_view";
	struct hdl_file *f = hdl_file_get(fh);

	if (!f)
		return hdl_bad_file(call, fh);
	if (!disp || !etype || !filetype || !datarep)
		return hdl_file_null_arg(f, call, !disp ? "disp" : !etype ? "etype" : !filetype ? "filetype" : "datarep");
	*disp = f->view->disp;
	/* the program frees handles of types that are no constants */
	hdl_type_open(f->view->etype);
	hdl_type_open(f->view->filetype);
	*etype = hdl_type_handle(f->view->etype);
	*filetype = hdl_type_handle(f->view->filetype);
	strcpy(datarep, f->view->datarep);
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_view);

static int type_extent(const char *call, MPI_File fh, MPI_Datatype datatype, MPI_Count *extent)
{
	struct hdl_file *f = hdl_file_get(fh);
	struct hdl_type *t;
	int rc;

	if (!f)
		return hdl_bad_file(call, fh);
	if (!extent)
		return hdl_file_null_arg(f, call, "extent");
	t = hdl_type_get(datatype);
	if (!t)
		return hdl_file_raise(f, MPI_ERR_TYPE, call, "invalid datatype: %s",
				      datatype == MPI_DATATYPE_NULL ?
					      "MPI_DATATYPE_NULL" :
					      "the handle is no datatype of this library, or was freed");
	rc = hdl_datarep_image(f->view->rep, t, &t);
	if (rc)
		return hdl_file_raise_class(f, rc, call);
	*extent = hdl_type_extent(t);
	hdl_type_release(t);
	return MPI_SUCCESS;
}

int PMPI_File_get_type_extent(MPI_File fh, MPI_Datatype datatype, MPI_Aint *extent)
{
	HDL_LOCKED;
	MPI_Count e = 0;
	int rc = type_extent("MPI_File_get_type_extent", fh, datatype, extent ? &e : NULL);

	if (!rc)
		*extent = (MPI_Aint)e;
	return rc;
}
HDL_PROFILED(File_get_type_extent);

int PMPI_File_get_type_extent_c(MPI_File fh, MPI_Datatype datatype, MPI_Count *extent)
{
	HDL_LOCKED;

	return type_extent("MPI_File_get_type_extent_c", fh, datatype, extent);
}
HDL_PROFILED(File_get_type_extent_c);

/* ---- file pointers --------------------------------------------------------------------------------------------- */

/* Where a seek leads to, in bytes of the view's data. Returns an error class with the reason. */
static int seek_to(struct hdl_file *f, MPI_Offset offset, int whence, MPI_Offset now, MPI_Offset *position)
{
	MPI_Offset from = 0, distance;
	int rc = MPI_SUCCESS;

	if (whence == MPI_SEEK_CUR) {
		from = now;
	} else if (whence == MPI_SEEK_END) {
		rc = hdl_file_end(f, &from);
	} else if (whence != MPI_SEEK_SET) {
		hdl_reason_set("invalid whence %d: it is none of MPI_SEEK_SET, MPI_SEEK_CUR, MPI_SEEK_END", whence);
		rc = MPI_ERR_ARG;
	}
	if (rc)
		return rc;
	if (__builtin_mul_overflow(offset, f->view->esize, &distance) || __builtin_add_overflow(from, distance, position) ||
	    *position < 0) {
		hdl_reason_set("invalid offset %lld: it leads %s the file", (long long)offset,
			       offset < 0 ? "ahead of the beginning of" : "out of");
		return MPI_ERR_ARG;
	}
	return MPI_SUCCESS;
}

int PMPI_File_seek(MPI_File fh, MPI_Offset offset, int whence)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_seek";
	struct hdl_file *f;
	MPI_Offset position;
	int rc = hdl_file_find_random(fh, call, &f);

	if (rc)
		return rc;
	rc = seek_to(f, offset, whence, f->position, &position);
	if (rc)
		return hdl_file_raise_class(f, rc, call);
	f->position = position;
	return MPI_SUCCESS;
}
HDL_PROFILED(File_seek);

int PMPI_File_get_position(MPI_File fh, MPI_Offset *offset)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_get_position";
	struct hdl_file *f;
	int rc = hdl_file_find_random(fh, call, &f);

	if (rc)
		return rc;
	if (!offset)
		return hdl_file_null_arg(f, call, "offset");
	*offset = f->position / f->view->esize;
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_position);

int PMPI_File_get_byte_offset(MPI_File fh, MPI_Offset offset, MPI_Offset *disp)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_get_byte_offset";
	struct hdl_file *f;
	MPI_Offset position, at = -1;
	int rc = hdl_file_find_random(fh, call, &f);

	if (rc)
		return rc;
	if (!disp)
		return hdl_file_null_arg(f, call, "disp");
	rc = seek_to(f, offset, MPI_SEEK_SET, 0, &position);
	if (!rc && f->view->filetype->size)
		at = hdl_view_offset(f->view, position);
	else if (!rc)
		at = f->view->disp;
	if (!rc && at < 0) {
		hdl_reason_set("invalid offset %lld: it leads out of the file", (long long)offset);
		rc = MPI_ERR_ARG;
	}
	if (rc)
		return hdl_file_raise_class(f, rc, call);
	*disp = at;
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_byte_offset);

int PMPI_File_seek_shared(MPI_File fh, MPI_Offset offset, int whence)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_seek_shared";
	struct hdl_file *f;
	MPI_Offset now = 0, position = 0;
	int rc = hdl_file_find_random(fh, call, &f);

	if (rc)
		return rc;
	hdl_call = call;
	rc = hdl_file_seek_shared_begin(f, offset, whence, &now);
	if (!rc)
		rc = seek_to(f, offset, whence, now, &position);
	rc = hdl_file_seek_shared_end(f, position, rc);
	return rc ? hdl_file_raise_class(f, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(File_seek_shared);

int PMPI_File_get_position_shared(MPI_File fh, MPI_Offset *offset)
{
	HDL_LOCKED;
	static const char call[] = "MPI_File_get_position_shared";
	struct hdl_file *f;
	MPI_Offset position;
	int rc = hdl_file_find_random(fh, call, &f);

	if (rc)
		return rc;
	if (!offset)
		return hdl_file_null_arg(f, call, "offset");
	hdl_call = call;
	rc = hdl_shared_add(f, 0, &position);
	if (rc)
		return hdl_file_raise_class(f, rc, call);
	*offset = position / f->view->esize;
	return MPI_SUCCESS;
}
HDL_PROFILED(File_get_position_shared);
