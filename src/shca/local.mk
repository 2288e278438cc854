shca_headers = src/lines/lines.h src/shca/control.h src/shca/device.h src/shca/engine.h src/shca/exp_ops.h src/shca/fabric.h src/shca/layout.h \
	src/shca/plain.h src/shca/post.h src/shca/vars.def
shca_sources = $(shca_headers) src/shca/env.c src/shca/fabric.c src/shca/find.c src/shca/alloc.c src/shca/member.c src/shca/helper.c \
	src/shca/wake.c src/shca/respond.c \
	src/shca/exec.c src/shca/run.c src/shca/cq.c src/shca/rq.c src/shca/copy.c src/shca/share.c src/shca/reap.c \
	src/shca/device.c src/shca/pd.c src/shca/cqv.c src/shca/qpv.c src/shca/qpstate.c src/shca/srqv.c src/shca/dv.c src/shca/guid.c \
	src/shca/post.c src/shca/plain.c src/shca/datagram.c src/shca/wr.c src/shca/poll.c src/shca/exp.c src/shca/exp_post.c

interpose_sources = src/shca/interpose.h src/shca/interpose.c src/shca/interpose_verbs.c src/shca/interpose_mlx5.c

# Inside libheddle the verbs are dispatched by hidden symbols; libshca.so exports them with their real versions.
noinst_LTLIBRARIES += libshca_core.la
libshca_core_la_SOURCES = $(shca_sources) $(interpose_sources)

lib_LTLIBRARIES += libshca.la
libshca_la_SOURCES = $(shca_sources) $(interpose_sources) $(verbs_exp_sources)
libshca_la_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_EXPORT
libshca_la_LDFLAGS = -version-info 0:0:0 -Wl,--version-script=$(srcdir)/src/shca/libshca.map
libshca_la_LIBADD = -lpthread
include_HEADERS += include/shca.h
EXTRA_DIST += src/shca/libshca.map

# Runs a stranger's verbs program on the software HCA.
bin_PROGRAMS += shcarun
shcarun_SOURCES = src/tools/shcarun.c $(runtime_base_sources)
shcarun_CPPFLAGS = $(AM_CPPFLAGS) -DSHCA_LIBDIR='"$(libdir)"'
