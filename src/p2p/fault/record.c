/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of failed processes: see fault.h. */
#include "p2p/fault/fault.h"
#include "p2p/p2p.h"

#include <stdlib.h>

struct hdl_ft_record *hdl_ft_list;
unsigned hdl_ft_count, hdl_ft_reported;

unsigned hdl_ft_record_at(int proc)
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
