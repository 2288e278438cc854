! SPDX-License-Identifier: BSD-3-Clause
! Fortran functions that MPI calls, attributes, strings, statuses, sentinels, by the module mpi_f08.
module functions
use mpi_f08
use, intrinsic :: iso_c_binding
implicit none
integer :: errors = 0, last_error = 0, queries = 0, frees = 0, cancels = 0
type(MPI_Datatype) :: expected_type
logical :: type_ok = .true.
type(MPI_Comm) :: error_comm
contains

! Complex numbers multiplied: the datatype is a derived one.
subroutine multiply(invec, inoutvec, len, datatype)
   type(c_ptr), value :: invec, inoutvec
   integer :: len
   type(MPI_Datatype) :: datatype
   complex, pointer :: a(:), b(:)
   type_ok = type_ok .and. datatype == expected_type
   call c_f_pointer(invec, a, [len])
   call c_f_pointer(inoutvec, b, [len])
   b = a * b
end subroutine

! Not commutative: the value of the higher rank.
subroutine right(invec, inoutvec, len, datatype)
   type(c_ptr), value :: invec, inoutvec
   integer(MPI_COUNT_KIND) :: len
   type(MPI_Datatype) :: datatype
   type_ok = type_ok .and. datatype == MPI_INTEGER .and. len > 0
   if (c_associated(invec, inoutvec)) type_ok = .false.
end subroutine

subroutine type_copy(oldtype, type_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
   type(MPI_Datatype) :: oldtype
   integer :: type_keyval, ierror
   integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
   logical :: flag
   type_ok = type_ok .and. oldtype == expected_type
   attribute_val_out = 2 * attribute_val_in
   flag = .true.
   ierror = MPI_SUCCESS
end subroutine

subroutine on_error(comm, error_code)
   type(MPI_Comm) :: comm
   integer :: error_code
   errors = errors + 1
   last_error = error_code
   error_comm = comm
end subroutine

subroutine win_error(win, error_code)
   type(MPI_Win) :: win
   integer :: error_code
   errors = errors + 100
   last_error = error_code
end subroutine

subroutine query(extra_state, status, ierror)
   integer(MPI_ADDRESS_KIND) :: extra_state
   type(MPI_Status) :: status
   integer :: ierror
   queries = queries + 1
   call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state))
   call MPI_Status_set_cancelled(status, cancels > 0)
   status%MPI_SOURCE = 17
   status%MPI_TAG = 23
   ierror = MPI_SUCCESS
end subroutine
subroutine free_request(extra_state, ierror)
   integer(MPI_ADDRESS_KIND) :: extra_state
   integer :: ierror
   frees = frees + int(extra_state)
   ierror = MPI_SUCCESS
end subroutine
subroutine cancel(extra_state, complete, ierror)
   integer(MPI_ADDRESS_KIND) :: extra_state
   logical :: complete
   integer :: ierror
   if (.not. complete) cancels = cancels + 1
   ierror = MPI_SUCCESS
end subroutine
end module

program callbacks
use functions
use attribute_functions
use testing
implicit none
integer :: version, subversion, provided
call MPI_Init_thread(MPI_THREAD_FUNNELED, provided)
call check(provided >= MPI_THREAD_FUNNELED, 'Init_thread')
call begin()
call MPI_Get_version(version, subversion)
call check(version == MPI_VERSION .and. subversion == MPI_SUBVERSION, 'Get_version')
call operations()
call attributes()
call error_handlers()
call requests()
call strings()
call statuses()
call logicals()
call sentinels()
call datatypes()
call abi()
call memory()
call finish('callbacks')
contains

