/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Experimental verbs that no provider has. Programs that name them link; every call is refused. No function reads its arguments
 * beyond the pointers that lead to the context.
 */
#include "verbs_exp/exported.h"

#include <errno.h>

#include "verbs_exp/provider.h"

#define NO_STEERING "packets are not steered"
#define NO_WQ "receive queues exist in queue pairs and shared ones only, and nothing is spread by hashing"
#define NO_EC "there is no erasure coding"

static int absent(struct ibv_context *ctx, const char *verb, const char *why)
{
	return exp_refuse(ctx, EOPNOTSUPP, "%s: %s", verb, why);
}

static void *absent_pointer(struct ibv_context *ctx, const char *verb, const char *why)
{
	errno = absent(ctx, verb, why);
	return NULL;
}

static int absent_negative(struct ibv_context *ctx, const char *verb, const char *why)
{
	errno = absent(ctx, verb, why);
	return -1;
}

/* The context of an object; NULL is refused as an unknown device is. */
#define VIA(object) ((object) ? (object)->context : NULL)
#define VIA_PD(object) ((object) && (object)->pd ? (object)->pd->context : NULL)

/* ---- memory ------------------------------------------------------------------------------------------------------- */

struct ibv_mr *ibv_exp_reg_shared_mr(struct ibv_exp_reg_shared_mr_in *in)
{
	return absent_pointer(VIA_PD(in), __func__,
			      "regions are not shared by their handle; processes of one fabric share shca_alloc's");
}

/* ---- device ------------------------------------------------------------------------------------------------------- */

int ibv_exp_poll_dc_info(struct ibv_context *context, struct ibv_exp_dc_info_ent *ents, int nent, int port)
{
	return absent_negative(context, __func__, "no subnet manager tells of DC");
}

int ibv_exp_use_priv_env(struct ibv_context *context)
{
	return absent_negative(context, __func__, "variables are the process's");
}

/* ---- steering, receive queues ------------------------------------------------------------------------------------- */

struct ibv_exp_flow *ibv_exp_create_flow(struct ibv_qp *qp, struct ibv_exp_flow_attr *flow)
{
	return absent_pointer(VIA(qp), __func__, NO_STEERING);
}

int ibv_exp_destroy_flow(struct ibv_exp_flow *flow)
{
	return absent(VIA(flow), __func__, NO_STEERING);
}

struct ibv_exp_wq *ibv_exp_create_wq(struct ibv_context *context, struct ibv_exp_wq_init_attr *attr)
{
	return absent_pointer(context, __func__, NO_WQ);
}

int ibv_exp_modify_wq(struct ibv_exp_wq *wq, struct ibv_exp_wq_attr *attr)
{
	return absent(VIA(wq), __func__, NO_WQ);
}

int ibv_exp_destroy_wq(struct ibv_exp_wq *wq)
{
	return absent(VIA(wq), __func__, NO_WQ);
}

struct ibv_exp_rwq_ind_table *ibv_exp_create_rwq_ind_table(struct ibv_context *context,
							   struct ibv_exp_rwq_ind_table_init_attr *attr)
{
	return absent_pointer(context, __func__, NO_WQ);
}

int ibv_exp_destroy_rwq_ind_table(struct ibv_exp_rwq_ind_table *table)
{
	return absent(VIA(table), __func__, NO_WQ);
}

void *ibv_exp_query_intf(struct ibv_context *context, struct ibv_exp_query_intf_params *params,
			 enum ibv_exp_query_intf_status *status)
{
	if (status)
		*status = IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED;
	return absent_pointer(context, __func__, "there are no interfaces by function table");
}

int ibv_exp_release_intf(struct ibv_context *context, void *intf, struct ibv_exp_release_intf_params *params)
{
	return absent(context, __func__, "there are no interfaces by function table");
}

/* ---- erasure coding ----------------------------------------------------------------------------------------------- */

struct ibv_exp_ec_calc *ibv_exp_alloc_ec_calc(struct ibv_pd *pd, struct ibv_exp_ec_calc_init_attr *attr)
{
	return absent_pointer(VIA(pd), __func__, NO_EC);
}

void ibv_exp_dealloc_ec_calc(struct ibv_exp_ec_calc *calc)
{
	absent(VIA_PD(calc), __func__, NO_EC);
}

int ibv_exp_ec_encode_async(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *ec_mem, struct ibv_exp_ec_comp *ec_comp)
{
	return absent(VIA_PD(calc), __func__, NO_EC);
}

int ibv_exp_ec_encode_sync(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *ec_mem)
{
	return absent(VIA_PD(calc), __func__, NO_EC);
}

int ibv_exp_ec_decode_async(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *ec_mem, uint8_t *erasures,
			    uint8_t *decode_matrix, struct ibv_exp_ec_comp *ec_comp)
{
	return absent(VIA_PD(calc), __func__, NO_EC);
}

int ibv_exp_ec_decode_sync(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *ec_mem, uint8_t *erasures,
			   uint8_t *decode_matrix)
{
	return absent(VIA_PD(calc), __func__, NO_EC);
}

int ibv_exp_ec_update_async(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *ec_mem, uint8_t *data_updates,
			    uint8_t *code_updates, struct ibv_exp_ec_comp *ec_comp)
{
	return absent(VIA_PD(calc), __func__, NO_EC);
}

int ibv_exp_ec_update_sync(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *ec_mem, uint8_t *data_updates,
			   uint8_t *code_updates)
{
	return absent(VIA_PD(calc), __func__, NO_EC);
}

int ibv_exp_ec_poll(struct ibv_exp_ec_calc *calc, int n)
{
	return absent_negative(VIA_PD(calc), __func__, NO_EC);
}

int ibv_exp_ec_encode_send(struct ibv_exp_ec_calc *calc, struct ibv_exp_ec_mem *ec_mem, struct ibv_exp_ec_stripe *data_stripes,
			   struct ibv_exp_ec_stripe *code_stripes)
{
	return absent(VIA_PD(calc), __func__, NO_EC);
}
