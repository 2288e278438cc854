/* SPDX-License-Identifier: BSD-3-Clause */
/* How the functions of libshca-files.so hand on a call. */
#ifndef SHCA_FORWARD_H
#define SHCA_FORWARD_H

#include <dlfcn.h>
#include <stdatomic.h>

/* The next library's function: libc's, or that of a library that stands before libc. */
#define FORWARD(function)                                                                        \
	({                                                                                    \
		static void *_Atomic next_;                                                   \
		void *f_ = atomic_load_explicit(&next_, memory_order_relaxed);                \
		if (!f_) {                                                                    \
			f_ = dlsym(RTLD_NEXT, #function);                                     \
			atomic_store_explicit(&next_, f_, memory_order_relaxed);              \
		}                                                                             \
		(__typeof__(&function))f_;                                                    \
	})

#endif
