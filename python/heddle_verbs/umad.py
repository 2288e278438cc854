# SPDX-License-Identifier: BSD-3-Clause
"""Management datagrams by /dev/infiniband/umad*, of any device: IBTA 13.4, <rdma/ib_user_mad.h>.

An Umad is a port's file with an agent for each class that is used. It is a context manager. One thread at a time may use it.
"""
import errno
import fcntl
import os
import select
import struct

from .errors import OneProcess, VerbsError, naming
from .ports import gid_bytes

SUBN_LID, SUBN_ADM, PERFORMANCE, SUBN_DIRECTED = 0x01, 0x03, 0x04, 0x81
GET, SET, GET_TABLE, DELETE = 0x01, 0x02, 0x12, 0x15
QP1_QKEY = 0x80010000

_SYS = '/sys/class/infiniband_mad'
_HEADER = struct.Struct('=IIIII 4s4s2sBB BBBB 16s 4s H6x')    # struct ib_user_mad_hdr
_REGISTER, _ENABLE_PKEY = 0xc01c1b01, 0x1b03
_VERSIONS = {SUBN_ADM: 2}
_STATUS = {1: 'the base or class version is not supported', 2: 'the method is not supported',
           3: 'the method is not supported with this attribute', 7: 'a field of the attribute, or its modifier, is invalid'}
_SA_STATUS = {1: 'no resources', 2: 'the request is invalid', 3: 'no record matches', 4: 'more than one record matches',
              5: 'the GID is invalid', 6: 'a component is missing', 7: 'the request was denied'}


def _read(path):
    with open(path) as f:
        return f.read().strip()


def device_file(port):
    """The path of a port's file."""
    try:
        names = os.listdir(_SYS)
    except OSError:
        names = []
    for name in names:
        try:
            if _read('%s/%s/ibdev' % (_SYS, name)) == port.device and int(_read('%s/%s/port' % (_SYS, name))) == port.port_id:
                return '/dev/infiniband/' + name
        except (OSError, ValueError):
            continue
    raise VerbsError('the port has no management datagrams', 19, port=port)


def status_text(status):
    """A MAD's status in words."""
    words = [_STATUS.get(status >> 2 & 7)] if status >> 2 & 7 else []
    words += [_SA_STATUS.get(status >> 8)] if status >> 8 else []
    return ', '.join(w for w in words if w) or 'status 0x%04x' % status


class MADError(VerbsError):
    """An answer with an error. .status: the MAD's."""

    def __init__(self, what, status, **fields):
        VerbsError.__init__(self, '%s: %s' % (what, status_text(status)), 5, status='0x%04x' % status, **fields)
        self.status = status


