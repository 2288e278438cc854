#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Fortran programs by each of the three interfaces, compiled by the wrappers of the build tree, on 1 to 3 ranks.
#   programs.sh [NAME...]     standard, sections, callbacks, legacy, modules, files, corners, processes, heat; all without a name
. "$(dirname "$0")/../mp/launcher_lib.sh"
[ -x ./heddlefc ] || { echo "skipped: built without Fortran"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
fc=$PWD/heddlefc abi=$PWD/mpifort_abi cc=$PWD/heddlecc
cd "$tmp" || exit 1
compile() { expect 0 "$@"; [ ! -s "$err" ] || fail "the compiler says something: $*"; }
ranks() { expect 0 "$run" -n "$1" "$2"; says "$out" "^$(basename "$2"): 0 wrong"; }
for t in ${*:-standard sections callbacks legacy modules files corners processes heat}; do
	case $t in
	# copies would hide behind optimisation, and so would sections that go out of scope
	sections) compile "$fc" -O2 "$here/testing.f90" "$here/sections.f90" -o sections ;;
	files | corners) compile "$fc" -O2 "$here/testing.f90" "$here/$t.f90" -o $t ;;
	standard) compile "$fc" -O2 "$here/testing.f90" "$here/standard.f90" -o standard ;;
	callbacks) compile "$fc" -O1 -fcheck=bounds "$here/testing.f90" "$here/callbacks.f90" -o callbacks ;;
	legacy) expect 0 "$fc" -O1 "$here/legacy.f" -o legacy ;;
	modules) compile "$cc" -c "$here/interop.c"; compile "$abi" -O2 "$here/modules.f90" interop.o -o modules ;;
	processes)
		compile "$cc" -c "$here/processes.c"; compile "$fc" -O1 "$here/processes.f90" processes.o -o processes
		ranks 1 ./processes
		continue ;;
	heat)
		compile "$fc" -O2 "$here/../../examples/heat2d_f08.f90" -o heat
		for n in 1 2 3; do
			expect 0 "$run" -n $n ./heat 48 40
			says "$out" '^PASS'
		done
		continue ;;
	esac
	for n in 1 2 3; do ranks $n ./$t; done
done
# The library may run on another implementation of the ABI: no symbol of Heddle's own is needed.
needs=$(nm -D --undefined-only "$OLDPWD/.libs/libmpifort_abi.so" | awk '{ print $2 }' | grep -i 'hdl_\|heddle\|shca')
[ -z "$needs" ] || fail "libmpifort_abi needs $needs"
exit 0
