/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tasks/tasks.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

/* Bit n set: a field of `bits` bits ends there. */
static uint64_t boundaries(size_t bits)
{
	uint64_t mask = 0;

	for (size_t at = bits; at <= 64; at += bits)
		mask |= 1ULL << (at - 1);
	return mask;
}

/* How CALC sees a representation: type and bytes of a number, and whether an element is one number, two (complex), or a number
 * with an index (pair). */
struct number {
	int8_t type;			/* enum ibv_exp_calc_data_type */
	uint8_t bytes;
	bool complex, pair;
};
#define N(t, b) { .type = IBV_EXP_CALC_DATA_TYPE_##t, .bytes = (b) }
static const struct number numbers[HDL_REPS] = {
	[HDL_REP_I8] = N(INT, 1), [HDL_REP_U8] = N(UINT, 1), [HDL_REP_I16] = N(INT, 2), [HDL_REP_U16] = N(UINT, 2),
	[HDL_REP_I32] = N(INT, 4), [HDL_REP_U32] = N(UINT, 4), [HDL_REP_I64] = N(INT, 8), [HDL_REP_U64] = N(UINT, 8),
	[HDL_REP_F32] = N(FLOAT, 4), [HDL_REP_F64] = N(FLOAT, 8),
	[HDL_REP_C32] = { IBV_EXP_CALC_DATA_TYPE_FLOAT, 4, true, false },
	[HDL_REP_C64] = { IBV_EXP_CALC_DATA_TYPE_FLOAT, 8, true, false },
	[HDL_REP_P_F32_INT] = { IBV_EXP_CALC_DATA_TYPE_FLOAT, 4, false, true },
	[HDL_REP_P_F64_INT] = { IBV_EXP_CALC_DATA_TYPE_FLOAT, 8, false, true },
	[HDL_REP_P_LONG_INT] = { IBV_EXP_CALC_DATA_TYPE_INT, sizeof(long), false, true },
	[HDL_REP_P_2INT] = { IBV_EXP_CALC_DATA_TYPE_INT, sizeof(int), false, true },
	[HDL_REP_P_SHORT_INT] = { IBV_EXP_CALC_DATA_TYPE_INT, sizeof(short), false, true },
};

static const struct number *encode_number_of(enum hdl_rep rep)
{
	return numbers[rep].bytes ? &numbers[rep] : NULL;
}

static bool is_integer(const struct number *n)
{
	return n->type != IBV_EXP_CALC_DATA_TYPE_FLOAT && !n->pair;
}

/* Sets CALC's opcode and the conversion to 0 or 1. Returns false for op < 0. */
static bool encode_calc_of(int op, struct hdl_enc *enc)
{
	static const struct {
		int op;
		bool boolean;
	} ops[HDL_OPS] = {
		[HDL_OP_SUM] = { IBV_EXP_CALC_OP_ADD, false }, [HDL_OP_BAND] = { IBV_EXP_CALC_OP_BAND, false },
		[HDL_OP_BOR] = { IBV_EXP_CALC_OP_BOR, false }, [HDL_OP_BXOR] = { IBV_EXP_CALC_OP_BXOR, false },
		[HDL_OP_LAND] = { IBV_EXP_CALC_OP_BAND, true }, [HDL_OP_LOR] = { IBV_EXP_CALC_OP_BOR, true },
		[HDL_OP_LXOR] = { IBV_EXP_CALC_OP_BXOR, true }, [HDL_OP_MIN] = { SHCA_EXP_CALC_OP_MIN, false },
		[HDL_OP_MAX] = { SHCA_EXP_CALC_OP_MAX, false }, [HDL_OP_PROD] = { SHCA_EXP_CALC_OP_PROD, false },
		[HDL_OP_MINLOC] = { SHCA_EXP_CALC_OP_MAXLOC, false }, [HDL_OP_MAXLOC] = { SHCA_EXP_CALC_OP_MAXLOC, false },
	};

	if (op < 0)
		return false;
	enc->calc_op = (enum ibv_exp_calc_op)ops[op].op;
	if (ops[op].boolean)
		enc->in = HDL_ENC_BOOL;
	return true;
}

static bool op_is_bitwise(int op)
{
	return op >= HDL_OP_BAND && op <= HDL_OP_LXOR;
}

static enum ibv_exp_calc_data_size size_of(size_t bytes)
{
	return bytes == 8 ? IBV_EXP_CALC_DATA_SIZE_64_BIT :
	       (enum ibv_exp_calc_data_size)(bytes == 4 ? SHCA_EXP_CALC_DATA_SIZE_32_BIT :
					     bytes == 2 ? SHCA_EXP_CALC_DATA_SIZE_16_BIT : SHCA_EXP_CALC_DATA_SIZE_8_BIT);
}

