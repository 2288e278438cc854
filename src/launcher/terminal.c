/* SPDX-License-Identifier: BSD-3-Clause */
/* Input from the terminal to rank 0, which is in a process group of the terminal's background and could not read there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/launcher.h"

void terminal_close(struct terminal *t)
{
	free(t->buf);
	t->buf = NULL;
	t->len = 0;
	if (t->fd < 0)
		return;
	close(t->fd);	/* the rank reads end of file */
	t->fd = -1;
}

static void terminal_write(struct terminal *t)
{
	while (t->len) {
		ssize_t n = write(t->fd, t->buf, t->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;		/* once the rank reads; until then the terminal is not read either */
		if (n <= 0) {
			t->len = 0;
			terminal_close(t);
			return;
		}
		t->len -= (size_t)n;
		memmove(t->buf, t->buf + n, t->len);
	}
}

void terminal_copy(struct terminal *t)
{
	enum { SIZE = 4096 };
	ssize_t n;

	if (!t->buf)
		t->buf = must(malloc(SIZE));
	terminal_write(t);
	/* In the background the terminal belongs to another program. */
	if (t->fd < 0 || t->len || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	n = read(STDIN_FILENO, t->buf, SIZE);
	if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EIO))
		return;
	if (n <= 0) {
		terminal_close(t);
		return;
	}
	t->len = (size_t)n;
	terminal_write(t);
}
