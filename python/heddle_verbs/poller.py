# SPDX-License-Identifier: BSD-3-Clause
"""A completion queue that can be waited for."""
import collections
import errno
import math
import os
import select
import threading
import time

import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel

from .errors import OneProcess, VerbsError, WCError, naming

_lock = threading.Lock()
_LONGEST = 1e6    # seconds of one sleep; a longer one is taken up again


def _forked():
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def _seconds(timeout):
    """A timeout as poll() takes it; None: for ever."""
    try:
        seconds = math.inf if timeout is None else float(timeout)
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds):
        raise VerbsError('a timeout is a number of seconds, or None', errno.EINVAL, timeout=repr(timeout))
    return None if seconds == math.inf else seconds


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


class CQPoller(OneProcess):
    """A completion queue with its channel: poll with a timeout, iteration, and a wake-up for other threads.

    poller.cq goes to queue pairs. One thread at a time polls; others that call poll() wait until that thread is done.
    """
    _bell = -1
    _closing = False

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
        self._pid = os.getpid()
        self._turn = threading.Lock()    # its holder polls
        self._pending = collections.deque()    # taken by an iterwc() that has not given them

    def _check_open(self):
        """pyverbs does not: a call of a closed queue would end the process."""
        if self._bell < 0 or self._closing:
            raise VerbsError('a poller that was closed', errno.EBADF)
        if self._pid != os.getpid():
            raise VerbsError('a poller of the process that has forked this one', errno.ENODEV)

    def _take(self, most):
        with naming('polling the completion queue'):
            return self.cq.poll(most)[1]

    def _rung(self):
        """Whether wakeup() was called since the last time."""
        try:
            return os.eventfd_read(self._bell) > 0
        except BlockingIOError:
            return False

    def poll(self, timeout=None, most=16):
        """A list of up to `most` completions. Waits for the first: `timeout` seconds at most (None: for ever; 0 or less: not at all).
        The list is empty when the time is over, or when another thread has called wakeup() or close()."""
        left = _seconds(timeout)
        if not isinstance(most, int) or most < 1:
            raise VerbsError('a poll for at least one completion', errno.EINVAL, most=most)
        self._check_open()
        end = None if left is None else time.monotonic() + max(0, left)
        if not self._turn.acquire(timeout=-1 if end is None else min(max(0, left), _LONGEST)):
            return []
        try:
            return self._wait(end, most)
        finally:
            self._turn.release()

    def _wait(self, end, most):
        self._check_open()
        if self._pending:
            return [self._pending.popleft() for _ in range(min(most, len(self._pending)))]
        while True:
            wcs = self._take(most)
            if wcs or self._rung() or self._closing:
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
        left = _LONGEST if left is None else min(left, _LONGEST)
        if self._fd is None:
            time.sleep(max(0, min(left, 0.001)))
            return
        ready = self._poll.poll(max(0, left) * 1000)
        if any(fd == self._fd for fd, _ in ready):
            self.channel.get_cq_event(self.cq)
            self.cq.ack_events(1)

    def iterwc(self, count=None, timeout=None, qp=None, path=None):
        """Completions, one after the other: `count` of them, or until none has come for `timeout` seconds, or wakeup(). One that has
        failed is raised as a WCError. Completions behind the last one that was given are there for the next call."""
        seen = 0
        while count is None or seen < count:
            wcs = self.poll(timeout, 16 if count is None else min(16, count - seen))
            if not wcs:
                return
            wc = wcs[0]
            self._pending.extendleft(reversed(wcs[1:]))
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
        """Ends a poll() under way. Closes the queue pairs of the completion queue, as pyverbs does."""
        if self._bell < 0:
            return
        if self._pid != os.getpid():    # the bell, and perhaps a holder of the turn, are the other process's
            self._close()
            return
        self._closing = True    # for threads that wait for their turn: the bell ends one poll() only
        os.eventfd_write(self._bell, 1)
        with self._turn:
            self._close()

    def _close(self):
        if self._bell < 0:
            return
        with naming('closing a poller'):
            self.cq.close()
        bell, self._bell = self._bell, -1    # poll() refuses from here on, whatever the channel says
        self._fd = None
        try:
            self.channel.close()
        finally:
            os.close(bell)

    def __del__(self):
        if self._bell >= 0:
            os.close(self._bell)
            self._bell = -1

    def __enter__(self):
        self._check_open()
        return self

    def __exit__(self, *exc):
        self.close()
