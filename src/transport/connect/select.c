/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/connect/select.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool has(unsigned set, enum hdl_queue queue)
{
	return set & HDL_QUEUE_BIT(queue);
}

enum hdl_queue hdl_select_queue(const struct hdl_select *s, const char **why)
{
	unsigned can = s->caps & s->allowed;
	const char *reason = "";
	enum hdl_queue queue = HDL_QUEUE_NONE;
	bool busy = s->rdma || s->messages >= s->hot;
	bool large = !s->same_host && s->job_size > HDL_SELECT_LARGE_JOB;

	if (!can) {
		reason = "no allowed kind is possible between these devices";
	} else if (!busy && has(can, HDL_QUEUE_UD)) {
		queue = HDL_QUEUE_UD;
		reason = "first contact";
	} else if (large && has(can, HDL_QUEUE_DC)) {
		queue = HDL_QUEUE_DC;
		reason = "large job";
	} else if (large && s->ppn >= HDL_SELECT_XRC_PPN && has(can, HDL_QUEUE_XRC)) {
		queue = HDL_QUEUE_XRC;
		reason = "large job with many ranks per node";
	} else if (has(can, HDL_QUEUE_RC) &&
		   (s->rc_peers < s->rc_most || !(can & ~HDL_QUEUE_BIT(HDL_QUEUE_RC)))) {
		queue = HDL_QUEUE_RC;
		reason = busy ? "hot peer" : "first contact, UD is not available";
	} else if (has(can, HDL_QUEUE_DC)) {
		queue = HDL_QUEUE_DC;
		reason = has(can, HDL_QUEUE_RC) ? "too many RC peers" : "RC is not available";
	} else if (has(can, HDL_QUEUE_XRC)) {
		queue = HDL_QUEUE_XRC;
		reason = has(can, HDL_QUEUE_RC) ? "too many RC peers" : "RC and DC are not available";
	} else {
		queue = HDL_QUEUE_UD;
		reason = has(can, HDL_QUEUE_RC) ? "too many RC peers" : "only UD is available";
	}
	if (why)
		*why = reason;
	return queue;
}

unsigned hdl_select_possible(unsigned caps, unsigned allowed, int job_size, int ppn, int rc_most)
{
	struct hdl_select s = { .caps = caps, .allowed = allowed, .job_size = job_size, .ppn = ppn, .hot = 1,
				.rc_most = rc_most };
	unsigned set = 0;

	/* Every input that changes during the job, at its extremes. HEDDLE_RC_PEERS is this process's own: a peer with another
	 * value may select a kind that this side never would; so kinds without the limit are included, and any two processes have
	 * one in common. */
	for (int i = 0; i < 16; i++) {
		s.messages = i & 1;
		s.rc_peers = i & 2 ? rc_most : 0;
		s.same_host = i & 4;
		s.rc_most = i & 8 ? INT_MAX : rc_most;
		if (s.rc_peers >= job_size)
			continue;
		enum hdl_queue queue = hdl_select_queue(&s, NULL);
		if (queue != HDL_QUEUE_NONE)
			set |= HDL_QUEUE_BIT(queue);
	}
	return set;
}

static const char *const names[HDL_QUEUES] = { "none", "UD", "RC", "XRC", "DC" };

const char *hdl_queue_name(enum hdl_queue queue)
{
	return (unsigned)queue < HDL_QUEUES ? names[queue] : "?";
}

const char *hdl_kinds_text(unsigned set, char text[HDL_KINDS_TEXT])
{
	size_t n = 0;

	for (int q = 1; q < HDL_QUEUES; q++)
		if (HDL_QUEUE_IN(set, q))
			n += (size_t)snprintf(text + n, HDL_KINDS_TEXT - n, " %s", names[q]);
	return n ? text : " none";
}

int hdl_queue_parse(const char *list, unsigned *allowed, char *bad, size_t bad_size)
{
	unsigned set = 0;
	const char *p = list ? list : "";

	while (*p) {
		size_t n = strcspn(p, ", |");
		int q = 0;

		if (n) {
			for (q = 1; q < HDL_QUEUES; q++)
				if (strlen(names[q]) == n && !strncasecmp(names[q], p, n))
					break;
			if (q == HDL_QUEUES) {
				if (bad && bad_size) {
					size_t m = n < bad_size - 1 ? n : bad_size - 1;
					memcpy(bad, p, m);
					bad[m] = 0;
				}
				return -1;
			}
			set |= HDL_QUEUE_BIT(q);
		}
		p += n;
		p += strspn(p, ", |");
	}
	*allowed = set ? set : HDL_QUEUE_ALL;
	return 0;
}
