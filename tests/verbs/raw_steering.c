/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random frames against random flows of several processes and two ports, compared with a model: the queues that get a frame, its
 * bytes, the order; queues with too few receives lose the frames behind. In the middle one process is killed, with its flows.
 *
 *     raw_steering [ROUNDS [SEED]]
 *
 * Every process draws the same rounds. Of a round: each process makes the flows of its queues; one process sends the frames,
 * while the other processes wait; then each process checks its own queues.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "frame.h"

enum { PROCS = 3, QUEUES = 3, FLOWS = 4, FRAMES = 24, ROOM = 2048, KILLED = 2 };

static struct stage {
	_Atomic uint32_t arrived;	/* at barriers, so far */
	_Atomic uint32_t alive;
	uint32_t qpn[PROCS][QUEUES];
} *st;

static uint64_t rng;
static uint32_t draw(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 33) % n;
}

static void barrier(void)
{
	static uint32_t passed;
	uint32_t n = atomic_load(&st->alive);

	passed += n;
	atomic_fetch_add(&st->arrived, 1);
	while ((int32_t)(atomic_load(&st->arrived) - passed) < 0)
		sched_yield();
}

/* ---- random frames and flows: few values, so that many match -------------------------------------------------------------- */

static const uint8_t macs[5][6] = {
	{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 1, 3}, {1, 0, 0x5e, 0, 0, 9}, {255, 255, 255, 255, 255, 255},
};
static const uint16_t types[] = {0x0806, 0x88b5, 0x1234};

static void draw_ip(uint8_t ip[16])
{
	memset(ip, 0x20, 16);
	ip[3] = ip[15] = (uint8_t)(1 + draw(3));
}

static struct fields draw_fields(void)
{
	struct fields f = {.tags = draw(3) ? 0 : 1 + draw(2), .l3 = draw(4) ? draw(2) ? 4 : 6 : 0, .type = types[draw(3)]};

	memcpy(f.dst, macs[draw(5)], 6);
	memcpy(f.src, macs[draw(3)], 6);
	for (unsigned i = 0; i < 2; i++) {
		f.tpid[i] = draw(4) ? 0x8100 : 0x88a8;
		f.tci[i] = (uint16_t)(draw(2) << 13 | draw(3));
	}
	draw_ip(f.src_ip);
	draw_ip(f.dst_ip);
	f.tos = (uint8_t)(draw(2) * 0x2e);
	f.ttl = (uint8_t)(1 + draw(2) * 63);
	f.label = draw(2) * 0x54321;
	f.df = draw(2);
	f.later = !draw(5);
	f.mf = !draw(5);
	f.extended = !draw(4);
	f.l4 = draw(3) ? draw(2) ? IPPROTO_TCP : IPPROTO_UDP : IPPROTO_ICMP;
	f.src_port = (uint16_t)(7000 + draw(2));
	f.dst_port = (uint16_t)(8000 + draw(3));
	f.payload = draw(8) ? draw(200) : draw(1500);
	return f;
}

/* Draws the mask of a field: most fields do not matter. */
static void draw_mask(void *mask, size_t n)
{
	unsigned how = draw(10);

	memset(mask, how < 7 ? 0 : 0xff, n);
	if (how == 9)
		for (size_t i = 0; i < n; i++)
			((uint8_t *)mask)[i] = (uint8_t)draw(256);
}
#define MASK(s, field) draw_mask(&(s).mask.field, sizeof((s).mask.field))

