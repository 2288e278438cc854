include_HEADERS += include/mpi.h
mpi_sources = src/mpi/mpi_internal.h src/mpi/init.c src/mpi/env.c src/mpi/error.c src/mpi/p2p.c src/mpi/request.c \
	src/mpi/datatype.c src/mpi/collective.c src/mpi/comm.c
