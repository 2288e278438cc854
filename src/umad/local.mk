# Management datagrams of the software HCA: part of libshca.so; libshca-files.so calls it.
umad_sources = src/umad/answer.c src/umad/file.c src/umad/internal.h src/umad/perf.c src/umad/record.c src/umad/sa.c src/umad/smp.c \
	src/umad/subnet.c src/umad/umad.h
