/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces and their ranks: which there are, and which of them are connected. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/launcher.h"

struct nspace *nspace_new(struct job *job, const char *name, struct app *apps, int napps)
{
	struct nspace *ns = must(calloc(1, sizeof *ns)), **link = &job->nspaces;
	int r = 0;

	while (*link)
		link = &(*link)->next;
	*link = ns;
	snprintf(ns->name, sizeof ns->name, "%s", name);
	ns->apps = apps;
	ns->napps = napps;
	ns->file_fd = -1;
	for (int a = 0; a < napps; a++)
		ns->nranks += apps[a].nranks;
	ns->ranks = must(calloc((size_t)ns->nranks, sizeof *ns->ranks));
	for (int a = 0; a < napps; a++)
		for (int i = 0; i < apps[a].nranks; i++, r++)
			ns->ranks[r] = (struct rank){ .app = &apps[a], .ns = ns, .number = r, .slot = -1 };
	return ns;
}

void apps_free(struct app *apps, int napps)
{
	for (int a = 0; a < napps; a++) {
		env_free(apps[a].argv);
		env_free(apps[a].set_env);
		env_free(apps[a].env);
		free(apps[a].path);
		free((char *)apps[a].wdir);
		free((char *)apps[a].dirs);
		free((char *)apps[a].soft);
	}
	free(apps);
}

void nspace_free(struct job *job, struct nspace *ns)
{
	struct nspace **link = &job->nspaces;

	while (*link != ns)
		link = &(*link)->next;
	*link = ns->next;
	for (struct rank *r = rank_first(job); r; r = rank_next(r))
		rank_connect(r, ns, false);
	for (int r = 0; r < ns->nranks; r++) {
		guard_put(job->guard, ns->ranks[r].slot);
		free(ns->ranks[r].connected);
	}
	if (ns->file_fd >= 0)
		close(ns->file_fd);
	binding_free(ns->binding);
	apps_free(ns->apps, ns->napps);
	free(ns->ranks);
	free(ns);
}

/* ---- finding, naming ------------------------------------------------------------------------------------------------ */

struct rank *rank_first(const struct job *job)
{
	return job->nspaces ? job->nspaces->ranks : NULL;	/* no namespace is without ranks */
}

struct rank *rank_next(const struct rank *rank)
{
	const struct nspace *ns = rank->ns;

	if (rank->number + 1 < ns->nranks)
		return &ns->ranks[rank->number + 1];
	return ns->next ? ns->next->ranks : NULL;
}

struct nspace *nspace_find(const struct job *job, const char *name)
{
	struct nspace *ns = job->nspaces;

	while (ns && strcmp(ns->name, name))
		ns = ns->next;
	return ns;
}

struct rank *rank_find(const struct job *job, const char *nspace, int number)
{
	struct nspace *ns = nspace_find(job, nspace);

	return ns && number >= 0 && number < ns->nranks ? &ns->ranks[number] : NULL;
}

const char *rank_name(const struct rank *rank)
{
	static char texts[4][64];
	static unsigned next;
	char *text = texts[next++ % 4];

	if (rank->ns->number)
		snprintf(text, sizeof *texts, "rank %d of spawned job %d", rank->number, rank->ns->number);
	else
		snprintf(text, sizeof *texts, "rank %d", rank->number);
	return text;
}

void rank_tag(const struct rank *rank, char between, char *text, size_t size)
{
	if (rank->ns->number)
		snprintf(text, size, "%d%c%d", rank->ns->number, between, rank->number);
	else
		snprintf(text, size, "%d", rank->number);
}

/* ---- connections ---------------------------------------------------------------------------------------------------- */

void rank_connect(struct rank *rank, struct nspace *other, bool more)
{
	int i = 0;

	while (i < rank->nconnected && rank->connected[i] != other)
		i++;
	if (more && i == rank->nconnected) {
		rank->connected = must(realloc(rank->connected, sizeof *rank->connected * (size_t)(i + 1)));
		rank->connected[rank->nconnected++] = other;
	} else if (!more && i < rank->nconnected) {
		rank->connected[i] = rank->connected[--rank->nconnected];
	}
}

/* Returns true if a rank of a that has not left has communicators with b, or a was spawned by b and has not disconnected. */
static bool nspace_reaches(const struct nspace *a, const struct nspace *b)
{
	if (a->bound && !strcmp(a->parent, b->name))
		return true;
	for (int r = 0; r < a->nranks; r++)
		for (int i = 0; i < a->ranks[r].nconnected && !a->ranks[r].left; i++)
			if (a->ranks[r].connected[i] == b)
				return true;
	return false;
}

bool nspace_mark(struct job *job, struct nspace *ns)
{
	bool more = true, others = false;

	for (struct nspace *n = job->nspaces; n; n = n->next)
		n->marked = n == ns;
	while (more) {
		more = false;
		for (struct nspace *a = job->nspaces; a; a = a->next)
			for (struct nspace *b = job->nspaces; b && a->marked; b = b->next)
				if (!b->marked && (nspace_reaches(a, b) || nspace_reaches(b, a)))
					b->marked = more = true;
	}
	for (struct nspace *n = job->nspaces; n; n = n->next)
		others |= !n->marked && n->running > 0;
	return others;
}
