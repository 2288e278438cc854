# SPDX-License-Identifier: BSD-3-Clause
"""What pyverbs' documentation shows, one function for each of its examples, in its order and with its arguments.

    pyverbs_snippets.py DEVICE [mlx5] [ethernet]       those of any device, or those of an mlx5; of these, those for an Ethernet port, or the others

Prints a line for each: "NAME: passed", or "NAME: refused: what pyverbs said". A refusal is one of the device's: an errno; anything else ends
the program. docs/python.md has the reasons, and tests/verbs/pyverbs_snippets.sh compares.
"""
import mmap
import os
import random
import stat
import struct
import sys
import tempfile

import pyverbs.device as d
import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CompChannel, CqInitAttrEx
from pyverbs.device import DM, AllocDmAttr, Context
from pyverbs.mr import DMMR, MR, MW
from pyverbs.pd import PD, ParentDomain, ParentDomainContext, ParentDomainInitAttr
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqInitAttrEx
from pyverbs.xrcd import XRCD, XRCDInitAttr

name = sys.argv[1]
# Ethernet frames: their flows and VLANs
ETHERNET = ('cq_ex_cvlan', 'flow', 'mlx5_raw_packet')


def open_device():
    assert Context(name=name).name == name


def query_device():
    with d.Context(name=name) as ctx:
        assert 'Max QP' in str(ctx.query_device())


def query_gid():
    with d.Context(name=name) as ctx:
        assert str(ctx.query_gid(port_num=1, index=0)).startswith('fe80:')


def query_port():
    with d.Context(name=name) as ctx:
        assert 'Active' in str(ctx.query_port(1))


def query_device_ex():
    with d.Context(name=name) as ctx:
        attr = ctx.query_device_ex()
        assert attr.max_dm_size >= 0 and attr.rss_caps.max_rwq_indirection_table_size >= 0


def pd():
    with d.Context(name=name) as ctx:
        PD(ctx)


def mr():
    with d.Context(name=name) as ctx, PD(ctx) as pd:
        MR(pd, 1000, e.IBV_ACCESS_LOCAL_WRITE)


def mw():
    with d.Context(name=name) as ctx, PD(ctx) as pd:
        MW(pd, e.IBV_MW_TYPE_1)


def dm():
    with d.Context(name=name) as ctx:
        attr = ctx.query_device_ex()
        assert attr.max_dm_size
        DM(ctx, AllocDmAttr(random.randint(4, attr.max_dm_size)))


def dm_mr():
    with d.Context(name=name) as ctx:
        dm_len = random.randint(4, ctx.query_device_ex().max_dm_size)
        with DM(ctx, AllocDmAttr(dm_len)) as dm, PD(ctx) as pd:
            DMMR(pd, random.randint(4, dm_len), e.IBV_ACCESS_ZERO_BASED, dm=dm, offset=0)


def cq():
    with d.Context(name=name) as ctx:
        for entries in (1, 200):
            with CompChannel(ctx) as channel:
                CQ(ctx, entries, None, channel, 0)
            assert 'CQEs' in str(CQ(ctx, entries, None, None, 0))


def cq_ex_cvlan():
    with d.Context(name=name) as ctx:
        attrs = CqInitAttrEx(cqe=100, wc_flags=e.IBV_WC_EX_WITH_CVLAN, comp_mask=0, flags=0)
        CQEX(ctx, attrs)


def ah():
    with d.Context(name=name) as ctx:
        gid = ctx.query_gid(1, 0)
        attr = AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=0), is_global=1, port_num=1)
        assert attr.is_global and str(attr)
        with PD(ctx) as pd:
            AH(pd, attr=attr)


def qp_post_send():
    import pyverbs.wr as pwr
    ctx = d.Context(name=name)
    pd = PD(ctx)
    cq = CQ(ctx, 100, None, None, 0)
    init = QPInitAttr(cap=QPCap(100, 10, 1, 1, 0), qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq)
    qp = QP(pd, init, QPAttr())
    attr = AHAttr(gr=GlobalRoute(dgid=ctx.query_gid(port_num=1, index=0), sgid_index=0), is_global=1, port_num=1)
    mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
    # the documentation gives no argument, which pyverbs 44 itself refuses
    wr = pwr.SendWR(num_sge=1, sg=[pwr.SGE(mr.buf, 64, mr.lkey)])
    wr.set_wr_ud(AH(pd, attr=attr), 0x1101, 0)
    qp.post_send(wr)
    n, wcs = cq.poll()
    assert n == 0 or wcs[0].status == e.IBV_WC_SUCCESS


