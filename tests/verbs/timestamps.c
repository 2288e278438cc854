/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion timestamps: the device's clock at the time of the completion, not of the poll, for completions of this process's
 * and other processes' requests, over many laps of the ring, over events and resizes. */
#include <infiniband/mlx5dv.h>

#include "vt.h"

static struct vt t;
static struct ibv_cq_ex *ex;

static uint64_t device_clock(void)
{
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	CHECK(!ibv_query_rt_values_ex(t.ctx, &v) && v.comp_mask == IBV_VALUES_MASK_RAW_CLOCK, "query_rt_values");
	return (uint64_t)v.raw_clock.tv_sec * 1000000000u + (uint64_t)v.raw_clock.tv_nsec;
}

static uint64_t wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode op)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED}, *bad;

	CHECK(!ibv_post_send(qp, &wr, &bad), "post");
}

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = {.wr_id = 2}, *bad;

	CHECK(!ibv_post_recv(qp, &wr, &bad), "post_recv");
}

/* The next n completions have times from `from` to `to`, which do not decrease. */
static void expect_times(int n, uint64_t from, uint64_t to)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t last = from;

	CHECK(!ibv_start_poll(ex, &attr), "start_poll");
	for (int i = 0;; i++) {
		uint64_t ts = ibv_wc_read_completion_ts(ex), wall = ibv_wc_read_completion_wallclock_ns(ex), now = wall_clock();
		CHECK(ex->status == IBV_WC_SUCCESS, "status %d", ex->status);
		CHECK(ts >= last && ts <= to, "completion %d: %lu, not in %lu to %lu", i, (unsigned long)ts,
		      (unsigned long)last, (unsigned long)to);
		/* the host's time may be set meanwhile, but not by a minute */
		CHECK(wall - (now - 60000000000u) < 120000000000u, "wall clock %lu, now %lu", (unsigned long)wall,
		      (unsigned long)now);
		last = ts;
		if (i == n - 1)
			break;
		CHECK(!ibv_next_poll(ex), "next_poll: %d of %d", i + 1, n);
	}
	CHECK(ibv_next_poll(ex) == ENOENT, "one more");
	ibv_end_poll(ex);
}

static void later(void)
{
	struct timespec ms = {0, 2000000};

	nanosleep(&ms, NULL);
}

static struct ibv_cq_ex *make(struct ibv_comp_channel *ch, uint64_t fields)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .channel = ch, .wc_flags = fields};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t.ctx, &attr);

	CHECK(cq, "create_cq_ex");
	return cq;
}

int main(void)
{
	vt_fabric();
	t = vt_open();
	struct ibv_device_attr_ex da;
	CHECK(!ibv_query_device_ex(t.ctx, NULL, &da) && da.completion_timestamp_mask && da.hca_core_clock == 1000000,
	      "query_device_ex");
	struct mlx5dv_clock_info clock = {0};
	CHECK(mlx5dv_get_clock_info(t.ctx, &clock) == EOPNOTSUPP && !setenv("SHCA_IDENTITY", "connectx", 1),
	      "the clock of a device that is no mlx5");
	if (!mlx5dv_get_clock_info(t.ctx, &clock)) {
		uint64_t ns = mlx5dv_ts_to_ns(&clock, device_clock()), now = wall_clock();
		CHECK(ns - (now - 60000000000u) < 120000000000u, "%lu, now %lu", (unsigned long)ns, (unsigned long)now);
	}
	struct ibv_comp_channel *ch = ibv_create_comp_channel(t.ctx);
	ex = make(ch,
		  IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	struct ibv_qp *a = vt_qp(&t, IBV_QPT_RC, cq, NULL), *b = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	vt_connect_pair(a, b);

	for (int i = 0; i < 20; i++) {
		post_receive(b);
		uint64_t before = device_clock();
		post(a, IBV_WR_SEND);		/* both its completions are there when this returns */
		uint64_t after = device_clock();
		later();
		expect_times(2, before, after);
	}
	/* an event does not end it */
	for (int i = 0; i < 3; i++) {
		struct ibv_cq *got;
		void *context;
		CHECK(!ibv_req_notify_cq(cq, 0), "arm");
		uint64_t before = device_clock();
		post(a, IBV_WR_RDMA_WRITE);
		uint64_t after = device_clock();
		CHECK(!ibv_get_cq_event(ch, &got, &context) && got == cq, "event");
		ibv_ack_cq_events(cq, 1);
		expect_times(1, before, after);
	}
	/* ibv_resize_cq copies the timestamps of unread completions */
	for (int size = 64; size >= 8; size -= 56) {
		uint64_t before = device_clock();
		for (int i = 0; i < 4; i++)
			post(a, IBV_WR_RDMA_WRITE);
		uint64_t after = device_clock();
		CHECK(!ibv_resize_cq(cq, size), "resize");
		later();
		expect_times(4, before, after);
	}
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(ch), "destroy");
	vt_close(&t);
	return 0;
}
