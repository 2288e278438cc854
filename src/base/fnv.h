/* SPDX-License-Identifier: BSD-3-Clause */
/* FNV-1a, for names and numbers that processes compare. The function must not change: results are on the wire and in names of
 * sockets. */
#ifndef BASE_FNV_H
#define BASE_FNV_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The hash of no bytes, by which a computation starts. */
#define FNV1A_64 0xcbf29ce484222325u
#define FNV1A_32 0x811c9dc5u

/* Returns hash `h` with n more bytes. */
static inline uint64_t fnv1a_64(uint64_t h, const void *data, size_t n)
{
	for (const unsigned char *p = data; n--; p++)
		h = (h ^ *p) * 0x100000001b3u;
	return h;
}

static inline uint32_t fnv1a_32(uint32_t h, const void *data, size_t n)
{
	for (const unsigned char *p = data; n--; p++)
		h = (h ^ *p) * 0x01000193u;
	return h;
}

/* Of the characters of a string, without its end. */
static inline uint64_t fnv1a_64_string(const char *s)
{
	return fnv1a_64(FNV1A_64, s, strlen(s));
}

#endif