subroutine operations()
   type(MPI_Op) :: op, again, op_c
   complex :: z(3), product(3)
   integer :: i, m
   logical :: commutes
   call MPI_Type_contiguous(2, MPI_REAL, expected_type)
   call MPI_Type_commit(expected_type)
   call MPI_Op_create(multiply, .true., op)
   call MPI_Op_create(multiply, .false., again)
   call MPI_Op_commutative(op, commutes)
   call check(commutes, 'commutes')
   call MPI_Op_commutative(again, commutes)
   call check(.not. commutes .and. op /= again, 'does not commute')
   z = cmplx(0, 1)
   call MPI_Allreduce(z, product, 3, expected_type, op, MPI_COMM_WORLD)
   call check(all(abs(product - cmplx(0, 1)**size) < 1e-4), 'an operation')
   call MPI_Op_create_c(right, .false., op_c)
   i = rank
   call MPI_Scan(i, m, 1, MPI_INTEGER, op_c, MPI_COMM_WORLD)
   call check(m == rank, 'an operation of large counts')
   call check(type_ok, 'datatype and length of an operation')
   ! each function has one slot, however often it is used
   do i = 1, 1000
      call MPI_Op_free(op)
      call MPI_Op_create(multiply, .true., op)
   end do
   call MPI_Op_free(op)
   call MPI_Op_free(again)
   call MPI_Op_free(op_c)
   call check(op == MPI_OP_NULL, 'Op_free')
   call MPI_Type_free(expected_type)
end subroutine

subroutine attributes()
   integer :: key, inherited, nothing, type_key
   integer(MPI_ADDRESS_KIND) :: value
   integer(MPI_ADDRESS_KIND), parameter :: large = 4000000000_MPI_ADDRESS_KIND
   logical :: flag
   integer :: ierror
   type(MPI_Comm) :: dup, second
   type(MPI_Datatype) :: type_dup
   most_copied = 4999999999_MPI_ADDRESS_KIND
   least_deleted = 0
   call MPI_Comm_create_keyval(copy_attr, delete_attr, key, 11_MPI_ADDRESS_KIND)
   call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, inherited, 0_MPI_ADDRESS_KIND)
   call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, nothing, 0_MPI_ADDRESS_KIND)
   call MPI_Comm_dup(MPI_COMM_WORLD, dup)
   call MPI_Comm_get_attr(dup, key, value, flag)
   call check(.not. flag, 'no attribute')
   call MPI_Comm_set_attr(dup, key, large)
   call MPI_Comm_set_attr(dup, inherited, -5_MPI_ADDRESS_KIND)
   call MPI_Comm_set_attr(dup, nothing, 6_MPI_ADDRESS_KIND)
   call MPI_Comm_get_attr(dup, key, value, flag)
   call check(flag .and. value == large, 'an attribute of more than 32 bits')
   call MPI_Comm_dup(dup, second)
   call MPI_Comm_get_attr(second, key, value, flag)
   call check(flag .and. value == large + 11 .and. copies == 1, 'copied with its extra state')
   call MPI_Comm_get_attr(second, inherited, value, flag)
   call check(flag .and. value == -5, 'MPI_COMM_DUP_FN')
   call MPI_Comm_get_attr(second, nothing, value, flag)
   call check(.not. flag, 'MPI_COMM_NULL_COPY_FN')
   call MPI_Comm_set_attr(second, key, 2 * large)
   call check(deletes == 1, 'deleted when it is replaced')
   call MPI_Comm_delete_attr(second, key)
   call check(deletes == 2, 'Comm_delete_attr')
   call MPI_Comm_free(second)
   call MPI_Comm_set_attr(dup, key, -1_MPI_ADDRESS_KIND)
   call MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN)
   call MPI_Comm_delete_attr(dup, key, ierror)
   call check(ierror /= MPI_SUCCESS, 'a delete function that fails')
   call MPI_Comm_get_attr(dup, key, value, flag)
   call check(flag .and. value == -1, 'the attribute is there yet')
   deletes = 0
   call MPI_Comm_free_keyval(nothing)
   call check(nothing == MPI_KEYVAL_INVALID, 'Comm_free_keyval')
   call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
   call check(flag .and. value >= 32767, 'MPI_TAG_UB')
   call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, flag)
   call check(.not. flag .or. value == 0 .or. value == 1, 'MPI_WTIME_IS_GLOBAL')
   call MPI_Type_contiguous(3, MPI_INTEGER, expected_type)
   call MPI_Type_create_keyval(type_copy, MPI_TYPE_NULL_DELETE_FN, type_key, 0_MPI_ADDRESS_KIND)
   call MPI_Type_set_attr(expected_type, type_key, 21_MPI_ADDRESS_KIND)
   call MPI_Type_dup(expected_type, type_dup)
   call MPI_Type_get_attr(type_dup, type_key, value, flag)
   call check(flag .and. value == 42 .and. type_ok, 'an attribute of a datatype')
   call MPI_Type_free(type_dup)
   call MPI_Type_free(expected_type)
   call MPI_Type_free_keyval(type_key)
