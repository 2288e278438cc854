/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables, nearest names, and launchers' environments. Criterion runs each test in a process of its own. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/launched_by.h"
#include "runtime/runtime.h"
#include "runtime/watchdog.h"

/* ---- variables ------------------------------------------------------------------------------------------------ */

static int load_with(const char *name, const char *value)
{
	setenv(name, value, 1);
	return hdl_vars_load();
}

Test(vars, defaults_without_environment)
{
	cr_assert_eq(hdl_vars_load(), 0);
	cr_assert_eq(hdl_vars.init_timeout, 60000000u);
	cr_assert_eq(hdl_vars.debug, false);
	cr_assert_str_eq(hdl_vars.transport, "");
}

Test(vars, each_type_is_read)
{
	setenv("HEDDLE_DEBUG", "on", 1);
	setenv("HEDDLE_SRQ_DEPTH", "17", 1);
	setenv("HEDDLE_EAGER_MAX", "3k", 1);
	setenv("HEDDLE_INIT_TIMEOUT", "250ms", 1);
	setenv("HEDDLE_COLL_EXECUTOR", "tasks", 1);
	setenv("HEDDLE_TRANSPORT", "xrc,rc", 1);
	cr_assert_eq(hdl_vars_load(), 0);
	cr_assert(hdl_vars.debug);
	cr_assert_eq(hdl_vars.srq_depth, 17);
	cr_assert_eq(hdl_vars.eager_max, 3072u);
	cr_assert_eq(hdl_vars.init_timeout, 250000u);
	cr_assert_str_eq(hdl_vars.coll_executor, "tasks");
	cr_assert_str_eq(hdl_vars.transport, "xrc,rc");
	/* The text was kept, not pointed to. */
	setenv("HEDDLE_TRANSPORT", "ud", 1);
	cr_assert_str_eq(hdl_vars.transport, "xrc,rc");
}

Test(vars, loading_twice_is_loading_once)
{
	cr_assert_eq(load_with("HEDDLE_SRQ_DEPTH", "5"), 0);
	cr_assert_eq(load_with("HEDDLE_SRQ_DEPTH", "6"), 0);
	cr_assert_eq(hdl_vars.srq_depth, 5);
}

Test(vars, sizes_and_times_know_their_units)
{
	static const struct {
		const char *text;
		size_t bytes;
	} sizes[] = { { "0", 0 }, { "1K", 1024 }, { "2m", 2u << 20 }, { "1g", 1u << 30 }, { "123", 123 } };
	char entry[64], *env[] = { entry, NULL };

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		snprintf(entry, sizeof entry, "HEDDLE_EAGER_MAX=%s", sizes[i].text);
		cr_expect_eq(hdl_vars_check(env), 0, "%s", entry);
	}
	cr_assert_eq(load_with("HEDDLE_INIT_TIMEOUT", "3s"), 0);
	cr_assert_eq(hdl_vars.init_timeout, 3000000u);
}

Test(vars, bad_values_are_refused, .init = cr_redirect_stderr)
{
	static const char *const bad[] = {
		"HEDDLE_DEBUG=maybe", "HEDDLE_DEBUG=", "HEDDLE_SRQ_DEPTH=-1", "HEDDLE_SRQ_DEPTH=4 ", "HEDDLE_SRQ_DEPTH=0x10",
		"HEDDLE_SRQ_DEPTH=99999999999", "HEDDLE_EAGER_MAX=", "HEDDLE_EAGER_MAX=k", "HEDDLE_EAGER_MAX=4kb",
		"HEDDLE_EAGER_MAX=4x", "HEDDLE_EAGER_MAX=99999999999999999999", "HEDDLE_EAGER_MAX=18446744073709551615g",
		"HEDDLE_INIT_TIMEOUT=30", "HEDDLE_INIT_TIMEOUT=3m", "HEDDLE_INIT_TIMEOUT=s",
		"HEDDLE_INIT_TIMEOUT=18446744073709551615s", "HEDDLE_TRANSPORT=tcp", "HEDDLE_TRANSPORT=rc,",
		"HEDDLE_TRANSPORT=,rc", "HEDDLE_TRANSPORT=r", "HEDDLE_TRANSPORT=rc;ud", "HEDDLE_COLL_EXECUTOR=gpu",
		"HEDDLE_COLL_EXECUTOR=auto|host",
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		char *env[] = { (char *)bad[i], NULL };

		cr_expect_eq(hdl_vars_check(env), -EINVAL, "%s", bad[i]);
	}
	/* A check stores nothing. */
	cr_assert_eq(hdl_vars.srq_depth, 256);
}

