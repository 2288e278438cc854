! SPDX-License-Identifier: BSD-3-Clause
! Files from Fortran (chapter 14 by the module mpi_f08): sections of arrays as buffers of each kind of access, names with blanks,
! views, data representations, statuses, error handlers.
module file_callbacks
use mpi_f08
use, intrinsic :: iso_c_binding
implicit none
integer :: conversions = 0, extents = 0, handled = 0
contains

! Each integer is stored as its complement.
subroutine convert(userbuf, datatype, count, filebuf, position, extra_state, ierror)
   type(c_ptr), value :: userbuf, filebuf
   type(MPI_Datatype) :: datatype
   integer :: count, ierror
   integer(MPI_OFFSET_KIND) :: position
   integer(MPI_ADDRESS_KIND) :: extra_state
   integer, pointer :: user(:), file(:)
   call of_buffers(userbuf, filebuf, int(position), count, extra_state, user, file, ierror)
   file = not(user)
end subroutine

subroutine convert_back(userbuf, datatype, count, filebuf, position, extra_state, ierror)
   type(c_ptr), value :: userbuf, filebuf
   type(MPI_Datatype) :: datatype
   integer :: count, ierror
   integer(MPI_OFFSET_KIND) :: position
   integer(MPI_ADDRESS_KIND) :: extra_state
   integer, pointer :: user(:), file(:)
   call of_buffers(userbuf, filebuf, int(position), count, extra_state, user, file, ierror)
   user = not(file)
end subroutine

! The `count` integers of a conversion: those from `position` on in the user's buffer, and the file's.
subroutine of_buffers(userbuf, filebuf, position, count, extra_state, user, file, ierror)
   type(c_ptr), intent(in) :: userbuf, filebuf
   integer, intent(in) :: position, count
   integer(MPI_ADDRESS_KIND), intent(in) :: extra_state
   integer, pointer, intent(out) :: user(:), file(:)
   integer, intent(out) :: ierror
   call c_f_pointer(userbuf, user, [position + count])
   user => user(position + 1:)
   call c_f_pointer(filebuf, file, [count])
   conversions = conversions + 1
   ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, extra_state == 4711)
end subroutine

subroutine extent_of(datatype, extent, extra_state, ierror)
   type(MPI_Datatype) :: datatype
   integer(MPI_ADDRESS_KIND) :: extent, extra_state
   integer :: ierror
   extent = 4
   extents = extents + 1
   ierror = MPI_SUCCESS
end subroutine

subroutine on_error(file, error_code)
   type(MPI_File) :: file
   integer :: error_code
   handled = error_code
end subroutine
end module

program files
use testing
use file_callbacks
implicit none
character(len=200) :: dir, path
integer, parameter :: n = 12
integer :: a(n, n), b(n, n), want(n, n), kind
logical, volatile :: always = .true.

call MPI_Init()
call begin()
call get_command_argument(1, dir)
if (dir == '') dir = '.'
path = trim(dir) // '/files.dat'
do kind = 1, 10
   call sections(kind)
end do
call ends()
call views()
call representations()
call handlers()
call shared()
call finish('files')
contains

subroutine fill(base)
   integer, intent(in) :: base
   integer :: i, j
   do j = 1, n
      do i = 1, n
         a(i, j) = base + 100 * i + j
      end do
   end do
   b = -1
   want = -1
end subroutine

