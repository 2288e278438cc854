/* SPDX-License-Identifier: BSD-3-Clause */
/* The executors' side of the tap (struct shca_tap): which fate a request has, and the record of a request. */
#ifndef SHCA_TRACE_H
#define SHCA_TRACE_H

#include "shca/engine/engine.h"

/* Decides the fate of the request that qp's executor is about to run, by the faults of the queue. *held: the request has been
 * given this fate at an earlier look, and its time is not over. With DROP, DELAY and RNR of a connected queue thr->again is the
 * time of the next look. Must: the caller is the executor of qp (I1); nothing of the request has happened. */
enum shca_fate shca_fate(struct shca_thread *thr, struct shca_qp *qp, bool *held);

/* Returns true if the trace is on for requests of qp. */
bool shca_traced(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req);
/* Fills a record of the request but for outcome and data. */
void shca_trace_begin(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req, struct shca_trace_record *r);
/* Adds the first bytes of the request's own segments: of a SEND or WRITE before it runs, of a READ or atomic after it. */
void shca_trace_keep(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req, struct shca_trace_record *r);
/* Puts the record into the ring, unless that is full. */
void shca_trace_put(struct shca_thread *thr, struct shca_trace_record *r, enum shca_fate fate, int outcome);

#endif
