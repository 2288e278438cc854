/* SPDX-License-Identifier: BSD-3-Clause */
/* The division of a collective access among aggregators (domains.h). */
#include "io/domains.h"

#include <stdlib.h>

/* Bytes of the whole range for each byte of data from which on rounds do not pay. */
#define SPARSE		64

/* Bytes of a run from which on the rank's own call for each run of a local file system costs less than two phases. A file
 * system with blocks has more to do for a write of a page, and lets one process at a time into a file. */
#define LONG_RUN	4096
#define LONG_WRITE	16384

/* Bytes of the range for each byte of a rank's data up to which the rank had better sieve than be sent its data. */
#define SIEVE_SPARSE	4

/* ---- extents --------------------------------------------------------------------------------------------------------------- */

/* run: bytes of a run, on average. A file system that is not local gains by few long accesses. */
static bool is_cheap(const struct hdl_file *f, bool write, const struct hdl_extent *mine, MPI_Count run)
{
	if (f->fs != HDL_FS_LOCAL)
		return false;
	if (run >= (write && !f->in_memory ? LONG_WRITE : LONG_RUN) ||
	    (!write && (mine->end - mine->first) / SIEVE_SPARSE <= mine->bytes))
		return true;
	return f->in_memory && f->maps && (mine->end - mine->first) / SIEVE_SPARSE <= mine->bytes;
}

struct hdl_extent hdl_extent_of(const struct hdl_file *f, const struct hdl_access *a, int error, bool overlaps)
{
	struct hdl_extent mine = { .error = error, .ascends = true, .overlaps = overlaps };
	MPI_Count run;

	if (a->bytes) {
		mine.bytes = a->bytes;
		mine.ascends = hdl_view_ascends(a->view, &run);
		hdl_view_hull(a->view, a->args.position, a->bytes, &mine.first, &mine.end);
		mine.alone = is_cheap(f, a->args.write, &mine, run);
	}
	return mine;
}

bool hdl_extents_independent(const struct hdl_extent *extent, int size, const struct hdl_cb_hints *h, MPI_Offset first,
			     MPI_Offset end, MPI_Count bytes)
{
	bool interleaved = false, alone = true;
	int last = -1;

	for (int r = 0; r < size; r++)
		if (extent[r].bytes && !extent[r].ascends)
			return true;
	if (!bytes || (end - first) / SPARSE > bytes || h->buffering == HDL_CB_NEVER)
		return true;
	if (h->buffering == HDL_CB_ALWAYS)
		return false;
	for (int r = 0; r < size; r++) {
		if (!extent[r].bytes)
			continue;
		alone &= extent[r].alone;
		interleaved |= last >= 0 && extent[r].first < extent[last].end;
		last = r;
	}
	return !interleaved || alone;
}

/* ---- aggregators and domains ----------------------------------------------------------------------------------------------- */

/* NULL: one host, or not known. */
static const struct hdl_hosts *hosts_of(struct hdl_file *f)
{
	const struct hdl_hosts *hosts = NULL;

	return hdl_group_hosts(f->comm->group, &hosts) ? NULL : hosts;
}

/* nodes: the hint cb_nodes; 0: not given. */
static int count_aggregators(struct hdl_file *f, int nodes)
{
	const struct hdl_hosts *hosts = hosts_of(f);
	int n = nodes ? nodes : 2 * (hosts ? hosts->n : 1);

	return n < f->comm->size ? n : f->comm->size;
}

int hdl_file_aggregators(struct hdl_file *f)
{
	return count_aggregators(f, f->hints.cb.nodes);
}

/* Ranks that aggregate: one after the other of each host, the lowest first. */
static void choose_aggregators(struct hdl_domains *d, struct hdl_file *f, int nodes)
{
	const struct hdl_hosts *hosts = hosts_of(f);
	int n = count_aggregators(f, nodes), k = 0;

	d->rank = hdl_collective_need((size_t)n, sizeof(*d->rank));
	d->n = n;
	d->mine = -1;
	for (int i = 0; k < n; i++) {
		if (!hosts) {
			d->rank[k++] = i;
			continue;
		}
		for (int h = 0; h < hosts->n && k < n; h++)
			if (i < hdl_hosts_ranks_of(hosts, h))
				d->rank[k++] = hdl_hosts_rank(hosts, hosts->first[h] + i);
	}
	for (int i = 0; i < n; i++)
		if (d->rank[i] == f->comm->rank)
			d->mine = i;
}

