# SPDX-License-Identifier: BSD-3-Clause
"""heddle_verbs, beyond its tutorial: what is refused, two processes, sleeping, many paths."""
import array
import copy
import errno
import gc
import math
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
from pyverbs.wr import SGE, SendWR


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
        for gid in ('fe80::77', 'nonsense', b'short'):
            with self.assertRaises(hv.VerbsError):
                port.gid_index(gid)
        for pkey in (0x1234, 'x'):
            with self.assertRaises(hv.VerbsError):
                port.pkey_index(pkey)
        self.assertEqual(port.pkey_index(0x7fff), 0)
        with self.assertRaises(hv.VerbsError) as raised:
            hv.EndPort('shca7', 1).lid
        self.assertEqual(raised.exception.errno, errno.ENODEV)

    def test_context_is_closed(self):
        """The program closes the context that all ports share: the next use opens the device anew."""
        code = 'import heddle_verbs as hv; port = hv.get_end_port()\nwith port.ctx as first: pass\nassert port.lid and port.ctx is not first'
        self.assertEqual(python(code), 0)


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
        for text in ('grh=maybe', 'sl=1 sl=2'):
            with self.assertRaises(hv.VerbsError, msg=text):
                hv.Path(text)
        path = hv.Path()
        for name, value in (('dlud', 1), ('mtu', 1000), ('sl', 16), ('dlid', 'x'), ('dlid', None), ('dgid', 'x'), ('dgid', b'short'),
                            ('has_grh', 'maybe'), ('flow_label', 1.5), ('port', 'shca9'), ('mtu_code', 3)):
            with self.assertRaises(hv.VerbsError, msg=name):
                hv.Path(**{name: value})
            with self.assertRaises(hv.VerbsError, msg=name):
                setattr(path, name, value)
        self.assertEqual(path, hv.Path())

    def test_values_are_texts_too(self):
        path = hv.Path(mtu='2048', has_grh='no', dlid='0x10', port=hv.get_end_port().device)
        self.assertEqual(path, hv.Path(mtu=2048, has_grh=False, dlid=16, port=hv.get_end_port()))
        self.assertEqual(hv.Path(path), path)

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
        self.assertEqual(pool.copy_to(array.array('i', [1, 2, 3]), 0), 12)
        for bad in ((0, 10), (10, -1), (2, 'x'), (1 << 40, 1 << 20)):
            with self.assertRaises(hv.VerbsError):
                hv.BufferPool(self.pd, *bad)
        view = pool.view(1)
        view[:5] = b'still'
        pool.close()
        pool.close()
        self.assertEqual(bytes(view[:5]), b'still')
        for call in (pool.pop, lambda: pool.view(0), lambda: pool.copy_to(b'x', 0), lambda: pool.sge(0), lambda: pool.addr(0),
                     pool.__enter__):
            with self.assertRaises(hv.VerbsError) as raised:
                call()
            self.assertEqual(raised.exception.errno, errno.EBADF)

    def test_receives(self):
        """A buffer that is not out is not posted; one whose receive was refused is free again; another request's number frees none."""
        with hv.CQPoller(hv.get_end_port().ctx, 16) as poller, hv.BufferPool(self.pd, 3, 64) as pool:
            a, b = loop(self.pd, poller)
            raw = hv.make_qp(self.pd, 'RC', poller)     # in RESET
            with self.assertRaises(hv.VerbsError):
                pool.post_recvs(raw, 2)
            self.assertEqual(len(pool), 3)
            with self.assertRaises(hv.VerbsError):
                pool.repost(b, 0)
            pool.post_recvs(b, 3)
            with self.assertRaises(hv.VerbsError):
                pool.post_recvs(b, 1)
            source = hv.BufferPool(self.pd, 1, 64)
            for number in (0, 1 << 40):
                a.post_send(SendWR(wr_id=number, opcode=e.IBV_WR_SEND, num_sge=1, sg=[source.sge(0)], send_flags=e.IBV_SEND_SIGNALED))
            got = pool.finish(poller.iterwc(count=4, timeout=5))
            self.assertEqual([buffer for buffer, _ in got], [2, 1])
            self.assertEqual(len(pool), 0)
            for buffer, _ in got:
                pool.push(buffer)
            for qp in (a, b, raw):
                qp.close()
            source.close()

    def test_failure_keeps_the_rest(self):
        """The error of a completion loses no other one, and no buffer."""
        with hv.CQPoller(hv.get_end_port().ctx, 16) as poller, hv.BufferPool(self.pd, 4, 64) as pool:
            a, b = loop(self.pd, poller)
            pool.post_recvs(b, 1)
            for wrong in (False, True, True):
                i = pool.pop()
                sge = pool.sge(i, 8)
                a.post_send(SendWR(wr_id=i, opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(sge.addr, 8, sge.lkey ^ 0xff00 * wrong)],
                                   send_flags=e.IBV_SEND_SIGNALED))
            with self.assertRaises(hv.WCError) as raised:
                pool.finish(poller.iterwc(timeout=5))
            self.assertEqual([buffer for buffer, _ in raised.exception.received], [3])
            self.assertEqual(len(pool), 2)
            self.assertEqual(hv.errors.status_name(raised.exception.status), 'LOC_PROT_ERR')
            with self.assertRaises(hv.WCError) as raised:
                pool.finish(poller.iterwc(count=1, timeout=5))
            self.assertEqual(hv.errors.status_name(raised.exception.status), 'WR_FLUSH_ERR')
            self.assertEqual(len(pool), 3)
            again = pickle.loads(pickle.dumps(raised.exception))
            self.assertEqual((str(again), again.status, again.wr_id), (str(raised.exception), raised.exception.status, raised.exception.wr_id))
            a.close()
            b.close()


