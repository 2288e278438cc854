# SPDX-License-Identifier: BSD-3-Clause
"""Path records of a subnet administrator.

The software device answers from the fabric's own tables (shca_path_record of libshca); there are no management datagrams (umad). For
other devices there is no subnet administrator here.
"""
import collections
import ctypes
import ipaddress

from .errors import VerbsError
from .ports import gid_bytes, gid_text

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


def path_record(port, dgid):
    """The record of the path from a port to a GID."""
    try:
        ask = ctypes.CDLL(None, use_errno=True).shca_path_record
    except AttributeError:
        raise VerbsError('no subnet administrator: libshca is not in this process (shcarun)', 95, port=port) from None
    ask.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_char_p, ctypes.c_char_p]
    raw = ctypes.create_string_buffer(64)
    if not port.device.startswith('shca'):
        raise VerbsError('no subnet administrator: only the software device answers', 95, port=port)
    # pyverbs tells no pointer of a context; NULL is the device as this process has opened it
    if port.ctx is not None:
        err = ask(None, port.port_id, gid_bytes(dgid), raw)
    if err:
        raise VerbsError('a path record', err, port=port, dgid=str(ipaddress.IPv6Address(gid_bytes(dgid))))
    return _parse(raw.raw)


def resolve_path(path):
    """Fills a path with port and dgid in from its record: dlid, slid, sl, mtu, rate, life time, P_Key. Returns the path."""
    if path.port is None or path.dgid is None:
        raise VerbsError('a path is resolved by its port and dgid', 22, path=path)
    r = path_record(path.port, path.dgid)
    path.sgid = r.sgid if path.sgid is None else path.sgid
    path.dlid, path.slid, path.sl, path.pkey = r.dlid, r.slid, r.sl, r.pkey
    path.mtu = min(path.mtu, r.mtu)
    path.rate, path.packet_life_time = r.rate, r.packet_life_time
    if r.hop_limit > 1:
        path.has_grh = True
        path.hop_limit, path.flow_label, path.traffic_class = r.hop_limit, r.flow_label, r.traffic_class
    return path
