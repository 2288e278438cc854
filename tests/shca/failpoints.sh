#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every step of the engine at which a process can die, for every request and executor.
exec timeout 600 tests/shca/failpoints --all
