# SPDX-License-Identifier: BSD-3-Clause
# The Fortran bindings, made of src/mpi/functions.def, fortran.def (the remarks that C types do not carry), include/mpi.h.in (constants) and
# a template. Runs behind src/mpi/functions.awk, which reads functions.def and has names, types, params, forms and chapters.
#
#     awk -f functions.awk -f fortran.awk -v make=WHAT functions.def fortran.def mpi.h.in TEMPLATE
#
#     f08, mpi, mpif     TEMPLATE with @constants@ and @procedures@ replaced: mpi_f08.f90, mpi.f90, mpif.h
#     calls              calls.h: the C side of all functions that are not in special.h
#     names              the linker names that the library must export, one a line

function file_kind()
{
	if (FILENAME ~ /fortran\.def$/)
		return "table"
	if (FILENAME ~ /mpi\.h\.in$/)
		return "header"
	return FILENAME ~ /functions\.def$/ ? "list" : "template"
}

# Whether a line of the table, KEY FUNCTION PARAMETER..., is there for a function and, if given, its parameter.
function remark(key, name, parameter,	i, k)
{
	for (i = 1; i <= nremarks[key]; i++) {
		if (name !~ ("^(" remark_function[key, i] ")$"))
			continue
		if (parameter == "")
			return remark_rest[key, i] == "" ? "yes" : remark_rest[key, i]
		if (index(" " remark_rest[key, i] " ", " " parameter " "))
			return "yes"
	}
	return ""
}

function plain(name)
{
	sub(/_c$/, "", name)
	return name
}

# Whether the name's function has Fortran bindings.
function bound(i)
{
	return !remark("none", names[i])
}

function kind_of_integer(type)
{
	return type == "MPI_Aint" ? "ADDRESS" : type == "MPI_Count" ? "COUNT" : type == "MPI_Offset" ? "OFFSET" : ""
}

