/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hang report: the calls in which the ranks wait, and for which peers. Asked for by SIGUSR1 to heddlerun, or once by
 * --report-hang. The question and the answers go by PMIx (runtime/ask.h); ranks with equal answers share a line, and small groups
 * come before large ones.
 */
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

#define MS 1000000ull
enum {
	AGAIN_MS = 300,		/* milliseconds; HDL_ASK is sent again, for ranks that were about to sleep */
	NOW_MS = 600,		/* milliseconds; ranks without an answer do not wait in MPI: HDL_ASK_NOW, which PMIx's
				 * thread answers */
	PRINT_MS = 3000,	/* milliseconds; ranks that have not even answered HDL_ASK_NOW are reported as such */
	GROUPS = 32,		/* lines about ranks; more would not be read */
	DETAILS = 6,		/* lines of details for the first rank of each group */
};

struct answer {
	const struct rank *rank;
	bool there;
	uint64_t since_us;	/* 0: unknown */
	char *text;		/* the rank's call, then lines of details */
	size_t head;		/* length of the first line */
};

static struct {
	struct answer *answers;	/* of each rank, in the order of rank_next; NULL: no question is under way */
	int n;
	uint64_t again_at, now_at, print_at;
} hang;

/* ---- processes of the ranks, by /proc ----------------------------------------------------------------------------- */

struct process {
	int pid, pgrp;
	char state;
	bool catches_usr1;
};

static bool read_process(const char *pid, struct process *p)
{
	char path[64], line[512], *after;
	unsigned long long caught = 0;
	FILE *f;

	memset(p, 0, sizeof *p);
	snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	after = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
	fclose(f);
	if (!after || sscanf(after + 1, " %c %*d %d", &p->state, &p->pgrp) != 2)
		return false;
	p->pid = atoi(pid);
	snprintf(path, sizeof path, "/proc/%.20s/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "SigCgt: %llx", &caught) == 1)
			break;
	if (f)
		fclose(f);
	p->catches_usr1 = caught >> (SIGUSR1 - 1) & 1;
	return true;
}

static void each_process(const struct job *job, void (*fn)(const struct rank *rank, const struct process *p))
{
	DIR *proc = opendir("/proc");
	struct dirent *e;

	while (proc && (e = readdir(proc))) {
		struct process p;

		if (!isdigit((unsigned char)e->d_name[0]) || !read_process(e->d_name, &p))
			continue;
		for (const struct rank *r = rank_first(job); r; r = rank_next(r))
			if (!r->ended && r->pid == p.pgrp)
				fn(r, &p);
	}
	if (proc)
		closedir(proc);
}

static void pass_on(const struct rank *rank, const struct process *p)
{
	if (p->catches_usr1)
		kill(p->pid, SIGUSR1);
}

/* NULL: the rank was not there when the question was asked. */
static struct answer *hang_answer_of(const struct rank *rank)
{
	for (int i = 0; i < hang.n; i++)
		if (hang.answers[i].rank == rank)
			return &hang.answers[i];
	return NULL;
}

static void note_stopped(const struct rank *rank, const struct process *p)
{
	struct answer *a = hang_answer_of(rank);

	if (a && !a->there && (p->state == 'T' || p->state == 't')) {
		free(a->text);
		a->text = must(strdup(p->state == 'T' ? "is stopped (by a signal; SIGCONT lets it go on)\n" :
							"is stopped by a debugger\n"));
	}
}

/* ---- asking --------------------------------------------------------------------------------------------------------- */

void hang_ask(const struct job *job, bool by_signal)
{
	uint64_t now = monotonic_ns();

	/* Programs that handle SIGUSR1 have a use of their own for the signal. All other programs would be ended by
	 * SIGUSR1. */
	if (by_signal)
		each_process(job, pass_on);
	if (hang.answers)
		return;		/* under way */
	hang.n = 0;
	for (const struct rank *r = rank_first(job); r; r = rank_next(r))
		hang.n++;
	hang.answers = must(calloc((size_t)hang.n, sizeof *hang.answers));
	hang.n = 0;
	for (const struct rank *r = rank_first(job); r; r = rank_next(r))
		hang.answers[hang.n++].rank = r;
	hang.again_at = now + AGAIN_MS * MS;
	hang.now_at = now + NOW_MS * MS;
	hang.print_at = now + PRINT_MS * MS;
	server_ask(false);
}

static bool is_asked(const struct rank *rank)
{
	return !rank->ended && rank->joined && !rank->left;
}

bool hang_is_asking(void)
{
	return hang.answers != NULL;
}

void hang_answer(const struct rank *rank, const char *text)
{
	struct answer *a = hang.answers ? hang_answer_of(rank) : NULL;
	const char *line = strchr(text, '\n');

	if (!a || a->there || !line)
		return;		/* too late, or no answer */
	a->there = true;
	a->since_us = strtoull(text, NULL, 10);
	a->text = must(strdup(line + 1));
	for (int i = 0; i < hang.n; i++)
		if (is_asked(hang.answers[i].rank) && !hang.answers[i].there)
			return;
	hang.print_at = 0;
}

/* ---- telling ---------------------------------------------------------------------------------------------------------- */

static void fill_in(const struct job *job)
{
	for (int i = 0; i < hang.n; i++) {
		const struct rank *rank = hang.answers[i].rank;
		struct answer *a = &hang.answers[i];

		if (a->there)
			continue;
		a->text = must(strdup(rank->ended ? "has ended\n" : rank->left ? "is past MPI_Finalize\n" :
				      !rank->joined ? "has not called MPI_Init\n" :
				      "does not answer (its threads do not run; is the host overloaded?)\n"));
	}
	each_process(job, note_stopped);
	for (int i = 0; i < hang.n; i++)
		hang.answers[i].head = strcspn(hang.answers[i].text, "\n");
}

/* By namespace, then by rank. */
static int hang_order(const struct rank *a, const struct rank *b)
{
	return a->ns != b->ns ? a->ns->number - b->ns->number : a->number - b->number;
}

static int hang_by_text(const void *x, const void *y)
{
	const struct answer *a = x, *b = y;
	size_t n = a->head < b->head ? a->head : b->head;
	int order = memcmp(a->text, b->text, n);

	if (order || a->head != b->head)
		return order ? order : a->head < b->head ? -1 : 1;
	/* a line names ranks of one namespace */
	return hang_order(a->rank, b->rank);
}

/* Ranks with equal answers, in the sorted array. */
struct group {
	struct answer *first;
	int n;
};

static int by_size(const void *x, const void *y)
{
	const struct group *a = x, *b = y;

	return a->n != b->n ? a->n - b->n : hang_order(a->first->rank, b->first->rank);
}

/* "ranks 0-3, 7 ", or "ranks 0-3, 7 of spawned job 1 "; malloc'd */
static char *name_ranks(const struct group *g)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	must(out);
	fputs(g->n == 1 ? "rank " : "ranks ", out);
	for (int i = 0, j; i < g->n; i = j + 1) {
		for (j = i; j + 1 < g->n && g->first[j + 1].rank->number == g->first[j].rank->number + 1; j++)
			;
		fprintf(out, "%s%d", i ? ", " : "", g->first[i].rank->number);
		if (j > i)
			fprintf(out, "%s%d", j > i + 1 ? "-" : ", ", g->first[j].rank->number);
		if (ftell(out) > 200 && j + 1 < g->n) {
			fprintf(out, ", ... (%d in all)", g->n);
			break;
		}
	}
	if (g->first->rank->ns->number)
		fprintf(out, " of spawned job %d", g->first->rank->ns->number);
	fclose(out);
	return must(text);
}

