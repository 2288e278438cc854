# The software HCA in four sub-layers. Each uses those below only; tests/unit/layers.sh checks the symbols of the objects.
#   fabric     the sealed memory file: layout, members, allocation, sleeping
#   engine     the execution of work requests, by whichever process makes them runnable
#   verbs      one process's verbs objects over the engine
#   interpose  the symbols against which unmodified verbs programs are linked
shca_fabric_sources = src/base/base.h src/base/fd.h src/base/fnv.h src/base/home.h src/base/memcheck.h src/base/memory.h src/base/stack.h \
	src/lines/lines.h src/shca/fabric/alloc.c src/shca/fabric/cma.c src/shca/fabric/common.c \
	src/shca/fabric/descriptors.c src/shca/fabric/env.c src/shca/fabric/fabric.c src/shca/fabric/fabric.h \
	src/shca/fabric/fence.c src/shca/fabric/file.c src/shca/fabric/find.c src/shca/fabric/inject.c \
	src/shca/fabric/layout.h src/shca/fabric/life.c src/shca/fabric/mailbox.c src/shca/fabric/mailbox.h \
	src/shca/fabric/map.c src/shca/fabric/member.c src/shca/fabric/memcheck.h src/shca/fabric/port.c \
	src/shca/fabric/proxy.c src/shca/fabric/quiesce.c src/shca/fabric/tap.c src/shca/fabric/vars.def \
	src/shca/fabric/wake.c
shca_engine_sources = src/shca/engine/access.h src/shca/engine/atomic.c src/shca/engine/atomic.h \
	src/shca/engine/calc.c src/shca/engine/calc.h src/shca/engine/calls.c src/shca/engine/common.c \
	src/shca/engine/common.h src/shca/engine/common_holders.c src/shca/engine/common_lock.h \
	src/shca/engine/common_reap.c src/shca/engine/copy.c src/shca/engine/copy.h src/shca/engine/copy_piece.c \
	src/shca/engine/cq.c src/shca/engine/cq_move.c src/shca/engine/engine.h src/shca/engine/exec.c src/shca/engine/exec.h src/shca/engine/exec_atomic.c src/shca/engine/flow.c src/shca/engine/flow.h src/shca/engine/guid.c \
	src/shca/engine/helper.c src/shca/engine/helper.h src/shca/engine/kick.c src/shca/engine/mkey.c src/shca/engine/mkey.h src/shca/engine/nak.c src/shca/engine/path.c src/shca/engine/path.h src/shca/engine/qp_fail.c \
	src/shca/engine/qp_lock.c src/shca/engine/reap.c src/shca/engine/rq.c src/shca/engine/rq_move.c src/shca/engine/run.c src/shca/engine/share.c \
	src/shca/engine/todo.h src/shca/engine/trace.c src/shca/engine/trace.h src/shca/engine/umr.c src/shca/engine/window.c src/shca/engine/window.h
shca_verbs_sources = src/shca/verbs/child.c src/shca/verbs/control.h src/shca/verbs/counters.c src/shca/verbs/device.c src/shca/verbs/device.h \
	src/shca/verbs/devx.c src/shca/verbs/dv.c src/shca/verbs/events.c src/shca/verbs/exp.c src/shca/verbs/files.c src/shca/verbs/import.c \
	src/shca/verbs/objects/ah.c src/shca/verbs/objects/cq.c src/shca/verbs/objects/dct.c src/shca/verbs/objects/flow.c src/shca/verbs/objects/local.c \
	src/shca/verbs/objects/mcast.c src/shca/verbs/objects/mkey.c src/shca/verbs/objects/mr.c src/shca/verbs/objects/mr.h src/shca/verbs/objects/mw.c src/shca/verbs/objects/pd.c src/shca/verbs/objects/qp.c \
	src/shca/verbs/objects/qp_handle.c src/shca/verbs/objects/qp_modify.c src/shca/verbs/objects/qpstate.c \
	src/shca/verbs/objects/rights.c src/shca/verbs/objects/rq.c src/shca/verbs/objects/sq.c src/shca/verbs/objects/sq.h \
	src/shca/verbs/objects/counts.c src/shca/verbs/objects/srq.c src/shca/verbs/objects/srq_resize.c src/shca/verbs/objects/waits.c src/shca/verbs/objects/xrc.c \
	src/shca/verbs/objects/zombie.c src/shca/verbs/query.c src/shca/verbs/receive/poll.c \
	src/shca/verbs/receive/post_recv.c src/shca/verbs/refuse.c src/shca/verbs/sa.c src/shca/verbs/submit/datagram.c \
	src/shca/verbs/submit/exp_post.c src/shca/verbs/submit/fast_write.c src/shca/verbs/submit/fast_write.h \
	src/shca/verbs/submit/post.c src/shca/verbs/submit/post.h src/shca/verbs/submit/post_send.c \
	src/shca/verbs/submit/raw.c src/shca/verbs/submit/wr.c
interpose_sources = src/shca/interpose/interpose.h src/shca/interpose/interpose.c src/shca/interpose/verbs.c \
	src/shca/interpose/mlx5.c
shca_sources = $(shca_fabric_sources) $(shca_engine_sources) $(shca_verbs_sources)

# Inside libheddle the verbs are dispatched by hidden symbols; libshca.so exports them with their real versions.
noinst_LTLIBRARIES += libshca_core.la
libshca_core_la_SOURCES = $(shca_sources) $(interpose_sources)

lib_LTLIBRARIES += libshca.la
libshca_la_SOURCES = $(shca_sources) $(interpose_sources) $(verbs_exp_sources) $(rdmacm_sources) \
	$(umad_sources)
libshca_la_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_EXPORT
libshca_la_LDFLAGS = -version-info 0:0:0 -Wl,--version-script=$(srcdir)/src/shca/interpose/libshca.map
libshca_la_LIBADD = -lpthread
include_HEADERS += include/shca.h

# The device's files, for programs that look at them, and RDMA CM's: preloaded by shcarun; linked by programs of RDMA CM.
lib_LTLIBRARIES += libshca-files.la
libshca_files_la_SOURCES = src/shca/interpose/directories.c src/shca/interpose/files.c src/shca/interpose/rdma_cm.c \
	src/shca/interpose/forward.h
libshca_files_la_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_EXPORT
libshca_files_la_LDFLAGS = -avoid-version
libshca_files_la_LIBADD = libshca.la
EXTRA_DIST += src/shca/interpose/libshca.map

# Runs a stranger's verbs program on the software HCA.
bin_PROGRAMS += shcarun
shcarun_SOURCES = src/tools/shcarun.c $(runtime_base_sources)
shcarun_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_LIBDIR='"$(libdir)"'
