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
	hdl_error("the buffer at %p of a message of %llu bytes %s %s cannot be %s by the device%s. The message fails at both ranks, and "
		  "nothing else", buf, (unsigned long long)len, written ? "from" : "to", hdl_proc_text(ep->rank),
		  written ? "written" : "read", hdl_fault_place(where, buf, len, written));
}

bool hdl_fault_found(const void *buf, uint64_t len, bool written)
{
	const char *why;

	return bad_page(buf, len, written, &why) != 0;
}

/* Reports a fault at the side whose request was refused; the peer reports why its own buffer cannot be reached. */
static void report_refused(const struct hdl_ep *ep, enum hdl_fault fault, const void *buf, uint64_t theirs, uint64_t len, bool written)
{
	hdl_fault_report(ep, fault, buf, len, written);
	if (fault == HDL_FAULT_YOURS)
		hdl_error("the buffer of %s at %#llx for a message of %llu bytes cannot be %s by the device. The message fails at both "
			  "ranks, and nothing else", hdl_proc_text(ep->rank), (unsigned long long)theirs, (unsigned long long)len,
			  written ? "read" : "written");
}

/* Decides whose buffer is at fault: this process's if the kernel says so; else as the status has it. The status may have the
 * other side's view where one process copies for both. */
static enum hdl_fault fault_judge(int err, const void *buf, uint64_t len, bool written)
{
	return hdl_fault_found(buf, len, written) ? HDL_FAULT_MINE : hdl_fault_of(err);
}

void hdl_rndv_read_refused(struct hdl_fetch *f, int err)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_ep *ep = f->ep;
	struct hdl_fetch *before = NULL;

	if (op->fault || op->failed)
		return;
	op->fault = fault_judge(err, f->buf, f->len, true);
	report_refused(ep, op->fault, f->buf, op->raddr, f->len, true);
	/* posts no further READ: takes the operation off the endpoint's list */
	for (struct hdl_fetch *at = ep->reads; at && op->posted < op->end; before = at, at = at->next) {
		if (at != f)
			continue;
		*(before ? (struct hdl_fetch **)&before->next : &ep->reads) = f->next;
		if (ep->reads_tail == f)
			ep->reads_tail = before;
		break;
	}
	op->posted = op->end;
}

void hdl_rndv_write_refused(struct hdl_send *s, int err)
{
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_ep *ep = s->ep;

	if (!op->fault && op->state != HDL_OP_FAILED) {
		op->fault = fault_judge(err, s->buf, op->total, false);
		if (!op->read_fault)
			report_refused(ep, op->fault, s->buf, op->raddr, op->total, false);
		if (op->posted == op->total)
			hdl_rndv_append(&ep->rdma_wait, &ep->rdma_wait_tail, s);
		op->posted = 0;
		op->written_due = 0;
	}
	if (op->state == HDL_OP_FAILED)		/* the endpoint has failed */
		hdl_rndv_finish_if_all(s);
	else if (!op->inflight)
		hdl_ep_busy(ep);
}

void hdl_rndv_end_refused(struct hdl_ep *ep)
{
	struct hdl_send *s = ep->rdma_wait;
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_fin fin = { .op = op->receiver_op, .fault = op->fault, .len = op->total };

	hdl_rndv_pop(&ep->rdma_wait);
	op->posted = op->total;
	hdl_ep_ctl(ep, HDL_CTL_WRITTEN, &fin, sizeof(fin), false);
	hdl_rndv_finish_if_all(s);
}

bool hdl_rndv_is_refused(struct hdl_tp *tp, const struct hdl_slot *slot)
{
	struct hdl_fetch *f;

	if (slot->type == HDL_SLOT_RNDV)
		return hdl_send_op(slot->ptr)->fault;
	f = slot->type == HDL_SLOT_READ ? hdl_id_get(&tp->fetches, (uint32_t)(uintptr_t)slot->ptr) : NULL;
	return f && hdl_fetch_op(f)->fault;
}
