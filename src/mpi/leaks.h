/* SPDX-License-Identifier: BSD-3-Clause */
/* HEDDLE_REPORT_LEAKS: each owner of objects reports by hdl_leak those to which the program has handles. */
#ifndef HDL_MPI_LEAKS_H
#define HDL_MPI_LEAKS_H

/* Reports all kinds. MPI_Finalize calls it after the delete functions of MPI_COMM_SELF's attributes, which may free objects. */
void hdl_leaks_note(void);

void hdl_info_leaks(void);		/* info.c */
void hdl_errhandler_leaks(void);	/* errhandler.c */
void hdl_keyval_leaks(void);		/* attr.c */

#endif
