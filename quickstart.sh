#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs what is missing, builds into ./build, and runs the main job: examples/heat2d on 4 ranks.
set -eu
cd "$(dirname "$0")"
. scripts/debian.sh
heddle_packages build
[ -x configure ] && [ configure -nt configure.ac ] || ./autogen.sh >/dev/null 2>&1 || { ./autogen.sh; exit 1; }
mkdir -p build
[ -f build/Makefile ] || (cd build && ../configure -q)
make -s -C build -j"$(nproc)"
echo "build/heddlerun -n 4 --report-transports --report-collectives build/examples/heat2d"
exec build/heddlerun -n 4 --report-transports --report-collectives build/examples/heat2d "$@"
