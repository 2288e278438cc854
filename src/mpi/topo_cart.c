/* SPDX-License-Identifier: BSD-3-Clause */
/* Cartesian topologies (MPI-5.0 sections 8.5.1, 8.5.2, 8.5.5 to 8.5.7). Ranks are in row-major order. */
#include "mpi/reorder.h"
#include "mpi/topo.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- coordinates --------------------------------------------------------------------------------------- */

static void coords_of(const struct hdl_topo *t, int rank, int *coords)
{
	for (int d = t->cart.ndims; d--;) {
		coords[d] = rank % t->cart.dims[d];
		rank /= t->cart.dims[d];
	}
}

static int wrap(long long at, int dim)
{
	at %= dim;
	return (int)(at < 0 ? at + dim : at);
}

static int topo_cart_rank_of(const struct hdl_topo *t, const int *coords)
{
	int rank = 0;

	for (int d = 0; d < t->cart.ndims; d++)
		rank = rank * t->cart.dims[d] + wrap(coords[d], t->cart.dims[d]);
	return rank;
}

/* Checks a grid. *n: its number of ranks. */
static int check_grid(struct hdl_comm *c, const char *call, int ndims, const int *dims, const int *periods, int *n)
{
	long long product = 1;

	if (ndims < 0)
		return hdl_raise(c, MPI_ERR_DIMS, call, "invalid ndims %d: it must not be negative", ndims);
	if (ndims && (!dims || !periods))
		return hdl_null_arg(c, call, dims ? "periods" : "dims");
	for (int d = 0; d < ndims; d++) {
		if (dims[d] <= 0)
			return hdl_raise(c, MPI_ERR_DIMS, call, "invalid dims[%d] %d: it must be positive", d, dims[d]);
		product *= dims[d];
		if (product > c->size)
			return hdl_raise(c, MPI_ERR_DIMS, call, "invalid dims: their product up to dims[%d] is %lld, and the "
					 "communicator has %d rank%s", d, product, c->size, c->size == 1 ? "" : "s");
	}
	*n = (int)product;
	return MPI_SUCCESS;
}

static struct hdl_topo *cart_new(int ndims, const int *dims, const int *periods)
{
	struct hdl_topo *t = hdl_topo_new(MPI_CART, 3 * (size_t)ndims);

	t->cart.ndims = ndims;
	t->cart.dims = t->data;
	t->cart.periods = t->data + ndims;
	t->cart.coords = t->data + 2 * ndims;
	for (int d = 0; d < ndims; d++) {
		t->cart.dims[d] = dims[d];
		t->cart.periods[d] = periods[d] != 0;
	}
	return t;
}

/* ---- constructors -------------------------------------------------------------------------------------- */

static int rank_in(struct hdl_comm *c, const int *order, int n)
{
	for (int r = 0; order && r < n; r++)
		if (order[r] == c->rank)
			return r;
	return order || c->rank >= n ? MPI_UNDEFINED : c->rank;
}

int PMPI_Cart_create(MPI_Comm comm_old, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm *comm_cart)
{
	HDL_LOCKED;
	HDL_GIVES(comm_cart);
	static const char call[] = "MPI_Cart_create";
	struct hdl_comm *c = hdl_intracomm_get(comm_old);
	int n, rc, rank, *order = NULL;
	struct hdl_topo *t;

	if (!c)
		return hdl_bad_intracomm(call, comm_old);
	rc = check_grid(c, call, ndims, dims, periods, &n);
	if (rc)
		return rc;
	if (!comm_cart)
		return hdl_null_arg(c, call, "comm_cart");
	hdl_call = call;
	if (reorder)
		rc = hdl_reorder_grid(c, ndims, dims, periods, n, &order);
	if (rc)
		return hdl_raise_class(c, rc, call);
	t = cart_new(ndims, dims, periods);
	rank = rank_in(c, order, n);
	if (rank != MPI_UNDEFINED)
		coords_of(t, rank, t->cart.coords);
	rc = hdl_topo_return(c, call, t, order, n, comm_cart);
	free(order);
	return rc;
}
HDL_PROFILED(Cart_create);

