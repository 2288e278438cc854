! SPDX-License-Identifier: BSD-3-Clause
! Statements that the compiler must refuse, by the interfaces of the module mpi_f08 (compile.sh).
program f08_wrong
  use mpi_f08
  implicit none
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: newtype
  type(MPI_Request) :: request, requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Info) :: info
  type(MPI_Op) :: op
  type(MPI_File) :: file
  type(MPI_Win) :: win
  type(MPI_Errhandler) :: handler
  integer :: a(10), rank, ierr, dims(2), numbers(2), old_status(MPI_STATUS_SIZE), old_comm
  integer(kind=4) :: narrow
  real :: r
  logical :: periods(2)

  call MPI_Send(a, 10, MPI_COMM_WORLD, 0, 0, comm)             ! wrong: a communicator is no datatype
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, MPI_INTEGER)         ! wrong: a datatype is no communicator
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, old_comm)            ! wrong: a handle of the module mpi
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0)                      ! wrong: no communicator
  call MPI_Send(a, 10.0, MPI_INTEGER, 0, 0, comm)              ! wrong: a count that is no integer
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, comm, r)             ! wrong: ierror is an integer
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, comm, ierr, ierr)    ! wrong: one argument too many
  call MPI_Send(a, 10, MPI_INTEGER, 0, 0, comm, error=ierr)    ! wrong: no such keyword
  call MPI_Recv(a, 10, MPI_INTEGER, 0, 0, comm, old_status)    ! wrong: a status of the module mpi
  call MPI_Recv(a, 10, MPI_INTEGER, 0, 0, comm)                ! wrong: no status
  call MPI_Isend(a, 10, MPI_INTEGER, 0, 0, comm, rank)         ! wrong: an integer is no request
  call MPI_Isend(a, 10, MPI_INTEGER, 0, 0, comm, MPI_REQUEST_NULL)    ! wrong: a constant cannot be set
  call MPI_Wait(MPI_REQUEST_NULL, status)                      ! wrong: a constant cannot be set
  call MPI_Wait(request)                                       ! wrong: no status
  call MPI_Waitall(2, request, statuses)                       ! wrong: not an array
  call MPI_Waitall(2, requests, status)                        ! wrong: not an array
  call MPI_Waitsome(2, requests, 5, numbers, statuses)         ! wrong: a constant cannot be set
  call MPI_Comm_rank(MPI_COMM_WORLD, r)                        ! wrong: a real is no rank
  call MPI_Comm_rank(MPI_COMM_WORLD, 5)                        ! wrong: a constant cannot be set
  call MPI_Comm_rank(0, rank)                                  ! wrong: an integer is no communicator
  call MPI_Comm_dup(comm, MPI_COMM_WORLD)                      ! wrong: a constant cannot be set
  call MPI_Comm_free(MPI_COMM_WORLD)                           ! wrong: a constant cannot be set
  call MPI_Barrier(MPI_WIN_NULL)                               ! wrong: a window is no communicator
  call MPI_Bcast(a, 10, MPI_INTEGER, comm, 0)                  ! wrong: arguments in the wrong order
  call MPI_Allreduce(a, a, 10, MPI_SUM, MPI_INTEGER, comm)     ! wrong: arguments in the wrong order
  call MPI_Op_create(add, 1, op)                               ! wrong: an integer is no logical
  call MPI_Op_create(add, .true., comm)                        ! wrong: a communicator is no operation
  call MPI_Op_create(rank, .true., op)                         ! wrong: a variable is no procedure
  call MPI_Cart_create(comm, 2, dims, numbers, .false., comm)  ! wrong: integers are no logicals
  call MPI_Cart_create(comm, 2, dims, periods, .false.)        ! wrong: no new communicator
  call MPI_Info_set(info, 'key', 5)                            ! wrong: an integer is no value
  call MPI_Info_set('key', 'value')                            ! wrong: no info
  call MPI_Get_address(a, narrow)                              ! wrong: an address of another kind
  call MPI_File_seek(file, narrow, MPI_SEEK_SET)               ! wrong: an offset of another kind
  call MPI_File_open(comm, 5, MPI_MODE_RDONLY, info, file)     ! wrong: an integer is no name
  call MPI_Type_vector(2, 3, r, MPI_REAL, newtype)             ! wrong: a real is no stride
  call MPI_Type_commit(MPI_INTEGER)                            ! wrong: a constant cannot be set
  call MPI_Win_create(a, 40, 4, info, comm, win)               ! wrong: a size of another kind
  call MPI_Comm_create_errhandler(handler, handler)            ! wrong: a handle is no procedure
  if (comm == MPI_INTEGER) rank = 0                            ! wrong: handles of different kinds
  comm = 5                                                     ! wrong: an integer is no communicator
  comm = newtype                                               ! wrong: a datatype is no communicator
contains
  subroutine add(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
  end subroutine add
  subroutine sets(given, number)
    type(MPI_Comm), intent(in) :: given
    integer, intent(in) :: number
    call MPI_Comm_rank(given, number)                          ! wrong: an argument with INTENT(IN) cannot be set
    call MPI_Comm_free(given)                                  ! wrong: an argument with INTENT(IN) cannot be set
  end subroutine sets
end program f08_wrong
