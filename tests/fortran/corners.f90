! SPDX-License-Identifier: BSD-3-Clause
! Chapter 19 by the module mpi_f08: large counts by the generic names, components, substrings, pointers and array sections,
! the bits of LOGICAL values, strings that are cut, parameterized types, sentinels, persistent operations.
program corners
use testing
use attribute_functions
implicit none
type particle
   sequence
   real(8) :: x(3)
   integer :: tag
   character(len=4) :: name
end type
call MPI_Init()
call begin()
call large_counts()
call components()
call attrs()
call f90types()
call places()
call logicals()
call assumed(reshape([1,2,3,4,5,6], [2,3]))
call pointers()
call persist()
call strings()
call finish('corners')
contains

subroutine large_counts()
   integer(MPI_COUNT_KIND) :: n, c, lb, ext, sz
   integer :: a(100), b(100), i, small
   type(MPI_Status) :: s
   type(MPI_Request) :: r
   type(MPI_Datatype) :: t
   integer(MPI_COUNT_KIND) :: counts(0:size-1)
   integer(MPI_ADDRESS_KIND) :: displs(0:size-1)
   n = 30
   a = [(rank*1000+i, i=1,100)]
   b = -1
   call MPI_Isend(a(1:90:3), n, MPI_INTEGER, mod(rank+1,size), 3, MPI_COMM_WORLD, r)
   call MPI_Recv(b(100:42:-2), n, MPI_INTEGER, mod(rank-1+size,size), 3, MPI_COMM_WORLD, s)
   call MPI_Wait(r, MPI_STATUS_IGNORE)
   call MPI_Get_count(s, MPI_INTEGER, c)
   call check(c == 30, 'large count')
   call MPI_Get_count(s, MPI_INTEGER, small)
   call check(small == 30, 'count')
   call check(all(b(100:42:-2) == [(mod(rank-1+size,size)*1000+i, i=1,88,3)]), 'section by large counts')
   call check(count(b == -1) == 70, 'rest')
   call MPI_Type_contiguous(n, MPI_INTEGER, t)
   call MPI_Type_commit(t)
   call MPI_Type_size(t, sz)
   call check(sz == 120, 'size')
   call MPI_Type_get_extent(t, lb, ext)
   call check(lb == 0 .and. ext == 120, 'extent')
   call MPI_Type_free(t)
   do i = 0, size-1
      counts(i) = 2
      displs(i) = 3*i
   end do
   b = -1
   call MPI_Allgatherv(a, counts(rank), MPI_INTEGER, b, counts, displs, MPI_INTEGER, MPI_COMM_WORLD)
   do i = 0, size-1
      call check(b(3*i+1) == 1000*i+1 .and. b(3*i+2) == 1000*i+2 .and. b(3*i+3) == -1, 'allgatherv by large counts')
   end do
   call MPI_Bcast(a, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
   call check(a(30) == 30, 'bcast')
end subroutine

subroutine components()
   type(particle) :: p(10)
   integer :: i, tags(10)
   character(len=4) :: names(10)
   type(MPI_Request) :: r(3)
   do i = 1, 10
      p(i)%x = [i+0.25d0, i+0.5d0, i+0.75d0] + rank
      p(i)%tag = i + 10*rank
      write(p(i)%name, '(a,i3.3)') 'p', i
   end do
   call MPI_Isend(p%tag, 10, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, r(1))
   call MPI_Isend(p(2:10:2)%x(2), 5, MPI_DOUBLE_PRECISION, rank, 2, MPI_COMM_WORLD, r(2))
   call MPI_Isend(p(:)%name(2:3), 20, MPI_CHARACTER, rank, 3, MPI_COMM_WORLD, r(3))
   call MPI_Recv(tags, 10, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all(tags == p%tag), 'components')
   block
      real(8) :: x(5)
      call MPI_Recv(x, 5, MPI_DOUBLE_PRECISION, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      call check(all(x == p(2:10:2)%x(2)), 'component of arrays')
   end block
   names = '....'
   call MPI_Recv(names(:)(2:3), 20, MPI_CHARACTER, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all(names == '.' // p(:)%name(2:3) // '.'), 'substrings')
   call MPI_Waitall(3, r, MPI_STATUSES_IGNORE)
end subroutine

subroutine attrs()
   integer :: key
   type(MPI_Comm) :: d
   integer(MPI_ADDRESS_KIND) :: v, e
   logical :: flag
   e = 1000
   call MPI_Comm_create_keyval(copy_attr, delete_attr, key, e)
   v = -5
   call MPI_Comm_set_attr(MPI_COMM_WORLD, key, v)
   call MPI_Comm_dup(MPI_COMM_WORLD, d)
   v = 0
   call MPI_Comm_get_attr(d, key, v, flag)
   call check(flag .and. v == 995, 'copied attribute')
   call MPI_Comm_free(d)
   call check(deletes == 1, 'deleted')
   most_copied = -huge(most_copied)
   call MPI_Comm_dup(MPI_COMM_WORLD, d)
   call MPI_Comm_get_attr(d, key, v, flag)
   call check(.not. flag, 'not copied')
   call MPI_Comm_free(d)
   call MPI_Comm_delete_attr(MPI_COMM_WORLD, key)
   call MPI_Comm_free_keyval(key)
   call check(key == MPI_KEYVAL_INVALID, 'keyval')
   call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, e)
   v = 77
   call MPI_Comm_set_attr(MPI_COMM_WORLD, key, v)
   call MPI_Comm_dup(MPI_COMM_WORLD, d)
   v = 0
   call MPI_Comm_get_attr(d, key, v, flag)
   call check(flag .and. v == 77, 'MPI_COMM_DUP_FN')
   call MPI_Comm_free(d)
   call MPI_Comm_delete_attr(MPI_COMM_WORLD, key)
   call MPI_Comm_free_keyval(key)
   call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, v, flag)
   call check(flag .and. v >= 32767, 'MPI_TAG_UB')
end subroutine

subroutine f90types()
   type(MPI_Datatype) :: a, b, c, t(1)
   integer :: ni, na, nd, comb, ints(2), sz
   integer(MPI_ADDRESS_KIND) :: ad(1)
   integer :: ierr
   call MPI_Type_create_f90_real(15, 300, a)
   call MPI_Type_create_f90_real(15, 300, b)
   call check(a == b, 'the same handle')
   call MPI_Type_get_envelope(a, ni, na, nd, comb)
   call check(comb == MPI_COMBINER_F90_REAL .and. ni == 2 .and. na == 0 .and. nd == 0, 'envelope')
   call MPI_Type_get_contents(a, 2, 0, 0, ints, ad, t)
   call check(all(ints == [15, 300]), 'contents')
   call MPI_Type_size(a, sz)
   call check(sz == storage_size(1.0_8)/8, 'size of real')
   call MPI_Type_create_f90_integer(12, c)
   call MPI_Type_size(c, sz)
   call check(sz == 8, 'size of integer')
   call MPI_Type_create_f90_complex(6, MPI_UNDEFINED, c)
   call MPI_Type_size(c, sz)
   call check(sz == 8, 'size of complex')
   call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
   call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
   call MPI_Type_create_f90_real(999, MPI_UNDEFINED, c, ierr)
   call check(ierr /= MPI_SUCCESS, 'no such precision')
   call MPI_Type_free(a, ierr)
   call check(ierr /= MPI_SUCCESS, 'predefined: not to be freed')
   call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
   call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, a)
   call MPI_Type_size(a, sz)
   call check(sz == 8, 'match size')
end subroutine

subroutine places()
   integer :: v(0:2*size), i, lens(2)
   integer(MPI_ADDRESS_KIND) :: at(2)
   type(MPI_Datatype) :: t
   integer, asynchronous :: x, y
   type(MPI_Status) :: st(2)
   type(MPI_Request) :: r(2)
   v = 0
   v(rank) = rank + 1
   call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, v, 1, MPI_INTEGER, MPI_COMM_WORLD)
   call check(all(v(0:size-1) == [(i+1, i=0,size-1)]), 'allgather in place')
   call MPI_Allreduce(MPI_IN_PLACE, v, size, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
   call check(all(v(0:size-1) == [((i+1)*size, i=0,size-1)]), 'allreduce in place')
   v(0:size-1) = [(100*rank+i, i=0,size-1)]
   call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, v, 1, MPI_INTEGER, MPI_COMM_WORLD)
   call check(all(v(0:size-1) == [(100*i+rank, i=0,size-1)]), 'alltoall in place')
   ! strided in place
   v = -1
   v(2*rank) = rank
   call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, v(0:2*size-2:2), 1, MPI_INTEGER, MPI_COMM_WORLD)
   call check(all(v(0:2*size-2:2) == [(i, i=0,size-1)]) .and. all(v(1:2*size-1:2) == -1), 'section in place')
   x = rank
   y = -1
   call MPI_Get_address(x, at(1))
   call MPI_Get_address(y, at(2))
   lens = 1
   call MPI_Type_create_hindexed(1, lens, at(1:1), MPI_INTEGER, t)
   call MPI_Type_commit(t)
   call MPI_Isend(MPI_BOTTOM, 1, t, mod(rank+1,size), 1, MPI_COMM_WORLD, r(1))
   call MPI_Irecv(y, 1, MPI_INTEGER, mod(rank-1+size,size), 1, MPI_COMM_WORLD, r(2))
   call MPI_Waitall(2, r, st)
   call MPI_F_sync_reg(y)
   call check(y == mod(rank-1+size,size), 'MPI_BOTTOM')
   call check(st(2)%MPI_SOURCE == y .and. st(2)%MPI_TAG == 1, 'status')
   call MPI_Type_free(t)
