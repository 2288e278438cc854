/* SPDX-License-Identifier: BSD-3-Clause */
/* The known name nearest to a mistyped one, by Damerau-Levenshtein distance (restricted transpositions). */
#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "runtime/runtime.h"

enum { LONGEST = 63 };	/* a longer word is near to none of our names */

static int min3(int a, int b, int c)
{
	int m = a < b ? a : b;

	return m < c ? m : c;
}

static int nearest_distance(const char *a, const char *b)
{
	int row[3][LONGEST + 1], *before = row[0], *last = row[1], *now = row[2];
	int la = (int)strlen(a), lb = (int)strlen(b);

	if (la > LONGEST || lb > LONGEST)
		return INT_MAX;
	for (int j = 0; j <= lb; j++)
		last[j] = j;
	for (int i = 1; i <= la; i++) {
		int *free_row = before, ca = tolower((unsigned char)a[i - 1]);

		now[0] = i;
		for (int j = 1; j <= lb; j++) {
			int cb = tolower((unsigned char)b[j - 1]);

			now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (ca != cb));
			if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
			    cb == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		before = last;
		last = now;
		now = free_row;
	}
	return last[lb];
}

const char *hdl_nearest(const char *word, const char *const *names)
{
	/* A third of the letters may be wrong: beyond that a suggestion misleads. */
	int len = (int)strlen(word), best = len / 3 > 1 ? len / 3 + 1 : 2;
	const char *found = NULL;

	for (; *names; names++) {
		int d = nearest_distance(word, *names);

		if (d < best) {
			best = d;
			found = *names;
		}
	}
	return found;
}
