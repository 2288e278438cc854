/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: choosing among devices. */
#ifndef HDL_ACTIVE_H
#define HDL_ACTIVE_H

#include <infiniband/verbs.h>

/* Opens the first device of the list that has an active port. NULL: errno is ENODEV for an empty list, ENETDOWN when none has
 * one, which was reported with what is with each of them. */
struct ibv_context *hdl_open_active(struct ibv_device **list, int n);

struct hdl_device_names {
	int n;			/* 0: none is named; 1: one for all peers; 2: for the host's own peers, for others */
	char name[2][80];	/* "name" or "name:port" */
};
/* Reads HEDDLE_DEVICE. 0, or -EINVAL, which was reported. */
int hdl_device_names(const char *list, struct hdl_device_names *names);

#endif