end subroutine

subroutine logicals()
   logical :: a(7), b(7), flag
   integer :: raw(7)
   type(MPI_Comm) :: cart
   integer :: dims(2), coords(2)
   logical :: periods(2)
   a = [.true., .false., .true., .true., .false., .false., .true.]
   if (rank == 0) a(1) = .false.
   call MPI_Allreduce(a, b, 7, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
   call check(.not. b(1) .and. b(3) .and. .not. b(2), 'land')
   call MPI_Allreduce(a, b, 7, MPI_LOGICAL, MPI_LXOR, MPI_COMM_WORLD)
   call check(b(3) .eqv. mod(size,2) == 1, 'lxor')
   raw = transfer(b, raw)
   call check(all(raw == 0 .or. raw == transfer(.true., 1)), 'the bits of logicals')
   call MPI_Allreduce(a(7:1:-3), b(1:3), 3, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD)
   call check(b(1) .and. b(2) .and. (b(3) .eqv. size > 1), 'lor of a section')
   dims = [size, 1]
   call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., cart)
   periods = [.false., .true.]
   call MPI_Cart_get(cart, 2, dims, periods, coords)
   call check(periods(1) .and. .not. periods(2), 'periods')
   raw(1:2) = transfer(periods, raw(1:2))
   call check(all(raw(1:2) == [transfer(.true.,1), 0]), 'bits of periods')
   call MPI_Comm_free(cart)
   call MPI_Initialized(flag)
   call check(transfer(flag, 1) == transfer(.true., 1), 'flag')
   call MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE)
   call check(transfer(flag, 1) == 0, 'false flag')
