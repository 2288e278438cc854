/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes that programs attach to communicators, datatypes and windows (MPI-5.0 section 7.7): keys, and a store for each
 * object.
 *
 * An object has a pointer to its store, NULL until its first attribute. Constructors that duplicate must call hdl_attrs_copy,
 * and the end of the object hdl_attrs_delete. Both call functions of the program, with the lock open, so that these may use
 * MPI. Attributes are copied in the order of setting, and deleted in the reverse order.
 *
 * The functions return MPI_SUCCESS, an error class with hdl_reason_set, or the code that a function of the program returned:
 * hdl_raise_code takes all of these.
 */
#ifndef HDL_MPI_ATTR_H
#define HDL_MPI_ATTR_H

#include "mpi/mpi_internal.h"

enum hdl_attr_kind { HDL_ATTR_COMM, HDL_ATTR_TYPE, HDL_ATTR_WIN };

/* A function of the program, or the ABI's constants for none (0) and, for a copy function, for copying the value itself (1).
 * The member of the key's kind is set. */
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

/* Returns MPI_ERR_NO_MEM, or MPI_ERR_OTHER if the maximum number of keys exists. */
int hdl_keyval_create(enum hdl_attr_kind kind, union hdl_attr_copy copy, union hdl_attr_del del, void *extra_state,
		      int *keyval);
/* Sets *keyval to MPI_KEYVAL_INVALID. The last attribute that has the key frees it: "the actual free does not transpire until
 * after all references to the key have been freed", for example by MPI_Comm_delete_attr with its value. */
int hdl_keyval_free(enum hdl_attr_kind kind, int *keyval);

/* handle: the object's, for the functions of the program. A value that is replaced or deleted goes through its delete function
 * first; if that fails, the attribute stays. */
int hdl_attr_set(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs, int keyval, void *value);
int hdl_attr_delete(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs, int keyval);
/* value: the address of a pointer. */
int hdl_attr_get(enum hdl_attr_kind kind, const struct hdl_attrs *attrs, int keyval, void *value, int *flag);

/* Must: the new object has no attributes. After an error it has none: the delete functions of those already copied were
 * called. */
int hdl_attrs_copy(enum hdl_attr_kind kind, void *handle, const struct hdl_attrs *attrs, void *new_handle,
		   struct hdl_attrs **copy);
/* Deletes all attributes, before the object is freed. After an error the one that failed, and the rest, still exist. */
int hdl_attrs_delete(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs);
/* Frees the store without calling functions of the program: in MPI_Finalize, for objects that were never freed. */
void hdl_attrs_drop(struct hdl_attrs **attrs);
/* Functions of the program that run: the calls that have started them go on when these return. Without hdl_threads only. */
extern unsigned hdl_attrs_run;
/* Frees keys that were never freed. Must follow the end of the last object. */
void hdl_keyval_fini(void);

#endif
