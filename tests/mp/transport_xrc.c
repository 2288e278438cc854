/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC: the queue pairs that processes of a host share, their number, and their state when a process ends or stops. Argument:
 *     count N   all ranks send to all; rank 0 counts the device's queue pairs: a sending and a receiving one for each rank and
 *               each of N hosts, for any number of ranks (by shcactl; the next argument is its path)
 *     maker     rank 0 sends to the upper half of the ranks, which are on another host (xrc_hosts.sh): first to the first of
 *               them, which makes the target queue pair. That rank is killed, and only the end of its process shows the death;
 *               then the ranks that hold the target are killed, and another target is made
 *     receiver  rank 1 is killed, and rank 0 learns that from a refused request only (HEDDLE_KEEPALIVE): the messages of rank 0
 *               for rank 2 arrive once and in order
 *     stopped   rank 1 stops, with fewer receives than messages under way: the messages of rank 0 for rank 2 behind them arrive
 *               all the same, and those for rank 1 when rank 1 goes on
 *     killed    the same, but rank 1 is killed instead of stopped
 */
#include <sys/wait.h>

#include "transport/kinds/xrc.h"
#include "transport_test.h"

enum { DIE = 1, STOP, ECHO, NUMBER = 10 };
enum { MESSAGES = 200, FLOOD = 200 };	/* FLOOD: more than HEDDLE_SRQ_DEPTH=16, and than a queue takes */

static unsigned next[256];	/* the number that comes next from each rank */
static unsigned all, echoes, idle;
static int order, to_echo = -1;
static bool failed[256];

static void peer_failed(void *context, int peer, int err)
{
	(void)context;
	failed[peer] = true;
}

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	if (hdr->tag == ECHO && hdl_job.rank == 0)
		echoes++;
	else if (hdr->tag == ECHO)
		to_echo = src;
	else if (hdr->tag < NUMBER)
		order = hdr->tag;
	else if ((unsigned)hdr->tag - NUMBER != next[src]++)
		fail("a message is lost, doubled or out of order");
	all++;
}

static void sent(struct hdl_send *s, int err)
{
	free(s);
}

static void send_to(int peer, int tag, size_t n)
{
	static char data[100000];
	struct hdl_send *s = calloc(1, sizeof(*s));

	if (!s)
		fail("out of memory");
	s->done = sent;
	if (hdl_ep_send(ep_of(tp, peer), tag, 2, false, data, n, s))
		free(s);
}

static unsigned numbers[256];

static void send_number(int peer, size_t n)
{
	send_to(peer, (int)(NUMBER + numbers[peer]++), n);
}

/* Waits until all messages sent to the peer so far have arrived, in order. */
static void await(int peer)
{
	unsigned before = echoes;

	send_to(peer, ECHO, 0);
	while (echoes == before && !failed[peer])
		turn(&idle);
	if (failed[peer])
		fail("one peer's end has failed another");
}

static _Noreturn void obey(void)
{
	ep_of(tp, 0);	/* from here on the transport watches the process of rank 0 */
	for (;;) {
		turn(&idle);
		if (order == DIE)
			kill(getpid(), SIGKILL);
		if (order == STOP)
			kill(getpid(), SIGSTOP);
		order = 0;
		if (to_echo >= 0)
			send_to(to_echo, ECHO, 0);
		to_echo = -1;
		if (failed[0])
			_exit(0);	/* rank 0 has left */
	}
}

static _Noreturn void leave(const char *text)
{
	fprintf(stderr, "%s\n", text);
	fflush(NULL);
	_exit(0);
}

/* ---- how many ------------------------------------------------------------------------------------------------------- */

static unsigned count(const char *shcactl, const char *type)
{
	char command[4096], line[1024];
	unsigned n = 0;

	snprintf(command, sizeof(command), "'%s' -o csv queues", shcactl);
	FILE *f = popen(command, "r");
	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, type) != NULL;
	if (!f || pclose(f))
		fail("shcactl has failed");
	return n;
}

/* Waits until all ranks are here, and makes progress for the other ranks meanwhile. */
static void meet(void)
{
	int err = hdl_rt_fence_begin();

	while (!err) {
		hdl_tp_progress(tp);
		err = hdl_rt_fence_wait(50);
		hdl_tp_timers(tp, monotonic_ns());
	}
	if (err < 0)
		fail("no fence");
}