end subroutine

subroutine error_handlers()
   type(MPI_Errhandler) :: handler, got, for_win
   type(MPI_Comm) :: dup
   integer :: class, ierror, i, w(2)
   type(MPI_Win) :: win
   call MPI_Comm_dup(MPI_COMM_WORLD, dup)
   call MPI_Comm_create_errhandler(on_error, handler)
   call MPI_Comm_set_errhandler(dup, handler)
   call MPI_Comm_get_errhandler(dup, got)
   call check(got == handler, 'Comm_get_errhandler')
   call MPI_Send(i, 1, MPI_INTEGER, size + 5, 0, dup, ierror)
   call check(errors == 1 .and. ierror == last_error .and. error_comm == dup, 'an error handler')
   call MPI_Error_class(last_error, class)
   call check(class == MPI_ERR_RANK, 'its class')
   call MPI_Comm_call_errhandler(dup, MPI_ERR_TAG)
   call check(errors == 2 .and. last_error == MPI_ERR_TAG, 'Comm_call_errhandler')
   call MPI_Win_create_errhandler(win_error, for_win)
   call MPI_Win_create(w, 8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, dup, win)
   call MPI_Win_set_errhandler(win, for_win)
   call MPI_Win_call_errhandler(win, MPI_ERR_WIN)
   call check(errors == 102 .and. last_error == MPI_ERR_WIN, 'Win_call_errhandler')
   call MPI_Win_free(win)
   call MPI_Errhandler_free(handler)
   call MPI_Errhandler_free(for_win)
   call check(handler == MPI_ERRHANDLER_NULL, 'Errhandler_free')
   call MPI_Comm_free(dup)
end subroutine

subroutine requests()
   type(MPI_Request) :: r(3)
   type(MPI_Status) :: status, statuses(3)
   integer :: n, index, indices(3), outcount, a, b, i
   logical :: flag
   type(MPI_Comm) :: dup
   call MPI_Grequest_start(query, free_request, cancel, 5_MPI_ADDRESS_KIND, r(1))
   call MPI_Test(r(1), flag, status)
   call check(.not. flag, 'a generalised request is not complete')
   call MPI_Cancel(r(1))
   call MPI_Grequest_complete(r(1))
   call MPI_Wait(r(1), status)
   call MPI_Get_elements(status, MPI_INTEGER, n)
   call MPI_Test_cancelled(status, flag)
   call check(n == 5 .and. flag .and. status%MPI_SOURCE == 17 .and. status%MPI_TAG == 23, 'its status')
   call check(queries == 1 .and. frees == 5 .and. cancels == 1 .and. r(1) == MPI_REQUEST_NULL, 'its functions')
   r = MPI_REQUEST_NULL
   call MPI_Waitany(3, r, index, status)
   call check(index == MPI_UNDEFINED .and. status%MPI_SOURCE == MPI_ANY_SOURCE, 'Waitany without requests')
   a = rank
   call MPI_Irecv(b, 1, MPI_INTEGER, MPI_ANY_SOURCE, 3, MPI_COMM_SELF, r(2))
   call MPI_Request_get_status(r(2), flag, status)
   call check(.not. flag, 'Request_get_status')
   call MPI_Send(a, 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF)
   call MPI_Waitany(3, r, index, status)
   call check(index == 2 .and. b == rank .and. status%MPI_SOURCE == 0 .and. status%MPI_TAG == 3, 'Waitany counts from 1')
   call MPI_Irecv(b, 1, MPI_INTEGER, 0, 4, MPI_COMM_SELF, r(3))
   call MPI_Send(a, 1, MPI_INTEGER, 0, 4, MPI_COMM_SELF)
   call MPI_Waitsome(3, r, outcount, indices, statuses)
   call check(outcount == 1 .and. indices(1) == 3 .and. statuses(1)%MPI_TAG == 4, 'Waitsome counts from 1')
   call MPI_Waitsome(3, r, outcount, indices, statuses)
   call check(outcount == MPI_UNDEFINED, 'Waitsome without requests')
   do i = 1, 2
      call MPI_Comm_idup(MPI_COMM_WORLD, dup, r(1))
      call MPI_Wait(r(1), MPI_STATUS_IGNORE)
      call MPI_Comm_compare(dup, MPI_COMM_WORLD, n)
      call check(n == MPI_CONGRUENT, 'Comm_idup')
      call MPI_Comm_free(dup)
   end do
   call MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE)
   call check(.not. flag, 'Iprobe')
