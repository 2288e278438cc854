# SPDX-License-Identifier: BSD-3-Clause
# Tests of all Fortran procedures that fortran.awk makes, without an MPI: a C program whose MPI functions look at their arguments, and Fortran programs that
# call each procedure with arguments of known values and look at what comes back. Runs behind functions.awk and fortran.awk; make is
#     mock_c                           the C functions
#     mock_f08, mock_mpi, mock_mpif    the programs, by the modules and by mpif.h
#
# Values by the position k of an argument: integers in 1000 + k (the length of an array: 2), out 1500 + k; handles in 5000 + k, out 6000 + k; buffers
# begin with 3000 + k, and with 3500 + k when they come back; statuses have the source 7000 + k; text is in_k, out_k.

function mocked(i)
{
	return bound(i) && !remark("hand", plain(names[i])) && names[i] !~ /^Abi_set_fortran_booleans|^Abi_get_fortran_booleans/
}

function is_length(k)
{
	return pname[k] ~ /^(count|incount|max_datatypes|max_integers|max_addresses|max_large_counts)$/
}

function c_check(i, k,	p, v)
{
	p = pname[k]
	if (what[k] == "choice")
		return "CHECK(*(const int *)" p " == " 3000 + k ");" (intent[k] == "" ? " *(int *)" p " = " 3500 + k ";" : "")
	if (what[k] == "cptr")
		return "*(void **)" p " = (void *)" 4000 + k ";"
	if (what[k] == "string")
		return intent[k] == "IN" ? "CHECK(!strcmp(" p ", \"in_" k "\"));" : "strcpy(" p ", \"out_" k "\");"
	if (what[k] == "status")
		return (intent[k] == "IN" || intent[k] == "INOUT" ? "CHECK(" p "->MPI_SOURCE == " 7000 + k "); " : "") \
			(intent[k] == "IN" ? "" : p "->MPI_SOURCE = " 7500 + k ";")
	if (what[k] == "handle") {
		v = array[k] ? p "[0]" : pointer[k] ? "*" p : p
		return (intent[k] != "OUT" ? "CHECK((uintptr_t)" v " == BASE + " 5000 + k "); " : "") \
			(intent[k] != "IN" ? v " = (" ptype[k] ")(uintptr_t)(BASE + " 6000 + k ");" : "")
	}
	if (what[k] == "logical" || what[k] == "integer") {
		v = array[k] == 3 ? p "[0][0]" : array[k] ? p "[0]" : pointer[k] ? "*" p : p
		return (intent[k] == "IN" || intent[k] == "INOUT" ? "CHECK(" v " == " (what[k] == "logical" ? 1 : is_length(k) ? 2 : 1000 + k) "); " : "") \
			(intent[k] != "IN" ? v " = " (what[k] == "logical" ? 1 : 1500 + k) ";" : "")
	}
	return ""
}

function mock_c(i,	m, k, pass, r, inner)
{
	m = parameters(i)
	r = types[i]
	print "#define CALL \"" names[i] "\""
	print "static " prototype("mock_", i) "\n{"
	print "\tif (!mock_called(CALL)) {"
	for (k = 1; k <= m; k++)
		if (what[k] == "integer" && intent[k] == "OUT" && !array[k] || what[k] == "logical" && intent[k] == "OUT" && !array[k])
			print "\t\t*" pname[k] " = " (names[i] == "Topo_test" ? "MPI_CART" : 1) ";"
	print "\t\treturn 0;\n\t}"
	for (k = 1; k <= m; k++)
		print "\t" c_check(i, k)
	print "\treturn " (r == "int" ? 0 : 12345) ";\n}\n#undef CALL"
	for (pass = 0; pass < 2; pass++) {
		print prototype(pass ? "PMPI_" : "MPI_", i) "\n{"
		print "\tmock_profiled = " pass ";"
		print "\treturn mock_" names[i] "(" arguments(i) ");\n}"
	}
}

function f_type(k, is_f08)
{
	if (what[k] == "choice")
		return "integer, target"
	if (what[k] == "cptr")
		return is_f08 ? "type(c_ptr)" : "integer(8)"
	if (what[k] == "string")
		return "character(len=40)"
	if (what[k] == "status")
		return is_f08 ? "type(MPI_Status)" : "integer"
	if (what[k] == "logical")
		return "logical"
	if (what[k] == "handle")
		return is_f08 ? "type(" ptype[k] ")" : "integer"
	return ikind[k] == "" ? "integer" : "integer(8)"
}

function f_dim(k, is_f08)
{
	if (what[k] == "status" && !is_f08)
		return array[k] ? "(8,3)" : "(8)"
	if (what[k] == "choice")
		return "(4)"
	return array[k] == 3 ? "(3,3)" : array[k] ? "(3)" : ""
}

