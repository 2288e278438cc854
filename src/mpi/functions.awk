# SPDX-License-Identifier: BSD-3-Clause
# What is made of functions.def.
#
#     awk -f functions.awk -v make=header  functions.def mpi.h.in    mpi.h: @functions@ is replaced by the prototypes
#     awk -f functions.awk -v make=states  functions.def             which functions are present, for HDL_PROFILED
#     awk -f functions.awk -v make=missing functions.def             the definitions of the missing functions
#     awk -f functions.awk -v make=forward functions.def             libmpi_abi's functions, which jump into libheddle's
#     awk -f functions.awk -v make=outputs functions.def             a call of each function that returns a handle, for a test
#     awk -f functions.awk -v make=list    functions.def             the list as C, for heddle_info
#     awk -f functions.awk -v make=doc     functions.def             docs/conformance.md
#     nm -D --defined-only LIBRARY | awk -f functions.awk -v make=check functions.def -
#                                                                    whether the library exports all, and nothing else

function fail(text)
{
	print FILENAME ":" FNR ": " text | "cat >&2"
	failed = 1
	exit 1
}

# One form of a function: form 1 takes the left of A|B, form 2 the right.
function add(form, type, name, parameters,	left, both)
{
	while (match(parameters, /[A-Za-z_]+\|[A-Za-z_]+/)) {
		both = substr(parameters, RSTART, RLENGTH)
		left = index(both, "|")
		parameters = substr(parameters, 1, RSTART - 1) \
			(form == 1 ? substr(both, 1, left - 1) : substr(both, left + 1)) \
			substr(parameters, RSTART + RLENGTH)
	}
	if (name in known)
		fail("MPI_" name " is here twice")
	known[name] = ++n
	names[n] = name
	types[n] = type
	params[n] = parameters
	states[n] = state
	forms[n] = form
	chapters[n] = chapter
}

