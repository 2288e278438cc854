/* SPDX-License-Identifier: BSD-3-Clause */
/* Choice of devices: those that HEDDLE_DEVICE names; without a name, the first that has an active port. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"
#include "transport/core/active.h"

static const char *active_state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN: return "down";
	case IBV_PORT_INIT: return "not configured by a subnet manager";
	case IBV_PORT_ARMED: return "armed, not yet active";
	default: return "not active";
	}
}

/* Returns true if a port is active; if not, text lists the ports' states. */
static bool has_active_port(struct ibv_context *ctx, char *text, size_t size)
{
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	size_t len = 0;
	int err = ibv_query_device(ctx, &dev);

	*text = 0;
	if (err)
		snprintf(text, size, "ibv_query_device failed (%s)", strerror(err));
	for (int p = 1; !err && p <= dev.phys_port_cnt && len < size; p++) {
		int bad = ibv_query_port(ctx, (uint8_t)p, &port);

		if (!bad && port.state == IBV_PORT_ACTIVE)
			return true;
		len += (size_t)snprintf(text + len, size - len, "%sport %d is %s", p > 1 ? ", " : "", p,
					bad ? strerror(bad) : active_state_name(port.state));
	}
	return false;
}

struct ibv_context *hdl_open_active(struct ibv_device **list, int n)
{
	char all[1024] = "", why[128];
	size_t len = 0;

	for (int i = 0; i < n; i++) {
		struct ibv_context *ctx = ibv_open_device(list[i]);

		if (!ctx)
			snprintf(why, sizeof(why), "cannot be opened (%s)", strerror(errno));
		else if (has_active_port(ctx, why, sizeof(why)))
			return ctx;
		else
			ibv_close_device(ctx);
		if (len < sizeof(all))
			len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s: %s", i ? "; " : "",
						ibv_get_device_name(list[i]), why);
	}
	if (!n) {
		errno = ENODEV;
		return NULL;
	}
	hdl_error("this job spans several hosts, and no verbs device has an active port (%s): check cables, the switch and the "
		  "subnet manager (`heddle_info --devices`)", all);
	errno = ENETDOWN;
	return NULL;
}

int hdl_device_names(const char *list, struct hdl_device_names *names)
{
	*names = (struct hdl_device_names){ 0 };
	for (const char *p = list; *list;) {
		size_t n = strcspn(p, ",");

		if (!n || n >= sizeof(names->name[0]) || names->n == 2) {
			hdl_error("HEDDLE_DEVICE=%s: %s; it is one device for all peers, or two with a comma between them: the "
				  "first one for the peers of this host, the second one for others", list,
				  names->n == 2 ? "there are more than two names" : n ? "a name is too long" : "a name is empty");
			return -EINVAL;
		}
		memcpy(names->name[names->n++], p, n);
		if (!p[n])
			break;
		p += n + 1;
	}
	return 0;
}