! The section a(2:n:3, n:1:-2), 4 x 6 elements, is written, and read into the section b(1:4, 1:11:2).
subroutine sections(kind)
   integer, intent(in) :: kind
   type(MPI_File) :: f
   type(MPI_Status) :: s
   type(MPI_Request) :: r
   integer :: c, raw(24)
   integer(MPI_OFFSET_KIND) :: at
   call fill(10000 * (rank + 1))
   at = 24 * rank
   if (rank == 0) call MPI_File_delete(path, MPI_INFO_NULL, c)
   call MPI_Barrier(MPI_COMM_WORLD)
   call MPI_File_open(MPI_COMM_WORLD, path // '   ', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, f)
   call MPI_File_set_view(f, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native   ', MPI_INFO_NULL)
   if (kind > 5) call MPI_File_seek(f, at, MPI_SEEK_SET)
   select case (kind)
   case (1); call MPI_File_write_at(f, at, a(2:n:3, n:1:-2), 24, MPI_INTEGER, s)
   case (2); call MPI_File_write_at_all(f, at, a(2:n:3, n:1:-2), 24, MPI_INTEGER, s)
   case (3); call MPI_File_iwrite_at(f, at, a(2:n:3, n:1:-2), 24, MPI_INTEGER, r); call MPI_Wait(r, s)
   case (4); call MPI_File_iwrite_at_all(f, at, a(2:n:3, n:1:-2), 24, MPI_INTEGER, r); call MPI_Wait(r, s)
   case (5)
      call MPI_File_write_at_all_begin(f, at, a(2:n:3, n:1:-2), 24, MPI_INTEGER)
      call MPI_File_write_at_all_end(f, a(2:n:3, n:1:-2), s)
   case (6); call MPI_File_write(f, a(2:n:3, n:1:-2), 24, MPI_INTEGER, s)
   case (7); call MPI_File_write_all(f, a(2:n:3, n:1:-2), 24, MPI_INTEGER, s)
   case (8); call MPI_File_iwrite(f, a(2:n:3, n:1:-2), 24, MPI_INTEGER, r); call MPI_Wait(r, s)
   case (9); call MPI_File_iwrite_all(f, a(2:n:3, n:1:-2), 24, MPI_INTEGER, r); call MPI_Wait(r, s)
   case (10)
      call MPI_File_write_all_begin(f, a(2:n:3, n:1:-2), 24, MPI_INTEGER)
      call MPI_File_write_all_end(f, a(2:n:3, n:1:-2), s)
   end select
   call MPI_Get_count(s, MPI_INTEGER, c)
   call check(c == 24, 'the count of a section that is written')
   call MPI_File_read_at(f, at, raw, 24, MPI_INTEGER, MPI_STATUS_IGNORE)
   call check(all(raw == reshape(a(2:n:3, n:1:-2), [24])), 'a section that is written')
   want(1:4, 1:11:2) = a(2:n:3, n:1:-2)
   if (kind > 5) call MPI_File_seek(f, at, MPI_SEEK_SET)
   select case (kind)
   case (1); call MPI_File_read_at(f, at, b(1:4, 1:11:2), 24, MPI_INTEGER, s)
   case (2); call MPI_File_read_at_all(f, at, b(1:4, 1:11:2), 24, MPI_INTEGER, s)
   case (3); call MPI_File_iread_at(f, at, b(1:4, 1:11:2), 24, MPI_INTEGER, r); call MPI_Wait(r, s)
   case (4); call MPI_File_iread_at_all(f, at, b(1:4, 1:11:2), 24, MPI_INTEGER, r); call MPI_Wait(r, s)
   case (5)
      call MPI_File_read_at_all_begin(f, at, b(1:4, 1:11:2), 24, MPI_INTEGER)
      call MPI_File_read_at_all_end(f, b(1:4, 1:11:2), s)
   case (6); call MPI_File_read(f, b(1:4, 1:11:2), 24, MPI_INTEGER, s)
   case (7); call MPI_File_read_all(f, b(1:4, 1:11:2), 24, MPI_INTEGER, s)
   case (8); call MPI_File_iread(f, b(1:4, 1:11:2), 24, MPI_INTEGER, r); call MPI_Wait(r, s)
   case (9); call MPI_File_iread_all(f, b(1:4, 1:11:2), 24, MPI_INTEGER, r); call MPI_Wait(r, s)
   case (10)
      call MPI_File_read_all_begin(f, b(1:4, 1:11:2), 24, MPI_INTEGER)
      call MPI_File_read_all_end(f, b(1:4, 1:11:2), s)
   end select
   call MPI_F_sync_reg(b)
   call MPI_Get_count(s, MPI_INTEGER, c)
   call check(c == 24, 'the count of a section that is read')
   call check(all(b == want), 'a section that is read')
   call MPI_File_close(f)
   call check(f == MPI_FILE_NULL, 'the handle after MPI_File_close')
end subroutine

! Datatypes with gaps over sections, split collectives with copies, fewer elements in the file than are asked for.
subroutine ends()
   type(MPI_File) :: f
   type(MPI_Status) :: s
   type(MPI_Request) :: r
   type(MPI_Datatype) :: t
   integer :: c, i, v(20), w(40), ierr
   integer(MPI_COUNT_KIND) :: large
   integer(MPI_OFFSET_KIND) :: zero = 0, p, size_now
   logical :: flag
   do i = 1, 20
      v(i) = 1000 * rank + i
   end do
   path = trim(dir) // '/ends' // char(ichar('0') + rank)
   call MPI_File_open(MPI_COMM_SELF, path, ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, MPI_MODE_DELETE_ON_CLOSE)), &
      MPI_INFO_NULL, f)
   path = trim(dir) // '/files.dat'
   call MPI_Type_vector(3, 1, 2, MPI_INTEGER, t)
   call MPI_Type_commit(t)
   ! elements 1, 3, 5 of the section v(1:20:3): 1, 7, 13
   call MPI_File_write_at(f, zero, v(1:20:3), 1, t, s)
   call MPI_Get_count(s, t, c)
   call check(c == 1, 'the count of a datatype with gaps over a section')
   call MPI_File_read_at(f, zero, w, 3, MPI_INTEGER, s)
   call check(all(w(1:3) == [v(1), v(7), v(13)]), 'a datatype with gaps over a section, written')
   w = -5
   call MPI_File_read_at(f, zero, w(40:1:-4), 1, t, s)
   call check(w(40) == v(1) .and. w(32) == v(7) .and. w(24) == v(13) .and. count(w == -5) == 37, &
      'a datatype with gaps over a section, read')
   w = -5
   call MPI_File_iread_at(f, zero, w(2:40:2), 1, t, r)
   call MPI_Wait(r, s)
   call MPI_F_sync_reg(w)
   call check(w(2) == v(1) .and. w(6) == v(7) .and. w(10) == v(13) .and. count(w == -5) == 37, &
      'a datatype with gaps over a section, read without blocking')
   w = -5
   call MPI_File_read_at_all_begin(f, zero, w(2:40:2), 1, t)
   call MPI_File_read_at_all_end(f, w(2:40:2), s)
   call MPI_F_sync_reg(w)
   call check(w(2) == v(1) .and. w(6) == v(7) .and. w(10) == v(13) .and. count(w == -5) == 37, &
      'a datatype with gaps over a section, read by a split collective')
   ! the end of the file
   w = -5
   call MPI_File_read_at(f, zero, w(1:39:2), 20, MPI_INTEGER, s)
   call MPI_Get_count(s, MPI_INTEGER, c)
   call check(c == 3 .and. w(1) == v(1) .and. w(5) == v(13) .and. w(7) == -5 .and. w(2) == -5, 'the end of a file and a section')
   large = 4
   w = -5
   call MPI_File_read_at(f, zero, w(1:39:2), large, MPI_INTEGER, s)
   call MPI_Get_count(s, MPI_INTEGER, large)
   call check(large == 3, 'a large count')
   call MPI_File_get_size(f, size_now)
   call check(size_now == 12, 'the size of the file')
   call MPI_File_get_position(f, p)
   call check(p == 0, 'the position')
   flag = always
   call MPI_File_set_atomicity(f, flag, ierr)
   if (ierr == MPI_SUCCESS) then
      flag = .false.
      call MPI_File_get_atomicity(f, flag)
      call check(flag .eqv. .true., 'atomic mode')
      call MPI_File_set_atomicity(f, .false.)
      call MPI_File_get_atomicity(f, flag)
      call check(.not. flag, 'no atomic mode')
   end if
   call MPI_File_close(f)
   call MPI_Type_free(t)
