/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank leaves the fence of hdl_tp_fini ahead of the other ranks: rank 0 has destroyed its queues and its memory when the other
 * ranks, which do not know yet that all have entered the fence, take in rank 0's last messages and post credits for them. Such a
 * request fails, and that is no error, whatever kind of queue carries the request. hdl_rt_fence_begin and hdl_rt_fence_wait are
 * wrapped; a realtime signal is queued, so rank 0 can count the other ranks.
 *
 *     rank 0                                     each other rank
 *     writes into rings of all other ranks
 *     LAST to all                       ──▶      hdl_tp_fini
 *                                  ◀── signal    hdl_rt_fence_begin; no turn of progress from here on
 *     MORE to all; hdl_tp_fini
 *                           signal ──▶           hdl_rt_fence_wait returns 0 while requests to rank 0 are under way
 *
 * XRC: rank 1 makes the target queue pairs through which ranks of other hosts (xrc_hosts.sh) reach both rank 0 and rank 1, so a
 * target remains that answers for the SRQ of rank 0.
 *
 *     transport_fence_left [far]	far: the other ranks take rank 0 for a process of another host (proc.start is 0), and stay
 *					in the fence for twice HEDDLE_UD_TIMEOUT
 */
#include <errno.h>

#include "transport_test.h"

enum { HELLO, LAST, MORE, ASIDE, TAGS };
enum { RANKS_MAX = 8, BOUND_S = 30, MESSAGES = 4 };	/* so many lines of a ring of 512 bytes are reported */

int __real_hdl_rt_fence_begin(void);
int __wrap_hdl_rt_fence_begin(void);
int __real_hdl_rt_fence_wait(uint64_t timeout_us);
int __wrap_hdl_rt_fence_wait(uint64_t timeout_us);

static unsigned got[TAGS];		/* messages by their tag */
static uint64_t deadline_ns;
static bool over;			/* this rank has no requests to rank 0 any more */
static sigset_t signals;		/* SIGRTMIN, blocked */

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	if (hdr->tag < 0 || hdr->tag >= TAGS)
		fail("rank %d has sent no message with tag %d", src, hdr->tag);
	got[hdr->tag]++;
}

static void sent(struct hdl_send *s, int err)
{
	if (err)
		fail("a send failed: %s", strerror(-err));
	free(s);
}

static void send_tag(int peer, int tag)
{
	struct hdl_send *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		fail("no memory");
	s->done = sent;
	r = hdl_ep_send(ep_of(tp, peer), tag, 2, false, "12345678", 8, s);
	if (r < 0)
		fail("send to rank %d: %s", peer, strerror(-r));
	if (r)
		free(s);
}

static void await_signal(void)
{
	static const struct timespec bound = { .tv_sec = BOUND_S };
	int sig;

	while ((sig = sigtimedwait(&signals, NULL, &bound)) < 0 && errno == EINTR)
		;
	if (sig < 0)
		fail("no signal of the other rank in %d s", BOUND_S);
}

static void signal_process(pid_t pid)
{
	if (sigqueue(pid, SIGRTMIN, (union sigval){ 0 }))
		fail("no signal to process %d: %s", (int)pid, strerror(errno));
}

static pid_t pid_of(int rank)
{
	return (pid_t)ep_of(tp, rank)->proc.pid;
}

int __wrap_hdl_rt_fence_begin(void)
{
	int err = __real_hdl_rt_fence_begin();

	/* tp is NULL in the fence of hdl_rt_fini */
	if (tp && hdl_job.rank && !err) {
		signal_process(pid_of(0));
		await_signal();
		deadline_ns = monotonic_ns() + BOUND_S * 1000000000ull;
	}
	return err;
}

/* A queue that is broken waits for an answer: that of a rank that has left will not come. */
static bool is_under_way(const struct hdl_ep *ep)
{
	return !ep->failed && ep->sq && !hdl_sq_is_broken(ep->sq) && (got[MORE] < MESSAGES || ep->sq->head != ep->sq->tail);
}

