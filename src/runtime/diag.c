/* SPDX-License-Identifier: BSD-3-Clause */
/* Diagnostics: one line, one write(2), so that the lines of many ranks do not mix. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "runtime/launched_by.h"
#include "runtime/runtime.h"

static struct {
	const char *program;		/* "heddle", or the name given to hdl_diag_program */
	int rank;			/* -1: not known, or alone */
	bool known;
	bool debug;			/* HEDDLE_DEBUG */
	char host[256];
} self = { .program = "heddle", .rank = -1 };

void hdl_diag_program(const char *name)
{
	self.program = name;
	self.rank = -1;
	self.known = true;
}

void hdl_diag_rank(int rank, const char *host)
{
	self.rank = rank;
	snprintf(self.host, sizeof self.host, "%s", host);
	self.known = true;
}

/* Errors before the job is joined: the launcher's environment is the only source of rank and host. */
static void guess_self(void)
{
	if (self.known)
		return;
	self.rank = hdl_launched_by_env().rank;
	if (gethostname(self.host, sizeof self.host - 1))
		snprintf(self.host, sizeof self.host, "unknown host");
	self.known = true;
}

static void diag_write_all(const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(STDERR_FILENO, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && poll(&(struct pollfd){ .fd = STDERR_FILENO, .events = POLLOUT }, 1, 1000) > 0)
			continue;
		if (n <= 0)
			return;		/* standard error itself has failed */
		p += n;
		len -= (size_t)n;
	}
}

static void diag_say(const char *kind, const char *suffix, const char *fmt, va_list ap)
{
	int saved = errno;
	char head[320], fixed[1024], *line = fixed;
	size_t head_len, size = sizeof fixed;
	va_list again;
	int text_len;

	guess_self();
	if (self.rank >= 0)
		snprintf(head, sizeof head, "%s: rank %d (%s): %s", self.program, self.rank, self.host, kind);
	else
		snprintf(head, sizeof head, "%s: %s", self.program, kind);
	head_len = strlen(head);

	va_copy(again, ap);
	text_len = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (text_len < 0)
		text_len = 0;
	if (head_len + (size_t)text_len + strlen(suffix) + 2 > size) {
		size = head_len + (size_t)text_len + strlen(suffix) + 2;
		line = malloc(size);
		if (!line) {		/* the beginning of the text is better than nothing */
			line = fixed;
			size = sizeof fixed;
		}
	}
	memcpy(line, head, head_len);
	vsnprintf(line + head_len, size - head_len, fmt, ap);
	snprintf(line + strlen(line), size - strlen(line), "%s", suffix);
	if (strlen(line) + 2 > size)
		line[size - 2] = 0;
	strcat(line, "\n");
	diag_write_all(line, strlen(line));
	if (line != fixed)
		free(line);
	errno = saved;
}

void hdl_report(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_say("", "", fmt, ap);
	va_end(ap);
}

void hdl_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_say("", "", fmt, ap);
	va_end(ap);
}

/* How often each warning was given: the format string identifies a warning, so that a warning about many peers is still
 * one warning. */
struct warning {
	const char *fmt;
	unsigned long count;
	struct warning *next;
};

static unsigned long count_warning(const char *fmt)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct warning *all;
	struct warning *w;
	unsigned long count = 1;

	pthread_mutex_lock(&lock);
	for (w = all; w && w->fmt != fmt; w = w->next)
		;
	if (!w) {
		w = calloc(1, sizeof *w);
		if (w) {
			w->fmt = fmt;
			w->next = all;
			all = w;
		}
	}
	if (w)
		count = ++w->count;
	pthread_mutex_unlock(&lock);
	return count;
}

void hdl_warn(const char *fmt, ...)
{
	unsigned long count = count_warning(fmt), decade = 10;
	char suffix[80] = "";
	va_list ap;

	while (decade < count && decade <= count / 10)
		decade *= 10;
	if (count > 3 && count != decade)
		return;
	if (count >= 3)
		snprintf(suffix, sizeof suffix, " (warning no. %lu of this kind; %s)", count,
			 count == 3 ? "the next is no. 10" : "those between were left out");
	va_start(ap, fmt);
	diag_say("warning: ", suffix, fmt, ap);
	va_end(ap);
}

void hdl_diag_debug(bool on)
{
	self.debug = on;
}

void hdl_debug(const char *fmt, ...)
{
	va_list ap;

	if (!self.debug)
		return;
	va_start(ap, fmt);
	diag_say("debug: ", "", fmt, ap);
	va_end(ap);
}

bool hdl_can_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED && !munmap(p, bytes);
}

static void *end_with_lock(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

int hdl_thread_refused(void)
{
	enum { THREADS = 3 };	/* of libpmix; two at a time, and one that may have ended meanwhile */
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread[THREADS];
	int n = 0, err = 0;

	pthread_mutex_lock(&lock);	/* so that all exist at a time */
	while (n < THREADS && !(err = pthread_create(&thread[n], NULL, end_with_lock, &lock)))
		n++;
	pthread_mutex_unlock(&lock);
	while (n)
		pthread_join(thread[--n], NULL);
	pthread_mutex_destroy(&lock);
	return err;
}

const char *hdl_memory_limits(char *text, size_t size)
{
	static const struct {
		int which;
		const char *what;
	} limits[] = { { RLIMIT_DATA, "data and private memory (ulimit -d)" }, { RLIMIT_AS, "address space (ulimit -v)" } };
	size_t len = 0;

	*text = 0;
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit l;

		if (len < size && !getrlimit(limits[i].which, &l) && l.rlim_cur != RLIM_INFINITY)
			len += (size_t)snprintf(text + len, size - len, "%s%llu KiB of %s",
						len ? ", " : "; this process is limited to ",
						(unsigned long long)l.rlim_cur >> 10, limits[i].what);
	}
	return text;
}
