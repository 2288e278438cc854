/* SPDX-License-Identifier: BSD-3-Clause */
/* The key soft of MPI_Comm_spawn's info (MPI-5.0 section 11.8.4). */
#include <ctype.h>
#include <stdlib.h>

#include "runtime/runtime.h"

/* Reads one number. false: there is none. */
static bool soft_number(const char **at, long *v)
{
	char *end;

	while (isspace((unsigned char)**at))
		++*at;
	*v = strtol(*at, &end, 10);
	if (end == *at)
		return false;
	for (*at = end; isspace((unsigned char)**at);)
		++*at;
	return true;
}

/* Reads a, a:b or a:b:c. */
static bool soft_triplet(const char **at, long *a, long *b, long *c)
{
	*c = 1;
	if (!soft_number(at, a))
		return false;
	*b = *a;
	if (**at == ':' && (++*at, !soft_number(at, b)))
		return false;
	if (**at == ':' && (++*at, !soft_number(at, c)))
		return false;
	return *c != 0;
}

/* The largest number of the triplet that is from 1 to most; 0: none. */
static long soft_largest(long a, long b, long c, long most)
{
	long step = c > 0 ? c : -c, first = c > 0 ? a : a - (a - b) / step * step, last = c > 0 ? b : a;

	if ((c > 0 ? a > b : a < b) || first > most)
		return 0;
	last = last < most ? last : most;
	last = first + (last - first) / step * step;
	return last > 0 ? last : 0;
}

int hdl_soft_largest(const char *soft, int most)
{
	long a, b, c, largest = 0, v;

	for (;;) {
		if (!soft_triplet(&soft, &a, &b, &c) || (*soft && *soft != ','))
			return -1;
		v = soft_largest(a, b, c, most);
		largest = v > largest ? v : largest;
		if (!*soft++)
			return (int)largest;
	}
}
