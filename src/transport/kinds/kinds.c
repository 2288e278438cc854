/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/kinds/kind.h"

const struct hdl_tp_kind *const hdl_kinds[HDL_QUEUES] = {
	[HDL_QUEUE_UD] = &hdl_kind_ud,
	[HDL_QUEUE_RC] = &hdl_kind_rc,
	[HDL_QUEUE_XRC] = &hdl_kind_xrc,
	[HDL_QUEUE_DC] = &hdl_kind_dc,
};