static bool by_vector(int op, const struct number *n, struct hdl_enc *enc)
{
	if (!encode_calc_of(op, enc) || (n->complex && op != HDL_OP_SUM))
		return false;
	enc->by = HDL_ENC_BY_VECTOR;
	enc->calc_type = (enum ibv_exp_calc_data_type)n->type;
	enc->calc_size = n->pair ? IBV_EXP_CALC_DATA_SIZE_64_BIT : size_of(n->bytes);
	enc->form = n->pair ? HDL_ENC_PAIRS : HDL_ENC_PLAIN;
	enc->mirrored = op == HDL_OP_MINLOC;
	return true;
}

static bool by_elements(int op, const struct number *n, const struct ibv_exp_device_calc_cap *cap, struct hdl_enc *enc)
{
	bool sum = op == HDL_OP_SUM && !n->complex && !n->pair && (is_integer(n) || n->bytes == 8);
	uint64_t ops;

	if ((!sum && !(op_is_bitwise(op) && is_integer(n))) || !encode_calc_of(op, enc))
		return false;
	enc->by = HDL_ENC_BY_CALC;
	enc->form = sum ? HDL_ENC_WIDE : HDL_ENC_WORDS;
	enc->calc_type = sum ? (enum ibv_exp_calc_data_type)n->type : IBV_EXP_CALC_DATA_TYPE_UINT;
	enc->calc_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	ops = enc->calc_type == IBV_EXP_CALC_DATA_TYPE_FLOAT ? cap->fp_ops :
	      enc->calc_type == IBV_EXP_CALC_DATA_TYPE_INT ? cap->int_ops : cap->uint_ops;
	return ops >> enc->calc_op & 1;
}

static bool by_atomics(int op, const struct number *n, struct hdl_enc *enc)
{
	if (!is_integer(n) || (op != HDL_OP_SUM && !op_is_bitwise(op)))
		return false;
	enc->by = HDL_ENC_BY_ATOMICS;
	enc->atomic = op == HDL_OP_SUM || op == HDL_OP_BXOR || op == HDL_OP_LXOR ? HDL_ENC_ADD : HDL_ENC_SET;
	enc->boundary = boundaries(op == HDL_OP_SUM ? n->bytes * 8 : 1);
	if (op == HDL_OP_LOR || op == HDL_OP_LXOR)
		enc->in = HDL_ENC_BOOL;
	else if (op == HDL_OP_BAND)
		enc->in = enc->out = HDL_ENC_COMPLEMENT;
	else if (op == HDL_OP_LAND)
		enc->in = enc->out = HDL_ENC_NOT_BOOL;
	return true;
}

bool hdl_enc_for(MPI_Op op, const struct hdl_type *type, size_t bytes, const struct hdl_reduce_caps *caps, struct hdl_enc *enc,
		 char *why, size_t why_size)
{
	const struct hdl_reptype *t = hdl_reptype(type);
	const struct number *n = encode_number_of(t->rep);
	struct hdl_enc none = { .rep = t->rep, .esize = n ? n->bytes : 0 };
	int index = hdl_op_index(op);

	if (n && n->pair)
		none.esize += sizeof(int);
	*enc = none;
	if (n && caps->vector && by_vector(index, n, enc))
		return true;
	*enc = none;
	if (n && by_elements(index, n, &caps->calc, enc) &&
	    hdl_enc_bytes(enc, bytes) <= (size_t)HDL_CALC_REQUESTS * HDL_CALC_ELEMENT)
		return true;
	*enc = none;
	if (n && caps->atomics && by_atomics(index, n, enc))
		return true;
	*enc = none;
	snprintf(why, why_size, "the device does not know %s on %zu bytes of %s%s", hdl_op_name(op), bytes, t->name,
		 caps->vector ? "" : " without its extensions");
	return false;
}

static uint64_t encode_load(const void *p, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, p, bytes);
	return v;
}

/* dst[i] = (src[i] != 0) ^ invert for each element. */
static void to_bool(void *dst, const void *src, size_t len, size_t esize, bool invert)
{
	for (size_t at = 0; at + esize <= len; at += esize) {
		/* Stores a full element, so that the value 1 has the machine's byte order. */
		bool v = (encode_load((const char *)src + at, esize) != 0) ^ invert;

		switch (esize) {
		case 1: memcpy((char *)dst + at, &(uint8_t){ v }, 1); break;
		case 2: memcpy((char *)dst + at, &(uint16_t){ v }, 2); break;
		case 4: memcpy((char *)dst + at, &(uint32_t){ v }, 4); break;
		default: memcpy((char *)dst + at, &(uint64_t){ v }, 8); break;
		}
	}
}

static void encode_complement(void *dst, const void *src, size_t len)
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
		encode_complement(dst, src, len);
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

	if (len >= 8 && enc->in == HDL_ENC_SAME)
		return encode_load(src, 8);
	map(enc->in, &word, src, len < 8 ? len : 8, enc->esize);
	return word;
}

