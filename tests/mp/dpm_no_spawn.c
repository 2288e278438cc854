/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dynamic processes under a PMIx server that has neither PMIx_Spawn nor PMIx_Publish, as Slurm's. The server starts this program
 * as its only client, which looks at error classes and texts.
 *
 *     dpm_no_spawn server LAUNCHER     the server; LAUNCHER: text that the errors must have
 */
#include "io_test.h"

#include <pmix.h>
#include <pmix_server.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the server ------------------------------------------------------------------------------------------------ */

static pmix_status_t connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
	(void)proc;
	(void)object;
	(void)done;
	(void)data;
	return PMIX_OPERATION_SUCCEEDED;
}

/* One client: its data are all. */
static pmix_status_t fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo, char *data, size_t bytes,
			   pmix_modex_cbfunc_t done, void *arg)
{
	(void)procs;
	(void)n;
	(void)info;
	(void)ninfo;
	done(PMIX_SUCCESS, data, bytes, arg, NULL, NULL);
	return PMIX_SUCCESS;
}

static pmix_server_module_t module = { .client_connected = connected, .client_finalized = connected, .fence_nb = fence };

static void registered(pmix_status_t status, void *arg)
{
	atomic_store((atomic_int *)arg, status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED ? 1 : -1);
}

static void await(pmix_status_t rc, atomic_int *done)
{
	if (rc == PMIX_OPERATION_SUCCEEDED)
		return;
	while (rc == PMIX_SUCCESS && !atomic_load(done))
		usleep(1000);
	if (rc != PMIX_SUCCESS || atomic_load(done) < 0) {
		fprintf(stderr, "dpm_no_spawn: the server: %s\n", PMIx_Error_string(rc));
		exit(1);
	}
	atomic_store(done, 0);
}

static int serve(char **argv)
{
	uint32_t one = 1, zero = 0;
	atomic_int done = 0;
	pmix_nspace_t nspace;
	char **env = NULL, host[256] = "", *nodes, *ranks;
	pmix_info_t info[8];
	pmix_proc_t proc;
	int status = 1, n = 0, pid;

	if (PMIx_server_init(&module, NULL, 0) != PMIX_SUCCESS)
		return 1;
	gethostname(host, sizeof(host) - 1);
	if (PMIx_generate_regex(host, &nodes) != PMIX_SUCCESS || PMIx_generate_ppn("0", &ranks) != PMIX_SUCCESS)
		return 1;
	PMIX_INFO_LOAD(&info[n++], PMIX_UNIV_SIZE, &one, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[n++], PMIX_JOB_SIZE, &one, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[n++], PMIX_LOCAL_SIZE, &one, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[n++], PMIX_APPNUM, &zero, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[n++], PMIX_LOCAL_PEERS, "0", PMIX_STRING);
	PMIX_INFO_LOAD(&info[n++], PMIX_NODE_MAP, nodes, PMIX_REGEX);
	PMIX_INFO_LOAD(&info[n++], PMIX_PROC_MAP, ranks, PMIX_REGEX);
	PMIX_LOAD_NSPACE(nspace, "dpm-no-spawn");
	await(PMIx_server_register_nspace(nspace, 1, info, (size_t)n, registered, &done), &done);
	PMIX_LOAD_PROCID(&proc, nspace, 0);
	await(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, registered, &done), &done);
	if (PMIx_server_setup_fork(&proc, &env) != PMIX_SUCCESS)
		return 1;
	pid = fork();
	if (!pid) {
		for (char **e = env; e && *e; e++)
			putenv(*e);
		execv(argv[0], argv + 1);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	PMIx_server_finalize();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- the client ------------------------------------------------------------------------------------------------- */

static void refused(int line, int rc, int class, const char *function, const char *launcher)
{
	char text[MPI_MAX_ERROR_STRING];
	int n;

	MPI_Error_string(rc, text, &n);
	if (class_of(rc) != class || !strstr(text, function) || !strstr(text, launcher) || !strstr(text, "heddlerun"))
		test_fail(__FILE__, line, "class %d, not %d, or without %s, %s or heddlerun: %s", class_of(rc), class, function,
			  launcher, text);
}
#define REFUSED(...)	refused(__LINE__, __VA_ARGS__)

int main(int argc, char **argv)
{
	char port[MPI_MAX_PORT_NAME] = "port";
	const char *launcher;
	int codes[2] = { 0 };
	MPI_Comm inter = MPI_COMM_WORLD;

	if (argc > 2 && !strcmp(argv[1], "server"))
		return serve(argv);
	launcher = argv[argc - 1];
	test_init(&argc, &argv);
	CHECK_EQ(np, 1);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	REFUSED(MPI_Comm_spawn("true", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_SPAWN,
		"PMIx_Spawn", launcher);
	CHECK(inter == MPI_COMM_NULL && class_of(codes[0]) == MPI_ERR_SPAWN && class_of(codes[1]) == MPI_ERR_SPAWN);
	REFUSED(MPI_Publish_name("name", MPI_INFO_NULL, port), MPI_ERR_SERVICE, "PMIx_Publish", launcher);
	REFUSED(MPI_Unpublish_name("name", MPI_INFO_NULL, port), MPI_ERR_SERVICE, "PMIx_Publish", launcher);
	REFUSED(MPI_Lookup_name("name", MPI_INFO_NULL, port), MPI_ERR_NAME, "PMIx_Publish", launcher);
	/* the rest of chapter 11 needs no server */
	CHECK(!MPI_Open_port(MPI_INFO_NULL, port) && !MPI_Close_port(port));
	test_done("dpm_no_spawn");
	return 0;
}