Test(vars, the_error_names_variable_value_and_form, .init = cr_redirect_stderr)
{
	char *env[] = { (char *)"HEDDLE_INIT_TIMEOUT=30", NULL };

	hdl_diag_program("test");
	hdl_vars_check(env);
	fflush(stderr);
	cr_assert_stderr_eq_str("test: HEDDLE_INIT_TIMEOUT=30: not understood; allowed is a whole number with its unit us, ms or "
				"s (such as 500ms), or 0\n");
}

Test(vars, names_of_others_are_left_alone, .init = cr_redirect_stderr)
{
	char *env[] = { (char *)"HEDDLERUN_CPUS=2", (char *)"HEDDLE=1", (char *)"HEDDLE_NEVER_HEARD_OF=1", NULL };

	cr_assert_eq(hdl_vars_check(env), 0);
}

/* ---- nearest name ------------------------------------------------------------------------------------------------- */

Test(nearest, mistakes_are_recognised)
{
	static const char *const names[] = { "--timeout", "--tag-output", "--bind-to", "--verbose", NULL };

	cr_assert_str_eq(hdl_nearest("--timeuot", names), "--timeout");		/* a swap is one mistake */
	cr_assert_str_eq(hdl_nearest("--TIMEOUT", names), "--timeout");
	cr_assert_str_eq(hdl_nearest("--tagoutput", names), "--tag-output");
	cr_assert_str_eq(hdl_nearest("--bindto", names), "--bind-to");
	cr_assert_str_eq(hdl_nearest("--verbos", names), "--verbose");
}

Test(nearest, what_is_far_is_not_suggested)
{
	static const char *const names[] = { "--timeout", "-n", NULL }, *const none[] = { NULL };
	char word[4096];

	cr_assert_null(hdl_nearest("--frobnicate", names));
	cr_assert_null(hdl_nearest("--timeout", none));
	memset(word, 'x', sizeof word - 1);
	word[sizeof word - 1] = 0;
	cr_assert_null(hdl_nearest(word, names));
	cr_assert_null(hdl_nearest("", names));
}

/* ---- launchers -------------------------------------------------------------------------------------------------------- */

static void no_launcher(void)
{
	static const char *const vars[] = { "PMIX_NAMESPACE", "PMIX_RANK", "HEDDLERUN_NAMESPACE", "OMPI_COMM_WORLD_SIZE",
					    "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "SLURM_STEP_NUM_TASKS",
					    "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_PROCID", "PRTE_LAUNCHED" };

	for (size_t i = 0; i < sizeof vars / sizeof vars[0]; i++)
		unsetenv(vars[i]);
}

Test(launched_by, nobody, .init = no_launcher)
{
	struct hdl_launched_by by = hdl_launched_by_env();

	cr_assert_null(by.launcher);
	cr_assert_eq(by.size, 0);
	cr_assert_eq(by.rank, -1);
	cr_assert_not(by.pmix);
}

