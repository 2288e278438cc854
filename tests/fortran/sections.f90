! SPDX-License-Identifier: BSD-3-Clause
! Buffers that are not contiguous (MPI-5.0 section 19.1.12): strided sections, planes, components, reversed arrays, in blocking, nonblocking and persistent
! calls. Received data are compared to the result of Fortran's own assignment of the sections.
program sections
use mpi_f08
use testing
implicit none
type point
   sequence
   double precision :: x
   integer :: id, pad
   double precision :: y(2)
end type
call MPI_Init()
call begin()
call one_dimension()
call more_dimensions()
call components()
call characters()
call part_of_a_section()
call derived_in_section()
call persistent()
call rooted()
call vectors()
call reductions()
call packing()
call one_sided()
call sequence_association()
call finish('sections')
contains

integer function next()
   next = modulo(rank + 1, size)
end function
integer function previous()
   previous = modulo(rank - 1, size)
end function

! Every rank sends `from` to the next and receives `to`, both nonblocking.
subroutine shift(from, to, n, type)
   type(*), dimension(..), asynchronous, intent(in) :: from
   type(*), dimension(..), asynchronous :: to
   integer, intent(in) :: n
   type(MPI_Datatype), intent(in) :: type
   type(MPI_Request) :: r(2)
   call MPI_Irecv(to, n, type, previous(), 7, MPI_COMM_WORLD, r(1))
   call MPI_Isend(from, n, type, next(), 7, MPI_COMM_WORLD, r(2))
   call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
   call check(r(1) == MPI_REQUEST_NULL .and. .not. r(2) /= MPI_REQUEST_NULL, 'requests are null')
end subroutine

