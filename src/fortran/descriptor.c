/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice buffers that are not contiguous (MPI-5.0 section 19.1.12): array sections, components of arrays of derived type.
 *
 * (count, datatype) of the call describe the elements of the array as if they followed each other, in array element
 * order. A datatype is built that describes them where they are, with one hvector per dimension. Example: a(1:6:2,
 * 1:9:4) of REAL a(6,9), count 5:
 *
 *     dimension 0: extent 3, stride 8 bytes      slab 0: one REAL
 *     dimension 1: extent 3, stride 96 bytes     slab 1: hvector(3, 8 bytes, slab 0), one column
 *     5 elements = 1 column + 2 elements         struct { slab 1 at 0, hvector(2, 8 bytes, slab 0) at 96 }
 *
 * The stride of a dimension separates slabs of the dimensions below, each of which has its own stride: it
 * never multiplies an extent.
 */
#include "fortran/mpifort.h"

#include <string.h>

#if defined(__has_include)
#if __has_include(<ISO_Fortran_binding.h>)
#include <ISO_Fortran_binding.h>
_Static_assert(offsetof(struct mpifort_desc, base) == offsetof(CFI_cdesc_t, base_addr) &&
		       offsetof(struct mpifort_desc, elem_len) == offsetof(CFI_cdesc_t, elem_len) &&
		       offsetof(struct mpifort_desc, rank) == offsetof(CFI_cdesc_t, rank) &&
		       offsetof(struct mpifort_desc, dim) == offsetof(CFI_cdesc_t, dim) &&
		       sizeof(((struct mpifort_desc *)0)->dim[0]) == sizeof(CFI_dim_t) &&
		       offsetof(CFI_dim_t, extent) == sizeof(ptrdiff_t) && offsetof(CFI_dim_t, sm) == 2 * sizeof(ptrdiff_t) &&
		       CFI_MAX_RANK == 15,
	       "struct mpifort_desc is not CFI_cdesc_t");
#endif
#endif

bool mpifort_strided(const struct mpifort_desc *d)
{
	ptrdiff_t next = (ptrdiff_t)d->elem_len;
	bool strided = false;

	for (int i = 0; i < d->rank; i++) {
		if (d->dim[i].extent == 0)
			return false;
		/* -1: the last dimension of an assumed-size array */
		if (d->dim[i].extent != 1 && d->dim[i].sm != next)
			strided = true;
		next *= d->dim[i].extent;
	}
	return strided;
}

/* ---- copies ----------------------------------------------------------------------------------------------- */

/* Copies the elements of dimensions 0 to dim of an array from (or to) contiguous memory. Returns the end of that memory. */
static char *desc_copy(const struct mpifort_desc *d, int dim, char *array, char *memory, bool back)
{
	size_t len = d->elem_len;

	for (ptrdiff_t i = 0; i < d->dim[dim].extent; i++, array += d->dim[dim].sm) {
		if (dim > 0) {
			memory = desc_copy(d, dim - 1, array, memory, back);
			continue;
		}
		memcpy(back ? array : memory, back ? memory : array, len);
		memory += len;
	}
	return memory;
}

int mpifort_copied_strided(struct mpifort_buffer *b, const struct mpifort_desc *d, enum mpifort_mode mode)
{
	size_t bytes = d->elem_len;

	if (mode == MPIFORT_IGNORED)
		return MPI_SUCCESS;
	if (mode == MPIFORT_LAYOUT)
		return mpifort_raise(MPI_ERR_BUFFER);
	for (int i = 0; i < d->rank; i++)
		bytes *= (size_t)d->dim[i].extent;
	b->temp = malloc(bytes ? bytes : 1);
	if (!b->temp)
		return mpifort_raise(MPI_ERR_NO_MEM);
	/* a buffer that the call writes is read, too: MPI_IN_PLACE, and elements that the call leaves alone */
	desc_copy(d, d->rank - 1, d->base, b->temp, false);
	b->addr = b->temp;
	b->out = mode == MPIFORT_OUT;
	b->desc = d;
	return MPI_SUCCESS;
}

void mpifort_release(struct mpifort_buffer *b)
{
	if (b->temp && b->out)
		desc_copy(b->desc, b->desc->rank - 1, b->desc->base, b->temp, true);
	free(b->temp);
	if (b->made)
		PMPI_Type_free(&b->type);
	b->temp = NULL;
	b->made = false;
}

void mpifort_copy_again(struct mpifort_buffer *b, bool back)
{
	if (b->temp && (b->out || !back))
		desc_copy(b->desc, b->desc->rank - 1, b->desc->base, b->temp, back);
}

/* ---- datatypes -------------------------------------------------------------------------------------------- */

/* How many elements of `type` fill one array element; 0 if none does in whole, so that a typemap would lead from
 * one element to another. */
static MPI_Count per_element(const struct mpifort_desc *d, MPI_Datatype type)
{
	MPI_Count lb, extent, true_lb, true_extent;

	if (PMPI_Type_get_extent_c(type, &lb, &extent) || PMPI_Type_get_true_extent_c(type, &true_lb, &true_extent))
		return 0;
	if (extent <= 0 || lb != 0 || true_lb < 0 || true_lb + true_extent > extent || (MPI_Count)d->elem_len % extent)
		return 0;
	return (MPI_Count)d->elem_len / extent;
}

/* The parts of a layout, which become a struct. All datatypes are ours. */
struct parts {
	MPI_Datatype type[17];
	MPI_Count disp[17], one[17];
	int n;
};

static int part_add(struct parts *p, MPI_Datatype type, MPI_Count disp)
{
	p->type[p->n] = type;
	p->disp[p->n] = disp;
	p->one[p->n++] = 1;
	return MPI_SUCCESS;
}

