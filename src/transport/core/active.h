/* SPDX-License-Identifier: BSD-3-Clause */
/* Choice among devices. */
#ifndef HDL_ACTIVE_H
#define HDL_ACTIVE_H

#include <infiniband/verbs.h>

/* Opens the first device of the list that has an active port. NULL: errno is ENODEV for an empty list, ENETDOWN if no port is
 * active, reported with the ports' states. */
struct ibv_context *hdl_open_active(struct ibv_device **list, int n);

struct hdl_device_names {
	int n;			/* 0: HEDDLE_DEVICE is not set; 1: one for all peers; 2: for the peers of this host, for others */
	char name[2][80];	/* "name" or "name:port" */
};
/* Reads HEDDLE_DEVICE. 0, or -EINVAL, reported. */
int hdl_device_names(const char *list, struct hdl_device_names *names);

#endif
