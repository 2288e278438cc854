# SPDX-License-Identifier: BSD-3-Clause
"""A completion queue that can be waited for."""
import errno
import os
import select
import threading
import time

import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel

from .errors import VerbsError, WCError, naming

_lock = threading.Lock()


def _descriptors():
    """Numbers; without the listing's own, which is closed by the time that the names are looked at."""
    return {int(n) for n in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + n)}


def _open_channel(ctx):
    """A completion channel and its descriptor, which pyverbs does not tell: it is the one that is new. None if another thread has
    opened some at the same time."""
    for _ in range(8):
        with _lock:
            before = _descriptors()
            with naming('creating a completion channel', device=ctx.name):
                channel = CompChannel(ctx)
            new = list(_descriptors() - before)
        if len(new) == 1:
            return channel, new[0]
        channel.close()
    with naming('creating a completion channel', device=ctx.name):
        return CompChannel(ctx), None


class CQPoller:
    """A completion queue with its channel: poll with a timeout, iteration, and a wake-up for other threads.

    poller.cq goes to queue pairs. One thread at a time polls.
    """

    def __init__(self, ctx, depth, vector=0, solicited_only=False):
        self.channel, self._fd = _open_channel(ctx)
        with naming('creating a completion queue', depth=depth, vector=vector):
            self.cq = CQ(ctx, depth, None, self.channel, vector)
        self._solicited = solicited_only
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        if self._fd is not None:
            self._poll.register(self._fd, select.POLLIN)
        self.sleeps = 0

    def _check_open(self):
        """pyverbs does not: a call of a closed queue would end the process."""
        if self._bell < 0:
            raise VerbsError('a poller that was closed', errno.EBADF)

    def _take(self, most):
        self._check_open()
        with naming('polling the completion queue'):
            return self.cq.poll(most)[1]

    def _rung(self):
        """Whether wakeup() was called since the last time."""
        try:
            return os.eventfd_read(self._bell) > 0
        except BlockingIOError:
            return False

    def poll(self, timeout=None, most=16):
        """A list of up to `most` completions. Waits for the first: `timeout` seconds at most (None: for ever; 0: not at all).
        The list is empty when the time is over, or when another thread has called wakeup()."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            wcs = self._take(most)
            if wcs or self._rung():
                return wcs
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return []
            # arm, look again, then sleep: a completion in between is seen by the second look
            self.cq.req_notify(self._solicited)
            wcs = self._take(most)
            if wcs:
                return wcs
            self._sleep(left)

    def _sleep(self, left):
        self.sleeps += 1
        if self._fd is None:
            time.sleep(0.001 if left is None else min(left, 0.001))
            return
        ready = self._poll.poll(None if left is None else max(0, left) * 1000)
        if any(fd == self._fd for fd, _ in ready):
            self.channel.get_cq_event(self.cq)
            self.cq.ack_events(1)

    def iterwc(self, count=None, timeout=None, qp=None, path=None):
        """Completions, one after the other: `count` of them, or until none has come for `timeout` seconds, or wakeup(). One that has
        failed is raised as a WCError."""
        seen = 0
        while count is None or seen < count:
            wcs = self.poll(timeout, 16 if count is None else min(16, count - seen))
            if not wcs:
                return
            for wc in wcs:
                seen += 1
                if wc.status != e.IBV_WC_SUCCESS:
                    raise WCError(wc, qp if qp is not None and qp.qp_num == wc.qp_num else None, path)
                yield wc

    __iter__ = iterwc

    def wakeup(self):
        """Ends the poll() under way, or the next one. From any thread."""
        self._check_open()
        os.eventfd_write(self._bell, 1)

    def fileno(self):
        """The channel's descriptor, for a select of the program's own; None if it is not known."""
        return self._fd

    def close(self):
        self.cq.close()
        bell, self._bell = self._bell, -1    # poll() refuses from here on, whatever the channel says
        try:
            self.channel.close()
        finally:
            if bell >= 0:
                os.close(bell)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
