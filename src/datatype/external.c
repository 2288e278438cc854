/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "external32" (MPI-5.0 section 14.5.2): big-endian, two's complement, IEEE formats, and lengths that do not depend on the
 * machine. A long has 4 bytes and a wide character 2, of which the least significant are kept; a long double is binary128.
 */
#include "datatype/layout.h"

#include <float.h>
#include <string.h>

enum kind { WORDS, SIGNED, UNSIGNED, EXTENDED };

/* How a basic type is represented: `parts` numbers (complex: 2) of `here` bytes in memory and `there` bytes packed. */
struct format {
	uint8_t parts, here, there;
	uint8_t kind;		/* WORDS: both lengths are the same */
};

#define AT(handle)		((uintptr_t)(handle) - HDL_TYPE_FIRST)
#define LENGTH(handle, parts, bytes)	[AT(handle)] = { parts, bytes, bytes, WORDS }
#define CONVERTED(handle, parts, ctype, there, kind)	[AT(handle)] = { parts, sizeof(ctype), there, kind }

static const struct format formats[HDL_TYPE_LAST - HDL_TYPE_FIRST + 1] = {
	LENGTH(MPI_AINT, 1, 8), LENGTH(MPI_COUNT, 1, 8), LENGTH(MPI_OFFSET, 1, 8), LENGTH(MPI_PACKED, 1, 1),
	LENGTH(MPI_SHORT, 1, 2), LENGTH(MPI_INT, 1, 4), CONVERTED(MPI_LONG, 1, long, 4, SIGNED), LENGTH(MPI_LONG_LONG, 1, 8),
	LENGTH(MPI_UNSIGNED_SHORT, 1, 2), LENGTH(MPI_UNSIGNED, 1, 4),
	CONVERTED(MPI_UNSIGNED_LONG, 1, unsigned long, 4, UNSIGNED), LENGTH(MPI_UNSIGNED_LONG_LONG, 1, 8),
	LENGTH(MPI_FLOAT, 1, 4), LENGTH(MPI_C_FLOAT_COMPLEX, 2, 4), LENGTH(MPI_CXX_FLOAT_COMPLEX, 2, 4),
	LENGTH(MPI_DOUBLE, 1, 8), LENGTH(MPI_C_DOUBLE_COMPLEX, 2, 8), LENGTH(MPI_CXX_DOUBLE_COMPLEX, 2, 8),
	CONVERTED(MPI_LONG_DOUBLE, 1, long double, 16, EXTENDED),
	CONVERTED(MPI_C_LONG_DOUBLE_COMPLEX, 2, long double, 16, EXTENDED),
	CONVERTED(MPI_CXX_LONG_DOUBLE_COMPLEX, 2, long double, 16, EXTENDED),
	LENGTH(MPI_LOGICAL, 1, 4), LENGTH(MPI_INTEGER, 1, 4), LENGTH(MPI_REAL, 1, 4), LENGTH(MPI_COMPLEX, 2, 4),
	LENGTH(MPI_DOUBLE_PRECISION, 1, 8), LENGTH(MPI_DOUBLE_COMPLEX, 2, 8), LENGTH(MPI_CHARACTER, 1, 1),
	LENGTH(MPI_C_BOOL, 1, 1), LENGTH(MPI_CXX_BOOL, 1, 1), CONVERTED(MPI_WCHAR, 1, wchar_t, 2, UNSIGNED),
	LENGTH(MPI_INT8_T, 1, 1), LENGTH(MPI_UINT8_T, 1, 1), LENGTH(MPI_CHAR, 1, 1), LENGTH(MPI_SIGNED_CHAR, 1, 1),
	LENGTH(MPI_UNSIGNED_CHAR, 1, 1), LENGTH(MPI_BYTE, 1, 1), LENGTH(MPI_INT16_T, 1, 2), LENGTH(MPI_UINT16_T, 1, 2),
	LENGTH(MPI_INT32_T, 1, 4), LENGTH(MPI_UINT32_T, 1, 4), LENGTH(MPI_INT64_T, 1, 8), LENGTH(MPI_UINT64_T, 1, 8),
	LENGTH(MPI_LOGICAL1, 1, 1), LENGTH(MPI_INTEGER1, 1, 1), LENGTH(MPI_LOGICAL2, 1, 2), LENGTH(MPI_INTEGER2, 1, 2),
	LENGTH(MPI_REAL2, 1, 2), LENGTH(MPI_LOGICAL4, 1, 4), LENGTH(MPI_INTEGER4, 1, 4), LENGTH(MPI_REAL4, 1, 4),
	LENGTH(MPI_COMPLEX4, 2, 2), LENGTH(MPI_LOGICAL8, 1, 8), LENGTH(MPI_INTEGER8, 1, 8), LENGTH(MPI_REAL8, 1, 8),
	LENGTH(MPI_COMPLEX8, 2, 4), LENGTH(MPI_LOGICAL16, 1, 16), LENGTH(MPI_INTEGER16, 1, 16), LENGTH(MPI_REAL16, 1, 16),
	LENGTH(MPI_COMPLEX16, 2, 8), LENGTH(MPI_COMPLEX32, 2, 16),
};
_Static_assert(sizeof(long) == 8 && sizeof(wchar_t) == 4 && sizeof(MPI_Aint) == 8, "lengths in memory");