/* A number of n->bytes bytes as one of 8, sign-extended or converted to double by its type. */
static uint64_t encode_widen(const struct number *n, const void *p)
{
	uint64_t v = encode_load(p, n->bytes);
	double d;

	if (n->type == IBV_EXP_CALC_DATA_TYPE_FLOAT) {
		if (n->bytes == 4) {
			float f;

			memcpy(&f, p, 4);
			d = f;
			memcpy(&v, &d, 8);
		}
		return v;
	}
	if (n->type == IBV_EXP_CALC_DATA_TYPE_INT && n->bytes < 8 && v >> (8 * n->bytes - 1) & 1)
		v |= ~0ULL << 8 * n->bytes;
	return v;
}

static void narrow(const struct number *n, void *p, uint64_t v)
{
	if (n->type == IBV_EXP_CALC_DATA_TYPE_FLOAT && n->bytes == 4) {
		double d;
		float f;

		memcpy(&d, &v, 8);
		f = (float)d;
		memcpy(p, &f, 4);
		return;
	}
	switch (n->bytes) {
	case 1: memcpy(p, &(uint8_t){ (uint8_t)v }, 1); break;
	case 2: memcpy(p, &(uint16_t){ (uint16_t)v }, 2); break;
	case 4: memcpy(p, &(uint32_t){ (uint32_t)v }, 4); break;
	default: memcpy(p, &v, 8); break;
	}
}

/* An involution that reverses the order of values: the smallest becomes the largest. */
static uint64_t mirror(const struct number *n, uint64_t v)
{
	return n->type == IBV_EXP_CALC_DATA_TYPE_FLOAT ? v ^ 1ULL << 63 : ~v;
}

/* The device compares indices as unsigned numbers. */
#define INDEX_BIAS (1ULL << 31)

static void encode_pairs(const struct hdl_enc *enc, uint64_t *dst, const char *src, size_t count)
{
	const struct number *n = encode_number_of(enc->rep);

	for (size_t i = 0; i < count; i++, src += enc->esize) {
		uint64_t v = encode_widen(n, src);
		int32_t index;

		memcpy(&index, src + n->bytes, sizeof(index));
		dst[2 * i] = enc->mirrored ? mirror(n, v) : v;
		dst[2 * i + 1] = (uint64_t)((int64_t)index + (int64_t)INDEX_BIAS);
	}
}

static void decode_pairs(const struct hdl_enc *enc, char *dst, const uint64_t *src, size_t count)
{
	const struct number *n = encode_number_of(enc->rep);

	for (size_t i = 0; i < count; i++, dst += enc->esize) {
		int32_t index = (int32_t)((int64_t)src[2 * i + 1] - (int64_t)INDEX_BIAS);

		narrow(n, dst, enc->mirrored ? mirror(n, src[2 * i]) : src[2 * i]);
		memcpy(dst + n->bytes, &index, sizeof(index));
	}
}

size_t hdl_enc_bytes(const struct hdl_enc *enc, size_t len)
{
	switch (enc->form) {
	case HDL_ENC_WORDS: return (len + 7) / 8 * HDL_CALC_ELEMENT;
	case HDL_ENC_WIDE: case HDL_ENC_PAIRS: return len / enc->esize * HDL_CALC_ELEMENT;
	default: return len;
	}
}

void hdl_enc_encode(const struct hdl_enc *enc, void *dst, const void *src, size_t len)
{
	const struct number *n = encode_number_of(enc->rep);
	const char *from = src;
	uint64_t *to = dst;

	switch (enc->form) {
	case HDL_ENC_PLAIN:
		map(enc->in, dst, src, len, enc->esize);
		break;
	case HDL_ENC_WORDS:
		for (size_t at = 0; at < len; at += 8, to += 2)
			*to = hdl_enc_word(enc, from + at, len - at < 8 ? len - at : 8);
		break;
	case HDL_ENC_WIDE:
		for (size_t at = 0; at + enc->esize <= len; at += enc->esize, to += 2)
			*to = htobe64(encode_widen(n, from + at));
		break;
	case HDL_ENC_PAIRS:
		encode_pairs(enc, dst, src, len / enc->esize);
		break;
	}
}

void hdl_enc_decode(const struct hdl_enc *enc, void *dst, const void *src, size_t len)
{
	const struct number *n = encode_number_of(enc->rep);
	const uint64_t *from = src;
	char *to = dst;

	switch (enc->form) {
	case HDL_ENC_PLAIN:
		map(enc->out, dst, src, len, enc->esize);
		break;
	case HDL_ENC_WORDS:
		for (size_t at = 0; at < len; at += 8, from += 2)
			memcpy(to + at, from, len - at < 8 ? len - at : 8);
		break;
	case HDL_ENC_WIDE:
		for (size_t at = 0; at + enc->esize <= len; at += enc->esize, from += 2)
			narrow(n, to + at, be64toh(*from));
		break;
	case HDL_ENC_PAIRS:
		decode_pairs(enc, dst, src, len / enc->esize);
		break;
	}
}