# Parameter k of a function, from its C declaration, in arrays indexed by k:
#   pname     the C name              fname  the Fortran name
#   ptype     the C type without const, * and []
#   what      void, choice, cptr, address, detach, string, strings, status, handle, logical, integer, double, function, dropped
#   array     1 for arrays            ikind  "", ADDRESS, COUNT or OFFSET for integers
#   intent    IN, OUT, INOUT, or ""   class  of a choice buffer
#   pointer   1 if C takes a pointer
function parameter(i, k, decl,	base, constant, stars, word, m, name)
{
	name = plain(names[i])
	constant = sub(/^const /, "", decl)
	array[k] = 0
	stars = 0
	if (match(decl, /\[.*$/)) {
		array[k] = decl ~ /\[\]\[3\]/ ? 3 : 1
		decl = substr(decl, 1, RSTART - 1)
		stars = 1
	}
	m = split(decl, word, / +/)
	base = word[1]
	pname[k] = word[m]
	while (sub(/^\*/, "", pname[k]))
		stars++
	ptype[k] = base
	pointer[k] = stars > 0
	fname[k] = (pname[k], name) in renamed_in ? renamed_in[pname[k], name] : pname[k] in renamed ? renamed[pname[k]] : pname[k]
	ikind[k] = kind_of_integer(base)
	class[k] = ""
	intent[k] = !stars || constant ? "IN" : "OUT"
	if (base == "void") {
		if (pname[k] in is_address)
			what[k] = "address"
		else if (pname[k] in is_cptr)
			what[k] = "cptr"
		else if (pname[k] == "buffer_addr")
			what[k] = "detach"
		else if (pname[k] in is_logical)
			what[k] = "logical"
		else
			what[k] = "choice"
		if (what[k] == "choice" && !constant)
			intent[k] = ""
		if (what[k] == "logical" && names[i] ~ /^Abi_set/ || pname[k] == "extra_state" || names[i] ~ /_set_attr$|^Attr_put$/ && what[k] == "address")
			intent[k] = "IN"
	} else if (pname[k] == "argc" || pname[k] == "argv" && name !~ /^Comm_spawn/)
		what[k] = "dropped"
	else if (base == "char") {
		what[k] = stars > 1 || array[k] && name ~ /^Comm_spawn/ ? "strings" : "string"
		array[k] = what[k] == "strings" ? (pname[k] == "array_of_argv" ? 2 : 1) : 0
		if (what[k] == "strings")
			intent[k] = "IN"
	} else if (base == "MPI_Status") {
		what[k] = "status"
		array[k] = pname[k] == "array_of_statuses"
		if (!constant)
			intent[k] = ""
	} else if (base ~ /_(function|fn)(_c)?$/) {
		what[k] = "function"
		intent[k] = ""
	} else if (base == "int" && pname[k] in is_logical)
		what[k] = "logical"
	else if (base == "int" || ikind[k] != "") {
		what[k] = "integer"
		if (stars && pname[k] ~ /weights$/)
			array[k] = 1
	} else if (base == "double")
		what[k] = "double"
	else {
		what[k] = "handle"
		if (pname[k] ~ /^array_of/)
			array[k] = 1
	}
	if (remark("in", name, pname[k]) || array[k] == 3)
		intent[k] = "IN"
	if (stars && !constant && remark("inout", name, pname[k]))
		intent[k] = "INOUT"
	if (remark("sentinel", name, pname[k]))
		intent[k] = ""
}

# All parameters of function i; returns how many.
function parameters(i,	part, k, parts, m, c, j)
{
	m = 0
	if (params[i] != "void") {
		parts = split(params[i], part, /, /)
		for (k = 1; k <= parts; k++)
			if (part[k] != "...")
				parameter(i, ++m, part[k])
	}
	reduces = chapters[i] == 6 && params[i] ~ /MPI_Op op/ && params[i] ~ /void/
	for (k = 1; k <= m; k++) {
		if (what[k] != "choice")
			continue
		c = ""
		for (j = 1; j <= nbuffers; j++)
			if (plain(names[i]) ~ ("^(" buffer_function[j] ")$") && index(" " buffer_names[j] " ", " " pname[k] " "))
				c = buffer_class[j]
		if (c == "")
			c = reduces ? "copied" : k + 2 <= m && what[k + 1] == "integer" && !pointer[k + 1] && ptype[k + 2] == "MPI_Datatype" &&
				!array[k + 2] ? "elements" : "address"
		class[k] = c
	}
	returns_request = params[i] ~ /MPI_Request \*request/ && names[i] !~ /^(Start|Wait|Test|Cancel|Request_free)/
	asynchronous = returns_request || remark("sync", plain(names[i])) != ""
	has_choice = 0
	for (k = 1; k <= m; k++)
		has_choice += what[k] == "choice"
	return m
}

# ---- Fortran text -----------------------------------------------------------------------------------------------

# A statement, continued before column 130 (free form).
function put(text,	line, k, part, parts)
{
	if (length(text) <= 126) {
		print text
		return
	}
	parts = split(text, part, /, /)
	line = part[1]
	for (k = 2; k <= parts; k++) {
		if (length(line) + length(part[k]) > 118) {
			print line ", &"
			line = "      " part[k]
		} else
			line = line ", " part[k]
	}
	print line
}

function dimension(k)
{
	return array[k] == 3 ? "(3,*)" : array[k] == 2 ? "(count,*)" : array[k] ? "(*)" : ""
}

function with_intent(k)
{
	return intent[k] == "" ? "" : ", intent(" tolower(intent[k]) ")"
}

# The declaration of dummy argument k in a module; is_f08 says for which.
function declaration(k, is_f08, as_cptr,	t, dim, later)
{
	dim = dimension(k)
	later = asynchronous && (what[k] == "choice" || array[k] && intent[k] == "IN" && returns_request && what[k] != "status" ||
		pname[k] == "newcomm" && returns_request) ? ", asynchronous" : ""
	if (what[k] == "choice" || what[k] == "detach" && !is_f08)
		t = "type(*), dimension(..)"
	else if (what[k] == "cptr" || what[k] == "detach")
		t = is_f08 || as_cptr ? "type(c_ptr)" : "integer(MPI_ADDRESS_KIND)"
	else if (what[k] == "address")
		t = old_attributes ? "integer" : "integer(MPI_ADDRESS_KIND)"
	else if (what[k] == "string" || what[k] == "strings")
		t = "character(len=*)"
	else if (what[k] == "status") {
		t = is_f08 ? "type(MPI_Status)" : "integer"
		if (!is_f08)
			dim = array[k] ? "(MPI_STATUS_SIZE,*)" : "(MPI_STATUS_SIZE)"
	} else if (what[k] == "function")
		return is_f08 ? "procedure(" ptype[k] ") :: " fname[k] : "external :: " fname[k]
	else if (what[k] == "logical")
		t = "logical"
	else if (what[k] == "handle")
		t = is_f08 ? "type(" ptype[k] ")" : "integer"
	else
		t = ikind[k] == "" ? "integer" : "integer(MPI_" ikind[k] "_KIND)"
	return t (what[k] == "detach" && !is_f08 ? "" : with_intent(k)) later " :: " fname[k] dim
}

function result_type(i)
{
	return types[i] == "double" ? "double precision" : types[i] == "MPI_Aint" ? "integer(MPI_ADDRESS_KIND)" : ""
}

function has_ierror(i)
{
	return types[i] == "int" && names[i] != "Pcontrol"
}

# An interface body. symbol: the linker name if it is not the one that follows from the procedure's.
function body(i, m, procedure, symbol, is_f08, as_cptr,	k, list, r)
{
	r = result_type(i)
	list = ""
	for (k = 1; k <= m; k++)
		if (what[k] != "dropped")
			list = list (list == "" ? "" : ", ") fname[k]
	if (has_ierror(i))
		list = list (list == "" ? "" : ", ") "ierror"
	put((r == "" ? "subroutine " : "function ") procedure "(" list ")" (symbol == "" ? "" : " bind(C, name=\"" symbol "\")"))
	print "import"
	print "implicit none"
	if (r != "")
		print r " :: " procedure
	for (k = 1; k <= m; k++)
		if (what[k] != "dropped")
			put(declaration(k, is_f08, as_cptr))
	if (has_ierror(i))
		print "integer, " (is_f08 ? "optional, " : "") "intent(out) :: ierror"
	print "end " (r == "" ? "subroutine" : "function")
}

# Whether the large form of function i can have the small form's name: an INTEGER differs.
function told_apart(i)
{
	return remark("large", plain(names[i])) == "" && (forms[i] == 1 || small_differs[i])
}

function f08_interfaces(prefix,	i, m, generic, low, suffix)
{
	for (i = 1; i <= n; i++) {
		if (!bound(i) || chapters[i] == 16 && names[i] ~ /^(Attr_|Keyval_)/)
			continue
		m = parameters(i)
		generic = names[i] ~ /_c$/ && told_apart(i) ? plain(names[i]) : names[i]
		low = tolower(prefix names[i])
		suffix = has_choice ? "_f08ts" : "_f08"
		print "interface " prefix generic
		body(i, m, prefix names[i] suffix, has_choice ? low suffix "_" : "", 1, 0)
		print "end interface"
	}
}

function mpi_interfaces(prefix,	i, m, low, cptr, k)
{
	for (i = 1; i <= n; i++) {
		if (!bound(i) || names[i] ~ /_c$/)
			continue
		m = parameters(i)
		low = tolower(prefix names[i])
		old_attributes = names[i] ~ /^(Attr_|Keyval_)/
		cptr = 0
		for (k = 1; k <= m; k++) {
			cptr += what[k] == "cptr"
			has_choice += what[k] == "detach"
		}
		print "interface" (cptr ? " " prefix names[i] : "")
		body(i, m, prefix names[i], has_choice ? low "_fts_" : "", 0, 0)
		if (cptr)
			body(i, m, prefix names[i] "_cptr", "", 0, 1)
		print "end interface"
		old_attributes = 0
	}
}

# mpif.h: only functions have types.
function mpif_interfaces(	i, prefix, pass)
{
	for (pass = 1; pass <= 2; pass++) {
		prefix = pass == 1 ? "MPI_" : "PMPI_"
		for (i = 1; i <= n; i++)
			if (bound(i) && result_type(i) != "") {
				print "       " (result_type(i) ~ /double/ ? "DOUBLE PRECISION" : "INTEGER(KIND=MPI_ADDRESS_KIND)") " " toupper(prefix names[i])
				print "       EXTERNAL " toupper(prefix names[i])
			}
	}
}

# ---- constants --------------------------------------------------------------------------------------------------

# #define NAME VALUE of mpi.h: constants, in the order in which they stand there.
function constant(name, value)
{
	if (name !~ /^MPI_/ || name ~ /^MPI_(T|F)_/ || value ~ /function|void \*|char \*|int \*|MPI_Status|MPI_T_/)
		return
	sub(/[ \t]*\/\*.*$/, "", value)
	cname[++nconstants] = name
	if (value ~ /^\(\(MPI_[A-Za-z]+\)0x[0-9a-f]+\)$/) {
		ctype[nconstants] = substr(value, 3, index(value, ")") - 3)
		value = substr(value, index(value, ")") + 1)
		sub(/\)$/, "", value)
		cvalue[nconstants] = number(value)
	} else if (value ~ /^MPI_[A-Z_]+$/) {
		ctype[nconstants] = constant_type[value]
		cvalue[nconstants] = constant_value[value]
	} else if (value ~ /MPI_Offset/) {
		ctype[nconstants] = "offset"
		cvalue[nconstants] = -1
	} else {
		gsub(/[()]/, "", value)
		ctype[nconstants] = ""
		# a Fortran string has no terminating zero
		cvalue[nconstants] = number(value) - (name ~ /^MPI_MAX_/)
	}
	constant_type[name] = ctype[nconstants]
	constant_value[name] = cvalue[nconstants]
}