/* n of `slab`, `stride` bytes apart; *new is ours. */
static int row(MPI_Count n, MPI_Count stride, MPI_Datatype slab, MPI_Datatype *new)
{
	return n == 1 ? PMPI_Type_dup(slab, new) : PMPI_Type_create_hvector_c(n, 1, stride, slab, new);
}

/*
 * The slabs of an array: slab[0] one element, of `each` of type; slab[i + 1] all of dimension i. Those above dimension top are
 * not made. On an error none is left.
 */
static int slabs_make(const struct mpifort_desc *d, MPI_Count each, MPI_Datatype type, int top, MPI_Datatype slab[16])
{
	int rc = PMPI_Type_contiguous_c(each, type, &slab[0]);

	for (int i = 0; !rc && i < top; i++) {
		rc = row(d->dim[i].extent, d->dim[i].sm, slab[i], &slab[i + 1]);
		for (int j = 0; rc && j <= i; j++)
			PMPI_Type_free(&slab[j]);
	}
	return rc;
}

/* The first `count` elements of type in an array, as parts. */
static int parts_make(struct parts *p, const struct mpifort_desc *d, MPI_Count each, MPI_Count count, MPI_Datatype type)
{
	MPI_Count size[16] = { 1 }, n = count / each, disp = 0;
	MPI_Datatype slab[16], t;
	int top = d->rank - 1, rc;

	for (int i = 0; i < top; i++)
		size[i + 1] = size[i] * d->dim[i].extent;
	rc = slabs_make(d, each, type, top, slab);
	if (rc)
		return rc;
	for (int i = top; !rc && i >= 0; i--) {
		MPI_Count whole = n / size[i];

		n %= size[i];
		if (whole == 0)
			continue;
		rc = row(whole, d->dim[i].sm, slab[i], &t);
		if (!rc)
			part_add(p, t, disp);
		disp += whole * d->dim[i].sm;
	}
	if (!rc && count % each) {
		rc = PMPI_Type_contiguous_c(count % each, type, &t);
		if (!rc)
			part_add(p, t, disp);
	}
	for (int i = 0; i <= top; i++)
		PMPI_Type_free(&slab[i]);
	return rc;
}

/* A committed datatype of the first `count` elements of type in an array. */
static int layout(const struct mpifort_desc *d, MPI_Count each, MPI_Count count, MPI_Datatype type, MPI_Datatype *new)
{
	struct parts p = { .n = 0 };
	int rc = parts_make(&p, d, each, count, type);

	if (!rc) {
		if (p.n == 1 && p.disp[0] == 0)
			rc = PMPI_Type_dup(p.type[0], new);
		else
			rc = PMPI_Type_create_struct_c(p.n, p.one, p.disp, p.type, new);
	}
	for (int i = 0; i < p.n; i++)
		PMPI_Type_free(&p.type[i]);
	return rc ? rc : PMPI_Type_commit(new);
}

static int made(struct mpifort_buffer *b, int rc, MPI_Datatype type)
{
	if (rc)
		return rc;
	b->type = type;
	b->made = true;
	return MPI_SUCCESS;
}

int mpifort_elements_strided(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Count count, MPI_Datatype type,
			     enum mpifort_mode mode)
{
	MPI_Count each;
	MPI_Datatype t = MPI_DATATYPE_NULL;
	int rc;

	if (count <= 0 || mode == MPIFORT_IGNORED || type == MPI_DATATYPE_NULL)
		return MPI_SUCCESS;
	each = per_element(d, type);
	if (!each)
		return mpifort_copied_strided(b, d, mode);
	b->count = 1;
	rc = layout(d, each, count, type, &t);
	return made(b, rc, t);
}

/* Replaces *type, which is ours, by one of another extent. */
static int room_resize(MPI_Datatype *type, MPI_Count extent)
{
	MPI_Datatype old = *type;
	int rc = PMPI_Type_create_resized_c(old, 0, extent, type);

	PMPI_Type_free(&old);
	return rc ? rc : PMPI_Type_commit(type);
}

/*
 * Blocks whose count is a whole number of slabs of the last dimension follow each other in it, at a distance that is a datatype's
 * extent. Other blocks, as of half a column, have no such distance.
 */
int mpifort_blocks_strided(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Count count, MPI_Datatype type,
			   enum mpifort_mode mode)
{
	MPI_Count each, slab = 1;
	ptrdiff_t stride = d->dim[d->rank - 1].sm;
	MPI_Datatype t = MPI_DATATYPE_NULL;
	int rc;

	if (count <= 0 || mode == MPIFORT_IGNORED || type == MPI_DATATYPE_NULL)
		return MPI_SUCCESS;
	each = per_element(d, type);
	for (int i = 0; i < d->rank - 1; i++)
		slab *= d->dim[i].extent;
	if (!each || count % (each * slab) || stride <= 0)
		return mpifort_copied_strided(b, d, mode);
	b->count = 1;
	rc = layout(d, each, count, type, &t);
	if (!rc)
		rc = room_resize(&t, count / (each * slab) * stride);
	return made(b, rc, t);
}

/* Counts and displacements are in elements of a datatype with the extent of the stride, if the array has one dimension. */
int mpifort_vector_strided(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Datatype type, enum mpifort_mode mode)
{
	MPI_Datatype t = MPI_DATATYPE_NULL;
	int rc;

	if (mode == MPIFORT_IGNORED || type == MPI_DATATYPE_NULL)
		return MPI_SUCCESS;
	if (d->rank != 1 || d->dim[0].sm <= 0 || per_element(d, type) != 1)
		return mpifort_copied_strided(b, d, mode);
	rc = PMPI_Type_dup(type, &t);
	if (!rc)
		rc = room_resize(&t, d->dim[0].sm);
	return made(b, rc, t);
}
