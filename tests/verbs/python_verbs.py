# SPDX-License-Identifier: BSD-3-Clause
"""heddle_verbs, beyond its tutorial: what is refused, two processes, sleeping, many paths."""
import errno
import os
import pickle
import random
import socket
import threading
import time
import unittest

import heddle_verbs as hv
import pyverbs.enums as e
from heddle_verbs import errors, ports
from pyverbs.pd import PD
from pyverbs.wr import SendWR


class Ports(unittest.TestCase):
    def test_names(self):
        port = hv.get_end_port()
        for name in (None, str(port), port.device, port.default_gid, ports.gid_bytes(port.default_gid), port.lid, hex(port.lid), port):
            if isinstance(name, bytes):
                name = ports.gid_text(name)
            self.assertEqual(hv.get_end_port(name), port)
        guid = int.from_bytes(ports.gid_bytes(port.default_gid)[8:], 'big')
        self.assertEqual(hv.get_end_port(guid), port)
        self.assertIn(port, hv.end_ports())

    def test_refused(self):
        numbers = [hv.get_end_port().device + number for number in ('/0', '/99', '/-1', '/x')]
        for name in ['shca7', 'fe80::77', '0xbeef', 'nonsense'] + numbers:
            with self.assertRaises(hv.VerbsError) as raised:
                hv.get_end_port(name)
            self.assertIn(name, str(raised.exception))
        port = hv.get_end_port()
        with self.assertRaises(hv.VerbsError):
            port.gid_index('fe80::77')
        with self.assertRaises(hv.VerbsError):
            port.pkey_index(0x1234)
        self.assertEqual(port.pkey_index(0x7fff), 0)


class Paths(unittest.TestCase):
    def test_round_trip(self):
        """A description, a pickle and a path are the same, whatever is in it."""
        rng = random.Random(3)
        for _ in range(500):
            path = hv.Path(port=hv.get_end_port() if rng.random() < .5 else None)
            for name in ('slid', 'dlid', 'sl', 'hop_limit', 'traffic_class', 'rate', 'packet_life_time', 'resp_time', 'retries',
                         'rnr_retries', 'min_rnr_timer', 'sqpsn', 'dqpsn', 'srdatomic', 'drdatomic', 'flow_label', 'pkey', 'qkey'):
                if rng.random() < .4:
                    setattr(path, name, rng.randrange(8))
            for name in ('sqpn', 'dqpn'):
                if rng.random() < .4:
                    setattr(path, name, rng.randrange(1 << 24))
            for name in ('sgid', 'dgid'):
                if rng.random() < .4:
                    setattr(path, name, bytes(rng.randrange(256) for _ in range(16)))
            path.mtu = rng.choice([256, 512, 1024, 2048, 4096])
            path.has_grh = rng.random() < .5
            self.assertEqual(hv.Path(str(path)), path)
            self.assertEqual(pickle.loads(pickle.dumps(path)), path)
            self.assertEqual(path.copy().reverse().reverse(), path)

    def test_refused(self):
        wide = ('dlid=0x10000', 'slid=-1', 'sl=16', 'flow=0x100000', 'hops=256', 'pkey=0x10000', 'retries=8', 'rnr_timer=32',
                'dqpn=0x1000000', 'sqpsn=0x1000000', 'qkey=0x100000000')
        for text in ('dlid', 'dlud=1', 'dlid=x', 'mtu=1000', 'dgid=fe80', 'port=shca9/1') + wide:
            with self.assertRaises(hv.VerbsError, msg=text):
                hv.Path(text)
        with self.assertRaises(hv.VerbsError):
            hv.Path(dlud=1)

    def test_timeout(self):
        for life in range(20):
            for ack in range(20):
                path = hv.Path(packet_life_time=life, resp_time=ack)
                need = 2 * 2 ** life + 2 ** ack
                self.assertTrue(2 ** path.timeout >= need)
                self.assertTrue(2 ** (path.timeout - 1) < need or path.timeout == 1)