end subroutine

subroutine strings()
   character(len=MPI_MAX_OBJECT_NAME) :: name
   character(len=12) :: short
   character(len=MPI_MAX_PROCESSOR_NAME) :: processor
   character(len=MPI_MAX_ERROR_STRING) :: text
   character(len=MPI_MAX_INFO_KEY) :: key
   character(len=20) :: value
   type(MPI_Info) :: info
   type(MPI_Session) :: session
   logical :: flag
   integer :: n, code
   call MPI_Comm_set_name(MPI_COMM_SELF, 'me alone   ')
   name = repeat('x', len(name))
   call MPI_Comm_get_name(MPI_COMM_SELF, name, n)
   call check(name == 'me alone' .and. n == 8 .and. name(len(name):) == ' ', 'blanks')
   call MPI_Get_processor_name(processor, n)
   call check(n == len_trim(processor), 'Get_processor_name')
   call MPI_Error_string(MPI_ERR_TAG, text, n)
   call check(n == len_trim(text) .and. n > 5, 'Error_string')
   call MPI_Add_error_code(MPI_ERR_OTHER, code)
   call MPI_Add_error_string(code, 'too warm ')
   call MPI_Error_string(code, text, n)
   call check(text == 'too warm', 'Add_error_string')
   call MPI_Info_create(info)
   call MPI_Info_set(info, '  a key ', '  its value  ')
   call MPI_Info_get_nthkey(info, 0, key)
   call check(key == 'a key', 'Info_get_nthkey')
   call MPI_Info_get_valuelen(info, 'a key', n, flag)
   call check(flag .and. n == 9, 'Info_get_valuelen')
   value = 'x'
   call MPI_Info_get(info, ' a key', 20, value, flag)
   call check(flag .and. value == 'its value', 'Info_get')
   n = 0
   value = 'x'
   call MPI_Info_get_string(info, 'a key', n, value, flag)
   call check(flag .and. n == 9 .and. value == 'x', 'Info_get_string, the length')
   n = 3
   call MPI_Info_get_string(info, 'a key', n, short, flag)
   call check(flag .and. n == 9 .and. short == 'its', 'Info_get_string, cut')
   n = 12
   call MPI_Info_get_string(info, 'a key', n, short, flag)
   call check(short == 'its value', 'Info_get_string')
   call MPI_Info_get(info, 'no key', 20, value, flag)
   call check(.not. flag, 'a key that is not there')
   call MPI_Info_free(info)
   call check(info == MPI_INFO_NULL, 'Info_free')
   call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)
   n = 0
   call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, n, name)
   code = n
   call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, n, name)
   call check(n == code .and. len_trim(name) == n, 'Session_get_nth_pset')
   call MPI_Session_finalize(session)
end subroutine

subroutine statuses()
   type(MPI_Status) :: a, b
   integer :: f(MPI_STATUS_SIZE), n
   f = 0
   f(MPI_SOURCE) = 4
   f(MPI_TAG) = 5
   f(MPI_ERROR) = 6
   call MPI_Status_f2f08(f, a)
   call check(a%MPI_SOURCE == 4 .and. a%MPI_TAG == 5 .and. a%MPI_ERROR == 6, 'Status_f2f08')
   call MPI_Status_set_elements(a, MPI_INTEGER, 7)
   call MPI_Status_f082f(a, f)
   call MPI_Status_f2f08(f, b)
   call MPI_Get_count(b, MPI_INTEGER, n)
   call check(n == 7 .and. f(MPI_TAG) == 5, 'Status_f082f')
   call MPI_Status_set_tag(b, 77)
   call MPI_Status_get_tag(b, n)
   call check(n == 77 .and. b%MPI_TAG == 77, 'Status_set_tag')
