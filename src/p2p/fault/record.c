/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of failed processes: see fault.h. */
#include "p2p/fault/fault.h"
#include "p2p/p2p.h"

#include <stdlib.h>

struct hdl_ft_record *hdl_ft_list;
unsigned hdl_ft_count, hdl_ft_reported;

static unsigned find_or_add(int proc)
{
	struct hdl_ft_record *more;
	unsigned i = 0;

	while (i < hdl_ft_count && hdl_ft_list[i].proc != proc)
		i++;
	if (i < hdl_ft_count)
		return i;
	more = realloc(hdl_ft_list, (hdl_ft_count + 1) * sizeof(*more));
	if (!more)
		hdl_out_of_memory("noting that a rank has failed", (hdl_ft_count + 1) * sizeof(*more));
	hdl_ft_list = more;
	hdl_ft_list[hdl_ft_count++] = (struct hdl_ft_record){ .proc = proc };
	return i;
}

unsigned hdl_ft_record_at(int proc)
{
	unsigned at = find_or_add(proc);

	hdl_ft_list[at].departed = false;
	return at;
}

void hdl_ft_record_departed(int proc)
{
	unsigned n = hdl_ft_count, at = find_or_add(proc);

	if (at == n)
		hdl_ft_list[at].departed = true;
}

static bool is_among(const struct hdl_ft_record *r, int first, int n)
{
	return r->proc >= first && r->proc - first < n;
}

bool hdl_ft_keeps(int first, int n)
{
	for (unsigned i = 0; i < hdl_ft_count; i++)
		if (is_among(&hdl_ft_list[i], first, n) && (i < hdl_ft_reported || !hdl_ft_list[i].departed))
			return true;
	return false;
}

void hdl_ft_forget(int first, int n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < hdl_ft_count; i++)
		if (!is_among(&hdl_ft_list[i], first, n))
			hdl_ft_list[kept++] = hdl_ft_list[i];
	hdl_ft_count = kept;
}

/* Two steps, since adding a record may move the list. */
struct hdl_ft_record *hdl_ft_record(int proc)
{
	unsigned at = hdl_ft_record_at(proc);

	return &hdl_ft_list[at];
}

void hdl_ft_record_failed(int proc)
{
	hdl_ft_record_at(proc);
}

void hdl_proc_note_gave_up(int proc)
{
	hdl_ft_record(proc)->gave_up = true;
}

bool hdl_proc_gave_up(int proc)
{
	for (unsigned i = 0; i < hdl_ft_count; i++)
		if (hdl_ft_list[i].proc == proc)
			return hdl_ft_list[i].gave_up;
	return false;
}

void hdl_ft_records_reset(void)
{
	free(hdl_ft_list);
	hdl_ft_list = NULL;
	hdl_ft_count = hdl_ft_reported = 0;
}