/* The verb for several ranks: "waits" becomes "wait". *verb: the length of the word that is replaced. */
static const char *hang_plural(const char *text, int *verb)
{
	static const char *const one[] = { "waits", "is", "has", "does", NULL }, *const many[] = { "wait", "are", "have", "do" };

	*verb = (int)strcspn(text, " ");
	for (int i = 0; one[i]; i++)
		if (!strncmp(text, one[i], (size_t)*verb) && !one[i][*verb])
			return many[i];
	*verb = 0;
	return "";
}

static void print_group(const struct group *g)
{
	const char *text = g->first->text, *line = text + g->first->head;
	const char *replaced = "";
	int verb = 0;
	char *who = name_ranks(g), since[48] = "";
	uint64_t longest = 0;

	if (g->n > 1)
		replaced = hang_plural(text, &verb);
	for (int i = 0; i < g->n; i++)
		if (g->first[i].since_us > longest)
			longest = g->first[i].since_us;
	if (longest)
		snprintf(since, sizeof since, ", since %.*f s", longest < 10000000, (double)longest / 1e6);
	complain("  %s %s%.*s%s", who, replaced, (int)g->first->head - verb, text + verb, since);
	free(who);
	for (int i = 0; *line && *++line && i < DETAILS; i++) {
		size_t n = strcspn(line, "\n");

		if (i == DETAILS - 1 && line[n] && line[n + 1])
			complain("    %s: ...", rank_name(g->first->rank));
		else
			complain("    %s: %.*s", rank_name(g->first->rank), (int)n, line);
		line += n;
	}
}

static void hang_tell(const struct job *job)
{
	struct group *groups = must(calloc((size_t)hang.n, sizeof *groups));
	int ngroups = 0, left = 0;

	fill_in(job);
	qsort(hang.answers, (size_t)hang.n, sizeof *hang.answers, hang_by_text);
	for (int i = 0; i < hang.n; i++) {
		struct answer *a = &hang.answers[i];

		if (i && a->rank->ns == a[-1].rank->ns && a->head == a[-1].head && !memcmp(a->text, a[-1].text, a->head))
			groups[ngroups - 1].n++;
		else
			groups[ngroups++] = (struct group){ a, 1 };
	}
	qsort(groups, (size_t)ngroups, sizeof *groups, by_size);
	complain("what the %d ranks wait for:", hang.n);
	for (int i = 0; i < ngroups; i++) {
		if (i < GROUPS)
			print_group(&groups[i]);
		else
			left += groups[i].n;
	}
	if (left)
		complain("  and %d ranks more, which wait for something else each", left);
	free(groups);
	for (int i = 0; i < hang.n; i++)
		free(hang.answers[i].text);
	free(hang.answers);
	hang.answers = NULL;
}

uint64_t hang_next(void)
{
	if (!hang.answers)
		return 0;
	return hang.again_at && hang.print_at ? hang.again_at : hang.now_at && hang.print_at ? hang.now_at :
	       hang.print_at ? hang.print_at : 1;
}

void hang_check(const struct job *job)
{
	uint64_t now = monotonic_ns();
	bool any = false;

	if (!hang.answers)
		return;
	for (int i = 0; i < hang.n; i++)
		any |= is_asked(hang.answers[i].rank) && !hang.answers[i].there;
	if (!any || now >= hang.print_at) {
		hang_tell(job);
	} else if (hang.again_at && now >= hang.again_at) {
		hang.again_at = 0;
		server_ask(false);
	} else if (hang.now_at && now >= hang.now_at) {
		hang.now_at = 0;
		server_ask(true);
	}
}