function number(text,	k, value)
{
	if (text !~ /^0[xX]/)
		return text + 0
	value = 0
	for (k = 3; k <= length(text); k++)
		value = value * 16 + index("0123456789abcdef", tolower(substr(text, k, 1))) - 1
	return value
}

function module_constants(is_f08,	k)
{
	for (k = 1; k <= nconstants; k++) {
		if (ctype[k] == "offset")
			print "integer(MPI_OFFSET_KIND), parameter :: " cname[k] " = " cvalue[k]
		else if (ctype[k] == "" || !is_f08)
			print "integer, parameter :: " cname[k] " = " cvalue[k]
		else
			print "type(" ctype[k] "), parameter :: " cname[k] " = " ctype[k] "(" cvalue[k] ")"
	}
}

function mpif_constants(	k)
{
	for (k = 1; k <= nconstants; k++) {
		print "       INTEGER" (ctype[k] == "offset" ? "(KIND=MPI_OFFSET_KIND)" : "") " " cname[k]
		print "       PARAMETER (" cname[k] "=" cvalue[k] ")"
	}
}

# Operators of handles: procedures of the library, so that modules have no code.
function comparisons(operator, suffix,	word, k, m)
{
	m = split("Comm Datatype Errhandler File Group Info Message Op Request Session Win", word, / /)
	print "interface operator(" operator ")"
	for (k = 1; k <= m; k++) {
		print "pure function mpifort_" tolower(word[k]) "_" suffix "(a, b)"
		print "import :: MPI_" word[k]
		print "implicit none"
		print "type(MPI_" word[k] "), intent(in) :: a, b"
		print "logical :: mpifort_" tolower(word[k]) "_" suffix
		print "end function"
	}
	print "end interface"
}

