/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle_info --doctor: settings of this host that limit Heddle, with the exact value, and where to change each. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "tools/info.h"

enum verdict { FINE, NOTE, BAD };
static int worst;

/* One line: verdict, subject, value; then, unless fine, the remedy. */
static void info_doctor_say(enum verdict v, const char *what, const char *value, const char *remedy)
{
	static const char *const words[] = { "ok  ", "note", "BAD " };

	printf("%s  %-22s %s\n", words[v], what, value);
	if (v != FINE && remedy)
		printf("      %-22s %s\n", "", remedy);
	if ((int)v > worst)
		worst = (int)v;
}

static bool read_line(const char *path, char *out, int size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(out, size, f);

	if (f)
		fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = 0;
	return ok;
}

static void human(rlim_t v, char *out, size_t size)
{
	if (v == RLIM_INFINITY)
		snprintf(out, size, "unlimited");
	else if (v >= 1u << 20)
		snprintf(out, size, "%llu MiB", (unsigned long long)v >> 20);
	else
		snprintf(out, size, "%llu KiB", (unsigned long long)v >> 10);
}

static void check_cores(void)
{
	char value[256], cgroup[128];
	cpu_set_t set;
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	int allowed = sched_getaffinity(0, sizeof set, &set) ? (int)online : CPU_COUNT(&set);

	snprintf(value, sizeof value, "%d of %ld CPUs may be used", allowed, online);
	info_doctor_say(FINE, "cores", value, NULL);
	if (read_line("/sys/fs/cgroup/cpu.max", cgroup, sizeof cgroup) && strncmp(cgroup, "max", 3)) {
		double quota = 0, period = 1;

		sscanf(cgroup, "%lf %lf", &quota, &period);
		snprintf(value, sizeof value, "the control group allows %.2f CPUs (cpu.max: %s)", quota / period, cgroup);
		info_doctor_say(quota / period < allowed ? NOTE : FINE, "cpu quota", value,
		    "more ranks than that are stopped in turns: start no more, or raise cpu.max (docker run --cpus)");
	}
}

/* Registered memory of kernel devices is pinned; the software HCA's is not. */
static void check_memlock(void)
{
	char value[64];
	struct rlimit lim;
	DIR *dir = opendir("/dev/infiniband");
	bool kernel_device = dir != NULL;

	if (dir)
		closedir(dir);
	if (getrlimit(RLIMIT_MEMLOCK, &lim))
		return;
	human(lim.rlim_cur, value, sizeof value);
	if (lim.rlim_cur == RLIM_INFINITY || lim.rlim_cur >= 1u << 30)
		info_doctor_say(FINE, "memlock", value, NULL);
	else
		info_doctor_say(
			kernel_device ? BAD : NOTE, "memlock", value,
			kernel_device ?
				"too little to register memory with a kernel verbs device: 'ulimit -l unlimited', for all "
				"logins '* - memlock unlimited' in /etc/security/limits.d/, for services LimitMEMLOCK=infinity" :
				"enough for the software HCA, which pins nothing; a kernel verbs device needs 'ulimit -l "
				"unlimited' (/etc/security/limits.d/, LimitMEMLOCK= of a service)");
}

static void check_rlimit(int which, const char *name, rlim_t need, const char *remedy, bool count)
{
	struct rlimit lim;
	char value[64];

	if (getrlimit(which, &lim))
		return;
	if (count && lim.rlim_cur != RLIM_INFINITY)
		snprintf(value, sizeof value, "%llu", (unsigned long long)lim.rlim_cur);
	else
		human(lim.rlim_cur, value, sizeof value);
	info_doctor_say(lim.rlim_cur == RLIM_INFINITY || lim.rlim_cur >= need ? FINE : NOTE, name, value, remedy);
}

static void check_number(const char *path, const char *name, long long need, const char *remedy)
{
	char value[64];

	if (read_line(path, value, sizeof value))
		info_doctor_say(atoll(value) >= need ? FINE : NOTE, name, value, remedy);
}

static void check_shm(void)
{
	struct statvfs fs;
	char value[96];

	if (statvfs("/dev/shm", &fs))
		snprintf(value, sizeof value, "there is none");
	else
		snprintf(value, sizeof value, "%llu of %llu MiB free",
			 (unsigned long long)fs.f_bavail * fs.f_frsize >> 20,
			 (unsigned long long)fs.f_blocks * fs.f_frsize >> 20);
	strncat(value, "; Heddle does not depend on it", sizeof value - strlen(value) - 1);
	info_doctor_say(FINE, "/dev/shm", value, NULL);
}

static void check_memory(void)
{
	char value[128], limit[64], used[64];
	int fd;

	fd = memfd_create("heddle-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || fallocate(fd, 0, 0, 1 << 20) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		info_doctor_say(BAD, "shared memory", strerror(errno),
		    "a sealed memory file (memfd_create) is needed for the software HCA: does a seccomp profile forbid it?");
	else
		info_doctor_say(FINE, "shared memory", "sealed memory files work", NULL);
	if (fd >= 0)
		close(fd);
	if (read_line("/sys/fs/cgroup/memory.max", limit, sizeof limit) && strcmp(limit, "max") &&
	    read_line("/sys/fs/cgroup/memory.current", used, sizeof used)) {
		long long left = atoll(limit) - atoll(used);

		snprintf(value, sizeof value, "the control group leaves %lld MiB of %lld MiB", left >> 20, atoll(limit) >> 20);
		info_doctor_say(left < 256 << 20 ? NOTE : FINE, "memory", value, "raise memory.max (docker run --memory)");
	}
}

