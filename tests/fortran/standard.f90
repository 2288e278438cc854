! SPDX-License-Identifier: BSD-3-Clause
! The tasks of the MPI standard's Fortran examples, chapter by chapter, in programs of our own.
module shapes
implicit none
type, bind(C) :: particle
   integer :: kind
   double precision :: at(3)
   real :: mass
end type
contains
logical function same(a, b)
   type(particle), intent(in) :: a, b
   same = a%kind == b%kind .and. all(a%at == b%at) .and. a%mass == b%mass
end function
end module

program standard
use mpi_f08
use testing
use shapes
use, intrinsic :: iso_c_binding
implicit none
call MPI_Init()
call begin()
call probe()
call MPI_Barrier(MPI_COMM_WORLD)
call jacobi()
call array_section()
call lower_triangle()
call transposed()
call gathered()
call minimum_and_place()
call particles()
call precision()
call synchronized()
call shared_window()
call gathered_by_get()
call rank_of_neighbours()
call dynamic_memory()
call finish('standard')
contains

! Chapter 3: the source and the size of a message are looked up before the receive.
subroutine probe()
   integer :: i, n
   real :: x
   integer, allocatable :: list(:)
   type(MPI_Status) :: status
   if (rank > 0) then
      if (mod(rank, 2) == 0) call MPI_Send(real(rank), 1, MPI_REAL, 0, 0, MPI_COMM_WORLD)
      if (mod(rank, 2) == 1) call MPI_Send([(rank, i = 1, rank)], rank, MPI_INTEGER, 0, 1, MPI_COMM_WORLD)
      return
   end if
   do i = 1, size - 1
      call MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status)
      if (status%MPI_TAG == 0) then
         call MPI_Recv(x, 1, MPI_REAL, status%MPI_SOURCE, 0, MPI_COMM_WORLD, status)
         call check(x == status%MPI_SOURCE, 'a real number')
      else
         call MPI_Get_count(status, MPI_INTEGER, n)
         allocate (list(n))
         call MPI_Recv(list, n, MPI_INTEGER, status%MPI_SOURCE, 1, MPI_COMM_WORLD, status)
         call check(n == status%MPI_SOURCE .and. all(list == n), 'a list')
         deallocate (list)
      end if
   end do
end subroutine

! Chapter 3: columns are exchanged while the inner part is computed; the ends of the row have no neighbour.
subroutine jacobi()
   integer, parameter :: n = 10, m = 6
   double precision, asynchronous :: a(n, 0:m+1)
   double precision :: b(n, m)
   integer :: left, right, step
   type(MPI_Request) :: r(4)
   left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
   right = merge(rank + 1, MPI_PROC_NULL, rank < size - 1)
   a = 0
   a(:, 1:m) = rank
   do step = 1, 2
      call MPI_Irecv(a(:, 0), n, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, r(1))
      call MPI_Irecv(a(:, m+1), n, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, r(2))
      call MPI_Isend(a(:, 1), n, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, r(3))
      call MPI_Isend(a(:, m), n, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, r(4))
      b(:, 2:m-1) = (a(:, 1:m-2) + a(:, 3:m)) / 2
      call MPI_Waitall(4, r, MPI_STATUSES_IGNORE)
      b(:, 1) = (a(:, 0) + a(:, 2)) / 2
      b(:, m) = (a(:, m-1) + a(:, m+1)) / 2
      if (step == 1) call check(all(b(:, 1) == (rank + max(rank - 1, 0)) / 2d0), 'the left neighbour')
      a(:, 1:m) = b
   end do
   call check(size == 1 .or. any(b /= rank), 'Jacobi')
end subroutine

