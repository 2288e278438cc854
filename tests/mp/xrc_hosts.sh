#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a rank as if SIZE ranks each were on a host of their own, as far as XRC domains go: each such host has another file of the job.
#     xrc_hosts.sh DIR SIZE PROGRAM [ARGUMENT...]     SIZE 0: no rank has such a file
dir=$1 size=$2; shift 2
if [ "$size" = 0 ]; then
	unset HEDDLERUN_FILE
else
	file=$dir/host.$((HEDDLE_LOCAL_RANK / size))
	exec 9>>"$file"
	HEDDLERUN_FILE=9:$(stat -c %d:%i "$file")
	export HEDDLERUN_FILE
fi
exec "$@"
