# The transport: plain verbs and mlx5dv; no knowledge of any one device.
transport_sources = src/transport/address.c src/transport/active.c src/transport/active.h src/transport/alive.c src/transport/am.c src/transport/counters.c src/transport/arrive.c \
	src/transport/conn.c src/transport/conn.h src/transport/dev.h src/transport/device.c src/transport/ep.c \
	src/transport/ep.h src/transport/idle.c src/transport/ids.c src/transport/ids.h src/transport/mem.c src/transport/mem.h src/transport/order.c \
	src/transport/order.h src/transport/peers.c src/transport/peers.h src/transport/pooled.h src/transport/post.c src/transport/progress.c src/transport/qp.c src/transport/rel.c \
	src/transport/regcache.c src/transport/regcache.h src/transport/rel.h src/transport/report.c src/transport/ring.c src/transport/ring.h src/transport/rings.c \
	src/transport/rx.h src/transport/select.c src/transport/select.h src/transport/sq.c src/transport/sq.h \
	src/transport/srq.c src/transport/tp.h src/transport/transport.h src/transport/wire.h src/transport/wireup.c \
	src/transport/rouse.c src/transport/rouse.h \
	src/transport/kinds/dc.c src/transport/kinds/kind.h src/transport/kinds/kinds.c src/transport/kinds/rc.c \
	src/transport/kinds/ud.c src/transport/kinds/xrc.c src/transport/kinds/xrc.h \
	src/transport/rma/mr.c src/transport/rma/rma.c src/transport/rma/rma.h src/transport/rma/target.c \
	src/transport/rndv/fault.c src/transport/rndv/read.c src/transport/rndv/rndv.c src/transport/rndv/rndv.h src/transport/rndv/split.c \
	src/transport/rndv/staged.c src/transport/rndv/tune.c src/transport/rndv/tune.h src/transport/rndv/write.c