static void draw_specs(struct rule *r, const struct fields *f)
{
	if (draw(4)) {
		struct ibv_flow_spec_eth e = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(e)};
		memcpy(e.val.dst_mac, f->dst, 6);
		memcpy(e.val.src_mac, f->src, 6);
		e.val.ether_type = htons(f->l3 == 4 ? 0x0800 : f->l3 == 6 ? 0x86dd : f->type);
		e.val.vlan_tag = htons(f->tci[0]);
		if (draw(3))
			memset(e.mask.dst_mac, 0xff, 6);
		MASK(e, src_mac);
		MASK(e, ether_type);
		MASK(e, vlan_tag);
		rule_add(r, &e, sizeof(e));
	}
	if (!f->l3 || !draw(3))
		return;
	if (f->l3 == 6) {
		struct ibv_flow_spec_ipv6 s = {.type = IBV_FLOW_SPEC_IPV6,
					       .size = sizeof(s),
					       .val = {.flow_label = htonl(f->label),
						       .next_hdr = f->l4,
						       .traffic_class = f->tos,
						       .hop_limit = f->ttl}};
		memcpy(s.val.src_ip, f->src_ip, 16);
		memcpy(s.val.dst_ip, f->dst_ip, 16);
		MASK(s, src_ip);
		MASK(s, dst_ip);
		MASK(s, flow_label);
		MASK(s, next_hdr);
		MASK(s, traffic_class);
		MASK(s, hop_limit);
		rule_add(r, &s, sizeof(s));
	} else if (draw(2)) {
		struct ibv_flow_spec_ipv4 s = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(s)};
		memcpy(&s.val.src_ip, f->src_ip, 4);
		memcpy(&s.val.dst_ip, f->dst_ip, 4);
		MASK(s, src_ip);
		MASK(s, dst_ip);
		rule_add(r, &s, sizeof(s));
	} else {
		struct ibv_flow_spec_ipv4_ext s = {.type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(s),
						   .val = {.proto = f->l4, .tos = f->tos, .ttl = f->ttl,
							   .flags = (uint8_t)((f->df ? 2 : 0) | (f->mf ? 4 : 0))}};
		memcpy(&s.val.src_ip, f->src_ip, 4);
		memcpy(&s.val.dst_ip, f->dst_ip, 4);
		MASK(s, src_ip);
		MASK(s, dst_ip);
		MASK(s, proto);
		MASK(s, tos);
		MASK(s, ttl);
		MASK(s, flags);
		rule_add(r, &s, sizeof(s));
	}
	if (f->l4 == IPPROTO_ICMP || draw(2))
		return;
	struct ibv_flow_spec_tcp_udp s = {.type = f->l4 == IPPROTO_TCP ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP, .size = sizeof(s),
					  .val = {.dst_port = htons(f->dst_port), .src_port = htons(f->src_port)}};
	MASK(s, dst_port);
	MASK(s, src_port);
	rule_add(r, &s, sizeof(s));
}

static struct rule draw_rule(void)
{
	unsigned kind = draw(20);
	enum ibv_flow_attr_type type = kind == 0 ? IBV_FLOW_ATTR_SNIFFER : kind == 1 ? IBV_FLOW_ATTR_ALL_DEFAULT :
				       kind == 2 ? IBV_FLOW_ATTR_MC_DEFAULT : IBV_FLOW_ATTR_NORMAL;
	struct rule r = rule_of(type, (uint16_t)draw(3));
	struct fields f = draw_fields();

	/* most of port 1, so that flows compete */
	r.attr.port = draw(4) ? 1 : 2;
	if (type == IBV_FLOW_ATTR_NORMAL) {
		r.attr.flags = draw(6) ? 0 : IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
		draw_specs(&r, &f);
	}
	return r;
}

/* ---- the model: field by field --------------------------------------------------------------------------------------------- */

static bool same(const void *a, const void *b, const void *mask, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((((const uint8_t *)a)[i] ^ ((const uint8_t *)b)[i]) & ((const uint8_t *)mask)[i])
			return false;
	return true;
}
#define SAME(s, field, v) same(&(s)->val.field, &(__typeof__((s)->val.field)){v}, &(s)->mask.field, sizeof((s)->val.field))

