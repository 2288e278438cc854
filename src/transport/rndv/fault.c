/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous with a user's buffer that the device cannot reach: unmapped, protected, or of a file that was truncated, at this
 * process or at the peer. The operation fails on both sides, and the connection goes on.
 *
 *     a WRITE of the sender is refused      when none of the operation is in flight: WRITTEN(fault) ──▶
 *     a READ of the receiver is refused     when none of the operation is in flight: ◀── FIN(fault)
 *
 * Either record waits for the last request, so that no side has its buffer back while the other side accesses it.
 * In a split message each side reports its own half, and the operation ends at either side when both halves have ended. Else:
 *
 *     1. the receiver's READ of the front half is refused, while the sender writes the rest
 *     2. the receiver ends the operation at once, and the program reuses the buffer
 *     3. the sender's WRITE lands in the reused buffer
 *
 * The send queue, which the device has stopped, is replaced or reset, and the operation's chunks do not go again (sq.c,
 * sq_is_lost).
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/core/tp.h"

/* linux/mman.h defines them since 5.14 */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

int hdl_rndv_refusal(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return -EFAULT;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
		return -EREMOTEIO;
	default:
		return 0;
	}
}

enum hdl_fault hdl_fault_of(int err)
{
	return err == -EFAULT ? HDL_FAULT_MINE : err == -EREMOTEIO ? HDL_FAULT_YOURS : HDL_FAULT_NONE;
}

enum hdl_fault hdl_fault_turned(unsigned fault)
{
	return fault == HDL_FAULT_MINE ? HDL_FAULT_YOURS : fault == HDL_FAULT_YOURS ? HDL_FAULT_MINE : fault;
}

int hdl_fault_errno(unsigned fault)
{
	static const int err[] = { [HDL_FAULT_MINE] = -EFAULT, [HDL_FAULT_YOURS] = -EREMOTEIO, [HDL_FAULT_OTHER] = -ENOBUFS };

	return err[fault & 3];
}

static bool touched(uintptr_t at, size_t n, bool written)
{
	return !madvise((void *)at, n, written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

/* Finds the first page of a buffer that cannot be read, or written. Returns its address, and *why; 0: all pages can, or the
 * kernel does not tell. Contents and rights of the pages stay. */
static uintptr_t bad_page(const void *buf, uint64_t len, bool written, const char **why)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)buf & ~(size - 1), end = (uintptr_t)buf + len;

	/* a kernel without MADV_POPULATE_* refuses the request for any page, also for one of the stack */
	if (touched(at, end - at, written) || !touched((uintptr_t)&size & ~(size - 1), size, false))
		return 0;
	for (; at < end; at += size) {
		if (touched(at, size, written))
			continue;
		*why = errno == ENOMEM ? "not mapped" : errno == EINVAL || errno == EPERM || errno == EACCES ? "protected" :
		       "beyond the end of its file, or lost";
		return at;
	}
	return 0;
}

const char *hdl_fault_place(char text[HDL_FAULT_TEXT], const void *buf, uint64_t len, bool written)
{
	const char *why;
	uintptr_t page = bad_page(buf, len, written, &why);

	*text = 0;
	if (page)
		snprintf(text, HDL_FAULT_TEXT, ": the page at %#lx is %s", (unsigned long)page, why);
	return text;
}

void hdl_fault_report(const struct hdl_ep *ep, enum hdl_fault fault, const void *buf, uint64_t len, bool written)
{
	char where[HDL_FAULT_TEXT];

	if (fault != HDL_FAULT_MINE)
		return;
	hdl_error("the buffer at %p of a message of %llu bytes %s %s cannot be %s by the device%s. The message fails at both "
		  "ranks, and nothing else",
		  buf, (unsigned long long)len, written ? "from" : "to", hdl_proc_text(ep->rank), written ? "written" : "read",
		  hdl_fault_place(where, buf, len, written));
}

bool hdl_tp_unreachable(const void *p, uint64_t bytes, bool written)
{
	return hdl_fault_found(p, bytes, written);
}

bool hdl_fault_found(const void *buf, uint64_t len, bool written)
{
	const char *why;

	return bad_page(buf, len, written, &why) != 0;
}
