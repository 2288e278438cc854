/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint of a peer whose operation on this process's memory is under way: hdl_rma_forget_peer keeps it. */
#include <criterion/criterion.h>

#include "transport/core/tp.h"

static struct hdl_tp tp;
static struct hdl_ep peer = { .tp = &tp, .id = 1 }, other = { .tp = &tp, .id = 2 };

Test(transport_served, keeps_the_endpoint)
{
	struct hdl_rma_served first, second, third;

	cr_assert(hdl_rma_forget_peer(&peer));
	hdl_rma_serve(&first, &peer);
	hdl_rma_serve(&second, &other);
	hdl_rma_serve(&third, &peer);
	cr_assert(!hdl_rma_forget_peer(&peer));
	hdl_rma_serve_end(&third);
	cr_assert(!hdl_rma_forget_peer(&peer));
	cr_assert(!hdl_rma_forget_peer(&other));
	hdl_rma_serve_end(&second);
	cr_assert(hdl_rma_forget_peer(&other));
	cr_assert(!hdl_rma_forget_peer(&peer));
	hdl_rma_serve_end(&first);
	cr_assert(hdl_rma_forget_peer(&peer));
	cr_assert(!tp.rma_served);
}
