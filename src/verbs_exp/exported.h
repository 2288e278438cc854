/* SPDX-License-Identifier: BSD-3-Clause */
/* First in the files that define experimental verbs: libshca.so offers them to strangers, libheddle has them for itself. */
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
