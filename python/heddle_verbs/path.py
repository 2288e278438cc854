# SPDX-License-Identifier: BSD-3-Clause
"""Paths: all that a queue pair or an address handle needs to know of the way to its peer, from one description string."""
import copy
import errno
import ipaddress
import operator

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute

from .errors import VerbsError
from .ports import EndPort, get_end_port, gid_text

_MTU_CODE = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}


def _number(text):
    return int(text, 0) if isinstance(text, str) else operator.index(text)


def _bits(count):
    """A reader of numbers of so many bits."""
    def read(text):
        number = _number(text)
        if not 0 <= number < 1 << count:
            raise ValueError('0 to %#x' % ((1 << count) - 1))
        return number
    return read


_FLAGS = {'1': True, 'yes': True, 'true': True, 'on': True, '0': False, 'no': False, 'false': False, 'off': False}


def _flag(text):
    word = str(text).lower()
    if word not in _FLAGS:
        raise ValueError('yes or no')
    return _FLAGS[word]


def _gid(text):
    return gid_text(text)


def _mtu(text):
    mtu = _number(text)
    if mtu not in _MTU_CODE:
        raise ValueError('an MTU is 256, 512, 1024, 2048 or 4096')
    return mtu


# name in a description: (attribute, how to read it, how to write it, default)
_FIELDS = {
    'port': ('port', get_end_port, str, None),
    'sgid': ('sgid', _gid, str, None),
    'dgid': ('dgid', _gid, str, None),
    'slid': ('slid', _bits(16), str, 0),
    'dlid': ('dlid', _bits(16), str, 0),
    'sl': ('sl', _bits(4), str, 0),
    'grh': ('has_grh', _flag, lambda v: 'yes' if v else 'no', False),
    'flow': ('flow_label', _bits(20), hex, 0),
    'hops': ('hop_limit', _bits(8), str, 64),
    'tclass': ('traffic_class', _bits(8), str, 0),
    'rate': ('rate', _bits(8), str, 0),
    'pkey': ('pkey', _bits(16), lambda v: '0x%04x' % v, 0xffff),
    'mtu': ('mtu', _mtu, str, 4096),
    'life': ('packet_life_time', _bits(6), str, 12),
    'ack': ('resp_time', _bits(5), str, 12),
    'retries': ('retries', _bits(3), str, 7),
    'rnr_retries': ('rnr_retries', _bits(3), str, 7),
    'rnr_timer': ('min_rnr_timer', _bits(5), str, 12),
    'qkey': ('qkey', _bits(32), lambda v: '0x%x' % v, 0x11111111),
    'sqpn': ('sqpn', _bits(24), lambda v: '0x%x' % v, None),
    'dqpn': ('dqpn', _bits(24), lambda v: '0x%x' % v, None),
    'sqpsn': ('sqpsn', _bits(24), lambda v: '0x%x' % v, 0),
    'dqpsn': ('dqpsn', _bits(24), lambda v: '0x%x' % v, 0),
    'srd': ('srdatomic', _bits(8), str, 1),
    'drd': ('drdatomic', _bits(8), str, 1),
}
# attribute: (name, how to read it, default)
_ATTRIBUTES = {attribute: (name, read, default) for name, (attribute, read, _, default) in _FIELDS.items()}


