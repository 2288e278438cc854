datatype_sources = $(object_sources) src/datatype/datatype.h src/datatype/layout.h src/datatype/copy.h src/datatype/predefined.c \
	src/datatype/type.c src/datatype/construct.c src/datatype/contents.c src/datatype/layout.c src/datatype/compile.c \
	src/datatype/stream.c src/datatype/elements.c src/datatype/external.c
