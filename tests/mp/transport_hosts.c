/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job of this host with ranks that take HOSTS_RANKS of them at a time for ranks of a separate host: so peers are reached by two
 * devices (HEDDLE_DEVICE=shca0,shca0, or a kernel's device as the second one). Linked with a program of which hdl_tp_init and
 * hdl_tp_fini are wrapped. At the end each rank checks that each peer was reached by the right device, and that no peer reached
 * by a device that wakes on a write got needless messages about sleeps.
 */
#include <stdlib.h>

#include "runtime/runtime.h"
#include "transport/core/tp.h"

int __real_hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance);
int __wrap_hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance);
int __real_hdl_tp_fini(struct hdl_tp **instance);
int __wrap_hdl_tp_fini(struct hdl_tp **instance);

int __wrap_hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance)
{
	const char *text = getenv("HOSTS_RANKS");
	int each = text ? atoi(text) : 0, err = __real_hdl_tp_init(up, instance);

	if (err || each < 1 || each >= hdl_job.size || hdl_job.local)
		return err;
	if (!(hdl_job.local = calloc((size_t)each, sizeof(*hdl_job.local))))
		return -ENOMEM;
	hdl_job.my_host = hdl_job.rank / each * each;
	hdl_job.local_size = 0;
	for (int r = hdl_job.my_host; r < hdl_job.size && r < hdl_job.my_host + each; r++)
		hdl_job.local[hdl_job.local_size++] = r;
	return 0;
}

int __wrap_hdl_tp_fini(struct hdl_tp **instance)
{
	const struct hdl_tp *tp = *instance;
	const struct hdl_dev *first = tp ? tp->dev[0] : NULL, *second = tp ? tp->dev[1] : NULL;

	for (uint32_t i = 0; second && i < tp->peers.n; i++) {
		const struct hdl_ep *ep = tp->peers.of[i];
		bool here = ep->rank == hdl_job.rank || hdl_is_local(ep->rank);

		if (ep->dev != (here ? first : second))
			hdl_rt_abort(5, "a peer is reached by the other device");
		if (here && first->promises.wakes && (ep->sleep_sent || ep->wake_mode))
			hdl_rt_abort(5, "a peer was told of a sleep, though its device wakes on a write");
	}
	if (first && first->promises.wakes && !hdl_job.local && tp->sleep_turn)
		hdl_rt_abort(5, "peers were told of sleeps, though their device wakes on a write");
	return __real_hdl_tp_fini(instance);
}
