! SPDX-License-Identifier: BSD-3-Clause
! Statements that the module mpi must accept: the counterparts of mpi_wrong.f90.
program mpi_right
  use mpi
  implicit none
  integer :: a(10), b(10, 10), rank, ierr, comm, request, requests(2), newtype, info, op, file, win, handler
  integer :: dims(2), indices(2), outcount
  integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
  logical :: periods(2), flag
  character(len=20) :: text
  integer(MPI_ADDRESS_KIND) :: address
  integer(MPI_OFFSET_KIND) :: offset
  external :: add, on_error

  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, ierr)
  call MPI_Send(5, 1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, ierr)
  call MPI_Send(b(1:9:2, 3), 5, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, ierr)
  call MPI_Send(b(2, 3), 1, MPI_INTEGER, 0, 0, comm=MPI_COMM_WORLD, ierror=ierr)
  call MPI_Send('text', 4, MPI_CHARACTER, 0, 0, MPI_COMM_WORLD, ierr)
  call MPI_Recv(a, 10, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, status, ierr)
  call MPI_Recv(a, 10, MPI_INTEGER, 0, 0, comm, MPI_STATUS_IGNORE, ierr)
  call MPI_Isend(b(:, 1), 10, MPI_INTEGER, 0, 0, comm, request, ierr)
  call MPI_Wait(request, status, ierr)
  call MPI_Waitall(2, requests, statuses, ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call MPI_Waitsome(2, requests, outcount, indices, statuses, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Bcast(MPI_BOTTOM, 1, newtype, 0, comm, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, a, 10, MPI_INTEGER, MPI_SUM, comm, ierr)
  call MPI_Op_create(add, .true., op, ierr)
  call MPI_Cart_create(comm, 2, dims, periods, .false., comm, ierr)
  call MPI_Info_set(info, 'key', 'value', ierr)
  call MPI_Info_get_string(info, 'key', outcount, text, flag, ierr)
  call MPI_Get_address(a, address, ierr)
  call MPI_File_seek(file, offset, MPI_SEEK_SET, ierr)
  call MPI_Type_vector(2, 3, 4, MPI_REAL, newtype, ierr)
  call MPI_Win_create(a, 40_MPI_ADDRESS_KIND, 4, info, comm, win, ierr)
  call MPI_Comm_create_errhandler(on_error, handler, ierr)
  if (comm == MPI_COMM_NULL) rank = status(MPI_SOURCE)
end program mpi_right
