#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hw_mlx5 is for adapters. Smoke test: once on the software HCA as a ConnectX, by the provider for adapters. Run in the build directory;
# 3 seconds, spent in waiting for events that must not happen.
set -u
log=$(mktemp) || exit 99
trap 'rm -f "$log"' EXIT
SHCA_FABRIC=hw-$$ SHCA_VISIBLE=1 SHCA_IDENTITY=connectx SHCA_EXP_PROVIDER=mlx5
export SHCA_FABRIC SHCA_VISIBLE SHCA_IDENTITY SHCA_EXP_PROVIDER
timeout 120 tests/hardware/hw_mlx5 -d shca0 --calc >"$log" 2>&1 || { cat "$log"; echo "FAIL: hw_mlx5"; exit 1; }
grep -q '^13 ok, 0 failed, 0 skipped$' "$log" || { cat "$log"; echo "FAIL: not everything was checked"; exit 1; }
grep -q 'it counts requests$' "$log" || { cat "$log"; echo "FAIL: the unit of ENABLEs"; exit 1; }
timeout 120 tests/hardware/hw_mlx5 calc >"$log" 2>&1 || { cat "$log"; echo "FAIL: hw_mlx5 calc"; exit 1; }
grep -q '^skip  calc: ' "$log" || { cat "$log"; echo "FAIL: CALC is tried unasked"; exit 1; }
SHCA_IDENTITY=shca timeout 120 tests/hardware/hw_mlx5 -d shca0 >"$log" 2>&1
[ $? = 77 ] || { cat "$log"; echo "FAIL: a device that is none"; exit 1; }