/* Between memory's byte order and big-endian, either way. */
static inline void swap(unsigned char *to, const unsigned char *from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		to[i] = from[__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? i : n - 1 - i];
}

/* ---- long double ---------------------------------------------------------------------------------------------------- */

/* Big-endian binary128: sign, 15 bits of exponent, 112 of fraction. The x87's 80 bits have the same exponent, and store
 * the leading one of the significand explicitly before 63 bits of fraction. */
#if LDBL_MANT_DIG == 64
typedef unsigned __int128 wide;

static void extended_out(unsigned char *to, const unsigned char *from)
{
	uint64_t significand;
	uint16_t top;
	wide w;

	memcpy(&significand, from, 8);
	memcpy(&top, from + 8, 2);
	if (!(top & 0x7fff) && significand >> 63)
		top |= 1;		/* a pseudo-denormal: a normal number whose exponent field is 0 */
	w = (wide)top << 112 | (wide)(significand << 1) << 48;
	for (int i = 0; i < 16; i++)
		to[i] = (unsigned char)(w >> 8 * (15 - i));
}

static void extended_in(unsigned char *to, const unsigned char *from)
{
	uint64_t significand;
	uint16_t top;
	wide w = 0, fraction, rest;

	for (int i = 0; i < 16; i++)
		w = w << 8 | from[i];
	top = (uint16_t)(w >> 112);
	fraction = w << 16 >> 16;
	significand = (uint64_t)(fraction >> 49);
	rest = fraction & (((wide)1 << 49) - 1);
	if ((top & 0x7fff) == 0x7fff) {
		if (fraction && !significand)
			significand = 1ull << 62;	/* a NaN whose payload would be cut off, which would leave
							 * infinity */
	} else if (rest > (wide)1 << 48 || (rest == (wide)1 << 48 && (significand & 1))) {
		significand++;				/* to nearest, ties to even; may carry */
		if (significand >> 63) {
			significand = 0;
			top++;
		}
	}
	if (top & 0x7fff)
		significand |= 1ull << 63;
	memset(to, 0, sizeof(long double));
	memcpy(to, &significand, 8);
	memcpy(to + 8, &top, 2);
}
#elif LDBL_MANT_DIG == 113
static void extended_out(unsigned char *to, const unsigned char *from)
{
	swap(to, from, 16);
}

static void extended_in(unsigned char *to, const unsigned char *from)
{
	swap(to, from, 16);
}
#else
#error "external32 knows a long double of 80 bits and of 128"
#endif

/* ---- numbers -------------------------------------------------------------------------------------------------------- */

static void number_out(unsigned char *to, const unsigned char *from, const struct format *f)
{
	bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

	if (f->kind == EXTENDED)
		extended_out(to, from);
	else
		swap(to, big ? from + f->here - f->there : from, f->there);
}

static void external_number_in(unsigned char *to, const unsigned char *from, const struct format *f)
{
	uint64_t v;

	switch (f->kind) {
	case EXTENDED:
		extended_in(to, from);
		break;
	case WORDS:
		swap(to, from, f->here);
		break;
	default:
		v = f->kind == SIGNED && from[0] & 0x80 ? UINT64_MAX : 0;
		for (int i = 0; i < f->there; i++)
			v = v << 8 | from[i];
		if (f->here == 8)
			memcpy(to, &v, 8);
		else
			memcpy(to, &(uint32_t){ (uint32_t)v }, 4);
	}
}

/* ---- streams -------------------------------------------------------------------------------------------------------- */

static int want_typed(struct hdl_type *t)
{
	if (t->size && !t->typed)
		t->typed = hdl_compile(t, true);
	return t->size && !t->typed ? MPI_ERR_NO_MEM : MPI_SUCCESS;
}

/* n numbers of this format in a run of that many bytes. */
static size_t numbers(const struct format *f, size_t bytes)
{
	return bytes / f->here;
}