# ---- the C side -------------------------------------------------------------------------------------------------

function conversion(type)
{
	sub(/^MPI_/, "", type)
	return tolower(type)
}

# How many elements an array of handles has.
function elements(i, k)
{
	if (names[i] ~ /lltoallw/)
		return "mpifort_peers(comm_in(*comm), " (pname[k] ~ /^send/) ", " (names[i] ~ /eighbor/) ", sendbuf_b.addr)"
	if (names[i] ~ /^Type_get_contents/)
		return "*max_datatypes"
	return params[i] ~ /incount/ ? "*incount" : "*count"
}

# The text of one C function, described: with descriptors.
function c_function(i, m, described,	k, j, c, low, formal, args, before, after, nbuf, p, conv, r, lengths, temps, len, classes, type)
{
	low = tolower(names[i])
	r = result_type(i)
	formal = args = before = after = lengths = classes = ""
	nbuf = temps = 0
	for (k = 1; k <= m; k++) {
		p = pname[k]
		if (what[k] == "dropped")
			continue
		type = ptype[k]
		conv = conversion(ptype[k])
		if (what[k] == "choice" && described) {
			formal = formal ", const struct mpifort_desc *" p
			if (class[k] == "address")
				args = args ", address_in(" p "->base)"
			else {
				args = args ", b[" nbuf "].addr"
				c = count_of(k)
				if (class[k] != "copied") {
					for (j = k + 1; ptype[j] != "MPI_Datatype"; j++)
						;
					if (!array[c])
						replaced[c] = "(" ptype[c] ")b[" nbuf "].count"
					replaced[j] = "b[" nbuf "].type"
				}
				classes = classes "\tif (!rc)\n" wrap("\t\trc = mpifort_" class[k] "(&b[" nbuf "], " p ", " \
					(class[k] == "copied" || class[k] == "vector" ? "" : "*" pname[c] ", ") \
					(class[k] == "copied" ? "" : "datatype_in(*" pname[j] "), ") mode(i, k) ");") "\n"
				nbuf++
			}
			continue
		}
		if (what[k] == "choice") {
			formal = formal ", " (intent[k] == "IN" ? "const " : "") "void *" p
			args = args ", address_in(" p ")"
		} else if (what[k] == "cptr") {
			formal = formal ", void **" p
			args = args ", " p
		} else if (what[k] == "string") {
			if (described)
				formal = formal ", const struct mpifort_desc *" p
			else {
				formal = formal ", " (intent[k] == "IN" ? "const " : "") "char *" p
				lengths = lengths ", size_t " p "_len"
			}
			len = described ? p "->base, " p "->elem_len" : p ", " p "_len"
			if (intent[k] == "IN") {
				before = before "\tchar *" p "_c = mpifort_string(" len ", " (names[i] ~ /^Info_/) ");\n"
				after = after "\tfree(" p "_c);\n"
			} else {
				before = before "\tchar " p "_c[" string_room(i, k) "] = \"\";\n"
				after = after "\tmpifort_string_out(" len ", " p "_c, rc);\n"
			}
			args = args ", " p "_c"
		} else if (what[k] == "status") {
			formal = formal ", " (intent[k] == "IN" ? "const " : "") "MPI_Fint *" p
			args = args ", " (intent[k] == "IN" ? "(const MPI_Status *)" p : "status_in(" p ")")
		} else if (what[k] == "handle") {
			formal = formal ", " (intent[k] == "IN" ? "const " : "") "MPI_Fint *" p
			if (array[k]) {
				len = elements(i, k)
				before = before "\t" type " *" p "_c = NULL;\n"
				classes = classes "\tif (!rc)\n\t\trc = " conv "_array(&" p "_c, " (intent[k] == "OUT" ? "NULL" : p) ", " len ");\n"
				if (intent[k] != "IN")
					after = after "\tif (!rc)\n\t\t" conv "_array_out(" p ", " p "_c, " len ");\n"
				if (returns_request)
					temps = temps + 1
				else
					after = after "\tfree(" p "_c);\n"
				if (returns_request)
					kept = kept ", " p "_c"
				args = args ", " p "_c"
			} else if (!pointer[k])
				args = args ", " (k in replaced ? replaced[k] : conv "_in(*" p ")")
			else {
				before = before "\t" type " " p "_c = " (intent[k] == "OUT" ? null_of(type) : conv "_in(*" p ")") ";\n"
				args = args ", &" p "_c"
				if (intent[k] != "IN")
					after = after "\t*" p " = " conv "_out(" p "_c);\n"
			}
		} else if (array[k] == 3) {
			formal = formal ", int (*" p ")[3]"
			args = args ", " p
		} else if (what[k] == "logical" && ptype[k] == "void") {
			formal = formal ", void *" p
			args = args ", " p
		} else {
			# numbers
			formal = formal ", " (intent[k] == "IN" ? "const " : "") type " *" p
			if (pname[k] ~ /weights$/)
				args = args ", weights_in(" p ")"
			else
				args = args ", " (pointer[k] ? p : k in replaced ? replaced[k] : "*" p)
			if (what[k] == "logical" && intent[k] == "OUT" && !array[k])
				after = after "\tif (!rc)\n\t\t*" p " = *" p " ? MPIFORT_TRUE : MPIFORT_FALSE;\n"
		}
	}
	if (has_ierror(i))
		formal = formal ", MPI_Fint *ierror"
	formal = substr(formal lengths, 3)
	args = substr(args, 3)
	if (names[i] ~ /^File_.*_end$/) {
		sub(/address_in\([^)]*\)/, "mpifort_split_buffer(*fh, &)", args)
		after = "\tmpifort_split_end(rc, *fh);\n" after
	}
	if (formal == "")
		formal = "void"
	if (r != "") {
		print wrap(types[i] " MPIFORT_NAME(" low ")(" formal ")") "\n{\n\treturn MPIFORT_CALL(" names[i] ")(" args ");\n}"
		print "MPIFORT_ALIAS(" low ", " low "_f08);\n"
	} else {
		print wrap("void MPIFORT_NAME(" low (described ? "_f08ts" : "") ")(" formal ")") "\n{"
		printf "%s", before
		if (nbuf)
			print "\tstruct mpifort_buffer b[" nbuf "] = {0};"
		if (nbuf || classes != "") {
			print "\tint rc = MPI_SUCCESS;\n"
			gsub(/sendbuf_b\.addr/, described ? "b[0].addr" : "address_in(sendbuf)", classes)
			printf "%s", classes
			print "\tif (!rc)\n" wrap("\t\trc = MPIFORT_CALL(" names[i] ")(" args ");")
		} else
			print wrap("\tint rc = MPIFORT_CALL(" names[i] ")(" args ");") "\n"
		if (nbuf || temps) {
			if (names[i] ~ /^File_.*_begin/)
				print "\tmpifort_split_begin(rc, *fh, b);"
			else if (returns_request)
				print "\tmpifort_keep" (temps ? "_types" : "") "(rc, request_c, " (nbuf ? "b, " nbuf : "NULL, 0") ", " is_persistent(i) kept ");"
			else
				print "\tmpifort_done(b, " nbuf ");"
		}
		printf "%s", after
		if (has_ierror(i))
			print "\tif (ierror)\n\t\t*ierror = rc;"
		print "}"
		if (described)
			print "MPIFORT_ALIAS(" low "_f08ts, " low "_fts);\n"
		else {
			print "MPIFORT_ALIAS(" low ", " low "_f08);"
			for (k = 1; k <= m; k++)
				if (what[k] == "cptr" && names[i] !~ /_c$/)
					print "MPIFORT_ALIAS(" low ", " low "_cptr);"
			print ""
		}
	}
	kept = ""
	for (k in replaced)
		delete replaced[k]
}