class Path:
    """A path between two ports, or two queue pairs of them.

    Path('port=shca0/1 dlid=1 dqpn=0x41 mtu=2048'), or Path(port=..., dgid=..., dqpn=...), or both; str() gives a description
    that makes the same path again. Every value is checked where it is set. Paths can be pickled; the port goes by its name. Times are
    exponents as in IBTA: 4.096 us * 2^n.
    """

    def __init__(self, text='', **values):
        for attribute, (_, _, default) in _ATTRIBUTES.items():
            object.__setattr__(self, attribute, default)
        seen = set()
        for word in (text.decode() if isinstance(text, bytes) else str(text)).split():
            name, equals, value = word.partition('=')
            if not equals or name not in _FIELDS:
                raise VerbsError('no field of a path', errno.EINVAL, word=repr(word), fields=','.join(_FIELDS))
            if name in seen:
                raise VerbsError('a path that has a field twice', errno.EINVAL, field=name, text=repr(text))
            seen.add(name)
            setattr(self, _FIELDS[name][0], value)
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name not in _ATTRIBUTES:
            raise VerbsError('no field of a path', errno.EINVAL, word=name, fields=','.join(sorted(_ATTRIBUTES)))
        field, read, default = _ATTRIBUTES[name]
        # a field without default may be unknown
        if value is not None or default is not None:
            try:
                value = read(value)
            except VerbsError:
                raise
            except (ValueError, TypeError) as err:
                raise VerbsError('a path (%s)' % err, errno.EINVAL, **{field: value}) from err
        object.__setattr__(self, name, value)

    def __str__(self):
        words = []
        for name, (attribute, _, write, default) in _FIELDS.items():
            value = getattr(self, attribute)
            if value != default and value is not None:
                words.append('%s=%s' % (name, write(value)))
        return ' '.join(words)

    def __repr__(self):
        return 'Path(%r)' % str(self)

    def __eq__(self, other):
        return isinstance(other, Path) and self.__dict__ == other.__dict__

    def __getstate__(self):
        state = dict(self.__dict__)
        state['port'] = str(self.port) if self.port is not None else None
        return state

    def __setstate__(self, state):
        device, _, number = (state.get('port') or '').partition('/')
        state['port'] = EndPort(device, int(number)) if device else None
        self.__dict__.update(state)

    def copy(self):
        return copy.copy(self)

    def reverse(self):
        """The same path seen from its other end; the port is still this end's. Returns the path."""
        for a, b in (('sgid', 'dgid'), ('slid', 'dlid'), ('sqpn', 'dqpn'), ('sqpsn', 'dqpsn'), ('srdatomic', 'drdatomic')):
            one, other = getattr(self, a), getattr(self, b)
            setattr(self, a, other)
            setattr(self, b, one)
        return self

    @property
    def mtu_code(self):
        return _MTU_CODE[self.mtu]

    @property
    def timeout(self):
        """qp_attr.timeout: there and back, and the responder's time (IBTA 9.9.2.1.1)."""
        trip = (2 << self.packet_life_time) + (1 << self.resp_time)
        return min(31, max(1, (trip - 1).bit_length()))

    @property
    def sgid_index(self):
        return self.port.gid_index(self.sgid) if self.sgid is not None and self.port is not None else 0

    def ah_key(self):
        """All that an address handle depends on."""
        return (str(self.port), self.sgid, self.dgid if self.has_grh else None, self.slid, self.dlid, self.sl, self.has_grh,
                self.flow_label, self.hop_limit, self.traffic_class, self.rate)

    def ah_attr(self):
        if self.port is None:
            raise VerbsError('an address handle for a path without port', errno.EINVAL, path=self)
        bits = self.slid & ((1 << self.port.attr.lmc) - 1)
        route = None
        if self.has_grh:
            route = GlobalRoute(dgid=GID(ipaddress.IPv6Address(self.dgid or '::').exploded), flow_label=self.flow_label,
                                sgid_index=self.sgid_index, hop_limit=self.hop_limit, traffic_class=self.traffic_class)
        return AHAttr(dlid=self.dlid, sl=self.sl, src_path_bits=bits, static_rate=self.rate, is_global=int(self.has_grh),
                      port_num=self.port.port_id, gr=route)

    @classmethod
    def from_wc(cls, port, wc, grh=b'', pkey=0xffff, qkey=None):
        """The path by which a datagram came, from its completion and the first 40 bytes of its receive. reverse() it to answer."""
        path = cls(port=port, slid=wc.slid, dlid=port.lid, sl=wc.sl, sqpn=wc.src_qp, dqpn=wc.qp_num, pkey=pkey)
        if qkey is not None:
            path.qkey = qkey
        if wc.wc_flags & e.IBV_WC_GRH:
            if len(grh) < 40:
                raise VerbsError('the receive of a datagram with GRH begins with 40 bytes, which are to be given', errno.EINVAL,
                                 have=len(grh))
            word = int.from_bytes(grh[:4], 'big')
            path.has_grh = True
            path.traffic_class, path.flow_label = word >> 20 & 0xff, word & 0xfffff
            path.sgid, path.dgid = gid_text(bytes(grh[8:24])), gid_text(bytes(grh[24:40]))
        return path
