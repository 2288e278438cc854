# heddlerun makes the job's fabric, and needs the runtime's diagnostics and variables, but no other part of the library.
bin_PROGRAMS += heddlerun
heddlerun_SOURCES = src/launcher/launcher.h src/launcher/main.c src/launcher/options.c src/launcher/environ.c \
	src/launcher/fabric.c src/launcher/bind.c src/launcher/place.h src/launcher/place.c src/launcher/server.c \
	src/launcher/accept.c src/launcher/spawn.c src/launcher/supervise.c src/launcher/output.c src/runtime/ask.h \
	src/launcher/hang.c src/launcher/guard.c src/launcher/nspace.c src/launcher/notes.c src/launcher/detached.c \
	src/launcher/terminal.c src/launcher/dynamic.c src/launcher/names.c src/launcher/behind.c \
	src/runtime/soft.c $(runtime_base_sources)
heddlerun_CFLAGS = $(AM_CFLAGS)
heddlerun_LDADD = libshca_core.la $(PMIX_LIBS) $(HWLOC_LIBS)
heddlerun_LDFLAGS = $(NOWRAP)

# The names that scripts expect (mpi_names): MPI_HOME is $(libexecdir)/heddle.
heddlebindir = $(libexecdir)/heddle/bin
install-exec-hook:
	$(MKDIR_P) "$(DESTDIR)$(heddlebindir)"
	rel=`realpath -m --relative-to="$(heddlebindir)" "$(bindir)"`; \
	for n in $(mpi_names); do \
		rm -f "$(DESTDIR)$(heddlebindir)/$${n%:*}" && $(LN_S) "$$rel/$${n#*:}" "$(DESTDIR)$(heddlebindir)/$${n%:*}" || exit 1; \
	done
uninstall-hook:
	for n in $(mpi_names); do rm -f "$(DESTDIR)$(heddlebindir)/$${n%:*}"; done
