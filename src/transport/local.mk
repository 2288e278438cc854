# The transport: plain verbs and mlx5dv; no knowledge of any one device.
transport_sources = src/transport/select.c src/transport/conn.c src/transport/conn.h src/transport/order.c src/transport/ring.c src/transport/rel.c src/transport/tune.c src/transport/tune.h \
	src/transport/mem.c src/transport/srq.c src/transport/sq.c src/transport/device.c src/transport/rc.c \
	src/transport/ud.c src/transport/xrc.c src/transport/dc.c src/transport/wireup.c src/transport/rings.c \
	src/transport/rndv.c src/transport/ep.c src/transport/post.c src/transport/progress.c src/transport/idle.c src/transport/active.c src/transport/active.h src/transport/alive.c src/transport/report.c \
	src/transport/select.h src/transport/order.h src/transport/ring.h src/transport/rel.h src/transport/tp.h \
	src/transport/transport.h
