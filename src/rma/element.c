/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on elements of a predefined type (element.h). */
#include "rma/element.h"

uint8_t hdl_element_known[ARRAY_SIZE(hdl_types)];

bool hdl_element_adds(MPI_Op op, const struct hdl_type *type)
{
	uint64_t one = 1, sum = 1;
	char in[32] = { 0 }, inout[32] = { 0 };

	/* the representation decides: 1 + 1 as integers is 2, for every name of the type */
	if (op != MPI_SUM || (type->size != 4 && type->size != 8) || !hdl_type_is_contiguous(type))
		return false;
	memcpy(in, &one, (size_t)type->size);
	memcpy(inout, &one, (size_t)type->size);
	hdl_op_apply(op, type, in, inout, 1);
	sum = 0;
	memcpy(&sum, inout, (size_t)type->size);
	if (sum != 2)
		return false;
	/* a denormal number plus itself is 2, too; a large one decides */
	one = type->size == 4 ? 0x3f800000u : 0x3ff0000000000000u;
	memcpy(in, &one, (size_t)type->size);
	memcpy(inout, &one, (size_t)type->size);
	hdl_op_apply(op, type, in, inout, 1);
	memcpy(&sum, inout, (size_t)type->size);
	return sum == (type->size == 4 ? (uint32_t)(2 * one) : 2 * one);
}

bool hdl_acc_adds(MPI_Op op, const struct hdl_type *base)
{
	return op == MPI_SUM && hdl_element_of(base, op).integer;
}

void hdl_acc_here(const struct hdl_acc_piece *piece, unsigned n, const struct hdl_type *base, MPI_Op op, const void *in,
		  const void *compare, void *out)
{
	const struct hdl_element e = hdl_element_of(base, op);
	const char *from = in;
	char *to = out, buf[64];

	for (unsigned i = 0; i < n;) {
		size_t got = 0;
		unsigned first = i;

		if (e.whole && piece[i].len % e.size == 0 && !compare) {
			if (to)
				to = mempcpy(to, (void *)(uintptr_t)piece[i].at, piece[i].len);
			hdl_element_compute(&e, from, (void *)(uintptr_t)piece[i].at, piece[i].len / e.size);
			from += from ? piece[i].len : 0;
			i++;
			continue;
		}
		for (; i < n && got < e.size; got += piece[i++].len)
			memcpy(buf + got, (void *)(uintptr_t)piece[i].at, piece[i].len);
		if (to)
			to = mempcpy(to, buf, got);
		if (op != MPI_NO_OP && (!compare || !memcmp(buf, compare, e.size))) {
			hdl_element_compute(&e, from, buf, 1);
			for (got = 0; first < i; got += piece[first++].len)
				memcpy((void *)(uintptr_t)piece[first].at, buf + got, piece[first].len);
		}
		from += from ? e.size : 0;
	}
}
