! SPDX-License-Identifier: BSD-3-Clause
! heat2d_f08: the two-dimensional heat equation on a square plate, explicit in time, in Fortran 2008.
!
!     u' = u + a (u_west + u_east + u_north + u_south - 4 u)          edges held at fixed temperatures
!
! The plate is cut in both dimensions. A rank's block has a frame of one cell, the halo, that holds its neighbours' edges. Rows of a Fortran array
! are not contiguous: the sections u(1, 1:ny) are given to MPI_Isend and MPI_Irecv as they are, and no datatype or copy is needed. The inner cells
! are computed while the halos are under way. Rank 0 then solves the whole plate alone and compares every cell.
!
!     heddlefc -O2 heat2d_f08.f90 -o heat2d_f08 && heddlerun -n 4 ./heat2d_f08 [CELLS PER SIDE [STEPS]]
program heat2d_f08
use mpi_f08
use, intrinsic :: iso_fortran_env, only: real64
implicit none
real(real64), parameter :: diffusion = 0.23_real64
type(MPI_Comm) :: grid
integer :: rank, ranks, dims(2) = 0, coords(2), n = 128, steps = 100, step
integer :: west, east, north, south, x0, y0, nx, ny, bad
real(real64), allocatable, asynchronous :: u(:,:)
real(real64), allocatable :: next(:,:), whole(:,:)
type(MPI_Request) :: requests(8)

call MPI_Init()
call MPI_Comm_size(MPI_COMM_WORLD, ranks)
call arguments()
call MPI_Dims_create(ranks, 2, dims)
call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .true., grid)
call MPI_Comm_rank(grid, rank)
call MPI_Cart_coords(grid, rank, 2, coords)
call MPI_Cart_shift(grid, 0, 1, west, east)
call MPI_Cart_shift(grid, 1, 1, north, south)
call cut(n, dims(1), coords(1), x0, nx)
call cut(n, dims(2), coords(2), y0, ny)
allocate (u(0:nx+1, 0:ny+1), next(0:nx+1, 0:ny+1))
call fill(u, x0, y0)
next = u
do step = 1, steps
   call exchange()
   call advance(2, nx - 1, 2, ny - 1)
   call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE)
   call advance(1, nx, 1, 1)
   call advance(1, nx, ny, ny)
   call advance(1, 1, 2, ny - 1)
   call advance(nx, nx, 2, ny - 1)
   u(1:nx, 1:ny) = next(1:nx, 1:ny)
end do
call collect()
if (rank == 0) then
   bad = count(whole /= alone())
   print '(a,i0,a,i0,a)', 'check: ', bad, ' of ', n * n, ' cells differ'
   print '(a)', merge('PASS', 'FAIL', bad == 0)
end if
call MPI_Comm_free(grid)
call MPI_Finalize()
if (rank == 0 .and. bad > 0) stop 1

contains

subroutine arguments()
   character(len=20) :: text
   integer :: status
   if (command_argument_count() >= 1) then
      call get_command_argument(1, text)
      read (text, *, iostat=status) n
   end if
   if (command_argument_count() >= 2) then
      call get_command_argument(2, text)
      read (text, *, iostat=status) steps
   end if
end subroutine

! The part of `cells` that belongs to one of `parts`: it begins behind `first`.
subroutine cut(cells, parts, part, first, number)
   integer, intent(in) :: cells, parts, part
   integer, intent(out) :: first, number
   first = cells * part / parts
   number = cells * (part + 1) / parts - first
end subroutine

! The plate is cold, two of its edges are warm.
subroutine fill(v, x, y)
   real(real64), intent(out) :: v(0:, 0:)
   integer, intent(in) :: x, y
   integer :: i, j
   do j = 0, ubound(v, 2)
      do i = 0, ubound(v, 1)
         v(i, j) = merge(1.0_real64, 0.0_real64, x + i == 0) + merge(0.5_real64, 0.0_real64, y + j == n + 1)
      end do
   end do
end subroutine

! Edges to the neighbours, their edges to the halo. At the plate's border the neighbour is MPI_PROC_NULL.
subroutine exchange()
   call MPI_Irecv(u(0, 1:ny), ny, MPI_DOUBLE_PRECISION, west, 1, grid, requests(1))
   call MPI_Irecv(u(nx+1, 1:ny), ny, MPI_DOUBLE_PRECISION, east, 2, grid, requests(2))
   call MPI_Irecv(u(1:nx, 0), nx, MPI_DOUBLE_PRECISION, north, 3, grid, requests(3))
   call MPI_Irecv(u(1:nx, ny+1), nx, MPI_DOUBLE_PRECISION, south, 4, grid, requests(4))
   call MPI_Isend(u(nx, 1:ny), ny, MPI_DOUBLE_PRECISION, east, 1, grid, requests(5))
   call MPI_Isend(u(1, 1:ny), ny, MPI_DOUBLE_PRECISION, west, 2, grid, requests(6))
   call MPI_Isend(u(1:nx, ny), nx, MPI_DOUBLE_PRECISION, south, 3, grid, requests(7))
   call MPI_Isend(u(1:nx, 1), nx, MPI_DOUBLE_PRECISION, north, 4, grid, requests(8))
end subroutine

subroutine advance(i0, i1, j0, j1)
   integer, intent(in) :: i0, i1, j0, j1
   call apply(u, next, i0, i1, j0, j1)
end subroutine

subroutine apply(from, to, i0, i1, j0, j1)
   real(real64), intent(in) :: from(0:, 0:)
   real(real64), intent(inout) :: to(0:, 0:)
   integer, intent(in) :: i0, i1, j0, j1
   integer :: i, j
   do j = j0, j1
      do i = i0, i1
         to(i, j) = from(i, j) + diffusion * (from(i-1, j) + from(i+1, j) + from(i, j-1) + from(i, j+1) - 4 * from(i, j))
      end do
   end do
end subroutine

! All blocks at rank 0: each is received into its section of the whole plate.
subroutine collect()
   integer :: r, at(2), x, y, mx, my
   type(MPI_Request) :: mine
   call MPI_Isend(u(1:nx, 1:ny), nx * ny, MPI_DOUBLE_PRECISION, 0, 5, grid, mine)
   if (rank == 0) then
      allocate (whole(n, n))
      do r = 0, ranks - 1
         call MPI_Cart_coords(grid, r, 2, at)
         call cut(n, dims(1), at(1), x, mx)
         call cut(n, dims(2), at(2), y, my)
         call MPI_Recv(whole(x+1:x+mx, y+1:y+my), mx * my, MPI_DOUBLE_PRECISION, r, 5, grid, MPI_STATUS_IGNORE)
      end do
   end if
   call MPI_Wait(mine, MPI_STATUS_IGNORE)
end subroutine

! The plate as one rank computes it: the same operations in the same order for each cell.
function alone() result(v)
   real(real64) :: v(n, n)
   real(real64), allocatable :: a(:,:), b(:,:)
   integer :: k
   allocate (a(0:n+1, 0:n+1), b(0:n+1, 0:n+1))
   call fill(a, 0, 0)
   b = a
   do k = 1, steps
      call apply(a, b, 1, n, 1, n)
      a(1:n, 1:n) = b(1:n, 1:n)
   end do
   v = a(1:n, 1:n)
end function
end program