class Umad(OneProcess):
    """The management datagrams of a port."""
    _fd = -1

    def __init__(self, port, timeout=1.0, retries=3):
        # a timeout of 0 is "there is no answer" to the kernel, and a wait for ever here
        if not 0 < timeout < 1 << 20 or not 0 <= retries < 1 << 31:
            raise VerbsError('a timeout of more than 0 seconds, and 0 retries or more', errno.EINVAL, timeout=timeout, retries=retries)
        self.port = port
        self.timeout = timeout
        self.retries = retries
        self._agents = {}
        self._tid = 0
        path = device_file(port)
        with naming('opening the management datagrams', port=port, file=path):
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(self._fd, _ENABLE_PKEY)

    def _check_open(self):
        if self._fd < 0:
            raise VerbsError('management datagrams that were closed', errno.EBADF, port=self.port)

    def __enter__(self):
        self._check_open()
        return self

    def __exit__(self, *exc):
        self.close()

    def fileno(self):
        return self._fd

    def close(self):
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    __del__ = close

    def _agent(self, mgmt_class):
        if mgmt_class not in self._agents:
            request = bytearray(struct.pack('=I16sBBB3sB x', 0, bytes(16), mgmt_class not in (SUBN_LID, SUBN_DIRECTED), mgmt_class,
                                            _VERSIONS.get(mgmt_class, 1), bytes(3), mgmt_class == SUBN_ADM))
            with naming('registering an agent', port=self.port, mgmt_class='0x%02x' % mgmt_class):
                fcntl.ioctl(self._fd, _REGISTER, request)
            self._agents[mgmt_class] = struct.unpack_from('=I', request)[0]
        return self._agents[mgmt_class]

    def _receive(self):
        """The next datagram: (status of the header, MAD), however long."""
        while True:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            poll.poll()
            try:
                raw = os.read(self._fd, _HEADER.size + (1 << 20))
            except BlockingIOError:
                continue
            return _HEADER.unpack_from(raw)[1], raw[_HEADER.size:]

    def rpc(self, mgmt_class, method, attribute, modifier=0, data=b'', lid=None, gid=None, path=None, comp_mask=0):
        """Sends a request and returns the answer's MAD, which has no error.

        lid: where to; of the administrator, the port's SM LID unless it is said. gid: with a GRH. path: the ports of a directed route.
        """
        self._check_open()
        smp = mgmt_class in (SUBN_LID, SUBN_DIRECTED)
        agent = self._agent(mgmt_class)
        self._tid = self._tid + 1 & 0xffffffff
        mad = bytearray(256)
        struct.pack_into('>BBBBHHQHHI', mad, 0, 1, mgmt_class, _VERSIONS.get(mgmt_class, 1), method, 0, 0, self._tid, attribute, 0, modifier)
        if mgmt_class == SUBN_DIRECTED:
            try:
                route = bytes(path or ())
            except (ValueError, TypeError) as err:
                raise VerbsError('a directed route (%s)' % err, errno.EINVAL, path=path) from err
            if len(route) > 63:
                raise VerbsError('a directed route has 63 hops', errno.EINVAL, hops=len(route))
            mad[7] = len(route)
            mad[32:36] = b'\xff\xff\xff\xff'
            mad[129:129 + len(route)] = route
            lid = 0xffff
        elif mgmt_class == SUBN_ADM:
            struct.pack_into('>Q', mad, 48, comp_mask)
        offset = 56 if mgmt_class == SUBN_ADM else 64
        most = 64 if smp else 256 - offset
        if len(data) > most:
            raise VerbsError('a management datagram of one packet', errno.EMSGSIZE, have=len(data), most=most)
        mad[offset:offset + len(data)] = data
        if lid is None:
            lid = self.port.sm_lid if mgmt_class == SUBN_ADM else self.port.lid
        for name, value, bits in (('lid', lid, 16), ('modifier', modifier, 32), ('comp_mask', comp_mask, 64), ('attribute', attribute, 16)):
            if not isinstance(value, int) or not 0 <= value < 1 << bits:
                raise VerbsError('a field of a management datagram', errno.EINVAL, **{name: value, 'bits': bits})
        header = _HEADER.pack(agent, 0, max(1, int(self.timeout * 1000)), self.retries, 0, struct.pack('>I', 0 if smp else 1),
                              struct.pack('>I', 0 if smp else QP1_QKEY), struct.pack('>H', lid), 0, 0, gid is not None, 0, 1, 0,
                              gid_bytes(gid) if gid is not None else bytes(16), bytes(4), 0)
        fields = dict(port=self.port, lid=lid, mgmt_class='0x%02x' % mgmt_class, attribute='0x%04x' % attribute)
        with naming('a management datagram', **fields):
            os.write(self._fd, header + mad)
        while True:
            status, answer = self._receive()
            # another request's answer that came behind its time
            if struct.unpack_from('>Q', answer, 8)[0] & 0xffffffff == self._tid:
                break
        if status:
            raise VerbsError('no answer to a management datagram', status, **fields)
        error = struct.unpack_from('>H', answer, 4)[0] & 0x7fff
        if error:
            raise MADError('a management datagram', error, **fields)
        return answer

    def subn_get(self, attribute, modifier=0, lid=None, path=None):
        """SubnGet: the attribute's 64 bytes, of the port with the LID, or at the end of a directed route (() is this port)."""
        if path is None:
            return self.rpc(SUBN_LID, GET, attribute, modifier, lid=lid)[64:128]
        return self.rpc(SUBN_DIRECTED, GET, attribute, modifier, path=path)[64:128]

    def counters(self, lid=None, number=None):
        """The port's counters (PortCountersExtended), by name."""
        data = bytes((0, self.port.port_id if number is None else number))
        raw = self.rpc(PERFORMANCE, GET, 0x1d, data=data, lid=lid)[64:]
        names = ('xmit_data', 'rcv_data', 'xmit_packets', 'rcv_packets', 'unicast_xmit_packets', 'unicast_rcv_packets',
                 'multicast_xmit_packets', 'multicast_rcv_packets')
        return dict(zip(names, struct.unpack_from('>8Q', raw, 8)))

    def sa_get(self, attribute, record=b'', comp_mask=0, modifier=0):
        """SubnAdmGet: the record."""
        return self.rpc(SUBN_ADM, GET, attribute, modifier, record, comp_mask=comp_mask)[56:]

    def sa_get_table(self, attribute, record=b'', comp_mask=0, modifier=0):
        """SubnAdmGetTable: the records."""
        answer = self.rpc(SUBN_ADM, GET_TABLE, attribute, modifier, record, comp_mask=comp_mask)
        each = struct.unpack_from('>H', answer, 44)[0] * 8
        return [answer[i:i + each] for i in range(56, len(answer) - each + 1, each)] if each else []


def get_umad(port, **how):
    """The management datagrams of a port, to be closed: with get_umad(port) as umad: ..."""
    return Umad(port, **how)


def node_text(umad, lid=None, path=None):
    """A node's description."""
    return umad.subn_get(0x10, lid=lid, path=path).split(b'\0')[0].decode(errors='replace')
