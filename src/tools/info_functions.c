/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle_info --functions: the functions of the MPI standard ABI by chapter, and which of them this version has. */
#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "tools/info.h"

static const struct chapter {
	int number;
	const char *title;
} chapters[] = {
#define HDL_CHAPTER(number, title)		{ number, title },
#define HDL_FUNCTION(chapter, name, present)
#include "mpi/list.h"
#undef HDL_CHAPTER
#undef HDL_FUNCTION
};

static const struct function {
	int chapter;
	const char *name;
	bool present;
} functions[] = {
#define HDL_CHAPTER(number, title)
#define HDL_FUNCTION(chapter, name, present)	{ chapter, name, present },
#include "mpi/list.h"
};
enum { NCHAPTERS = ARRAY_SIZE(chapters), NFUNCTIONS = ARRAY_SIZE(functions) };

/* Chapter 0: all. */
static void info_functions_count(int chapter, int *present, int *all)
{
	*present = *all = 0;
	for (int i = 0; i < NFUNCTIONS; i++)
		if (!chapter || functions[i].chapter == chapter) {
			*present += functions[i].present;
			++*all;
		}
}

int info_functions(void)
{
	int present, all;

	info_functions_count(0, &present, &all);
	printf("Functions of MPI 5.0 (a large-count form _c counts as one of its own). %s\n",
	       present == all ? "None is missing." :
				"Missing ones can be\nlinked, and raise MPI_ERR_UNSUPPORTED_OPERATION.");
	for (int c = 0; c < NCHAPTERS; c++) {
		info_functions_count(chapters[c].number, &present, &all);
		printf("\nChapter %d: %s (%d of %d)\n", chapters[c].number, chapters[c].title, present, all);
		for (int i = 0; i < NFUNCTIONS; i++)
			if (functions[i].chapter == chapters[c].number)
				printf("    %-40s %s\n", functions[i].name, functions[i].present ? "present" : "missing");
	}
	printf("\n");
	for (int c = 0; c < NCHAPTERS; c++) {
		info_functions_count(chapters[c].number, &present, &all);
		printf("%4d of %4d   chapter %d: %s\n", present, all, chapters[c].number, chapters[c].title);
	}
	info_functions_count(0, &present, &all);
	printf("%4d of %4d   in all\n", present, all);
	return 0;
}
