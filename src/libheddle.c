/* SPDX-License-Identifier: BSD-3-Clause */
/* Names the library for `what` and debuggers. */
extern const char hdl_version[];
const char hdl_version[] = PACKAGE_STRING;
