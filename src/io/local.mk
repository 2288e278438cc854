# Files.
io_sources = src/io/io.h src/io/file.c src/io/datarep.c src/io/view.c src/io/access.c src/io/blocks.c src/io/calls.c src/io/scatter.c src/io/pool.c src/io/shared.c src/io/error.c src/io/collective.c src/io/domains.h src/io/domains.c src/io/window.h src/io/window.c