/* Returns where the domain of an aggregator begins, at most d->end. Domains behind may have no offset that MPI_Offset can
 * represent. */
static MPI_Offset domain_at(const struct hdl_domains *d, int aggregator)
{
	return aggregator && (d->end - d->base) / aggregator < d->domain ? d->end : d->base + aggregator * d->domain;
}

MPI_Offset hdl_domains_window_at(const struct hdl_domains *d, int aggregator, MPI_Count round)
{
	MPI_Offset at = domain_at(d, aggregator), end = domain_at(d, aggregator + 1), before = round * d->window;

	return before < end - at ? at + before : end;
}

MPI_Offset hdl_domains_window_end(const struct hdl_domains *d, int aggregator, MPI_Count round)
{
	MPI_Offset at = hdl_domains_window_at(d, aggregator, round), end = domain_at(d, aggregator + 1);

	return d->window < end - at ? at + d->window : end;
}

void hdl_domains_make(struct hdl_domains *d, struct hdl_file *f, const struct hdl_cb_hints *h, const struct hdl_access *a,
		      MPI_Offset first, MPI_Offset end)
{
	MPI_Count align = h->striping_unit, bytes;

	choose_aggregators(d, f, h->nodes);
	d->base = first / align * align;
	d->end = end;
	bytes = (end - d->base + d->n - 1) / d->n;
	d->domain = (bytes + align - 1) / align * align;
	/* a long striping unit makes the domain longer than the range of the data */
	bytes = end - d->base < d->domain ? end - d->base : d->domain;
	d->window = h->buffer_size < bytes ? h->buffer_size : bytes;
	d->rounds = (bytes + d->window - 1) / d->window;
	d->position = hdl_collective_need((size_t)d->n, sizeof(*d->position));
	for (int i = 0; i < d->n && a->bytes; i++) {
		MPI_Offset p = hdl_view_bytes_before(a->view, domain_at(d, i)), last = a->args.position + a->bytes;

		d->position[i] = p < a->args.position ? a->args.position : p > last ? last : p;
	}
}

void hdl_domains_free(struct hdl_domains *d)
{
	free(d->rank);
	free(d->position);
}

/* ---- strips ------------------------------------------------------------------------------------------------------------- */

static void add_run(struct hdl_portion *p, MPI_Offset at, MPI_Count len)
{
	struct hdl_strip *last = p->n ? &p->strips[p->n - 1] : NULL;

	if (last && last->count == 1 && at == last->at + last->len) {
		last->len += len;
		return;
	}
	if (last && last->len == len && (last->count == 1 || at == last->at + last->count * last->stride)) {
		last->stride = last->count == 1 ? at - last->at : last->stride;
		last->count++;
		return;
	}
	if (p->n == p->room) {
		p->room = p->room ? 2 * p->room : 16;
		p->strips = realloc(p->strips, (size_t)p->room * sizeof(*p->strips));
		if (!p->strips)
			hdl_out_of_memory("a collective access to a file", (size_t)p->room * sizeof(*p->strips));
	}
	p->strips[p->n++] = (struct hdl_strip){ at, len, len, 1 };
}

void hdl_portion_cut(struct hdl_portion *p, struct hdl_domains *d, const struct hdl_access *a, int aggregator, MPI_Count round)
{
	MPI_Offset end = hdl_domains_window_end(d, aggregator, round), at;
	MPI_Count left = a->args.position + a->bytes - d->position[aggregator], n;
	struct hdl_view_runs *runs;

	p->position = d->position[aggregator];
	p->n = 0;
	p->bytes = 0;
	if (!a->bytes || left <= 0 || hdl_domains_window_at(d, aggregator, round) >= end)
		return;
	runs = hdl_view_runs_open(a->view, p->position);
	if (!runs)
		hdl_out_of_memory("a position in a view", 0);
	while (left && (n = hdl_view_runs_next(runs, left, &at)) && at < end) {
		n = n < end - at ? n : end - at;
		add_run(p, at, n);
		p->bytes += n;
		left -= n;
		if (at + n == end)
			break;
	}
	free(runs);
	d->position[aggregator] += p->bytes;
}