class Pools(unittest.TestCase):
    def setUp(self):
        self.pd = PD(hv.get_end_port().ctx)

    def test_bounds(self):
        pool = hv.BufferPool(self.pd, 4, 100)
        for bad in ((0, 101, 0), (0, 1, 100), (0, 50, 51), (4, 1, 0), (-1, 1, 0), (0, -1, 0)):
            with self.assertRaises(hv.VerbsError):
                pool.view(*bad)
        out = [pool.pop() for _ in range(4)]
        with self.assertRaises(hv.VerbsError):
            pool.pop()
        for i in out:
            pool.copy_to(bytes([i]) * 100, i)
        for i in out:
            self.assertEqual(pool.copy_from(i), bytes([i]) * 100)
            pool.push(i)
            with self.assertRaises(hv.VerbsError):
                pool.push(i)
        self.assertEqual(len(pool), 4)
        pool.close()


class Errors(unittest.TestCase):
    def test_statuses(self):
        self.assertEqual(errors.status_name(e.IBV_WC_RNR_RETRY_EXC_ERR), 'RNR_RETRY_EXC_ERR')
        self.assertEqual(errors.status_name(0), 'SUCCESS')
        self.assertEqual(errors.status_name(999), 'status 999')

    def test_queue_is_named(self):
        pd = PD(hv.get_end_port().ctx)
        with hv.CQPoller(hv.get_end_port().ctx, 8) as poller:
            with self.assertRaises(hv.VerbsError) as raised:
                hv.make_qp(pd, 'RC', poller, depth=1 << 20)
            self.assertIn('depth=1048576', str(raised.exception))
            qp = hv.make_qp(pd, 'RC', poller)
            with self.assertRaises(hv.VerbsError) as raised:
                hv.to_rts(qp, hv.Path(port=hv.get_end_port()))
            self.assertIn('QP 0x%06x (RC) to RTS' % qp.qp_num, str(raised.exception))
            self.assertEqual(raised.exception.fields['retries'], 7)
            qp.close()


def talk(sock, first):
    """One end of a ping-pong between processes; sleeps for each message."""
    def receive():
        n = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), 'big')
        return sock.recv(n, socket.MSG_WAITALL)

    port = hv.get_end_port()
    pd = PD(port.ctx)
    poller = hv.CQPoller(port.ctx, 64)
    qp = hv.make_qp(pd, 'RC', poller)
    pool = hv.BufferPool(pd, 8, 64)
    path = hv.exchange(qp, hv.Path(port=port), lambda data: sock.sendall(len(data).to_bytes(4, 'big') + data), receive)
    assert path.dqpn and path.dqpn != path.sqpn, path
    pool.post_recvs(qp, 4)

    def send(text):
        i = pool.pop()
        n = pool.copy_to(text, i)
        qp.post_send(SendWR(wr_id=i, opcode=e.IBV_WR_SEND, num_sge=1, sg=[pool.sge(i, n)], send_flags=e.IBV_SEND_SIGNALED))

    for k in range(50):
        if first:
            send('ping %d' % k)
        for buffer, wc in pool.finish(poller.iterwc(count=2 if first else 1, timeout=20, qp=qp, path=path)):
            assert pool.copy_from(buffer, wc.byte_len) == b'%s %d' % (b'pong' if first else b'ping', k)
            pool.repost(qp, buffer)
        if not first:
            time.sleep(0.002)
            send('pong %d' % k)
            pool.finish(poller.iterwc(count=1, timeout=20, qp=qp, path=path))
    return poller.sleeps


class TwoProcesses(unittest.TestCase):
    def test_ping_pong(self):
        a, b = socket.socketpair()
        code = 'import socket, sys; sys.path.insert(0, %r); import python_verbs; ' \
               'python_verbs.talk(socket.socket(fileno=%d), False)' % (os.path.dirname(os.path.abspath(__file__)), b.fileno())
        import subprocess
        import sys
        child = subprocess.Popen([sys.executable, '-c', code], pass_fds=[b.fileno()])
        b.close()
        a.settimeout(60)
        sleeps = talk(a, True)
        self.assertEqual(child.wait(60), 0)
        self.assertGreater(sleeps, 20)