def qp_ex():
    ctx = d.Context(name=name)
    pd = PD(ctx)
    cq = CQ(ctx, 100)
    QPEx(ctx, QPInitAttrEx(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(100, 10, 1, 1, 0), pd=pd,
                           comp_mask=e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | e.IBV_QP_INIT_ATTR_PD))


def _xrcd(ctx):
    fd = os.open(os.path.join(tempfile.gettempdir(), 'xrcd-%d' % os.getpid()), os.O_RDONLY | os.O_CREAT, stat.S_IRUSR | stat.S_IRGRP)
    return XRCD(ctx, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, fd))


def xrcd():
    _xrcd(d.Context(name=name))


def srq_xrc():
    ctx = d.Context(name=name)
    attr = SrqInitAttrEx(max_wr=10)
    attr.srq_type = e.IBV_SRQT_XRC
    attr.pd = PD(ctx)
    attr.xrcd = _xrcd(ctx)
    attr.cq = CQ(ctx, 100, None, None, 0)
    attr.comp_mask = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_CQ | e.IBV_SRQ_INIT_ATTR_XRCD
    SRQ(ctx, attr)


def cmid():
    import threading
    import pyverbs.cm_enums as ce
    from pyverbs.cmid import CMID, AddrInfo
    init = QPInitAttr(cap=QPCap(max_recv_wr=1))
    port = str(20000 + os.getpid() % 20000)
    # pyverbs holds Python's lock in these calls: the sides are processes
    ready, go = os.pipe()
    child = os.fork()
    if not child:
        os.close(ready)
        passive = CMID(creator=AddrInfo(src='127.0.0.1', src_service=port, port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE), qp_init_attr=init)
        passive.listen()
        os.write(go, b'x')
        passive.get_request().accept()
        os._exit(0)
    os.close(go)
    assert os.read(ready, 1) == b'x' and threading
    active = CMID(creator=AddrInfo(src='127.0.0.1', dst='127.0.0.1', dst_service=port, port_space=ce.RDMA_PS_TCP), qp_init_attr=init)
    active.connect()
    assert os.waitpid(child, 0)[1] == 0


def parent_domain():
    import pyverbs.mem_alloc as mem

    def alloc(pd, context, size, alignment, resource_type):
        return mem.posix_memalign(size, alignment)

    def free(pd, context, ptr, resource_type):
        mem.free(ptr)

    ctx = Context(name=name)
    pd = PD(ctx)
    ParentDomain(ctx, attr=ParentDomainInitAttr(pd=pd, pd_context=ParentDomainContext(pd, alloc, free)))


def import_device():
    ctx = Context(name=name)
    pd = PD(ctx)
    mr = MR(pd, 100, e.IBV_ACCESS_LOCAL_WRITE)
    other = Context(cmd_fd=os.dup(ctx.cmd_fd))
    other_pd = PD(other, handle=pd.handle)
    other_mr = MR(other_pd, handle=mr.handle)
    MR(other_pd, 100, e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_LOCAL_WRITE)
    other_mr.unimport()
    other_pd.unimport()


def flow():
    from pyverbs.flow import Flow, FlowAttr
    from pyverbs.spec import EthSpec
    ctx = d.Context(name=name)
    pd = PD(ctx)
    cq = CQ(ctx, 100, None, None, 0)
    qp = QP(pd, QPInitAttr(cap=QPCap(100, 10, 1, 1, 0), qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq), QPAttr())
    spec = EthSpec(ether_type=0x800, dst_mac='01:50:56:19:20:a7')
    spec.src_mac = '24:8a:07:a5:28:c8'
    spec.src_mac_mask = 'ff:ff:ff:ff:ff:ff'
    attr = FlowAttr(num_of_specs=1)
    attr.specs.append(spec)
    Flow(qp, attr)


def flow_spec():
    from pyverbs.spec import EthSpec
    spec = EthSpec(src_mac='ab:cd:ef:ab:cd:ef', vlan_tag=0x123, is_inner=1)
    spec.dst_mac = 'de:de:de:00:de:de'
    spec.dst_mac_mask = 'ff:ff:ff:ff:ff:ff'
    spec.ether_type = 0x321
    spec.ether_type_mask = 0xffff
    assert 'IBV_FLOW_SPEC_ETH' in str(spec)


