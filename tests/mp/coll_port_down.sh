#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The port is down while cells are posted: they are read later, or the requests give up. Run in the build directory.
. "$(dirname "$0")/coll_lib.sh"

for odp in 0 1; do
	try "port down, HEDDLE_ODP=$odp" 3 -x HEDDLE_ODP=$odp -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_port_down "$PWD/shcactl"
done
try "port down for good" 3 -x HEDDLE_COLL_EXECUTOR=mailbox tests/mp/coll_port_down "$PWD/shcactl" left

[ $fails = 0 ]
