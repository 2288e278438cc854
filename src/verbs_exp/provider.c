/* SPDX-License-Identifier: BSD-3-Clause */
/* Which provider a context has. */
#include "verbs_exp/provider.h"

const struct ibv_exp_provider *exp_provider(struct ibv_context *ctx)
{
	const struct ibv_exp_provider *ops;

	if (!ctx)
		return NULL;
	ops = shca_exp_provider(ctx);
	return ops ? ops : exp_mlx5_provider(ctx);
}
