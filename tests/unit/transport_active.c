/* SPDX-License-Identifier: BSD-3-Clause */
/* Which device is chosen among several, by a libibverbs that is made up here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"
#include "transport/core/active.h"

#undef ibv_query_port

#define DEVICES 3

/* states[i]: its ports; 0 ends them. -1: it cannot be opened. */
static int states[DEVICES][3];
static struct ibv_device devices[DEVICES];
static struct ibv_device *list[DEVICES] = { &devices[0], &devices[1], &devices[2] };
static struct ibv_context contexts[DEVICES];
static int opened;
static char said[2048];

void hdl_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	static const char *const names[DEVICES] = { "one_0", "two_0", "three_0" };

	return names[device - devices];
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	int i = (int)(device - devices);

	if (states[i][0] < 0) {
		errno = EACCES;
		return NULL;
	}
	contexts[i].device = device;
	opened++;
	return &contexts[i];
}

int ibv_close_device(struct ibv_context *context)
{
	(void)context;
	opened--;
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const int *s = states[context - contexts];

	memset(attr, 0, sizeof(*attr));
	while (s[attr->phys_port_cnt])
		attr->phys_port_cnt++;
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	((struct ibv_port_attr *)attr)->state = (enum ibv_port_state)states[context - contexts][port - 1];
	return 0;
}

static struct ibv_device *chosen(void)
{
	struct ibv_context *ctx = hdl_open_active(list, DEVICES);

	if (!ctx)
		return NULL;
	cr_assert_eq(opened, 1);
	return ctx->device;
}

Test(active, first_with_an_active_port)
{
	states[0][0] = IBV_PORT_DOWN;
	states[0][1] = IBV_PORT_INIT;
	states[1][0] = -1;
	states[2][0] = IBV_PORT_DOWN;
	states[2][1] = IBV_PORT_ACTIVE;
	cr_assert_eq(chosen(), &devices[2]);
	cr_assert_str_empty(said);
}

Test(active, first_of_several)
{
	for (int i = 0; i < DEVICES; i++)
		states[i][0] = IBV_PORT_ACTIVE;
	cr_assert_eq(chosen(), &devices[0]);
}

Test(active, none)
{
	states[0][0] = IBV_PORT_DOWN;
	states[0][1] = IBV_PORT_INIT;
	states[1][0] = -1;
	states[2][0] = IBV_PORT_ARMED;
	cr_assert_null(chosen());
	cr_assert_eq(errno, ENETDOWN);
	cr_assert_eq(opened, 0);
	cr_assert(strstr(said, "one_0: port 1 is down, port 2 is not configured by a subnet manager; "
			       "two_0: cannot be opened (Permission denied); three_0: port 1 is armed"), "%s", said);
}

Test(active, no_device)
{
	cr_assert_null(hdl_open_active(list, 0));
	cr_assert_eq(errno, ENODEV);
	cr_assert_str_empty(said);
}
