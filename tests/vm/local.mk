# Linux's Soft-RoCE in emulated guests: a skip where qemu cannot run. `tests/vm/run --long` by hand.
check_PROGRAMS += tests/vm/exchange tests/vm/collective tests/vm/nfs_pages
tests_vm_nfs_pages_SOURCES = tests/vm/nfs_pages.c
tests_vm_nfs_pages_LDADD = libheddle.la
tests_vm_nfs_pages_LDFLAGS = $(NOWRAP)
tests_vm_collective_SOURCES = tests/vm/collective.c
tests_vm_collective_LDADD = libheddle.la
tests_vm_collective_LDFLAGS = $(NOWRAP)
tests_vm_exchange_SOURCES = tests/vm/exchange.c
tests_vm_exchange_LDADD = libheddle.la
tests_vm_exchange_LDFLAGS = $(NOWRAP)
TESTS += tests/vm/run
EXTRA_DIST += tests/vm/run tests/vm/guest.sh tests/vm/init tests/vm/job.sh tests/vm/rsh tests/vm/jobs/one.sh \
	tests/vm/jobs/devices.sh tests/vm/jobs/two.sh tests/vm/jobs/ended_rc.sh tests/vm/jobs/ended_ud.sh \
	tests/vm/jobs/cut_rc.sh tests/vm/jobs/cut_ud.sh tests/vm/jobs/died.sh tests/vm/jobs/ended_coll.sh \
	tests/vm/jobs/cm.sh tests/vm/jobs/netem.sh tests/vm/jobs/nfs.sh tests/vm/jobs/rma.sh tests/vm/jobs/speed.sh