static bool spec_matches(const struct ibv_flow_spec *s, const struct fields *f)
{
	uint32_t src4, dst4;
	bool ports = f->l3 && !f->later;

	memcpy(&src4, f->src_ip, 4);
	memcpy(&dst4, f->dst_ip, 4);
	switch ((int)s->hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		if (s->eth.mask.vlan_tag && (!f->tags || !SAME(&s->eth, vlan_tag, htons(f->tci[0]))))
			return false;
		return same(s->eth.val.dst_mac, f->dst, s->eth.mask.dst_mac, 6) &&
		       same(s->eth.val.src_mac, f->src, s->eth.mask.src_mac, 6) &&
		       SAME(&s->eth, ether_type,
			    htons(f->l3 == 4 ? 0x0800 :
				  f->l3 == 6 ? 0x86dd :
					       f->type));
	case IBV_FLOW_SPEC_IPV4:
		return f->l3 == 4 && SAME(&s->ipv4, src_ip, src4) && SAME(&s->ipv4, dst_ip, dst4);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return f->l3 == 4 && SAME(&s->ipv4_ext, src_ip, src4) && SAME(&s->ipv4_ext, dst_ip, dst4) &&
		       SAME(&s->ipv4_ext, proto, f->l4) && SAME(&s->ipv4_ext, tos, f->tos) && SAME(&s->ipv4_ext, ttl, f->ttl) &&
		       SAME(&s->ipv4_ext, flags, (uint8_t)((f->df ? 2 : 0) | (f->mf ? 4 : 0)));
	case IBV_FLOW_SPEC_IPV6:
		return f->l3 == 6 && same(s->ipv6.val.src_ip, f->src_ip, s->ipv6.mask.src_ip, 16) &&
		       same(s->ipv6.val.dst_ip, f->dst_ip, s->ipv6.mask.dst_ip, 16) &&
		       SAME(&s->ipv6, flow_label, htonl(f->label)) && SAME(&s->ipv6, next_hdr, f->l4) &&
		       SAME(&s->ipv6, traffic_class, f->tos) && SAME(&s->ipv6, hop_limit, f->ttl);
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		return ports && f->l4 == (s->hdr.type == IBV_FLOW_SPEC_TCP ? IPPROTO_TCP : IPPROTO_UDP) &&
		       SAME(&s->tcp_udp, dst_port, htons(f->dst_port)) && SAME(&s->tcp_udp, src_port, htons(f->src_port));
	}
	return false;
}

static bool rule_matches(const struct rule *r, const struct fields *f)
{
	const char *at = r->specs;

	for (unsigned i = 0; i < r->attr.num_of_specs; i++) {
		struct ibv_flow_spec s = {.hdr = {.size = 0}};	/* specs stand behind each other without alignment */
		memcpy(&s, at, offsetof(struct ibv_flow_spec, hdr) + sizeof(s.hdr));
		memcpy(&s, at, s.hdr.size);
		if (!spec_matches(&s, f))
			return false;
		at += s.hdr.size;
	}
	return true;
}

struct round {
	struct rule rule[PROCS][QUEUES][FLOWS];
	unsigned rules[PROCS][QUEUES], receives[PROCS][QUEUES];
	unsigned sender, queue;
	struct fields frame[FRAMES];
};

static unsigned got_some, lost_some, many;

/* The port of a queue: its frames leave there. A flow may lead from the other port to the queue. */
static uint8_t port_of(unsigned p, unsigned q)
{
	return (p + q) % 3 ? 1 : 2;
}

/* Whether queue q of process p gets the frame. */
static bool expected(const struct round *r, bool dead, unsigned p, unsigned q, const struct fields *f)
{
	bool trapped = false, multicast = f->dst[0] & 1;
	unsigned best = 0;

	for (int pass = 0; pass < 2; pass++)
		for (unsigned a = 0; a < PROCS; a++)
			for (unsigned b = 0; b < QUEUES; b++)
				for (unsigned i = 0; i < r->rules[a][b]; i++) {
					const struct rule *rule = &r->rule[a][b][i];
					bool own = a == r->sender && b == r->queue, takes = false;
					if ((dead && a == KILLED) || rule->attr.port != port_of(r->sender, r->queue))
						continue;
					if (own && rule->attr.type != IBV_FLOW_ATTR_SNIFFER)
						continue;
					bool normal = rule->attr.type == IBV_FLOW_ATTR_NORMAL && rule_matches(rule, f);
					if (!pass && normal && !rule->attr.flags) {
						if (!trapped || rule->attr.priority < best)
							best = rule->attr.priority;
						trapped = true;
					}
					if (!pass || a != p || b != q)
						continue;
					if (rule->attr.type == IBV_FLOW_ATTR_NORMAL)
						takes = normal && (!trapped || multicast || rule->attr.priority <= best);
					else if (rule->attr.type == IBV_FLOW_ATTR_SNIFFER)
						takes = true;
					else
						takes = !trapped && (rule->attr.type == IBV_FLOW_ATTR_ALL_DEFAULT || multicast);
					if (takes)
						return true;
				}
	return false;
}

