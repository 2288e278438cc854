# Diagnostics and variables: also what heddlerun and the tools need.
runtime_base_sources = src/runtime/diag.c src/runtime/launched_by.c src/runtime/launched_by.h src/runtime/nearest.c \
	src/runtime/output.c src/runtime/proc.c src/runtime/runtime.h src/runtime/vars.c src/runtime/vars.def \
	src/shca/fabric/vars.def
runtime_sources = $(runtime_base_sources) src/runtime/exchange.h src/runtime/exchange.c src/runtime/job.c src/runtime/thread.h src/runtime/watchdog.h \
	src/runtime/watchdog.c src/runtime/threads.h src/runtime/threads.c src/runtime/events.h src/runtime/alive.c src/runtime/ask.h \
	src/runtime/wait.h src/runtime/syscalls.h src/runtime/syscalls.c src/runtime/autotune.h src/runtime/autotune.c \
	src/runtime/ask.c src/runtime/backtrace.c src/runtime/leaks.c src/runtime/ledger.h src/runtime/ledger.c src/runtime/ledger_report.c src/runtime/jobs.h src/runtime/jobs.c \
	src/runtime/file.c src/runtime/pmix_fds.h src/runtime/pmix_fds.c src/runtime/psets.c \
	src/runtime/soft.c src/runtime/spawn.c src/runtime/behind.c src/runtime/publish.c
# Objects behind handles: with datatypes, which some tests have without the rest.
object_sources = src/runtime/object.h src/runtime/object.c
