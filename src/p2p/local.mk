p2p_sources = src/p2p/arrive.c src/p2p/buffer.c src/p2p/comm/cid_messages.c src/p2p/comm/cid_messages.h \
	src/p2p/comm/comm.c src/p2p/comm/comm.h src/p2p/comm/comm_cid.c src/p2p/comm/comm_cid.h \
	src/p2p/comm/construct.c src/p2p/comm/describe.c src/p2p/comm/group.c src/p2p/comm/group.h \
	src/p2p/comm/hosts.c src/p2p/comm/hosts.h src/p2p/comm/ids.c src/p2p/comm/ids.h src/p2p/comm/jobs_gone.c \
	src/p2p/comm/leader_link.c src/p2p/comm/leader_link.h src/p2p/comm/topo.h src/p2p/deliver.c src/p2p/deliver.h \
	src/p2p/dpm/handshake.c src/p2p/dpm/handshake.h src/p2p/dpm/port.c src/p2p/error.c \
	src/p2p/fault/fault.h src/p2p/fault/ft_recv.c src/p2p/fault/ft_send.c src/p2p/fault/notify.c \
	src/p2p/fault/record.c src/p2p/fault/revoke.c src/p2p/init.c src/p2p/instance.c src/p2p/leaks.c src/p2p/match.c \
	src/p2p/match.h src/p2p/p2p.h src/p2p/recv.c src/p2p/report.c src/p2p/request.c src/p2p/request.h src/p2p/send.c \
	src/p2p/unexpected.c src/p2p/unexpected.h src/p2p/wait.c
# Requests that are more than a send or a receive, and buffered sends.
p2p_sources += src/p2p/persistent.c src/p2p/grequest.c src/p2p/sendrecv.c src/p2p/message.c src/p2p/buffered.c \
	src/p2p/part.h src/p2p/part_arrive.c src/p2p/part_box.h src/p2p/part_send.c src/p2p/partitioned.h src/p2p/partitioned.c
