/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tasks_encode.h"

#include <stdio.h>
#include <string.h>

/* Bit n set: a field of so many bits ends there. */
static uint64_t boundaries(size_t bits)
{
	uint64_t mask = 0;

	for (size_t at = bits; at <= 64; at += bits)
		mask |= 1ULL << (at - 1);
	return mask;
}

bool hdl_enc_for(MPI_Op op, const struct hdl_type *type, struct hdl_enc *enc, char *why, size_t why_size)
{
	static const size_t bytes[] = {
		[HDL_REP_I8] = 1, [HDL_REP_U8] = 1, [HDL_REP_I16] = 2, [HDL_REP_U16] = 2,
		[HDL_REP_I32] = 4, [HDL_REP_U32] = 4, [HDL_REP_I64] = 8, [HDL_REP_U64] = 8,
	};
	const struct hdl_reptype *t = hdl_reptype(type);
	bool integer = t->rep >= HDL_REP_I8 && t->rep <= HDL_REP_U64;

	*enc = (struct hdl_enc){ .in = HDL_ENC_SAME, .out = HDL_ENC_SAME, .esize = integer ? bytes[t->rep] : 0 };
	switch (integer ? hdl_op_index(op) : -1) {
	case HDL_OP_SUM:
		enc->atomic = HDL_ENC_ADD;
		enc->boundary = boundaries(enc->esize * 8);
		return true;
	case HDL_OP_BXOR:
		enc->atomic = HDL_ENC_ADD;
		enc->boundary = boundaries(1);
		return true;
	case HDL_OP_LXOR:
		enc->atomic = HDL_ENC_ADD;
		enc->boundary = boundaries(1);
		enc->in = HDL_ENC_BOOL;
		return true;
	case HDL_OP_BOR:
		enc->atomic = HDL_ENC_SET;
		return true;
	case HDL_OP_LOR:
		enc->atomic = HDL_ENC_SET;
		enc->in = HDL_ENC_BOOL;
		return true;
	case HDL_OP_BAND:
		enc->atomic = HDL_ENC_SET;
		enc->in = enc->out = HDL_ENC_COMPLEMENT;
		return true;
	case HDL_OP_LAND:
		enc->atomic = HDL_ENC_SET;
		enc->in = enc->out = HDL_ENC_NOT_BOOL;
		return true;
	default:
		snprintf(why, why_size, "%s on %s is not offloadable on this device", hdl_op_name(op), t->name);
		return false;
	}
}

static uint64_t load(const void *p, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, p, bytes);
	return v;
}

/* Element by element: dst[i] = (src[i] != 0) ^ invert. */
static void to_bool(void *dst, const void *src, size_t len, size_t esize, bool invert)
{
	for (size_t at = 0; at + esize <= len; at += esize) {
		/* Through a full element, so that the value 1 has its bytes where the machine keeps them. */
		bool v = (load((const char *)src + at, esize) != 0) ^ invert;

		switch (esize) {
		case 1: memcpy((char *)dst + at, &(uint8_t){ v }, 1); break;
		case 2: memcpy((char *)dst + at, &(uint16_t){ v }, 2); break;
		case 4: memcpy((char *)dst + at, &(uint32_t){ v }, 4); break;
		default: memcpy((char *)dst + at, &(uint64_t){ v }, 8); break;
		}
	}
}

static void complement(void *dst, const void *src, size_t len)
{
	const unsigned char *s = src;
	unsigned char *d = dst;

	for (size_t i = 0; i < len; i++)
		d[i] = (unsigned char)~s[i];
}

static void map(enum hdl_enc_map how, void *dst, const void *src, size_t len, size_t esize)
{
	switch (how) {
	case HDL_ENC_SAME:
		memcpy(dst, src, len);
		break;
	case HDL_ENC_COMPLEMENT:
		complement(dst, src, len);
		break;
	case HDL_ENC_BOOL:
		to_bool(dst, src, len, esize, false);
		break;
	case HDL_ENC_NOT_BOOL:
		to_bool(dst, src, len, esize, true);
		break;
	}
}

uint64_t hdl_enc_word(const struct hdl_enc *enc, const void *src, size_t len)
{
	uint64_t word = 0;

	if (len == 8 && enc->in == HDL_ENC_SAME)
		return load(src, 8);
	map(enc->in, &word, src, len < 8 ? len : 8, enc->esize);
	return word;
}

void hdl_enc_decode(const struct hdl_enc *enc, void *dst, const void *acc, size_t len)
{
	map(enc->out, dst, acc, len, enc->esize);
}
