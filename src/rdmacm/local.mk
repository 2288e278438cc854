# RDMA CM of the software HCA: part of libshca.so; libshca-files.so calls it.
rdmacm_sources = src/rdmacm/address.c src/rdmacm/attr.c src/rdmacm/channel.c src/rdmacm/command.c src/rdmacm/connect.c \
	src/rdmacm/device.c src/rdmacm/event.c src/rdmacm/get_event.c src/rdmacm/handle.c src/rdmacm/id.c src/rdmacm/internal.h \
	src/rdmacm/kernel.c src/rdmacm/multicast.c src/rdmacm/port_event.c src/rdmacm/port_name.c src/rdmacm/rdmacm.h \
	src/rdmacm/resolve.c src/rdmacm/timer.c
