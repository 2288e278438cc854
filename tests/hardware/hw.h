/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the checks of an adapter: objects of the adapter, connected to themselves; bounded waits; verdicts. */
#ifndef HW_H
#define HW_H

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <stdbool.h>
#include <stddef.h>

#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define MANAGED_SEND (CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND)
#define MANAGED_RECV (CROSS | IBV_EXP_QP_CREATE_MANAGED_RECV)

struct hw {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t port;
	int gid_index;			/* -1: addressed by LID */
	bool calc;			/* asked for */
	struct ibv_exp_device_attr attr;
	char *mem;			/* HW_BYTES bytes */
	struct ibv_mr *mr;
};
#define HW_BYTES 4096

/* A check prints one line, "<verdict>  <name>: <text>", and may print more before that line as HW_NOTE. */
enum verdict { HW_OK, HW_FAIL, HW_SKIP, HW_NOTE };
void hw_say(enum verdict v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct hw_check {
	const char *name, *what;
	uint64_t needs;			/* bits of exp_device_cap_flags; without them the check is skipped */
	void (*run)(struct hw *h);
};
extern const struct hw_check hw_checks[];

/* Ends the check with a failure unless `cond` holds. */
#define REQUIRE(cond, ...)                                                                                           \
	do {                                                                                                         \
		if (!(cond)) {                                                                                       \
			hw_say(HW_FAIL, __VA_ARGS__);                                                                \
			return;                                                                                      \
		}                                                                                                    \
	} while (0)

struct ibv_cq *hw_cq(struct hw *h);
/* A reliable queue pair with flags IBV_EXP_QP_CREATE_*, in RTS, connected to itself; destroyed with the check's other objects.
 * NULL: said. */
struct ibv_qp *hw_qp(struct hw *h, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, uint32_t flags, uint32_t max_atomic);
bool hw_connect(struct hw *h, struct ibv_qp *qp);
/* Destroys the objects of the check. */
void hw_end_check(void);

/* Polls the next completion, within five seconds. Returns false, after printing a failure, if there was none, or an error. */
bool hw_wait(struct ibv_cq *cq, uint64_t wr_id, struct ibv_exp_wc *wc);
/* Nothing completes for a fifth of a second. */
bool hw_silent(struct ibv_cq *cq, const char *why);
int hw_post(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, int n);
struct ibv_exp_send_wr hw_wr(uint64_t wr_id, enum ibv_exp_wr_opcode op);	/* signaled */
struct ibv_exp_send_wr hw_wait_for(struct ibv_cq *cq, int count);
struct ibv_exp_send_wr hw_enable(struct ibv_qp *qp, enum ibv_exp_wr_opcode op, int count);
/* One completion in the CQ of a queue pair's receives: an empty message to itself. */
bool hw_tick(struct ibv_qp *qp);

#endif