def mlx5_open():
    import pyverbs.providers.mlx5.mlx5dv as m
    PD(m.Mlx5Context(attr=m.Mlx5DVContextAttr(), name=name))


def mlx5_query():
    import pyverbs.providers.mlx5.mlx5dv as m
    assert 'Version' in str(m.Mlx5Context(attr=m.Mlx5DVContextAttr(), name=name).query_mlx5_device())


def _mlx5_qp(qp_type, comp_mask, **dv):
    import pyverbs.providers.mlx5.mlx5_enums as me
    import pyverbs.providers.mlx5.mlx5dv as m
    ctx = m.Mlx5Context(name=name, attr=m.Mlx5DVContextAttr())
    pd = PD(ctx)
    cq = CQ(ctx, 100)
    init = QPInitAttrEx(cap=QPCap(100, 0, 1, 0), pd=pd, scq=cq, rcq=cq, qp_type=qp_type, comp_mask=e.IBV_QP_INIT_ATTR_PD)
    attr = m.Mlx5DVQPInitAttr(comp_mask=getattr(me, comp_mask))
    for field, value in dv.items():
        setattr(attr, field, value)
    m.Mlx5QP(ctx, init, dv_init_attr=attr)


def mlx5_dci():
    import pyverbs.providers.mlx5.mlx5_enums as me
    _mlx5_qp(e.IBV_QPT_DRIVER, 'MLX5DV_QP_INIT_ATTR_MASK_DC', dc_type=me.MLX5DV_DCTYPE_DCI)


def mlx5_raw_packet():
    import pyverbs.providers.mlx5.mlx5_enums as me
    _mlx5_qp(e.IBV_QPT_RAW_PACKET, 'MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS',
             create_flags=me.MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE | me.MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC |
             me.MLX5DV_QP_CREATE_TUNNEL_OFFLOADS)


def mlx5_cq_compressed():
    import pyverbs.providers.mlx5.mlx5_enums as me
    import pyverbs.providers.mlx5.mlx5dv as m
    ctx = m.Mlx5Context(name=name, attr=m.Mlx5DVContextAttr())
    attr = m.Mlx5DVCQInitAttr(comp_mask=me.MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE, cqe_comp_res_format=me.MLX5DV_CQE_RES_FORMAT_CSUM)
    m.Mlx5CQ(ctx, CqInitAttrEx(), dv_init_attr=attr)


def mlx5_var():
    from pyverbs.providers.mlx5.mlx5dv import Mlx5VAR
    ctx = Context(name=name)
    var = Mlx5VAR(ctx)
    mmap.mmap(fileno=ctx.cmd_fd, length=var.length, offset=var.mmap_off).close()
    var.close()


def _devx():
    import pyverbs.providers.mlx5.mlx5_enums as me
    import pyverbs.providers.mlx5.mlx5dv as m
    return m.Mlx5Context(attr=m.Mlx5DVContextAttr(me.MLX5DV_CONTEXT_FLAGS_DEVX), name=name)


def mlx5_pp():
    from pyverbs.providers.mlx5.mlx5dv import Mlx5PP
    Mlx5PP(_devx(), (5).to_bytes(length=4, byteorder='big', signed=True)).close()


def mlx5_uar():
    from pyverbs.providers.mlx5.mlx5dv import Mlx5UAR
    Mlx5UAR(Context(name=name)).close()


def mlx5_devx_obj():
    from pyverbs.providers.mlx5.mlx5dv import Mlx5DevxObj
    Mlx5DevxObj(_devx(), struct.pack('!H14s', 0x800, bytes(0)), 0x10).close()


def main():
    mlx5, ethernet = 'mlx5' in sys.argv[2:], 'ethernet' in sys.argv[2:]
    for snippet in list(globals().values()):
        if not callable(snippet) or getattr(snippet, '__module__', '') != '__main__' or snippet is main:
            continue
        title = snippet.__name__
        if title.startswith('_') or title.startswith('mlx5_') != mlx5 or (title in ETHERNET) != ethernet:
            continue
        try:
            snippet()
            print('%s: passed' % title)
        except (PyverbsRDMAError, PyverbsError) as err:
            print('%s: refused: %s' % (title, str(err).strip().split('\n')[-1].lstrip('. ')))
        sys.stdout.flush()
    os._exit(0)     # objects in any order: the device takes what is left down


main()
