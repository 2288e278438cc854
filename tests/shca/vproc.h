/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SHCA_VPROC_H
#define TESTS_SHCA_VPROC_H

#include "rig.h"

uint64_t vproc_now(void);
/* The members are joined; all objects are destroyed again. */
void vproc_traffic(struct rig *rigs, uint32_t n, uint64_t seed, double seconds);
/* Ethernet frames, while flows come and go. Must: SHCA_LINK=ethernet, SHCA_PORTS=2; at most 64 members. */
void vproc_frames(struct rig *rigs, uint32_t n, uint64_t seed, double seconds);
/* Random WAIT/ENABLE graphs, one after the other, until the time is up; at least one. */
void vproc_graphs(struct rig *rigs, uint32_t n, uint64_t seed, double seconds);
/* Random graphs with a determined outcome, so that memory can be compared (graph.h); of up to 8 of the members. */
void vproc_memory(struct rig *rigs, uint32_t n, uint64_t seed, double seconds);

#endif
