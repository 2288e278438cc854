/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes that programs attach to communicators, datatypes and windows (MPI-5.0 section 7.7), for the functions of all
 * three: keys, and a store per object.
 *
 * An object has a pointer to its store, NULL until its first attribute. Its constructors by copying call hdl_attrs_copy,
 * its end hdl_attrs_delete; both call the program's functions, with the lock open, so that these may use MPI. Attributes are
 * copied in the order in which they were set, and deleted in the reverse one.
 *
 * Return MPI_SUCCESS, an error class with hdl_reason_set, or the code that a program's function returned: all are for
 * hdl_raise_code.
 */
#ifndef HDL_MPI_ATTR_H
#define HDL_MPI_ATTR_H

#include "mpi/mpi_internal.h"

enum hdl_attr_kind { HDL_ATTR_COMM, HDL_ATTR_TYPE, HDL_ATTR_WIN };

/* A program's functions, or the ABI's constants for none (0) and, of a copy, for copying the value itself (1). The member of
 * the key's kind is set. */
union hdl_attr_copy {
	MPI_Comm_copy_attr_function *comm;
	MPI_Type_copy_attr_function *type;
	MPI_Win_copy_attr_function *win;
};
union hdl_attr_del {
	MPI_Comm_delete_attr_function *comm;
	MPI_Type_delete_attr_function *type;
	MPI_Win_delete_attr_function *win;
};

/* MPI_ERR_NO_MEM, MPI_ERR_OTHER: the number of keys that there may be at a time is used up. */
int hdl_keyval_create(enum hdl_attr_kind kind, union hdl_attr_copy copy, union hdl_attr_del del, void *extra_state,
		      int *keyval);
/* *keyval becomes MPI_KEYVAL_INVALID. The key itself goes with the last attribute that has it: "the actual free does not
 * transpire until after all references to the key have been freed", for example by MPI_Comm_delete_attr with its value. */
int hdl_keyval_free(enum hdl_attr_kind kind, int *keyval);

/* handle: the object's, as the program's functions get it. The value that is replaced or taken away goes through its
 * function first; if that fails, the attribute stays. */
int hdl_attr_set(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs, int keyval, void *value);
int hdl_attr_delete(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs, int keyval);
/* value: the address of a pointer. */
int hdl_attr_get(enum hdl_attr_kind kind, const struct hdl_attrs *attrs, int keyval, void *value, int *flag);

/* To a new object, without attributes so far. After an error it has none again: those that were copied went through their
 * delete functions. */
int hdl_attrs_copy(enum hdl_attr_kind kind, void *handle, const struct hdl_attrs *attrs, void *new_handle,
		   struct hdl_attrs **copy);
/* All of them, before the object goes. After an error the rest, and the one that failed, are still there. */
int hdl_attrs_delete(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs);
/* Gives the store back without a call of the program's functions: MPI_Finalize, for objects that were never freed. */
void hdl_attrs_drop(struct hdl_attrs **attrs);
/* After the last object: keys that were never freed. */
void hdl_keyval_fini(void);

#endif