static void draw_round(struct round *r, bool dead)
{
	memset(r, 0, sizeof(*r));
	for (unsigned p = 0; p < PROCS; p++)
		for (unsigned q = 0; q < QUEUES; q++) {
			r->rules[p][q] = draw(FLOWS + 1);
			for (unsigned i = 0; i < r->rules[p][q]; i++)
				r->rule[p][q][i] = draw_rule();
			r->receives[p][q] = draw(4) ? FRAMES : draw(6);
		}
	r->sender = draw(PROCS);
	if (dead && r->sender == KILLED)
		r->sender = 0;
	r->queue = draw(QUEUES);
	for (unsigned i = 0; i < FRAMES; i++)
		r->frame[i] = draw_fields();
}

/* ---- a process ---------------------------------------------------------------------------------------------------------- */

struct side {
	struct vt t;
	struct ibv_cq *cq[QUEUES];
	struct ibv_qp *qp[QUEUES];
	struct ibv_mr *mr[QUEUES];
	uint8_t *mem[QUEUES];		/* FRAMES receives, and a frame to send */
	struct ibv_flow *flow[QUEUES][FLOWS];
};

/* The last queue of each process strips VLAN tags. */
static bool strips(unsigned q)
{
	return q == QUEUES - 1;
}

static void receive(struct side *s, unsigned q, unsigned i)
{
	struct ibv_sge sge[2] = {vt_sge(s->mr[q], (size_t)i * ROOM, 100), vt_sge(s->mr[q], (size_t)i * ROOM + 100, ROOM - 100)};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = sge, .num_sge = 2}, *bad;

	CHECK(!ibv_post_recv(s->qp[q], &wr, &bad), "receive");
}

static void send_frames(struct side *s, const struct round *r)
{
	uint8_t *at = s->mem[r->queue] + (size_t)FRAMES * ROOM;

	for (unsigned i = 0; i < FRAMES; i++) {
		uint32_t len = frame_make(at, &r->frame[i], i);
		struct ibv_sge sge[2] = {{(uintptr_t)at, 14, s->mr[r->queue]->lkey},
					 {(uintptr_t)at + 14, len - 14, s->mr[r->queue]->lkey}};
		struct ibv_send_wr wr = {.wr_id = 1000 + i, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED | (i & 1 && len <= 256 ? IBV_SEND_INLINE : 0)}, *bad;
		CHECK(!ibv_post_send(s->qp[r->queue], &wr, &bad), "send %u", i);
		struct ibv_wc wc;
		do
			wc = vt_wait(s->cq[r->queue]);
		while (wc.opcode == IBV_WC_RECV && wc.status == IBV_WC_SUCCESS);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND && wc.wr_id == 1000 + i, "completion %u: %s", i,
		      ibv_wc_status_str(wc.status));
	}
}

/* Compares the frames of queue q. The sending queue's completions were polled among those of its sends: only the bytes are left
 * to check. */
static void check(struct side *s, const struct round *r, bool dead, unsigned p, unsigned q)
{
	bool sender = p == r->sender && q == r->queue;
	uint8_t want[ROOM];
	unsigned n = 0;

	for (unsigned i = 0; i < FRAMES; i++) {
		if (!expected(r, dead, p, q, &r->frame[i]))
			continue;
		if (n == r->receives[p][q]) {
			lost_some++;
			break;
		}
		uint32_t len = frame_make(want, &r->frame[i], i);
		if (strips(q) && r->frame[i].tags && r->frame[i].tpid[0] == 0x8100) {
			memmove(want + 12, want + 16, len - 16);
			len -= 4;
		}
		if (!sender) {
			struct ibv_wc wc = vt_wait(s->cq[q]);
			CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == n && wc.byte_len == len &&
				      !wc.src_qp && wc.qp_num == s->qp[q]->qp_num && !(wc.wc_flags & IBV_WC_GRH),
			      "frame %u at queue %u.%u: %s, receive %lu of %u, %u bytes of %u", i, p, q,
			      ibv_wc_status_str(wc.status), (unsigned long)wc.wr_id, n, wc.byte_len, len);
		}
		CHECK(!memcmp(s->mem[q] + (size_t)n * ROOM, want, len), "frame %u at queue %u.%u: its bytes", i, p, q);
		n++;
		got_some++;
	}
	many += n > 1;
	vt_none(s->cq[q]);
	/* receives that are left over go with the state */
	if (n < r->receives[p][q]) {
		CHECK(!vt_to(s->qp[q], IBV_QPS_RESET), "RESET");
		raw_ready_at(s->qp[q], port_of(p, q));
	}
}

