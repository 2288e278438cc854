/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that identifies the job on a host, where ranks share objects by a file (XRC domains): heddlerun's host file,
 * which has no name and is inherited, or else the directory that the launcher has made for the job there. Both belong
 * to the launcher, which removes the directory; neither belongs to another job or another user. Ranks write nothing
 * into them, so that a job that is killed leaves nothing.
 */
#include <fcntl.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "runtime/launched_by.h"
#include "runtime/pmix_fds.h"
#include "runtime/runtime.h"

/* A wrapper may have closed the descriptor, and the number may be another file's by now. */
static int file_inherited(void)
{
	const char *text = getenv("HEDDLERUN_FILE");
	unsigned long long dev, ino;
	struct stat st;
	int fd;

	if (!text || sscanf(text, "%d:%llu:%llu", &fd, &dev, &ino) != 3 || fstat(fd, &st) || st.st_dev != dev || st.st_ino != ino)
		return -1;
	/* for good, so that children of this process do not inherit the descriptor; opened again if need be */
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fcntl(fd, F_DUPFD_CLOEXEC, FD_LIBRARY_MIN);
}

/* -1: other users may write to the path, or this process cannot reach it. */
static int open_own(const char *path)
{
	int fd = path ? fd_raise(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) : -1;
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & S_IWOTH)))
		return fd;
	close(fd);
	return -1;
}

static int directory(void)
{
	pmix_value_t *value = NULL;
	pmix_info_t optional;
	pmix_status_t rc;
	pmix_proc_t job;
	int fd = -1;

	PMIX_LOAD_PROCID(&job, hdl_job.nspace, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, NULL, PMIX_BOOL);
	hdl_pmix_fds_check("PMIx_Get");
	rc = PMIx_Get(&job, PMIX_NSDIR, &optional, 1, &value);
	PMIX_INFO_DESTRUCT(&optional);
	if (rc == PMIX_SUCCESS && value->type == PMIX_STRING)
		fd = open_own(value->data.string);
	if (rc == PMIX_SUCCESS)
		PMIX_VALUE_RELEASE(value);
	/* the launcher's server has a directory, too: Open MPI's mpirun makes a new one for each run */
	return fd < 0 ? open_own(getenv("PMIX_SERVER_TMPDIR")) : fd;
}

int hdl_rt_job_file(void)
{
	if (hdl_job.singleton)
		return -1;
	if (hdl_launched_by_env().heddlerun)
		return file_inherited();
	return directory();
}
