# SPDX-License-Identifier: BSD-3-Clause
"""Errors that name the queue and the fields."""
import contextlib
import errno as _errno
import os

import pyverbs.enums as e
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError

_STATUS = {getattr(e, n): n[len('IBV_WC_'):] for n in dir(e) if n.startswith('IBV_WC_') and
           (n == 'IBV_WC_SUCCESS' or n.endswith('_ERR') or n == 'IBV_WC_RNR_RETRY_EXC_ERR')}

_LIKELY = {
    'LOC_LEN_ERR': 'the receive is shorter than the message, or a datagram is longer than the path MTU',
    'LOC_PROT_ERR': 'an lkey is wrong, or its region does not have the range or the right',
    'WR_FLUSH_ERR': 'the queue pair is in error: the first completion that failed has the reason',
    'REM_INV_REQ_ERR': 'the message is longer than the receive, or the peer takes no such request',
    'REM_ACCESS_ERR': 'the rkey is wrong, or the region there does not have the range or the right',
    'REM_OP_ERR': 'the peer could not take the message: its receive names memory that it may not use, or its CQ is full',
    'RETRY_EXC_ERR': 'no answer: the peer is dead, in error, or is no queue pair that is connected to this one',
    'RNR_RETRY_EXC_ERR': 'the peer has posted no receive',
}


def status_name(status):
    """'SUCCESS', 'RETRY_EXC_ERR', ..."""
    return _STATUS.get(status, 'status %d' % status)


def queue_name(qp):
    """'QP 0x000041 (RC)'"""
    kinds = {e.IBV_QPT_RC: 'RC', e.IBV_QPT_UC: 'UC', e.IBV_QPT_UD: 'UD', e.IBV_QPT_XRC_SEND: 'XRC_SEND',
             e.IBV_QPT_XRC_RECV: 'XRC_RECV', e.IBV_QPT_RAW_PACKET: 'RAW_PACKET'}
    return 'QP 0x%06x (%s)' % (qp.qp_num, kinds.get(qp.qp_type, 'type %d' % qp.qp_type))


class VerbsError(OSError):
    """A verb that failed: .what, .fields (a dict), .errno."""

    def __init__(self, what, number, **fields):
        self.what = what
        self.fields = fields
        text = what
        if fields:
            text += ' with ' + ' '.join('%s=%s' % item for item in fields.items())
        super().__init__(number, '%s: %s' % (text, os.strerror(number) if number else 'failed'))

    def __str__(self):
        return self.strerror


class WCError(RuntimeError):
    """A completion that failed: .wc, .status, .qp_num, .wr_id."""

    def __init__(self, wc, qp=None, path=None, name=None):
        self.wc = wc
        self.status = wc.status
        self.qp_num = wc.qp_num
        self.wr_id = wc.wr_id
        self.qp = qp
        word = status_name(wc.status)
        text = '%s: %s of the request with wr_id %d' % (name or (queue_name(qp) if qp else 'QP 0x%06x' % wc.qp_num), word, wc.wr_id)
        if path is not None:
            text += ' on %s' % path
        if word in _LIKELY:
            text += ': ' + _LIKELY[word]
        super().__init__('%s (vendor_err 0x%x)' % (text, wc.vendor_err))


def check(wcs, qp=None, path=None):
    """Raises WCError for the first completion that has failed; returns the completions."""
    for wc in wcs:
        if wc.status != e.IBV_WC_SUCCESS:
            raise WCError(wc, qp if qp is not None and qp.qp_num == wc.qp_num else None, path)
    return wcs


@contextlib.contextmanager
def naming(what, **fields):
    """Turns an error of pyverbs into a VerbsError that says what was tried, on which object, with which values."""
    try:
        yield
    except PyverbsRDMAError as err:
        raise VerbsError(what, err.error_code or 0, **fields) from err
    except PyverbsError as err:
        raise VerbsError('%s (%s)' % (what, str(err).strip()), _errno.EINVAL, **fields) from err
