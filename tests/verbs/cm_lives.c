/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes of RDMA CM that die, stop or fork at each step of a connection, and many of them at once.
 *
 *     cm_lives [CONNECTIONS [IDS]]     1,000 connections at once, 20,000 ids
 */
#include <sys/resource.h>

#include "cm.h"

/* A child that reports steps, one byte each, and dies at one of them. */
struct child {
	pid_t pid;
	int from, to;			/* pipes */
};
enum step { STEP_LISTENING = 1, STEP_REQUEST, STEP_ACCEPTED, STEP_ESTABLISHED, STEP_CONNECTING, STEP_CONNECTED, STEP_END };

static int report_to, ask_from;

/* In the child: reports the step, and goes on when the parent says so. */
static void step(enum step s)
{
	char c = (char)s;
	CHECK(write(report_to, &c, 1) == 1, "write");
	CHECK(read(ask_from, &c, 1) == 1, "read");
}

/* Starts this program in a role. By exec, since librdmacm keeps its device open, and a forked child has none of its parent's. */
static struct child start(const char *role, uint16_t port, int n)
{
	int up[2], down[2];
	CHECK(!pipe(up) && !pipe(down), "pipe");
	struct child c = {fork(), up[0], down[1]};
	CHECK(c.pid >= 0, "fork");
	if (c.pid) {
		close(up[1]);
		close(down[0]);
		return c;
	}
	char text[4][16];
	snprintf(text[0], 16, "%u", port);
	snprintf(text[1], 16, "%d", up[1]);
	snprintf(text[2], 16, "%d", down[0]);
	snprintf(text[3], 16, "%d", n);
	close(up[0]);
	close(down[1]);
	execl("/proc/self/exe", "cm_lives", role, text[0], text[1], text[2], text[3], NULL);
	CHECK(0, "exec");
}

static void reach(const struct child *c, enum step s)
{
	char got = 0;
	CHECK(read(c->from, &got, 1) == 1 && got == (char)s, "the child reached step %d, not %d", got, s);
}

static void proceed(const struct child *c)
{
	CHECK(write(c->to, "", 1) == 1, "write");
}

static void end(struct child *c, int sig)
{
	int status;
	CHECK(!kill(c->pid, sig) && waitpid(c->pid, &status, 0) == c->pid, "waitpid");
	close(c->from);
	close(c->to);
}

/* ---- the roles -------------------------------------------------------------------------------------------------- */

static void server(uint16_t port, int n)
{
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_id(s, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("127.0.0.1", port);
	CHECK(!rdma_bind_addr(l, SA(a)) && !rdma_listen(l, 8), "listener");
	step(STEP_LISTENING);
	struct rdma_cm_id *id = cm_request(s);
	cm_qp(id, IBV_QPT_RC);
	step(STEP_REQUEST);
	cm_accept(id);
	step(STEP_ACCEPTED);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	step(STEP_ESTABLISHED);
}

static void client(uint16_t port, int n)
{
	struct rdma_event_channel *c = cm_channel();
	struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	step(STEP_CONNECTING);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	step(STEP_CONNECTED);
}

/* A port that no listener has. */
static uint16_t unused_port(void)
{
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 1);
	uint16_t port = ntohs(rdma_get_src_port(l));
	cm_destroy(l);
	rdma_destroy_event_channel(s);
	return port;
}

