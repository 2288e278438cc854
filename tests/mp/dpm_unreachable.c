/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Comm_spawn where the last parent, which is not the root, cannot reach the spawned processes: each parent gets
 * MPI_ERR_SPAWN, also in array_of_errcodes, and the parents' communicator can be used further. With "dies" the first spawned
 * process is killed when the parents and the spawned processes exchange their addresses, so that the root has another error than
 * the last parent.
 *
 *     dpm_unreachable [dies]
 *
 * hdl_peer_add is wrapped (--wrap).
 */
#include "dpm_test.h"

#include <errno.h>
#include <signal.h>

#include "transport/transport.h"

static bool refuses, dies;

int __real_hdl_peer_add(struct hdl_tp *tp, int proc, const void *address, size_t bytes);
int __wrap_hdl_peer_add(struct hdl_tp *tp, int proc, const void *address, size_t bytes);

int __wrap_hdl_peer_add(struct hdl_tp *tp, int proc, const void *address, size_t bytes)
{
	static int calls;

	/* the first call is the handshake's */
	if (dies && calls++)
		raise(SIGKILL);
	return refuses ? -EHOSTUNREACH : __real_hdl_peer_add(tp, proc, address, bytes);
}

static int spawn(char *self, char *what, MPI_Comm *inter, int codes[2])
{
	char *argv[] = { what, NULL };

	codes[0] = codes[1] = -1;
	return MPI_Comm_spawn(self, argv, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes);
}

static void parents(char *self, char *what)
{
	MPI_Comm inter = MPI_COMM_NULL, copy;
	int codes[2], sum = 0;

	refuses = me == np - 1;
	CHECK(class_of(spawn(self, what, &inter, codes)) == MPI_ERR_SPAWN);
	CHECK(inter == MPI_COMM_NULL);
	CHECK(class_of(codes[0]) == MPI_ERR_SPAWN && class_of(codes[1]) == MPI_ERR_SPAWN);
	refuses = false;
	CHECK(!MPI_Comm_dup(MPI_COMM_WORLD, &copy));
	CHECK(!MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, copy) && sum == np * (np - 1) / 2);
	CHECK(!MPI_Comm_free(&copy));
	CHECK(!spawn(self, (char[]){ "lives" }, &inter, codes) && !codes[0] && !codes[1]);
	CHECK(!MPI_Comm_disconnect(&inter));
}

int main(int argc, char **argv)
{
	const char *rank = getenv("PMIX_RANK"), *what = argc > 1 ? argv[1] : "";

	dies = !strcmp(what, "child_dies") && rank && !strcmp(rank, "0");
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_get_parent(&parent);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (parent == MPI_COMM_NULL)
		parents(argv[0], strcmp(what, "dies") ? (char[]){ "child" } : (char[]){ "child_dies" });
	else
		MPI_Comm_disconnect(&parent);
	MPI_Finalize();
	return failed;
}
