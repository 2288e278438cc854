/* SPDX-License-Identifier: BSD-3-Clause */
/* A type's constructor and arguments, as MPI_Type_get_contents returns them (MPI-5.0 section 5.1.13). */
#include "datatype/layout.h"

/*
 * The arguments of a constructor by kind, in the order of struct hdl_type's args: I is an int in every form, C a count
 * that is an int or a large count, A an address that is a MPI_Aint or a large count. A kind that is followed by n is an
 * array of count entries, by d of ndims entries.
 */
static const char *contents_kinds(int combiner)
{
	switch (combiner) {
	case MPI_COMBINER_CONTIGUOUS:
		return "C";
	case MPI_COMBINER_VECTOR:
		return "CCC";
	case MPI_COMBINER_HVECTOR:
		return "CCA";
	case MPI_COMBINER_INDEXED:
		return "CCnCn";
	case MPI_COMBINER_HINDEXED:
	case MPI_COMBINER_STRUCT:
		return "CCnAn";
	case MPI_COMBINER_INDEXED_BLOCK:
		return "CCCn";
	case MPI_COMBINER_HINDEXED_BLOCK:
		return "CCAn";
	case MPI_COMBINER_SUBARRAY:
		return "ICdCdCdI";
	case MPI_COMBINER_DARRAY:
		return "IIICdIdIdIdI";
	case MPI_COMBINER_RESIZED:
		return "AA";
	case MPI_COMBINER_F90_REAL:
	case MPI_COMBINER_F90_COMPLEX:
		return "II";
	case MPI_COMBINER_F90_INTEGER:
		return "I";
	default:
		return "";
	}
}

/* The number of entries of the kind at *k; moves *k to the next kind. */
static MPI_Count entries(const struct hdl_type *t, const char **k)
{
	char length = *++*k;

	if (length != 'n' && length != 'd')
		return 1;
	++*k;
	return length == 'n' || t->combiner == MPI_COMBINER_SUBARRAY ? t->args[0] : t->args[2];
}

struct hdl_contents hdl_type_contents(const struct hdl_type *t)
{
	struct hdl_contents c = { .types = t->ntypes };

	for (const char *k = contents_kinds(t->combiner); *k;) {
		char kind = *k;
		MPI_Count n = entries(t, &k);

		if (kind == 'I' || (kind == 'C' && !t->large))
			c.integers += n;
		else if (t->large)
			c.large_counts += n;
		else
			c.addresses += n;
	}
	return c;
}

void hdl_type_decode(struct hdl_type *t, int *integers, MPI_Aint *addresses, MPI_Count *large_counts,
		     MPI_Datatype *types)
{
	const MPI_Count *arg = t->args;

	for (const char *k = contents_kinds(t->combiner); *k;) {
		char kind = *k;

		for (MPI_Count n = entries(t, &k); n > 0; n--, arg++)
			if (kind == 'I' || (kind == 'C' && !t->large))
				*integers++ = (int)*arg;
			else if (t->large)
				*large_counts++ = *arg;
			else
				*addresses++ = (MPI_Aint)*arg;
	}
	for (MPI_Count i = 0; i < t->ntypes; i++) {
		hdl_type_open(t->types[i]);
		types[i] = hdl_type_handle(t->types[i]);
	}
}
