/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tool interface (MPI-5.0 chapter 15), made from the tables of the layers below:
 *
 *     tool.c         initialization, categories
 *     tool_enum.c    texts, enumerations
 *     tool_cvar.c    control variables: runtime/vars.def and shca/fabric/vars.def
 *     tool_pvar.c    performance variables: hdl_counter of the transport, hdl_coll_counter, levels of matching
 *     tool_event.c   events: runtime/events.h
 *
 * Functions of this chapter return an error class of MPI_T and call no error handler (section 15.3.10). Strings are returned by
 * hdl_tool_text. Indices are the same in all processes and never change.
 */
#ifndef HDL_MPI_TOOL_H
#define HDL_MPI_TOOL_H

#include "mpi/mpi_internal.h"

/* Categories: folders of src. */
enum hdl_tool_category { HDL_CAT_MPI, HDL_CAT_P2P, HDL_CAT_COLLECTIVES, HDL_CAT_TRANSPORT, HDL_CAT_RUNTIME, HDL_CAT_SHCA,
			 HDL_CATS };

/* How often MPI_T_init_thread was called without an MPI_T_finalize for it. */
extern int hdl_tool_uses;

/* Must be the first line of every function of MPI_T but MPI_T_init_thread. HDL_TOOL_GIVES: of a function that returns an MPI
 * handle at p (HDL_GIVES). */
#define HDL_TOOL_IS_READY								\
	do {										\
		if (!hdl_tool_uses)							\
			return MPI_T_ERR_NOT_INITIALIZED;				\
	} while (0)
#define HDL_TOOL		HDL_LOCKED; HDL_TOOL_IS_READY
#define HDL_TOOL_GIVES(p)	HDL_LOCKED; HDL_GIVES(p); HDL_TOOL_IS_READY

/* Returns a string by the rules of section 15.3.3: at most *len - 1 characters and a null character; *len becomes the length of
 * the whole string with its null character. Nothing if len is NULL. */
void hdl_tool_text(const char *text, char *buf, int *len);
/* Stores v, unless to is NULL. */
static inline void hdl_tool_int(int *to, int v)
{
	if (to)
		*to = v;
}
/* Returns the index of a name, by name_of(index), NULL at the end; -1: there is none. */
int hdl_tool_find(const char *name, const char *(*name_of)(unsigned index));
/* The number of names. */
unsigned hdl_tool_count(const char *(*name_of)(unsigned index));

/* Enumerations, for variables and events with MPI_INT. */
extern const struct hdl_tool_enum hdl_tool_switch;		/* no, yes */
extern const struct hdl_tool_enum hdl_tool_collectives;		/* enum hdl_coll */
MPI_T_enum hdl_tool_enum_handle(const struct hdl_tool_enum *e);

/* Number of variables or events; the category of each. */
unsigned hdl_tool_cvars(void);
unsigned hdl_tool_pvars(void);
enum hdl_tool_category hdl_tool_cvar_category(unsigned i);
enum hdl_tool_category hdl_tool_pvar_category(unsigned i);
enum hdl_tool_category hdl_tool_event_category(unsigned i);
/* Frees all handles, at the last MPI_T_finalize. */
void hdl_tool_cvar_fini(void);
void hdl_tool_pvar_fini(void);
void hdl_tool_event_fini(void);
/* Must be called before the library's instance of the transport ends: its counters end with it. */
void hdl_tool_pvar_keep(void);

#endif
