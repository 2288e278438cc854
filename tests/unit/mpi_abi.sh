#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The ABI's library and header, as programs that were built for the ABI use them; and the list of functions.
set -u
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$PWD
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failures=0
fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}
list=$src/src/mpi/functions.def
made="awk -f $src/src/mpi/functions.awk -v make"

# The header compiles without a warning in every language that programs are written in.
echo '#include <mpi.h>' >"$tmp/h.c"
cp "$tmp/h.c" "$tmp/h.cc"
flags="-fsyntax-only -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -I$build/include"
for std in c11 c17 gnu11 gnu17; do
	${CC:-cc} -std=$std $flags "$tmp/h.c" || fail "mpi.h in $std"
done
flags=$(echo "$flags" | sed 's/-Wstrict-prototypes//')
for std in c++11 c++14 c++17 c++20; do
	${CXX:-c++} -std=$std $flags "$tmp/h.cc" || fail "mpi.h in $std"
done

# The integer constants are of type int in C++, too: no enumerators, which are of a type of their own each.
cat >"$tmp/h.cc" <<'EOF'
#include <mpi.h>
#include <algorithm>
int color(bool in) { return in ? 0 : MPI_UNDEFINED; }
int either(bool ok) { return ok ? MPI_SUCCESS : MPI_UNDEFINED; }
int code(int rc) { auto e = MPI_SUCCESS; e = rc; return std::max(e, MPI_ANY_TAG) + MPI_ERR_OTHER * MPI_TAG_UB; }
#if MPI_COMM_TYPE_SHARED == MPI_THREAD_MULTIPLE
#error "known to the preprocessor"
#endif
EOF
for std in c++11 c++20; do
	${CXX:-c++} -std=$std $flags "$tmp/h.cc" || fail "integer constants in $std"
done

# Both libraries export the whole ABI under both names, and the check of that can fail.
for lib in libheddle libmpi_abi; do
	nm -D --defined-only "$build/.libs/$lib.so" >"$tmp/$lib.nm"
	$made=check "$list" "$tmp/$lib.nm" || fail "$lib.so does not export the ABI"
done
sed 's/ MPI_Barrier$/ MPI_Barrief/' "$tmp/libheddle.nm" >"$tmp/spoiled.nm"
$made=check "$list" "$tmp/spoiled.nm" >"$tmp/out" && fail "a function that is not exported goes unnoticed"
grep -q '^MPI_Barrier: after PMPI_Barrier, HDL_PROFILED(Barrier) is lacking' "$tmp/out" || fail "said instead: $(cat "$tmp/out")"
grep -q '^MPI_Barrief is exported and not listed' "$tmp/out" || fail "said instead: $(cat "$tmp/out")"

# Linux does not choose the address of libheddle (configure.ac, HEDDLE_SEGMENT_LDFLAGS).
if [ "$(uname -m)" = x86_64 ]; then
	readelf -lW "$build/.libs/libheddle.so" | awk '$1 == "LOAD" { print $NF }' | sort -u >"$tmp/aligns"
	[ "$(cat "$tmp/aligns")" = 0x4000 ] || fail "segments of libheddle.so are aligned to $(tr '\n' ' ' <"$tmp/aligns")"
fi

# Exactly the missing functions are defined by the stubs.
nm "$build"/src/mpi/.libs/libheddle_internal_la-missing.o | sed -n 's/.* T PMPI_//p' | sort >"$tmp/stubs"
"$build/heddle_info" --functions >"$tmp/info" || fail "heddle_info --functions: exit code $?"
sed -n 's/^    MPI_\([^ ]*\) *missing$/\1/p' "$tmp/info" | sort >"$tmp/missing"
cmp -s "$tmp/stubs" "$tmp/missing" || fail "heddle_info --functions and the library differ: $(diff "$tmp/stubs" "$tmp/missing")"
[ "$(grep -c '^    MPI_' "$tmp/info")" = 664 ] || fail "heddle_info --functions does not print 664 functions"
present=$(grep -c '^    MPI_.* present$' "$tmp/info")
grep -q "^ *$present of  664   in all$" "$tmp/info" || fail "heddle_info --functions: $(tail -1 "$tmp/info"), and $present are present"

# The page that is made of the list.
$made=doc "$list" | cmp -s - "$src/docs/conformance.md" ||
	fail "docs/conformance.md is not what src/mpi/functions.def says: run 'make conformance' in the build tree"

