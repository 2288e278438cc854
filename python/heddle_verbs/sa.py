# SPDX-License-Identifier: BSD-3-Clause
"""Path records of a subnet administrator, by management datagrams (umad.py): of any device."""
import collections
import errno

from .errors import VerbsError
from .ports import gid_bytes, gid_text
from .umad import MADError, get_umad

PathRecord = collections.namedtuple('PathRecord', 'dgid sgid dlid slid flow_label hop_limit traffic_class reversible pkey sl mtu rate '
                                                  'packet_life_time')
PathRecord.__doc__ = 'IBTA 15.2.5.16. mtu: bytes; packet_life_time: 4.096 us * 2^n.'
_MTU = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}


def _parse(raw):
    word = int.from_bytes(raw[44:48], 'big')
    return PathRecord(dgid=gid_text(raw[8:24]), sgid=gid_text(raw[24:40]), dlid=int.from_bytes(raw[40:42], 'big'),
                      slid=int.from_bytes(raw[42:44], 'big'), flow_label=word >> 8 & 0xfffff, hop_limit=word & 0xff,
                      traffic_class=raw[48], reversible=bool(raw[49] >> 7), pkey=int.from_bytes(raw[50:52], 'big'),
                      sl=int.from_bytes(raw[52:54], 'big') & 15, mtu=_MTU.get(raw[54] & 63, 4096), rate=raw[55] & 63,
                      packet_life_time=raw[56] & 63)


_PATH_RECORD = 0x35
# place and width in bits, and the component's bit, IBTA 15.2.5.16
_COMPONENTS = {'dgid': (8, 16, 2), 'sgid': (24, 16, 3), 'dlid': (40, 2, 4), 'slid': (42, 2, 5), 'traffic_class': (48, 1, 10), 'pkey': (50, 2, 13)}


def path_records(umad, most=127, reversible=False, **properties):
    """The records of the paths that fit: dgid, sgid, dlid, slid, traffic_class, pkey, sl, at most `most`. Returns a list."""
    record, mask = bytearray(64), 1 << 12
    if not isinstance(most, int) or most < 1:
        raise VerbsError('at least one path record', errno.EINVAL, most=most)
    for name, value in properties.items():
        if name == 'sl' and isinstance(value, int) and 0 <= value < 16:
            record[53] = value
            mask |= 1 << 15
            continue
        if name == 'sl':
            raise VerbsError('a component of a path record', errno.EINVAL, sl=value)
        if name not in _COMPONENTS:
            raise VerbsError('no component of a path record that can be asked for', errno.EINVAL, name=name, names=','.join(sorted(_COMPONENTS)))
        at, width, bit = _COMPONENTS[name]
        if width != 16 and not (isinstance(value, int) and 0 <= value < 1 << 8 * width):
            raise VerbsError('a component of a path record', errno.EINVAL, **{name: value})
        record[at:at + width] = gid_bytes(value) if width == 16 else value.to_bytes(width, 'big')
        mask |= 1 << bit
    record[49] = (reversible << 7) | min(most, 127)
    if reversible:
        mask |= 1 << 11
    return [_parse(r) for r in umad.sa_get_table(_PATH_RECORD, bytes(record), mask)]


def path_record(port, dgid, umad=None):
    """The record of the path from a port to a GID. umad: of the port; without it one is opened for the question."""
    if umad is None:
        with get_umad(port) as umad:
            return path_record(port, dgid, umad)
    found = path_records(umad, most=1, reversible=True, dgid=dgid, sgid=port.default_gid)
    if not found:
        raise MADError('a path record', 0x0300, port=port, dgid=gid_text(gid_bytes(dgid)))
    return found[0]


def resolve_path(path, umad=None, reversible=True, properties=None):
    """Fills a path with port and dgid in from its record: dlid, slid, sl, mtu, rate, life time, P_Key. Returns the path.

    umad: of the port. properties: components that the path must have (path_records).
    """
    if path.port is None or path.dgid is None:
        raise VerbsError('a path is resolved by its port and dgid', errno.EINVAL, path=path)
    if umad is None:
        with get_umad(path.port) as umad:
            return resolve_path(path, umad, reversible, properties)
    sgid = path.port.default_gid if path.sgid is None else path.sgid
    found = path_records(umad, 1, reversible, dgid=path.dgid, sgid=sgid, **(properties or {}))
    if not found:
        raise MADError('a path record', 0x0300, path=path)
    r = found[0]
    path.sgid = r.sgid if path.sgid is None else path.sgid
    path.dlid, path.slid, path.sl, path.pkey = r.dlid, r.slid, r.sl, r.pkey
    path.mtu = min(path.mtu, r.mtu)
    path.rate, path.packet_life_time = r.rate, r.packet_life_time
    if r.hop_limit > 1:
        path.has_grh = True
        path.hop_limit, path.flow_label, path.traffic_class = r.hop_limit, r.flow_label, r.traffic_class
    return path
