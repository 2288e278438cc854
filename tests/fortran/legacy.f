!     SPDX-License-Identifier: BSD-3-Clause
!     mpif.h in fixed form: the calls of a program of before modules.
      program legacy
      implicit none
      include 'mpif.h'
      integer ierr, rank, size, i, wrong, total, key, n, idx, code
      integer status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE,2)
      integer requests(2), a(10), b(10), comm, op, newtype, attr
      integer info, group, ranges(3,1), new_group, dup
      integer(kind=MPI_ADDRESS_KIND) at, val, state
      integer(kind=MPI_OFFSET_KIND) offset
      double precision t
      logical flag, periods(1)
      character*20 text
      character*(MPI_MAX_ERROR_STRING) message
      external add, copy_old, delete_old, on_error
      integer calls
      common /counts/ calls
      call MPI_INIT(ierr)
      wrong = 0
      calls = 0
      t = MPI_WTIME()
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, size, ierr)
      do i = 1, 10
         a(i) = 10 * rank + i
      end do
      call MPI_IRECV(b, 10, MPI_INTEGER, MPI_ANY_SOURCE, 5,
     &     MPI_COMM_WORLD, requests(1), ierr)
      call MPI_ISEND(a, 10, MPI_INTEGER, mod(rank + 1, size), 5,
     &     MPI_COMM_WORLD, requests(2), ierr)
      call MPI_WAITALL(2, requests, statuses, ierr)
      i = mod(rank + size - 1, size)
      if (b(1) .ne. 10 * i + 1) wrong = wrong + 1
      if (statuses(MPI_SOURCE,1) .ne. i) wrong = wrong + 1
      if (requests(1) .ne. MPI_REQUEST_NULL) wrong = wrong + 1
      call MPI_GET_COUNT(statuses(1,1), MPI_INTEGER, n, ierr)
      if (n .ne. 10) wrong = wrong + 1
!     scalars, arrays and elements as buffers of one procedure
      call MPI_BCAST(t, 1, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD,
     &     ierr)
      text = 'rank 0'
      if (rank .ne. 0) text = 'x'
      call MPI_BCAST(text, 20, MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
      if (text .ne. 'rank 0') wrong = wrong + 1
      call MPI_BCAST(a(3), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
      if (a(3) .ne. 3 .or. a(5) .ne. 10 * rank + 5) wrong = wrong + 1
!     a user's operation, with the values as arrays
      call MPI_OP_CREATE(add, .TRUE., op, ierr)
      call MPI_ALLREDUCE(rank, n, 1, MPI_INTEGER, op, MPI_COMM_WORLD,
     &     ierr)
      if (n .ne. size * (size - 1) / 2) wrong = wrong + 1
      call MPI_OP_FREE(op, ierr)
      b(1) = 1
      call MPI_ALLREDUCE(MPI_IN_PLACE, b, 1, MPI_INTEGER, MPI_SUM,
     &     MPI_COMM_WORLD, ierr)
      if (b(1) .ne. size) wrong = wrong + 1
!     the deprecated attributes, of default integers
      call MPI_KEYVAL_CREATE(copy_old, delete_old, key, 100, ierr)
      call MPI_COMM_DUP(MPI_COMM_SELF, comm, ierr)
      call MPI_ATTR_PUT(comm, key, 7, ierr)
      call MPI_COMM_DUP(comm, dup, ierr)
      call MPI_ATTR_GET(dup, key, attr, flag, ierr)
      if (.not. flag .or. attr .ne. 107) wrong = wrong + 1
      call MPI_COMM_GET_ATTR(dup, key, val, flag, ierr)
      if (.not. flag .or. val .ne. 107) wrong = wrong + 1
      call MPI_ATTR_DELETE(dup, key, ierr)
      call MPI_COMM_FREE(dup, ierr)
      call MPI_COMM_FREE(comm, ierr)
      if (calls .ne. 2) wrong = wrong + 1
      call MPI_KEYVAL_FREE(key, ierr)
      call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, attr, flag, ierr)
      if (.not. flag .or. attr .lt. 32767) wrong = wrong + 1
      state = 3
      call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN,
     &     MPI_COMM_NULL_DELETE_FN, key, state, ierr)
      call MPI_COMM_FREE_KEYVAL(key, ierr)
