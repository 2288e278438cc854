/* SPDX-License-Identifier: BSD-3-Clause */
/* A loop over two collectives makes their plans once, for all sizes: the choices (hdl_choose) are counted. */
#include "collectives/internal.h"
#include "mpi_test.h"

int __real_hdl_choose(const struct hdl_plan_key *key, const struct hdl_comm_props *site, struct hdl_choice *out);
int __wrap_hdl_choose(const struct hdl_plan_key *key, const struct hdl_comm_props *site, struct hdl_choice *out);

static int choices;

int __wrap_hdl_choose(const struct hdl_plan_key *key, const struct hdl_comm_props *site, struct hdl_choice *out)
{
	choices++;
	return __real_hdl_choose(key, site, out);
}

enum { BCAST, SCATTER, ALLREDUCE, KINDS };
#define MOST 4096
#define ROUNDS 6
#define MADE 3		/* by then */

int main(int argc, char **argv)
{
	static char in[64 * MOST], out[MOST];

	test_init(&argc, &argv);
	for (int kind = 0; kind < KINDS; kind++)
		for (int n = 4; n <= MOST; n += n < 512 ? 4 : 64)
			for (int i = 0, before = 0; i < ROUNDS; i++) {
				before = i == MADE ? choices : before;
				switch (kind) {
				case BCAST: MPI_Bcast(out, n, MPI_BYTE, 0, MPI_COMM_WORLD); break;
				case SCATTER: MPI_Scatter(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, MPI_COMM_WORLD); break;
				default: MPI_Allreduce(in, out, n / 4, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD); break;
				}
				MPI_Barrier(MPI_COMM_WORLD);
				if (i > MADE && choices != before)
					test_fail(__FILE__, __LINE__, "kind %d, %d bytes: a plan is made in round %d", kind, n,
						  i);
			}
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	return 0;
}