static int counts(unsigned hosts, const char *shcactl)
{
	unsigned ranks = (unsigned)hdl_job.size;

	for (int i = 0; i < hdl_job.size; i++)
		send_number(i, 8);
	while (all < ranks)
		turn(&idle);
	meet();
	if (!hdl_job.rank) {
		unsigned out = 0, in = 0;

		/* of two that were asked for a target both may have made one */
		for (int i = 0; i < 100 && (!i || in > ranks * hosts); i++) {
			for (int n = 0; n < 1000; n++)
				hdl_tp_progress(tp);
			hdl_tp_timers(tp, monotonic_ns());
			out = count(shcactl, ",XRC_SEND,");
			in = count(shcactl, ",XRC_RECV,");
		}
		printf("%u ranks on %u hosts: %u sending queue pairs, %u receiving ones\n", ranks, hosts, out, in);
		if (out != ranks * hosts || in != ranks * hosts)
			fail("another number of queue pairs");
		puts("ok");
	}
	meet();
	hdl_tp_fini(&tp);
	return hdl_rt_fini(true) != 0;
}

/* ---- ends ----------------------------------------------------------------------------------------------------------- */

static void kill_it(int peer)
{
	const struct hdl_proc *proc = &ep_of(tp, peer)->proc;

	send_to(peer, DIE, 0);
	while (hdl_proc_state(proc) == HDL_PROC_LIVES)
		turn(&idle);
}

/* Nothing but a request that fails tells of the peer's end. */
static void look_away(int peer)
{
	ep_of(tp, peer)->proc.start = 0;
}

static struct hdl_xrc_host *way_to(int peer)
{
	return container_of(ep_of(tp, peer)->sq, struct hdl_xrc_host, sq);
}

static void traffic(int from, int to)
{
	static const size_t size[] = { 8, 40, 2000, 8, 50000, 300 };

	for (int i = 0; i < MESSAGES; i++)
		for (int peer = from; peer < to; peer++)
			send_number(peer, size[i % 6]);
	for (int peer = from; peer < to; peer++)
		await(peer);
}

static _Noreturn void maker(void)
{
	int first = hdl_job.size / 2, last = hdl_job.size - 1;

	for (int peer = first; peer <= last; peer++)
		await(peer);
	traffic(first, last + 1);
	if (way_to(last)->maker != ep_of(tp, first) || way_to(last)->keepers != 2 || way_to(first) != way_to(last))
		fail("another peer has made the target, or not two keep it");
	kill_it(first);
	traffic(first + 1, last + 1);
	if (way_to(last)->ask_number != 1)
		fail("the target did not outlive its maker");
	for (int peer = first + 1; peer < last; peer++)
		kill_it(peer);
	/* the target goes when the device has reaped the dead processes */
	while (way_to(last)->ask_number < 2)
		traffic(last, last + 1);
	traffic(last, last + 1);
	if (way_to(last)->maker != ep_of(tp, last))
		fail("who has made the target that is used now?");
	while (!failed[first] || !failed[last - 1])
		turn(&idle);
	leave("the target outlives its maker");
}

static _Noreturn void receiver(void)
{
	traffic(1, 3);
	look_away(1);
	send_to(1, DIE, 0);
	/* the first may still land in memory that was the dead process's: a probe finds that nothing is
	 * there (HEDDLE_KEEPALIVE) */
	for (int i = 0; !failed[1]; i++) {
		if (i < MESSAGES)
			send_number(1, i % 7 ? 8 : 3000);
		send_number(2, i % 5 ? 8 : 3000);
		if (i % 16 == 0)
			await(2);
	}
	traffic(2, 3);
	leave("the others go on");
}

static void await_stop(int peer)
{
	char text[512], *fields;

	do
		turn(&idle);
	while (!hdl_proc_stat(ep_of(tp, peer)->proc.pid, text, sizeof(text), &fields) && *fields != 'T');
}

static _Noreturn void stopped(bool dies)
{
	pid_t pid;

	traffic(1, 3);
	pid = (pid_t)ep_of(tp, 1)->proc.pid;
	look_away(1);
	send_to(1, STOP, 0);
	await_stop(1);
	for (int i = 0; i < FLOOD; i++)
		send_number(1, 1000);
	/* messages for which the stopped rank has no receives are not in the queue */
	traffic(2, 3);
	kill(pid, dies ? SIGKILL : SIGCONT);
	if (!dies)
		await(1);
	while (dies && !failed[1])
		turn(&idle);
	traffic(2, 3);
	leave("the others go on");
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = peer_failed };
	const char *mode = argc > 1 ? argv[1] : "";

	start(&up);
	if (hdl_job.size > 256)
		fail("too many ranks");
	if (!strcmp(mode, "count") && argc > 3)
		return counts((unsigned)atoi(argv[2]), argv[3]);
	if (hdl_job.rank)
		obey();
	if (!strcmp(mode, "maker"))
		maker();
	if (!strcmp(mode, "receiver"))
		receiver();
	if (!strcmp(mode, "stopped") || !strcmp(mode, "killed"))
		stopped(!strcmp(mode, "killed"));
	fail("what is to be tested?");
}
