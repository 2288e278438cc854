/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the requester of a common queue pair (XRC's receiving one) when the last handle goes: IBV_EVENT_QP_FATAL after the
 * death of the holders, whichever thread uses the queue pair just then; none where handles were destroyed; none once the
 * requester's queue was reset. Virtual processes, and threads that are held. Each case is a separate process.
 *
 *     common_qp_last_handle [CASE]
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hold.h"

/* ---- the stage ------------------------------------------------------------------------------------------------------- */

static struct ibv_qp *out, *in;		/* a's sending queue pair; c's handle of the responding queue pair */
static uint32_t number;			/* number of the responding queue pair */
static struct ibv_xrcd *in_b, *other;	/* domains of b: that one's, another */

static struct ibv_xrcd *domain(struct rig *r, const char *file)
{
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = O_CREAT,
				       .fd = open(file, O_RDONLY)};
	struct ibv_xrcd *d = shca_open_xrcd(r->ctx, &x);

	CHECK(x.fd >= 0 && d && !close(x.fd));
	return d;
}

static void connected(void)
{
	set_up();
	struct ibv_qp_init_attr_ex to = {.qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = domain(&c, "/bin/sh")};
	struct rig_qp_attr from = {.type = IBV_QPT_XRC_SEND, .scq = rig_cq(&a, 16, NULL), .send_wr = 8, .sge = 1};

	in_b = domain(&b, "/bin/sh");
	other = domain(&b, "/proc/self/exe");
	out = rig_qp(&a, &from);
	in = shca_create_qp_ex(c.ctx, &to);
	CHECK(in);
	number = in->qp_num;
	rig_init(out);
	rig_init(in);
	connect_both(out, in);
}

static struct ibv_qp *opened_in(struct ibv_xrcd *d)
{
	struct ibv_qp_open_attr at = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .qp_num = number, .xrcd = d,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return shca_open_qp(b.ctx, &at);
}

static void c_dies(void)
{
	struct rig *who[2] = {&a, &c};

	shca_engine_kill(c.m);
	joined(begin(reaps, who));
	for (int i = 0; state_of(c.m->slot) != SHCA_PROC_FREE; i++, rig_nap())
		if (i > 20000)
			FAIL("a dead process is not cleared away");
}

static bool told(void)
{
	bool event = shca_qp_unread(rig_sh(out)) == 1u << IBV_EVENT_QP_FATAL;

	CHECK(event || !shca_qp_unread(rig_sh(out)));
	return event && atomic_load(&rig_sh(out)->peer_dead);
}

/* ---- cases ----------------------------------------------------------------------------------------------------------- */

static void *opens_in_other(void *arg)
{
	(void)arg;
	CHECK(!opened_in(other) && errno == EINVAL);
	return NULL;
}

/* b has the lock to check whether b may open the queue pair, when the only holder dies. */
static void opened_when_it_dies(void)
{
	connected();
	hold_at(&b, "common-found");
	pthread_t opener = begin(opens_in_other, NULL);
	rig_await(&hold.held, 1);
	c_dies();
	let_go();
	joined(opener);
	if (!told())
		FAIL("who sends is not told that the last holder has died");
	CHECK(!opened_in(in_b) && errno == EINVAL);
}

static void *destroys(void *arg)
{
	CHECK(!shca_destroy_qp(arg));
	return NULL;
}

/* b destroys a handle, and still has the lock, when the other holder dies. */
static void destroyed_when_it_dies(void)
{
	connected();
	struct ibv_qp *qp = opened_in(in_b);
	CHECK(qp);
	hold_at(&b, "common-left");
	pthread_t destroyer = begin(destroys, qp);
	rig_await(&hold.held, 1);
	c_dies();
	let_go();
	joined(destroyer);
	if (!told())
		FAIL("who sends is not told that the last holder has died");
	CHECK(!opened_in(in_b) && errno == EINVAL);
}

static void destroyed_by_all(void)
{
	connected();
	struct ibv_qp *qp = opened_in(in_b);
	CHECK(qp && !shca_destroy_qp(in) && !shca_destroy_qp(qp));
	if (told() || shca_qp_unread(rig_sh(out)) || atomic_load(&rig_sh(out)->peer_dead))
		FAIL("who sends is told of a death, and nobody has died");
}

/* The requester has stopped, to be reset, when the last holder's death is noticed. */
static void told_while_reset(void)
{
	connected();
	told_while_it_resets(out);
	if (shca_qp_unread(rig_sh(out)) || atomic_load(&rig_sh(out)->peer_dead))
		FAIL("a queue that has begun anew is told that the holders of its last peer are dead");
}

static const struct rig_case cases[] = {
	{"opened-when-it-dies", opened_when_it_dies}, {"destroyed-when-it-dies", destroyed_when_it_dies},
	{"destroyed-by-all", destroyed_by_all}, {"told-while-reset", told_while_reset},
};

int main(int argc, char **argv)
{
	setenv("SHCA_DEATH_MS", "20", 0);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
