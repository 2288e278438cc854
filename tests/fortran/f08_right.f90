! SPDX-License-Identifier: BSD-3-Clause
! Statements that the module mpi_f08 must accept: the counterparts of f08_wrong.f90.
program f08_right
  use mpi_f08
  implicit none
  type :: particle
    real :: x(3)
    integer :: id
  end type particle
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: newtype
  type(MPI_Request) :: request, requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Info) :: info
  type(MPI_Op) :: op
  type(MPI_File) :: file
  type(MPI_Win) :: win
  type(MPI_Errhandler) :: handler
  type(particle) :: one, many(4)
  integer :: a(10), b(10, 10), rank, ierr, dims(2), outcount, indices(2)
  logical :: periods(2), flag
  character(len=20) :: text
  integer(MPI_ADDRESS_KIND) :: address
  integer(MPI_OFFSET_KIND) :: offset
  integer(MPI_COUNT_KIND) :: large

  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, MPI_COMM_WORLD)
  call MPI_Send(5, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, ierr)
  call MPI_Send(b(1:9:2, 3), 5, MPI_INTEGER, 0, 0, MPI_COMM_WORLD)
  call MPI_Send(b(2, 3), 1, MPI_INTEGER, 0, 0, comm=MPI_COMM_WORLD, ierror=ierr)
  call MPI_Send('text', 4, MPI_CHARACTER, 0, 0, MPI_COMM_WORLD)
  call MPI_Send(one, 1, newtype, 0, 0, MPI_COMM_WORLD)
  call MPI_Send(many, 10_MPI_COUNT_KIND, newtype, 0, 0, MPI_COMM_WORLD)
  call MPI_Recv(a, 10, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, status)
  call MPI_Recv(a, 10, MPI_INTEGER, 0, 0, comm, MPI_STATUS_IGNORE)
  call MPI_Isend(b(:, 1), 10, MPI_INTEGER, 0, 0, comm, request)
  call MPI_Wait(request, status)
  call MPI_Waitall(2, requests, statuses)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Waitsome(2, requests, outcount, indices, statuses)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_free(comm)
  call MPI_Barrier(comm, ierr)
  call MPI_Bcast(MPI_BOTTOM, 1, newtype, 0, comm)
  call MPI_Allreduce(MPI_IN_PLACE, a, 10, MPI_INTEGER, MPI_SUM, comm)
  call MPI_Op_create(add, .true., op)
  call MPI_Cart_create(comm, 2, dims, periods, .false., comm)
  call MPI_Info_set(info, 'key', 'value')
  call MPI_Info_get_string(info, 'key', ierr, text, flag)
  call MPI_Get_address(a, address)
  call MPI_File_seek(file, offset, MPI_SEEK_SET)
  call MPI_File_write_at(file, offset, a, 10, MPI_INTEGER, status)
  call MPI_Type_size(newtype, large)
  call MPI_Type_vector(2, 3, 4, MPI_REAL, newtype)
  call MPI_Win_create(a, 40_MPI_ADDRESS_KIND, 4, info, comm, win)
  call MPI_Comm_create_errhandler(on_error, handler)
  if (comm == MPI_COMM_WORLD .or. newtype /= MPI_INTEGER) rank = status%MPI_SOURCE
  request = MPI_REQUEST_NULL
contains
  subroutine add(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    if (datatype == MPI_INTEGER) len = len + 0
  end subroutine add
  subroutine on_error(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    if (comm == MPI_COMM_WORLD) code = code + 0
  end subroutine on_error
  subroutine sends(buffer)
    integer, intent(in) :: buffer(:)
    call MPI_Send(buffer, size(buffer), MPI_INTEGER, 0, 0, MPI_COMM_WORLD)
  end subroutine sends
end program f08_right