int PMPI_Cart_sub(MPI_Comm comm, const int remain_dims[], MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	static const char call[] = "MPI_Cart_sub";
	int rc, color = 0, key = 0, n = 0, *dims;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_CART, &rc), *sub;
	struct hdl_comm *c = hdl_comm_get(comm), *made;

	if (!t)
		return rc;
	if (!c)
		return hdl_bad_comm(call, comm);
	if (!newcomm || (!remain_dims && t->cart.ndims))
		return hdl_null_arg(c, call, newcomm ? "remain_dims" : "newcomm");
	sub = hdl_topo_new(MPI_CART, 3 * (size_t)t->cart.ndims);
	dims = sub->data;
	for (int d = 0; d < t->cart.ndims; d++) {
		int *into = remain_dims[d] ? &key : &color;

		*into = *into * t->cart.dims[d] + t->cart.coords[d];
		if (!remain_dims[d])
			continue;
		dims[n] = t->cart.dims[d];
		dims[t->cart.ndims + n] = t->cart.periods[d];
		dims[2 * t->cart.ndims + n++] = t->cart.coords[d];
	}
	sub->cart.ndims = n;
	sub->cart.dims = dims;
	sub->cart.periods = dims + t->cart.ndims;
	sub->cart.coords = dims + 2 * t->cart.ndims;
	hdl_call = call;
	rc = hdl_comm_split(c, color, key, &made);
	if (rc) {
		hdl_topo_release(sub);
		return hdl_raise_class(c, rc, call);
	}
	made->topo = sub;
	*newcomm = (MPI_Comm)made;
	return MPI_SUCCESS;
}
HDL_PROFILED(Cart_sub);

/* The rank that MPI_Cart_create gives without reordering: one rank alone does not know where the others are bound. */
int PMPI_Cart_map(MPI_Comm comm, int ndims, const int dims[], const int periods[], int *newrank)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Cart_map";
	struct hdl_comm *c = hdl_intracomm_get(comm);
	int n, rc;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	rc = check_grid(c, call, ndims, dims, periods, &n);
	if (rc)
		return rc;
	if (!newrank)
		return hdl_null_arg(c, call, "newrank");
	*newrank = rank_in(c, NULL, n);
	return MPI_SUCCESS;
}
HDL_PROFILED(Cart_map);

/* ---- inquiry ------------------------------------------------------------------------------------------- */

int PMPI_Cartdim_get(MPI_Comm comm, int *ndims)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Cartdim_get";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_CART, &rc);

	if (!t)
		return rc;
	if (!ndims)
		return hdl_null_arg(hdl_comm_get_local(comm), call, "ndims");
	*ndims = t->cart.ndims;
	return MPI_SUCCESS;
}
HDL_PROFILED(Cartdim_get);

static int check_maxdims(const char *call, MPI_Comm comm, const struct hdl_topo *t, int maxdims)
{
	return maxdims < t->cart.ndims ?
		       hdl_raise(hdl_comm_get_local(comm), MPI_ERR_DIMS, call,
				 "invalid maxdims %d: the topology has %d dimensions", maxdims, t->cart.ndims) :
		       MPI_SUCCESS;
}

int PMPI_Cart_get(MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[])
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Cart_get";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_CART, &rc);
	size_t bytes;

	if (!t)
		return rc;
	rc = check_maxdims(call, comm, t, maxdims);
	if (rc || !t->cart.ndims)
		return rc;
	if (!dims || !periods || !coords)
		return hdl_null_arg(hdl_comm_get_local(comm), call, !dims ? "dims" : !periods ? "periods" : "coords");
	bytes = (size_t)t->cart.ndims * sizeof(*dims);
	memcpy(dims, t->cart.dims, bytes);
	memcpy(periods, t->cart.periods, bytes);
	memcpy(coords, t->cart.coords, bytes);
	return MPI_SUCCESS;
}
HDL_PROFILED(Cart_get);

