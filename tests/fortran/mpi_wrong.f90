! SPDX-License-Identifier: BSD-3-Clause
! Statements that the compiler must refuse, by the interfaces of the module mpi (compile.sh).
program mpi_wrong
  use mpi
  implicit none
  integer :: a(10), rank, ierr, comm, request, requests(2), newtype, info, op, file, win, dims(2), numbers(2)
  integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
  integer(kind=4) :: narrow
  real :: r
  logical :: periods(2)
  external :: add

  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, MPI_COMM_WORLD)            ! wrong: no ierror
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, ierr)                      ! wrong: no communicator
  call MPI_Send(a, 10.0, MPI_INTEGER, 0, 0, comm, ierr)              ! wrong: a count that is no integer
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, comm, r)                   ! wrong: ierror is an integer
  call MPI_Send(a, 10, r, 0, 0, comm, ierr)                          ! wrong: a real is no handle
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, comm, ierr, ierr)          ! wrong: one argument too many
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, comm, error=ierr)          ! wrong: no such keyword
  call MPI_Recv(a, 10, MPI_INTEGER, 0, 0, comm, ierr)                ! wrong: no status
  call MPI_Recv(a, 10, MPI_INTEGER, 0, 0, comm, rank, ierr)          ! wrong: a status is an array
  call MPI_Isend(a, 10, MPI_INTEGER, 0, 0, comm, r, ierr)            ! wrong: a real is no request
  call MPI_Wait(requests, status, ierr)                              ! wrong: an array is no request
  call MPI_Waitall(2, request, statuses, ierr)                       ! wrong: not an array
  call MPI_Comm_rank(MPI_COMM_WORLD, r, ierr)                        ! wrong: a real is no rank
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)                           ! wrong: no ierror
  call MPI_Comm_rank(.true., rank, ierr)                             ! wrong: a logical is no communicator
  call MPI_Op_create(add, 1, op, ierr)                               ! wrong: an integer is no logical
  call MPI_Cart_create(comm, 2, dims, numbers, .false., comm, ierr)  ! wrong: integers are no logicals
  call MPI_Cart_create(comm, 2, dims, periods, .false., ierr)        ! wrong: no new communicator
  call MPI_Info_set(info, 'key', 5, ierr)                            ! wrong: an integer is no value
  call MPI_Get_address(a, narrow, ierr)                              ! wrong: an address of another kind
  call MPI_File_seek(file, narrow, MPI_SEEK_SET, ierr)               ! wrong: an offset of another kind
  call MPI_File_open(comm, 5, MPI_MODE_RDONLY, info, file, ierr)     ! wrong: an integer is no name
  call MPI_Type_vector(2, 3, r, MPI_REAL, newtype, ierr)             ! wrong: a real is no stride
  call MPI_Win_create(a, 40, 4, info, comm, win, ierr)               ! wrong: a size of another kind
end program mpi_wrong
