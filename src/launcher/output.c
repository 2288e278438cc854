/* SPDX-License-Identifier: BSD-3-Clause */
/* --tag-output: the lines of the ranks, each with the rank in front, never one inside the other. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

enum { LONGEST_LINE = 1 << 20 };	/* a longer one is broken */

struct stream {
	int fd, to_fd;
	char *tag;
	char *buf;		/* the beginning of an unfinished line */
	size_t len, size;
};

static int output_errno;

int output_error(void)
{
	return output_errno;
}

struct stream *output_stream_new(int fd, int to_fd, const char *tag)
{
	struct stream *s = must(calloc(1, sizeof *s));

	s->fd = fd;
	s->to_fd = to_fd;
	s->tag = must(strdup(tag));
	s->size = 4096;
	s->buf = must(malloc(s->size));
	return s;
}

int stream_fd(const struct stream *s)
{
	return s->fd;
}

/* The ranks go on: their results may be elsewhere. The job has failed all the same. A reader that has gone (head) is not
 * worth a message, as in a shell's pipe. */
static void output_lost(int fd, int err)
{
	if (!output_errno && err != EPIPE)
		complain("standard %s cannot be written: %s; output of the ranks is lost from here on",
			 fd == STDERR_FILENO ? "error" : "output", strerror(err));
	if (!output_errno || output_errno == EPIPE)
		output_errno = err;
}

static void output_write_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {	/* another process has made the descriptor nonblocking, and the reader
						 * is slow */
			poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
			continue;
		}
		if (n <= 0) {
			output_lost(fd, errno);
			return;
		}
		p += n;
		len -= (size_t)n;
	}
}

/* Writes the whole lines in the buffer, tagged, in one write where possible; with `all` also an unfinished line. */
static void flush_lines(struct stream *s, bool all)
{
	size_t tag_len = strlen(s->tag), lines = 1, out_len = 0, from = 0;
	char *out;

	for (size_t i = 0; i < s->len; i++)
		lines += s->buf[i] == '\n';
	out = must(malloc(s->len + lines * (tag_len + 1)));
	while (from < s->len) {
		char *end = memchr(s->buf + from, '\n', s->len - from);
		size_t n = end ? (size_t)(end - s->buf) - from : s->len - from;

		if (!end && !all)
			break;
		memcpy(out + out_len, s->tag, tag_len);
		memcpy(out + out_len + tag_len, s->buf + from, n);
		out_len += tag_len + n;
		out[out_len++] = '\n';
		from += n + (end != NULL);
	}
	output_write_all(s->to_fd, out, out_len);
	free(out);
	memmove(s->buf, s->buf + from, s->len - from);
	s->len -= from;
}

bool stream_copy(struct stream *s)
{
	for (int turns = 0; turns < 16; turns++) {	/* then another stream gets a turn */
		ssize_t n;

		if (s->len == s->size) {
			s->size *= 2;
			s->buf = must(realloc(s->buf, s->size));
		}
		n = read(s->fd, s->buf + s->len, s->size - s->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0) {
			flush_lines(s, true);
			return false;
		}
		s->len += (size_t)n;
		flush_lines(s, s->len >= LONGEST_LINE);
	}
	return true;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	close(s->fd);
	free(s->tag);
	free(s->buf);
	free(s);
}