class Poller(unittest.TestCase):
    def setUp(self):
        self.poller = hv.CQPoller(hv.get_end_port().ctx, 16)

    def tearDown(self):
        self.poller.close()

    def test_descriptor_is_found(self):
        self.assertIsNotNone(self.poller.fileno())

    def test_timeout(self):
        begin = time.monotonic()
        self.assertEqual(self.poller.poll(timeout=0.05), [])
        self.assertGreaterEqual(time.monotonic() - begin, 0.05)
        self.assertEqual(self.poller.poll(timeout=0), [])
        self.assertEqual(list(self.poller.iterwc(count=3, timeout=0)), [])

    def test_wakeup_before_and_during(self):
        self.poller.wakeup()
        self.assertEqual(self.poller.poll(), [])
        thread = threading.Thread(target=lambda: (time.sleep(0.02), self.poller.wakeup()))
        thread.start()
        self.assertEqual(self.poller.poll(), [])
        thread.join()

    def test_closed(self):
        self.poller.close()
        for call in (lambda: self.poller.poll(timeout=0), lambda: list(self.poller.iterwc(count=1)), self.poller.wakeup):
            with self.assertRaises(hv.VerbsError) as raised:
                call()
            self.assertEqual(raised.exception.errno, errno.EBADF)

    def test_sleeps_use_no_cpu(self):
        begin = time.process_time()
        self.poller.poll(timeout=0.3)
        self.assertLess(time.process_time() - begin, 0.2)


class AddressHandles(unittest.TestCase):
    def test_kept(self):
        port = hv.get_end_port()
        pd = PD(port.ctx)
        with hv.AHCache(pd, most=3) as ahs:
            paths = [hv.Path(port=port, dlid=port.lid, sl=sl) for sl in range(4)]
            for path in paths:
                self.assertIs(ahs.get(path), ahs.get(path.copy()))
            self.assertEqual((len(ahs), ahs.made), (3, 4))
            ahs.get(paths[0])
            self.assertEqual(ahs.made, 5)
            far = hv.Path(port=port, dlid=port.lid, has_grh=True, dgid=port.default_gid, hop_limit=3)
            ahs.get(far)
            with self.assertRaises(hv.VerbsError):
                ahs.get(hv.Path(dlid=1))
        pd.close()


class PathRecords(unittest.TestCase):
    def test_fields(self):
        port = hv.get_end_port()
        record = hv.path_record(port, port.default_gid)
        self.assertEqual((record.dgid, record.sgid), (port.default_gid, port.default_gid))
        self.assertEqual((record.dlid, record.slid, record.mtu, record.pkey, record.reversible), (port.lid, port.lid, 4096, 0xffff, True))

    def test_refused(self):
        port = hv.get_end_port()
        for bad in ((port, 'fe80::1'), (hv.EndPort(port.device, 9), port.default_gid)):
            with self.assertRaises(hv.VerbsError):
                hv.path_record(*bad)
        with self.assertRaises(hv.VerbsError):
            hv.resolve_path(hv.Path(port=port))
        with hv.get_umad(port) as umad:
            with self.assertRaises(hv.MADError) as raised:
                hv.resolve_path(hv.Path(port=port, dgid=port.default_gid), umad, properties={'pkey': 0x1234})
            self.assertEqual(raised.exception.status, 0x0300)
            with self.assertRaises(hv.VerbsError):
                hv.path_records(umad, color=3)

    def test_umad(self):
        port = hv.get_end_port()
        with hv.get_umad(port, timeout=.01, retries=0) as umad, hv.get_umad(port) as other:
            self.assertEqual([hv.node_text(u, path=()) for u in (umad, other)], ['shca0', 'shca0'])
            self.assertGreaterEqual(umad.counters()['rcv_packets'], 0)
            with self.assertRaises(hv.VerbsError) as raised:
                umad.subn_get(0x11, lid=77)         # nobody
            self.assertEqual(raised.exception.errno, errno.ETIMEDOUT)
            self.assertEqual(hv.node_text(umad, lid=port.lid), 'shca0')
            self.assertEqual(len(hv.path_records(other, slid=port.lid, dlid=port.lid, pkey=0xffff, sl=0)), 1)
        with self.assertRaises(OSError):
            umad.subn_get(0x11, path=())


if __name__ == '__main__':
    unittest.main(verbosity=1)
