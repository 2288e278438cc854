/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a process of a large job: one rank of a million initializes MPI, makes communicators and sends to peers that do
 * not exist; the answers of PMIx are simulated here. mallinfo2 gives the allocated memory, so that the device's memory in the
 * fabric is not counted; that memory does not depend on the job's size.
 *
 * Checked for every size: a process has nothing for each rank of the job but an eight-byte pointer for each 256 of them, per
 * group of which it has communicators; that is 0.03 bytes per rank.
 *
 *     tests/unit/runtime_job_memory [ranks]        prints the table of docs/transports.md
 */
#include <malloc.h>
#include <pmix.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "p2p/comm/comm.h"
#include "transport/connect/wire.h"

#define MET 1000
#define ENDPOINT 1024		/* struct hdl_ep, at most: transport/peer/ep.h */

static int ranks, failures;

/* ---- PMIx, as seen by rank ranks / 2, alone on its host -------------------------------------------------------- */

static struct {
	char key[32], data[4096];
	size_t len;
} published[4];

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t n)
{
	snprintf(proc->nspace, sizeof(proc->nspace), "played");
	proc->rank = (pmix_rank_t)ranks / 2;
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char *key, const pmix_info_t info[], size_t n, pmix_value_t **out)
{
	pmix_value_t *v;
	char text[32];

	if (strcmp(key, PMIX_JOB_SIZE) && strcmp(key, PMIX_LOCAL_PEERS) && strcmp(key, PMIX_NUM_NODES))
		return PMIX_ERR_NOT_FOUND;
	v = calloc(1, sizeof(*v));
	if (!v)
		return PMIX_ERR_NOMEM;
	*out = v;
	if (!strcmp(key, PMIX_LOCAL_PEERS)) {
		snprintf(text, sizeof(text), "%d", ranks / 2);
		v->type = PMIX_STRING;
		v->data.string = strdup(text);
	} else {
		v->type = PMIX_UINT32;
		v->data.uint32 = (uint32_t)ranks;
	}
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *v)
{
	for (int i = 0; i < 4; i++)
		if (!*published[i].key && v->data.bo.size <= sizeof(published[i].data)) {
			snprintf(published[i].key, sizeof(published[i].key), "%s", key);
			memcpy(published[i].data, v->data.bo.bytes, published[i].len = v->data.bo.size);
			return PMIX_SUCCESS;
		}
	return PMIX_ERR_NOMEM;
}

/* The answers for other ranks: the record of this rank, but with another incarnation and with queue numbers that do not exist. */
static void pose_as(pmix_rank_t rank, char *address)
{
	struct hdl_addr_head *head = (struct hdl_addr_head *)address;
	struct hdl_addr *a = (struct hdl_addr *)(head + 1);

	head->name.incarnation += rank + 1;
	head->name.rank = rank;
	snprintf(head->host, sizeof(head->host), "host%u", rank);
	for (uint32_t i = 0; i < head->count; i++)
		a[i].ud_qpn ^= 0x800000;
}

pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t n, pmix_value_cbfunc_t fn,
			  void *arg)
{
	static _Alignas(8) char copy[sizeof(published[0].data)];
	pmix_value_t v = { .type = PMIX_BYTE_OBJECT };
	int i = 0;

	while (i < 4 && strcmp(published[i].key, key))
		i++;
	if (i == 4)
		return PMIX_ERR_NOT_FOUND;
	memcpy(copy, published[i].data, published[i].len);
	if (!strcmp(key, "hdl.addr"))
		pose_as(proc->rank, copy);
	v.data.bo.bytes = copy;
	v.data.bo.size = published[i].len;
	fn(PMIX_SUCCESS, &v, arg);
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Commit(void)
{
	return PMIX_SUCCESS;
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

static size_t now(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static size_t row(const char *what, size_t before, size_t each, const char *unit)
{
	size_t bytes = now() - before;

	printf("%-66s %9zu bytes, %9.3f per %s\n", what, bytes, (double)bytes / (double)each, unit);
	return bytes;
}

static void at_most(const char *what, size_t bytes, size_t limit)
{
	if (bytes <= limit)
		return;
	fprintf(stderr, "FAILED: %s: %zu bytes, %zu are allowed\n", what, bytes, limit);
	failures++;
}

static size_t leaves(size_t n)
{
	return (n + HDL_LEAF - 1) / HDL_LEAF * sizeof(void *);
}

static void communicator(const char *what, struct hdl_group *group)
{
	size_t before = now(), n = (size_t)group->size;
	bool shared = group->leaf;
	struct hdl_comm *c = hdl_comm_new(group);

	at_most(what, row(what, before, (size_t)ranks, "rank of the job"), (shared ? 0 : leaves(n)) + 512);
	if (c->size != group->size || hdl_comm_proc(c, c->size - 1) != hdl_group_proc(group, c->size - 1))
		failures++;
	hdl_comm_forget(c);
}

/* MET peers, each so many ranks after the other. */
static void meet(const char *what, int first, int apart, size_t limit)
{
	size_t before = now();

	for (int i = 0; i < MET; i++) {
		int rank = first + i * apart;

		if (!hdl_comm_ep(&hdl_world, rank) || hdl_comm_ep(&hdl_world, rank) != hdl_comm_ep_met(&hdl_world, rank) ||
		    hdl_ep_note(hdl_comm_ep_met(&hdl_world, rank))->rank != rank)
			failures++;
	}
	at_most(what, row(what, before, MET, "peer"), MET * limit);
}

static void speak(int first)
{
	size_t before = now();
	struct hdl_send send;

	for (int i = 0; i < 64; i++)
		if (hdl_ep_send(hdl_comm_ep(&hdl_world, first + i), 1, 2, false, "8 bytes", 8, &send) != 1)
			failures++;
	row("64 peers are sent a packet by UD, and do not answer", before, 64, "peer");
}

static int one_process(int out)
{
	size_t before = now(), init;

	if (PMPI_Init(NULL, NULL))
		return 1;
	init = now() - before;
	if (write(out, &init, sizeof(init)) != sizeof(init))
		return 1;
	if (ranks < 100000) {
		_exit(0);	/* there is no other rank for the fence of MPI_Finalize */
	}
	printf("%-66s %9zu bytes\n", "MPI_Init", init);
	hdl_comm_forget(hdl_comm_new(hdl_group_retain(hdl_world.group)));	/* the pool's first slab */
	communicator("a duplicate of MPI_COMM_WORLD", hdl_group_retain(hdl_world.group));
	communicator("its middle half", hdl_group_range(ranks / 4, 1, ranks / 2));
	communicator("every second rank", hdl_group_range(ranks / 2 % 2, 2, ranks / 2));
	meet("1,000 peers side by side are met", ranks / 2 + 1, 1, ENDPOINT + 200);
	meet("1,000 peers are met, each in a leaf of its own", 1, (ranks / 2 - 1) / MET, ENDPOINT + sizeof(hdl_leaf) + 200);
	speak(ranks / 2 + 1);
	fflush(stdout);
	_exit(failures != 0);
}

static size_t measured(int n)
{
	size_t init = 0;
	int fd[2], status;
	pid_t pid;

	ranks = n;
	fflush(stdout);
	if (pipe(fd) || (pid = fork()) < 0)
		exit(2);
	if (!pid)
		_exit(one_process(fd[1]));
	close(fd[1]);
	if (read(fd[0], &init, sizeof(init)) != sizeof(init))
		failures++;
	close(fd[0]);
	if (waitpid(pid, &status, 0) != pid || status)
		failures++;
	return init;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000000;
	size_t few, many;

	setenv("PMIX_NAMESPACE", "played", 1);
	setenv("PMIX_RANK", "0", 1);
	setenv("HEDDLE_DEVICE", "shca0", 1);
	few = measured(1000);
	many = measured(n);
	printf("%-66s %9zd bytes, %9.3f per rank of the job\n", "MPI_Init of so many ranks, less that of 1,000", many - few,
	       (double)(many - few) / n);
	at_most("MPI_Init", many - few, leaves((size_t)n) + 256);
	return failures != 0;
}