# The parameter with the count of choice buffer k.
function count_of(k)
{
	return pname[k + 1] == "partitions" ? k + 2 : k + 1
}

# How a choice buffer that is not contiguous may be passed: enum mpifort_mode.
function mode(i, k,	m)
{
	m = intent[k] == "IN" ? "MPIFORT_IN" : "MPIFORT_OUT"
	if (asynchronous && !returns_request && names[i] !~ /^File_/ || names[i] ~ /^P(send|recv)_init/)
		m = "MPIFORT_LAYOUT"
	if (rooted(i, k))
		m = "mpifort_contiguous(" pname[k] ") || mpifort_root(*root, *comm) ? " m " : MPIFORT_IGNORED"
	return m
}

# Whether a buffer is significant at the root only.
function rooted(i, k)
{
	return params[i] ~ /int root/ && (pname[k] == "recvbuf" && names[i] ~ /[Gg]ather|[Rr]educe/ || pname[k] == "sendbuf" && names[i] ~ /[Ss]catter/)
}

function is_persistent(i)
{
	return plain(names[i]) ~ /_init$/ ? 1 : 0
}

function null_of(type)
{
	return type == "MPI_Datatype" ? "MPI_DATATYPE_NULL" : toupper(type) "_NULL"
}

# Bytes of a string that C fills in.
function string_room(i, k)
{
	if (pname[k] == "string")
		return "MPI_MAX_ERROR_STRING"
	if (pname[k] == "version")
		return "MPI_MAX_LIBRARY_VERSION_STRING"
	if (pname[k] == "name")
		return "MPI_MAX_PROCESSOR_NAME"
	if (pname[k] == "datarep")
		return "MPI_MAX_DATAREP_STRING"
	if (pname[k] == "port_name")
		return "MPI_MAX_PORT_NAME"
	if (pname[k] == "key")
		return "MPI_MAX_INFO_KEY"
	return "MPI_MAX_OBJECT_NAME"
}