def python(code):
    """The exit status of another interpreter that runs the code."""
    import subprocess
    import sys
    return subprocess.run([sys.executable, '-X', 'dev', '-c', code], timeout=60).returncode


def loop(pd, poller):
    """Two connected queue pairs."""
    port = hv.get_end_port()
    a, b = (hv.make_qp(pd, 'RC', poller) for _ in range(2))
    for qp, other in ((a, b), (b, a)):
        hv.connect(qp, hv.Path(port=port, dlid=port.lid, dqpn=other.qp_num))
    return a, b


def nothing(number):
    """An RDMA WRITE of no bytes."""
    return SendWR(wr_id=number, opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(0, 0, 0)], send_flags=e.IBV_SEND_SIGNALED)


class Errors(unittest.TestCase):
    def test_pickles(self):
        for err in (hv.VerbsError('a verb', 5, port=hv.get_end_port(), path=hv.Path('sl=3')), hv.MADError('a question', 0x0300, lid=3)):
            again = pickle.loads(pickle.dumps(err))
            self.assertEqual((type(again), str(again), again.fields, again.errno), (type(err), str(err), err.fields, err.errno))
        self.assertEqual(again.status, 0x0300)
        poller = hv.CQPoller(hv.get_end_port().ctx, 8)
        for it in (poller, hv.AHCache(None), hv.get_umad(hv.get_end_port())):
            for call in (copy.copy, pickle.dumps):
                with self.assertRaises(TypeError) as raised:
                    call(it)
                self.assertIn(type(it).__name__, str(raised.exception))

    def test_closed_queue(self):
        """pyverbs would end the process."""
        pd = PD(hv.get_end_port().ctx)
        path = hv.Path(port=hv.get_end_port(), dqpn=1, dlid=1)
        for end in (lambda qp, poller: qp.close(), lambda qp, poller: poller.close()):
            poller = hv.CQPoller(hv.get_end_port().ctx, 8)
            qp = hv.make_qp(pd, 'RC', poller)
            name = errors.queue_name(qp)
            end(qp, poller)
            for call in (lambda: hv.connect(qp, path), lambda: hv.to_rtr(qp, path), lambda: hv.fill_path(qp, path), lambda: qp.qp_state,
                         lambda: qp.post_send(nothing(0)), lambda: qp.modify(None, 0), lambda: qp.query(1)):
                with self.assertRaises(hv.VerbsError) as raised:
                    call()
                self.assertEqual(raised.exception.errno, errno.EBADF)
                self.assertIn(name, str(raised.exception))

    def test_incomplete_path(self):
        """Without these a queue pair would come to RTS and get no answer."""
        port = hv.get_end_port()
        pd = PD(port.ctx)
        with hv.CQPoller(port.ctx, 8) as poller:
            with self.assertRaises(hv.VerbsError):
                hv.make_qp(pd, 'rc', poller)
            for path in (hv.Path(), hv.Path(port=port, dlid=1), hv.Path(port=port, dqpn=1), hv.Path(port=port, dqpn=1, has_grh=True)):
                with self.assertRaises(hv.VerbsError) as raised:
                    hv.connect(hv.make_qp(pd, 'RC', poller), path)
                self.assertIn('path=', str(raised.exception))

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

    def test_wrong_arguments(self):
        for timeout in (math.nan, 'soon', []):
            with self.assertRaises(hv.VerbsError, msg=timeout):
                self.poller.poll(timeout)
        for most in (0, -1, None, 'x'):
            with self.assertRaises(hv.VerbsError, msg=most):
                self.poller.poll(0, most)
        for timeout in (-1, -math.inf, 0):
            self.assertEqual(self.poller.poll(timeout), [])
        for timeout in (math.inf, 1e300):
            self.poller.wakeup()
            self.assertEqual(self.poller.poll(timeout), [])

    def test_break_keeps_the_rest(self):
        pd = PD(hv.get_end_port().ctx)
        with hv.BufferPool(pd, 5, 8) as pool:
            a, b = loop(pd, self.poller)
            for i in range(5):
                a.post_send(nothing(i))
            for wc in self.poller:
                break
            self.assertEqual(wc.wr_id, 0)
            self.assertEqual([wc.wr_id for wc in self.poller.poll(timeout=5, most=2)], [1, 2])
            self.assertEqual([wc.wr_id for wc in self.poller.iterwc(timeout=0)], [3, 4])
            a.close()
            b.close()

    def test_two_threads(self):
        """Each completion goes to one of the threads that iterate, and all of them leave when the poller is closed."""
        count, got, ends = 400, [], []
        pd = PD(hv.get_end_port().ctx)
        a, b = loop(pd, self.poller)

        def take():
            try:
                for wc in self.poller.iterwc(timeout=60):
                    got.append(wc.wr_id)
                ends.append(None)
            except Exception as err:
                ends.append(err)
        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 60
        for i in range(count):
            while len(got) < i - 4 and time.monotonic() < end:
                time.sleep(0)
            a.post_send(nothing(i))
        while len(got) < count and time.monotonic() < end:
            time.sleep(0.001)
        self.assertEqual(sorted(got), list(range(count)))
        self.poller.close()
        for thread in threads:
            thread.join(60)
        self.assertEqual(len(ends), 3)
        for err in ends:
            self.assertTrue(err is None or isinstance(err, hv.VerbsError) and err.errno == errno.EBADF, err)

    def test_forgotten(self):
        """A poller that the program forgets gives its descriptors back."""
        before = len(os.listdir('/proc/self/fd'))
        for _ in range(20):
            hv.CQPoller(hv.get_end_port().ctx, 4)
            hv.get_umad(hv.get_end_port())
        with self.assertRaises(hv.VerbsError):
            hv.CQPoller(hv.get_end_port().ctx, 1 << 30)
        gc.collect()
        self.assertLessEqual(len(os.listdir('/proc/self/fd')), before)

    def test_fork(self):
        """A forked child opens the device anew; the parent's poller is refused there, and goes on here."""
        pd = PD(hv.get_end_port().ctx)
        a, b = loop(pd, self.poller)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                try:
                    self.poller.poll(timeout=None)
                    code = 2
                except hv.VerbsError as err:
                    code = 0 if err.errno == errno.ENODEV else 3
                with hv.CQPoller(hv.get_end_port().ctx, 4) as mine:
                    one, other = loop(PD(hv.get_end_port().ctx), mine)
                    one.post_send(nothing(9))
                    assert [wc.wr_id for wc in mine.iterwc(count=1, timeout=20)] == [9]
                self.poller.close()
            except BaseException as err:
                print('in the child:', repr(err), flush=True)
                code = 4
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(self.poller.poll(timeout=0.01), [])
        a.post_send(nothing(3))
        self.assertEqual([wc.wr_id for wc in self.poller.iterwc(count=1, timeout=20)], [3])

    def test_order_of_ends(self):
        """Objects that go in any order, also when the interpreter ends: no error, and nothing on standard error."""
        import subprocess
        import sys
        code = 'import sys, random, gc; sys.path.insert(0, %r); import python_verbs as t, heddle_verbs as hv\n' \
               'from pyverbs.pd import PD\n' \
               'rng = random.Random(%%d); port = hv.get_end_port(); pd = PD(port.ctx); poller = hv.CQPoller(port.ctx, 16)\n' \
               'things = list(t.loop(pd, poller)) + [poller, pd, hv.BufferPool(pd, 4, 64), hv.AHCache(pd), hv.get_umad(port)]\n' \
               'things[-2].get(hv.Path(port=port, dlid=port.lid)); things[4].post_recvs(things[0], 2)\n' \
               'ring = [things]; ring.append(ring); rng.shuffle(things); keep = things[:rng.randrange(8)]\n' \
               'for thing in things[rng.randrange(8):]: thing.close()\n' \
               'del ring, things, poller, pd, thing; gc.collect()' % os.path.dirname(os.path.abspath(__file__))
        for seed in range(4):
            end = subprocess.run([sys.executable, '-c', 'thing = None\n' + code % seed], timeout=60, capture_output=True)
            self.assertEqual((end.returncode, end.stderr), (0, b''), seed)

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

    def test_closed_meanwhile(self):
        ends = []
        thread = threading.Thread(target=lambda: ends.append(self.poller.poll()))
        thread.start()
        end = time.monotonic() + 60
        while not self.poller.sleeps and time.monotonic() < end:
            time.sleep(0.001)
        self.poller.close()
        thread.join(60)
        self.assertEqual(ends, [[]])

    def test_closed(self):
        self.poller.close()
        for call in (self.poller.__enter__, lambda: self.poller.poll(timeout=0), lambda: list(self.poller.iterwc(count=1)), self.poller.wakeup):
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
            for call in (lambda: umad.subn_get(0x11, lid=1 << 16), lambda: umad.subn_get(0x11, lid='x'), lambda: umad.subn_get(0x11, path=[1] * 64),
                         lambda: umad.subn_get(0x11, path=[300]), lambda: umad.rpc(3, 1, 0x35, data=bytes(201)),
                         lambda: hv.path_records(umad, slid=1 << 16), lambda: hv.path_records(umad, sl=16), lambda: hv.path_records(umad, dgid='x'),
                         lambda: hv.path_records(umad, most=0)):
                with self.assertRaises(hv.VerbsError):
                    call()
        for how in (dict(timeout=0), dict(timeout=-1), dict(retries=-1)):
            with self.assertRaises(hv.VerbsError):
                hv.get_umad(port, **how)
        with self.assertRaises(hv.VerbsError):
            umad.subn_get(0x11, path=())


if __name__ == '__main__':
    unittest.main(verbosity=1)
