# One-sided communication.
rma_sources = src/rma/rma.h src/rma/element.h src/rma/epoch.h src/rma/failpoint.h src/rma/hashed.h src/rma/lock.h src/rma/message.h src/rma/operation.h \
	src/rma/reach.h src/rma/side.h src/rma/sync.h src/rma/target.h \
	src/rma/error.c src/rma/target.c src/rma/request.c src/rma/element.c src/rma/message.c src/rma/control.c src/rma/flush.c src/rma/regions.c \
	src/rma/acc_origin.c src/rma/acc_target.c src/rma/move.c src/rma/acc.c src/rma/agent.c src/rma/locks.c src/rma/sync.c src/rma/report.c \
	src/rma/helper.c src/rma/win.c