function f_before(k, is_f08,	v)
{
	v = "a" k
	if (what[k] == "choice")
		return v " = " 3000 + k
	if (what[k] == "string")
		return v " = 'in_" k "'"
	if (what[k] == "status")
		return is_f08 ? v "%MPI_SOURCE = " 7000 + k : array[k] ? v "(1,1) = " 7000 + k : v "(1) = " 7000 + k
	if (what[k] == "handle")
		return is_f08 ? v "%MPI_VAL = " 5000 + k : v " = " 5000 + k
	if (what[k] == "logical")
		return v " = " (intent[k] == "OUT" ? ".false." : ".true.")
	if (what[k] == "integer")
		return v " = " (is_length(k) ? 2 : 1000 + k)
	return ""
}

function f_after(k, is_f08,	v)
{
	v = "a" k
	if (intent[k] == "IN")
		return ""
	if (what[k] == "choice")
		return v "(1) == " 3500 + k
	if (what[k] == "cptr")
		return is_f08 ? "transfer(" v ", 0_8) == " 4000 + k : v " == " 4000 + k
	if (what[k] == "string")
		return v " == 'out_" k "'"
	if (what[k] == "status")
		return is_f08 ? (array[k] ? v "(1)" : v) "%MPI_SOURCE == " 7500 + k : array[k] ? v "(1,1) == " 7500 + k : v "(1) == " 7500 + k
	if (what[k] == "handle")
		return is_f08 ? (array[k] ? v "(1)" : v) "%MPI_VAL == " 6000 + k : (array[k] ? v "(1)" : v) " == " 6000 + k
	if (what[k] == "logical")
		return array[k] ? v "(1)" : v
	return (array[k] == 3 ? v "(1,1)" : array[k] ? v "(1)" : v) " == " 1500 + k
}

function mock_f(i, prefix, is_f08,	m, k, list, e)
{
	m = parameters(i)
	print "subroutine t" ++ncalls
	list = ""
	for (k = 1; k <= m; k++)
		if (what[k] != "dropped") {
			print f_type(k, is_f08) " :: a" k f_dim(k, is_f08)
			list = list (list == "" ? "" : ", ") "a" k
		}
	for (k = 1; k <= m; k++)
		if (f_before(k, is_f08) != "")
			print f_before(k, is_f08)
	print "call mock_expect('" names[i] "' // char(0), " (prefix == "P" ? 1 : 0) ")"
	if (types[i] != "int")
		print "call verify(nint(real(" prefix "MPI_" names[i] "(" list "), 8)) == 12345, '" names[i] "', 0)"
	else {
		# an absent ierror, at every second call
		e = has_ierror(i) && !(is_f08 && ncalls % 2) ? "ierr" : ""
		print "ierr = -1"
		put("call " prefix "MPI_" (is_f08 && told_apart(i) ? plain(names[i]) : names[i]) "(" list (list != "" && e != "" ? ", " : "") e ")")
		if (e != "")
			print "call verify(ierr == 0, '" names[i] "', -1)"
	}
	print "call mock_ended()"
	for (k = 1; k <= m; k++)
		if (what[k] != "dropped" && f_after(k, is_f08) != "")
			print "call verify(" f_after(k, is_f08) ", '" names[i] "', " k ")"
	print "end subroutine"
}

function mock_program(how,	i, k, is_f08)
{
	is_f08 = how == "f08"
	compare_forms()
	print "program mock_" how
	if (how != "mpif")
		print "use mpi" (is_f08 ? "_f08" : "")
	print "use, intrinsic :: iso_c_binding, only: c_ptr"
	print "implicit none"
	if (how == "mpif")
		print "include 'mpif.h'"
	print "integer :: wrong = 0, ierr\nexternal :: mock_expect, mock_ended"
	for (i = 1; i <= n; i++)
		if (mocked(i) && (is_f08 || names[i] !~ /_c$/) && !(is_f08 && names[i] ~ /^(Attr_|Keyval_)/))
			todo[++ntodo] = i
	for (i = 1; i <= 2 * ntodo; i++)
		print "call t" i "()"
	print "print '(i0,a,i0,a)', " 2 * ntodo ", ' calls, ', wrong, ' wrong'"
	print "if (wrong > 0) stop 1"
	print "contains"
	print "subroutine verify(ok, name, k)\nlogical, intent(in) :: ok\ncharacter(len=*), intent(in) :: name\ninteger, intent(in) :: k"
	print "if (ok) return\nwrong = wrong + 1\nprint *, 'MPI_', name, ': argument', k\nend subroutine"
	for (i = 1; i <= ntodo; i++)
		mock_f(todo[i], "", is_f08)
	for (i = 1; i <= ntodo; i++)
		mock_f(todo[i], "P", is_f08)
	print "end program"
}

END {
	if (make == "mock_c") {
		print "/* Made by mock.awk. */"
		print "#include \"mock.h\""
		for (i = 1; i <= n; i++)
			if (mocked(i))
				mock_c(i)
	}
	if (make ~ /^mock_(f08|mpi|mpif)$/)
		mock_program(substr(make, 6))
}