int PMPI_Cart_rank(MPI_Comm comm, const int coords[], int *rank)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Cart_rank";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_CART, &rc);

	if (!t)
		return rc;
	if (!rank || (!coords && t->cart.ndims))
		return hdl_null_arg(hdl_comm_get_local(comm), call, rank ? "coords" : "rank");
	for (int d = 0; d < t->cart.ndims; d++)
		if (!t->cart.periods[d] && (coords[d] < 0 || coords[d] >= t->cart.dims[d]))
			return hdl_raise(hdl_comm_get_local(comm), MPI_ERR_ARG, call,
					 "invalid coords[%d] %d: the dimension is not "
					 "periodic, and has 0..%d",
					 d, coords[d], t->cart.dims[d] - 1);
	*rank = topo_cart_rank_of(t, coords);
	return MPI_SUCCESS;
}
HDL_PROFILED(Cart_rank);

int PMPI_Cart_coords(MPI_Comm comm, int rank, int maxdims, int coords[])
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Cart_coords";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_CART, &rc);
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (!t)
		return rc;
	if (rank < 0 || rank >= c->size)
		return hdl_bad_rank(c, MPI_ERR_RANK, call, "rank", rank);
	rc = check_maxdims(call, comm, t, maxdims);
	if (rc || !t->cart.ndims)
		return rc;
	if (!coords)
		return hdl_null_arg(c, call, "coords");
	coords_of(t, rank, coords);
	return MPI_SUCCESS;
}
HDL_PROFILED(Cart_coords);

/* Returns the rank so many steps away, or MPI_PROC_NULL beyond an edge. */
int hdl_cart_away(const struct hdl_topo *t, int direction, long long steps)
{
	int dim = t->cart.dims[direction], stride = 1, at = t->cart.coords[direction], rank = 0;
	long long to = at + steps;

	if (!t->cart.periods[direction] && (to < 0 || to >= dim))
		return MPI_PROC_NULL;
	for (int d = 0; d < t->cart.ndims; d++) {
		rank = rank * t->cart.dims[d] + t->cart.coords[d];
		if (d > direction)
			stride *= t->cart.dims[d];
	}
	return rank + (wrap(to, dim) - at) * stride;
}

int PMPI_Cart_shift(MPI_Comm comm, int direction, int disp, int *rank_source, int *rank_dest)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Cart_shift";
	int rc;
	struct hdl_topo *t = hdl_topo_get(call, comm, MPI_CART, &rc);

	if (!t)
		return rc;
	if (direction < 0 || direction >= t->cart.ndims)
		return hdl_raise(hdl_comm_get_local(comm), MPI_ERR_ARG, call,
				 "invalid direction %d: the topology has %d dimensions", direction, t->cart.ndims);
	if (!rank_source || !rank_dest)
		return hdl_null_arg(hdl_comm_get_local(comm), call, rank_source ? "rank_dest" : "rank_source");
	*rank_source = hdl_cart_away(t, direction, -(long long)disp);
	*rank_dest = hdl_cart_away(t, direction, disp);
	return MPI_SUCCESS;
}
HDL_PROFILED(Cart_shift);

/* ---- MPI_Dims_create ----------------------------------------------------------------------------------- */

/* Writes the divisors of n in ascending order; an int has at most 1536. Returns how many. */
static int divisors(int n, int *out)
{
	int k = 0, large[1024], l = 0;

	for (int d = 1; (long long)d * d <= n; d++)
		if (n % d == 0) {
			out[k++] = d;
			if (d != n / d)
				large[l++] = n / d;
		}
	while (l)
		out[k++] = large[--l];
	return k;
}

/* Writes the prime factors of n in descending order; an int has at most 30. Returns how many. */
static int primes(int n, int *out)
{
	int k = 0;

	for (int p = 2; (long long)p * p <= n; p++)
		for (; n % p == 0; n /= p)
			out[k++] = p;
	if (n > 1)
		out[k++] = n;
	for (int i = 0, j = k - 1; i < j; i++, j--) {
		int p = out[i];

		out[i] = out[j];
		out[j] = p;
	}
	return k;
}

/* Returns true if x to the power of k is less than n. */
static bool power_below(int x, int k, int n)
{
	long long power = 1;

	while (k-- && power < n)
		power *= x;
	return power < n;
}

#define MOST_FACTORS 30