# A C line, broken at commas.
function wrap(text,	line, part, parts, k, out)
{
	parts = split(text, part, /, /)
	line = part[1]
	out = ""
	for (k = 2; k <= parts; k++) {
		if (length(line) + length(part[k]) > 112) {
			out = out line ",\n\t\t"
			line = part[k]
		} else
			line = line ", " part[k]
	}
	return out line
}

function calls(	i, m)
{
	print "/* Made by fortran.awk. The C side of the Fortran bindings: calls.c includes this twice, for MPI_ and for PMPI_. */"
	for (i = 1; i <= n; i++) {
		if (!bound(i) || remark("hand", plain(names[i])))
			continue
		m = parameters(i)
		if (has_choice)
			c_function(i, m, 1)
		c_function(i, m, 0)
	}
}

function linker_names(	i, m, low, pass, k, described)
{
	for (i = 1; i <= n; i++) {
		if (!bound(i))
			continue
		m = parameters(i)
		for (pass = 1; pass <= 2; pass++) {
			low = tolower((pass == 1 ? "MPI_" : "PMPI_") names[i])
			if (names[i] !~ /_c$/)
				print low "_"
			if (names[i] ~ /^(Attr_|Keyval_)/)
				continue
			print low "_f08" (has_choice ? "ts" : "") "_"
			described = has_choice
			for (k = 1; k <= m; k++)
				described += what[k] == "detach"
			if (described && names[i] !~ /_c$/)
				print low "_fts_"
			for (k = 1; k <= m; k++)
				if (what[k] == "cptr" && names[i] !~ /_c$/)
					print low "_cptr_"
		}
	}
}

