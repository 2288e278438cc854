/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/rma: the packed bytes of an origin or result buffer, in their order. */
#ifndef HDL_RMA_SIDE_H
#define HDL_RMA_SIDE_H

#include <string.h>

#include "rma/rma.h"

/* A buffer of the origin: a run, or a stream. Writer: the functions below. */
struct hdl_side {
	struct hdl_stream *s;
	char *run;
};
#define HDL_STREAM_HERE(name, type) \
	struct hdl_stream *const name = __builtin_alloca_with_align((type) ? hdl_stream_bytes(type) : 16, 128)

static inline void hdl_side_open(struct hdl_side *o, struct hdl_stream *s, void *buf, MPI_Count count,
				 const struct hdl_type *type)
{
	*o = (struct hdl_side){ 0 };
	if (hdl_type_is_run(type, count) || hdl_type_find_run(type, count, &buf)) {
		o->run = buf;
	} else {
		hdl_stream_open(s, buf, count, type, 0);
		o->s = s;
	}
}

/* Returns the next bytes, packed: in place, or in `room`. */
static inline const char *hdl_side_take(struct hdl_side *o, char *room, size_t bytes)
{
	const char *p = o->run;

	if (o->s) {
		hdl_stream_pack(o->s, room, bytes);
		return room;
	}
	o->run += bytes;
	return p;
}

static inline void hdl_side_give(struct hdl_side *o, const char *from, size_t bytes)
{
	if (o->s) {
		hdl_stream_unpack(o->s, from, bytes);
	} else {
		memcpy(o->run, from, bytes);
		o->run += bytes;
	}
}

#endif
