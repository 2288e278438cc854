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
