# SPDX-License-Identifier: BSD-3-Clause
"""Address handles, kept."""
import collections
import errno

from pyverbs.addr import AH

from .errors import OneProcess, VerbsError, naming


class AHCache(OneProcess):
    """Address handles of a protection domain by path. The least recently used of more than `most` is destroyed."""

    def __init__(self, pd, most=1024):
        if not isinstance(most, int) or most < 1:
            raise VerbsError('a cache of at least one address handle', errno.EINVAL, most=most)
        self.pd = pd
        self.most = most
        self.made = 0
        self._ahs = collections.OrderedDict()

    def get(self, path):
        key = path.ah_key()
        if key in self._ahs:
            self._ahs.move_to_end(key)
            return self._ahs[key]
        with naming('creating an address handle', path=path):
            ah = AH(self.pd, attr=path.ah_attr())
        self.made += 1
        self._ahs[key] = ah
        if len(self._ahs) > self.most:
            self._ahs.popitem(last=False)[1].close()
        return ah

    def __len__(self):
        return len(self._ahs)

    def close(self):
        while self._ahs:
            self._ahs.popitem()[1].close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
