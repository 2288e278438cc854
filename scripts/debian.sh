#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs the Debian packages that are missing. Sourced; heddle_packages build|check.
#   build  packages that configure and make need
#   check  further packages for the tests: other projects' programs, tools
# Does nothing, quickly, when everything is there. Needs root or sudo only when something is missing.

heddle_build_packages="gcc g++ make autoconf automake libtool pkg-config libibverbs-dev libpmix-dev libhwloc-dev"
heddle_check_packages="clang gfortran libomp-dev libcriterion-dev rdma-core ibverbs-utils perftest infiniband-diags librdmacm-dev rdmacm-utils libfabric-bin qperf ucx-utils procps iproute2 strace valgrind openmpi-bin libopenmpi-dev \
python3 python3-pyverbs tshark cmake meson qemu-system-x86 busybox-static cpio kmod xz-utils"

heddle_packages() {
	want=$heddle_build_packages
	[ "$1" = check ] && want="$want $heddle_check_packages"
	missing=
	for p in $want; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
	done
	[ -n "$missing" ] || return 0
	as_root=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || {
			echo "heddle: these packages are missing and neither root nor sudo is here to install them:$missing" >&2
			return 1
		}
		as_root=sudo
	fi
	echo "heddle: installing:$missing"
	$as_root apt-get update -qq &&
		$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
		echo "heddle: apt-get could not install:$missing" >&2
		return 1
	}
}
