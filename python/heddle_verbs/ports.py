# SPDX-License-Identifier: BSD-3-Clause
"""One resolver for ports: by device, device and number, GID, LID or GUID."""
import errno
import ipaddress
import os
import threading

import pyverbs.enums as e
from pyverbs.device import Context, get_device_list

from .errors import VerbsError, lasting, naming


@lasting
class _Context(Context):
    """pyverbs' context that knows whether it was closed."""
    closed = False

    def close(self):
        self.closed = True
        super().close()


_MTU = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
_lock = threading.Lock()
_contexts = {}
_parents = []    # of the processes that this one was forked from: closing them here is left to the end of the process


def _forked():
    """A forked child opens devices anew: a context works in the process that opened it."""
    global _lock
    _lock = threading.Lock()
    _parents.append(dict(_contexts))
    _contexts.clear()


os.register_at_fork(after_in_child=_forked)


def gid_text(gid):
    """A GID of any form (pyverbs, bytes, text) as IPv6 text: 'fe80::5:0:0:1'."""
    try:
        return str(ipaddress.IPv6Address(bytes(gid) if isinstance(gid, (bytes, bytearray, memoryview)) else str(gid).strip()))
    except ValueError as err:
        raise VerbsError('a GID (%s)' % err, errno.EINVAL, gid=gid) from err


def gid_bytes(gid):
    return ipaddress.IPv6Address(gid_text(gid)).packed


class EndPort:
    """A port of a device. Attributes that the subnet manager may change are asked each time."""

    def __init__(self, device, number):
        self.device = device
        self.port_id = number

    def __str__(self):
        return '%s/%d' % (self.device, self.port_id)

    def __repr__(self):
        return 'EndPort(%s)' % self

    def __eq__(self, other):
        return isinstance(other, EndPort) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))

    @property
    def ctx(self):
        """The device's context, which all its ports and their users in this process share. Opened when first used, and when it was
        closed."""
        with _lock:
            if self.device not in _contexts or _contexts[self.device].closed:
                if self.device not in _names():
                    raise VerbsError('no such device', errno.ENODEV, device=self.device, devices=','.join(_names()))
                with naming('opening the device', device=self.device):
                    _contexts[self.device] = _Context(name=self.device)
            return _contexts[self.device]

    @property
    def attr(self):
        with naming('asking for the port', port=self):
            return self.ctx.query_port(self.port_id)

    @property
    def lid(self):
        return self.attr.lid

    @property
    def sm_lid(self):
        return self.attr.sm_lid

    @property
    def active(self):
        return self.attr.state == e.IBV_PORT_ACTIVE

    @property
    def is_ethernet(self):
        return self.attr.link_layer == e.IBV_LINK_LAYER_ETHERNET

    @property
    def mtu(self):
        """Bytes."""
        return _MTU.get(self.attr.active_mtu, 4096)

    @property
    def gids(self):
        """The GID table as text, without empty entries behind its end."""
        table = []
        for i in range(self.attr.gid_tbl_len):
            table.append(gid_text(self.ctx.query_gid(self.port_id, i)))
        while table and table[-1] == '::':
            table.pop()
        return table

    @property
    def default_gid(self):
        gids = [g for g in self.gids if g != '::']
        return gids[0] if gids else '::'

    @property
    def pkeys(self):
        return [self.ctx.query_pkey(self.port_id, i) & 0xffff for i in range(self.attr.pkey_tbl_len)]

    def gid_index(self, gid):
        """The place of a GID in the table."""
        gids = self.gids
        if gid_text(gid) not in gids:
            raise VerbsError('no such GID at %s' % self, 2, gid=gid_text(gid), table=','.join(gids))
        return gids.index(gid_text(gid))

    def pkey_index(self, pkey):
        """The place of a P_Key in the table; of the full or the limited form of it."""
        if not isinstance(pkey, int):
            raise VerbsError('a P_Key is a number', errno.EINVAL, pkey=repr(pkey))
        for i, have in enumerate(self.pkeys):
            if have & 0x7fff == pkey & 0x7fff:
                return i
        raise VerbsError('no such P_Key at %s' % self, 2, pkey='0x%04x' % pkey)


def _names():
    return [d.name.decode() if isinstance(d.name, bytes) else d.name for d in get_device_list()]


def end_ports():
    """All ports of all devices."""
    found = []
    for name in _names():
        ports = EndPort(name, 1).ctx.query_device().phys_port_cnt
        found += [EndPort(name, i + 1) for i in range(ports)]
    return found


def _closes(port, what):
    """Whether the words name this port."""
    try:
        return gid_text(what) in port.gids
    except VerbsError:
        pass
    try:
        number = int(what, 0)
    except ValueError:
        return False
    if number < 0xc000:
        return port.lid == number
    return any(int.from_bytes(gid_bytes(g)[8:], 'big') == number for g in port.gids)


def _port_of(device, number, what):
    """Port `number`, a text, of one device; no other device is opened."""
    ports = EndPort(device, 1).ctx.query_device().phys_port_cnt
    try:
        port = int(number or '1', 0)
    except ValueError:
        port = 0
    if not 1 <= port <= ports:
        raise VerbsError('no such port', 19, name=what, ports=','.join('%s/%d' % (device, i + 1) for i in range(ports)))
    return EndPort(device, port)


def get_end_port(what=None):
    """The port that `what` names: None (the first active one), 'shca0', 'shca0/1', a GID, a LID, a port GUID, or an EndPort.

    A LID or GID that several ports have names the first of them, active ones first.
    """
    if isinstance(what, EndPort):
        return what
    if what is not None:
        # the 16 bytes of a GID, as gid_bytes and pyverbs have them, or text
        what = gid_text(what) if isinstance(what, bytes) and len(what) == 16 else str(what)
        device, _, number = what.partition('/')
        if device in _names():
            return _port_of(device, number, what)
    ports = end_ports()
    if not ports:
        raise VerbsError('no RDMA device: on the software one a program is run by shcarun', 19)
    fits = [p for p in ports if what is None or str(p) == what or _closes(p, what)]
    fits.sort(key=lambda p: not p.active)
    if not fits:
        raise VerbsError('no such port', 19, name=what, ports=','.join(str(p) for p in ports))
    return fits[0]
