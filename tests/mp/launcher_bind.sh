#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Binding: to cores when there are enough, within what heddlerun itself may use.
. "$(dirname "$0")/launcher_lib.sh"

mask='grep Cpus_allowed_list /proc/self/status | sed "s/.*:[[:space:]]*/cpus /"'
own=$(sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
first=${own%%[-,]*}
cores=$(for c in $(seq 0 $(($(nproc --all) - 1))); do
	taskset -c "$c" true 2>/dev/null && cat /sys/devices/system/cpu/cpu$c/topology/thread_siblings_list 2>/dev/null
done | sort -u | wc -l)

expect 0 "$run" --bind-to none -n 2 sh -c "$mask"
[ "$(sort -u "$out")" = "cpus $own" ] || fail "--bind-to none"
expect 0 "$run" -n $((cores + 1)) sh -c "$mask"
[ "$(sort -u "$out")" = "cpus $own" ] || fail "bound though there are more ranks than cores"
expect 0 "$run" -n "$cores" sh -c "$mask"
[ "$(sort -u "$out" | wc -l)" = "$cores" ] || fail "not a core each"
expect 0 taskset -c "$first" "$run" -n 1 sh -c "$mask"
[ "$(cat "$out")" = "cpus $first" ] || fail "bound outside of what is allowed"
expect 0 taskset -c "$first" "$run" --bind-to core -n 2 sh -c "$mask"
[ "$(sort -u "$out")" = "cpus $first" ] || fail "bound outside of what is allowed"
says "$err" "warning: 2 ranks share 1 cores"
exit 0