/* A rank that takes rank 0 for a process of another host stays in the fence for longer than the rank would wait for rank 0's
 * answer elsewhere. */
static void outlast_timeout(const struct hdl_ep *ep)
{
	uint64_t until = monotonic_ns() + 2000 * hdl_vars.ud_timeout;
	bool failed = ep->failed;

	while (monotonic_ns() < until) {
		hdl_tp_progress(tp);
		hdl_tp_timers(tp, monotonic_ns());
		usleep(1000);
	}
	if (ep->failed && !failed)
		fail("the silence of rank 0 counts, though this rank is in the fence");
}

/* Rank 1 keeps its target queue pairs until no rank has requests to rank 0. */
static void meet_at_rank_1(void)
{
	if (hdl_job.rank > 1)
		signal_process(pid_of(1));
	for (int i = 2; hdl_job.rank == 1 && i < hdl_job.size; i++)
		await_signal();
}

int __wrap_hdl_rt_fence_wait(uint64_t timeout_us)
{
	struct hdl_ep *ep = tp && hdl_job.rank ? ep_of(tp, 0) : NULL;

	if (ep && is_under_way(ep)) {
		if (monotonic_ns() > deadline_ns)
			fail("%u of %d messages have come, and %u requests are under way after %d s", got[MORE], MESSAGES,
			     ep->sq->head - ep->sq->tail, BOUND_S);
		hdl_sq_flush(ep->sq, ep);	/* an unsignaled request completes with the next signaled one */
		usleep((useconds_t)timeout_us);
		return 0;
	}
	if (ep && !over) {
		over = true;
		if (!ep->proc.start)
			outlast_timeout(ep);
		meet_at_rank_1();
	}
	return __real_hdl_rt_fence_wait(timeout_us);
}

/* Rank 0 writes its messages into the rings of all other ranks. */
static bool has_rings(void)
{
	for (int i = 1; i < hdl_job.size; i++)
		if (!ep_of(tp, i)->ring)
			return false;
	return true;
}

static void to_others(int tag, unsigned times)
{
	for (int i = 1; i < hdl_job.size; i++)
		for (unsigned n = 0; n < times; n++)
			send_tag(i, tag);
}

/* Returns the program's status. */
static int leave_first(void)
{
	static const struct timespec now;
	pid_t pid[RANKS_MAX];
	unsigned idle = 0;
	int status;

	for (int round = 0; !has_rings(); round++) {
		to_others(HELLO, 1);
		while (got[HELLO] < (unsigned)((round + 1) * (hdl_job.size - 1)))
			turn(&idle);
	}
	to_others(LAST, 1);
	for (int waiting = hdl_job.size - 1; waiting; turn(&idle))
		waiting -= sigtimedwait(&signals, NULL, &now) > 0;
	to_others(MORE, MESSAGES);
	for (int i = 1; i < hdl_job.size; i++)
		pid[i] = pid_of(i);
	status = hdl_tp_fini(&tp) != 0;
	for (int i = 1; i < hdl_job.size; i++)
		signal_process(pid[i]);
	return hdl_rt_fini(true) || status;
}

static int leave_later(bool far)
{
	unsigned idle = 0;

	if (far)
		ep_of(tp, 0)->proc.start = 0;
	if (hdl_job.rank > 1)
		send_tag(1, ASIDE);
	for (unsigned answers = 0; !got[LAST]; turn(&idle))
		for (; answers < got[HELLO]; answers++)
			send_tag(0, HELLO);
	return finish();
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = no_peer_fails };

	sigemptyset(&signals);
	sigaddset(&signals, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	start(&up);
	if (hdl_job.size < 2 || hdl_job.size > RANKS_MAX)
		fail("%d ranks, not 2 to %d", hdl_job.size, RANKS_MAX);
	if (hdl_job.rank)
		return leave_later(argc > 1 && !strcmp(argv[1], "far"));
	if (leave_first())
		return 1;
	puts("ok");
	return 0;
}
