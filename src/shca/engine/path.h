/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports of a request's path, and path migration (path.c). */
#ifndef SHCA_PATH_H
#define SHCA_PATH_H

#include "shca/engine/engine.h"

struct shca_address;
/* Returns whether a request of qp gets to `to`, and the answer back. Migrates either end if the path works no more and the end is
 * ARMED. a: the address of a datagram or DC request; of connected queues not looked at. Must: the caller is the executor of qp,
 * inside the engine. */
bool shca_path_leads(struct shca_thread *thr, struct shca_qp *qp, struct shca_qp *to, const struct shca_address *a);
/* The port that a DC request's destination (shca_req.dqpn) is the address of. */
static inline uint32_t shca_dc_port(uint32_t dqpn)
{
	return dqpn & SHCA_DC_TO_2 ? 2 : 1;
}
/* Returns whether the address handle of a datagram is of another port than the queue: no packet leaves
 * (IBV_DEVICE_UD_AV_PORT_ENFORCE). */
static inline bool shca_path_ud_misfit(const struct shca_qp *qp, uint64_t ud)
{
	return SHCA_PATH_PORT(atomic_load(&qp->path)) != (SHCA_UD_PATH_BITS(ud) & SHCA_CQE_UD_PORT_2 ? 2u : 1u);
}
/* A modify has changed qp's path or its migration state: arms or moves the other end, as the next packet would. Must: inside the
 * engine. */
void shca_path_modified(struct shca_thread *thr, struct shca_qp *qp);
/* Migration by modify: ARMED to MIGRATED. Raises IBV_EVENT_PATH_MIG; or IBV_EVENT_PATH_MIG_ERR, and changes nothing, if the
 * alternate path does not work. Must: inside the engine. */
void shca_path_migrate(struct shca_thread *thr, struct shca_qp *qp);
/* The timeout field in force. */
static inline uint32_t shca_path_timeout(const struct shca_qp *qp)
{
	uint32_t w = atomic_load(&qp->path);

	return w & SHCA_PATH_MOVED ? SHCA_PATH_ALT_TIMEOUT(w) : qp->timeout & 31u;
}

#endif
