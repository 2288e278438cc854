#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The bounded version of tests/shca/kills.
exec timeout 300 tests/shca/kills --quick