end subroutine

subroutine assumed(x)
   integer, intent(in) :: x(:,:)
   integer :: y(3,2)
   type(MPI_Request) :: r
   call MPI_Isend(x(:, size_of(x):1:-1), 6, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, r)
   call MPI_Recv(y, 6, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call MPI_Wait(r, MPI_STATUS_IGNORE)
   call check(all(reshape(y, [6]) == [5,6,3,4,1,2]), 'assumed shape, backwards')
   ! nothing
   call MPI_Sendrecv(x(:, 3:2), 0, MPI_INTEGER, rank, 1, y(2:1, :), 0, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call MPI_Sendrecv(x(2:2, :), 3, MPI_INTEGER, rank, 1, y(3:1:-1, 2), 3, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all(y(3:1:-1, 2) == x(2, :)), 'a row into a column backwards')
end subroutine

integer function size_of(x)
   integer, intent(in) :: x(:,:)
   size_of = ubound(x, 2)
end function

subroutine pointers()
   integer, target :: a(20)
   integer, pointer :: p(:), q(:,:)
   integer, allocatable :: b(:,:)
   integer :: i, c(30)
   a = [(i + 100*rank, i=1,20)]
   p => a(20:1:-2)
   allocate(b(0:3, -2:5))
   b = -1
   call MPI_Sendrecv(p, 10, MPI_INTEGER, rank, 1, b(0:3:2, -2:2), 10, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all(reshape(b(0:3:2, -2:2), [10]) == p) .and. count(b == -1) == 22, 'a pointer into an allocated array')
   q(1:5, 1:4) => a
   c = -1
   call MPI_Sendrecv(q(2:4, 2:4:2), 6, MPI_INTEGER, rank, 1, c(1:30:5), 6, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE)
   call check(all(c(1:30:5) == reshape(q(2:4, 2:4:2), [6])), 'a remapped pointer')
   ! an element stands for the array behind it
   call MPI_Sendrecv(a(5), 4, MPI_INTEGER, rank, 1, c(10), 4, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
   call check(all(c(10:13) == a(5:8)), 'sequence association')
   call MPI_Bcast(b(1, :), 8, MPI_INTEGER, 0, MPI_COMM_WORLD)
   call MPI_Sendrecv_replace(b(:, 0), 4, MPI_INTEGER, rank, 1, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
end subroutine

subroutine persist()
   integer, asynchronous :: a(10, 10), b(10, 10)
   integer :: i, k
   type(MPI_Request) :: r(2)
   logical :: flag
   call MPI_Send_init(a(3, :), 10, MPI_INTEGER, mod(rank+1,size), 8, MPI_COMM_WORLD, r(1))
   call MPI_Recv_init(b(:, 7:2:-5), 20, MPI_INTEGER, mod(rank-1+size,size), 8, MPI_COMM_WORLD, r(2))
   do k = 1, 4
      a = -1
      b = -2
      a(3, :) = [(1000*k + 100*rank + i, i=1,10)]
      call MPI_Startall(2, r)
      flag = .false.
      do while (.not. flag)
         call MPI_Testall(2, r, flag, MPI_STATUSES_IGNORE)
      end do
      call check(all(b(:, 7) == [(1000*k + 100*mod(rank-1+size,size) + i, i=1,10)]) .and. count(b == -2) == 90, 'persistent')
   end do
   call MPI_Request_free(r(1))
   call MPI_Request_free(r(2))
   call check(r(1) == MPI_REQUEST_NULL, 'freed')
end subroutine

subroutine strings()
   character(len=MPI_MAX_OBJECT_NAME) :: name
   character(len=3) :: tiny
   character(len=5) :: value
   character(len=100) :: long
   integer :: n
   type(MPI_Info) :: info
   logical :: flag
   type(MPI_Comm) :: d
   call MPI_Comm_dup(MPI_COMM_WORLD, d)
   call MPI_Comm_set_name(d, '  a name   ')
   call MPI_Comm_get_name(d, name, n)
   call check(name == '  a name' .and. n == 8, 'a name with blanks')
   tiny = '???'
   call MPI_Comm_get_name(d, tiny, n)
   call check(tiny == '  a', 'a name that is cut')
   call MPI_Comm_set_name(d, '     ')
   call MPI_Comm_get_name(d, name, n)
   call check(name == '' .and. n == 0, 'an empty name')
   call MPI_Comm_free(d)
   call MPI_Info_create(info)
   call MPI_Info_set(info, ' key ', ' a value ')
   call MPI_Info_get(info, 'key', 5, value, flag)
   call check(flag .and. value == 'a val', 'a value that is cut: ' // value)
   n = 100
   long = repeat('z', 100)
   call MPI_Info_get_string(info, 'key  ', n, long, flag)
   call check(flag .and. long == 'a value', 'a value')
   call check(n == 7, 'the length of a value')
   call MPI_Info_get_valuelen(info, 'key', n, flag)
   call check(flag .and. n == 7, 'valuelen')
   long = repeat('z', 100)
   call MPI_Info_get_nthkey(info, 0, long)
   call check(long == 'key', 'nthkey')
   call MPI_Info_get(info, 'none', 5, value, flag)
   call check(.not. flag .and. value == 'a val', 'no value')
   call MPI_Info_free(info)
   long = repeat('z', 100)
   call MPI_Error_string(MPI_ERR_COMM, long, n)
   call check(n > 0 .and. len_trim(long) == min(n, 100), 'error string')
end subroutine
end program
