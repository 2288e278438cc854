/* SPDX-License-Identifier: BSD-3-Clause */
/* Included first by files that define experimental verbs: libshca.so exports them, libheddle uses hidden copies. */
#ifndef VERBS_EXP_EXPORTED_H
#define VERBS_EXP_EXPORTED_H

#include <infiniband/verbs.h>
#ifdef SHCA_EXPORT
#pragma GCC visibility push(default)
#endif
#include <infiniband/verbs_exp.h>
#ifdef SHCA_EXPORT
#pragma GCC visibility pop
#endif

#endif
