/* SPDX-License-Identifier: BSD-3-Clause */
/* Linked into a program of ranks that may not open each other's descriptors, as in containers with PID
 * namespaces of their own. */
#include <errno.h>

#include "transport/transport.h"

void *__real_hdl_segment_open(const struct hdl_segment *s);
void *__wrap_hdl_segment_open(const struct hdl_segment *s);

void *__wrap_hdl_segment_open(const struct hdl_segment *s)
{
	if (s->how == HDL_SEGMENT_NAMED)
		return __real_hdl_segment_open(s);
	errno = EACCES;
	return NULL;
}
