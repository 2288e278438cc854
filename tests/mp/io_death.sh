#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A rank dies while all access a file: every survivor is told, and the dead rank is named. IO=all: more. Run in the build directory.
. "$(dirname "$0")/death_lib.sh"

dies() {	# dies RANKS DEAD CASE [AFTER]
	one_dies "$1" "$2" "$3, rank $2 of $1 dies${4:+ in $4 us}" tests/mp/io_death "$2" "$3" "$count" "$tmp/file" ${4:+"$4"}
}

for case in write read iwrite ordered sync open; do
	dies 3 2 $case
	dies 4 0 $case
done
for after in 20000 31000 ${IO:+40000 47000 53000 61000 78000 90000}; do
	for case in write read iwrite open ${IO:+ordered sync}; do
		dies 4 1 $case $after
	done
done
exit $((fails != 0))
