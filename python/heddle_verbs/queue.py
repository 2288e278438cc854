# SPDX-License-Identifier: BSD-3-Clause
"""Queue pairs: made, and brought to RTS by a path."""
import errno
import random

import pyverbs.enums as e
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

from .errors import VerbsError, check_qp, lasting, naming, queue_name, queue_text
from .path import Path

_KINDS = {'RC': e.IBV_QPT_RC, 'UC': e.IBV_QPT_UC, 'UD': e.IBV_QPT_UD}
REMOTE = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC


@lasting
class QueuePair(QP):
    """pyverbs' queue pair that knows whether it was closed (also by its domain), and its name."""

    def __init__(self, pd, init):
        self.closed = False
        super().__init__(pd, init)
        self.name = queue_text(super())

    def close(self):
        self.closed = True
        super().close()

    @property
    def qp_num(self):
        check_qp(self)
        return super().qp_num

    @property
    def qp_type(self):
        check_qp(self)
        return super().qp_type

    @property
    def qp_state(self):
        check_qp(self)
        return super().qp_state

    def query(self, mask):
        check_qp(self)
        return super().query(mask)

    def modify(self, attr, mask):
        check_qp(self)
        super().modify(attr, mask)

    def post_send(self, wr, bad_wr=None):
        check_qp(self)
        super().post_send(wr, bad_wr)

    def post_recv(self, wr, bad_wr=None):
        check_qp(self)
        super().post_recv(wr, bad_wr)


def make_qp(pd, kind, send_cq, recv_cq=None, depth=16, recv_depth=None, sge=1, inline=0, srq=None, signal_all=False):
    """A queue pair, kind 'RC', 'UC' or 'UD'. CQs are those of pyverbs, or CQPollers."""
    if kind not in _KINDS:
        raise VerbsError('no kind of a queue pair', errno.EINVAL, kind=kind, kinds=','.join(_KINDS))
    send_cq = getattr(send_cq, 'cq', send_cq)
    recv_cq = getattr(recv_cq, 'cq', recv_cq) or send_cq
    recv_depth = depth if recv_depth is None else recv_depth
    cap = QPCap(max_send_wr=depth, max_recv_wr=recv_depth, max_send_sge=sge, max_recv_sge=sge, max_inline_data=inline)
    init = QPInitAttr(qp_type=_KINDS[kind], scq=send_cq, rcq=recv_cq, srq=srq, cap=cap, sq_sig_all=int(signal_all))
    with naming('creating a queue pair', kind=kind, depth=depth, recv_depth=recv_depth, sge=sge, inline=inline):
        return QueuePair(pd, init)


def _needs_port(qp, path):
    check_qp(qp)
    if path.port is None:
        raise VerbsError('%s needs a path with a port' % queue_name(qp), errno.EINVAL, path=path)


def _needs_peer(qp, path):
    """Without these a connected queue pair comes to RTS, and no request gets an answer."""
    if path.dqpn is None or not (path.dlid or (path.has_grh and path.dgid)):
        raise VerbsError('%s to RTR needs a path with dqpn, and with dlid or (grh and) dgid' % queue_name(qp), errno.EINVAL, path=path)


def fill_path(qp, path):
    """Fills in what the path lacks of this end: queue number, a random PSN, the port's GID, LID and MTU. Returns the path."""
    _needs_port(qp, path)
    path.sqpn = qp.qp_num
    if not path.sqpsn:
        path.sqpsn = random.randrange(1, 1 << 24)
    if path.sgid is None:
        path.sgid = path.port.default_gid
    if not path.slid:
        path.slid = path.port.lid
    path.mtu = min(path.mtu, path.port.mtu)
    if path.port.is_ethernet:
        path.has_grh = True
    return path


def _modify(qp, attr, mask, to, fields):
    with naming('%s to %s' % (queue_name(qp), to), **fields):
        qp.modify(attr, mask)


def to_init(qp, path, access=REMOTE):
    _needs_port(qp, path)
    attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=path.port.port_id)
    attr.pkey_index = path.port.pkey_index(path.pkey)
    mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT
    fields = {'port': path.port, 'pkey': '0x%04x' % path.pkey}
    if qp.qp_type == e.IBV_QPT_UD:
        attr.qkey = path.qkey
        mask |= e.IBV_QP_QKEY
        fields['qkey'] = '0x%x' % path.qkey
    else:
        attr.qp_access_flags = access
        mask |= e.IBV_QP_ACCESS_FLAGS
        fields['access'] = '0x%x' % access
    _modify(qp, attr, mask, 'INIT', fields)


def to_rtr(qp, path):
    _needs_port(qp, path)
    attr = QPAttr(qp_state=e.IBV_QPS_RTR, port_num=path.port.port_id)
    mask = e.IBV_QP_STATE
    fields = {}
    if qp.qp_type != e.IBV_QPT_UD:
        _needs_peer(qp, path)
        attr.path_mtu = path.mtu_code
        attr.dest_qp_num = path.dqpn
        attr.rq_psn = path.dqpsn
        attr.ah_attr = path.ah_attr()
        mask |= e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
        fields = {'mtu': path.mtu, 'dqpn': hex(path.dqpn), 'dqpsn': hex(path.dqpsn), 'dlid': path.dlid, 'dgid': path.dgid}
    if qp.qp_type == e.IBV_QPT_RC:
        attr.max_dest_rd_atomic = path.drdatomic
        attr.min_rnr_timer = path.min_rnr_timer
        mask |= e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER
        fields.update(drd=path.drdatomic, rnr_timer=path.min_rnr_timer)
    _modify(qp, attr, mask, 'RTR', fields)


def to_rts(qp, path):
    _needs_port(qp, path)
    attr = QPAttr(qp_state=e.IBV_QPS_RTS, port_num=path.port.port_id)
    attr.sq_psn = path.sqpsn
    mask = e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
    fields = {'sqpsn': hex(path.sqpsn)}
    if qp.qp_type == e.IBV_QPT_RC:
        attr.timeout = path.timeout
        attr.retry_cnt = path.retries
        attr.rnr_retry = path.rnr_retries
        attr.max_rd_atomic = path.srdatomic
        mask |= e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC
        fields.update(timeout=path.timeout, retries=path.retries, rnr_retries=path.rnr_retries, srd=path.srdatomic)
    _modify(qp, attr, mask, 'RTS', fields)


def connect(qp, path, access=REMOTE):
    """INIT, RTR and RTS. Connected queue pairs need path.dqpn and an address (dlid, dgid)."""
    to_init(qp, path, access)
    to_rtr(qp, path)
    to_rts(qp, path)


def exchange(qp, path, send, receive, access=REMOTE):
    """Connects to a peer that calls the same: send(bytes) and receive() -> bytes carry a message each over some other way. Returns the
    path. Both ends have left RTR behind when it returns."""
    fill_path(qp, path)
    mine = path.copy()
    mine.port = None    # a name that means nothing elsewhere
    send(str(mine).encode())
    peer = Path(receive().decode())
    path.dqpn, path.dqpsn, path.dgid, path.dlid = peer.sqpn, peer.sqpsn, peer.sgid, peer.slid
    path.mtu = min(path.mtu, peer.mtu)
    path.srdatomic = min(path.srdatomic, peer.drdatomic)
    path.drdatomic = max(path.drdatomic, peer.srdatomic)
    connect(qp, path, access)
    send(b'ready')
    if receive() != b'ready':
        raise VerbsError('the peer of %s did not connect' % queue_name(qp), errno.ECONNREFUSED, path=path)
    return path