subroutine one_dimension()
   integer, asynchronous :: a(60), b(60), c(60)
   integer :: i
   do i = 1, 60
      a(i) = 1000 * previous() + i
   end do
   b = -1
   c = -1
   c(2:60:3) = a(1:59:3)
   a = a + 1000 * (rank - previous())
   call shift(a(1:59:3), b(2:60:3), 20, MPI_INTEGER)
   call check(all(b == c), 'every third element')
   c = -1
   c(60:1:-4) = a(1:15) + 1000 * (previous() - rank)
   b = -1
   call shift(a(1:15), b(60:1:-4), 15, MPI_INTEGER)
   call check(all(b == c), 'backwards')
   b = -1
   c = -1
   c(10:1:-1) = a(20:2:-2) + 1000 * (previous() - rank)
   call shift(a(20:2:-2), b(10:1:-1), 10, MPI_INTEGER)
   call check(all(b == c), 'both backwards')
   b = 0
   call MPI_Sendrecv(a(1:10:9), 2, MPI_INTEGER, next(), 1, b(5:8:3), 2, MPI_INTEGER, previous(), 1, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(b(5) == 1000 * previous() + 1 .and. b(8) == 1000 * previous() + 10 .and. sum(abs(b)) == b(5) + b(8), 'Sendrecv')
   b = a
   call MPI_Bcast(b(1:60:7), 9, MPI_INTEGER, 0, MPI_COMM_WORLD)
   c = a
   c(1:60:7) = a(1:60:7) - 1000 * rank
   call check(all(b == c), 'Bcast')
end subroutine

! Strides of each level, with extents that differ from one another.
subroutine more_dimensions()
   real, asynchronous :: a(7,5,11), b(7,5,11), c(7,5,11)
   double precision, asynchronous :: d(4,3,2,5,3), e(4,3,2,5,3), f(4,3,2,5,3)
   integer :: i, j, k
   do k = 1, 11
      do j = 1, 5
         do i = 1, 7
            a(i,j,k) = i + 10 * j + 100 * k
         end do
      end do
   end do
   b = 0; c = 0
   c(1:5:2, 2:5:3, 2:11:4) = a(2:7:2, 1:4:3, 1:9:4)
   call shift(a(2:7:2, 1:4:3, 1:9:4), b(1:5:2, 2:5:3, 2:11:4), 18, MPI_REAL)
   call check(all(b == c), 'three strided dimensions')
   b = 0; c = 0
   c(:, 3, :) = a(:, 2, :)
   call shift(a(:, 2, :), b(:, 3, :), 77, MPI_REAL)
   call check(all(b == c), 'a plane')
   b = 0; c = 0
   c(4, :, 6) = a(2, :, 9)
   call shift(a(2, :, 9), b(4, :, 6), 5, MPI_REAL)
   call check(all(b == c), 'a line across')
   b = 0; c = 0
   c(:, :, 2:11:3) = a(:, :, 1:10:3)
   call shift(a(:, :, 1:10:3), b(:, :, 2:11:3), 140, MPI_REAL)
   call check(all(b == c), 'planes')
   b = 0; c = 0
   c(7:1:-3, 5:1:-2, :) = a(1:3, 1:3, 11:1:-1)
   call shift(a(1:3, 1:3, 11:1:-1), b(7:1:-3, 5:1:-2, :), 99, MPI_REAL)
   call check(all(b == c), 'reversed dimensions')
   b = 0; c = 0
   c(2:2, 3:3, 1:9:2) = a(2:2, 1:1, 2:10:2)
   call shift(a(2:2, 1:1, 2:10:2), b(2:2, 3:3, 1:9:2), 5, MPI_REAL)
   call check(all(b == c), 'dimensions of one')
   d = reshape([(i, i = 1, product(shape(d)))], shape(d))
   e = 0; f = 0
   f(1:4:3, 1:3:2, 2, 5:1:-2, 2:3) = d(2:3, 2:3, 1, 1:3, 1:3:2)
   call shift(d(2:3, 2:3, 1, 1:3, 1:3:2), e(1:4:3, 1:3:2, 2, 5:1:-2, 2:3), 24, MPI_DOUBLE_PRECISION)
   call check(all(e == f), 'five dimensions')
   e = 0
   call shift(d(1:0, :, :, :, :), e(1:4:3, :, :, :, :), 0, MPI_DOUBLE_PRECISION)
   call check(all(e == 0), 'nothing')
end subroutine

subroutine components()
   type(point), asynchronous, target :: p(20), q(20)
   complex, asynchronous :: z(12), w(12)
   integer :: i
   do i = 1, 20
      p(i) = point(i, 100 + i, 0, [200 + i, 300 + i])
      q(i) = point(0, 0, 0, [0, 0])
   end do
   call shift(p%id, q%id, 20, MPI_INTEGER)
   call check(all(q%id == p%id) .and. all(q%x == 0), 'a component')
   call shift(p(1:19:2)%y(2), q(2:20:2)%y(1), 10, MPI_DOUBLE_PRECISION)
   call check(all(q(2:20:2)%y(1) == p(1:19:2)%y(2)) .and. all(q(1:19:2)%y(1) == 0) .and. all(q%y(2) == 0), &
      'a component of a section')
   do i = 1, 12
      z(i) = cmplx(i, -i)
   end do
   w = 0
   call shift(z(1:11:2), w(2:12:2), 6, MPI_COMPLEX)
   call check(all(w(2:12:2) == z(1:11:2)) .and. all(w(1:11:2) == 0), 'complex numbers')
   ! two elements of the datatype in one of the array
   w = 0
   call shift(z(1:11:2), w(2:12:2), 12, MPI_REAL)
   call check(all(w(2:12:2) == z(1:11:2)), 'complex as reals')
   w = 0
   call shift(z(1:11:2), w(2:12:2), 5, MPI_REAL)
   call check(w(2) == z(1) .and. w(4) == z(3) .and. w(6) == cmplx(5, 0) .and. w(8) == 0, 'half an element')
end subroutine

subroutine characters()
   character(len=5), asynchronous :: s(6), t(6)
   s = ['alpha', 'bravo', 'charl', 'delta', 'echo ', 'foxtr']
   t = '.....'
   call shift(s(1:5:2), t(2:6:2), 15, MPI_CHARACTER)
   call check(all(t(2:6:2) == s(1:5:2)) .and. all(t(1:5:2) == '.....'), 'characters')
   t = '.....'
   call shift(s(:)(2:3), t(:)(4:5), 12, MPI_CHARACTER)
   call check(t(1) == '...lp' .and. t(6) == '...ox', 'substrings')
end subroutine

! Counts that are less than the section: whole columns, and a part of one.
subroutine part_of_a_section()
   integer, asynchronous :: a(9,9), b(9,9), c(9,9)
   integer :: i, n, k
   a = reshape([(i, i = 1, 81)], [9,9])
   do n = 0, 9
      b = 0
      c = 0
      do k = 0, n - 1
         c(2 + 3 * mod(k, 3), 1 + 4 * (k / 3)) = a(1 + 4 * mod(k, 3), 2 + 3 * (k / 3))
      end do
      call shift(a(1:9:4, 2:8:3), b(2:8:3, 1:9:4), n, MPI_INTEGER)
      call check(all(b == c), 'the first elements of a section')
   end do
end subroutine

! Datatypes that have gaps or cover several elements of the section: through a copy.
subroutine derived_in_section()
   integer, asynchronous :: a(24), b(24)
   integer :: i
   type(MPI_Datatype) :: every_second, pair
   a = [(i, i = 1, 24)]
   call MPI_Type_vector(4, 1, 2, MPI_INTEGER, every_second)
   call MPI_Type_commit(every_second)
   call MPI_Type_contiguous(2, MPI_INTEGER, pair)
   call MPI_Type_commit(pair)
   b = 0
   ! elements 1, 3, 5, 7 of the section 1, 4, 7, ...
   call shift(a(1:22:3), b(3:24:3), 1, every_second)
   call check(all(b(3:21:6) == a(1:19:6)) .and. count(b /= 0) == 4, 'a vector over a section')
   b = 0
   call shift(a(1:22:3), b(3:24:3), 4, pair)
   call check(all(b(3:24:3) == a(1:22:3)) .and. count(b /= 0) == 8, 'pairs over a section')
   call MPI_Type_free(every_second)
   call MPI_Type_free(pair)
end subroutine

subroutine persistent()
   integer, asynchronous :: a(30), b(30), s(10), m
   type(MPI_Request) :: r(2), p
   integer :: turn, i
   logical :: flag
   call MPI_Recv_init(b(3:30:3), 10, MPI_INTEGER, previous(), 4, MPI_COMM_WORLD, r(1))
   call MPI_Send_init(a(1:28:3), 10, MPI_INTEGER, next(), 4, MPI_COMM_WORLD, r(2))
   call MPI_Allreduce_init(a(1:28:3), s(10:1:-1), 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, p)
   do turn = 1, 3
      a = [(i * turn + rank, i = 1, 30)]
      b = 0
      s = 0
      call MPI_Startall(2, r)
      call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
      call check(all(b(3:30:3) == [(i * turn + previous(), i = 1, 28, 3)]) .and. count(b /= 0) <= 10, 'persistent')
      call MPI_Start(p)
      m = 0
      do
         call MPI_Test(p, flag, MPI_STATUS_IGNORE)
         if (flag) exit
      end do
      call check(all(s(10:1:-1) == [(size * i * turn + size * (size - 1) / 2, i = 1, 28, 3)]), 'persistent reduction')
   end do
   call MPI_Request_free(r(1))
   call MPI_Request_free(r(2))
   call MPI_Request_free(p)
end subroutine

subroutine rooted()
   integer, asynchronous :: a(20), b(3,2*size), c(2,8), d(2*size,5)
   integer :: i
   type(MPI_Request) :: r
   a = [(100 * rank + i, i = 1, 20)]
   b = 0
   ! blocks of whole columns of a section
   call MPI_Gather(a(1:7:2), 4, MPI_INTEGER, b(1:3:2, :), 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
   if (rank == 0) then
      do i = 0, size - 1
         call check(all(b(2, :) == 0), 'Gather leaves the rest')
         call check(all(b(1:3:2, 2 * i + 1) == 100 * i + [1, 3]) .and. all(b(1:3:2, 2 * i + 2) == 100 * i + [5, 7]), 'Gather')
      end do
   end if
   ! blocks of a part of a column: through a copy, nonblocking
   b = 0
   call MPI_Igather(a(1:5:4), 1, MPI_INTEGER, b(1:3:2, 1:size), 1, MPI_INTEGER, size - 1, MPI_COMM_WORLD, r)
   call MPI_Wait(r, MPI_STATUS_IGNORE)
   if (rank == size - 1) call check(all([(b(1 + 2 * mod(i, 2), 1 + i / 2), i = 0, size - 1)] == &
      [(100 * i + 1, i = 0, size - 1)]), 'Igather')
   d = 0
   call MPI_Allgather(a(2:3), 1, MPI_INTEGER, d(1:2*size:2, 3), 1, MPI_INTEGER, MPI_COMM_WORLD)
   call check(all(d(1:2*size:2, 3) == [(100 * i + 2, i = 0, size - 1)]) .and. sum(abs(d)) == sum(d(:, 3)), 'Allgather')
   d = 0
   d(1::2, 1) = [(1000 * rank + i, i = 0, size - 1)]
   call MPI_Alltoall(d(1::2, 1), 1, MPI_INTEGER, d(2::2, 4), 1, MPI_INTEGER, MPI_COMM_WORLD)
   call check(all(d(2::2, 4) == [(1000 * i + rank, i = 0, size - 1)]) .and. all(d(1::2, 4) == 0), 'Alltoall')
   c = 0
   d(1::2, 2) = [(7 * i, i = 1, size)]
   call MPI_Scatter(d(1::2, 2), 1, MPI_INTEGER, c(2, 1:8:7), 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
   call check(c(2, 1) == 7 * (rank + 1) .and. sum(c) == c(2, 1), 'Scatter')
end subroutine

subroutine vectors()
   integer, asynchronous :: a(2*size), b(3*size*size), n(size), at(size)
   integer :: i
   type(MPI_Request) :: r
   type(MPI_Datatype), asynchronous :: types(size)
   a = 0
   a(1:2*rank+2:2) = rank + 1
   n = [(i, i = 1, size)]
   at = [(i * (i - 1) / 2, i = 1, size)]
   b = 0
   call MPI_Allgatherv(a(1:2*size:2), rank + 1, MPI_INTEGER, b(2:3*size*size:3), n, at, MPI_INTEGER, MPI_COMM_WORLD)
   do i = 1, size
      call check(all(b(2+3*at(i):2+3*(at(i)+i-1):3) == i), 'Allgatherv')
   end do
   b = 0
   call MPI_Iallgatherv(a(1:2*size:2), rank + 1, MPI_INTEGER, b(2:3*size*size:3), n, at, MPI_INTEGER, MPI_COMM_WORLD, r)
   call MPI_Wait(r, MPI_STATUS_IGNORE)
   call check(sum(b) == size * (size + 1) * (2 * size + 1) / 6 .and. b(2) == 1, 'Iallgatherv')
   ! datatypes of a nonblocking call stay until completion
   types = MPI_INTEGER
   n = 1
   at = [(4 * i, i = 0, size - 1)]
   a = 0
   a(1:size) = [(10 * rank + i, i = 0, size - 1)]
   b = 0
   call MPI_Ialltoallw(a, n, at, types, b(1:3*size:3), n, at, types, MPI_COMM_WORLD, r)
   call MPI_Wait(r, MPI_STATUS_IGNORE)
   call check(all(b(1:3*size:3) == [(10 * i + rank, i = 0, size - 1)]) .and. sum(b) == sum(b(1:3*size:3)), 'Ialltoallw')
end subroutine

subroutine reductions()
   integer, asynchronous :: a(3,4), b(8,3), c(8,3)
   type(MPI_Request) :: r
   integer :: i
   a = reshape([(i, i = 1, 12)], [3,4])
   b = -1
   c = -1
   c(1:7:2, 2) = size * a(2, :)
   call MPI_Iallreduce(a(2, :), b(1:7:2, 2), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, r)
   call MPI_Wait(r, MPI_STATUS_IGNORE)
   call check(all(b == c), 'Iallreduce, two layouts')
   b = -1
   call MPI_Reduce(a(2, :), b(1:7:2, 2), 4, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
   call check(all(b == c) .or. rank > 0 .and. all(b == -1), 'Reduce')
   b = rank
   call MPI_Allreduce(MPI_IN_PLACE, b(2:8:3, 1:3:2), 6, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
   call check(all(b(2:8:3, 1:3:2) == size - 1) .and. b(1, 1) == rank, 'in place')
   call MPI_Reduce_local(a(1, 1:3), b(1:7:3, 2), 3, MPI_INTEGER, MPI_PROD)
   call check(all(b(1:7:3, 2) == rank * a(1, 1:3)), 'Reduce_local')
end subroutine

subroutine packing()
   integer :: a(10), b(10), position, i
   character(len=1) :: memory(200)
   a = [(i, i = 1, 10)]
   position = 0
   call MPI_Pack(a(1:9:2), 5, MPI_INTEGER, memory(1:200:2), 100, position, MPI_COMM_WORLD)
   call check(position == 20, 'Pack')
   position = 0
   b = 0
   call MPI_Unpack(memory(1:200:2), 100, position, b(10:2:-2), 5, MPI_INTEGER, MPI_COMM_WORLD)
   call check(all(b(10:2:-2) == a(1:9:2)) .and. all(b(1:9:2) == 0), 'Unpack')
   position = 0
   b = 0
   call position_external(a, b, memory)
end subroutine

subroutine position_external(a, b, memory)
   integer :: a(10), b(10)
   character(len=1) :: memory(200)
   integer(MPI_ADDRESS_KIND) :: position
   position = 0
   call MPI_Pack_external('external32  ', a(1:9:2), 5, MPI_INTEGER, memory, 200_MPI_ADDRESS_KIND, position)
   call check(position == 20 .and. ichar(memory(4)) == 1 .and. ichar(memory(1)) == 0, 'Pack_external')
   position = 0
   call MPI_Unpack_external('external32', memory, 200_MPI_ADDRESS_KIND, position, b(1:9:2), 5, MPI_INTEGER)
   call check(all(b(1:9:2) == a(1:9:2)), 'Unpack_external')
end subroutine

subroutine one_sided()
   integer, asynchronous :: w(8), a(16), i
   type(MPI_Win) :: win
   w = 0
   a = [(10 * rank + i, i = 1, 16)]
   call MPI_Win_create(w, 32_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
   call MPI_Win_fence(0, win)
   call MPI_Put(a(1:16:5), 4, MPI_INTEGER, next(), 2_MPI_ADDRESS_KIND, 4, MPI_INTEGER, win)
   call MPI_Win_fence(0, win)
   call check(all(w(3:6) == 10 * previous() + [1, 6, 11, 16]), 'Put')
   call MPI_Win_fence(0, win)
   call MPI_Accumulate(a(16:1:-5), 4, MPI_INTEGER, next(), 2_MPI_ADDRESS_KIND, 4, MPI_INTEGER, MPI_SUM, win)
   call MPI_Win_fence(0, win)
   call check(all(w(3:6) == 20 * previous() + 17), 'Accumulate')
   call MPI_Get(a(2:8:2), 4, MPI_INTEGER, next(), 2_MPI_ADDRESS_KIND, 4, MPI_INTEGER, win)
   call MPI_Win_fence(0, win)
   call check(all(a(2:8:2) == 20 * rank + 17) .and. a(1) == 10 * rank + 1 .and. a(3) == 10 * rank + 3, 'Get')
   call MPI_Win_free(win)
end subroutine

! An array element stands for the array from there on.
subroutine sequence_association()
   integer, asynchronous :: a(6,6), b(6,6)
   integer :: i
   a = reshape([(i, i = 1, 36)], [6,6])
   b = 0
   call shift(a(3,2), b(1,4), 7, MPI_INTEGER)
   call check(all(reshape(b, [36]) == [(0, i = 1, 18), (8 + i, i = 1, 7), (0, i = 1, 11)]), 'from an element on')
   call assumed_size(a, b)
end subroutine

subroutine assumed_size(a, b)
   integer, asynchronous :: a(6,*), b(6,*)
   b(:, 1:6) = 0
   call shift(a(:, 1:6:2), b(:, 2:6:2), 18, MPI_INTEGER)
   call check(all(b(:, 2:6:2) == a(:, 1:6:2)) .and. all(b(:, 1:5:2) == 0), 'sections of an assumed-size array')
end subroutine
end program
