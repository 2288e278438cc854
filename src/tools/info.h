/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside src/tools: the parts of heddle_info. Each prints to standard output and returns an exit code. */
#ifndef HDL_INFO_H
#define HDL_INFO_H

int info_devices(void);
int info_functions(void);
int info_doctor(void);
/* Takes the arguments behind --explain, all of them. */
int info_explain(int argc, char **argv);

#endif