function entry(line,	word, type, name)
{
	if (!match(line, /^(present|missing) [A-Za-z_]+ [A-Za-z0-9_]+\(.*\)$/))
		fail("not understood: " line)
	split(line, word, /[ (]/)
	state = word[1]
	type = word[2]
	name = word[3]
	line = substr(line, index(line, "(") + 1)
	line = substr(line, 1, length(line) - 1)
	add(1, type, name, line)
	if (line ~ /\|/)
		add(2, type, name "_c", line)
}

function entry_end()
{
	if (pending != "")
		entry(pending)
	pending = ""
}

# A prototype, broken at commas so that no line is too long.
function prototype(prefix, i,	out, line, part, parts, k)
{
	parts = split(types[i] " " prefix names[i] "(" params[i] ")", part, /, /)
	line = part[1]
	for (k = 2; k <= parts; k++) {
		if (length(line) + length(part[k]) > 112) {
			out = out line ",\n\t"
			line = part[k]
		} else
			line = line ", " part[k]
	}
	return out line
}

function prototypes(	i)
{
	for (i = 1; i <= n; i++) {
		if (chapters[i] != chapters[i - 1])
			print (i > 1 ? "\n" : "") "/* Chapter " chapters[i] ": " titles[chapters[i]] " */"
		print prototype("MPI_", i) ";"
	}
	print "\n/* The same functions for tools that replace those above (section 15.2) */"
	for (i = 1; i <= n; i++)
		print prototype("PMPI_", i) ";"
}

# The communicator that a missing function raises its error on.
function communicator(i,	word)
{
	if (!match(params[i], /(^|, )MPI_Comm [a-z_0-9]+/))
		return "MPI_COMM_SELF"
	split(substr(params[i], RSTART, RLENGTH), word, /MPI_Comm /)
	return word[2]
}

# The handles that a function returns, as parameters: not those that it takes as well.
function outputs(i, out,	part, parts, k, n)
{
	n = 0
	if (names[i] ~ /(_free|_commit|_disconnect|_finalize|_close)$|^(Cancel|Start|Test|Wait|T_)/)
		return 0
	parts = split(params[i], part, /, /)
	for (k = 1; k <= parts; k++)
		if (part[k] ~ /^MPI_(Comm|Request|Group|Datatype|Op|Info|Errhandler|Message|Session|Win|File) \*[a-z_0-9]+$/ &&
		    !(names[i] ~ /recv/ && part[k] ~ /^MPI_Message /)) {
			out[++n] = part[k]
			sub(/^.*\*/, "", out[n])
		}
	return n
}

# A call with arguments that are none, but for the handles that it returns.
function call_of_outputs(i,	part, parts, k, out, n, given, arg, line, checks, type, args)
{
	n = outputs(i, out)
	if (!n)
		return
	for (k = 1; k <= n; k++)
		given[out[k]] = 1
	parts = split(params[i], part, /, /)
	for (k = 1; k <= parts; k++) {
		arg = part[k]
		sub(/\[.*$/, "", arg)
		sub(/^.*[ *]/, "", arg)
		type = part[k]
		sub(/ .*$/, "", type)
		if (arg in given) {
			line = line "\t" type " " arg " = (" type ")junk;\n"
			checks = checks " && IS_NULL(" arg ")"
			arg = "&" arg
		} else if (part[k] ~ /[*\[]/)
			arg = "NULL"
		else
			arg = part[k] ~ /^MPI_(Count|Aint|Offset) |^int / ? "-1" : "(" type ")0"
		args = args (k > 1 ? ", " : "") arg
	}
	print "{\n" line "\tint rc = MPI_" names[i] "(" args ");\n\n\tended(\"MPI_" names[i] "\", rc, 1" checks ");\n}"
}

function missing(i,	call, out, n, k)
{
	call = "\"MPI_" names[i] "\""
	print prototype("PMPI_", i) "\n{"
	n = outputs(i, out)
	for (k = 1; k <= n; k++)
		print "\tHDL_GIVES(" out[k] ");"
	if (types[i] != "int")
		print "\thdl_missing(" call ", MPI_COMM_SELF);\n\treturn (" types[i] ")0;"
	else if (names[i] ~ /^T_/)
		print "\treturn MPI_T_ERR_NOT_SUPPORTED;"
	else
		print "\treturn hdl_missing(" call ", " communicator(i) ");"
	print "}\nHDL_ALIAS(" names[i] ");\n"
}

# The names of a function's parameters, separated by commas.
function arguments(i,	part, parts, k, out)
{
	if (params[i] == "void")
		return ""
	parts = split(params[i], part, /, /)
	for (k = 1; k <= parts; k++) {
		if (part[k] == "...")
			break
		sub(/\[.*$/, "", part[k])
		sub(/^.*[ *]/, "", part[k])
		out = out (k > 1 ? ", " : "") part[k]
	}
	return out
}

function forward(i)
{
	print "extern __typeof__(PMPI_" names[i] ") hdl_abi_" names[i] ";"
	print prototype("PMPI_", i) "\n{\n\treturn hdl_abi_" names[i] "(" arguments(i) ");\n}"
	print "extern __typeof__(PMPI_" names[i] ") MPI_" names[i] " __attribute__((weak, alias(\"PMPI_" names[i] "\")));\n"
}

function doc(	i)
{
	print "# Conformance\n"
	print "The functions of MPI 5.0 with the MPI standard ABI 1.0, by chapter of the standard. None is missing; each has its Fortran forms"
	print "([fortran.md](fortran.md)). `heddle_info --functions` prints the list with totals.\n"
	print "This page is made from `src/mpi/functions.def` by `make conformance`.\n"
	print "## Beyond the text\n"
	print "Where the standard calls a program erroneous, or leaves a choice, and other MPIs go on:\n"
	print "* Local calls take `MPI_Comm_idup`'s communicator before its request is complete: size, rank, groups, comparison, name, attributes,"
	print "  info, error handler, topology. What is set there stays. Calls that communicate, and `MPI_Comm_free`, are `MPI_ERR_COMM`."
	print "* `MPI_Request_free` of a nonblocking collective that is done is its wait, with its errors. One that is active is"
	print "  `MPI_ERR_REQUEST`, and stays."
	print "* `MPI_Request_free` of an active request of `MPI_Rput` and its like (erroneous in MPI-5.0, allowed in MPI-4.1) lets the operation go on,"
	print "  which a flush completes."
	print "* A handle that a call was to return is null where the call fails, whatever stood there."
	print "* One buffer for both, of `MPI_Exscan` and of `MPI_Reduce` at its root, is `MPI_IN_PLACE`; of other collectives it is"
	print "  `MPI_ERR_BUFFER`. What only some ranks can refuse: [collectives.md](collectives.md), *Arguments*."
	print "* `MPI_Pack_size` and `MPI_Pack_external_size` take types that are not committed."
	print "* `MPI_Comm_connect` waits for `HEDDLE_CONNECT_TIMEOUT`, or for as many seconds as its info's key `timeout` says;"
	print "  `MPI_Comm_accept` has the key, too, and waits for ever without it."
	print "* `MPI_Group_from_session_pset` of a name that is none: `MPI_GROUP_NULL`, and no error. More on sessions:"
	print "  [partitioned-and-sessions.md](partitioned-and-sessions.md)."
	print "* `MPI_Info_create_env` knows `maxprocs` before `MPI_Init` by heddlerun's environment; under another PMIx launcher, which"
	print "  tells no number of one program's ranks there, the key is missing until then."
	print "* `MPI_Win_free` of a window of which a rank has died frees it, with `MPI_ERR_PROC_ABORTED`. A displacement that leads out of a"
	print "  window is `MPI_ERR_RMA_RANGE`; a call that the epoch does not allow is `MPI_ERR_RMA_SYNC`: [one-sided.md](one-sided.md), *Epochs*."
	print "* Files: what a program in error gets, what a collective does with arguments that one rank alone has wrong, hints, atomic mode:"
	print "  [files.md](files.md)."
	print "* `MPI_Dims_create` makes the largest and the smallest dimension that it chooses differ as little as can be."
	for (i = 1; i <= n; i++) {
		if (chapters[i] != chapters[i - 1])
			print "\n## " chapters[i] ". " titles[chapters[i]] "\n\n| function | |\n|---|---|"
		if (forms[i + 1] == 2) {
			print "| `MPI_" names[i] "`, `_c` | " states[i] " |"
			i++
		} else
			print "| `MPI_" names[i] "` | " states[i] " |"
	}
}

BEGIN {
	made = "/* Made by functions.awk of functions.def. */"
}
/^#/ && FNR == NR || FNR == NR && !NF {
	next
}
FNR == NR && /^\t/ {
	if (pending == "")
		fail("continues nothing")
	sub(/^\t/, " ")
	pending = pending $0
	next
}
FNR == NR {
	entry_end()
}
FNR == NR && /^chapter / {
	chapter = $2
	title = $0
	sub(/^chapter [0-9]+ /, "", title)
	titles[chapter] = title
	next
}
FNR == NR {
	pending = $0
	next
}
{
	entry_end()
}
make == "header" && /^@functions@$/ {
	prototypes()
	next
}
make == "header" {
	print
}
make == "check" && $3 ~ /^P?MPI_/ {
	exported[$3] = 1
}
END {
	if (failed)
		exit 1
	entry_end()
	if (make == "states") {
		print made
		for (i = 1; i <= n; i++)
			print "#define HDL_IS_PRESENT_" names[i] " " (states[i] == "present")
	}
	if (make == "missing") {
		print made "\n#include \"mpi/mpi_internal.h\"\n"
		for (i = 1; i <= n; i++)
			if (states[i] == "missing")
				missing(i)
	}
	if (make == "forward") {
		print made "\n#pragma GCC visibility push(default)\n#include <mpi.h>\n"
		for (i = 1; i <= n; i++)
			forward(i)
	}
	if (make == "list") {
		print made
		for (i = 1; i <= n; i++) {
			if (chapters[i] != chapters[i - 1])
				print "HDL_CHAPTER(" chapters[i] ", \"" titles[chapters[i]] "\")"
			print "HDL_FUNCTION(" chapters[i] ", \"MPI_" names[i] "\", " (states[i] == "present") ")"
		}
	}
	if (make == "outputs")
		for (i = 1; i <= n; i++)
			call_of_outputs(i)
	if (make == "doc")
		doc()
	if (make == "check") {
		for (i = 1; i <= n; i++) {
			if (!(("PMPI_" names[i]) in exported))
				wrong = wrong "\nMPI_" names[i] " is marked as " states[i] ", and PMPI_" names[i] \
					" is defined nowhere"
			else if (!(("MPI_" names[i]) in exported))
				wrong = wrong "\nMPI_" names[i] ": after PMPI_" names[i] \
					", HDL_PROFILED(" names[i] ") is lacking"
		}
		for (name in exported) {
			sub(/^P?MPI_/, "", name)
			if (!(name in known))
				wrong = wrong "\nMPI_" name " is exported and not listed"
		}
		if (wrong != "") {
			print "The library and src/mpi/functions.def differ:" wrong
			exit 1
		}
	}
}
