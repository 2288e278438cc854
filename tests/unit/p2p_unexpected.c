/* SPDX-License-Identifier: BSD-3-Clause */
/* Unexpected messages beyond the limits: the warning, and HDL_CTL_HOLD for their senders. */
#include <criterion/criterion.h>
#include <string.h>

#include "p2p/comm/comm.h"
#include "p2p/match.h"
#include "p2p_ops.h"

TestSuite(p2p_unexpected, .init = p2p_setup, .fini = p2p_teardown, .timeout = 60);

Test(p2p_unexpected, much_unexpected_names_the_sender)
{
	static char big[4096];

	for (int i = 0; i < 300; i++)
		mock_eager(i % 3 ? 3 : 1, i, 0, big, sizeof(big));
	cr_assert(strstr(mock_last_warning, "rank 3"), "%s", mock_last_warning);
	for (int i = 0; i < 300; i++)
		hdl_recv(big, sizeof(big), bytes_t, MPI_ANY_SOURCE, i, &hdl_world, 0, NULL);
	cr_assert_eq(hdl_mpi_matching->unexpected_bytes, 0);
}

/* Its own setup and end: 0 is read at the start. */
Test(p2p_unexpected, unexpected_without_warning)
{
	static char big[4096];

	hdl_p2p_fini(false);
	hdl_vars.unexpected_warn = 0;
	hdl_p2p_init();
	mock_last_warning[0] = 0;
	for (int i = 0; i < 300; i++)
		mock_eager(1, i, 0, big, sizeof(big));
	cr_assert_eq(mock_last_warning[0], 0, "%s", mock_last_warning);
	for (int i = 0; i < 300; i++)
		hdl_recv(big, sizeof(big), bytes_t, MPI_ANY_SOURCE, i, &hdl_world, 0, NULL);
}

static void receive(int src, int tag)
{
	static char big[4096];

	hdl_recv(big, sizeof(big), bytes_t, src, tag, &hdl_world, 0, NULL);
}

/* A peer whose unexpected messages exceed its part gets HDL_CTL_HOLD once, and is released by the same message when half of
 * them is received: limit 4 MiB, messages of 8 KiB. Only peers with more than a quarter of the limit (four ranks) are held,
 * and half of that releases them. */
Test(p2p_unexpected, much_unexpected_is_held_back)
{
	static char big[4096];
	int n = 0;

	cr_assert_eq(hdl_job.size, 4);
	for (; n < 512; n++)
		mock_eager(1, n, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 0);
	mock_eager(1, 9000, 0, big, HDL_HOLD_LEAST);
	cr_assert_eq(mock_nholds, 0, "a message no longer than an announcement has a higher limit");
	mock_eager(1, n++, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 1);
	cr_assert_eq(mock_holds[0], 1);
	mock_eager(1, n++, 0, big, sizeof(big));
	for (int i = 0; i < 128; i++)
		mock_eager(3, i, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 1, "3 has sent no more than its part");
	mock_eager(3, 128, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 2);
	cr_assert_eq(mock_holds[1], 3);
	mock_rts(2, 9001, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 2, "an announcement takes no room");
	for (int i = 0; i < 64; i++)
		receive(3, i);
	cr_assert_eq(mock_nholds, 2);
	receive(3, 64);
	cr_assert_eq(mock_nholds, 3, "a sender whose messages were received is let go, whatever else is here");
	cr_assert_eq(mock_holds[2], -3);
	for (int i = 65; i < 129; i++)
		receive(3, i);
	while (n > 256)
		receive(1, --n);
	cr_assert_eq(mock_nholds, 3);
	receive(1, 9000);
	cr_assert_eq(mock_nholds, 4);
	cr_assert_eq(mock_holds[3], -1);
}

/* Messages no longer than an announcement have a limit, too, 16 MiB here; their sender keeps all messages until half of them are
 * received, or until half of its share is. */
Test(p2p_unexpected, many_short_unexpected_are_held_back)
{
	static char text[HDL_HOLD_LEAST];
	size_t limit = (size_t)16 << 20;
	int n = 0, sent;

	while (hdl_mpi_matching->unexpected_bytes <= limit) {
		cr_assert_eq(mock_nholds, 0, "after %d messages", n);
		mock_eager(1, n, 0, text, n % 2 ? sizeof(text) : 0);
		n++;
	}
	cr_assert(mock_nholds == 1 && mock_holds[0] == 1 && mock_hold == HDL_EAGER_NONE);
	mock_eager(1, n++, 0, text, sizeof(text));
	mock_eager(2, 0, 0, text, sizeof(text));
	cr_assert_eq(mock_nholds, 1, "told once; 2 has sent no more than its share");
	mock_rts(1, n, 0, text, sizeof(text));
	mock_rts(1, n + 1, 0, NULL, 0);
	receive(1, n);
	receive(1, n + 1);
	cr_assert_eq(mock_fetches, 2);
	for (sent = n; n > sent / 2 + 2; n--)
		receive(1, n - 1);
	cr_assert_eq(mock_nholds, 1);
	while (n > sent / 2 - 2)
		receive(1, --n);
	cr_assert(mock_nholds == 2 && mock_holds[1] == -1 && mock_hold == HDL_EAGER_ON);
}

/* A sender that announces its messages beyond 32 bytes, and goes on with shorter ones, announces all in the end. */
Test(p2p_unexpected, a_held_sender_of_short_messages_is_held_altogether)
{
	static char big[4096], text[8];
	int n = 0;

	for (; n < 514; n++)
		mock_eager(1, n, 0, big, sizeof(big));
	cr_assert(mock_nholds == 1 && mock_hold == HDL_EAGER_SHORT);
	for (; hdl_mpi_matching->unexpected_bytes <= (size_t)16 << 20; n++)
		mock_eager(1, n, 0, text, sizeof(text));
	cr_assert(mock_nholds == 2 && mock_holds[1] == 1 && mock_hold == HDL_EAGER_NONE);
	cr_assert_eq(hdl_mpi_matching->neager_off, 1);
}
