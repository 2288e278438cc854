! SPDX-License-Identifier: BSD-3-Clause
! The module mpi: handles are integers, sections are passed without copies as in mpi_f08, addresses as integers or TYPE(C_PTR), and mpi.h's
! functions of C beside it (interop.c).
module kept
use mpi
implicit none
integer :: calls = 0
contains
subroutine copy_attr(comm, key, extra, in, out, flag, ierror)
   integer :: comm, key, ierror
   integer(MPI_ADDRESS_KIND) :: extra, in, out
   logical :: flag
   calls = calls + 1
   out = in + extra
   flag = .true.
   ierror = 0
end subroutine
subroutine delete_attr(comm, key, attribute, extra, ierror)
   integer :: comm, key, ierror
   integer(MPI_ADDRESS_KIND) :: attribute, extra
   calls = calls + 10
   ierror = 0
end subroutine
end module

program modules
use mpi
use kept
use, intrinsic :: iso_c_binding
implicit none
interface
   ! C's view of Fortran's objects. Returns the number of errors.
   integer(c_int) function c_side(comm, datatype, request, op, key, status) bind(C)
      import
      integer(c_int), value :: comm, datatype, request, op, key
      integer(c_int) :: status(*)
   end function
end interface
integer :: rank, size, ierr, wrong = 0, total, i, win, comm, key, c_key, request, type, op
integer :: r(2), status(MPI_STATUS_SIZE)
integer, asynchronous :: a(5,6), b(5,6), c(5,6)
integer(MPI_ADDRESS_KIND) :: address, value
type(c_ptr) :: p
integer, pointer :: memory(:)
type(MPI_Status) :: f08
logical :: flag
call MPI_Init(ierr)
call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
if (.not. MPI_SUBARRAYS_SUPPORTED) wrong = wrong + 1
a = reshape([(i, i = 1, 30)], [5,6])
b = 0
c = 0
c(2:4:2, 6:1:-2) = a(1:5:4, 1:6:2)
call MPI_Irecv(b(2:4:2, 6:1:-2), 6, MPI_INTEGER, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, r(1), ierr)
call MPI_Isend(a(1:5:4, 1:6:2), 6, MPI_INTEGER, mod(rank + 1, size), 1, MPI_COMM_WORLD, r(2), ierr)
call MPI_Waitall(2, r, MPI_STATUSES_IGNORE, ierr)
if (any(b /= c)) wrong = wrong + 1
call MPI_Alloc_mem(40_MPI_ADDRESS_KIND, MPI_INFO_NULL, address, ierr)
call MPI_Free_mem(c_memory(address), ierr)
call MPI_Win_allocate(40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, p, win, ierr)
call c_f_pointer(p, memory, [10])
memory = 5
call MPI_Win_free(win, ierr)
! to mpi_f08's status and back
call MPI_Sendrecv(rank, 1, MPI_INTEGER, 0, 3, i, 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF, status, ierr)
call MPI_Status_f2f08(status, f08, ierr)
if (f08%MPI_TAG /= 3 .or. i /= rank) wrong = wrong + 1
status = 0
call MPI_Status_f082f(f08, status, ierr)
if (status(MPI_TAG) /= 3) wrong = wrong + 1
! objects that C knows, and C's that Fortran knows
call MPI_Comm_dup(MPI_COMM_SELF, comm, ierr)
call MPI_Type_contiguous(3, MPI_INTEGER, type, ierr)
call MPI_Type_commit(type, ierr)
call MPI_Irecv(i, 1, MPI_INTEGER, 0, 9, comm, request, ierr)
op = MPI_SUM
call MPI_Comm_create_keyval(copy_attr, delete_attr, key, 1000_MPI_ADDRESS_KIND, ierr)
call MPI_Comm_set_attr(comm, key, 77777777777_MPI_ADDRESS_KIND, ierr)
wrong = wrong + c_side(comm, type, request, op, key, status)
if (i /= 4711 .or. status(MPI_TAG) /= 9) wrong = wrong + 1
! C copied the attribute, stored an address, and freed the copy
if (calls /= 11) wrong = wrong + 1
c_key = status(MPI_SOURCE)
call MPI_Comm_get_attr(comm, c_key, value, flag, ierr)
if (.not. flag .or. value /= 123456789012_MPI_ADDRESS_KIND) wrong = wrong + 1
call MPI_Type_free(type, ierr)
call MPI_Comm_free(comm, ierr)
call MPI_Allreduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
call MPI_Finalize(ierr)
if (rank == 0) print '(a,i0,a)', 'modules: ', total, ' wrong'
if (total > 0) stop 1
contains
function c_memory(at)
   integer(MPI_ADDRESS_KIND) :: at
   integer, pointer :: c_memory(:)
   call c_f_pointer(transfer(at, c_null_ptr), c_memory, [10])
   c_memory = 1
end function
end program
