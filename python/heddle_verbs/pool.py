# SPDX-License-Identifier: BSD-3-Clause
"""Buffers of one size in one memory region."""
import collections
import ctypes

import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.wr import SGE, RecvWR

from .errors import VerbsError, naming, queue_name


class BufferPool:
    """`count` buffers of `size` bytes. A buffer's number is the wr_id of its receive, with RECV set.

    Datagrams have 40 bytes for the GRH in front: size=40 + length.
    """
    RECV = 1 << 63

    def __init__(self, pd, count, size, access=e.IBV_ACCESS_LOCAL_WRITE):
        self.count = count
        self.size = size
        with naming('registering a buffer pool', count=count, size=size):
            self.mr = MR(pd, count * size, access)
        self._bytes = memoryview((ctypes.c_char * (count * size)).from_address(self.mr.buf)).cast('B')
        self._free = collections.deque(range(count))
        self._out = [False] * count

    def __len__(self):
        """Buffers that are free."""
        return len(self._free)

    def pop(self):
        """The number of a free buffer, which is the caller's until push()."""
        if not self._free:
            raise VerbsError('a buffer pool is empty', 105, count=self.count, size=self.size)
        i = self._free.pop()
        self._out[i] = True
        return i

    def push(self, i):
        if not 0 <= i < self.count or not self._out[i]:
            raise VerbsError('a buffer that is not out came back to its pool', 22, buffer=i, count=self.count)
        self._out[i] = False
        self._free.append(i)

    def view(self, i, length=None, offset=0):
        """The buffer's memory."""
        length = self.size - offset if length is None else length
        if not 0 <= i < self.count or offset < 0 or length < 0 or offset + length > self.size:
            raise VerbsError('a part of a buffer that it does not have', 22, buffer=i, offset=offset, length=length, size=self.size)
        return self._bytes[i * self.size + offset:i * self.size + offset + length]

    def copy_to(self, data, i, offset=0):
        """Writes bytes, or text, into a buffer. Returns how many."""
        if isinstance(data, str):
            data = data.encode()
        self.view(i, len(data), offset)[:] = data
        return len(data)

    def copy_from(self, i, length=None, offset=0):
        return bytes(self.view(i, length, offset))

    def addr(self, i, offset=0):
        return self.mr.buf + i * self.size + offset

    def sge(self, i, length=None, offset=0):
        self.view(i, length, offset)
        return SGE(self.addr(i, offset), self.size - offset if length is None else length, self.mr.lkey)

    def post_recvs(self, qp, count):
        """Posts receives from free buffers: to a queue pair, or to a shared receive queue."""
        for _ in range(count):
            i = self.pop()
            self.repost(qp, i)

    def repost(self, qp, i):
        """Posts the receive of a buffer that is out."""
        with naming('posting a receive to %s' % (queue_name(qp) if hasattr(qp, 'qp_num') else 'the shared receive queue'),
                    buffer=i, length=self.size):
            qp.post_recv(RecvWR(wr_id=i | self.RECV, num_sge=1, sg=[self.sge(i)]))

    def finish(self, wcs):
        """Splits completions into those of receives, (buffer, wc), which stay out, and others, whose buffers (their wr_id) are free
        again."""
        received = []
        for wc in wcs:
            i = wc.wr_id & ~self.RECV
            if wc.wr_id & self.RECV:
                received.append((i, wc))
            elif i < self.count and self._out[i]:
                self.push(i)
        return received

    def close(self):
        self._bytes.release()
        self.mr.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