!     an error handler
      call MPI_COMM_CREATE_ERRHANDLER(on_error, n, ierr)
      call MPI_COMM_DUP(MPI_COMM_SELF, comm, ierr)
      call MPI_COMM_SET_ERRHANDLER(comm, n, ierr)
      calls = 0
      call MPI_SEND(a, 1, MPI_INTEGER, 99, 0, comm, code)
      if (calls .ne. 1 .or. code .eq. MPI_SUCCESS) wrong = wrong + 1
      call MPI_ERROR_STRING(code, message, i, ierr)
      if (i .lt. 5 .or. message(i+1:i+1) .ne. ' ') wrong = wrong + 1
      call MPI_ERRHANDLER_FREE(n, ierr)
      call MPI_COMM_FREE(comm, ierr)
!     addresses, and a datatype of absolute ones
      call MPI_GET_ADDRESS(a(2), at, ierr)
      at = MPI_AINT_ADD(at, 4_MPI_ADDRESS_KIND)
      call MPI_TYPE_CREATE_HINDEXED(1, 1, at, MPI_INTEGER, newtype,
     &     ierr)
      call MPI_TYPE_COMMIT(newtype, ierr)
      call MPI_SENDRECV(MPI_BOTTOM, 1, newtype, 0, 1, b, 1, MPI_INTEGER,
     &     0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE, ierr)
      if (b(1) .ne. a(3)) wrong = wrong + 1
      call MPI_TYPE_FREE(newtype, ierr)
      if (newtype .ne. MPI_DATATYPE_NULL) wrong = wrong + 1
!     ranges, strings, logicals
      call MPI_COMM_GROUP(MPI_COMM_WORLD, group, ierr)
      ranges(1,1) = 0
      ranges(2,1) = size - 1
      ranges(3,1) = 1
      call MPI_GROUP_RANGE_INCL(group, 1, ranges, new_group, ierr)
      call MPI_GROUP_COMPARE(group, new_group, i, ierr)
      if (i .ne. MPI_IDENT) wrong = wrong + 1
      call MPI_GROUP_FREE(group, ierr)
      call MPI_GROUP_FREE(new_group, ierr)
      call MPI_INFO_CREATE(info, ierr)
      call MPI_INFO_SET(info, 'key', 'value', ierr)
      call MPI_INFO_GET(info, 'key', 20, text, flag, ierr)
      if (.not. flag .or. text .ne. 'value') wrong = wrong + 1
      call MPI_INFO_FREE(info, ierr)
      call MPI_CART_CREATE(MPI_COMM_WORLD, 1, size, .TRUE., .FALSE.,
     &     comm, ierr)
      call MPI_CART_GET(comm, 1, n, periods, i, ierr)
      if (.not. periods(1) .or. i .ne. rank) wrong = wrong + 1
      call MPI_COMM_FREE(comm, ierr)
      requests(1) = MPI_REQUEST_NULL
      call MPI_TESTANY(1, requests, idx, flag, status, ierr)
      if (.not. flag .or. idx .ne. MPI_UNDEFINED) wrong = wrong + 1
      offset = MPI_DISPLACEMENT_CURRENT
      if (offset .ne. -1 .or. MPI_SUBARRAYS_SUPPORTED) wrong = wrong + 1
      if (MPI_WTIME() .lt. 0 .or. PMPI_WTICK() .le. 0) wrong = wrong + 1
      call PMPI_ALLREDUCE(wrong, total, 1, MPI_INTEGER, MPI_SUM,
     &     MPI_COMM_WORLD, ierr)
      call MPI_FINALIZE(ierr)
      if (rank .eq. 0) print '(a,i0,a)', 'legacy: ', total, ' wrong'
      if (total .gt. 0) stop 1
      end

      subroutine add(invec, inoutvec, len, datatype)
      integer len, datatype, i, invec(len), inoutvec(len)
      do i = 1, len
         inoutvec(i) = inoutvec(i) + invec(i)
      end do
      end

      subroutine copy_old(comm, key, state, in, out, flag, ierr)
      integer comm, key, state, in, out, ierr, calls
      logical flag
      common /counts/ calls
      out = in + state
      flag = .true.
      ierr = 0
      end

      subroutine delete_old(comm, key, attribute, state, ierr)
      integer comm, key, attribute, state, ierr, calls
      common /counts/ calls
      calls = calls + 1
      ierr = 0
      end

      subroutine on_error(comm, code)
      integer comm, code, calls
      common /counts/ calls
      calls = calls + 1
      end