# ---- reading ----------------------------------------------------------------------------------------------------

# Which large forms differ from their small one by a default INTEGER.
function compare_forms(	i, k, m)
{
	for (i = 1; i <= n; i++) {
		if (names[i] !~ /_c$/)
			continue
		k = known[plain(names[i])]
		small_differs[i] = forms[i] == 1 || params[k] ~ /(^|[ ,])int / && signature(k) != signature(i)
	}
}

# The kinds of a function's integers as Fortran sees them: i for INTEGER, l for 8 bytes.
function signature(i,	k, m, s)
{
	m = parameters(i)
	s = ""
	for (k = 1; k <= m; k++)
		s = s (what[k] != "integer" ? "x" : ikind[k] == "" ? "i" : "l")
	return s
}

{
	kind = file_kind()
}
kind == "table" && (/^#/ || !NF) {
	next
}
kind == "table" && $1 ~ /^(logical|address|cptr)$/ {
	for (k = 2; k <= NF; k++) {
		if ($1 == "logical")
			is_logical[$k] = 1
		else if ($1 == "address")
			is_address[$k] = 1
		else
			is_cptr[$k] = 1
	}
	next
}
kind == "table" && $1 == "rename" {
	if (NF > 3)
		renamed_in[$2, $4] = $3
	else
		renamed[$2] = $3
	next
}
kind == "table" && $1 == "buffer" {
	buffer_class[++nbuffers] = $2
	buffer_function[nbuffers] = $3
	for (k = 4; k <= NF; k++)
		buffer_names[nbuffers] = buffer_names[nbuffers] " " $k
	next
}
kind == "table" {
	k = ++nremarks[$1]
	remark_function[$1, k] = $2
	rest = $0
	sub(/^[^ ]+ +[^ ]+ */, "", rest)
	remark_rest[$1, k] = rest
	next
}
kind == "header" {
	if (/^#define MPI_[A-Z0-9_]+[ \t]+/) {
		rest = $0
		sub(/^#define [A-Z0-9_]+[ \t]+/, "", rest)
		constant($2, rest)
	}
	next
}
kind == "template" && /^@procedures@$/ {
	compare_forms()
	if (make == "f08") {
		f08_interfaces("MPI_")
		f08_interfaces("PMPI_")
	} else if (make == "mpi") {
		mpi_interfaces("MPI_")
		mpi_interfaces("PMPI_")
	} else
		mpif_interfaces()
	next
}
kind == "template" && /^@comparisons@$/ {
	comparisons("==", "eq")
	comparisons("/=", "ne")
	next
}
kind == "template" && /^@constants@$/ {
	if (make == "mpif")
		mpif_constants()
	else
		module_constants(make == "f08")
	next
}
kind == "template" {
	print
}
END {
	if (make == "calls")
		calls()
	if (make == "names")
		linker_names()
}