/* A search for k factors of n with the smallest difference between the largest and the smallest. */
struct search {
	const int *divs;
	int k;
	int spread;			/* of the best solution; INT_MAX: none yet */
	int trial[MOST_FACTORS], best[MOST_FACTORS];
};

/* trial[0 .. at - 1] is chosen. Chooses the other factors of n in descending order: each at most divs[last], and large enough
 * that the spread stays below that of the best solution. Of equal spreads the first solution stays, which has the smallest
 * large factors. */
static void choose_factors(struct search *s, int rest, int at, int last)
{
	int ndims_left = s->k - at;

	if (ndims_left == 1) {
		if (rest > s->divs[last] || s->trial[0] - rest >= s->spread)
			return;
		s->spread = s->trial[0] - rest;
		s->trial[at] = rest;
		memcpy(s->best, s->trial, sizeof(s->best));
		return;
	}
	for (int i = 0; i <= last && s->divs[i] <= rest; i++) {
		int d = s->divs[i];

		/* the other factors are not larger, so their product is too small */
		if (rest % d || power_below(d, ndims_left, rest))
			continue;
		/* the smallest factor is at most the mean of the remaining ones, which decreases as d increases */
		if (s->spread <= s->trial[0] && !power_below(s->trial[0] - s->spread, ndims_left - 1, rest / d))
			return;
		s->trial[at] = d;
		choose_factors(s, rest / d, at + 1, i);
	}
}

/* Writes n as k factors in descending order, with the smallest spread; of these with the smallest first factor, then the
 * smallest second one, and so on. Writes at most MOST_FACTORS; the others are 1. */
static void factors(int n, int k, int *out)
{
	int divs[2048], ndivs, nprimes = primes(n, out), largest = nprimes ? out[0] : 1;
	struct search s = { .divs = divs, .k = k, .spread = INT_MAX };

	for (int i = nprimes; i < MOST_FACTORS; i++)
		out[i] = 1;
	if (k >= nprimes || !k)		/* no solution has smaller factors */
		return;
	ndivs = divisors(n, divs);
	for (int i = 0; i < ndivs; i++) {
		s.trial[0] = divs[i];
		if (divs[i] < largest || power_below(divs[i], k, n))
			continue;
		if (k == 1) {
			s.best[0] = n;
			break;
		}
		if (s.spread <= divs[i] && !power_below(divs[i] - s.spread, k - 1, n / divs[i]))
			break;
		choose_factors(&s, n / divs[i], 1, i);
	}
	memcpy(out, s.best, (size_t)k * sizeof(*out));
}

int PMPI_Dims_create(int nnodes, int ndims, int dims[])
{
	HDL_LOCKED;
	static const char call[] = "MPI_Dims_create";
	int rest = nnodes, nfree = 0, next = 0, found[MOST_FACTORS];

	hdl_check_active(call);
	if (nnodes <= 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid nnodes %d: it must be positive", nnodes);
	if (ndims < 0)
		return hdl_raise(NULL, MPI_ERR_DIMS, call, "invalid ndims %d: it must not be negative", ndims);
	if (ndims && !dims)
		return hdl_null_arg(NULL, call, "dims");
	for (int d = 0; d < ndims; d++) {
		if (dims[d] < 0)
			return hdl_raise(NULL, MPI_ERR_DIMS, call, "invalid dims[%d] %d: it must not be negative", d, dims[d]);
		if (dims[d] && rest % dims[d])
			return hdl_raise(NULL, MPI_ERR_DIMS, call,
					 "invalid dims[%d] %d: nnodes %d is no multiple of the dimensions "
					 "that are given",
					 d, dims[d], nnodes);
		if (dims[d])
			rest /= dims[d];
		else
			nfree++;
	}
	if (!nfree && rest != 1)
		return hdl_raise(NULL, MPI_ERR_DIMS, call,
				 "invalid dims: all %d are given, and their product is %d, not nnodes %d", ndims, nnodes / rest,
				 nnodes);
	factors(rest, nfree, found);
	for (int d = 0; d < ndims; d++)
		if (!dims[d])
			dims[d] = next < MOST_FACTORS ? found[next++] : 1;
	return MPI_SUCCESS;
}
HDL_PROFILED(Dims_create);
