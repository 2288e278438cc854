/* SPDX-License-Identifier: BSD-3-Clause */
/* The application binary interface (MPI-5.0 chapter 20): its version, its implementation-defined values, handles as integers. */
#include "mpi/info.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int PMPI_Abi_get_version(int *abi_major, int *abi_minor)
{
	HDL_NO_LOCK;
	if (!abi_major || !abi_minor)
		return hdl_null_arg(NULL, "MPI_Abi_get_version", abi_major ? "abi_minor" : "abi_major");
	*abi_major = MPI_ABI_VERSION;
	*abi_minor = MPI_ABI_SUBVERSION;
	return MPI_SUCCESS;
}
HDL_PROFILED(Abi_get_version);

static bool set_size(struct hdl_info *info, const char *key, size_t size)
{
	char text[16];

	snprintf(text, sizeof(text), "%zu", size);
	return hdl_info_set(info, key, text);
}

int PMPI_Abi_get_info(MPI_Info *info)
{
	HDL_LOCKED;
	HDL_GIVES(info);
	static const char call[] = "MPI_Abi_get_info";
	struct hdl_info *i;

	if (!info)
		return hdl_null_arg(NULL, call, "info");
	i = hdl_info_new();
	if (!i || !set_size(i, "mpi_aint_size", sizeof(MPI_Aint)) || !set_size(i, "mpi_count_size", sizeof(MPI_Count)) ||
	    !set_size(i, "mpi_offset_size", sizeof(MPI_Offset))) {
		hdl_info_free(i);
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
	}
	*info = hdl_info_handle(i);
	return MPI_SUCCESS;
}
HDL_PROFILED(Abi_get_info);

/* ---- Fortran ------------------------------------------------------------------------------------------- */

/* Defaults: gfortran's, with which Heddle's own bindings are built. A Fortran layer for another compiler
 * sets its values, once. */
static struct hdl_info *fortran_info;
static struct {
	int size;			/* 0: not set */
	char true_value[16], false_value[16];
} fortran_booleans;

static const struct {
	const char *key, *value;
} fortran_defaults[] = {
	{ "mpi_logical_size", "4" }, { "mpi_integer_size", "4" }, { "mpi_real_size", "4" }, { "mpi_double_precision_size", "8" },
	{ "mpi_logical1_supported", "true" }, { "mpi_logical2_supported", "true" }, { "mpi_logical4_supported", "true" },
	{ "mpi_logical8_supported", "true" }, { "mpi_logical16_supported", "true" }, { "mpi_integer1_supported", "true" },
	{ "mpi_integer2_supported", "true" }, { "mpi_integer4_supported", "true" }, { "mpi_integer8_supported", "true" },
	{ "mpi_integer16_supported", "true" }, { "mpi_real2_supported", "false" }, { "mpi_real4_supported", "true" },
	{ "mpi_real8_supported", "true" }, { "mpi_real16_supported", "true" }, { "mpi_complex4_supported", "false" },
	{ "mpi_complex8_supported", "true" }, { "mpi_complex16_supported", "true" }, { "mpi_complex32_supported", "true" },
	{ "mpi_double_complex_supported", "true" },
};

/* The defaults as an info object; NULL: out of memory. */
static struct hdl_info *fortran_info_default(void)
{
	struct hdl_info *i = hdl_info_new();

	for (size_t k = 0; i && k < ARRAY_SIZE(fortran_defaults); k++)
		if (!hdl_info_set(i, fortran_defaults[k].key, fortran_defaults[k].value)) {
			hdl_info_free(i);
			return NULL;
		}
	return i;
}

int PMPI_Abi_set_fortran_info(MPI_Info info)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Abi_set_fortran_info";
	const struct hdl_info *i;
	int rc = hdl_info_arg(NULL, call, info, &i);

	if (rc)
		return rc;
	if (!i)
		return hdl_raise(NULL, MPI_ERR_INFO, call, "invalid info: MPI_INFO_NULL");
	if (fortran_info)
		return hdl_raise(NULL, MPI_ERR_ABI, call, "Fortran's properties are set already: they can be set once");
	fortran_info = hdl_info_dup(i);
	return fortran_info ? MPI_SUCCESS : hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
}
HDL_PROFILED(Abi_set_fortran_info);

int PMPI_Abi_get_fortran_info(MPI_Info *info)
{
	HDL_LOCKED;
	HDL_GIVES(info);
	static const char call[] = "MPI_Abi_get_fortran_info";
	struct hdl_info *copy;

	if (!info)
		return hdl_null_arg(NULL, call, "info");
	copy = fortran_info ? hdl_info_dup(fortran_info) : fortran_info_default();
	if (!copy)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
	*info = hdl_info_handle(copy);
	return MPI_SUCCESS;
}
HDL_PROFILED(Abi_get_fortran_info);

static int check_booleans(const char *call, int size, const void *true_value, const void *false_value)
{
	if (size != 1 && size != 2 && size != 4 && size != 8 && size != 16)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid logical_size %d: it must be 1, 2, 4, 8 or 16 bytes", size);
	if (!true_value || !false_value)
		return hdl_null_arg(NULL, call, true_value ? "logical_false" : "logical_true");
	return MPI_SUCCESS;
}

