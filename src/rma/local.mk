# One-sided communication.
rma_sources = src/rma/rma.h src/rma/epoch.h src/rma/failpoint.h src/rma/hashed.h src/rma/lock.h src/rma/reach.h src/rma/side.h src/rma/win.c src/rma/move.c src/rma/regions.c \
	src/rma/agent.c src/rma/acc.c src/rma/msg.c src/rma/locks.c src/rma/sync.c src/rma/report.c src/rma/helper.c