Test(launched_by, heddlerun_only_for_its_own_namespace, .init = no_launcher)
{
	struct hdl_launched_by by;

	setenv("PMIX_NAMESPACE", "a", 1);
	setenv("PMIX_RANK", "3", 1);
	setenv("HEDDLERUN_NAMESPACE", "a", 1);
	by = hdl_launched_by_env();
	cr_assert(by.heddlerun);
	cr_assert_str_eq(by.launcher, "heddlerun");
	cr_assert_eq(by.rank, 3);
	/* Another PMIx launcher inside a rank of heddlerun's. */
	setenv("PMIX_NAMESPACE", "b", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
	by = hdl_launched_by_env();
	cr_assert_not(by.heddlerun);
	cr_assert_str_eq(by.launcher, "mpirun (Open MPI)");
	cr_assert_eq(by.size, 2);
}

Test(launched_by, slurm_only_inside_a_parallel_step, .init = no_launcher)
{
	setenv("SLURM_NTASKS", "4", 1);
	cr_assert_eq(hdl_launched_by_env().size, 0);
	setenv("SLURM_STEP_ID", "4294967290", 1);
	cr_assert_eq(hdl_launched_by_env().size, 0);
	setenv("SLURM_STEP_ID", "7", 1);
	setenv("SLURM_PROCID", "2", 1);
	cr_assert_eq(hdl_launched_by_env().size, 4);
	cr_assert_eq(hdl_launched_by_env().rank, 2);
	setenv("SLURM_STEP_NUM_TASKS", "3", 1);	/* of this step: more exact */
	cr_assert_eq(hdl_launched_by_env().size, 3);
}

Test(launched_by, nonsense_promises_nothing, .init = no_launcher)
{
	setenv("PMI_SIZE", "many", 1);
	cr_assert_eq(hdl_launched_by_env().size, 0);
	setenv("PMI_SIZE", "-4", 1);
	cr_assert_eq(hdl_launched_by_env().size, 0);
	setenv("PMI_SIZE", "99999999999999", 1);
	cr_assert_eq(hdl_launched_by_env().size, 0);
}

Test(warn, repeats_are_counted_not_printed, .init = cr_redirect_stderr)
{
	char expected[1024] = "";

	hdl_diag_program("test");
	for (int i = 1; i <= 100; i++)
		hdl_warn("peer %d is slow", i);
	fflush(stderr);
	strcat(expected, "test: warning: peer 1 is slow\ntest: warning: peer 2 is slow\n");
	strcat(expected, "test: warning: peer 3 is slow (warning no. 3 of this kind; the next is no. 10)\n");
	strcat(expected, "test: warning: peer 10 is slow (warning no. 10 of this kind; those between were left out)\n");
	strcat(expected, "test: warning: peer 100 is slow (warning no. 100 of this kind; those between were left out)\n");
	cr_assert_stderr_eq_str(expected);
}

Test(error, a_long_text_is_whole, .init = cr_redirect_stderr)
{
	char text[5001], expected[5100];

	memset(text, 'x', 5000);
	text[5000] = 0;
	snprintf(expected, sizeof expected, "test: %s\n", text);
	hdl_diag_program("test");
	hdl_error("%s", text);
	fflush(stderr);
	cr_assert_stderr_eq_str(expected);
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

Test(proc, known_without_descriptors)
{
	struct hdl_proc before, after;
	uint64_t host = hdl_host_id();
	struct rlimit limit, none;

	hdl_proc_self(&before);
	cr_assert(host && before.start);
	cr_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 0;
	cr_assert(!setrlimit(RLIMIT_NOFILE, &none));
	hdl_proc_self(&after);
	cr_expect_eq(hdl_host_id(), host);
	cr_expect(!memcmp(&before, &after, sizeof before));
	cr_assert(!setrlimit(RLIMIT_NOFILE, &limit));
}

Test(proc, lives_and_ends)
{
	struct hdl_proc me, child, other;
	int to_parent[2], to_child[2];
	siginfo_t how;
	pid_t pid;
	char byte;

	hdl_proc_self(&me);
	cr_assert_eq(me.pid, (uint32_t)getpid());
	cr_assert_eq(hdl_proc_state(&me), HDL_PROC_LIVES);
	cr_assert(!pipe(to_parent) && !pipe(to_child));
	pid = fork();
	if (!pid) {
		hdl_proc_self(&child);
		_exit(write(to_parent[1], &child, sizeof child) != sizeof child || read(to_child[0], &byte, 1) != 1);
	}
	cr_assert_eq(read(to_parent[0], &child, sizeof child), (ssize_t)sizeof child);
	cr_assert_eq(child.pid, (uint32_t)pid);
	cr_assert_eq(hdl_proc_state(&child), HDL_PROC_LIVES);
	kill(pid, SIGSTOP);
	cr_assert_eq(hdl_proc_state(&child), HDL_PROC_LIVES, "a stopped process lives");
	kill(pid, SIGKILL);
	cr_assert(!waitid(P_PID, (id_t)pid, &how, WEXITED | WNOWAIT));
	cr_assert_eq(hdl_proc_state(&child), HDL_PROC_ENDED, "a zombie has ended");
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(hdl_proc_state(&child), HDL_PROC_ENDED);

	other = me;
	other.start++;
	cr_assert_eq(hdl_proc_state(&other), HDL_PROC_ENDED, "its pid is another one's by now");
	other = me;
	other.space++;
	cr_assert_eq(hdl_proc_state(&other), HDL_PROC_UNKNOWN);
	other = me;
	other.start = 0;
	cr_assert_eq(hdl_proc_state(&other), HDL_PROC_UNKNOWN);
}

/* ---- the watchdog ----------------------------------------------------------------------------------------------- */

static _Thread_local char large[512 << 10];

/* The thread that bounds a call has a small stack, beside all of the program's thread-local memory. */
Test(watchdog, beside_much_thread_local_memory, .exit_code = 5)
{
	memset(large, 1, sizeof(large));
	alarm(60);
	hdl_watch("this test", 20000, 5);
	for (;;)
		pause();
}