int PMPI_Abi_set_fortran_booleans(int logical_size, void *logical_true, void *logical_false)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Abi_set_fortran_booleans";
	int rc = check_booleans(call, logical_size, logical_true, logical_false);

	if (rc)
		return rc;
	if (fortran_booleans.size)
		return hdl_raise(NULL, MPI_ERR_ABI, call, "Fortran's logical values are set already: they can be set once");
	fortran_booleans.size = logical_size;
	memcpy(fortran_booleans.true_value, logical_true, (size_t)logical_size);
	memcpy(fortran_booleans.false_value, logical_false, (size_t)logical_size);
	return MPI_SUCCESS;
}
HDL_PROFILED(Abi_set_fortran_booleans);

int PMPI_Abi_get_fortran_booleans(int logical_size, void *logical_true, void *logical_false, int *is_set)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Abi_get_fortran_booleans";
	int rc = check_booleans(call, logical_size, logical_true, logical_false);

	if (rc)
		return rc;
	if (!is_set)
		return hdl_null_arg(NULL, call, "is_set");
	if (logical_size != (fortran_booleans.size ? fortran_booleans.size : (int)sizeof(int)))
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid logical_size %d: a logical has %d bytes", logical_size,
				 fortran_booleans.size ? fortran_booleans.size : (int)sizeof(int));
	*is_set = 1;
	memcpy(logical_true, fortran_booleans.size ? fortran_booleans.true_value : (const void *)&(const int){1},
	       (size_t)logical_size);
	memcpy(logical_false, fortran_booleans.size ? fortran_booleans.false_value : (const void *)&(const int){0},
	       (size_t)logical_size);
	return MPI_SUCCESS;
}
HDL_PROFILED(Abi_get_fortran_booleans);

/* ---- handles as integers ------------------------------------------------------------------------------- */

/*
 * The integer of a predefined handle is its value. That of an address is HDL_HANDLE_PREDEFINED + its index among all addresses
 * of which an integer was asked for. An address keeps its integer when its object is freed and another object gets the
 * address. So no object need know about integers, and a stale integer is as invalid as the stale handle.
 */
static void **addresses;
static int naddresses, capacity;		/* capacity: a power of two, or 0 */
static int *slots;			/* hash table of 2 * capacity entries: index + 1; 0: empty */

static int *abi_slot_of(const void *address)
{
	unsigned mask = 2u * (unsigned)capacity - 1, h = (unsigned)(((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15u >> 32);

	while (slots[h & mask] && addresses[slots[h & mask] - 1] != address)
		h++;
	return &slots[h & mask];
}

static bool abi_grow(void)
{
	int n = capacity ? 2 * capacity : 64, *new_slots;
	void **new_addresses;

	if (n > INT_MAX / 8 || !(new_addresses = realloc(addresses, (size_t)n * sizeof(*addresses))))
		return false;
	addresses = new_addresses;
	new_slots = calloc(2 * (size_t)n, sizeof(*slots));
	if (!new_slots)
		return false;
	free(slots);
	slots = new_slots;
	capacity = n;
	for (int i = 0; i < naddresses; i++)
		*abi_slot_of(addresses[i]) = i + 1;
	return true;
}

static int to_int(const char *call, void *handle)
{
	int *slot;

	if ((uintptr_t)handle < HDL_HANDLE_PREDEFINED)
		return (int)(uintptr_t)handle;
	if (naddresses == capacity && !abi_grow()) {
		hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory for %d handles as integers", naddresses);
		return 0;
	}
	slot = abi_slot_of(handle);
	if (!*slot) {
		addresses[naddresses++] = handle;
		*slot = naddresses;
	}
	return HDL_HANDLE_PREDEFINED + *slot - 1;
}

/* An integer that belongs to no handle gives the null handle of the kind. */
static void *from_int(int n, void *null)
{
	if (n >= 0 && n < HDL_HANDLE_PREDEFINED)
		return (void *)(uintptr_t)n;
	if (n < 0 || n - HDL_HANDLE_PREDEFINED >= naddresses)
		return null;
	return addresses[n - HDL_HANDLE_PREDEFINED];
}

#define CONVERSIONS(kind, type, parameter, null)					\
int PMPI_##kind##_toint(type parameter)							\
{											\
	HDL_LOCKED;									\
											\
	return to_int("MPI_" #kind "_toint", parameter);				\
}											\
HDL_PROFILED(kind##_toint);								\
											\
type PMPI_##kind##_fromint(int parameter)						\
{											\
	HDL_LOCKED;									\
											\
	return from_int(parameter, null);						\
}											\
HDL_PROFILED(kind##_fromint)

CONVERSIONS(Comm, MPI_Comm, comm, MPI_COMM_NULL);
CONVERSIONS(Errhandler, MPI_Errhandler, errhandler, MPI_ERRHANDLER_NULL);
CONVERSIONS(File, MPI_File, file, MPI_FILE_NULL);
CONVERSIONS(Group, MPI_Group, group, MPI_GROUP_NULL);
CONVERSIONS(Info, MPI_Info, info, MPI_INFO_NULL);
CONVERSIONS(Message, MPI_Message, message, MPI_MESSAGE_NULL);
CONVERSIONS(Op, MPI_Op, op, MPI_OP_NULL);
CONVERSIONS(Request, MPI_Request, request, MPI_REQUEST_NULL);
CONVERSIONS(Session, MPI_Session, session, MPI_SESSION_NULL);
CONVERSIONS(Type, MPI_Datatype, datatype, MPI_DATATYPE_NULL);
CONVERSIONS(Win, MPI_Win, win, MPI_WIN_NULL);
