! SPDX-License-Identifier: BSD-3-Clause
! Arguments of MPI_Comm_spawn and MPI_Comm_spawn_multiple, and of data representations: processes.c has the C functions, which look at them.
module representation
use mpi_f08
use, intrinsic :: iso_c_binding
implicit none
contains
subroutine extent(datatype, size, extra_state, ierror)
   type(MPI_Datatype) :: datatype
   integer(MPI_ADDRESS_KIND) :: size, extra_state
   integer :: ierror
   size = extra_state + merge(1, 0, datatype == MPI_INTEGER)
   ierror = 0
end subroutine
subroutine convert(userbuf, datatype, count, filebuf, position, extra_state, ierror)
   type(c_ptr), value :: userbuf, filebuf
   type(MPI_Datatype) :: datatype
   integer :: count, ierror
   integer(MPI_OFFSET_KIND) :: position
   integer(MPI_ADDRESS_KIND) :: extra_state
   integer, pointer :: u(:), f(:)
   call c_f_pointer(userbuf, u, [count])
   call c_f_pointer(filebuf, f, [count])
   u = f + int(position) + int(extra_state)
   ierror = merge(0, 1, datatype == MPI_INTEGER)
end subroutine
end module

program processes
use representation
implicit none
character(len=8) :: argv(3), commands(2), argvs(2,3)
integer :: codes(5), rank, wrong = 0
type(MPI_Comm) :: inter
type(MPI_Info) :: info
integer, external :: c_wrong
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, rank)
argv = ['-x      ', '  two   ', '        ']
codes = 0
call MPI_Comm_spawn('worker   ', argv, 3, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, codes)
if (inter /= MPI_COMM_WORLD .or. any(codes /= [7, 8, 9, 0, 0])) wrong = wrong + 1
call MPI_Comm_spawn('plain', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, MPI_ERRCODES_IGNORE)
commands = ['first ', 'second']
argvs(1, :) = ['a b   ', '      ', '      ']
argvs(2, :) = ['1     ', '22    ', '      ']
call MPI_Info_create(info)
call MPI_Comm_spawn_multiple(2, commands, argvs, [1, 2], [MPI_INFO_NULL, info], 0, MPI_COMM_SELF, inter, codes)
if (inter /= MPI_COMM_SELF .or. codes(3) /= 33) wrong = wrong + 1
call MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, [1, 2], [MPI_INFO_NULL, info], 0, MPI_COMM_SELF, inter, &
   MPI_ERRCODES_IGNORE)
call MPI_Info_free(info)
call MPI_Register_datarep('mine  ', convert, MPI_CONVERSION_FN_NULL, extent, 100_MPI_ADDRESS_KIND)
wrong = wrong + c_wrong()
call MPI_Finalize()
print '(a,i0,a)', 'processes: ', wrong, ' wrong'
if (wrong > 0) stop 1
end program
