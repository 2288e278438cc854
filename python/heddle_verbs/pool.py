# SPDX-License-Identifier: BSD-3-Clause
"""Buffers of one size in one memory region."""
import collections
import ctypes
import errno
import mmap

import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.wr import SGE, RecvWR

from .errors import OneProcess, VerbsError, WCError, naming, queue_name

_FREE, _OUT, _POSTED = range(3)    # states of a buffer: the pool's, the caller's, a posted receive's


class BufferPool(OneProcess):
    """`count` buffers of `size` bytes. A buffer's number is the wr_id of its receive, with RECV set.

    A view of a buffer may be used longer than the pool is open.

    Datagrams have 40 bytes for the GRH in front: size=40 + length.
    """
    RECV = 1 << 63

    def __init__(self, pd, count, size, access=e.IBV_ACCESS_LOCAL_WRITE):
        self.count = count
        self.size = size
        if not (isinstance(count, int) and isinstance(size, int) and count > 0 and size > 0):
            raise VerbsError('a buffer pool of no buffers', errno.EINVAL, count=count, size=size)
        try:
            memory = mmap.mmap(-1, count * size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as err:
            raise VerbsError('memory of a buffer pool', errno.ENOMEM, count=count, size=size) from err
        with naming('registering a buffer pool', count=count, size=size):
            self.mr = MR(pd, count * size, access, ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        self._bytes = memoryview(memory)    # which keeps the memory
        self._free = collections.deque(range(count))
        self._state = [_FREE] * count

    def __len__(self):
        """Buffers that are free."""
        return len(self._free)

    def pop(self):
        """The number of a free buffer, which is the caller's until push()."""
        self._check_open()
        if not self._free:
            raise VerbsError('a buffer pool is empty', errno.ENOBUFS, count=self.count, size=self.size)
        i = self._free.pop()
        self._state[i] = _OUT
        return i

    def push(self, i):
        if not self._has(i) or self._state[i] == _FREE:
            raise VerbsError('a buffer that is not out came back to its pool', errno.EINVAL, buffer=i, count=self.count)
        self._state[i] = _FREE
        self._free.append(i)

    def _has(self, i):
        return isinstance(i, int) and 0 <= i < self.count

    def _check_open(self):
        if self._bytes is None:
            raise VerbsError('a buffer pool that was closed', errno.EBADF, count=self.count, size=self.size)

    def view(self, i, length=None, offset=0):
        """The buffer's memory."""
        self._check_open()
        length = self.size - offset if length is None else length
        if not self._has(i) or offset < 0 or length < 0 or offset + length > self.size:
            raise VerbsError('a part of a buffer that it does not have', errno.EINVAL, buffer=i, offset=offset, length=length,
                             size=self.size)
        return self._bytes[i * self.size + offset:i * self.size + offset + length]

    def copy_to(self, data, i, offset=0):
        """Writes bytes, or text, into a buffer. Returns how many."""
        if isinstance(data, str):
            data = data.encode()
        data = memoryview(data).cast('B')
        self.view(i, len(data), offset)[:] = data
        return len(data)

    def copy_from(self, i, length=None, offset=0):
        return bytes(self.view(i, length, offset))

    def addr(self, i, offset=0):
        self.view(i, 0, offset)
        return self.mr.buf + i * self.size + offset

    def sge(self, i, length=None, offset=0):
        self.view(i, length, offset)
        return SGE(self.addr(i, offset), self.size - offset if length is None else length, self.mr.lkey)

    def post_recvs(self, qp, count):
        """Posts receives from free buffers: to a queue pair, or to a shared receive queue."""
        for _ in range(count):
            i = self.pop()
            try:
                self.repost(qp, i)
            except BaseException:
                self.push(i)
                raise

    def repost(self, qp, i):
        """Posts the receive of a buffer that is out."""
        if not self._has(i) or self._state[i] == _FREE:
            raise VerbsError('the receive of a buffer that is not out', errno.EINVAL, buffer=i, count=self.count)
        with naming('posting a receive to %s' % (queue_name(qp) if hasattr(qp, 'qp_num') else 'the shared receive queue'),
                    buffer=i, length=self.size):
            qp.post_recv(RecvWR(wr_id=i | self.RECV, num_sge=1, sg=[self.sge(i)]))
        self._state[i] = _POSTED

    def finish(self, wcs):
        """Splits completions into those of receives, (buffer, wc), which stay out, and others, whose buffers (their wr_id) are free
        again. The WCError of an iterwc() goes on, with .received; the buffer of the request that has failed is free again."""
        received = []
        try:
            for wc in wcs:
                if wc.wr_id & self.RECV:
                    i = wc.wr_id & ~self.RECV
                    if self._has(i):
                        self._state[i] = _OUT
                    received.append((i, wc))
                else:
                    self._sent(wc.wr_id)
        except WCError as err:
            err.received = received
            i = err.wr_id & ~self.RECV
            if err.wr_id & self.RECV and self._has(i) and self._state[i] == _POSTED:
                self.push(i)
            elif not err.wr_id & self.RECV:
                self._sent(i)
            raise
        return received

    def _sent(self, i):
        """A posted receive's buffer is not meant: the wr_id is that of a request of another kind."""
        if self._has(i) and self._state[i] == _OUT:
            self.push(i)

    def close(self):
        if self._bytes is None:
            return
        self.mr.close()
        self._bytes = None

    def __enter__(self):
        self._check_open()
        return self

    def __exit__(self, *exc):
        self.close()
