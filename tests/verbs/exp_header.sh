#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The header of the experimental verbs as a program includes it: C and C++, before and behind <infiniband/verbs.h>, and with -include, without
# a warning.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
include="${srcdir:-$(dirname "$0")/../..}/include"
need cc

cat >"$tmp/use.c" <<'END'
#ifdef PLAIN_FIRST
#include <infiniband/verbs.h>
#endif
#ifndef BY_OPTION
#include <infiniband/verbs_exp.h>
#endif
#include <infiniband/verbs.h>

int use(struct ibv_qp *qp, struct ibv_context *context);
int use(struct ibv_qp *qp, struct ibv_context *context)
{
	struct ibv_exp_send_wr wr = {}, *bad;
	struct ibv_exp_device_attr attr;
	struct ibv_async_event event;

	attr.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1;
	wr.exp_opcode = IBV_EXP_WR_NOP;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WAIT_EN_LAST;
	wr.dc.dct_access_key = 1;
	if (ibv_exp_query_device(context, &attr) || ibv_get_async_event(context, &event))
		return -1;
#ifdef PLAIN_FIRST
	if (ibv_exp_event_dct(&event))
		return 1;
#else
	if (event.element.dct)
		return 1;
#endif
	ibv_ack_async_event(&event);
	return ibv_exp_post_send(qp, &wr, &bad);
}
END
cp "$tmp/use.c" "$tmp/use.cc"
for compile in "cc -std=gnu99 $tmp/use.c" "cc -std=gnu17 $tmp/use.c" "c++ -std=c++11 $tmp/use.cc" "c++ -std=c++17 $tmp/use.cc"; do
	command -v "${compile%% *}" >/dev/null || continue
	for how in "" -DPLAIN_FIRST "-DBY_OPTION -include infiniband/verbs_exp.h"; do
		# shellcheck disable=SC2086 # words
		$compile -Wall -Wextra -Werror -I"$include" $how -c -o "$tmp/use.o" 2>"$tmp/said" || fail "$compile $how: $(head -5 "$tmp/said")"
	done
done
exit 0