int hdl_external_size(struct hdl_type *t, MPI_Count *bytes)
{
	const struct hdl_type *base = hdl_type_base(t);
	union hdl_any_stream any;
	const struct format *f;
	uint8_t tag;
	void *run;
	size_t n;
	int rc;

	*bytes = 0;
	if (base && base->elements == 1) {
		f = &formats[base - hdl_types];
		*bytes = t->elements * f->parts * f->there;
		return MPI_SUCCESS;
	}
	rc = want_typed(t);
	if (rc || !t->size)
		return rc;
	hdl_stream_open_layout(&any.s, NULL, 1, t, t->typed, 0);
	while ((n = hdl_stream_next_typed(&any.s, &run, &tag)))
		*bytes += (MPI_Count)numbers(&formats[tag], n) * formats[tag].there;
	return MPI_SUCCESS;
}

/* most: bytes of the packed side. */
static int convert(char *packed, MPI_Count most, const void *buf, MPI_Count count, struct hdl_type *t, bool unpack)
{
	union hdl_any_stream any;
	const struct format *f;
	uint8_t tag;
	void *run;
	size_t n;
	int rc = want_typed(t);

	if (rc || !count || !t->size)
		return rc;
	hdl_stream_open_layout(&any.s, buf, count, t, t->typed, 0);
	while ((n = hdl_stream_next_typed(&any.s, &run, &tag))) {
		f = &formats[tag];
		n = numbers(f, n);
		if (unlikely((MPI_Count)n > most / f->there))
			n = (size_t)(most / f->there);
		if (!n)
			break;
		most -= (MPI_Count)n * f->there;
		if (f->here == 1 && unpack)
			memcpy(run, packed, n);
		else if (f->here == 1)
			memcpy(packed, run, n);
		else
			for (size_t i = 0; i < n; i++) {
				unsigned char *here = (unsigned char *)run + i * f->here;
				unsigned char *there = (unsigned char *)packed + i * f->there;

				if (unpack)
					external_number_in(here, there, f);
				else
					number_out(there, here, f);
			}
		packed += n * f->there;
	}
	return MPI_SUCCESS;
}

int hdl_pack_external(void *packed, const void *buf, MPI_Count count, struct hdl_type *t)
{
	return convert(packed, INT64_MAX, buf, count, t, false);
}

int hdl_unpack_external(void *buf, const void *packed, MPI_Count count, struct hdl_type *t)
{
	return convert((void *)packed, INT64_MAX, buf, count, t, true);
}

int hdl_unpack_external_part(void *buf, const void *packed, MPI_Count bytes, MPI_Count count, struct hdl_type *t)
{
	return convert((void *)packed, bytes, buf, count, t, true);
}

MPI_Count hdl_external_basic(MPI_Datatype basic, void *arg)
{
	const struct format *f = &formats[AT(basic)];

	(void)arg;
	return (MPI_Count)f->parts * f->there;
}

/* n basic elements of one type, of which as many count as have their bytes in the rest. Returns whether all have. */
static bool count_items(struct hdl_items *items, MPI_Count n, MPI_Count here, MPI_Count there, MPI_Count most)
{
	MPI_Count fit = there ? (most - items->there) / there : n;

	fit = fit < n ? fit : n;
	items->n += fit;
	items->here += fit * here;
	items->there += fit * there;
	return fit == n;
}

int hdl_type_items(struct hdl_type *t, MPI_Count count, MPI_Count most, hdl_basic_bytes bytes, void *arg, struct hdl_items *items)
{
	const struct hdl_type *base = hdl_type_base(t);
	union hdl_any_stream any;
	uint8_t tag;
	void *run;
	size_t n;
	int rc;

	*items = (struct hdl_items){ 0 };
	if (base && base->elements == 1) {
		count_items(items, count * t->elements, base->size,
			    bytes((MPI_Datatype)(HDL_TYPE_FIRST + (uintptr_t)(base - hdl_types)), arg), most);
		return MPI_SUCCESS;
	}
	rc = want_typed(t);
	if (rc || !t->size)
		return rc;
	hdl_stream_open_layout(&any.s, NULL, count, t, t->typed, 0);
	while ((n = hdl_stream_next_typed(&any.s, &run, &tag)))
		if (!count_items(items, (MPI_Count)n / hdl_types[tag].size, hdl_types[tag].size,
				 bytes((MPI_Datatype)(uintptr_t)(HDL_TYPE_FIRST + tag), arg), most))
			break;
	return MPI_SUCCESS;
}