static void process(unsigned p, unsigned rounds, uint64_t seed)
{
	struct side *s = calloc(1, sizeof(*s));
	struct round *r = calloc(1, sizeof(*r));
	int status;

	CHECK(s && r, "memory");
	rng = seed;
	s->t = vt_open();
	for (unsigned q = 0; q < QUEUES; q++) {
		s->mem[q] = calloc(FRAMES + 1, ROOM);
		s->mr[q] = vt_mr(&s->t, s->mem[q], (size_t)(FRAMES + 1) * ROOM, IBV_ACCESS_LOCAL_WRITE);
		s->cq[q] = vt_cq(&s->t, 2 * FRAMES, NULL);
		s->qp[q] = raw_qp(&s->t, s->cq[q], strips(q) ? IBV_QP_CREATE_CVLAN_STRIPPING : 0, FRAMES);
		raw_ready_at(s->qp[q], port_of(p, q));
	}
	for (unsigned n = 0; n < rounds; n++) {
		bool dead = n > rounds / 2;
		draw_round(r, dead);
		for (unsigned q = 0; q < QUEUES; q++) {
			memset(s->mem[q], 0, (size_t)FRAMES * ROOM);
			for (unsigned i = 0; i < r->receives[p][q]; i++)
				receive(s, q, i);
			for (unsigned i = 0; i < r->rules[p][q] && n != rounds / 2 + 1; i++)
				CHECK((s->flow[q][i] = flow_to(s->qp[q], r->rule[p][q][i])), "round %u, flow %u.%u.%u", n, p, q,
				      i);
		}
		barrier();
		/* in this round the process to be killed has all of its flows, and the other processes make theirs afterwards */
		if (n == rounds / 2 + 1) {
			for (unsigned q = 0; q < QUEUES && p == KILLED; q++)
				for (unsigned i = 0; i < r->rules[p][q]; i++)
					CHECK(flow_to(s->qp[q], r->rule[p][q][i]), "flow");
			while (p == KILLED)
				raise(SIGKILL);
			if (!p) {
				CHECK(waitpid(-1, &status, 0) > 0 && WIFSIGNALED(status), "the process that is killed: %#x",
				      status);
				atomic_fetch_sub(&st->alive, 1);
			}
			while (atomic_load(&st->alive) == PROCS)
				sched_yield();
			for (unsigned q = 0; q < QUEUES; q++)
				for (unsigned i = 0; i < r->rules[p][q]; i++)
					CHECK((s->flow[q][i] = flow_to(s->qp[q], r->rule[p][q][i])), "flow");
			barrier();
		}
		if (p == r->sender)
			send_frames(s, r);
		barrier();
		for (unsigned q = 0; q < QUEUES; q++)
			check(s, r, dead, p, q);
		for (unsigned q = 0; q < QUEUES; q++)
			for (unsigned i = 0; i < r->rules[p][q]; i++)
				CHECK(!ibv_destroy_flow(s->flow[q][i]), "ibv_destroy_flow");
		barrier();
	}
	for (unsigned q = 0; q < QUEUES; q++) {
		CHECK(!ibv_destroy_qp(s->qp[q]) && !ibv_destroy_cq(s->cq[q]) && !ibv_dereg_mr(s->mr[q]), "destroy");
		free(s->mem[q]);
	}
	vt_close(&s->t);
	CHECK(got_some && many, "process %u: %u frames", p, got_some);
	free(s);
	free(r);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 150;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 0x1f2e3d4c5b6a7988ull;
	int status, failed = 0;
	pid_t pid[PROCS];

	vt_fabric();
	CHECK(!setenv("SHCA_LINK", "ethernet", 1) && !setenv("SHCA_PORTS", "2", 1), "setenv");
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED, "mmap");
	atomic_store(&st->alive, PROCS);
	for (unsigned p = 1; p < PROCS; p++) {
		pid[p] = fork();
		CHECK(pid[p] >= 0, "fork");
		if (!pid[p]) {
			alarm(120);
			process(p, rounds, seed);
			exit(0);
		}
	}
	process(0, rounds, seed);
	for (unsigned p = 1; p < PROCS; p++)
		if (p != KILLED)
			failed |= waitpid(pid[p], &status, 0) != pid[p] || status;
	CHECK(!failed, "another process failed");
	CHECK(lost_some, "no queue had too few receives");
	printf("%u frames received\n", got_some);
	return 0;
}
