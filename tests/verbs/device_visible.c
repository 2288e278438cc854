/* SPDX-License-Identifier: BSD-3-Clause */
/* An ordinary verbs program: prints how many devices of the name shca0 it sees, and whether the program can open one. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	int n = 0, seen = 0, opened = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	for (int i = 0; list && i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), "shca0"))
			continue;
		seen++;
		struct ibv_context *ctx = ibv_open_device(list[i]);
		if (!ctx)
			continue;
		struct ibv_port_attr port;
		opened += !ibv_query_port(ctx, 1, &port) && port.state == IBV_PORT_ACTIVE;
		if (ibv_close_device(ctx))
			return 1;
	}
	if (list)
		ibv_free_device_list(list);
	printf("seen %d opened %d\n", seen, opened);
	return 0;
}
