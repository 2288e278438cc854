datatype_sources = src/datatype/datatype.h src/datatype/predefined.c src/datatype/derived.c src/datatype/pack.c
