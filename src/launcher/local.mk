# heddlerun needs the runtime's diagnostics and variables and makes the job's fabric; it needs no other part of the library.
bin_PROGRAMS += heddlerun
heddlerun_SOURCES = src/launcher/launcher.h src/launcher/main.c src/launcher/options.c src/launcher/environ.c \
	src/launcher/fabric.c src/launcher/bind.c src/launcher/place.h src/launcher/place.c src/launcher/server.c src/launcher/spawn.c src/launcher/supervise.c \
	src/launcher/output.c src/runtime/ask.h src/launcher/hang.c src/launcher/guard.c $(runtime_base_sources)
heddlerun_CFLAGS = $(AM_CFLAGS)
heddlerun_LDADD = libshca_core.la $(PMIX_LIBS) $(HWLOC_LIBS)
heddlerun_LDFLAGS = $(NOWRAP)

# The name that scripts expect, in a directory of its own, so that it hides no other MPI's unless asked to.
heddlebindir = $(libexecdir)/heddle/bin
install-exec-hook:
	$(MKDIR_P) "$(DESTDIR)$(heddlebindir)"
	rel=`realpath -m --relative-to="$(heddlebindir)" "$(bindir)"`; \
	rm -f "$(DESTDIR)$(heddlebindir)/mpiexec"; \
	$(LN_S) "$$rel/heddlerun" "$(DESTDIR)$(heddlebindir)/mpiexec"
uninstall-hook:
	rm -f "$(DESTDIR)$(heddlebindir)/mpiexec"