! Chapter 5: the section a(1:17:2, 3:11, 2:10), by datatypes and by the section itself.
subroutine array_section()
   real, asynchronous :: a(20,14,12), e(9,9,9), f(9,9,9)
   type(MPI_Datatype) :: one, two, three
   integer(MPI_ADDRESS_KIND) :: lb, extent
   integer :: i
   a = reshape([(i, i = 1, 3360)], shape(a))
   call MPI_Type_get_extent(MPI_REAL, lb, extent)
   call MPI_Type_vector(9, 1, 2, MPI_REAL, one)
   call MPI_Type_create_hvector(9, 1, 20 * extent, one, two)
   call MPI_Type_create_hvector(9, 1, 20 * 14 * extent, two, three)
   call MPI_Type_commit(three)
   call MPI_Sendrecv(a(1,3,2), 1, three, rank, 0, e, 729, MPI_REAL, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call MPI_Sendrecv(a(1:17:2, 3:11, 2:10), 729, MPI_REAL, rank, 0, f, 729, MPI_REAL, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all(e == a(1:17:2, 3:11, 2:10)) .and. all(f == e), 'a section of three dimensions')
   call MPI_Type_free(one)
   call MPI_Type_free(two)
   call MPI_Type_free(three)
end subroutine

! Chapter 5: the strictly lower triangle of a matrix.
subroutine lower_triangle()
   integer :: a(10,10), b(10,10), i, j
   type(MPI_Datatype) :: lower
   a = reshape([(i, i = 1, 100)], [10,10])
   b = 0
   call MPI_Type_indexed(9, [(10 - i, i = 1, 9)], [(10 * (i - 1) + i, i = 1, 9)], MPI_INTEGER, lower)
   call MPI_Type_commit(lower)
   call MPI_Sendrecv(a, 1, lower, rank, 0, b, 1, lower, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   do j = 1, 10
      do i = 1, 10
         call check(b(i, j) == merge(a(i, j), 0, i > j), 'a triangle')
      end do
   end do
   call MPI_Type_free(lower)
end subroutine

! Chapter 5: a matrix is sent by rows and received by columns.
subroutine transposed()
   real :: a(8,8), b(8,8)
   type(MPI_Datatype) :: row, rows
   integer :: i
   a = reshape([(i, i = 1, 64)], [8,8])
   call MPI_Type_vector(8, 1, 8, MPI_REAL, row)
   call MPI_Type_create_hvector(8, 1, 4_MPI_ADDRESS_KIND, row, rows)
   call MPI_Type_commit(rows)
   call MPI_Sendrecv(a, 1, rows, rank, 0, b, 64, MPI_REAL, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all(b == transpose(a)), 'a transposed matrix')
   call MPI_Type_free(row)
   call MPI_Type_free(rows)
end subroutine

! Chapter 6: blocks of different lengths, with gaps at the root.
subroutine gathered()
   integer :: mine(rank + 1), all_of(10 * size), counts(size), at(size), i
   mine = rank
   counts = [(i, i = 1, size)]
   at = [(10 * (i - 1), i = 1, size)]
   all_of = -1
   call MPI_Gatherv(mine, rank + 1, MPI_INTEGER, all_of, counts, at, MPI_INTEGER, 0, MPI_COMM_WORLD)
   if (rank > 0) return
   do i = 1, size
      call check(all(all_of(at(i)+1:at(i)+i) == i - 1) .and. all(all_of(at(i)+i+1:10*i) == -1), 'Gatherv')
   end do
end subroutine

! Chapter 6: the largest value and the rank with that value.
subroutine minimum_and_place()
   double precision :: in(2,3), out(2,3)
   integer :: i
   do i = 1, 3
      in(:, i) = [dble(mod(rank + i, size)), dble(rank)]
   end do
   call MPI_Reduce(in, out, 3, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, 0, MPI_COMM_WORLD)
   if (rank > 0) return
   do i = 1, 3
      call check(out(1, i) == size - 1 .and. mod(nint(out(2, i)) + i, size) == size - 1, 'MPI_MAXLOC')
   end do
end subroutine

! Chapter 19: an array of a derived type, described by the addresses of the components.
subroutine particles()
   type(particle), asynchronous :: p(5), q(5)
   integer(MPI_ADDRESS_KIND) :: at(4)
   type(MPI_Datatype) :: one, many
   integer :: i
   do i = 1, 5
      p(i) = particle(i, [1d0, 2d0, 3d0] * i, 0.5 * i)
      q(i) = particle(0, [0d0, 0d0, 0d0], 0)
   end do
   call MPI_Get_address(p(1)%kind, at(1))
   call MPI_Get_address(p(1)%at, at(2))
   call MPI_Get_address(p(1)%mass, at(3))
   call MPI_Get_address(p(2)%kind, at(4))
   call MPI_Type_create_struct(3, [1, 3, 1], at(1:3) - at(1), [MPI_INTEGER, MPI_DOUBLE_PRECISION, MPI_REAL], one)
   call MPI_Type_create_resized(one, 0_MPI_ADDRESS_KIND, MPI_Aint_diff(at(4), at(1)), many)
   call MPI_Type_commit(many)
   call MPI_Sendrecv(p, 5, many, rank, 0, q, 5, many, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all([(same(p(i), q(i)), i = 1, 5)]), 'derived types')
   ! every second one, by the section: elements of the datatype are elements of the array
   q = particle(0, [0d0, 0d0, 0d0], 0)
   call MPI_Sendrecv(p(1:5:2), 3, many, rank, 0, q(5:1:-2), 3, many, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(same(q(5), p(1)) .and. same(q(1), p(5)) .and. q(2)%kind == 0, 'a section of derived types')
   call MPI_Type_free(one)
   call MPI_Type_free(many)
end subroutine

! Chapter 19: datatypes for kinds that are selected by precision and range.
subroutine precision()
   integer, parameter :: wide = selected_real_kind(12, 100), long = selected_int_kind(12)
   real(wide) :: x(3), y(3)
   integer(long) :: i, j
   type(MPI_Datatype) :: type, by_size
   integer :: bytes
   x = [1, 2, 3] / 3.0_wide
   call MPI_Type_create_f90_real(12, 100, type)
   call MPI_Sendrecv(x, 3, type, rank, 0, y, 3, type, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all(x == y), 'a real of 12 digits')
   call MPI_Sizeof(x, bytes)
   call MPI_Type_match_size(MPI_TYPECLASS_REAL, bytes, by_size)
   call MPI_Allreduce(MPI_IN_PLACE, y, 3, by_size, MPI_MAX, MPI_COMM_WORLD)
   call check(all(x == y), 'a datatype by its size')
   call MPI_Type_create_f90_integer(12, type)
   i = 123456789012_long
   call MPI_Sendrecv(i, 1, type, rank, 0, j, 1, type, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(i == j, 'an integer of 12 digits')
end subroutine

! Chapter 19: the compiler may keep a variable in a register, but not across MPI_F_sync_reg.
subroutine synchronized()
   integer, asynchronous :: value
   integer(MPI_ADDRESS_KIND) :: at(1)
   type(MPI_Datatype) :: type
   value = 1
   call MPI_Get_address(value, at(1))
   call MPI_Type_create_hindexed(1, [1], at, MPI_INTEGER, type)
   call MPI_Type_commit(type)
   call MPI_Sendrecv(42, 1, MPI_INTEGER, rank, 0, MPI_BOTTOM, 1, type, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call MPI_F_sync_reg(value)
   call check(value == 42, 'MPI_F_sync_reg')
   call MPI_Type_free(type)
end subroutine

! Chapter 12: memory that the ranks of a node share, through C_F_POINTER.
subroutine shared_window()
   type(MPI_Comm) :: node
   type(MPI_Win) :: win
   type(c_ptr) :: p
   integer(MPI_ADDRESS_KIND) :: bytes
   integer :: unit, me, ranks
   integer, pointer :: mine(:), first(:)
   call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
   call MPI_Comm_rank(node, me)
   call MPI_Comm_size(node, ranks)
   call MPI_Win_allocate_shared(int(merge(4 * ranks, 0, me == 0), MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, node, p, win)
   call MPI_Win_shared_query(win, 0, bytes, unit, p)
   call check(bytes == 4 * ranks .and. unit == 4, 'Win_shared_query')
   call c_f_pointer(p, first, [ranks])
   mine => first(me+1:me+1)
   call MPI_Win_fence(0, win)
   mine = me + 1
   call MPI_Win_fence(0, win)
   call check(sum(first) == ranks * (ranks + 1) / 2, 'shared memory')
   call MPI_Win_fence(0, win)
   call MPI_Win_free(win)
   call MPI_Comm_free(node)
end subroutine

! Chapter 12: each rank fetches the elements that a map names.
subroutine gathered_by_get()
   integer, parameter :: m = 4
   integer, asynchronous :: a(m), b(m)
   integer :: map(m), i
   type(MPI_Win) :: win
   b = [(m * rank + i, i = 1, m)]
   map = [(modulo(m * (rank + i) + i, m * size) + 1, i = 1, m)]
   call MPI_Win_create(b, 4_MPI_ADDRESS_KIND * m, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
   call MPI_Win_fence(0, win)
   do i = 1, m
      call MPI_Get(a(i), 1, MPI_INTEGER, (map(i) - 1) / m, int(modulo(map(i) - 1, m), MPI_ADDRESS_KIND), 1, MPI_INTEGER, win)
   end do
   call MPI_Win_fence(0, win)
   call check(all(a == map), 'a map')
   call MPI_Win_free(win)
end subroutine

! Chapter 8: a periodic row of processes, values shifted along the row.
subroutine rank_of_neighbours()
   type(MPI_Comm) :: row
   integer :: source, dest, me
   real :: a
   call MPI_Cart_create(MPI_COMM_WORLD, 1, [size], [.true.], .true., row)
   call MPI_Comm_rank(row, me)
   call MPI_Cart_shift(row, 0, 2, source, dest)
   a = me
   call MPI_Sendrecv_replace(a, 1, MPI_REAL, dest, 0, source, 0, row, MPI_STATUS_IGNORE)
   call check(source == modulo(me - 2, size) .and. nint(a) == source, 'Cart_shift')
   call MPI_Comm_free(row)
end subroutine

! Chapters 9 and 19: memory of MPI's, as an array of two dimensions.
subroutine dynamic_memory()
   type(c_ptr) :: p
   real, pointer :: a(:,:)
   integer(MPI_ADDRESS_KIND) :: bytes
   bytes = 4 * 10 * 20
   call MPI_Alloc_mem(bytes, MPI_INFO_NULL, p)
   call c_f_pointer(p, a, [10, 20])
   a = 3
   call MPI_Allreduce(MPI_IN_PLACE, a(5, 1:20), 20, MPI_REAL, MPI_MAX, MPI_COMM_WORLD)
   call check(all(a == 3), 'Alloc_mem')
   call MPI_Free_mem(a)
end subroutine
end program