end subroutine

subroutine logicals()
   type(MPI_Comm) :: cart, line
   integer :: dims(2), coords(2), got(2), n
   logical :: periods(2), remain(2), flag
   dims = 0
   call MPI_Dims_create(size, 2, dims)
   call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., cart)
   periods = .false.
   call MPI_Cart_get(cart, 2, got, periods, coords)
   call check(all(got == dims) .and. periods(1) .and. .not. periods(2) .and. (periods(1) .eqv. .true.), 'Cart_get')
   remain = [.false., .true.]
   call MPI_Cart_sub(cart, remain, line)
   call MPI_Comm_size(line, n)
   call check(n == dims(2), 'Cart_sub')
   call MPI_Comm_test_inter(line, flag)
   call check(.not. flag, 'Comm_test_inter')
   call MPI_Initialized(flag)
   call check(flag .and. (flag .eqv. .true.), 'Initialized')
   call MPI_Comm_free(line)
   call MPI_Comm_free(cart)
end subroutine

subroutine sentinels()
   integer, target, asynchronous :: a(4), b(4)
   integer(MPI_ADDRESS_KIND) :: at(2)
   type(MPI_Datatype) :: type
   type(MPI_Comm) :: graph
   integer :: in, out, i, sources(1), weights(1), destinations(1)
   logical :: weighted
   a = [1, 2, 3, 4]
   b = 0
   call MPI_Get_address(a(2), at(1))
   call MPI_Get_address(a(4), at(2))
   call check(MPI_Aint_diff(at(2), at(1)) == 8 .and. MPI_Aint_add(at(1), 8_MPI_ADDRESS_KIND) == at(2), 'Aint_diff')
   call MPI_Type_create_hindexed(2, [1, 1], at, MPI_INTEGER, type)
   call MPI_Type_commit(type)
   call MPI_Sendrecv(MPI_BOTTOM, 1, type, 0, 1, b, 2, MPI_INTEGER, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
   call MPI_F_sync_reg(a)
   call check(b(1) == 2 .and. b(2) == 4, 'MPI_BOTTOM')
   call MPI_Type_free(type)
   a = rank
   call MPI_Allreduce(MPI_IN_PLACE, a, 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
   call check(all(a == size - 1), 'MPI_IN_PLACE')
   call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [modulo(rank - 1, size)], MPI_UNWEIGHTED, 1, [modulo(rank + 1, size)], &
      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
   call MPI_Dist_graph_neighbors_count(graph, in, out, weighted)
   call check(in == 1 .and. out == 1 .and. .not. weighted, 'MPI_UNWEIGHTED')
   call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED)
   call check(sources(1) == modulo(rank - 1, size), 'Dist_graph_neighbors')
   call MPI_Comm_free(graph)
   call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [modulo(rank - 1, size)], [9], 0, [integer ::], MPI_WEIGHTS_EMPTY, &
      MPI_INFO_NULL, .false., graph)
   call MPI_Dist_graph_neighbors(graph, 1, sources, weights, 0, destinations, weights)
   call check(weights(1) == 9, 'MPI_WEIGHTS_EMPTY')
   call MPI_Comm_free(graph)
   do i = 1, 2
      call buffered()
   end do
end subroutine

subroutine buffered()
   type(c_ptr) :: address
   integer, asynchronous :: memory(1000)
   integer :: n
   integer :: a, b
   integer(MPI_ADDRESS_KIND) :: at
   a = rank
   call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0)
   call MPI_Bsend(a, 1, MPI_INTEGER, 0, 2, MPI_COMM_SELF)
   call MPI_Recv(b, 1, MPI_INTEGER, 0, 2, MPI_COMM_SELF, MPI_STATUS_IGNORE)
   call MPI_Buffer_detach(address, n)
   call check(b == rank .and. transfer(address, at) == loc(MPI_BUFFER_AUTOMATIC), 'MPI_BUFFER_AUTOMATIC')
   call MPI_Buffer_attach(memory, 4000)
   call MPI_Buffer_detach(address, n)
   call check(transfer(address, at) == loc(memory) .and. n == 4000, 'Buffer_detach')
end subroutine