# The README and heddle_info say that none is missing, and that is so.
head -n 1 "$tmp/info" | grep -q ' None is missing\.$' || fail "heddle_info --functions: $(head -n 1 "$tmp/info")"
grep -q '^No function of MPI 5.0 is missing' "$src/README.md" || fail "README.md does not say which functions of MPI are missing"
[ ! -s "$tmp/missing" ] || fail "README.md says that no function is missing; functions.def: $(head -n 3 "$tmp/missing" | tr '\n' ' ')"

# A program that was built for the ABI needs the ABI's library by name, and no other MPI library.
cat >"$tmp/program.c" <<'EOF'
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank, size, kind, code;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	code = MPI_Comm_rank(MPI_COMM_WORLD, NULL);
	MPI_Error_class(code, &kind);
	printf("rank %d of %d, class %d\n", rank, size, kind);
	MPI_Pcontrol(1);
	MPI_Finalize();
	return 0;
}
EOF
cp "$tmp/program.c" "$tmp/program.cc"
"$build/mpicc_abi" "$tmp/program.c" -o "$tmp/c" || fail "mpicc_abi"
"$build/mpicxx_abi" "$tmp/program.cc" -o "$tmp/cxx" || fail "mpicxx_abi"
needed=$(readelf -d "$tmp/c" "$tmp/cxx" | sed -n 's/.*NEEDED.*\[\(.*\(mpi\|heddle\).*\)\]/\1/p' | tr '\n' ' ')
[ "$needed" = "libmpi_abi.so.1 libmpi_abi.so.1 " ] || fail "the programs need $needed"
for program in c cxx; do
	timeout 60 "$build/heddlerun" -n 2 "$tmp/$program" >"$tmp/out" 2>&1 || fail "$program: exit code $?: $(cat "$tmp/out")"
	[ "$(sort "$tmp/out")" = "rank 0 of 2, class 13
rank 1 of 2, class 13" ] || fail "$program: $(cat "$tmp/out")"
done

# Both libraries in one process are one library.
cat >"$tmp/part.c" <<'EOF'
#include <mpi.h>
int part_rank(void);
int part_rank(void)
{
	int rank = -1;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	return rank;
}
EOF
cat >"$tmp/both.c" <<'EOF'
#include <mpi.h>
#include <stdio.h>
int part_rank(void);
int main(void)
{
	int rank;
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	printf("%d %d\n", rank, part_rank());
	MPI_Finalize();
	return 0;
}
EOF
"$build/heddlecc" -shared -fPIC "$tmp/part.c" -o "$tmp/libpart.so" &&
	"$build/mpicc_abi" "$tmp/both.c" -L"$tmp" -lpart -Wl,-rpath,"$tmp" -o "$tmp/both" || fail "a program with both libraries"
timeout 60 "$build/heddlerun" -n 2 "$tmp/both" >"$tmp/out" 2>&1 || fail "both: exit code $?"
[ "$(sort "$tmp/out")" = "0 0
1 1" ] || fail "both: $(cat "$tmp/out")"

# As interpreters load it: at run time, for themselves only.
cat >"$tmp/load.c" <<'EOF'
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	__typeof__(MPI_Init) *init;
	__typeof__(MPI_Comm_rank) *rank_of;
	__typeof__(MPI_Finalize) *finalize;
	int rank = -1;

	if (!lib || argc != 2) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&init = dlsym(lib, "MPI_Init");
	*(void **)&rank_of = dlsym(lib, "PMPI_Comm_rank");
	*(void **)&finalize = dlsym(lib, "MPI_Finalize");
	init(NULL, NULL);
	rank_of(MPI_COMM_WORLD, &rank);
	printf("%d\n", rank);
	return finalize();
}
EOF
${CC:-cc} -I"$build/include" "$tmp/load.c" -o "$tmp/load" -ldl || fail "a program that loads the library"
timeout 60 "$build/heddlerun" -n 2 "$tmp/load" "$build/.libs/libmpi_abi.so.1" >"$tmp/out" 2>&1 || fail "load: exit code $?"
[ "$(sort "$tmp/out")" = "0
1" ] || fail "load: $(cat "$tmp/out")"

[ $failures -eq 0 ] || exit 1
