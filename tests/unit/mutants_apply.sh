#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every mutant of tests/mutants.d still finds the text that it breaks: a change of that text must change the mutant, too.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
exec python3 "${srcdir:-$(dirname "$0")/../..}/tests/mutants" --list