subroutine datatypes()
   type(MPI_Datatype) :: type, kinds(6)
   integer :: n, i
   integer(MPI_COUNT_KIND) :: large
   integer, parameter :: sizes(6) = [4, 4, 8, 8, 1, 4]
   kinds = [MPI_INTEGER, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_COMPLEX, MPI_CHARACTER, MPI_LOGICAL]
   do i = 1, 6
      call MPI_Type_size(kinds(i), n)
      call MPI_Type_size(kinds(i), large)
      call check(n == sizes(i) .and. large == n, 'sizes of Fortran types')
   end do
   call MPI_Type_create_f90_real(15, MPI_UNDEFINED, type)
   call MPI_Type_size(type, n)
   call check(n == 8, 'Type_create_f90_real')
   call MPI_Type_create_f90_integer(15, type)
   call MPI_Type_size(type, n)
   call check(n == 8, 'Type_create_f90_integer')
   call MPI_Type_create_f90_complex(6, 30, type)
   call MPI_Type_size(type, n)
   call check(n == 8, 'Type_create_f90_complex')
   call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, type)
   call check(type == MPI_REAL8 .or. type == MPI_DOUBLE_PRECISION, 'Type_match_size')
   call MPI_Sizeof(1.0d0, n)
   call check(n == 8, 'Sizeof')
   call MPI_Sizeof([1, 2, 3], n)
   call check(n == 4, 'Sizeof of an array')
   call MPI_Type_create_struct(2, [1, 2], [0_MPI_ADDRESS_KIND, 8_MPI_ADDRESS_KIND], [MPI_INTEGER, MPI_DOUBLE_PRECISION], type)
   call contents(type)
   call MPI_Type_free(type)
end subroutine

subroutine contents(type)
   type(MPI_Datatype) :: type, types(4)
   integer :: ni, na, nt, combiner, integers(3)
   integer(MPI_ADDRESS_KIND) :: addresses(2)
   call MPI_Type_get_envelope(type, ni, na, nt, combiner)
   call check(ni == 3 .and. na == 2 .and. nt == 2 .and. combiner == MPI_COMBINER_STRUCT, 'Type_get_envelope')
   types = MPI_BYTE
   call MPI_Type_get_contents(type, 3, 2, 4, integers, addresses, types)
   call check(all(integers == [2, 1, 2]) .and. addresses(2) == 8  .and. types(1) == MPI_INTEGER .and. &
      types(2) == MPI_DOUBLE_PRECISION .and. types(3) == MPI_BYTE, 'Type_get_contents')
end subroutine

subroutine abi()
   logical :: t, f, is_set, flag
   integer :: major, minor
   type(MPI_Info) :: info
   character(len=10) :: value
   t = .false.
   f = .true.
   call MPI_Abi_get_fortran_booleans(storage_size(t) / 8, t, f, is_set)
   call check(is_set .and. t .and. .not. f .and. transfer(t, 1) == transfer(.true., 1), 'Abi_get_fortran_booleans')
   call MPI_Abi_get_fortran_info(info)
   call MPI_Info_get(info, 'mpi_double_precision_size', 10, value, flag)
   call check(flag .and. value == '8', 'Abi_get_fortran_info')
   call MPI_Info_free(info)
   call MPI_Abi_get_version(major, minor)
   call check(major == MPI_ABI_VERSION .and. minor == MPI_ABI_SUBVERSION, 'Abi_get_version')
end subroutine

subroutine memory()
   type(c_ptr) :: p
   double precision, pointer :: a(:)
   type(MPI_Win) :: win
   integer(MPI_ADDRESS_KIND) :: value
   logical :: flag
   call MPI_Alloc_mem(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, p)
   call c_f_pointer(p, a, [10])
   a = 1
   call check(sum(a) == 10, 'Alloc_mem')
   call MPI_Free_mem(a)
   call MPI_Win_allocate(80_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, p, win)
   call c_f_pointer(p, a, [10])
   a = 2
   call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
   call check(flag .and. value == 80, 'MPI_WIN_SIZE')
   call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag)
   call check(flag .and. value == 8, 'MPI_WIN_DISP_UNIT')
   call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag)
   call check(flag .and. value == transfer(p, value), 'MPI_WIN_BASE')
   call MPI_Win_free(win)
end subroutine
end program
