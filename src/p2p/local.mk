p2p_sources = src/p2p/p2p.h src/p2p/request.h src/p2p/match.h src/p2p/match.c src/p2p/buffer.c src/p2p/request.c \
	src/p2p/recv.c src/p2p/send.c src/p2p/comm.h src/p2p/comm.c src/p2p/construct.c \
	src/p2p/topo.h src/p2p/group.h src/p2p/group.c src/p2p/hosts.h src/p2p/hosts.c src/p2p/describe.c src/p2p/meet.h src/p2p/meet.c src/p2p/port.c src/p2p/agree.h src/p2p/agree.c src/p2p/bridge.h src/p2p/bridge.c src/p2p/losses.h src/p2p/losses.c src/p2p/report.c src/p2p/leaks.c src/p2p/init.c
# Requests that are more than a send or a receive, and buffered sends.
p2p_sources += src/p2p/persistent.c src/p2p/grequest.c src/p2p/sendrecv.c src/p2p/message.c src/p2p/buffered.c
