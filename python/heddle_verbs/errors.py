# SPDX-License-Identifier: BSD-3-Clause
"""Errors that name the queue and the fields."""
import contextlib
import ctypes
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


class OneProcess:
    """Base of objects that live in one process: they are not copied."""

    def __reduce__(self):
        raise TypeError('a %s cannot be copied or pickled: it belongs to a device that is open in this process' % type(self).__name__)


def lasting(kind):
    """Decorator of subclasses of pyverbs' classes that have a close(): pyverbs calls close() when an object goes, which may be when the
    interpreter ends, and has taken classes apart. A reference that is never given back keeps the class."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kind))
    return kind


def check_qp(qp):
    """pyverbs does not: a call of a closed queue pair would end the process. Queue pairs of make_qp() know."""
    if getattr(qp, 'closed', False):
        raise VerbsError('%s was closed' % qp.name, _errno.EBADF)


def status_name(status):
    """'SUCCESS', 'RETRY_EXC_ERR', ..."""
    return _STATUS.get(status, 'status %d' % status)


def queue_name(qp):
    """'QP 0x000041 (RC)'"""
    if hasattr(qp, 'closed'):
        return qp.name
    return queue_text(qp)


def queue_text(qp):
    kinds = {e.IBV_QPT_RC: 'RC', e.IBV_QPT_UC: 'UC', e.IBV_QPT_UD: 'UD', e.IBV_QPT_XRC_SEND: 'XRC_SEND',
             e.IBV_QPT_XRC_RECV: 'XRC_RECV', e.IBV_QPT_RAW_PACKET: 'RAW_PACKET'}
    return 'QP 0x%06x (%s)' % (qp.qp_num, kinds.get(qp.qp_type, 'type %d' % qp.qp_type))


def _restore(kind, base, args, state):
    """A pickled error: the arguments of its base class make the text."""
    err = kind.__new__(kind)
    base.__init__(err, *args)
    err.__dict__.update(state)
    return err


class VerbsError(OSError):
    """A verb that failed: .what, .fields (a dict), .errno. Can be pickled if its fields can."""

    def __init__(self, what, number, **fields):
        self.what = what
        self.fields = fields
        text = what
        if fields:
            text += ' with ' + ' '.join('%s=%s' % item for item in fields.items())
        super().__init__(number, '%s: %s' % (text, os.strerror(number) if number else 'failed'))

    def __str__(self):
        return self.strerror

    def __reduce__(self):
        return _restore, (type(self), OSError, self.args, dict(self.__dict__))


class WCError(RuntimeError):
    """A completion that failed: .wc, .status, .qp_num, .wr_id; .received if BufferPool.finish raises it. A pickled one has no .wc, .qp."""

    def __init__(self, wc, qp=None, path=None, name=None):
        self.wc = wc
        self.status = wc.status
        self.qp_num = wc.qp_num
        self.wr_id = wc.wr_id
        self.qp = qp
        self.received = []
        word = status_name(wc.status)
        text = '%s: %s of the request with wr_id %d' % (name or (queue_name(qp) if qp else 'QP 0x%06x' % wc.qp_num), word, wc.wr_id)
        if path is not None:
            text += ' on %s' % path
        if word in _LIKELY:
            text += ': ' + _LIKELY[word]
        super().__init__('%s (vendor_err 0x%x)' % (text, wc.vendor_err))

    def __reduce__(self):
        return _restore, (type(self), RuntimeError, self.args, {**self.__dict__, 'wc': None, 'qp': None, 'received': []})


def check(wcs, qp=None, path=None):
    """Raises WCError for the first completion that has failed; returns the completions."""
    for wc in wcs:
        if wc.status != e.IBV_WC_SUCCESS:
            raise WCError(wc, qp if qp is not None and qp.qp_num == wc.qp_num else None, path)
    return wcs


@contextlib.contextmanager
def naming(what, **fields):
    """Turns an error of pyverbs, or of the system, into a VerbsError that says what was tried, on which object, with which values."""
    try:
        yield
    except PyverbsRDMAError as err:
        raise VerbsError(what, max(0, err.error_code or 0), **fields) from err
    except PyverbsError as err:
        raise VerbsError('%s (%s)' % (what, str(err).strip()), _errno.EINVAL, **fields) from err
    except OSError as err:
        if isinstance(err, VerbsError):
            raise
        raise VerbsError(what, err.errno or 0, **fields) from err