/* ---- copies between processes ------------------------------------------------------------------------------------ */

/* Two sibling processes, as two ranks are: Yama lets a parent read a child, but not a sibling. */
static int copy_sibling(pid_t other, const char *addr)
{
	char buf[16];
	struct iovec local = { buf, sizeof buf }, remote = { (void *)addr, sizeof buf };

	if (process_vm_readv(other, &local, 1, &remote, 1, 0) != sizeof buf)
		return errno;
	return process_vm_writev(other, &local, 1, &remote, 1, 0) == sizeof buf ? 0 : errno;
}

/* 0, or the errno of process_vm_readv or process_vm_writev between siblings; -1: could not be tried. */
static int try_cma(bool permit)
{
	static char secret[16] = "fifteen letters";
	int up[2], err = -1, status;
	pid_t target, reader;

	if (pipe2(up, O_CLOEXEC))
		return -1;
	target = fork();
	if (target == 0) {
		if (permit)
			prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		if (write(up[1], "x", 1) != 1)
			_exit(1);
		close(up[1]);
		for (;;)
			pause();
	}
	close(up[1]);
	if (target > 0) {
		struct pollfd ready = { up[0], POLLIN, 0 };

		if (poll(&ready, 1, 5000) == 1) {
			reader = fork();
			if (reader == 0)
				_exit(copy_sibling(target, secret));
			if (reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status))
				err = WEXITSTATUS(status);
		}
		kill(target, SIGKILL);
		waitpid(target, NULL, 0);
	}
	close(up[0]);
	return err;
}

static void check_cma(void)
{
	char scope[16] = "", value[128];
	int err = try_cma(false), permitted = err ? try_cma(true) : 0;

	if (!read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope))
		snprintf(scope, sizeof scope, "absent");
	if (!err)
		snprintf(value, sizeof value, "work between ranks (ptrace_scope: %s)", scope);
	else if (!permitted)
		snprintf(value, sizeof value, "work between ranks that permit it, as Heddle's do (ptrace_scope: %s)", scope);
	else
		snprintf(value, sizeof value, "forbidden: %s (ptrace_scope: %s)", err > 0 ? strerror(err) : "cannot be tried",
			 scope);
	info_doctor_say(err && permitted ? NOTE : FINE, "copies between ranks", value,
	    "large messages from private memory take a slower lane: 'sysctl kernel.yama.ptrace_scope=1' or less; in containers "
	    "allow process_vm_readv and process_vm_writev (docker run --cap-add SYS_PTRACE)");
}

static void check_devices(void)
{
	DIR *dir = opendir("/dev/infiniband");
	struct dirent *e;
	char path[300];
	int n = 0, refused = 0;

	while (dir && (e = readdir(dir))) {
		if (strncmp(e->d_name, "uverbs", 6))
			continue;
		snprintf(path, sizeof path, "/dev/infiniband/%s", e->d_name);
		n++;
		refused += access(path, R_OK | W_OK) != 0;
	}
	if (dir)
		closedir(dir);
	if (!n)
		info_doctor_say(FINE, "kernel verbs devices", "none: between hosts, Heddle needs one", NULL);
	else if (refused)
		info_doctor_say(BAD, "kernel verbs devices", "/dev/infiniband/uverbs* cannot be read and written",
		    "give the user access (udev rules of rdma-core, docker run --device /dev/infiniband)");
	else
		info_doctor_say(FINE, "kernel verbs devices", "can be opened", NULL);
}

/* Prints the suppression files for tools that would report other libraries' leaks. */
static void name_suppressions(void)
{
	bool there = !access(HDL_PKGDATADIR "/valgrind.supp", R_OK) && !access(HDL_PKGDATADIR "/lsan.supp", R_OK);

	info_doctor_say(FINE, "for valgrind", there ? "--suppressions=" HDL_PKGDATADIR "/valgrind.supp" :
			"valgrind.supp: not installed; "
	    "share/ of the source tree has it", NULL);
	info_doctor_say(FINE, "for LeakSanitizer", there ? "LSAN_OPTIONS=suppressions=" HDL_PKGDATADIR "/lsan.supp" :
			"lsan.supp: not installed; "
	    "share/ of the source tree has it", NULL);
}

int info_doctor(void)
{
	worst = FINE;
	check_cores();
	check_memory();
	check_shm();
	check_cma();
	check_devices();
	check_memlock();
	check_rlimit(RLIMIT_NOFILE, "open files", 1024, "'ulimit -n 4096'; nofile in /etc/security/limits.d/", true);
	check_rlimit(RLIMIT_NPROC, "processes", 512, "'ulimit -u 4096'; nproc in /etc/security/limits.d/", true);
	check_rlimit(RLIMIT_AS, "address space", RLIM_INFINITY,
		     "the software HCA reserves less address space, so a job's memory is smaller: 'ulimit -v unlimited'", false);
	check_rlimit(RLIMIT_STACK, "stack", 1 << 20, "'ulimit -s 8192'", false);
	check_number("/proc/sys/vm/max_map_count", "mappings", 65530, "'sysctl vm.max_map_count=262144'");
	name_suppressions();
	return worst == BAD ? 1 : 0;
}
