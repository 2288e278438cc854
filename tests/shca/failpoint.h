/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a test's process is to die. In memory that the test's processes share. */
#ifndef TESTS_SHCA_FAILPOINT_H
#define TESTS_SHCA_FAILPOINT_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum failpoint_who { FP_OWNER = 1, FP_THIRD = 2 };

struct failpoint_arm {
	_Atomic int32_t pid;		/* the process that dies; 0: none */
	char name[24];
	int op;				/* enum shca_wr_op; -1: any */
	uint32_t who;			/* enum failpoint_who of the queue that is run */
	uint32_t qpn;			/* 0: any */
	uint32_t skip;			/* hits to let pass */
	/* the proof */
	_Atomic uint32_t hit;
	_Atomic uint32_t hit_op, hit_foreign;
};
/* Two may be armed: the second for the reaper of the first's victim. */
extern struct failpoint_arm *failpoint_arms;
#define FAILPOINT_ARMS 2

#endif
