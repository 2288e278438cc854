#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# 300 kills at random under full traffic.
exec timeout 600 tests/shca/random_kills