end subroutine

subroutine views()
   type(MPI_File) :: f
   type(MPI_Datatype) :: e, t, mine
   type(MPI_Group) :: g
   type(MPI_Info) :: info, used
   integer(MPI_OFFSET_KIND) :: disp, byte
   integer(MPI_ADDRESS_KIND) :: extent
   character(len=MPI_MAX_DATAREP_STRING) :: rep
   integer :: amode, c
   real(8) :: x(3), y(3)
   logical :: flag
   character(len=20) :: value
   call MPI_Info_create(info)
   call MPI_Info_set(info, '  cb_nodes  ', '  1  ')
   call MPI_File_open(MPI_COMM_WORLD, path, ior(MPI_MODE_CREATE, MPI_MODE_RDWR), info, f)
   call MPI_File_get_info(f, used)
   call MPI_Info_get(used, 'cb_nodes', 20, value, flag)
   if (flag) call check(value == '1', 'a hint with blanks: ' // value)
   call MPI_Info_free(used)
   call MPI_Info_free(info)
   call MPI_File_get_amode(f, amode)
   call check(amode == ior(MPI_MODE_CREATE, MPI_MODE_RDWR), 'the access mode')
   call MPI_File_get_group(f, g)
   call MPI_Group_size(g, c)
   call check(c == size, 'the group of the file')
   call MPI_Group_free(g)
   call MPI_Type_create_resized(MPI_DOUBLE_PRECISION, 0_MPI_ADDRESS_KIND, int(8 * size, MPI_ADDRESS_KIND), mine)
   call MPI_Type_commit(mine)
   disp = 8 * rank + 100
   call MPI_File_set_view(f, disp, MPI_DOUBLE_PRECISION, mine, 'external32', MPI_INFO_NULL)
   rep = repeat('x', MPI_MAX_DATAREP_STRING)
   call MPI_File_get_view(f, disp, e, t, rep)
   call check(rep == 'external32' .and. disp == 8 * rank + 100 .and. e == MPI_DOUBLE_PRECISION, 'the view')
   call MPI_File_get_type_extent(f, MPI_DOUBLE_PRECISION, extent)
   call check(extent == 8, 'the extent in the file')
   call MPI_File_get_byte_offset(f, 2_MPI_OFFSET_KIND, byte)
   call check(byte == 100 + 8 * (rank + 2 * size), 'the offset in bytes')
   x = [1.5d0, -2d0, rank + 0d0]
   call MPI_File_write_all(f, x(3:1:-1), 3, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
   call MPI_File_sync(f)
   call MPI_Barrier(MPI_COMM_WORLD)
   call MPI_File_sync(f)
   call MPI_File_read_at_all(f, 0_MPI_OFFSET_KIND, y, 3, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
   call check(all(y == x(3:1:-1)), 'numbers in external32')
   call MPI_Type_free(t)
   call MPI_Type_free(mine)
   call MPI_File_close(f)
end subroutine

subroutine representations()
   type(MPI_File) :: f
   integer :: v(5), raw(5), ierr, i
   integer(MPI_ADDRESS_KIND) :: extra = 4711
   call MPI_Register_datarep('complement  ', convert_back, convert, extent_of, extra)
   call MPI_Register_datarep('complement', convert_back, convert, extent_of, extra, ierr)
   call MPI_Error_class(ierr, i)
   call check(i == MPI_ERR_DUP_DATAREP, 'a representation that is there')
   call MPI_Register_datarep('no functions', MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, extra)
   call MPI_File_open(MPI_COMM_WORLD, path, ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, f)
   call MPI_File_set_view(f, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'complement', MPI_INFO_NULL)
   v = [1, 2, 3, 4, 5] * (rank + 1)
   call MPI_File_write_at_all(f, int(5 * rank, MPI_OFFSET_KIND), v, 5, MPI_INTEGER, MPI_STATUS_IGNORE)
   call check(conversions > 0 .and. extents > 0, 'conversion functions')
   raw = 0
   call MPI_File_read_at_all(f, int(5 * rank, MPI_OFFSET_KIND), raw, 5, MPI_INTEGER, MPI_STATUS_IGNORE)
   call check(all(raw == v), 'integers there and back')
   call MPI_File_set_view(f, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
   call MPI_File_read_at_all(f, int(5 * rank, MPI_OFFSET_KIND), raw, 5, MPI_INTEGER, MPI_STATUS_IGNORE)
   call check(all(raw == not(v)), 'complements in the file')
   call MPI_File_set_view(f, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'no functions', MPI_INFO_NULL)
   call MPI_File_read_at_all(f, int(5 * rank, MPI_OFFSET_KIND), raw, 5, MPI_INTEGER, MPI_STATUS_IGNORE)
   call check(all(raw == not(v)), 'a representation without functions')
   call MPI_File_close(f)
end subroutine

subroutine handlers()
   type(MPI_File) :: f
   type(MPI_Errhandler) :: h, seen
   integer :: ierr, class, v(2)
   call MPI_File_get_errhandler(MPI_FILE_NULL, seen)
   call check(seen == MPI_ERRORS_RETURN, 'the default error handler of files')
   call MPI_File_open(MPI_COMM_WORLD, trim(dir) // '/none', MPI_MODE_RDONLY, MPI_INFO_NULL, f, ierr)
   call MPI_Error_class(ierr, class)
   call check(class == MPI_ERR_NO_SUCH_FILE, 'no such file')
   call MPI_File_create_errhandler(on_error, h)
   call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, f)
   call MPI_File_set_errhandler(f, h)
   call MPI_File_read_at(f, 0_MPI_OFFSET_KIND, v, -1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
   call MPI_Error_class(handled, class)
   call check(class == MPI_ERR_COUNT .and. handled == ierr, 'an error handler in Fortran')
   call MPI_File_call_errhandler(f, MPI_ERR_QUOTA)
   call check(handled == MPI_ERR_QUOTA, 'MPI_File_call_errhandler')
   call MPI_Errhandler_free(h)
   call MPI_File_close(f)
end subroutine

subroutine shared()
   type(MPI_File) :: f
   type(MPI_Status) :: s
   type(MPI_Request) :: r
   integer :: v(10), w(20), i, c
   integer(MPI_OFFSET_KIND) :: p
   v = [(100 * rank + i, i = 1, 10)]
   call MPI_File_open(MPI_COMM_WORLD, path, ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, f)
   call MPI_File_set_size(f, 0_MPI_OFFSET_KIND)
   call MPI_File_set_view(f, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL)
   call MPI_File_write_ordered(f, v(1:10:3), 4, MPI_INTEGER, s)
   call MPI_Get_count(s, MPI_INTEGER, c)
   call check(c == 4, 'the count of an ordered access')
   call MPI_File_write_ordered_begin(f, v(2:10:2), 5, MPI_INTEGER)
   call MPI_File_write_ordered_end(f, v(2:10:2), s)
   call MPI_File_get_position_shared(f, p)
   call check(p == 9 * size, 'the shared pointer')
   call MPI_Barrier(MPI_COMM_WORLD)
   call MPI_File_seek_shared(f, 0_MPI_OFFSET_KIND, MPI_SEEK_SET)
   w = -1
   call MPI_File_read_ordered(f, w(1:20:5), 4, MPI_INTEGER, s)
   call check(all(w(1:20:5) == v(1:10:3)) .and. count(w == -1) == 16, 'an ordered read of a section')
   w = -1
   call MPI_File_read_ordered_begin(f, w(20:2:-4), 5, MPI_INTEGER)
   call MPI_File_read_ordered_end(f, w(20:2:-4), s)
   call MPI_F_sync_reg(w)
   call check(all(w(20:2:-4) == v(2:10:2)) .and. count(w == -1) == 15, 'a split ordered read of a section')
   call MPI_Barrier(MPI_COMM_WORLD)
   call MPI_File_iwrite_shared(f, v(1:9:8), 2, MPI_INTEGER, r)
   call MPI_Wait(r, s)
   call MPI_Get_count(s, MPI_INTEGER, c)
   call check(c == 2, 'the count of an access at the shared pointer')
   call MPI_Barrier(MPI_COMM_WORLD)
   call MPI_File_seek_shared(f, int(-2 * size, MPI_OFFSET_KIND), MPI_SEEK_END)
   call MPI_Barrier(MPI_COMM_WORLD)
   w = -1
   call MPI_File_iread_shared(f, w(1:20:19), 2, MPI_INTEGER, r)
   call MPI_Wait(r, s)
   call MPI_F_sync_reg(w)
   call check(w(20) == w(1) + 8 .and. count(w == -1) == 18, 'a section at the shared pointer')
   call MPI_Barrier(MPI_COMM_WORLD)
   call MPI_File_close(f)
end subroutine
end program
