# SPDX-License-Identifier: BSD-3-Clause
"""Verbs for people: paths, ports, pollers and buffer pools on top of pyverbs (Debian: python3-pyverbs).

No build step: put the directory above this one into PYTHONPATH. docs/python.md is the tutorial.
"""
from .ah import AHCache
from .errors import VerbsError, WCError, check
from .path import Path
from .poller import CQPoller
from .pool import BufferPool
from .ports import EndPort, end_ports, get_end_port
from .queue import connect, exchange, fill_path, make_qp, to_init, to_rtr, to_rts
from .sa import PathRecord, path_record, path_records, resolve_path
from .umad import MADError, Umad, get_umad, node_text

__all__ = ['AHCache', 'BufferPool', 'CQPoller', 'EndPort', 'MADError', 'Path', 'PathRecord', 'Umad', 'VerbsError', 'WCError', 'check',
           'connect', 'end_ports', 'exchange', 'fill_path', 'get_end_port', 'get_umad', 'make_qp', 'node_text', 'path_record',
           'path_records', 'resolve_path', 'to_init', 'to_rtr', 'to_rts']