/* The server dies at a step; the client's next event. */
static void server_dies(enum step at, enum rdma_cm_event_type type, int status)
{
	uint16_t port = unused_port();
	struct child c = start("server", port, 0);
	reach(&c, STEP_LISTENING);
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *id = cm_resolved(ch, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(id, IBV_QPT_RC);
	if (at == STEP_LISTENING)
		end(&c, SIGKILL);
	cm_connect(id);
	for (enum step s = STEP_REQUEST; s <= at; s++) {
		proceed(&c);
		if (s == STEP_ESTABLISHED)
			cm_eat(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
		reach(&c, s);
	}
	if (at != STEP_LISTENING)
		end(&c, SIGKILL);
	if (at == STEP_ACCEPTED)	/* its response is there, and comes first */
		cm_eat(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(ch, type, status);
	/* the port is free again */
	struct rdma_cm_id *l = cm_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("127.0.0.1", port);
	CHECK(!rdma_bind_addr(l, SA(a)) && !rdma_listen(l, 1), "the dead listener keeps its port");
	cm_destroy(l);
	cm_destroy(id);
	rdma_destroy_event_channel(ch);
}

static void client_dies(enum step at)
{
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 8), *id;
	struct child c = start("client", ntohs(rdma_get_src_port(l)), 0);
	struct rdma_conn_param p = cm_param(NULL, 0);
	p.qp_num = 9;

	reach(&c, STEP_CONNECTING);
	if (at == STEP_CONNECTING) {
		end(&c, SIGKILL);
		id = cm_request(s);
		CHECK(rdma_accept(id, &p) == -1 && errno == EINVAL, "a dead client's request was accepted");
	} else {
		id = cm_request(s);
		cm_qp(id, IBV_QPT_RC);
		cm_accept(id);
		if (at == STEP_CONNECTED) {
			proceed(&c);
			reach(&c, STEP_CONNECTED);
		}
		end(&c, SIGKILL);
		if (at == STEP_CONNECTED)
			cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
		if (at == STEP_CONNECTED)
			cm_eat(s, RDMA_CM_EVENT_DISCONNECTED, 0);
		else
			cm_eat(s, RDMA_CM_EVENT_REJECTED, 28);
	}
	cm_destroy(id);
	cm_destroy(l);
	rdma_destroy_event_channel(s);
}

/* A stopped listener: requests wait, and are answered when the process goes on. */
static void stopped(void)
{
	uint16_t port = unused_port();
	struct child c = start("server", port, 0);
	int status;
	reach(&c, STEP_LISTENING);
	CHECK(!kill(c.pid, SIGSTOP) && waitpid(c.pid, &status, WUNTRACED) == c.pid && WIFSTOPPED(status), "SIGSTOP");
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *id = cm_resolved(ch, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	cm_quiet(ch);
	CHECK(!kill(c.pid, SIGCONT), "SIGCONT");
	proceed(&c);
	reach(&c, STEP_REQUEST);
	proceed(&c);
	cm_eat(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	reach(&c, STEP_ACCEPTED);
	/* DISCONNECTED needs no action of a stopped peer */
	CHECK(!kill(c.pid, SIGSTOP) && waitpid(c.pid, &status, WUNTRACED) == c.pid, "SIGSTOP");
	CHECK(!rdma_disconnect(id), "rdma_disconnect");
	cm_eat(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_destroy(id);
	end(&c, SIGKILL);
	rdma_destroy_event_channel(ch);
}

/* A program that becomes a daemon with its listener: the child goes on, the parent ends. */
static void daemon_role(uint16_t port, int n)
{
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_id(s, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("0.0.0.0", port);
	CHECK(!rdma_bind_addr(l, SA(a)) && !rdma_listen(l, 8), "listener");
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (pid)
		_exit(0);
	struct rdma_cm_event *ev = cm_expect(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(!rdma_reject(ev->id, "daemon", 7), "rdma_reject");
	_exit(0);
}

static void daemons(void)
{
	uint16_t port = unused_port();
	int status;
	struct child parent = start("daemon", port, 0);
	CHECK(waitpid(parent.pid, &status, 0) == parent.pid && !status, "the parent of the daemon");
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *id = cm_resolved(ch, RDMA_PS_TCP, "127.0.0.1", port);
	cm_connect(id);
	struct rdma_cm_event *ev = cm_expect(ch, RDMA_CM_EVENT_REJECTED, 28);
	CHECK(!strcmp(ev->param.conn.private_data, "daemon"), "private data");
	rdma_ack_cm_event(ev);
	cm_destroy(id);
	rdma_destroy_event_channel(ch);
}

/* ---- many ------------------------------------------------------------------------------------------------------- */

/* A server of `many` connections, which accepts them all and waits until they are gone. */
static void many_server(uint16_t port, int many)
{
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_id(s, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("127.0.0.1", port);
	CHECK(!rdma_bind_addr(l, SA(a)) && !rdma_listen(l, 1024), "listener");
	step(STEP_LISTENING);
	int established = 0, gone = 0;
	while (gone < many) {
		struct rdma_cm_event *ev;
		CHECK(!rdma_get_cm_event(s, &ev), "rdma_get_cm_event");
		struct rdma_cm_id *id = ev->id;
		enum rdma_cm_event_type type = ev->event;
		rdma_ack_cm_event(ev);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct rdma_conn_param p = cm_param(NULL, 0);
			p.qp_num = 11;
			CHECK(!rdma_accept(id, &p), "rdma_accept");
		} else if (type == RDMA_CM_EVENT_ESTABLISHED) {
			if (++established == many)
				step(STEP_ESTABLISHED);
		} else {
			CHECK(type == RDMA_CM_EVENT_DISCONNECTED, "%s", rdma_event_str(type));
			CHECK(!rdma_destroy_id(id), "rdma_destroy_id");
			gone++;
		}
	}
	step(STEP_END);
}

/* Connections of this process to the server, all at once. */
static void many_connect(struct rdma_event_channel *c, uint16_t port, struct rdma_cm_id **ids, int n)
{
	for (int i = 0; i < n; i++) {
		ids[i] = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
		struct rdma_conn_param p = cm_param(NULL, 0);
		p.qp_num = 12;
		CHECK(!rdma_connect(ids[i], &p), "rdma_connect");
	}
	for (int i = 0; i < n; i++) {
		struct rdma_cm_event *ev = cm_expect(c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		struct rdma_cm_id *id = ev->id;
		rdma_ack_cm_event(ev);
		CHECK(!rdma_establish(id), "rdma_establish");
	}
}

/* A client of n connections, which stay until the parent says otherwise. */
static void many_client(uint16_t port, int n)
{
	struct rdma_event_channel *c = cm_channel();
	struct rdma_cm_id **id = calloc((size_t)n, sizeof(*id));

	many_connect(c, port, id, n);
	step(STEP_CONNECTED);
	for (int i = 0; i < n; i++)
		CHECK(!rdma_destroy_id(id[i]), "rdma_destroy_id");
	step(STEP_END);
}

static void storm(int connections)
{
	enum { CLIENTS = 4 };
	uint16_t port = unused_port();
	int many = connections / CLIENTS * CLIENTS, status;
	struct child srv = start("many_server", port, many), c[CLIENTS];

	reach(&srv, STEP_LISTENING);
	proceed(&srv);
	for (int k = 0; k < CLIENTS; k++)
		c[k] = start("many_client", port, many / CLIENTS);
	for (int k = 0; k < CLIENTS; k++)
		reach(&c[k], STEP_CONNECTED);
	reach(&srv, STEP_ESTABLISHED);		/* all at once */
	proceed(&srv);
	/* half of them end in good order, the other half by death */
	for (int k = 0; k < CLIENTS; k++) {
		if (k % 2) {
			proceed(&c[k]);
			reach(&c[k], STEP_END);
		}
		end(&c[k], SIGKILL);
	}
	reach(&srv, STEP_END);
	proceed(&srv);
	CHECK(waitpid(srv.pid, &status, 0) == srv.pid && !status, "server: status %#x", status);
	close(srv.from);
	close(srv.to);
}

static void ids(int n)
{
	struct rdma_event_channel *c = cm_channel();
	struct rdma_cm_id **id = calloc((size_t)n, sizeof(*id));
	struct sockaddr_storage a = cm_addr("127.0.0.1", 1);

	for (int i = 0; i < n; i++) {
		id[i] = cm_id(c, RDMA_PS_TCP);
		CHECK(!rdma_resolve_addr(id[i], NULL, SA(a), 1000), "rdma_resolve_addr of id %d", i);
	}
	for (int i = 0; i < n; i++) {
		struct rdma_cm_event *ev = cm_expect(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		CHECK(ev->id == id[i], "event %d is another id's", i);
		rdma_ack_cm_event(ev);
	}
	for (int i = 0; i < n; i++)
		cm_destroy(id[i]);
	/* again, in the places of those */
	for (int i = 0; i < n; i++)
		id[i] = cm_id(c, RDMA_PS_TCP);
	for (int i = n; i--;)
		cm_destroy(id[i]);
	free(id);
	cm_quiet(c);
	rdma_destroy_event_channel(c);
}

static const struct {
	const char *name;
	void (*run)(uint16_t port, int n);
} roles[] = {{"server", server}, {"client", client}, {"daemon", daemon_role}, {"many_server", many_server},
	     {"many_client", many_client}};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 6 && i < sizeof(roles) / sizeof(*roles); i++)
		if (!strcmp(roles[i].name, argv[1])) {
			alarm(100);
			report_to = atoi(argv[3]);
			ask_from = atoi(argv[4]);
			roles[i].run((uint16_t)atoi(argv[2]), atoi(argv[5]));
			return 0;
		}
	cm_start();
	server_dies(STEP_LISTENING, RDMA_CM_EVENT_REJECTED, 8);
	server_dies(STEP_REQUEST, RDMA_CM_EVENT_REJECTED, 28);
	server_dies(STEP_ACCEPTED, RDMA_CM_EVENT_DISCONNECTED, 0);
	server_dies(STEP_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED, 0);
	client_dies(STEP_CONNECTING);
	client_dies(STEP_ACCEPTED);
	client_dies(STEP_CONNECTED);
	stopped();
	daemons();
	storm(argc > 1 ? atoi(argv[1]) : 1000);
	ids(argc > 2 ? atoi(argv[2]) : 20000);
	return 0;
}
