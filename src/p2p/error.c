/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors: the explanation that goes with an error class, and the class of an errno of the transport. Depends on no other file of
 * src/p2p. */
#include "p2p/request.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static char reason[320], reason_taken[320];

void hdl_reason_set(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
}

const char *hdl_reason_take(void)
{
	if (!reason[0])
		return "";
	memcpy(reason_taken, reason, sizeof(reason));
	reason[0] = 0;
	return reason_taken;
}

_Noreturn void hdl_out_of_memory(const char *what, size_t bytes)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "out of memory: %zu bytes for %s; limit the messages in flight, or give the job more memory",
		 bytes, what);
	hdl_rt_abort(MPI_ERR_NO_MEM, text);
}

int hdl_class_of(int err)
{
	switch (err) {
	case 0:
		return MPI_SUCCESS;
	case ENOMEM:
		return MPI_ERR_NO_MEM;
	case EFAULT:
	case EREMOTEIO:
		return MPI_ERR_BUFFER;
	case ECONNRESET:
	case ECONNABORTED:
	case ENOTCONN:
	case EPIPE:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ETIMEDOUT:
		return MPI_ERR_PROC_ABORTED;
	default:
		return MPI_ERR_OTHER;
	}
}

int hdl_op_fail(struct hdl_op *op, int err)
{
	op->errnum = err < 0 ? -err : err;
	return hdl_class_of(op->errnum);
}
