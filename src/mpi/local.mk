mpi_sources = src/mpi/mpi_internal.h src/mpi/init.c src/mpi/leaks.h src/mpi/leaks.c src/mpi/env.c \
	src/mpi/state.c src/mpi/error.c src/mpi/error_code.c src/mpi/error_add.c src/mpi/error_table.h src/mpi/error_table.c \
	src/mpi/errhandler.h src/mpi/errhandler.c src/mpi/errhandler_call.c src/mpi/abi.c \
	src/mpi/info.h src/mpi/info.c \
	src/mpi/p2p.c src/mpi/request.c \
	src/mpi/datatype.c src/mpi/type.c src/mpi/pack.c \
	src/mpi/collective.c src/mpi/coll_check.c \
	src/mpi/comm.c src/mpi/comm_create.c src/mpi/group.c src/mpi/attr.h src/mpi/attr.c src/mpi/attribute.c

# Chapter 3 beyond p2p.c and request.c.
mpi_sources += src/mpi/sendrecv.c src/mpi/message.c src/mpi/persistent.c src/mpi/grequest.c src/mpi/buffered.c

# Chapter 4.
mpi_sources += src/mpi/partitioned.c

mpi_sources += src/mpi/vcoll.c src/mpi/op.c

# Hints of communicators, and splitting them by hardware.
mpi_sources += src/mpi/comm_info.h src/mpi/comm_info.c src/mpi/split_type.c

# Chapter 15.
mpi_sources += src/mpi/tool.h src/mpi/tool.c src/mpi/tool_enum.c src/mpi/tool_cvar.c src/mpi/tool_pvar.c src/mpi/tool_event.c

# Chapter 12.
mpi_sources += src/mpi/win.h src/mpi/win.c src/mpi/win_attr.c src/mpi/win_sync.c src/mpi/rma.c

# Chapter 14.
mpi_sources += src/mpi/file.h src/mpi/file.c src/mpi/file_view.c src/mpi/file_access.c src/mpi/file_datarep.c

# Chapter 11.
mpi_sources += src/mpi/dynamic.h src/mpi/dynamic.c src/mpi/spawn_info.c src/mpi/spawn.c src/mpi/publish.c src/mpi/session.h src/mpi/session.c

# Chapter 8, and where ranks are bound.
mpi_sources += src/mpi/topo.h src/mpi/topo.c src/mpi/topo_cart.c src/mpi/topo_neighbors.c src/mpi/topo_graph.c src/mpi/reorder.h src/mpi/reorder.c \
	src/mpi/locality.h src/mpi/locality.c

# What is made of the list of the ABI's functions. A state that changes leaves mpi.h as it is, and all that includes it.
nodist_mpi_sources = src/mpi/missing.c
nodist_include_HEADERS += include/mpi.h
noinst_DATA += src/mpi/functions.checked
mpi_made = include/mpi.h src/mpi/functions.h src/mpi/missing.c src/mpi/forward.c src/mpi/list.h
BUILT_SOURCES += $(mpi_made)
CLEANFILES += $(mpi_made) src/mpi/functions.stamp src/mpi/functions.checked
EXTRA_DIST += include/mpi.h.in src/mpi/functions.def src/mpi/functions.awk
mpi_list = $(srcdir)/src/mpi/functions.def
mpi_list_awk = $(srcdir)/src/mpi/functions.awk
mpi_make = $(AWK) -f $(mpi_list_awk) -v make

src/mpi/functions.stamp: $(mpi_list) $(mpi_list_awk) $(srcdir)/include/mpi.h.in
	$(AM_V_GEN)$(MKDIR_P) include src/mpi && \
	$(mpi_make)=header $(mpi_list) $(srcdir)/include/mpi.h.in >include/mpi.h.tmp && \
	$(mpi_make)=states $(mpi_list) >src/mpi/functions.h.tmp && \
	$(mpi_make)=missing $(mpi_list) >src/mpi/missing.c.tmp && \
	$(mpi_make)=forward $(mpi_list) >src/mpi/forward.c.tmp && \
	$(mpi_make)=list $(mpi_list) >src/mpi/list.h.tmp && \
	for f in $(mpi_made); do if cmp -s $$f.tmp $$f; then rm -f $$f.tmp; else mv -f $$f.tmp $$f; fi || exit; done && \
	touch $@
$(mpi_made): src/mpi/functions.stamp
	@test -f $@ || { rm -f $< && $(MAKE) $<; }
src/mpi/functions.checked: libheddle.la libmpi_abi.la $(mpi_list) $(mpi_list_awk)
	$(AM_V_GEN)for so in libheddle libmpi_abi; do \
		$(NM) -D --defined-only .libs/$$so.so | $(mpi_make)=check $(mpi_list) - || exit; done && touch $@

# docs/conformance.md is a part of the sources, made of the list.
.PHONY: conformance
conformance:
	$(AM_V_GEN)$(mpi_make)=doc $(mpi_list) >conformance.tmp && mv -f conformance.tmp $(srcdir)/docs/conformance.md
