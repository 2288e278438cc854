# The transport: plain verbs and mlx5dv; no knowledge of any one device.
transport_sources = src/transport/connect/address.c src/transport/connect/conn.c src/transport/connect/conn.h \
	src/transport/connect/conn_send.c src/transport/connect/select.c src/transport/connect/select.h \
	src/transport/connect/wire.h src/transport/connect/wireup.c src/transport/core/active.c \
	src/transport/core/active.h src/transport/core/async.c src/transport/core/counters.c \
	src/transport/core/dev.h src/transport/core/device.c src/transport/core/done.c src/transport/core/fd_waker.c \
	src/transport/core/fd_waker.h src/transport/core/idle.c src/transport/core/ids.c src/transport/core/ids.h \
	src/transport/core/init.c src/transport/core/memory.c src/transport/core/poll.c src/transport/core/progress.c \
	src/transport/core/report.c src/transport/core/tp.h src/transport/kinds/dc.c src/transport/kinds/kind.h \
	src/transport/kinds/kinds.c src/transport/kinds/rc.c src/transport/kinds/ud.c src/transport/kinds/xrc.c \
	src/transport/kinds/xrc.h src/transport/lanes/rel.c src/transport/lanes/rel.h src/transport/lanes/ring.c \
	src/transport/lanes/ring.h src/transport/lanes/ring_credit.c src/transport/lanes/ring_offer.c \
	src/transport/lanes/ring_poll.c src/transport/mem/mem.c src/transport/mem/mem.h src/transport/mem/regcache.c \
	src/transport/mem/regcache.h src/transport/mem/segment.c src/transport/mem/share.c src/transport/mem/shortage.c src/transport/peer/alive.c src/transport/peer/am.c src/transport/peer/arrive.c \
	src/transport/peer/arrive.h src/transport/peer/control.c src/transport/peer/ctl.c src/transport/peer/departed.c src/transport/peer/drain.c \
	src/transport/peer/ep.c src/transport/peer/ep.h src/transport/peer/order.c src/transport/peer/order.h \
	src/transport/peer/peers.c src/transport/peer/peers.h src/transport/peer/srq_arrive.c src/transport/peer/send.c \
	src/transport/queue/plain.h src/transport/queue/post.c src/transport/queue/qp.c src/transport/queue/replay.c \
	src/transport/queue/rx.h src/transport/queue/sq.c src/transport/queue/sq.h src/transport/queue/sq_error.c \
	src/transport/queue/sq_restart.c src/transport/queue/sq_state.h src/transport/queue/srq.c \
	src/transport/queue/srq_credit.h src/transport/rma/agent_queue.c src/transport/rma/mr.c src/transport/rma/rma.c src/transport/rma/rma.h \
	src/transport/rma/target.c src/transport/rndv/fault.c src/transport/rndv/finish.c src/transport/rndv/refused.c src/transport/rndv/read.c src/transport/rndv/rndv.c \
	src/transport/rndv/rndv.h src/transport/rndv/split.c src/transport/rndv/staged.c src/transport/rndv/tune.c \
	src/transport/rndv/tune.h src/transport/rndv/write.c src/transport/transport.h
