! SPDX-License-Identifier: BSD-3-Clause
! What the programs by the module mpi_f08 share: the rank, and the count of what was wrong.
module testing
use mpi_f08
implicit none
integer :: rank, size, failures = 0
contains

! Behind MPI_Init.
subroutine begin()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call MPI_Comm_size(MPI_COMM_WORLD, size)
end subroutine

subroutine check(ok, text)
   logical, intent(in) :: ok
   character(len=*), intent(in) :: text
   if (ok) return
   failures = failures + 1
   print '(a,i0,2a)', 'rank ', rank, ': wrong: ', text
end subroutine

! Adds up the failures of all ranks, finalizes MPI, and ends the program with 1 if there is one.
subroutine finish(program)
   character(len=*), intent(in) :: program
   integer :: total
   call MPI_Allreduce(failures, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
   call MPI_Finalize()
   if (rank == 0) print '(2a,i0,a)', program, ': ', total, ' wrong'
   if (total > 0) stop 1
end subroutine
end module

! Attribute functions of communicators: an attribute is copied with its extra state added, if it is not above `most_copied`;
! the deletion of one below `least_deleted` fails.
module attribute_functions
use mpi_f08
implicit none
integer :: copies = 0, deletes = 0
integer(MPI_ADDRESS_KIND) :: most_copied = huge(0_MPI_ADDRESS_KIND), least_deleted = -huge(0_MPI_ADDRESS_KIND)
contains

subroutine copy_attr(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
   type(MPI_Comm) :: oldcomm
   integer :: comm_keyval, ierror
   integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
   logical :: flag
   copies = copies + 1
   attribute_val_out = attribute_val_in + extra_state
   flag = attribute_val_in <= most_copied
   ierror = MPI_SUCCESS
end subroutine

subroutine delete_attr(comm, comm_keyval, attribute_val, extra_state, ierror)
   type(MPI_Comm) :: comm
   integer :: comm_keyval, ierror
   integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
   deletes = deletes + 1
   ierror = MPI_SUCCESS
   if (attribute_val < least_deleted) ierror = MPI_ERR_OTHER
end subroutine
end module
