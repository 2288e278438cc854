/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs that are functions, not entries of a context's tables. Each checks whether its context is the software device's,
 * and hands a foreign one to the next library. No lock is held while another library runs, because that library calls back in
 * here: the real libibverbs calls its own functions by their public names.
 *
 * Compiled twice. Inside libheddle the names are hidden; "next" is a preloaded libshca if the process has one (then that
 * library owns the device, so that the process is one member of the fabric), else the real library. In libshca.so (SHCA_EXPORT)
 * the names are exported under the real libraries' versions, and "next" is the real library.
 */
#ifndef SHCA_INTERPOSE_H
#define SHCA_INTERPOSE_H

#include "shca.h"
#include "shca/verbs/control.h"

#ifdef SHCA_EXPORT
#define EXPORT __attribute__((visibility("default")))
#else
#define EXPORT
#endif

/* Of a preloaded libshca, for libheddle. */
bool shca_device_is_software(const struct ibv_device *device);
/* Exported by libshca.so, for libshca-files.so: shca_file_find and shca_file_names. */
int shca_device_file(const char *path, struct shca_file *file);
void shca_device_names(const char *directory, void (*f)(const char *name, void *arg), void *arg);

enum shca_next_library { NEXT_VERBS, NEXT_MLX5, NEXT_REAL_VERBS };

/* A function of the next library; looked up when first called, then kept. */
struct shca_next {
	enum shca_next_library library;
	const char *name, *version;
	void *_Atomic fn;
};
#define NEXT(lib, symbol, ver) { .library = (lib), .name = (symbol), .version = (ver) }

/* Refuses a call for which the software device has no object or service. Returns EOPNOTSUPP; prints the reason where SHCA_DEBUG
 * is set. */
static inline int shca_absent(const char *call)
{
	return shca_refuse(EOPNOTSUPP, "%s: the device has nothing of the kind (docs/shca.md, Not supported)", call);
}

/* Returns the function; NULL with errno ENOSYS: there is no such library, or it lacks the function. */
void *shca_next_find(struct shca_next *next);
/* Returns a handle of the libshca.so that serves this process; NULL: there is none, or this very copy serves. */
void *shca_preloaded(void);

#endif
