#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# heddle_info and the compiler wrappers.
. "$(dirname "$0")/launcher_lib.sh"
build=$PWD

expect 0 ./heddle_info --version; says "$out" "^Heddle "
expect 0 ./heddle_info; says "$out" "usage: heddle_info"
expect 0 env HEDDLE_EAGER_MAX=16k ./heddle_info --vars
says "$out" "^HEDDLE_EAGER_MAX = 16k$"
says "$out" "changed by the environment"
# Every variable is listed.
[ "$(grep -c '^HEDDLE_[A-Z_]* = ' "$out")" = "$(grep -c '^HDL_VAR' "$(dirname "$0")/../../src/runtime/vars.def")" ] ||
	fail "variables are missing"
[ "$(grep -c '^SHCA_[A-Z_0-9]* = ' "$out")" = "$(grep -c '^SHCA_VAR' "$(dirname "$0")/../../src/shca/fabric/vars.def")" ] ||
	fail "variables of libshca are missing"
expect 0 env SHCA_DEATH_MS=50 ./heddle_info --vars
grep -A 2 '^SHCA_DEATH_MS = 50$' "$out" | grep -q 'INT, ms, default 1000 (changed by the environment)' || fail "SHCA_DEATH_MS"
# ... and every variable that libshca reads is among them.
for v in $(grep -ohE '(getenv|shca_env_[a-z]*)\("SHCA_[A-Z_0-9]*"' "$(dirname "$0")"/../../src/shca/*/*.c "$(dirname "$0")"/../../src/shca/*/*/*.c | sed 's/.*"\(.*\)"/\1/' | sort -u); do
	says "$out" "^$v = "
done
expect 1 env HEDDLE_EAGER_MAX=x ./heddle_info --vars
expect 2 ./heddle_info --devicse; says "$err" "did you mean --devices"
expect 0 ./heddle_info --devices
says "$out" "^shca0 (software HCA"
says "$out" "queue kinds: RC UC UD XRC DC"
says "$out" "cross-channel (collectives by the HCA): yes"
says "$out" "extended masked atomics: yes, 4 bytes, 8 bytes, .*, 256 bytes"
says "$out" "calculation on send: CALC ADD BAND BXOR BOR \\[MIN MAX PROD MAXLOC\\] \\[vectors of 65536 bytes\\]"
says "$out" "dynamically connected transport: yes, at most [0-9]* targets"
says "$out" "port 1: "
$limit ./heddle_info --doctor >"$out" 2>"$err"
[ $? -le 1 ] || fail "--doctor"
for f in valgrind.supp lsan.supp; do says "$out" "$f"; done
for what in cores memlock '/dev/shm' 'copies between ranks' 'open files'; do says "$out" "^[okntebBAD ]* *$what"; done
(ulimit -Sn 100; $limit ./heddle_info --doctor) >"$out"
says "$out" "^note  open files  *100$"

# The wrappers of the build tree.
expect 0 ./heddlecc -show x.c -o x
says "$out" "-I.*/include x.c -o x -L$build/.libs .*-lheddle$"
expect 0 ./heddlecc -c -show x.c
says_not "$out" "-lheddle"
expect 0 ./heddlecc -showme:link; says "$out" "-lheddle"
expect 0 ./heddlec++ -showme:compile; says "$out" "-I"
expect 0 ./heddlecc -showme:incdirs; says "$out" "^/.*/include$"; says_not "$out" "-I"
expect 0 ./heddlecc -showme:libdirs; says "$out" "^$build/.libs$"
expect 0 ./heddlecc -showme:libs; says "$out" "^heddle$"
expect 0 ./heddlecc -cc="my cc" -showme:command; says "$out" "^my cc$"
expect 0 ./heddlecc -showme:version; says "$out" "^heddlecc: Heddle [0-9]*\.[0-9]*\.[0-9]*$"
expect 2 ./heddlecc -showme:nothing; says "$err" "-showme:nothing is not known"
expect 0 ./heddlecc -compile_info; says "$out" "^[a-z].* -I.*/include$"; says_not "$out" "-lheddle"
expect 0 ./heddlecc -link_info; says "$out" "^[a-z].* -I.* -L.* -lheddle$"
expect 0 ./heddlecc -cc=echo 'a b.c'; says "$out" "^-I.* a b.c -L"
expect 0 ./heddlec++ -cxx=echo x.cc -show; says "$out" "^echo -I.* x.cc -L"
expect 2 ./heddlecc
expect 0 env HEDDLE_CC="echo compiler" ./heddlecc 'a b.c' "-DX='y'"
says "$out" "^compiler -I.* a b.c -DX='y' -L"
mkdir "$tmp/with blank"
cat >"$tmp/with blank/hello.c" <<EOF
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	printf("%s %d\n", TEXT, rank);
	return MPI_Finalize();
}
EOF
ln -s hello.c "$tmp/with blank/hello.cc"
expect 0 ./heddlecc "-DTEXT=\"it's me\"" "$tmp/with blank/hello.c" -o "$tmp/with blank/hello"
expect 0 "$run" -n 2 "$tmp/with blank/hello"
says "$out" "^it's me 1$"
expect 0 ./heddlec++ '-DTEXT="plus"' "$tmp/with blank/hello.cc" -o "$tmp/hello++"
expect 0 "$run" -n 2 "$tmp/hello++"
says "$out" "^plus 0$"
expect 1 ./heddlecc -c "$tmp/with blank/hello.c" -o "$tmp/o"	# the compiler's error is the wrapper's

# The examples, as a reader of theirs compiles them: by the wrapper and nothing else.
for example in heat2d hybrid; do
	expect 0 ./heddlecc -O1 -Wall -Werror -fopenmp "$(dirname "$0")/../../examples/$example.c" -o "$tmp/example" -lm
done

# Those to be installed know nothing of the build tree.
for f in src/tools/heddlecc src/tools/heddlec++ src/tools/heddle.pc; do says_not "$f" "$build"; done
expect 0 src/tools/heddlecc -show; says "$out" "-lheddle"
exit 0
