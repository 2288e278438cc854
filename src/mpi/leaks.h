/* SPDX-License-Identifier: BSD-3-Clause */
/* HEDDLE_REPORT_LEAKS: who has objects notes by hdl_leak those that the program has handles of. */
#ifndef HDL_MPI_LEAKS_H
#define HDL_MPI_LEAKS_H

/* All kinds, called by MPI_Finalize, after MPI_COMM_SELF's attributes had their turn to free what they stand for. */
void hdl_leaks_note(void);

void hdl_info_leaks(void);		/* info.c */
void hdl_errhandler_leaks(void);	/* errhandler.c */
void hdl_keyval_leaks(void);		/* attr.c */

#endif
